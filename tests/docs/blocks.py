"""The blocks of code on the documentation's pages, as programs and terminal sessions that can be run.

A `python` block is a program. One that goes on where the block before it ended says so in the line above it,
`<!-- continues -->`. One that is a file of its own, for a program that a later block runs, says `<!-- file: NAME -->`. A `console` block
is a session: a line that starts with `$ ` is typed, the lines below it are what it prints, `[…]` stands for lines left out. A block that
cannot be run here says why: `<!-- not run: REASON -->`. Other blocks (`sh`, `toml`, …) are read by tests of their own.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>continues|file: [\w./-]+|not run: [^>]+?) -->\n+)?^```(?P<language>[\w-]+)[^\n]*\n(?P<code>.*?)^```",
    re.M | re.S,
)


class Block(msgspec.Struct, frozen=True):
    language: str
    code: str
    line: int
    mark: str = ""


class Program(msgspec.Struct, frozen=True):
    """Code that runs by itself, with the files it needs."""

    name: str
    code: str
    files: tuple[tuple[str, str], ...] = ()


class Step(msgspec.Struct, frozen=True):
    """A command of a terminal session, and the lines it is said to print."""

    command: str
    shown: tuple[str, ...]


def pages() -> list[Path]:
    return sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(found["language"], found["code"], text.count("\n", 0, found.start("code")), found["mark"] or "")
        for found in _BLOCK.finditer(text)
    ]


def programs(page: Path) -> list[Program]:
    made: list[Program] = []
    files: list[tuple[str, str]] = []
    for block in blocks(page):
        kind, _, name = block.mark.partition(": ")
        if kind == "file":
            files.append((name, block.code))
        elif block.language == "python" and kind == "continues":
            made[-1] = msgspec.structs.replace(made[-1], code=made[-1].code + block.code)
        elif block.language == "python" and kind != "not run":
            made.append(Program(f"{page.relative_to(ROOT)}:{block.line}", block.code, tuple(files)))
    return made


def sessions(page: Path) -> list[tuple[str, tuple[Step, ...], tuple[tuple[str, str], ...]]]:
    """The terminal sessions of a page: where each stands, its steps, and the files of the page so far."""
    made: list[tuple[str, tuple[Step, ...], tuple[tuple[str, str], ...]]] = []
    files: list[tuple[str, str]] = []
    for block in blocks(page):
        kind, _, name = block.mark.partition(": ")
        if kind == "file":
            files.append((name, block.code))
        elif block.language == "console" and kind != "not run":
            made.append((f"{page.relative_to(ROOT)}:{block.line}", _steps(block.code), tuple(files)))
    return made


def _steps(code: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    for part in re.split(r"^\$ ", code, flags=re.M)[1:]:
        lines = part.rstrip("\n").split("\n")
        command = lines.pop(0)
        while command.endswith("\\") and lines:
            command = command[:-1] + lines.pop(0).strip()
        steps.append(Step(command, tuple(lines)))
    return tuple(steps)
