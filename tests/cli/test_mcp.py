"""`midstream mcp` and /mcp: what a user of servers sees, in a chat whose lines come from a pipe."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from midstream.agent.mcp.offer import OfferedResource, canonical_name
from midstream.cli.slash import complete
from tests.agent.mcp.servers import MARK, SCRIPT, processes_with

from .conftest import Cli
from .terminal import Open
from .test_commands import Script

KEY = "canary-0123456789abcdef"


@pytest.fixture
def toy(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration with one scripted server."""
    home.mkdir(exist_ok=True)
    command = json.dumps([sys.executable, "-I", "-S", SCRIPT])
    (home / "config.toml").write_text(
        f'[mcp.toy]\ncommand = {command}\nallow = ["echo", "pic*"]\nenv = {{ SECRET_OF_SERVER = "${{TOY_SECRET}}" }}\n'
    )
    return home


def test_list_test_and_secret(toy: Path, cli: Cli) -> None:
    listed = cli("mcp", "list")
    assert "toy: " in listed.output and "uses $TOY_SECRET" in listed.output and "not started yet" in listed.output
    failed = cli("mcp", "test")
    assert failed.exit_code == 1 and "${TOY_SECRET} is not set" in failed.output
    assert cli("mcp", "secret", "TOY_SECRET", "--stdin", "--file", stdin=KEY).exit_code == 0
    tested = cli("mcp", "test", "toy")
    assert (
        tested.exit_code == 0
        and "toy: ok · scripted 1.0 · 8 tools" in tested.output
        and "echo: Say it again" in tested.output
    )
    assert json.loads(cli("mcp", "list", "--json").output)["tools"][0] == "echo"
    assert "mcp:" not in cli("keys", "list").output
    assert KEY not in tested.output + cli("config", "show").output
    assert "removed" in cli("mcp", "secret", "TOY_SECRET", "--remove").output


def test_names_that_are_not_there(toy: Path, cli: Cli) -> None:
    assert "no MCP server 'x'; there are: toy" in cli("mcp", "test", "x").output
    assert "never the secret itself" in cli("mcp", "secret", "sk-not a name").output
    assert "a login is for servers with a url" in cli("mcp", "login", "toy").output
    assert "nothing to trust" in cli("mcp", "trust").output


def test_a_chat_uses_tools_prompts_and_tells_of_its_servers(toy: Path, environ: dict[str, str]) -> None:
    script = Script({**environ, "TOY_SECRET": KEY})
    out, err = script(
        "Call mcp__toy__echo with text 'hello there'",
        "/mcp",
        "/mcp tools toy",
        "/mcp resources",
        "/mcp prompts",
        "/mcp__toy__review 'the code'",
        "/mcp__toy__review",
        "/mcp__toy__nothing",
        "Call mcp__toy__fail with x 1",
        "/mcp log toy",
        "/mcp restart nobody",
        "/mcp nonsense",
        "/mcp trust",
    )
    assert "mcp__toy__echo says: hello there" in out and "You said: Please review the code." in out
    assert "nobody is there to approve it" in out
    for words in (
        "toy: ready · 8 tools, 1 prompt, 1 resource · scripted 1.0",
        "  slow.work: Reports progress",
        "@toy:memo://shopping Shopping list",
        "/mcp__toy__review what: Review it",
        "/mcp__toy__review needs what",
        "no prompt /mcp__toy__nothing",
        "scripted server speaks, token=***",
        "no MCP server 'nobody'",
        "invalid /mcp 'nonsense'",
        "there is nothing to trust",
    ):
        assert words in err, words
    assert KEY not in out + err


def test_what_a_server_offers_is_waited_for_when_it_is_asked_for(toy: Path, environ: dict[str, str], cli: Cli) -> None:
    """Also as the first thing in a chat; and from then on the list knows it, whoever started the server."""
    script = Script({**environ, "TOY_SECRET": KEY})
    out, _ = script("/mcp__toy__review 'the code'")
    assert "You said: Please review the code." in out
    assert "8 tools" in cli("mcp", "list").output
    (toy / "config.toml").write_text((toy / "config.toml").read_text() + "call_timeout = 50\n")
    for words, offered in (("/mcp prompts", "/mcp__toy__review what"), ("/mcp resources", "@toy:memo://shopping")):
        assert offered in script(words)[1]


@pytest.fixture
def theirs(home: Path) -> str:
    """A project with a server of its own, and a question that uses it."""
    server = {"command": sys.executable, "args": ["-I", "-S", SCRIPT]}
    Path(".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": server}}))
    return "Call mcp__theirs__echo with text 'from theirs'"


def test_a_project_starts_nothing_before_it_is_trusted(theirs: str, environ: dict[str, str], cli: Cli) -> None:
    script = Script(environ)
    args = ("-m", "sim/kimi-k2.5", "--allow", "mcp__theirs__*")
    out, err = script(theirs, "/mcp", "/mcp trust", theirs, args=args)
    assert ".mcp.json names theirs, not started" in err and "theirs: not trusted" in err
    # A line from a pipe may be anybody's: it trusts nothing.
    assert "nobody is there to be asked" in err and "says: from theirs" not in out
    assert "not trusted" in cli("mcp", "test", "theirs").output
    assert "May these programs" in cli("mcp", "trust", stdin="n\n").output
    assert "says: from theirs" not in script(theirs, args=args)[0]
    assert "trusted: " in cli("mcp", "trust", "--yes").output
    assert "mcp__theirs__echo says: from theirs" in script(theirs, args=args)[0]


def test_a_person_trusts_in_the_chat_and_mentions_a_resource(theirs: str, opened: Open) -> None:
    terminal = opened("chat", "-m", "sim/kimi-k2.5", "--allow", "mcp__theirs__*")
    terminal.wait_for("not started")
    terminal.enter("/mcp trust")
    terminal.wait_for("[y]es, [n]o")
    terminal.enter("y")
    terminal.wait_for("trusted: ")
    terminal.enter(theirs)
    terminal.wait_for("says: from theirs")
    terminal.enter("Tell me of @theirs:memo://shopping please")
    terminal.wait_for("attached: theirs:memo://shopping")
    terminal.wait_for("You said: Tell me of")


def test_progress_is_shown_and_esc_tells_the_server(toy: Path, opened: Open) -> None:
    terminal = opened("chat", "-m", "sim/kimi-k2.5", "--allow", "mcp__toy__*", TOY_SECRET=KEY)
    terminal.wait_for("sim/kimi-k2.5")
    slow = canonical_name("toy", "slow.work")
    terminal.enter(f"Call {slow} with x 1")
    terminal.wait_for(f"{slow}: ")
    terminal.wait_for("of 8: step")
    terminal.wait_for("context ")
    terminal.enter("Call mcp__toy__wait with x 1")
    terminal.wait_for("running mcp__toy__wait")
    terminal.type("\x1b")
    terminal.wait_for("(stopped; what has arrived is kept)")
    # The server was told, and is there for the next call.
    terminal.enter("/mcp log toy")
    terminal.wait_for("a call was cancelled")
    terminal.enter("Call mcp__toy__grow with x 1")
    terminal.wait_for("says: grew")
    # The list is read again meanwhile.
    terminal.enter(f"Call {slow} with x 1")
    terminal.wait_for("its tools have changed: +grown")


def test_a_chat_with_bad_servers_answers_and_tells_of_them(home: Path, environ: dict[str, str]) -> None:
    """No turn waits longer than a server's limits, and nothing is left of them when the chat has ended."""
    home.mkdir(exist_ok=True)
    bad = ("hangs-at-start", "dies-in-a-call", "floods-a-result", "repeats-names", "hangs-in-a-call")
    mark = secrets.token_hex(8)
    (home / "config.toml").write_text(
        "".join(
            [
                f"[mcp.{how}]\ncommand = {json.dumps([sys.executable, '-I', '-S', SCRIPT, how])}\n"
                f'env = {{ {MARK} = "{mark}" }}\nallow = ["*"]\nstart_timeout = 3\ncall_timeout = 3\n'
                for how in bad
            ]
        )
    )
    calls = [f"Call mcp__{how}__echo with text 'to {how}'" for how in bad[1:]]
    out, err = Script(environ)("Hello", *calls, "And now?", "/mcp")
    assert out.count("You said: ") == 2 and "mcp__repeats-names__echo says: to repeats-names" in out
    for words in (
        "dies-in-a-call ended during the call of echo: it ended with exit code 3",
        "floods-a-result ended during the call of echo: it sent a line of more than 16 MB",
        "hangs-in-a-call did not answer the call of echo within 3 s; the call was cancelled",
    ):
        assert words in out, words
    for words in (
        "MCP server hangs-at-start: it did not start within 3 s",
        "MCP server dies-in-a-call: it ended with exit code 3",
        "MCP server repeats-names: it lists the tool echo twice",
        "hangs-at-start: failed: it did not start within 3 s",
        "repeats-names: ready · 8 tools",
    ):
        assert words in err, words
    assert not processes_with(f"{MARK}={mark}")


def test_a_question_starts_a_server_only_for_its_tools(toy: Path, environ: dict[str, str]) -> None:
    import subprocess

    def ask(*words: str) -> tuple[str, str]:
        command = [sys.executable, "-X", "importtime", "-m", "midstream.cli.main", "ask", "-m", "sim/kimi-k2.5", *words]
        done = subprocess.run(
            command, env={**environ, "TOY_SECRET": KEY}, capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout, done.stderr

    first, _ = ask("-T", "mcp", "Call mcp__toy__echo with text 'one'")
    assert "says: one" in first
    # Known from before, and not called: neither the server nor the SDK is needed.
    _, imported = ask("-T", "mcp", "Hello")
    assert "midstream.agent.mcp.servers" in imported and "mcp_types" not in imported and "pydantic" not in imported
    _, imported = ask("Hello")
    assert "midstream.agent.mcp" not in imported


def test_mentions_of_resources_are_completed() -> None:
    resources = [("docs", OfferedResource("memo://a", "A")), ("docs", OfferedResource("file:///b c", "B"))]
    running = SimpleNamespace(resources=lambda: resources)
    chat: Any = SimpleNamespace(workspace=SimpleNamespace(mcp=SimpleNamespace(running=running)))
    assert list(complete(chat, "@do")) == [("@docs:memo://a", "A"), ('@"docs:file:///b c"', "B")]
    assert list(complete(chat, '@"docs:file')) == [('@"docs:file:///b c"', "B")]
    assert list(complete(chat, "@docs:memo://z")) == []
    chat.workspace.mcp = None
    assert list(complete(chat, "@do")) == []
