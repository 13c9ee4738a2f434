"""Characters beyond U+FFFF that a host cut in two: a pair joined again is one character, a half alone is U+FFFD."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from .patterns import late_pattern

# JSON can spell half a character (`"\ud83d"`), and a host that cuts its tokens into chunks does so in the middle of an
# emoji. Python holds such a text, but cannot write it as UTF-8: it would break a store or a terminal much later.
REPLACEMENT = "\ufffd"
_PAIR = late_pattern("([\ud800-\udbff])([\udc00-\udfff])")
_HALF = late_pattern("[\ud800-\udfff]")


def has_half(text: str) -> bool:
    return _HALF.search(text) is not None


def mended(text: str) -> str:
    """`text` as UTF-8 can carry it."""
    # Pairs first: a half that finds its other half is a good character, not two replacements.
    return _HALF.sub(REPLACEMENT, _PAIR.sub(_joined, text))


def clean(value: Any, halves: Collection[str] = ()) -> Any:
    """A JSON value with every text mended. Texts in the fields named in `halves` keep half a character at their edges: the
    neighbouring piece may bring the other half."""
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, (list, tuple)):
        return [clean(item, halves) for item in value]
    if isinstance(value, dict):
        return {
            mended(key): _with_edges(item) if key in halves and isinstance(item, str) else clean(item, halves)
            for key, item in value.items()
        }
    return value


def join(half: str, text: str) -> tuple[str, str]:
    """The next text behind a half that was held back, and the half it ends with, if it does."""
    text = half + text
    # Only a high half can wait at the end: the low half is what follows it.
    if text and "\ud800" <= text[-1] <= "\udbff":
        return mended(text[:-1]), text[-1]
    return mended(text), ""


def _with_edges(text: str) -> str:
    if not text:
        return text
    # The mirror image of `join`: a low half at the beginning, a
    # high half at the end. The rest is final and can be mended now.
    first = text[0] if "\udc00" <= text[0] <= "\udfff" else ""
    last = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
    return first + mended(text[len(first) : len(text) - len(last)]) + last


def _joined(pair: re.Match[str]) -> str:
    return chr(0x10000 + ((ord(pair[1]) - 0xD800) << 10) + ord(pair[2]) - 0xDC00)
