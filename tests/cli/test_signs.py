"""What the signs say: a failing command has a cross, and a terminal without such characters gets words."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
from rich.console import Console

from midstream.agent.approval import Approval
from midstream.agent.toolbox import Toolbox
from midstream.cli.commands.inspect import COMMANDS
from midstream.cli.live_view import LiveView
from midstream.cli.plain_view import PlainView
from midstream.cli.terminal import Paint
from midstream.cli.view import View, two_columns, wrapped
from midstream.codec import encode_request
from midstream.core.blocks import Conversation, Text, ToolCall, ToolResponse, Turn, human
from midstream.core.events import ToolFinished
from midstream.dialects.registry import REGISTRY, Resolved
from midstream.store import MemoryStore
from tests.long_run import each_once

from .conftest import Cli
from .terminal import Open

COMMANDS_AND_MARKS = {"true": "✓", "echo hi": "✓", "false": "✗", "echo hi; exit 3": "✗", "kill -9 $$": "✗"}


def views() -> list[tuple[View, io.StringIO]]:
    plain, live = io.StringIO(), io.StringIO()
    return [
        (PlainView(plain, plain, Paint(False)), plain),
        (LiveView(Console(file=live, width=60, color_system=None)), live),
    ]


@pytest.mark.parametrize("command", COMMANDS_AND_MARKS)
def test_a_command_that_failed_has_a_cross(tmp_path: Path, command: str) -> None:
    toolbox = Toolbox(("bash",), workdir=tmp_path, approve=Approval(None, yolo=True))
    call = ToolCall("hist_tool_1", "bash", f'{{"command": "{command}"}}')
    response = asyncio.run(toolbox.run(call))
    assert not response.is_error  # for the model it is output like any other
    store = MemoryStore()
    kept = store.load(store.create(Conversation((human("Go"), Turn("ai", [call]), Turn("tool", [response])))))
    for view, out in views():
        view.show(ToolFinished(response))
        view.replay(kept.turns[-1:])
        assert out.getvalue().count(COMMANDS_AND_MARKS[command]) == 2, out.getvalue()


def test_the_mark_of_a_failed_command_is_never_sent() -> None:
    call = ToolCall("hist_tool_1", "bash", '{"command":"false"}')
    endpoint = next(iter(REGISTRY.providers.values())).endpoint
    for name, dialect in REGISTRY.dialects().items():
        bodies = []
        for extra in (None, {"failed": True}):
            result = ToolResponse(call.id, "bash", (Text("[exit code 1]"),), extra=extra)
            said = Conversation((human("Go"), Turn("ai", [call], key="a"), Turn("tool", [result], key="b")))
            bodies.append(encode_request(Resolved(dialect.provider, "m", dialect, endpoint), said).body)
        assert bodies[0] == bodies[1], name


def test_a_failing_command_in_ask(cli: Cli) -> None:
    result = cli("ask", "-m", "sim/kimi-k2.5", "--yolo", "-T", "bash", 'Run bash "exit 3"')
    assert "✗ [exit code 3]" in result.stderr and "✓" not in result.stderr


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_a_terminal_of_the_c_locale_gets_words(opened: Open, term: str) -> None:
    terminal = opened("chat", "-m", "sim/kimi-k2.5", "--yolo", TERM=term, LC_ALL="C", PYTHONUTF8="0")
    terminal.wait_for("/help\n>")
    terminal.enter('Run bash "exit 3"')
    terminal.wait_for("FAILED [exit code 3]")
    terminal.wait_for(" out - ")
    terminal.enter('Run bash "echo done"')
    terminal.wait_for("ok done")
    terminal.wait_for(" out - ", count=2)
    terminal.enter("/help")
    terminal.wait_for("quits.")
    assert terminal.raw.isascii()


@each_once(("columns", [40, 80, 200]), ("term", ["xterm-256color", "dumb"]))
def test_help_is_readable(opened: Open, columns: int, term: str) -> None:
    terminal = opened("chat", "-m", "sim/kimi-k2.5", columns=columns, TERM=term)
    terminal.wait_for("›")
    terminal.enter("/help")
    shown = terminal.wait_for("quits.").partition("› /help")[2].rpartition("quits.")[0]
    words = {word for line in shown.splitlines() for word in line.split()}
    for command in COMMANDS:  # no word is broken
        assert set(command.help.split()) <= words
        assert f"  {command.name and command.usage.split()[0]}" in shown
    assert all(len(line) <= columns for line in shown.splitlines())
    if columns == 40:
        assert all(len(line) - len(line.lstrip()) <= 6 for line in shown.splitlines())
        assert not [line for line in shown.splitlines() if "   " in line.strip()]  # no empty columns


def test_lines_break_between_words() -> None:
    assert wrapped("  one two three four five six", 20) == ["  one two three four", "    five six"]
    assert wrapped("short", 20) == ["short"]
    assert wrapped("x" * 30, 20) == ["x" * 20, "  " + "x" * 10]
    assert wrapped("", 20) == [""]


def test_two_columns_become_one_where_there_is_no_room() -> None:
    rows = [("/a", "does this and that"), ("/b [a|b|c|d|e|f|g|h|i|j|k|l]", "does more")]
    assert two_columns(rows, 80) == ["  /a  does this and that", "  /b [a|b|c|d|e|f|g|h|i|j|k|l]", "      does more"]
    assert two_columns(rows, 22) == [
        "  /a",
        "      does this and",
        "      that",
        "  /b [a|b|c|d|e|f|g|h|",
        "    i|j|k|l]",
        "      does more",
    ]
