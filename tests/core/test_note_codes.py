"""The codes of notes: every one is used, documented, and given to every note that is made."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from midstream.core.handoff import NOTE_CODES

ROOT = Path(__file__).parents[2]
SOURCES = [path for path in (ROOT / "src" / "midstream").rglob("*.py") if path.name != "handoff.py"]


def nodes(path: Path, *telling: str) -> Iterator[ast.AST]:
    """What the file consists of, if one of these words is in it at all: parsing is what takes the time."""
    return ast.walk(parsed(path)) if any(word in path.read_text("utf-8") for word in telling) else iter(())


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def words(path: Path) -> Iterator[str]:
    for node in nodes(path, *NOTE_CODES):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_the_documentation_lists_every_code_once_in_the_codes_own_order() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .+ \|$", (ROOT / "docs" / "notes.md").read_text("utf-8"), re.M)
    assert rows == list(NOTE_CODES)


def test_every_code_is_given_by_some_note() -> None:
    makers = [path for path in SOURCES if path.parts[-2] != "doctor"]
    said = {word for path in makers for word in words(path)}
    assert [code for code in NOTE_CODES if code not in said] == []


def test_no_code_reads_the_sentence_of_a_note() -> None:
    """`why` may be shown, and handed on; nothing searches it, splits it or compares it."""
    reading: list[str] = []
    for path in SOURCES:
        for node in nodes(path, ".why"):
            parts: list[ast.expr] = []
            if isinstance(node, ast.Compare):
                parts = [node.left, *node.comparators]
            elif isinstance(node, ast.Attribute):
                parts = [node.value]
            found = [part for part in parts if isinstance(part, ast.Attribute) and part.attr == "why"]
            reading += [f"{path.name}:{part.lineno}" for part in found]
    assert reading == []
