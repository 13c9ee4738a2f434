"""Keys of providers, taken out of everything that the page is sent.

A key gets there if somebody pasted it into a conversation, or if a host or a model repeats it, perhaps in two pieces.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from ..core.secret import VEIL, Secret

_SHORTEST = 8  # a shorter one is part of ordinary words
_LONGEST_WORD = 16
# Where no key is needed clients send words ("anything", "not-needed", "lm-studio"), which are part of ordinary texts, of the names
# of models and of the names in our own JSON.
_WORDS = re.compile(r"(?:[^\W\d]|[-. ])+")
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"')
_PIECE = re.compile(r'"(\w++)"\s*+:\s*+"((?:[^"\\]++|\\.)*+)"')
_VEIL = VEIL.encode()
_STREAMED = ("text", "thinking", "arguments")


def without_key(data: bytes, secret: Secret) -> bytes:
    """Text without a key in it. What is cut off at some length may end in half of one: neither is that shown."""
    return _without(data, _sought([secret]))


def json_without_keys(data: bytes, secrets: Iterable[Secret]) -> bytes:
    """JSON, or lines or events of it, without keys in its texts. It stays JSON: a key may look like a number, or begin in the
    middle of an escape."""
    there = [each for each in _sought(secrets) if _without(data, [each]) != data]

    def shown(found: re.Match[bytes]) -> bytes:
        said = msgspec.json.decode(found[0], type=str).encode()
        left = _without(said, there)
        return found[0] if left == said else msgspec.json.encode(left.decode("utf-8", "replace"))

    return _TEXT.sub(shown, data) if there else data


class _Sought(NamedTuple):
    """A key that is looked for."""

    key: bytes
    forms: tuple[bytes, ...]
    """As it is, in JSON, and in JSON that a text of it holds: as different as there are quotes in the key. And as it is sent where
    it is a password."""
    half: int
    """How many bytes from its beginning, or up to its end, are not shown either; 0 if only all of them are not."""


def _sought(secrets: Iterable[Secret]) -> list[_Sought]:
    found = []
    for key in _searched(secrets):
        once, plain = _written(key), key.encode()
        forms = (_written(once.decode()), once, plain, quote(key, safe="").encode(), b64encode(plain).rstrip(b"="))
        # Of one that JSON writes in another way, a half might end in the middle of an escape.
        half = (len(plain) + 1) // 2 if once == plain and len(plain) >= 2 * _SHORTEST else 0
        found.append(_Sought(plain, tuple(dict.fromkeys(forms)), half))
    return found


def _without(data: bytes, sought: Iterable[_Sought]) -> bytes:
    for each in sought:
        for form in each.forms:
            data = data.replace(form, _VEIL)
        if each.half:
            data = _without_half(data, each.key, each.half)
    return data


def _searched(secrets: Iterable[Secret]) -> list[str]:
    keys = [secret.reveal() for secret in secrets]
    return [key for key in keys if len(key) >= _SHORTEST and not _is_word(key)]


def _is_word(text: str) -> bool:
    return len(text) <= _LONGEST_WORD and _WORDS.fullmatch(text) is not None


def _written(text: str) -> bytes:
    return msgspec.json.encode(text)[1:-1]


def _without_half(data: bytes, key: bytes, half: int) -> bytes:
    if key[:half] in data:
        data = _without_beginning(data, key, half, _VEIL)
    # To turn megabytes around takes a while, and few have a key in them.
    if key[-half:] in data:
        data = _without_beginning(data[::-1], key[::-1], half, _VEIL[::-1])[::-1]
    return data


def _without_beginning(data: bytes, key: bytes, half: int, veil: bytes) -> bytes:
    """In one pass: whoever sends half of a key a hundred thousand times must not stop everybody else."""
    head, shown = key[:half], 0
    if _is_word(head.decode("utf-8", "replace")):
        return data
    kept: list[bytes] = []
    while (at := data.find(head, shown)) >= 0:
        kept += data[shown:at], veil
        shown = at + half
        while shown < len(data) and shown - at < len(key) and data[shown] == key[shown - at]:
            shown += 1
    return b"".join([*kept, data[shown:]])


def in_pieces(text: str, secrets: Iterable[Secret]) -> bool:
    """Whether the pieces of a stream, put together, hold a key that none of them holds whole. Each kind of piece has a name in JSON
    of its own, on every wire, so those of one name are one text; also of a stream that was cut or goes on."""
    keys = _searched(secrets)
    forms = {form.decode() for key in keys for form in (key.encode(), _written(key))}
    forms |= {form.replace("/", "\\/") for form in forms}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, VEIL)
    kinds: dict[str, list[str]] = {}
    for name, piece in _PIECE.findall(text):
        kinds.setdefault(name, []).append(piece)
    joined = ["".join(pieces) for pieces in kinds.values()]
    return any(form in each for each in joined for form in forms)


class StreamVeil:
    """What happens in a talk, event by event. The end of a piece that may be the beginning of a key waits for the next piece."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        self._keys = _searched(secrets)
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
