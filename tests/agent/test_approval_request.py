from __future__ import annotations

import asyncio
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from midstream.agent.approval import ALWAYS, Approval, Decision
from midstream.agent.approval_request import CONTEXT, MAX_CHARACTERS, MAX_ROWS, ApprovalRequest, Change
from midstream.cli.line_input import question

from ..core.read_back import read_back

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "  x", "a\r"]), max_size=30)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))
SHOWN = {
    "a command": (
        ApprovalRequest("bash", {"command": "ls -l"}, runs=True, folder="/home/me/work"),
        "bash\n  command: ls -l\n  in: /home/me/work",
    ),
    "padding": (ApprovalRequest("bash", {"command": "ls" + " " * 3000 + "; touch X"}, runs=True), "bash\n  command: ls␠×3000; touch X"),
    "a lookalike of another argument": (
        ApprovalRequest("bash", {"command": "ls\n  timeout: 5", "timeout": 9}, runs=True),
        "bash\n  command: 2 lines, 15 characters\n  │ ls\n  │   timeout: 5\n  timeout: 9",
    ),
    "empty lines are counted": (
        ApprovalRequest("bash", {"command": "ls" + "\n" * 60 + "rm x"}, runs=True),
        "bash\n  command: 61 lines, 66 characters\n  │ ls\n  │ ⏎×59\n  │ rm x",
    ),
    "letters of another alphabet are named": (
        ApprovalRequest("bash", {"command": "c\u0430t x"}, runs=True),
        "bash\n  command: c\u0430t x\n  not ASCII: \u0430 is U+0430 CYRILLIC SMALL LETTER A",
    ),
    "a new file": (
        ApprovalRequest("write_file", {"path": "a.txt", "content": "x\n y"}, writes=True, change=Change("a.txt", None, "x\n y", ("content",))),
        "write_file\n  path: a.txt\n  creates a file: 2 lines, 4 bytes\n  │ +x\n  │ + y\n  │ \\ no line break at the end",
    ),
    "a hook behind a link": (
        ApprovalRequest("write_file", {"path": "l/x", "content": "x\n"}, writes=True, change=Change(".git/x", None, "x\n", ("content",))),
        "write_file\n  path: l/x\n  real path: .git/x\n  creates a file: 1 line, 2 bytes\n  │ +x\n"
        "  caution: git reads and runs what is in this folder",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SHOWN)
def test_how_a_request_is_shown(case: str) -> None:
    request, shown = SHOWN[case]
    assert request.shown() == shown


@given(
    st.text(st.sampled_from("a  \t\n×{5│┆漢é\u202e\\u"), max_size=200),
    st.integers(1, 90),
    st.sampled_from(["utf-8", "ascii", "latin-1"]),
)
@example("rm -rf" + " a" * 60 + " / tmp", 40, "utf-8")
@example("rm -rf" + " a" * 60 + " / tmp", 41, "ascii")
@example("word" + " word" * 60, 40, "utf-8")
@example("x" * 33 + "   y" * 30, 40, "utf-8")
@example("x" * 33 + " ×" * 60, 40, "utf-8")
def test_a_command_can_be_read_back_from_rows_of_any_width(command: str, columns: int, encoding: str) -> None:
    rows = ApprovalRequest("bash", {"command": command}, runs=True).shown(columns, encoding).split("\n")
    signs = encoding == "utf-8"
    bar, broken = ("  │ ", "  ┆ ") if signs else ("  | ", "  : ")
    lines: list[str] = []
    for row in rows[1:]:
        assert sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in row) <= max(24, columns - 1)
        row.encode(encoding)
        if row.startswith(broken):
            if lines:  # else it is the rest of our own count
                assert row[4] != " " and lines[-1][-1] != " "
                lines[-1] += row[4:]
        elif row.startswith(bar):
            lines.append(row[4:])
        elif row.startswith("  command: ") and rows[2:3] != [] and not rows[2].startswith("  not ASCII"):
            continue
        elif row.startswith("  command: "):
            lines.append(row.removeprefix("  command: "))
        else:
            assert row.startswith(("  not ASCII", "    "))
    read = [read_back(line, ascii_only=not signs) for line in lines]
    assert "\n".join(["\n" * (len(text) - 1) if text and not text.strip("\n") else text for text in read]) == command


@given(TEXTS, TEXTS, st.booleans())
def test_a_diff_has_every_line_that_is_added_and_its_counts(before: str, after: str, whole: bool) -> None:
    change = Change("a", before, after, whole=whole)
    rows = change.rows()
    new = after.split("\n")[: None if after and not after.endswith("\n") else -1]
    at = 0
    for row in rows:
        if row.startswith("@@"):
            at += int(row.split()[1])
        elif row[0] in " +":
            assert row[1:] == new[at]
            at += 1
    assert at == len(new), "whoever has the old file and the diff has the new file"
    assert sum(row.startswith(" ") for row in rows) <= 2 * (CONTEXT + 1) * (1 + sum(row[0] in "+-" for row in rows)) + 1
    if before != after:
        assert (
            f"(+{sum(row.startswith('+') for row in rows)} -{sum(row.startswith('-') for row in rows)})"
            in change.summary()
        )


def test_a_great_file_is_compared_in_bounded_time_and_removed_lines_are_counted() -> None:
    old = "".join([f"{number % 7}\n" for number in range(200_000)])
    change = Change("a", old, "new\n", ("content",), whole=True)
    assert change.rows()[-2:] == ["@@ 199,600 more lines removed", "+new"]
    assert "(+1 -200,000)" in change.summary()


def test_what_cannot_be_shown_of_the_old_file_is_said() -> None:
    assert (
        "cannot be shown (is a binary file of 9 bytes"
        in Change("a", None, "x", unread="is a binary file of 9 bytes").summary()
    )


class Human:
    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, request: ApprovalRequest) -> Decision:
        self.asked += 1
        return ALWAYS


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x" * (MAX_CHARACTERS - 200), True),
        ("x" * (MAX_CHARACTERS + 1), False),
        ("\u202e" * (MAX_CHARACTERS - 200), True),  # a run is counted, not drawn
        ("\u202e\u202d" * (MAX_CHARACTERS // 4), False),  # each is longer when it is written out
        ("x\n" * (MAX_ROWS - 10), True),
        ("x\n" * (MAX_ROWS + 10), False),
        ("x" * 1_048_576, False),
    ],
)  # fmt: skip
def test_what_nobody_can_read_is_refused_with_a_reason(text: str, shown: bool) -> None:
    human = Human()
    answer = asyncio.run(Approval(human).decide(ApprovalRequest("bash", {"command": text}, runs=True)))
    assert (answer.allowed, human.asked) == (shown, int(shown))
    if not shown:
        assert "too large to read" in answer.reason and "smaller steps" in answer.reason


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (ApprovalRequest("bash", {"command": "ls"}, runs=True), "[y]es, [a]lways this exact command in this session, [n]o"),
        (ApprovalRequest("fetch", {"url": "x"}, runs=True), "[a]lways fetch with exactly these arguments in this session"),
        (ApprovalRequest("write_file", {"path": "a"}, writes=True, change=Change("a", None, "")), "[a]lways write_file in this folder in this session"),
        (ApprovalRequest("write_file", {"path": "Makefile"}, writes=True, change=Change("Makefile", None, "")), "[y]es once (each change to such a file is asked about), [n]o"),
    ],
)  # fmt: skip
def test_the_question_says_what_an_always_covers(request_: ApprovalRequest, words: str) -> None:
    assert words in question(request_)


@pytest.mark.parametrize("writes", [True, False])
def test_a_tool_may_say_itself_that_it_asks_each_time(writes: bool) -> None:
    request = ApprovalRequest("x", {"a": "b"}, writes=writes, runs=not writes, own_caution="everybody reads it")
    assert request.scope == "" and request.caution == "everybody reads it"
    assert "  caution: everybody reads it" in request.shown().split("\n")
