"""Where two features of the terminal meet: what waits for the next message, answers that were compared, keys, short names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from prompt_toolkit.history import FileHistory, InMemoryHistory

from midstream.cli import commands  # noqa: F401  (registers the slash commands)
from midstream.cli.prompt import _history
from midstream.cli.slash import COMMANDS, _find
from midstream.core.errors import LocalError
from midstream.sim.server import Sim
from midstream.store import SqliteStore
from tests.store.test_read_only import folder, read_only

from .conftest import Cli
from .terminal import Open, Terminal

__all__ = ["folder"]
KIMI = ("chat", "--no-tools", "-m", "sim/kimi-k2.5")
CONTINUE = ("chat", "--no-tools", "--continue")
LONG = "Tell me more. " + "word " * 200


@pytest.fixture
def opened(opened: Open) -> Open:
    """Terminals at their prompt."""

    def open_terminal(*args: str, **how: Any) -> Terminal:
        terminal = opened(*args, **how)
        terminal.wait_for("›")
        return terminal

    return open_terminal


class Said(NamedTuple):
    code: int
    out: str
    err: str


Piped = Callable[..., Said]


@pytest.fixture
def piped(home: Path) -> Piped:
    """The program with these lines as its input."""

    def run(args: tuple[str, ...], *given: str) -> Said:
        done = subprocess.run(
            [sys.executable, "-m", "midstream.cli.main", *args],
            input="".join([f"{line}\n" for line in given]),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    return run


@pytest.mark.parametrize(("answer", "kept"), [("1", "kimi-k2.5"), ("2", "gpt-4o")])
def test_the_answer_that_was_kept_is_continued(piped: Piped, answer: str, kept: str) -> None:
    compared = piped(KIMI, "Hello", "/compare sim/gpt-4o", answer)
    assert f"kept {answer}; the other answer is stored as" in compared.err
    again = piped(CONTINUE, "/model")
    assert f"model: sim/{kept}" in again.err and f"This is {kept}." in again.out + again.err
    with closing(SqliteStore()) as store:
        assert sorted(info.models for info in store.list()) == [("sim/gpt-4o",), ("sim/kimi-k2.5",)]


def test_a_comparison_that_fails_leaves_nothing_behind(
    piped: Piped, doubles: Sim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOONSHOT_API_KEY", "sk-canary-1234567890")
    doubles.inject("cut", 9)
    # The bare name of a listed model is enough, as for /model.
    compared = piped(KIMI, "Hello", "/compare kimi-k2.5")
    assert "asking moonshot/kimi-k2.5" in compared.err and "gave no whole answer" in compared.err
    with closing(SqliteStore()) as store:
        assert len(store.list()) == 1


@contextmanager
def typed(*given: str) -> Iterator[None]:
    """These lines at descriptor 0, where a chat of this process reads."""
    before = os.dup(0)
    read_end, write_end = os.pipe()
    try:
        os.write(write_end, "".join([f"{line}\n" for line in given]).encode())
        os.close(write_end)
        os.dup2(read_end, 0)
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(read_end)


def test_answers_are_compared_where_nothing_can_be_stored(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "conversations.db"
    (folder / "work").mkdir()
    monkeypatch.chdir(folder / "work")
    monkeypatch.setenv("MIDSTREAM_HOME", str(folder))
    script = ("Hello", "/compare sim/gpt-4o", "2", "/fork", "/retry", "/undo", "/model")
    with typed(*script):
        cli(*KIMI)  # everything is imported before privileges are dropped
    with read_only(path, folder), typed(*script):
        compared = cli(*KIMI, "--store", str(path))
    assert "this conversation is not stored because the store is read-only" in compared.stderr
    assert "kept 2\n" in compared.stderr and "undone: Hello\n" in compared.stderr
    assert "model: sim/gpt-4o (" in compared.stderr


@pytest.mark.parametrize("there", [True, False])
def test_what_is_typed_is_remembered_where_nothing_can_be_stored(folder: Path, there: bool) -> None:
    path = folder / "history"
    if there:
        path.write_text("\n# 2026-01-01 00:00:00.000000\n+earlier\n")
    for kind in (InMemoryHistory, FileHistory):
        with read_only(*([path] if there else []), folder) if kind is InMemoryHistory else nullcontext():
            history = _history(path)
            assert type(history) is kind
            history.append_string("Hello")
            assert list(history.get_strings())[-1] == "Hello"


def test_what_waits_is_told_when_the_conversation_changes_and_stands_in_the_next_request(piped: Piped) -> None:
    talked = piped(KIMI, "Hello", "/attach notes.txt", "/new", "/wire Look")
    assert "goes with your next message: notes.txt" in talked.err
    request = talked.err.partition("POST ")[2]
    assert "buy milk" in request and "Look" in request and "Hello" not in request


def long_talk(opened: Open, home: Path, *args: str) -> Terminal:
    """A chat that is too long for another model: it would first be summarised."""
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text('[models."sim/claude-sonnet-4-5"]\ncontext = 1500\n')
    terminal = opened(*KIMI, *args, SHELL="/bin/sh", MIDSTREAM_SIM_DELAY="0.01")
    for number in range(1, 5):
        terminal.enter(f"{number} {LONG}")
        terminal.wait_for("(sim/kimi-k2.5 · ", count=number)
    return terminal


def test_another_answer_that_is_stopped_before_it_is_asked_for_loses_nothing(opened: Open, home: Path) -> None:
    terminal = long_talk(opened, home, "--no-store")
    terminal.enter("/retry sim/claude-sonnet-4-5")
    terminal.wait_for("summarises the first")
    terminal.type("\x1b")
    terminal.wait_for("the earlier answer is kept")
    terminal.enter("/undo")
    terminal.wait_for("undone: 4 Tell me more.")


def test_a_message_that_was_not_sent_keeps_what_was_to_go_with_it(opened: Open, home: Path) -> None:
    terminal = long_talk(opened, home)
    terminal.enter("/model sim/claude-sonnet-4-5")
    terminal.wait_for("first summarises the earlier turns")
    terminal.enter("!echo an output")
    terminal.wait_for("(exit code 0;")
    terminal.enter("/attach notes.txt")
    terminal.wait_for("attached: notes.txt")
    terminal.enter("What is to buy?")
    terminal.wait_for("summarises the first")
    terminal.type("\x1b")
    terminal.wait_for("(stopped; your message was not sent)")
    terminal.enter("/attach")
    terminal.wait_for("1. notes.txt")
    terminal.enter("What is to buy?")
    terminal.wait_for("(sim/claude-sonnet-4-5 · ")
    terminal.enter("/attach")
    terminal.wait_for("nothing is attached")
    with closing(SqliteStore()) as store:
        said = [turn for turn in store.load(store.list(1)[0].id).turns if turn.speaker == "human"]
    assert "an output" in said[-1].text and "buy milk" in said[-1].text


def test_events_of_an_answer_that_broke_off_are_not_followed_by_the_same_text(
    cli: Cli, doubles: Sim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOONSHOT_API_KEY", "sk-canary-1234567890")
    doubles.inject("cut", 1)
    result = cli("ask", "-m", "moonshot/kimi-k2.5", "--thinking", "off", "--jsonl", "Say " + "word " * 30)
    events = [msgspec.json.decode(line) for line in result.stdout.splitlines()]
    text = "".join([event["delta"] for event in events if event["type"] == "text_delta"])
    assert text.count("This is kimi-k2.5.") == 1
    assert result.exit_code == 75 and events[-1]["error"]["retryable"] is True


def test_a_stored_key_in_the_output_of_a_command_is_named(opened: Open, cli: Cli, home: Path) -> None:
    assert cli("keys", "set", "moonshot", "--file", "--stdin", stdin="sk-canary-1234567890\n").exit_code == 0
    terminal = opened(*KIMI, SHELL="/bin/sh")
    terminal.enter(f"!cat {home}/keys.json")
    terminal.wait_for("(exit code 0;")
    terminal.enter("/wire")
    terminal.wait_for("‹key of moonshot›")
    assert "canary" not in terminal.screen.partition("POST ")[2]


SHORT = [("m", "model"), ("p", "provider"), ("s", "sessions"), ("mem", "memory"), ("und", "undo"), ("model", "model")]


@pytest.mark.parametrize(("typed", "meant"), SHORT)
def test_a_letter_keeps_its_command(typed: str, meant: str) -> None:
    assert _find(typed).name == meant


def test_short_forms_are_told_and_the_rest_is_ambiguous(piped: Piped) -> None:
    assert "/m is /model, /p is /provider, /s is /sessions" in " ".join(piped(KIMI, "/help").err.split())
    for letter in {each.name[0] for each in COMMANDS} - {"m", "p", "s"}:
        if sum(each.name.startswith(letter) for each in COMMANDS) > 1:
            with pytest.raises(LocalError, match="is ambiguous: /"):
                _find(letter)


def test_ctrl_c_answers_the_question_whether_to_send_a_secret_on_a_dumb_terminal(home: Path) -> None:
    Path(".env").write_text("A=b\n")
    terminal = Terminal(*KIMI, environ={**os.environ, "TERM": "dumb", "MIDSTREAM_HOME": str(home)})
    try:
        terminal.wait_for("›")
        terminal.enter("Look at @.env")
        terminal.wait_for("Send it to sim/kimi-k2.5?")
        terminal.type("\x03")
        terminal.wait_for("not sent")
        terminal.enter("Hello")
        terminal.wait_for("You said: Hello")
    finally:
        terminal.close()
