"""`midstream sim`: the doubles as a program of their own, and the matrix they judge."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest
from click.testing import CliRunner

from midstream.cli.main import main
from midstream.cli.sim import _best_known
from midstream.doctor import SCENES
from midstream.sim.players import make_players


def test_serve_says_where_it_is_answers_and_ends_at_ctrl_c() -> None:
    command = [sys.executable, "-u", "-m", "midstream.cli.main", "sim", "serve", "--port", "0", "--delay", "0"]
    command += ["--key", "the right one"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        killer = threading.Timer(60, server.kill)  # a server that does not hear must not hang the suite
        killer.start()
        try:
            first = server.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+", first)
            assert found is not None, first
            body = b'{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]}'
            assert "only your key works" in first
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{found[0]}/openai/v1/models")
            with refused.value as error:
                assert error.status == 401
            key = {"authorization": "Bearer the right one"}
            request = urllib.request.Request(f"{found[0]}/openai/chat/completions", body, key, method="POST")
            with urllib.request.urlopen(request) as answer:
                assert b"You said: hi" in answer.read()
            shown = "".join(server.stdout.readline() for _ in range(12))
            assert re.search(rf"{found[0]}/moonshot +MOONSHOT_BASE_URL\n", shown)
            assert re.search(rf"{found[0]}/anthropic +ANTHROPIC_BASE_URL\n", shown) and f"{found[0]}/sim\n" in shown
        finally:
            server.send_signal(signal.SIGINT)
        status = server.wait()
        killer.cancel()
        assert status == 0


def test_a_port_that_is_taken_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = CliRunner().invoke(main, ["sim", "serve", "--port", str(taken.getsockname()[1])])
    assert result.exit_code == 1 and "cannot listen on" in result.output


def test_an_unknown_fault_is_wrong_usage() -> None:
    result = CliRunner().invoke(main, ["sim", "serve", "--fault", "flood"])
    assert result.exit_code == 2 and "restart-index" in result.output


def test_the_matrix_is_clean() -> None:
    result = CliRunner().invoke(main, ["sim", "matrix"])
    assert result.exit_code == 0, result.output
    known = len(_best_known())
    assert f"{known**2 * len(SCENES)} hand-offs, {known} x {known} dialects, 0 refused" in result.output


def test_all_of_it_is_handed_over_in_processes_with_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    players = make_players()
    few = {name: players[name] for name in ("moonshot-k2.5", "claude", "gemini-3-pro")}
    monkeypatch.setattr("midstream.cli.sim.make_players", lambda: few)
    result = CliRunner().invoke(main, ["sim", "matrix", "--all", "--jobs", "2"])
    assert result.exit_code == 0, result.output
    assert f"{9 * len(SCENES)} hand-offs, 3 x 3 dialects, 0 refused" in result.output


def test_an_unknown_strictness_is_wrong_usage() -> None:
    result = CliRunner().invoke(main, ["sim", "serve", "--strict", "very"])
    assert result.exit_code == 2 and "'documented', 'paranoid'" in result.output
