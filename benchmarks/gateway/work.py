"""The work that every gateway gets: the same requests in, the same answers from the upstream, the same text out.

A gateway translates between two protocols: `PAIRS` says which one its client speaks and which one its upstream. What is asked for is a
model's name: each leads to another answer of the upstream, so one running gateway does all of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from ..payloads import anthropic_text, chat_text

CHUNKS = 100
Wire = Literal["chat", "messages"]


class Pair(msgspec.Struct, frozen=True):
    """What a gateway's client speaks, and what its upstream does."""

    client: Wire
    upstream: Wire


CHAT_TO_MESSAGES = Pair("chat", "messages")
MESSAGES_TO_CHAT = Pair("messages", "chat")
PATHS: dict[Wire, str] = {"chat": "/v1/chat/completions", "messages": "/v1/messages"}


class Work(msgspec.Struct, frozen=True):
    """One kind of request. `model` is the name it is asked for by; `answer` and `mode` are of the upstream's path."""

    model: str
    answer: str
    mode: str

    @property
    def streamed(self) -> bool:
        return self.answer == "stream"

    def url(self, upstream: str, pair: Pair) -> str:
        """The base address at the upstream, without the path of the wire."""
        return f"{upstream}/{pair.upstream}-{self.answer}/{self.mode}"


JSON = Work("bench-json", "json", "burst")
STREAM = Work("bench-stream", "stream", "burst")
LIVE = Work("bench-live", "stream", "live-2000")
HOLD = Work("bench-hold", "stream", "hold")
WORKS = (JSON, STREAM, LIVE, HOLD)

STREAMS = {"chat-stream": chat_text(CHUNKS), "messages-stream": anthropic_text(CHUNKS)}


def request_body(wire: Wire, model: str, *, streamed: bool) -> bytes:
    """A short question with a system prompt: how long a history is concerns the codec, which has its own benchmark."""
    system, question = "Be brief.", "Where do rivers run to, and why?"
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    body: dict[str, Any] = {"model": model, "max_tokens": 400, "stream": streamed}
    if wire == "chat":
        return _json({**body, "messages": [{"role": "system", "content": system}, *messages]})
    return _json({**body, "system": system, "messages": messages})


def text_of(wire: Wire, answer: bytes, *, streamed: bool) -> str:
    """The text of an answer as this wire's client reads it; "" if there is none."""
    if not streamed:
        value = json.loads(answer)
        if wire == "chat":
            return value["choices"][0]["message"]["content"] or ""
        return "".join(block.get("text", "") for block in value["content"])
    return "".join(_pieces(wire, answer))


def _pieces(wire: Wire, stream: bytes) -> Iterator[str]:
    for line in stream.splitlines():
        if not line.startswith(b"data:") or line.endswith(b"[DONE]"):
            continue
        value = json.loads(line[5:])
        if wire == "chat":
            for choice in value.get("choices", ()):
                yield choice["delta"].get("content") or ""
        elif value["type"] == "content_block_delta":
            yield value["delta"].get("text", "")


TEXT = text_of("chat", b"".join(STREAMS["chat-stream"]), streamed=True)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


_CHAT_BODY = {
    "id": "chatcmpl-5mWq0nB8vTz3RkY7cXe1LhUa", "object": "chat.completion", "created": 1760000000, "model": "gpt-4o-2024-08-06",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT, "refusal": None}, "logprobs": None,
                 "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000},
}  # fmt: skip
_MESSAGES_BODY = {
    "id": "msg_01Jd83kQpLw0ZsXvN5", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": TEXT}], "stop_reason": "end_turn", "stop_sequence": None,
    "usage": {"input_tokens": 900, "output_tokens": 100},
}  # fmt: skip
BODIES = {"chat-json": _json(_CHAT_BODY), "messages-json": _json(_MESSAGES_BODY)}
