"""A docstring read for the model: its first paragraph, and what it says of each parameter.

Understood are the three styles in use: Google (`Args:` and indented `name (type): text`), numpy (`Parameters` underlined)
and reST (`:param name: text`). Anything else is prose and describes no parameter.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

_GOOGLE_HEAD = re.compile(r"(?:Args|Arguments|Parameters|Params)\s*:\s*$")
_GOOGLE_ITEM = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY_ITEM = re.compile(r"\*{0,2}(\w+)\s*(?::.*)?$")
_REST_ITEM = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")


def read_docstring(func: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The description of a function and of its parameters, as its docstring has them."""
    lines = (inspect.getdoc(func) or "").splitlines()
    parameters = {**_google(lines), **_numpy(lines), **_rest(lines)}
    return _first_paragraph(lines), {name: " ".join(words).strip() for name, words in parameters.items()}


def _first_paragraph(lines: list[str]) -> str:
    words: list[str] = []
    for line in lines:
        if _GOOGLE_HEAD.match(line) or line.startswith(":") or not line.strip():
            break
        words.append(line.strip())
    return " ".join(words)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _google(lines: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    start = next((i for i, line in enumerate(lines) if _GOOGLE_HEAD.match(line)), None)
    if start is None:
        return found
    item_indent = 0
    words: list[str] | None = None
    for line in lines[start + 1 :]:
        if not line.strip():
            continue
        indent = _indent(line)
        if indent == 0:
            break
        item_indent = item_indent or indent
        match = _GOOGLE_ITEM.match(line.strip()) if indent == item_indent else None
        if match:
            words = found.setdefault(match[1], [match[2]])
        elif words is not None:
            words.append(line.strip())
    return found


def _numpy(lines: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    start = next(
        (i for i in range(len(lines) - 1) if lines[i].strip() == "Parameters" and _is_rule(lines[i + 1])), None
    )
    if start is None:
        return found
    words: list[str] | None = None
    for i, line in enumerate(lines[start + 2 :], start + 2):
        if not line.strip():
            continue
        if _indent(line):
            if words is not None:
                words.append(line.strip())
            continue
        match = _NUMPY_ITEM.match(line)
        if match is None or (i + 1 < len(lines) and _is_rule(lines[i + 1])):
            break
        words = found.setdefault(match[1], [])
    return found


def _is_rule(line: str) -> bool:
    return len(line.strip()) >= 3 and set(line.strip()) == {"-"}


def _rest(lines: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    words: list[str] | None = None
    for line in lines:
        match = _REST_ITEM.match(line)
        if match:
            words = found.setdefault(match[1], [match[2]])
        elif not _indent(line):
            words = None
        elif words is not None:
            words.append(line.strip())
    return found
