"""The slash commands, in a chat whose lines come from a pipe."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from midstream.cli import (
    commands,  # noqa: F401  (registers the slash commands)
    slash,
)
from midstream.cli.slash import COMMANDS, complete, is_command
from midstream.core.ids import TOOL_FORMATS
from midstream.sim.server import Sim
from midstream.store import SqliteStore, read_jsonl


class Script:
    """Runs a chat with these lines and gives what it wrote."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._environ = environ
        self.code = 0

    def __call__(self, *lines: str, args: tuple[str, ...] = ("-m", "sim/kimi-k2.5")) -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "midstream.cli.main", "chat", *args],
            input="".join([line + "\n" for line in lines]),
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr
        self.code = done.returncode
        return done.stdout, done.stderr


@pytest.fixture
def script(environ: dict[str, str]) -> Script:
    return Script(environ)


def test_a_tool_format_is_used_or_the_user_is_told_why_not(script: Script) -> None:
    _, err = script(
        "/toolformat anthropic",
        "/toolformat hermes",
        "List the files",
        "/model sim/claude-sonnet-4-5",
        "/toolformat kimi",
    )
    assert "tool format: kimi (you asked for anthropic; /toolformat auto undoes it)" in err
    assert "tool format anthropic cannot be spoken on openai-chat; kimi is used instead" in err
    assert "tool format: hermes (set by you" in err
    assert "set by hand: tools are declared in the system prompt" in err
    assert "tool format kimi cannot be spoken on anthropic; anthropic is used instead" in err


def test_settings_are_shown_changed_and_kept(script: Script) -> None:
    _, err = script(
        "Hello",
        "/toolformat",
        "/toolformat kimi",
        "/toolformat bogus",
        "/thinking low",
        "/thinking sideways",
        "/reasoning",
        "/reasoning fail",
        "/reasoning never",
        "/model",
        "/frok",
        "/t",
    )
    assert "tool format: kimi (automatic, for sim/kimi-k2.5)" in err
    assert "tool format: kimi (set by you" in err
    assert "moonshot-k2.5 takes the tool calls of openai-chat with kimi ids" in err
    assert "unknown tool format 'bogus'; expected one of " + ", ".join(TOOL_FORMATS) + ", or auto" in err
    assert "thinking: on, effort low" in err
    assert "invalid thinking 'sideways'" in err
    assert "missing reasoning: placeholder" in err and "missing reasoning: fail" in err
    assert "invalid policy 'never'" in err and "disable-thinking" in err
    assert "model: sim/kimi-k2.5 (" in err
    assert "did you mean /fork?" in err
    assert "/t is ambiguous: /toolformat, " in err
    assert script.code == 1

    _, again = script("/toolformat", "/thinking", "/reasoning", "/toolformat auto", args=("--continue",))
    assert "tool format: kimi (set by you" in again
    assert "thinking: on, effort low" in again
    assert "missing reasoning: fail" in again
    assert "tool format: kimi (automatic" in again
    assert script.code == 0


def test_a_switch_tells_what_the_next_model_sees_and_wire_shows_it(script: Script) -> None:
    out, err = script(
        'Glob "*.txt"', "/model sim/claude-sonnet-4-5", "/wire What now?", "/model moonshot/kimi-k2.5", "Hi"
    )
    assert "kept: 3 text, 1 tool_call, 1 tool_response" in err
    assert "dropped: thinking" in err
    assert "POST http://127.0.0.1:" in err and "/v1/messages" in err
    assert '"toolu_' in err and "What now?" in err
    assert "MOONSHOT_API_KEY" in err and "that needs none: sim/kimi-k2.5" in err
    assert out.endswith("This is claude-sonnet-4-5. You said: Hi\n")


def test_wire_shows_no_secret(script: Script, doubles: Sim, environ: dict[str, str]) -> None:
    environ["MOONSHOT_API_BASE"] = f"{doubles.url}/moonshot"
    environ["MOONSHOT_API_KEY"] = "sk-canary-1234567890"
    out, err = script("Hello", "/wire", "/provider", args=("-m", "moonshot/kimi-k2.5"))
    assert "authorization: Bearer ‹MOONSHOT_API_KEY›" in err
    assert "(your next message)" in err
    assert "* moonshot: MOONSHOT_API_KEY is set" in err
    assert "canary" not in out + err
    home = Path(environ["MIDSTREAM_HOME"])
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(
        f'[providers.work]\nlike = "moonshot"\nbase_url = "{doubles.url.replace("//", "//me:canary@")}/moonshot"\n'
        'headers = { X-Plain = "canary" }\nquery = { sig = "canary" }\n'
    )
    _, err = script("/wire", args=("-m", "work/kimi-k2.5"))
    assert "X-Plain: ‹hidden›" in err and "//‹hidden›@127.0.0.1" in err
    assert "canary" not in err


def test_undo_and_fork_remove_nothing(script: Script) -> None:
    _, err = script("First", "Second", "/undo", "Third", "/fork", "/undo", "/undo", "/undo", "/sessions", "/usage")
    assert "undone: Second; the full conversation is still stored as" in err
    assert "continuing in a copy" in err
    assert "nothing to undo" in err
    assert "total:" in err
    store = SqliteStore()
    said = [[turn.text for turn in store.load(info.id).turns if turn.speaker == "human"] for info in store.list()]
    store.close()
    assert ["First", "Second"] in said
    assert said.count(["First", "Third"]) == 2


def test_sessions_can_be_searched_resumed_and_exported(script: Script) -> None:
    script("Of rivers")
    store = SqliteStore()
    river = store.list(1)[0].id
    store.close()
    out, err = script(
        "Of hills",
        "/sessions rivers",
        f"/resume {river[:6]}",
        "And lakes",
        "/export md",
        "/export md",
        "/export jsonl all.jsonl",
        "/new",
        "Afresh",
    )
    assert river[:8] in err
    assert "You said: Of rivers" in out  # the transcript of what is resumed
    exported = Path(f"midstream-{river[:8]}.md").read_text()
    assert "Of rivers" in exported and "And lakes" in exported and "Of hills" not in exported
    assert "exists already" in err
    assert {path.stat().st_mode & 0o777 for path in (Path(f"midstream-{river[:8]}.md"), Path("all.jsonl"))} == {0o600}
    entries = list(read_jsonl(Path("all.jsonl").read_bytes().split(b"\n")))
    assert [turn.speaker for turn in entries[0].conversation.turns] == ["human", "ai", "human", "ai"]


@pytest.mark.parametrize("what", ["pdf", "PDF report.pdf", "report.pdf", "html", "docx notes", "mychat"])
def test_an_export_that_we_cannot_write_is_an_error(script: Script, what: str) -> None:
    before = set(Path().iterdir())
    _, err = script("Hello", f"/export {what}")
    assert "cannot export as " in err and "expected md or jsonl" in err
    assert script.code == 1 and set(Path().iterdir()) == before


def test_an_export_goes_by_its_kind_or_its_name(script: Script) -> None:
    _, err = script("Hello", "/export a.jsonl", "/export b.md", "/export c d.txt", "/export md e.pdf", "/export jsonl")
    assert err.count("written: ") == 5, err
    assert Path("a.jsonl").read_bytes().startswith(b"{") and Path("b.md").read_text().startswith("# Hello")
    assert Path("c d.txt").exists() and Path("e.pdf").read_text().startswith("# Hello")


def test_a_search_groups_by_conversation(script: Script) -> None:
    script("Of rivers and lakes", "More rivers")
    script("Of hills, not rivers")
    _, err = script("/sessions rivers", "/sessions glaciers")
    day = time.strftime("%Y-%m-%d")
    heads = [line for line in err.splitlines() if day in line]
    assert [head.partition(day)[2].strip() for head in heads] == ["Of hills, not rivers", "Of rivers and lakes"]
    second = err[err.index(heads[1]) :].splitlines()[1:5]
    assert [line.split()[0] for line in second] == ["ai", "human", "ai", "human"]
    assert "no matches" in err


def test_a_tool_format_alone_lists_the_choices(script: Script) -> None:
    _, err = script("/toolformat", "/toolformat hermes", "/toolformat")
    lines = err.splitlines()
    for name in ("auto", *TOOL_FORMATS):
        assert len([line for line in lines if line[2:].startswith(f"{name}: ") and len(line) > len(name) + 10]) == 2
    assert [line.partition(":")[0] for line in lines if line.startswith("* ")] == ["* auto", "* hermes"]


def test_without_a_store_it_still_works(script: Script, home: Path) -> None:
    out, err = script(
        "First", "/undo", "/sessions", "Second", "/export jsonl x.jsonl", args=("-m", "sim/gpt-4o", "--no-store")
    )
    assert "undone: First" in err and "--no-store" in err
    assert out.endswith("You said: Second\n")
    assert not home.exists()


def test_a_provider_changes_and_the_model_stays(script: Script, environ: dict[str, str]) -> None:
    environ["DEEPINFRA_API_KEY"] = environ["MOONSHOT_API_KEY"] = "k"
    _, err = script(
        "/provider deepinfra", "/provider moonshot", "/provider nonesuch", args=("-m", "moonshot/kimi-k2.5")
    )
    assert "model: deepinfra/moonshotai/Kimi-K2.5" in err
    assert "model: moonshot/kimi-k2.5" in err
    assert "no provider 'nonesuch'" in err


def test_help_tells_of_every_command_and_exit_leaves(script: Script) -> None:
    out, err = script("/help", "/tools", "/exit", "never said")
    assert all(command.usage in err for command in COMMANDS)
    assert "bash (asks first)" in err and "glob (does not ask)" in err
    assert "never said" not in out
    assert script.code == 0


def test_what_writes_is_refused_where_nobody_can_be_asked(script: Script) -> None:
    _, err = script('Run bash "touch made"')
    assert "nobody is there to approve it" in err and not Path("made").exists()
    script('Run bash "touch made"', args=("-m", "sim/kimi-k2.5", "--yolo"))
    assert Path("made").exists()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/model", True),
        ("/model x/y", True),
        ("/nonsense", True),
        ("/etc/hosts is what?", False),
        ("/", False),
        ("hi", False),
    ],
)
def test_what_is_a_command(line: str, expected: bool) -> None:
    assert is_command(line) is expected


def test_completion_of_names_and_words() -> None:
    nobody: object = None
    assert ("/model", "change the model, and show what it will see") in complete(nobody, "/mo")  # type: ignore[arg-type]
    assert [word for word, _ in complete(nobody, "/toolformat kimi-t")] == ["kimi-text"]  # type: ignore[arg-type]
    assert [word for word, _ in complete(nobody, "/reasoning dis")] == ["disable-thinking"]  # type: ignore[arg-type]
    assert list(complete(nobody, "/nothing x")) == []  # type: ignore[arg-type]


def test_a_command_is_added_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slash, "COMMANDS", list(COMMANDS))
    heard: list[str] = []

    @slash.command("/shout TEXT", "say it louder", lambda chat: [("hello", "a greeting")])
    async def _shout(chat: Any, text: str) -> None:
        heard.append(text.upper())

    nobody: Any = None
    asyncio.run(slash.dispatch(nobody, "/sho hello there"))
    assert heard == ["HELLO THERE"]
    assert list(complete(nobody, "/sho")) == [("/shout", "say it louder")]
    assert list(complete(nobody, "/shout he")) == [("hello", "a greeting")]
