"""The arguments of a call: streamed out of the text around them, read as JSON or as bare values, and rendered again.

Formats that write `<parameter=n>3</parameter>` do not tell whether 3 is a number: the schema does (`typed`). A string stays
exactly as written; anything else is JSON (or the Python spelling of it), and stays text when it is not what the schema
allows, so that validation can report it. Without a schema a value that reads as JSON is JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..core.blocks import ToolCall
from ..core.patterns import late_pattern
from ..core.tools import ToolSpec
from .findings import ArgumentsFound
from .format import dump
from .json_text import parse
from .reader import Collected, Reader

_OUTSIDE = late_pattern(r'["{}\[\]]')
_IN_STRING = late_pattern(r'"|\\.?', re.DOTALL)


# White space inside the JSON is kept, because it may be inside a string; what may turn out to be the end waits.
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
        # Blanks before the first word are dropped, later ones wait for a word behind them.
        if self.said and len(body) < len(piece):
            self._blank.append(piece[len(body) :])


# A second automaton beside `JsonProgress` of the core, because it has to tell the very character where the object ends.
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
                # A backslash at the end of the piece: its other half is the first character of the next.
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
    # Models put fences around JSON because they see it so everywhere.
    if arguments.startswith("```"):
        return arguments.removeprefix("```").removeprefix("json").removesuffix("```").strip()
    if arguments.startswith('"'):
        try:
            inner = parse(arguments)
            # JSON inside a string inside JSON (field-guide/text-calls.md#names-and-arguments).
            # Only an object is unwrapped: any other string is a string.
            if isinstance(inner, str) and isinstance(parse(inner), dict):
                return inner
        except ValueError:
            pass
    return arguments


# Keys of the formats that are read: `parameters` is Llama's word, `function` OpenAI's frame.
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
        # As written, byte for byte: neither spacing nor the order of keys may change.
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
# The standard library's, for `raw_decode`: msgspec reads a whole text or nothing.
_PLAIN = json.JSONDecoder()


def written_calls(text: str) -> list[WrittenCall]:
    """The calls in a JSON object or array; ValueError when it is something else, or names no tool."""
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
    """The arguments of a call to be rendered key by key; anything but a JSON object goes whole under `arguments`."""
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
        # Broken JSON goes into a JSON string: the model sees what it wrote, and the frame stays valid.
        return dump(text)
    return text


_PYTHON_WORDS = {"True": True, "False": False, "None": None}


def properties_of(name: str, tools: Sequence[ToolSpec]) -> Mapping[str, Any]:
    """The schemas of a tool's parameters, by name; empty for a tool we do not know."""
    for tool in tools:
        if tool.name == name:
            found = (tool.parameters or {}).get("properties")
            return found if isinstance(found, dict) else {}
    return {}


def typed(text: str, schema: Any) -> Any:
    """The value that `text` means under this schema."""
    types = _types(schema)
    # A string is taken as written, blanks and all: `" 3"` is not 3.
    if types == {"string"}:
        return text
    word = text.strip()
    try:
        value = _PYTHON_WORDS[word] if word in _PYTHON_WORDS else parse(word)
    except ValueError:
        return text
    if not types:
        # Without a schema, quotes are part of what was written.
        return value if not isinstance(value, str) else text
    # `3.0` where an integer is due: the model meant 3.
    if isinstance(value, float) and value.is_integer() and "integer" in types and "number" not in types:
        value = int(value)
    # Not what the schema allows: it stays text, so that the tool's own validation tells the model in its words.
    return value if _kind(value) & types else text


def bare(value: Any) -> str:
    """How a value is written bare: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else dump(value)


def _types(schema: Any) -> set[str]:
    if not isinstance(schema, dict):
        return set()
    found = schema.get("type")
    types = (
        {found}
        if isinstance(found, str)
        else {t for t in found if isinstance(t, str)}
        if isinstance(found, list)
        else set()
    )
    if not types:
        for key in ("anyOf", "oneOf"):
            for option in schema.get(key) or ():
                types |= _types(option)
    if not types and isinstance(schema.get("enum"), list):
        for option in schema["enum"]:
            types |= _kind(option)
    return types


def _kind(value: Any) -> set[str]:
    """The schema types a value has."""
    match value:
        case None:
            return {"null"}
        # Before `int`: in Python a bool is one.
        case bool():
            return {"boolean"}
        case int():
            return {"integer", "number"}
        case float():
            return {"number"}
        case str():
            return {"string"}
        case list():
            return {"array"}
        case _:
            return {"object"}


class TagEscape:
    """Lets a value hold a format's own tags, for formats that have no escape of their own.

    Only the `<` of those tags is written `&lt;`, and an `&lt;` that would be misread gets one more `amp;`: every other text,
    entities included, stays as it is.
    """

    __slots__ = ("_escaped", "_tag")

    def __init__(self, *tags: str) -> None:
        rest = "|".join([re.escape(tag[1:]) for tag in tags])
        # An entity that is already there gets one more `amp;`, so that unescaping gives it back and not a tag.
        self._tag = re.compile(rf"<(?={rest})|&((?:amp;)*+)lt;(?={rest})")
        self._escaped = re.compile(rf"&(amp;)?((?:amp;)*+)lt;(?={rest})")

    def escape(self, text: str) -> str:
        return self._tag.sub(lambda m: "&lt;" if m[0] == "<" else f"&amp;{m[1]}lt;", text)

    def unescape(self, text: str) -> str:
        return self._escaped.sub(lambda m: f"&{m[2]}lt;" if m[1] else "<", text)


def json_call(call: ToolCall, key: str = "arguments", call_id: str = "") -> str:
    """A call to be rendered as one JSON object."""
    identity = f', "id": {dump(call_id)}' if call_id else ""
    return f'{{"name": {dump(call.name)}, "{key}": {json_arguments(call)}{identity}}}'
