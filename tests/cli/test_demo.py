"""The demo: on the doubles, in every form of output, with what it claims at the end held to be true."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from midstream.agent.toolbox import Toolbox
from midstream.cli.demo import FURTHER, TOUR, Tour
from midstream.cli.demo_stage import JsonStage, TextStage, _words
from midstream.cli.main import main
from midstream.client.client import Client
from midstream.client.session import Session
from midstream.core.blocks import Thinking
from midstream.core.events import TextDelta, ThinkingDelta, ThinkingEnd, ThinkingStart
from midstream.sim import server
from midstream.testing import Answer, Call, sim_server
from tests.client.scripted import Cut, Host, play


def run(*arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(main, ["demo", *arguments], **options)


def test_it_ends_with_nothing_refused() -> None:
    result = run("--fast")
    assert result.exit_code == 0, result.output
    assert "6 requests, 5 models, 0 refused." in result.output
    assert "refused at 4 of 5 switches" in result.output  # DeepInfra takes foreign ids; its model imitates them
    for model in TOUR:
        assert f"{model} (" in result.output


def test_it_shows_the_same_call_on_every_wire() -> None:
    shown = run("--fast").output
    own = re.search(r"hist_tool_([\w-]{24})", shown)
    assert own is not None
    for wire_id in (f"toolu_{own[1]}", f"call_{own[1]}", "functions.read_file:1"):
        assert wire_id in shown
    assert re.search(r"mistral-large-latest as +[A-Za-z0-9]{9}\n", shown)
    assert "Tool call id was glob:0 but must be a-z, A-Z, 0-9, with a length of 9." in " ".join(shown.split())
    assert "Here is what I found." in shown and "Night train to Oslo" in shown.rpartition("Here is")[2]


def test_json_is_one_object_a_line() -> None:
    result = run("--json")
    told = [json.loads(line) for line in result.output.splitlines()]
    assert told[0]["kind"] == "opening" and told[-1] == {
        "kind": "closing", "models": 5, "requests": 6, "switches": 5, "refused": 0, "broken": 0, "saved": 4,
    }  # fmt: skip
    first = [line["event"]["type"] for line in told if line["kind"] == "event"]
    assert first[:2] == ["start", "thinking_start"] and first.count("done") == 6
    assert len([line for line in told if line["kind"] == "result"]) == 7


def test_a_pipe_gets_no_escapes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "midstream.cli.main", "demo", "--fast"], capture_output=True, timeout=60, check=True
    )
    assert b"\x1b" not in done.stdout and b"0 refused" in done.stdout
    assert done.stderr == b""


def test_a_terminal_gets_colours_unless_it_asks_for_none(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    TextStage().rule("x")
    assert "\x1b[" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    TextStage().rule("x")
    assert "\x1b[3" not in capsys.readouterr().out


def test_a_refusal_is_counted_and_ends_in_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the double refuses everything. The closing line must not say 0."""
    problem = server.Problem("planted", "not today")
    monkeypatch.setattr(server, "judge", lambda body, host, strict: [problem])
    result = run("--fast")
    assert result.exit_code == 1
    assert "not today" in result.output and " 0 refused" not in result.output


def test_without_a_key_live_says_which_one_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MOONSHOT_API_KEY", "KIMI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    result = run("--live", "moonshot/kimi-k2.5")
    assert result.exit_code == 1 and "set MOONSHOT_API_KEY" in result.output
    assert run("--live", " , ").exit_code == 2


def test_live_takes_the_same_tour_at_the_addresses_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real model may be done in one turn: the next is then asked something further."""
    with sim_server() as sim:
        monkeypatch.setenv("MOONSHOT_API_BASE", sim.base_url("moonshot"))
        monkeypatch.setenv("ANTHROPIC_BASE_URL", sim.base_url("anthropic"))
        monkeypatch.setenv("OPENAI_BASE_URL", sim.base_url("openai"))
        for name in ("MOONSHOT_API_KEY", "KIMI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        models = "moonshot/kimi-k2.5,anthropic/claude-sonnet-4-5,openai/gpt-4o,moonshot/kimi-k2.5"
        result = run("--live", models)
        assert result.exit_code == 0, result.output
        assert ", 3 models, 0 refused." in result.output and "Night train" in result.output
        assert sim.requests >= 6 and not sim.refused
    with sim_server(*["Done."] * 2, Answer("", "", (Call("glob", {"pattern": "*"}),)), "Bye.") as sim:
        monkeypatch.setenv("MOONSHOT_API_BASE", sim.base_url("moonshot"))
        monkeypatch.setenv("ANTHROPIC_BASE_URL", sim.base_url("anthropic"))
        result = run("--live", "moonshot/kimi-k2.5,anthropic/claude-sonnet-4-5,moonshot/kimi-k2.5")
        assert "4 requests, 2 models, 0 refused." in result.output, result.output
        assert FURTHER[0] in " ".join(result.output.split())


def test_long_thinking_is_folded(capsys: Any) -> None:
    stage = TextStage()
    stage.event(ThinkingStart(0))
    stage.event(ThinkingDelta(0, "x" * 300))
    stage.event(ThinkingEnd(0, Thinking("x" * 300)))
    out = capsys.readouterr().out
    assert out.count("x") == 100 and "200 characters folded" in out


def test_what_a_model_says_cannot_steer_the_terminal(capsys: Any) -> None:
    TextStage().event(TextDelta(0, "\x1b[2Jgone\x07"))
    out = capsys.readouterr().out
    assert "\x1b" not in out and "gone" in out


def test_words_join_back() -> None:
    for text in ("", "a", " a  b c ", "two\nlines ", "  "):
        assert "".join(_words(text)) == text


def test_the_calls_of_a_cut_answer_are_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = Answer(calls=(Call("read_file", {"path": "plan.md"}),))

    async def tour(host: Host, client: Client) -> Session:
        toolbox = Toolbox(("read_file",), workdir=tmp_path)
        session = Session("a/m", client=client, tools=toolbox.specs())
        totals = await Tour(session, toolbox, JsonStage(), ("a/m",)).run()
        assert totals.broken == 1
        return session

    session = play([Cut(asked, 3), Answer("ok")], tour)
    answer = session.conversation.turns[1]
    assert answer.failure == "truncated" and answer.tool_calls
    assert not any(turn.speaker == "tool" for turn in session.conversation.turns)
    capsys.readouterr()
