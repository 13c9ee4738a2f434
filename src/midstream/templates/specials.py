"""The special tokens of a template, and how foreign text that spells one is made harmless.

A ZERO WIDTH JOINER goes in behind the first character: `<|im_end|>` becomes `<` U+200D `|im_end|>`. A reader sees the same
text, a tokenizer no longer finds the token. It changes nothing else, is idempotent, and costs one scan. No token holds
U+200D, none is a part of another, and none begins with the end of another, so breaking each match once breaks them all.
"""

from __future__ import annotations

import re

JOINER = "\u200d"

BARS = r"<\|[A-Za-z0-9_.-]{1,64}\|>"
"""Any `<|name|>`: vocabularies hold hundreds of reserved ones beside those a template uses, and a new one needs no edit."""


class Specials:
    """What a tokenizer reads as one token: fixed spellings, and patterns for whole families of them."""

    __slots__ = ("_pattern",)

    def __init__(self, *tokens: str, patterns: tuple[str, ...] = ()) -> None:
        self._pattern = re.compile("|".join([*patterns, *[re.escape(token) for token in tokens]]))

    def neutralise(self, text: str) -> str:
        """`text` without a single token in it."""
        return self._pattern.sub(_broken, text)

    def find(self, text: str) -> list[str]:
        """The tokens in `text`, in order."""
        return [match[0] for match in self._pattern.finditer(text)]


def _broken(match: re.Match[str]) -> str:
    token = match[0]
    return token[0] + JOINER + token[1:]
