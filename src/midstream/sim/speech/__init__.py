"""An Answer in each wire's format, streamed or whole.

Each module has `stream(answer, style)`, which gives the pieces as the host would send them, and `body(answer, style)`, the
JSON of the same answer without a stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from ..answer import Answer, Style
from . import anthropic, chat, completion, gemini, ollama, responses

_SPEAKERS: dict[str, ModuleType] = {
    "openai-chat": chat,
    "anthropic": anthropic,
    "openai-responses": responses,
    "gemini": gemini,
    "ollama": ollama,
    "completion": completion,
}


def speak(wire: str, answer: Answer, style: Style) -> Iterator[bytes]:
    pieces: Iterator[bytes] = _SPEAKERS[wire].stream(answer, style)
    return pieces


def speak_whole(wire: str, answer: Answer, style: Style) -> bytes:
    body: bytes = _SPEAKERS[wire].body(answer, style)
    return body
