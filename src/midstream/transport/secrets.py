"""The values that may be in no message: the keys of one request, taken out of whatever the peer echoes.

A peer may repeat a key in an error's body, its headers, or after a good status in the stream itself. Only errors are
scrubbed: what a model says is passed on as it came. A message that was cut may end within a key, so a long beginning of
one is taken out too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from msgspec.structs import replace

from ..core.errors import MidstreamError, ProviderError
from ..core.events import ErrorEvent, ErrorInfo

_SHORTEST = 6
_TELLING = 12
_VEIL = b"***"

E = TypeVar("E", bound=MidstreamError)


class Secrets:
    """Each header's value and each word of it (the key behind `Bearer`)."""

    __slots__ = ("_words",)

    def __init__(self, auth_headers: Mapping[str, str] | None = None) -> None:
        words = {part for value in (auth_headers or {}).values() for part in (value, *value.split())}
        words -= {word for word in words if len(word) < _SHORTEST or word.lower() in ("bearer", "digest")}
        # longest first, so that no part of one is left
        self._words = tuple(sorted((word.encode("utf-8", "surrogatepass") for word in words), key=len, reverse=True))

    def __repr__(self) -> str:
        return f"<{len(self._words)} secrets>"

    def scrub(self, data: bytes) -> bytes:
        for word in self._words:
            data = data.replace(word, _VEIL)
        for word in self._words:
            if b" " not in word and len(word) > _TELLING:
                data = _without_beginnings(data, word)
        return data

    def scrub_text(self, text: str) -> str:
        return self.scrub(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def scrub_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {name: self.scrub_text(value) for name, value in headers.items()}

    def scrub_event(self, event: ErrorEvent) -> ErrorEvent:
        return replace(event, error=self._info(event.error))

    def scrub_error(self, error: E) -> E:
        """The same error, saying no secret any more."""
        error.args = tuple([self.scrub_text(part) if isinstance(part, str) else part for part in error.args])
        if isinstance(error, ProviderError):
            error.message = self.scrub_text(error.message)
            error.code, error.type = self._field(error.code), self._field(error.type)
        return error

    def _info(self, info: ErrorInfo) -> ErrorInfo:
        message = self.scrub_text(info.message)
        return replace(info, message=message, code=self._field(info.code), type=self._field(info.type))

    def _field(self, value: str | None) -> str | None:
        return None if value is None else self.scrub_text(value)


def _without_beginnings(data: bytes, word: bytes) -> bytes:
    head = word[:_TELLING]
    at = data.find(head)
    while at >= 0:
        end = at + _TELLING
        while end < len(data) and end - at < len(word) and data[end] == word[end - at]:
            end += 1
        data = data[:at] + _VEIL + data[end:]
        at = data.find(head, at + len(_VEIL))
    return data
