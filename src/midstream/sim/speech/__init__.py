"""An Answer in each wire's format, streamed or whole.

Each module has `stream(answer, style)`, which gives the pieces as the host would send them, and `body(answer, style)`, the
JSON of the same answer without a stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import msgspec

from ..answer import Answer, Style
from . import anthropic, chat, cohere, completion, gemini, ollama, responses


class Speaker(msgspec.Struct, frozen=True):
    """How one wire is spoken, and where: `path` is how the paths of its requests end, empty where they name the model."""

    module: ModuleType
    path: str = ""
    media_type: str = "text/event-stream"
    streams: bool = False
    """Whether it streams unless told not to."""


SPEAKERS: dict[str, Speaker] = {
    "openai-chat": Speaker(chat, "/chat/completions"),
    "anthropic": Speaker(anthropic, "/messages"),
    "openai-responses": Speaker(responses, "/responses"),
    "gemini": Speaker(gemini),
    "ollama": Speaker(ollama, "/api/chat", "application/x-ndjson", streams=True),
    "cohere": Speaker(cohere, "/v2/chat"),
    "completion": Speaker(completion),
}


def speak(wire: str, answer: Answer, style: Style) -> Iterator[bytes]:
    pieces: Iterator[bytes] = SPEAKERS[wire].module.stream(answer, style)
    return pieces


def speak_whole(wire: str, answer: Answer, style: Style) -> bytes:
    body: bytes = SPEAKERS[wire].module.body(answer, style)
    return body
