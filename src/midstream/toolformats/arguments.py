"""The arguments of a call on their way from text to JSON text: trimmed, unwrapped, or read out of JSON that names the tool."""

from __future__ import annotations

import json
import re

import msgspec

from ..core.blocks import ToolCall
from .findings import ArgumentsFound
from .format import dump
from .json_text import parse
from .script import Collected, Reader

_OUTSIDE = re.compile(r'["{}\[\]]')
_IN_STRING = re.compile(r'"|\\.?', re.DOTALL)


class Trimmed:
    """Arguments on their way, without the white space around them."""

    __slots__ = ("_blank", "_reader", "said")

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._blank: list[str] = []
        self.said = False

    def add(self, piece: str) -> None:
        body = piece.rstrip()
        if body:
            self._reader.out.append(ArgumentsFound("".join(self._blank) + body))
            self._blank = []
            self.said = True
        if self.said and len(body) < len(piece):
            self._blank.append(piece[len(body) :])


class Balanced:
    """Arguments on their way out of a larger JSON text: the object they are, and the `rest` behind it."""

    __slots__ = ("_depth", "_done", "_escaped", "_in_string", "_reader", "_rest")

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._rest = Collected()
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._done = False

    @property
    def rest(self) -> str:
        return self._rest.text

    def add(self, piece: str) -> None:
        end = 0 if self._done else self._end(piece)
        if end:
            self._reader.out.append(ArgumentsFound(piece[:end]))
        if end < len(piece):
            self._rest.add(piece[end:])

    def _end(self, piece: str) -> int:
        """Where in the piece the object ends; its length, if further on."""
        pos = 1 if self._escaped else 0
        self._escaped = False
        while match := (_IN_STRING if self._in_string else _OUTSIDE).search(piece, pos):
            pos = match.end()
            char = piece[match.start()]
            if char == '"':
                self._in_string = not self._in_string
            elif char == "\\":
                self._escaped = match.end() - match.start() < 2
            elif char in "{[":
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth <= 0:
                    self._done = True
                    return pos
        return len(piece)


def unwrap(arguments: str) -> str:
    """Arguments out of a code fence, or out of a JSON string that holds the JSON."""
    if arguments.startswith("```"):
        return arguments.removeprefix("```").removeprefix("json").removesuffix("```").strip()
    if arguments.startswith('"'):
        try:
            inner = parse(arguments)
            if isinstance(inner, str) and isinstance(parse(inner), dict):
                return inner
        except ValueError:
            pass
    return arguments


class WrittenCall(msgspec.Struct):
    """A call as models write it in JSON, with any of the usual keys."""

    name: str = ""
    arguments: msgspec.Raw = msgspec.Raw()
    parameters: msgspec.Raw = msgspec.Raw()
    id: msgspec.Raw = msgspec.Raw()
    function: WrittenCall | None = None

    @property
    def whole(self) -> tuple[str, str, str | None]:
        """Name, arguments and id, wherever they stand."""
        inner = self.function or self
        text = bytes(inner.arguments).decode() or bytes(inner.parameters).decode()
        raw_id = bytes(self.id).decode().strip('"')
        return (
            inner.name,
            unwrap("" if text == "null" else text) or "{}",
            raw_id if raw_id not in ("", "null") else None,
        )

    @property
    def has_arguments(self) -> bool:
        inner = self.function or self
        return bool(bytes(inner.arguments) or bytes(inner.parameters))


_WRITTEN = msgspec.json.Decoder(WrittenCall | list[WrittenCall])
_PLAIN = json.JSONDecoder()


def written_calls(text: str) -> list[WrittenCall]:
    """The calls in a JSON object or array; ValueError when it is none, or names no tool."""
    try:
        found = _WRITTEN.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise ValueError(str(error)) from None
    calls = found if isinstance(found, list) else [found]
    if not all(call.whole[0] for call in calls):
        raise ValueError("a call without a name")
    return calls


def leading_value(text: str) -> tuple[str, str]:
    """One JSON value and what follows it; ValueError when the text does not begin with one."""
    try:
        _, end = _PLAIN.raw_decode(text)
    except RecursionError as error:
        raise ValueError(str(error)) from None
    return text[:end], text[end:]


def arguments_of(call: ToolCall) -> dict[str, object]:
    """The arguments of a call to be rendered key by key; what is no JSON object stands whole under `arguments`."""
    if not call.arguments.strip():
        return {}
    try:
        value = parse(call.arguments)
    except ValueError:
        value = call.arguments
    return value if isinstance(value, dict) else {"arguments": value}


def json_arguments(call: ToolCall) -> str:
    """The arguments of a call to be rendered as JSON: as they came, if they are JSON."""
    text = call.arguments.strip() or "{}"
    try:
        parse(text)
    except ValueError:
        return dump(text)
    return text
