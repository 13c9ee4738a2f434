"""The JSON of Gemini's answers as hosts really send it: every field optional; what is only kept stays raw."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Raw

from ...core.errors import MalformedStream
from ...core.surrogates import clean
from ..lenient_json import decode_object, text_of

NOTHING = Raw(b"")


class _Shape(msgspec.Struct, gc=False):
    pass


class Blob(_Shape):
    mimeType: str | None = None
    data: str | None = None


class FileReference(_Shape):
    mimeType: str | None = None
    fileUri: str | None = None


class PartialArg(_Shape):
    """One value of a call whose arguments are streamed: a string may come in pieces."""

    jsonPath: str | None = None
    stringValue: str | None = None
    numberValue: int | float | None = None
    boolValue: bool | None = None
    willContinue: bool | None = None


class FunctionCall(_Shape):
    id: str | None = None
    name: str | None = None
    # Raw, so that the arguments keep the spelling of their numbers.
    args: Raw = NOTHING
    partialArgs: list[PartialArg] | None = None
    willContinue: bool | None = None


class Part(_Shape):
    text: str | None = None
    thought: bool | None = None
    thoughtSignature: str | None = None
    functionCall: FunctionCall | None = None
    inlineData: Blob | None = None
    fileData: FileReference | None = None


class Content(_Shape):
    parts: list[Part] | None = None


class Candidate(_Shape):
    content: Content | None = None
    finishReason: str | int | None = None
    index: int | None = None
    finishMessage: str | None = None
    groundingMetadata: Raw = NOTHING
    citationMetadata: Raw = NOTHING
    urlContextMetadata: Raw = NOTHING


class Chunk(_Shape):
    """One streamed chunk, or a whole body: they are the same."""

    candidates: list[Candidate] | None = None
    usageMetadata: Raw = NOTHING
    modelVersion: str | None = None
    responseId: str | None = None
    promptFeedback: dict[str, Any] | None = None
    error: Any = None


decode_chunk = msgspec.json.Decoder(Chunk).decode

# Types that the lenient reading insists on, place by place. What does not fit is left out, never refused.
_FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "chunk": {"candidates": list, "modelVersion": str, "responseId": str, "promptFeedback": dict},
    "candidate": {"content": dict, "finishReason": (str, int), "index": int, "finishMessage": str},
    "content": {"parts": list},
    "part": {
        "text": str, "thought": bool, "thoughtSignature": str, "functionCall": dict, "inlineData": dict, "fileData": dict,
    },
    "functionCall": {"id": str, "name": str, "partialArgs": list, "willContinue": bool},
    "inlineData": {"mimeType": str, "data": str},
    "fileData": {"mimeType": str, "fileUri": str},
    "partialArg": {
        "jsonPath": str, "stringValue": str, "numberValue": (int, float), "boolValue": bool, "willContinue": bool,
    },
}  # fmt: skip


def read_chunk(data: bytes) -> Chunk:
    """Typed and fast, or lenient and slow; MalformedStream if it is no chunk."""
    try:
        return decode_chunk(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        value = decode_object(data, "a chunk object", ("text",))
    try:
        softened = _softened_chunk(value)
        texts = [part.get("text") for part in _parts_of(softened)]
        # Written and read once more, because half a character cannot be in JSON. The texts are put back afterwards.
        chunk = decode_chunk(json.dumps(clean(softened)).encode())
        parts = [
            part for candidate in chunk.candidates or () if candidate.content for part in candidate.content.parts or ()
        ]
        for part, text in zip(parts, texts, strict=True):
            part.text = text  # it may end in half a character, which is no JSON
        return chunk
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise MalformedStream(f"unexpected shape: {error}") from None


def _fit(value: dict[str, Any], kind: str) -> dict[str, Any]:
    """Leave out the fields whose types surprise."""
    for name, wanted in _FIELDS[kind].items():
        found = value.get(name)
        # A bool is an int in Python.
        if found is not None and (not isinstance(found, wanted) or (isinstance(found, bool) and wanted is not bool)):
            value[name] = None
    return value


def _softened_chunk(chunk: dict[str, Any]) -> dict[str, Any]:
    _fit(chunk, "chunk")
    chunk["candidates"] = [each for each in chunk.get("candidates") or () if isinstance(each, dict)] or None
    for candidate in chunk["candidates"] or ():
        content = _fit(candidate, "candidate").get("content")
        if content is not None:
            parts = _fit(content, "content").get("parts")
            content["parts"] = [part if isinstance(part, dict) else {} for part in parts or ()]
            for part in content["parts"]:
                _soften_part(part)
    return chunk


def _parts_of(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    contents = [candidate["content"] for candidate in chunk["candidates"] or () if candidate.get("content")]
    return [part for content in contents for part in content["parts"]]


def _soften_part(part: dict[str, Any]) -> None:
    if part.get("text") is not None:
        part["text"] = text_of(part["text"])
    _fit(part, "part")
    for name in ("functionCall", "inlineData", "fileData"):
        if part.get(name) is not None:
            _fit(part[name], name)
    call = part.get("functionCall")
    if call is not None and call.get("partialArgs") is not None:
        call["partialArgs"] = [_fit(each, "partialArg") for each in call["partialArgs"] if isinstance(each, dict)]
