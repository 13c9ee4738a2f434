"""The JSON of Ollama's answers: every field optional, arguments raw so that no number in them changes."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ...core.errors import MalformedStream
from ..lenient_json import decode_object, text_of, token_count

NOTHING = msgspec.Raw(b"")


class _Shape(msgspec.Struct, gc=False):
    pass


class Function(_Shape):
    name: str | None = None
    # Raw: the arguments become text again, and long numbers must keep their digits (field-guide/ollama.md#tools).
    arguments: msgspec.Raw = NOTHING


class Call(_Shape):
    id: str | None = None
    function: Function | None = None


class Message(_Shape):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[Call] | None = None
    images: list[str] | None = None


class Line(_Shape):
    """One streamed line, or a whole body: they are the same."""

    message: Message | None = None
    model: str | None = None
    done: bool | None = None
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    total_duration: int | None = None
    load_duration: int | None = None
    prompt_eval_duration: int | None = None
    eval_duration: int | None = None
    error: Any = None


decode_line = msgspec.json.Decoder(Line).decode

# From the class itself, so that a new count is not forgotten in a second list.
_COUNTS = tuple(name for name in Line.__struct_fields__ if name.endswith(("_count", "_duration")))
_TEXTS = ("content", "thinking")
_WANTED: dict[str, type] = {"message": dict, "model": str, "done": bool, "done_reason": str}


def read_line(data: bytes) -> Line:
    """Typed and fast, or lenient and slow; MalformedStream if it is no answer."""
    try:
        return decode_line(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        value = decode_object(data, "an object", _TEXTS)
    try:
        softened = _softened(value)
        message = softened["message"] or {}
        texts = {name: message.pop(name, None) for name in _TEXTS}  # they may end in half a character, which is no JSON
        line = decode_line(json.dumps(softened).encode())
        if line.message is not None:
            line.message.content, line.message.thinking = texts["content"], texts["thinking"]
        return line
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise MalformedStream(f"unexpected shape: {error}") from None


def counts(line: Line) -> dict[str, Any] | None:
    """The counts of the last line; None where there are none."""
    found = {name: value for name in _COUNTS if (value := getattr(line, name)) is not None}
    return found or None


def _softened(line: dict[str, Any]) -> dict[str, Any]:
    """A line whose fields have surprising types, with those fields left out."""
    for name, wanted in _WANTED.items():
        # What does not fit is left out: of these fields only the message is worth an answer, and it has its own rules.
        if not isinstance(line.get(name), wanted):
            line[name] = None
    for name in _COUNTS:
        if type(line.get(name)) is not int:
            # A bool is an int in Python, and a count may come as a float.
            line[name] = token_count(line.get(name)) or None
    message = line["message"]
    if message is not None:
        for name in _TEXTS:
            if message.get(name) is not None:
                message[name] = text_of(message[name])
        images = message.get("images")
        message["images"] = [each for each in images if isinstance(each, str)] if isinstance(images, list) else None
        calls = message.get("tool_calls")
        calls = [calls] if isinstance(calls, dict) else calls
        message["tool_calls"] = [_soft_call(call) for call in calls if isinstance(call, dict)] if isinstance(
            calls, list
        ) else None  # fmt: skip
    return line


def _soft_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function") if isinstance(call.get("function"), dict) else {}
    assert isinstance(function, dict)
    name = function.get("name")
    kept: dict[str, Any] = {"name": name if isinstance(name, str) else None}
    if function.get("arguments") is not None:
        kept["arguments"] = function["arguments"]
    return {"id": call["id"] if isinstance(call.get("id"), str) else None, "function": kept}
