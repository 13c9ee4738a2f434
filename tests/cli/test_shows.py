"""The commands that show things: models, sessions, config, completion."""

from __future__ import annotations

import os
import socketserver
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from midstream.cli.terminal import wants_color
from midstream.dialects.registry import REGISTRY

from .conftest import Cli

KIMI = ("-m", "sim/kimi-k2.5")


class Stream:
    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("choice", "environ", "terminal", "expected"),
    [
        ("auto", {"TERM": "xterm"}, True, True),
        ("auto", {"TERM": "xterm"}, False, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("auto", {"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ("auto", {"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"FORCE_COLOR": "0"}, False, False),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
        ("always", {"NO_COLOR": "1", "TERM": "dumb"}, False, True),
        ("never", {"FORCE_COLOR": "1", "TERM": "xterm"}, True, False),
    ],
)
def test_color(choice: str, environ: dict[str, str], terminal: bool, expected: bool) -> None:
    assert wants_color(choice, Stream(terminal), environ) is expected  # type: ignore[arg-type]


def test_models_name_every_known_model_and_its_key(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    result = cli("models", "--json")
    rows = {row["name"]: row for row in map(msgspec.json.decode, result.stdout.splitlines())}
    assert set(REGISTRY.known_models()) <= set(rows)
    assert rows["moonshot/kimi-k2.5"]["tool_format"] == "kimi"
    assert rows["moonshot/kimi-k2.5"]["key_state"] == "set MOONSHOT_API_KEY"
    assert rows["sim/kimi-k2.5"]["key_state"] == "needs no key"
    monkeypatch.setenv("KIMI_API_KEY", "sk-canary")
    shown = cli("models", "kimi-k2.5")
    assert "KIMI_API_KEY is set" in shown.stdout and "sk-canary" not in shown.output
    assert "claude" not in shown.stdout
    assert cli("models", "no-such-thing").exit_code == 2


def test_sessions_list_search_show_export_import_delete(cli: Cli, tmp_path: Path) -> None:
    assert cli("sessions").exit_code == 0
    cli("ask", *KIMI, "Where is the river\x1b[31m?")
    cli("ask", *KIMI, "Tell me of mountains")
    listed = cli("sessions").stdout.splitlines()
    assert len(listed) == 2 and "mountains" in listed[0] and "river␛[31m" in listed[1]
    ids = [row["id"] for row in map(msgspec.json.decode, cli("sessions", "--json").stdout.splitlines())]
    assert ids[1][:8] in cli("sessions", "search", "river").stdout
    assert "## You" in cli("sessions", "show", ids[0][:8]).stdout
    exported = cli("sessions", "export", "--all").stdout
    assert exported.count('"midstream":1') == 2
    assert cli("sessions", "export").stdout.startswith("# Tell me of mountains")
    for name, more in {"one.md": (), "one.jsonl": (), "whole.jsonl": ("--all",)}.items():
        written = tmp_path / name
        assert cli("sessions", "export", *more, "-o", str(written)).stdout == ""
        assert written.stat().st_mode & 0o777 == 0o600  # as private as the store
        assert written.read_text().startswith("# Tell" if name == "one.md" else '{"midstream":1')
        assert "exists already" in cli("sessions", "export", *more, "-o", str(written)).stderr
    assert (tmp_path / "whole.jsonl").read_text() == exported
    assert cli("sessions", "export", "--all", "--format", "md").exit_code == 2
    assert cli("sessions", "delete", ids[0], stdin="n\n").exit_code != 0
    assert cli("sessions", "delete", "-y", ids[0]).exit_code == 0
    assert len(cli("sessions").stdout.splitlines()) == 1
    file = tmp_path / "all.jsonl"
    file.write_text(exported, "utf-8", newline="")
    assert len(cli("sessions", "import", str(file)).stdout.split()) == 2
    assert len(cli("sessions").stdout.splitlines()) == 3


def test_sessions_list_is_sessions(cli: Cli) -> None:
    cli("ask", *KIMI, "One")
    cli("ask", *KIMI, "Two")
    assert cli("sessions", "list").stdout == cli("sessions").stdout != ""
    assert cli("sessions", "list", "-n", "1", "--json").stdout == cli("sessions", "-n", "1", "--json").stdout


def test_a_search_of_the_store_groups_by_conversation(cli: Cli) -> None:
    cli("ask", *KIMI, "Where is the river\x1b[31m?")
    cli("ask", "-c", "And another river?")
    cli("ask", *KIMI, "A hill")
    lines = cli("sessions", "search", "river").stdout.splitlines()
    assert len(lines) == 5 and "river␛[31m?" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == ["ai", "human", "ai", "human"]
    nothing = cli("sessions", "search", "glacier")
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (0, "", "no matches\n")


def test_config_alone_shows_the_settings(cli: Cli) -> None:
    assert cli("config").stdout == cli("config", "show").stdout != ""
    assert cli("config").exit_code == 0


def test_config_says_where_each_value_comes_from(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "default_model = moonshot/kimi-k2.5    # default" in cli("config", "show", "--origin").stdout
    home.mkdir()
    (home / "config.toml").write_text(
        'default_model = "sim/kimi-k3"\n[providers.work]\nbase_url = "http://127.0.0.1:9/v1"\n'
        'headers = { X-Token = "canary-header" }\n[models."work/kimi-k2.5"]\ncontext = 9\n'
    )
    Path(".midstream.toml").write_text('[aliases]\nfast = "sim/gpt-4o"\n')
    monkeypatch.setenv("MOONSHOT_API_KEY", "canary-key")
    result = cli("config", "show", "--origin")
    lines = result.stdout.splitlines()
    assert f"default_model = sim/kimi-k3    # {home / 'config.toml'}" in lines
    assert any(line.startswith("aliases.fast = sim/gpt-4o") and line.endswith(".midstream.toml") for line in lines)
    assert any(line.startswith("models.work/kimi-k2.5.context = 9") for line in lines)
    assert "providers.moonshot.api_key = (set)    # $MOONSHOT_API_KEY" in lines
    assert "canary" not in result.output
    monkeypatch.setenv("MIDSTREAM_MODEL", "sim/gpt-4o")
    assert "default_model = sim/gpt-4o    # $MIDSTREAM_MODEL" in cli("config", "show", "--origin").stdout
    found = msgspec.json.decode(cli("config", "show", "--json").stdout)
    assert found["aliases.fast"] == "sim/gpt-4o"
    assert cli("ask", "-m", "fast", "Hello").stdout.startswith("This is gpt-4o.")
    assert cli("config", "path").stdout.strip() == str(home / "config.toml")


def test_config_shows_no_user_info(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir()
    (home / "config.toml").write_text('[providers.work]\nbase_url = "https://me:canary@models.example/v1"\n')
    monkeypatch.setenv("OPENAI_BASE_URL", "https://canary@other.example/v1")
    for args in ((), ("--origin",), ("--json",)):
        result = cli("config", "show", *args)
        assert "(hidden)@models.example/v1" in result.stdout and "(hidden)@other.example/v1" in result.stdout
        assert "canary" not in result.output


def test_a_project_file_that_does_not_count_is_told_of(cli: Cli, home: Path) -> None:
    Path(".midstream.toml").write_text('default_model = "sim/gpt-4o"\n')
    Path(".midstream.toml").chmod(0o666)
    for args in (("config", "show"), ("ask", "-m", "sim/kimi-k2.5", "Hello")):
        result = cli(*args)
        assert result.exit_code == 0 and "gpt-4o" not in result.stdout
        assert "midstream: ignored: " in result.stderr and ".midstream.toml: everybody may write it" in result.stderr


def test_a_key_over_plain_http_is_one_line_on_standard_error(home: Path) -> None:
    """Through a proxy of the test's own, so that no name is looked up."""
    answer = b"HTTP/1.1 401 No\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"

    class Proxy(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(answer)

    home.mkdir()
    (home / "config.toml").write_text('[providers.work]\nbase_url = "http://far.invalid/v1"\n')
    with socketserver.TCPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environ = {"WORK_API_KEY": "canary", "http_proxy": f"http://127.0.0.1:{server.server_address[1]}"}
        command = [sys.executable, "-m", "midstream.cli.main", "ask", "-m", "work/x", "Hello"]
        done = subprocess.run(
            command, env={**os.environ, **environ}, capture_output=True, text=True, timeout=60, check=False
        )
        server.shutdown()
    lines = [line for line in done.stderr.splitlines() if "plain http" in line]
    assert len(lines) == 1 and lines[0].startswith("midstream: warning: the key for far.invalid:80 ")
    assert "401" in done.stderr and "canary" not in done.stderr + done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(cli: Cli, shell: str) -> None:
    result = cli("completion", shell)
    assert result.exit_code == 0
    assert "_MIDSTREAM_COMPLETE" in result.stdout


def test_completion_offers_commands_and_models(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_MIDSTREAM_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "midstream ask -m sim/kimi-k2")
    monkeypatch.setenv("COMP_CWORD", "3")
    assert "sim/kimi-k2.5" in cli().stdout
    monkeypatch.setenv("COMP_WORDS", "midstream s")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert "sessions" in cli().stdout


def test_columns_are_respected_in_help(environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "midstream.cli.main", "--help"]
    done = subprocess.run(command, env={**environ, "COLUMNS": "60"}, capture_output=True, text=True, check=True)
    described = done.stdout.partition("Examples:")[0]
    assert 50 < max(map(len, described.splitlines())) <= 60
