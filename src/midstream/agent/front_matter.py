"""Front matter: the lines between two `---` at the beginning of a Markdown file.

Only what skills use is read, by hand: `key: value` with a plain, quoted or block value (`|`, `>`). Nested values are skipped, and anchors,
aliases and tags are plain text. So there is nothing that could grow or run, and the time is linear in the size, which is
bounded. A YAML library would read more than anybody should trust to a file that came with a project, and would be a dependency for two strings.
"""

from __future__ import annotations

import re

from ..core.errors import ToolFailed
from ..core.patterns import late_pattern

MAX_LINES = 400
_FENCE = "---"
_KEY = late_pattern(r"([A-Za-z_][\w .-]{0,63}?)\s*:(?:\s+(.*))?")
_BLOCK = late_pattern(r"[|>][-+0-9]{0,2}(?:\s+#.*)?")
_ESCAPE = late_pattern(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "e": "\x1b", "/": "/"}


def split_front_matter(text: str) -> tuple[dict[str, str], str]:
    """The values at the beginning of a file by their keys, and the text below; ToolFailed says what is wrong."""
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        raise ToolFailed(f"it does not begin with {_FENCE}, a name and a description")
    # Only the beginning is searched: a file without a second fence must not be read to its end.
    end = next((at for at, line in enumerate(lines[1 : MAX_LINES + 2], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise ToolFailed(f"the front matter has no second {_FENCE} within {MAX_LINES} lines")
    return _values(lines[1:end]), "\n".join(lines[end + 1 :]).strip("\n")


def _values(lines: list[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        below: list[str] = []
        if not line.strip() or line.startswith("#"):
            continue
        while at < len(lines) and (not lines[at].strip() or lines[at][0] in " \t" or lines[at].startswith("- ")):
            below.append(lines[at])
            at += 1
        found = _KEY.fullmatch(line.rstrip())
        if found is None:
            raise ToolFailed(f"the front matter has a line that is not `key: value`: {line.strip()[:60]!r}")
        # YAML lets the last one win; in a file of instructions two values are more likely a mistake, or a trick.
        if found[1] in values:
            raise ToolFailed(f"the front matter says {found[1]} twice")
        values[found[1]] = _value((found[2] or "").strip(), below)
    return values


def _value(first: str, below: list[str]) -> str:
    if _BLOCK.fullmatch(first):
        margin = min((len(line) - len(line.lstrip()) for line in below if line.strip()), default=0)
        kept = [line[margin:].rstrip() for line in below]
        return ("\n" if first[0] == "|" else " ").join(kept).strip()
    if not first:
        # A mapping or a list: nothing that we ask for.
        return " ".join([line.strip() for line in below if line.strip()])
    whole = " ".join([first, *[line.strip() for line in below if line.strip()]])
    if whole[0] == '"':
        end = _end_of_quote(whole)
        return _ESCAPE.sub(_unescaped, whole[1:end])
    if whole[0] == "'":
        inside = whole[1:].replace("''", "\0")
        return inside.partition("'")[0].replace("\0", "'")
    # A comment begins behind a blank; `C#` is a word.
    return whole.partition(" #")[0].rstrip()


def _end_of_quote(text: str) -> int:
    at = 1
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return min(at, len(text))


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, code)
