"""An Answer in each wire's own form: streamed in pieces, or whole.

Every speaker gives `stream(answer, voice)`, an iterator of byte pieces as they would leave the host one by one, and
`body(answer, voice)`, the JSON of the same answer unstreamed.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from ..answer import Answer, Voice
from . import anthropic, chat, completion, gemini, ollama, responses

_SPEAKERS: dict[str, ModuleType] = {
    "openai-chat": chat,
    "anthropic": anthropic,
    "openai-responses": responses,
    "gemini": gemini,
    "ollama": ollama,
    "completion": completion,
}


def speak(wire: str, answer: Answer, voice: Voice) -> Iterator[bytes]:
    pieces: Iterator[bytes] = _SPEAKERS[wire].stream(answer, voice)
    return pieces


def speak_whole(wire: str, answer: Answer, voice: Voice) -> bytes:
    body: bytes = _SPEAKERS[wire].body(answer, voice)
    return body
