"""Keys of providers, taken out of everything that the page is sent.

A key gets there if somebody pasted it into a conversation, or if a host or a model repeats it, perhaps in two pieces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ..core.secret import VEIL, Secret

_SHORTEST = 8  # a shorter one is part of ordinary words
_STREAMED = ("text", "thinking", "arguments")


def without_key(data: bytes, secret: Secret) -> bytes:
    """Bytes of JSON or text without a key in them."""
    key = secret.reveal()
    if len(key) < _SHORTEST:
        return data
    # As it is, in JSON, and in JSON that a text of it holds: as different as there are quotes in the key.
    once = msgspec.json.encode(key)[1:-1]
    twice = msgspec.json.encode(once.decode())[1:-1]
    for form in dict.fromkeys((twice, once, key.encode())):
        data = data.replace(form, VEIL.encode())
    return data


class StreamVeil:
    """What happens in a talk, event by event. The end of a piece that may be the beginning of a key waits for the next piece."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        self._keys = [key for secret in secrets if len(key := secret.reveal()) >= _SHORTEST]
        self._kind = ""
        self._held = ""

    def pass_on(self, happening: dict[str, Any]) -> list[dict[str, Any]]:
        """The events that can be told now."""
        kind = happening["type"]
        told = []
        if self._held and kind != self._kind:
            told.append({"type": self._kind, "text": self._held})
            self._held = ""
        if kind not in _STREAMED:
            return [*told, happening]
        text: str = self._held + happening["text"]
        for key in self._keys:
            text = text.replace(key, VEIL)
        waits = max([_begun(text, key) for key in self._keys], default=0)
        self._kind, self._held = kind, text[len(text) - waits :]
        if waits < len(text):
            told.append({"type": kind, "text": text[: len(text) - waits]})
        return told


def _begun(text: str, key: str) -> int:
    """How many characters at the end of a text are the beginning of a key."""
    at = text.find(key[0], max(0, len(text) - len(key) + 1))
    while at >= 0 and not key.startswith(text[at:]):
        at = text.find(key[0], at + 1)
    return 0 if at < 0 else len(text) - at
