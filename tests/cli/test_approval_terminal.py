"""Hostile calls in a real terminal: what a human sees before the question is the whole call, or it is refused.

One terminal for each kind of screen; the doubles make the calls of tests/data/approvals/hostile.json, one after another.
What stands on the screen and in its scrollback is read back, and must be the arguments, character by character.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pexpect
import pytest

from midstream.agent.approval_request import MAX_CHARACTERS, MAX_ROWS
from midstream.core.blocks import Conversation, ToolResponse
from midstream.core.tools import ToolSpec
from midstream.sim.answer import Answer, Call
from midstream.sim.server import Sim

from ..core.read_back import read_back
from ..long_run import cases
from .conftest import serving
from .terminal import Terminal

DATA = Path(__file__).parents[1] / "data" / "approvals" / "hostile.json"
QUESTION = "[n]o, or the reason why not:"
LONG = "".join([f"line {number}\n" for number in range(100)])


def _whole(value: Any) -> Any:
    """Text from pieces, each with how often it comes."""
    if not isinstance(value, list):
        return value
    return "".join([piece if isinstance(piece, str) else piece[0] * piece[1] for piece in value])


CASES: dict[str, Call] = {
    name: Call(tool, {key: _whole(value) for key, value in arguments.items()})
    for name, (tool, arguments) in json.loads(DATA.read_text("utf-8")).items()
}
REFUSED = {
    "a megabyte to write": f"at most {MAX_CHARACTERS:,} characters",
    "too many lines": f"and {MAX_ROWS:,} lines",
    "a megabyte to run": "longer than 100,000 bytes",
}
SCREENS: dict[str, tuple[int, dict[str, str]]] = {
    "40": (40, {}),
    "40, dumb": (40, {"TERM": "dumb"}),
    "40, C": (40, {"LC_ALL": "C"}),
    "80, NO_COLOR": (80, {"NO_COLOR": "1"}),
    "80, C and NO_COLOR": (80, {"LC_ALL": "C", "NO_COLOR": "1"}),
    "80, dumb and C": (80, {"TERM": "dumb", "LC_ALL": "C"}),
    "200": (200, {}),
    "200, dumb": (200, {"TERM": "dumb"}),
}
QUICK = {"40", "80, C and NO_COLOR", "200, dumb"}


def play(conversation: Conversation, tools: Sequence[ToolSpec], *, model: str, thinks: bool) -> Answer:
    """`case 7` is answered by the seventh call, and its result by a word."""
    last = conversation.turns[-1]
    results = [block for block in last.blocks if isinstance(block, ToolResponse)]
    number = re.findall(
        r"case (\d+)", "\n".join([turn.text for turn in conversation.turns if turn.speaker == "human"])
    )[-1]
    if not results:
        return Answer(calls=(list(CASES.values())[int(number)],))
    said = " ".join(results[-1].text.split())
    return Answer(f"over {number}: {said[:200]}")


@pytest.fixture
def port(home: Path) -> Iterator[str]:
    with serving(Sim(script=play)) as sim:
        yield f"{sim.url}/groq"  # sends each call in one piece, which is quick


@pytest.mark.parametrize("kind", cases(SCREENS, QUICK))
def test_every_character_is_seen_before_it_is_approved(kind: str, port: str, environ: dict[str, str]) -> None:
    columns, changes = SCREENS[kind]
    Path("long.txt").write_text(LONG)
    environ = {**environ, "GROQ_BASE_URL": port, "GROQ_API_KEY": "key-for-the-double", **changes}
    terminal = Terminal("chat", "-m", "groq/llama-3.3-70b-versatile", environ=environ, columns=columns)
    before = sorted(Path().rglob("*"))
    questions = 0
    try:
        terminal.wait_for("/help")
        for number, (name, call) in enumerate(CASES.items()):
            terminal.enter(f"case {number}")
            if name not in REFUSED:
                questions += 1
                screen = terminal.wait_for_words(QUESTION, count=questions)
                seen = _seen(screen, call.name, ascii_only=changes.get("LC_ALL") == "C")
                expected = _expected(call)
                assert {key: seen.get(key) for key in expected} == expected, name
                terminal.enter("n")
            screen = terminal.wait_for_words(f"over {number}:")
            terminal.wait_for_words("out -" if changes.get("LC_ALL") == "C" else "out ·", count=number + 1)
            if name in REFUSED:
                said = "".join(terminal.screen.rpartition(f"over {number}: ")[2].split())
                assert REFUSED[name].replace(" ", "") in said, screen[-600:]
        terminal.enter("/exit")
        assert terminal.wait_for_end() == 0
    finally:
        terminal.close()
    assert sorted(Path().rglob("*")) == before
    assert not re.search(rb"\x1b\[8m|\x1b\]0;ls|\x07|\xc2\x9b", terminal.raw)
    if kind.endswith("dumb"):
        assert b"\x1b" not in terminal.raw


def _expected(call: Call) -> dict[str, str]:
    shown = {name: value if isinstance(value, str) else json.dumps(value) for name, value in call.arguments.items()}
    if call.name == "write_file":
        content = shown.pop("content")
        old = {"notes.txt": "buy milk\n"}.get(shown["path"], "")
        assert content.startswith(old)
        shown["+"] = content.removeprefix(old).removesuffix("\n")
    if call.name == "edit_file":
        shown["-"], shown["+"] = shown.pop("old_string").removesuffix("\n"), shown.pop("new_string").removesuffix("\n")
    return shown


def _seen(screen: str, tool: str, *, ascii_only: bool) -> dict[str, str]:
    """The arguments as they can be read from the screen, above the last question."""
    rows = screen.split("\n")
    end = max(at for at, row in enumerate(rows) if row.startswith("Allow this?"))
    start = max(at for at, row in enumerate(rows[:end]) if row == tool)
    bar, broken = ("  |", "  :") if ascii_only else ("  │", "  ┆")
    lines: list[str] = []
    for row in rows[start + 1 : end]:
        assert row.startswith("  "), f"{row!r} stands outside"
        if row.startswith(broken + " "):
            lines[-1] += row[4:]
        else:
            lines.append(row)
    found: dict[str, list[str]] = {}
    values: list[str] = []
    for line in lines:
        if line.startswith("    "):
            continue  # the rest of a sentence of ours
        if not line.startswith(bar):
            name, _, value = line[2:].partition(": ")
            values = found.setdefault(name, [])
            if not _counts(value):
                values.append(read_back(value, ascii_only=ascii_only))
            continue
        text = line[4:]
        if text[:1] in "+-" and name.startswith(("creates", "replaces", "edits")):
            found.setdefault(text[0], []).extend(_lines(text[1:], ascii_only))
        else:
            values += _lines(text, ascii_only)
    return {name: "\n".join(texts) for name, texts in found.items()}


def _counts(value: str) -> bool:
    return re.fullmatch(r"[\d,]+ lines?, [\d,]+ characters?", value) is not None


def _lines(text: str, ascii_only: bool) -> list[str]:
    line = read_back(text, ascii_only=ascii_only)
    return [""] * len(line) if line and not line.strip("\n") else [line]


@pytest.mark.parametrize("kind", ["80, NO_COLOR", "80, dumb"])
def test_what_was_typed_before_the_question_is_no_answer(kind: str, environ: dict[str, str]) -> None:
    changes = {"TERM": "dumb"} if "dumb" in kind else {"NO_COLOR": "1"}
    changes["MIDSTREAM_SIM_DELAY"] = "0.05"
    terminal = Terminal("chat", "-m", "sim/kimi-k2.5", environ={**environ, **changes}, columns=80)
    try:
        terminal.wait_for("›")
        terminal.enter('Run bash "touch X"')
        terminal.wait_for("Step 1")
        terminal.enter("y")  # meant for whatever, but not for a call that nobody has seen
        terminal.wait_for_words(QUESTION)
        terminal.enter("n")
        terminal.wait_for("not allowed")
        terminal.wait_for("You said: y")  # the line waited for its turn
        assert not Path("X").exists()
    finally:
        terminal.close()


def test_one_question_in_a_narrow_terminal_shows_all_of_the_call(port: str, environ: dict[str, str]) -> None:
    environ = {**environ, "GROQ_BASE_URL": port, "GROQ_API_KEY": "key-for-the-double"}
    model = ("-m", "groq/llama-3.3-70b-versatile", "-T", "all")
    for name, call in (("padding", CASES["padding"]), ("sixty lines", CASES["sixty lines"])):
        number = list(CASES).index(name)
        terminal = Terminal("ask", *model, f"case {number}", environ=environ, columns=40, rows=10)
        try:
            screen = terminal.wait_for_words(QUESTION)
            seen = _seen(screen, call.name, ascii_only=False)
            expected = _expected(call)
            assert {key: seen.get(key) for key in expected} == expected
            terminal.enter("n")
            assert terminal.wait_for_end() == 0
        finally:
            terminal.close()


def test_nobody_is_asked_where_the_question_could_not_be_seen(port: str, environ: dict[str, str]) -> None:
    environ = {**environ, "GROQ_BASE_URL": port, "GROQ_API_KEY": "key-for-the-double", "TERM": "dumb"}
    command = (
        f"exec {shlex.quote(sys.executable)} -m midstream.cli.main chat -m groq/llama-3.3-70b-versatile >out 2>err"
    )
    process = pexpect.spawn("/bin/sh", ["-c", command], env=environ, timeout=30)
    try:
        process.send("case 0\ny\n\x04\x04")
        process.expect(pexpect.EOF)
    finally:
        process.close(force=True)
    assert "nobody is there to approve it" in Path("err").read_text("utf-8")
    assert not Path("X").exists()
