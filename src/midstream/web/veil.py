"""Keys of providers, taken out of everything that the page is sent.

A key gets there if somebody pasted it into a conversation, or if a host or a model repeats it, perhaps in two pieces.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import msgspec

from ..core.secret import VEIL, Secret

_SHORTEST = 8  # a shorter one is part of ordinary words
_PIECE = re.compile(r'"(\w+)"\s*:\s*"((?:[^"\\]|\\.)*)"')
_STREAMED = ("text", "thinking", "arguments")


def without_key(data: bytes, secret: Secret) -> bytes:
    """Bytes of JSON or text without a key in them. What is cut off at some length may end in half of one: neither is that shown."""
    key = secret.reveal()
    if len(key) < _SHORTEST:
        return data
    # As it is, in JSON, and in JSON that a text of it holds: as different as there are quotes in the key. And as it is sent where
    # it is a password.
    once = msgspec.json.encode(key)[1:-1]
    twice = msgspec.json.encode(once.decode())[1:-1]
    plain = key.encode()
    for form in dict.fromkeys((twice, once, plain, quote(key, safe="").encode(), b64encode(plain).rstrip(b"="))):
        data = data.replace(form, VEIL.encode())
    # Of one that JSON writes in another way, a half might end in the middle of an escape.
    return _without_half(data, plain) if once == plain and len(plain) >= 2 * _SHORTEST else data


def _without_half(data: bytes, key: bytes) -> bytes:
    """Without what is at least half of a key, from its beginning or up to its end."""
    half = (len(key) + 1) // 2
    head, tail = key[:half], key[-half:]
    while (at := data.find(head)) >= 0:
        end = at + half
        while end < len(data) and end - at < len(key) and data[end] == key[end - at]:
            end += 1
        data = data[:at] + VEIL.encode() + data[end:]
    while (at := data.find(tail)) >= 0:
        end = at + half
        while at > 0 and end - at < len(key) and data[at - 1] == key[at - end - 1]:
            at -= 1
        data = data[:at] + VEIL.encode() + data[end:]
    return data


def in_pieces(text: str, secrets: Iterable[Secret]) -> bool:
    """Whether the pieces of a stream, put together, hold a key. Each kind of piece has a name in JSON of its own, on every wire, so
    those of one name are one text; also of a stream that was cut or goes on."""
    kinds: dict[str, list[str]] = {}
    for name, piece in _PIECE.findall(text):
        kinds.setdefault(name, []).append(piece)
    joined = ["".join(pieces) for pieces in kinds.values()]
    keys = [key for secret in secrets if len(key := secret.reveal()) >= _SHORTEST]
    written = [msgspec.json.encode(key)[1:-1].decode() for key in keys]
    forms = {*keys, *written, *[each.replace("/", "\\/") for each in written]}
    return any(form in each for each in joined for form in forms)


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
