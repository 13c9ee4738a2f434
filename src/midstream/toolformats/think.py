"""Thinking that a host leaves in the text between tags: `<think>`, `<thinking>`, `◁think▷`, or the pair a dialect names.

With `starts_inside` the prompt already opened the thinking and the answer begins in it. A tag is read wherever it stands,
since models think more than once; an end without a beginning is kept out of the text and reported.
"""

from __future__ import annotations

from .findings import Finding, TextFilter
from .prose import KNOWN_TAGS, Prose, Tags
from .script import Reader, ScriptFilter, Step


class ThinkFilter:
    """Splits text into text and thinking."""

    __slots__ = ("_filter",)

    def __init__(self, tags: Tags | None = None, starts_inside: bool = False) -> None:
        pairs = KNOWN_TAGS if tags is None else (tags,)

        def script(reader: Reader) -> Step[None]:
            yield from Prose(reader, tags=pairs, starts_inside=starts_inside).opener()

        self._filter = ScriptFilter(script)

    def feed(self, text: str) -> list[Finding]:
        return self._filter.feed(text)

    def close(self) -> list[Finding]:
        return self._filter.close()


def think_filter(tags: Tags | None = None, starts_inside: bool = False) -> TextFilter:
    """A filter for thinking alone; without `tags`, every pair we know."""
    return ThinkFilter(tags, starts_inside)
