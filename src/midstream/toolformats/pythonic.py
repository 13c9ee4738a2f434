"""Calls written as Python: `[get_weather(city='Rome', days=3), now()]`.

Only literals are read, by a small parser of our own: nothing is evaluated, nesting has a limit, and the cost is linear.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite
from typing import Any, NoReturn

from ..core.patterns import late_pattern
from ..core.surrogates import mended
from ..core.tools import ToolSpec
from .arguments import properties_of

# A parser of our own and not Python's `ast`, which reads any expression and recurses without a limit that we choose.
MAX_DEPTH = 64
MAX_CALLS = 1024
"""No answer means to make more in one breath."""

# Possessive quantifiers here and below: text from a model must not find a slow way through a pattern.
_SPACE = late_pattern(r"(?:\s|#[^\n]*)*+")
_NAME = late_pattern(r"[A-Za-z_][\w.-]*+")
_NUMBER = late_pattern(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_STRING_PART = {quote: late_pattern(rf"[^{quote}\\]++|\\.|{quote}", re.DOTALL) for quote in "'\""}
_ESCAPE = late_pattern(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|(.))", re.DOTALL)
_PLAIN_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "0": "\0", "\n": ""}
_NAMESPACES = ("default_api", "functions")
"""Prefixes of declared names in Gemma's and OpenAI's prompts. Any other prefix (`os.remove`) is part of the name."""
# Models mix the spellings of the two languages they know best.
_WORDS = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}


def parse_calls(text: str, tools: Sequence[ToolSpec]) -> list[tuple[str, dict[str, Any]]]:
    """The calls in `[f(...), g(...)]`, `f(...)` or `print(f(...))`; ValueError when the text is anything else."""
    parser = _Parser(text, tools)
    calls = parser.calls()
    if not calls:
        raise ValueError("expected a call")
    return calls


class _Parser:
    __slots__ = ("_at", "_declared", "_text", "_tools")

    def __init__(self, text: str, tools: Sequence[ToolSpec]) -> None:
        self._text = text
        self._at = 0
        self._tools = tools
        self._declared = frozenset([tool.name for tool in tools])

    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        listed = self._takes("[")
        found: list[tuple[str, dict[str, Any]]] = []
        # A list ends with its bracket, bare calls with the text.
        while not (self._takes("]") if listed else self._ended()):
            found.append(self._call())
            if len(found) > MAX_CALLS:
                raise ValueError(f"more than {MAX_CALLS} calls")
            # Bare calls may also stand on lines of their own, without a separator.
            if not self._takes(",") and not self._takes(";") and listed:
                self._want("]")
                break
        if not self._ended():
            self._fail("the end")
        return found

    def _call(self, depth: int = 0) -> tuple[str, dict[str, Any]]:
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
        self._skip()
        match = _NAME.match(self._text, self._at)
        if not match:
            self._fail("a name")
        self._at = match.end()
        name = match[0]
        self._want("(")
        # `print(f())` is how Gemma shows that it wants the result.
        if name == "print" and name not in self._declared:
            call = self._call(depth + 1)
            self._want(")")
            return call
        space, _, bare = name.partition(".")
        # A prefix is taken off only if it is one that hosts add. `os.remove` must not become a declared `remove`.
        if name not in self._declared and space in _NAMESPACES:
            name = bare
        return name, self._arguments(name)

    def _arguments(self, name: str) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        while not self._takes(")"):
            self._skip()
            match = _NAME.match(self._text, self._at)
            if match and match[0] not in _WORDS:
                self._at = match.end()
                self._want("=")
                arguments[match[0]] = self._value(0)
            else:
                # Properties keep the order in which the tool declares them.
                arguments[self._position(name, len(arguments))] = self._value(0)
            if not self._takes(","):
                self._want(")")
                break
        return arguments

    def _position(self, name: str, number: int) -> str:
        """The parameter that a value without a keyword is for."""
        names = list(properties_of(name, self._tools))
        return names[number] if number < len(names) else self._fail("a keyword argument")

    def _value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
        self._skip()
        char = self._text[self._at : self._at + 1]
        if char in ("'", '"'):
            return self._string(char)
        if char in ("[", "("):
            return self._list("]" if char == "[" else ")", depth)
        if char == "{":
            return self._dict(depth)
        if match := _NUMBER.match(self._text, self._at):
            self._at = match.end()
            # An integer stays one: 3.0 for an id or a count is refused by many tools.
            if not any(c in match[0] for c in ".eE"):
                return int(match[0])
            # `1e999` is a literal in Python, and no number in JSON, which the arguments become.
            return value if isfinite(value := float(match[0])) else self._fail("a number")
        match = _NAME.match(self._text, self._at)
        if match and match[0] in _WORDS:
            self._at = match.end()
            return _WORDS[match[0]]
        return self._fail("a literal")

    def _list(self, end: str, depth: int) -> list[Any]:
        self._at += 1
        items: list[Any] = []
        while not self._takes(end):
            items.append(self._value(depth + 1))
            if not self._takes(","):
                self._want(end)
                break
        return items

    def _dict(self, depth: int) -> dict[str, Any]:
        self._at += 1
        found: dict[str, Any] = {}
        while not self._takes("}"):
            key = self._value(depth + 1)
            if not isinstance(key, str):
                self._fail("a string key")
            self._want(":")
            found[key] = self._value(depth + 1)
            if not self._takes(","):
                self._want("}")
                break
        return found

    def _string(self, quote: str) -> str:
        pattern = _STRING_PART[quote]
        self._at += 1
        parts: list[str] = []
        while match := pattern.match(self._text, self._at):
            self._at = match.end()
            if match[0] == quote:
                return mended(_ESCAPE.sub(_unescape, "".join(parts)))
            parts.append(match[0])
        return self._fail("the end of a string")

    def _skip(self) -> None:
        match = _SPACE.match(self._text, self._at)
        if match:
            self._at = match.end()

    def _takes(self, char: str) -> bool:
        if not self._text.startswith(char, self._at):
            self._skip()
            if not self._text.startswith(char, self._at):
                return False
        self._at += 1
        return True

    def _want(self, char: str) -> None:
        if not self._takes(char):
            self._fail(repr(char))

    def _ended(self) -> bool:
        self._skip()
        return self._at >= len(self._text)

    def _fail(self, wanted: str) -> NoReturn:
        raise ValueError(f"expected {wanted} at {self._at}, got {self._text[self._at : self._at + 20]!r}")


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code:
        point = int(code, 16)
        # A number beyond Unicode: kept as written.
        return chr(point) if point < 0x110000 else match[0]
    if match[4]:
        return chr(int(match[4], 8))
    return _PLAIN_ESCAPES.get(match[5], match[5] if match[5] in "'\"\\" else match[0])
