"""Several choices of one chat answer (`n`): a double says the same in each of them, and counts them all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

# A bound: a test must not be able to ask for a million copies of an answer.
_MOST = 16
_DATA = b"data: "


def choices_asked(wire: str, body: dict[str, Any]) -> int:
    """How many choices a request asks for, on the wire that has them."""
    count = body.get("n")
    if wire != "openai-chat" or not isinstance(count, int) or isinstance(count, bool):
        return 1
    return max(1, min(_MOST, count))


def whole_choices(answer: bytes, count: int) -> bytes:
    """A whole answer with so many choices."""
    if count == 1:
        return answer
    body = msgspec.json.decode(answer)
    body["choices"] = [{**choice, "index": index} for index in range(count) for choice in body["choices"]]
    _count(body, count)
    return msgspec.json.encode(body)


def streamed_choices(pieces: Iterable[bytes], count: int) -> Iterator[bytes]:
    """A stream in which each choice follows the other, chunk by chunk."""
    for piece in pieces:
        if count == 1 or not piece.startswith(_DATA + b"{"):
            yield piece
            continue
        chunk = msgspec.json.decode(piece[len(_DATA) :])
        _count(chunk, count)
        # The last chunk, with the usage alone; it belongs to no choice and is sent once.
        if not chunk["choices"]:
            yield _DATA + msgspec.json.encode(chunk) + b"\n\n"
        for index in range(count):
            for choice in chunk["choices"]:
                copy = {**chunk, "choices": [{**choice, "index": index}]}
                if index < count - 1 and chunk.get("usage"):
                    copy["usage"] = None  # it stands with the last choice
                yield _DATA + msgspec.json.encode(copy) + b"\n\n"


def _count(body: dict[str, Any], count: int) -> None:
    usage = body.get("usage")
    if usage:
        usage["completion_tokens"] *= count
        usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
