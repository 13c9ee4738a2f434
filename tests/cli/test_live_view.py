"""Markdown as it grows, and the promise that nothing said reaches the terminal as a control."""

from __future__ import annotations

import io
import re
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text as Line

from midstream.cli.live_view import LiveView, MarkdownFeed, Safe
from midstream.cli.plain_view import PlainView
from midstream.cli.terminal import Paint
from midstream.cli.view import Gate, partial_call_line
from midstream.core.blocks import Text, Thinking, ToolCall, ToolResponse, ToolSpec, Turn
from midstream.core.events import (
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolFinished,
    ToolStarted,
)

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
PIECES = st.sampled_from(
    ["\x1b[2J", "\x1b]0;x\x07", "\x9b5n", "\r", "\u202e", "\u2066", "\x7f", "\x00", "\u2028", "&#13;", "&rlm;", "&#x202e;", "&#27;", "&NewLine;",
     "&#x9b;", "word ", "\n", "\n\n", "```\n", "`", "# ", "- ", "| a | b |\n|-|-|\n", "[x](http://e/&#13;\x1b)", "![i](\x1b)", "<b>", "> ", "\t", "    "]
)  # fmt: skip
HOSTILE = st.lists(PIECES, max_size=30).map("".join)


def feed_all(text: str, cuts: list[int]) -> tuple[list[str], MarkdownFeed]:
    feed = MarkdownFeed()
    edges = sorted({0, len(text), *[cut % (len(text) + 1) for cut in cuts]})
    finished = [feed.feed(text[start:end]) for start, end in pairwise(edges)]
    return [part for part in finished if part], feed


@settings(max_examples=200)
@given(HOSTILE, st.lists(st.integers(0, 500), max_size=8))
def test_nothing_is_lost_however_it_is_cut(text: str, cuts: list[int]) -> None:
    finished, feed = feed_all(text, cuts)
    whole = "\n".join([*finished, feed.close()])
    assert [line for line in whole.split("\n") if line.strip()] == [line for line in text.split("\n") if line.strip()]


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("one\n\ntwo", "one\n"),
        ("one\n\n  continued", ""),
        ("```\na\n\nb\n", ""),
        ("```\na\n\nb\n```\nafter", "```\na\n\nb\n```"),
        ("````\n```\n\nx\n", ""),
        ("one line", ""),
        ("- a\n- b\n\n1. c\n\n", "- a\n- b\n"),
    ],
)
def test_a_block_is_finished_when_nothing_can_change_it(text: str, finished: str) -> None:
    feed = MarkdownFeed()
    assert "\n".join(filter(None, [feed.feed(char) for char in text])) == finished


def test_the_tail_of_a_long_code_block_keeps_its_fence() -> None:
    feed = MarkdownFeed()
    feed.feed("```python\n" + "x = 1\n" * 100)
    assert feed.tail(5) == "```\n" + "x = 1\n" * 5


def events(text: str) -> list[object]:
    call = ToolCall("hist_tool_1", text or "x", text)
    return [
        ThinkingStart(0),
        ThinkingDelta(0, text),
        ThinkingEnd(0, Thinking(text)),
        TextStart(1),
        *[TextDelta(1, char) for char in text],
        TextEnd(1, Text(text)),
        ToolCallStart(2, "i", text),
        ToolCallDelta(2, text),
        ToolCallEnd(2, call),
        ToolStarted(call),
        ToolFinished(ToolResponse("hist_tool_1", "x", (Text(text),))),
    ]


@settings(max_examples=150)
@given(HOSTILE)
@example("&#13;&rlm;&#x202e;")
@example("[x](http://e/&#13;)")
def test_the_live_view_writes_no_control_of_the_model(text: str) -> None:
    out = io.StringIO()
    view = LiveView(Console(file=out, width=60, force_terminal=False, color_system=None, highlight=False, markup=False))
    view.unfolded = True
    for event in events(text):
        view.show(event)  # type: ignore[arg-type]
    view.notice(text)
    view.failure(text)
    view.replay(
        [
            Turn("human", (Text(text),)),
            Turn("ai", (Thinking(text), Text(text), ToolCall("a", text, text)), failure=text),
        ]
    )
    assert not STEERING.search(out.getvalue())


class TerminalStream(io.StringIO):
    def isatty(self) -> bool:
        return True


@settings(max_examples=100)
@given(HOSTILE)
def test_the_plain_view_writes_no_control_of_the_model_to_a_terminal(text: str) -> None:
    out, err = TerminalStream(), io.StringIO()
    view = PlainView(out, err, Paint(False))
    for event in events(text):
        view.show(event)  # type: ignore[arg-type]
    view.notice(text)
    view.failure(text)
    view.replay([Turn("human", (Text(text),)), Turn("ai", (Text(text), ToolCall("a", text, text)))])
    view.replay([Turn("system", (Text(text),), tools=(ToolSpec(text),))])
    assert not STEERING.search(out.getvalue() + err.getvalue())


def test_thinking_folds_to_a_line() -> None:
    out = io.StringIO()
    view = LiveView(Console(file=out, width=60, color_system=None))
    for event in events("deep thoughts")[:3]:
        view.show(event)  # type: ignore[arg-type]
    assert "deep" not in out.getvalue() and "2 words" in out.getvalue()


def test_a_long_result_is_cut_and_says_so() -> None:
    out = io.StringIO()
    view = LiveView(Console(file=out, width=60, color_system=None))
    view.show(ToolFinished(ToolResponse("a", "x", (Text("\n".join(map(str, range(40)))),))))
    assert "… 28 more lines" in out.getvalue()


def test_nothing_is_shown_over_a_question() -> None:
    out, err = TerminalStream(), io.StringIO()
    view = PlainView(out, err, Paint(False))
    gate = Gate(view)
    with gate.closed():
        for event in events("late"):
            gate.show(event)  # type: ignore[arg-type]
        assert out.getvalue() + err.getvalue() == ""
    assert out.getvalue() == "late\n" and "✓ late" in err.getvalue()


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        ("", "write( …"),
        ("{", "write({ …"),
        ('{"path": "a.txt", "con', 'write(path="a.txt" …'),
        ('{"path": "a.txt", "content": "one\\ntw', 'write(path="a.txt", content="one\\ntw" …'),
        ('{"count": 12.', 'write({"count": 12. …'),
        ("not JSON\x1b", "write(not JSON␛ …"),
    ],
)
def test_arguments_are_shown_while_they_arrive(raw: str, line: str) -> None:
    assert partial_call_line("write", raw) == line
    view = LiveView(Console(file=io.StringIO(), width=200, height=40))
    view.show(ToolCallStart(0, "c", "write"))
    for char in raw:
        view.show(ToolCallDelta(0, char))
    shown = io.StringIO()
    Console(file=shown, width=200).print(view._frame())
    assert shown.getvalue().strip() == f"⚙ {line}"


def test_of_long_arguments_the_end_is_shown() -> None:
    line = partial_call_line("write", '{"content": "' + "a" * 1000 + "the end")
    assert line.endswith('the end" …') and len(line) < 420


SYSTEM_TURN = Turn("system", ["Be kind."], tools=(ToolSpec("close", namespace="agents"),))


def test_a_system_turn_is_shown_as_the_systems() -> None:
    wanted = "system Be kind.\n[tools from here on: agents/close]"
    out, err = io.StringIO(), io.StringIO()
    PlainView(out, err, Paint(False)).replay([SYSTEM_TURN])
    assert wanted in out.getvalue() + err.getvalue()
    console = Console(file=out, width=60, force_terminal=False, color_system=None, highlight=False, markup=False)
    LiveView(console).replay([SYSTEM_TURN])
    assert wanted in out.getvalue()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("one\n\ntwo", ["one", "", "two"]),
        ("x" * 18 + "\u202ey", ["x" * 18 + "\\u", "{202e}y"]),
        ("x" * 45, ["x" * 20, "x" * 20, "x" * 5]),
    ],
)
def test_what_is_written_out_is_not_cut_at_the_edge(text: str, rows: list[str]) -> None:
    out = io.StringIO()
    console = Console(file=out, width=20, force_terminal=False)
    console.print(Safe(Line(text)))
    assert out.getvalue().split("\n") == [*rows, ""]
