"""Bad days on order: what goes wrong with the next answers of a double.

| name | what happens |
|---|---|
| `429` | refused with Retry-After |
| `500` | an internal error |
| `cut` | the stream breaks off in the middle |
| `stall` | the stream falls silent in the middle |
| `leak` | tool calls come as the model's own markers in the text |
| `repeat-ids` | every call has the same id |
| `restart-index` | every call has index 0 |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from ..core.errors import LocalError
from .answer import Answer

FAULTS = ("429", "500", "cut", "stall", "leak", "repeat-ids", "restart-index")


class FaultQueue:
    """Faults waiting for their request, first in, first out."""

    def __init__(self, faults: Iterator[str] | tuple[str, ...] = ()) -> None:
        self._waiting: deque[str] = deque()
        for fault in faults:
            self.put(fault)

    def put(self, name: str, times: int = 1) -> None:
        if name not in FAULTS:
            raise LocalError(f"no fault {name!r}: choose one of {', '.join(FAULTS)}")
        self._waiting.extend([name] * times)

    def take(self) -> str | None:
        return self._waiting.popleft() if self._waiting else None


def leaked(answer: Answer, first_call: int) -> Answer:
    """The same answer with its calls as Kimi's markers in the text, as some hosts let them through."""
    if not answer.calls:
        return answer
    calls = "".join(
        [
            f"<|tool_call_begin|>functions.{call.name}:{first_call + number}<|tool_call_argument_begin|>{call.json}<|tool_call_end|>"
            for number, call in enumerate(answer.calls)
        ]
    )
    text = f"{answer.text}<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|>"
    return Answer(text, answer.thinking, input_tokens=answer.input_tokens)


def spoiled(piece: bytes, fault: str | None) -> bytes:
    """One streamed chat piece with its call ids repeated or its indexes restarted."""
    if fault not in ("repeat-ids", "restart-index") or not piece.startswith(b"data: {"):
        return piece
    chunk = msgspec.json.decode(piece[6:])
    for choice in chunk.get("choices", ()):
        for call in choice.get("delta", {}).get("tool_calls", ()):
            if fault == "repeat-ids" and "id" in call:
                call["id"] = "call_0"
            if fault == "restart-index":
                call["index"] = 0
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"
