"""Token counts of Gemini, which come with every chunk: the last count of each kind stands.

Reading every one of them would cost more than the text they come with, so they are kept raw and read from the last one back,
an older one only where it names a count the newer lack.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...core.blocks import Usage

_COUNTS = (
    "promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "cachedContentTokenCount",
    "toolUsePromptTokenCount", "totalTokenCount",
)  # fmt: skip
_KEEP = 64
MAX_COUNT = 1 << 53
LARGE = 4096
"""A chunk of more bytes is let go at once: what is kept raw holds on to its chunk."""


class UsageTally:
    """Takes each chunk's `usageMetadata`; `read` gives the usage of the whole turn."""

    __slots__ = ("_merged", "_pending")

    def __init__(self) -> None:
        self._merged: dict[str, Any] = {}
        self._pending: list[msgspec.Raw] = []

    def add(self, raw: msgspec.Raw, chunk_size: int = 0) -> None:
        self._pending.append(raw)
        if len(self._pending) >= _KEEP or chunk_size > LARGE:
            self._fold()

    def read(self) -> Usage | None:
        self._fold()
        if not self._merged:
            return None
        thoughts = _count(self._merged, "thoughtsTokenCount")
        return Usage(
            input=_count(self._merged, "promptTokenCount"),
            output=_count(self._merged, "candidatesTokenCount") + thoughts,  # counted apart by the host
            cache_read=_count(self._merged, "cachedContentTokenCount"),
            reasoning=thoughts,
            raw=self._merged,
        )

    def _fold(self) -> None:
        if not self._pending:
            return
        *older, last = self._pending
        newest = _read(last)
        if older:
            together = b"".join(older)
            if any(name.encode() in together for name in _COUNTS if newest.get(name) is None):
                for raw in reversed(older):
                    newest = {**_read(raw), **newest}
        self._merged = {**self._merged, **newest}
        self._pending.clear()


def _read(raw: msgspec.Raw) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return {}
    return {name: count for name, count in value.items() if count is not None} if isinstance(value, dict) else {}


def _count(raw: dict[str, Any], name: str) -> int:
    value: Any = raw.get(name)
    return int(value) if type(value) in (int, float) and 0 < value < MAX_COUNT else 0
