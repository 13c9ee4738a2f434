"""Markdown that is still being written: what can be shown for good, and what may yet change.

A block is finished when a line begins behind a blank one without indentation, or when a code fence closes; nothing that
comes later changes how it looks. Each line is looked at once.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class MarkdownFeed:
    """`feed` gives what is finished; `tail` is the rest so far; `close` gives it for good."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._rest: list[str] = []
        self._fence = ""
        self._after_blank = False

    def feed(self, text: str) -> str:
        head, newline, last = text.rpartition("\n")
        finished: list[str] = []
        if newline:
            lines = ("".join(self._rest) + head).split("\n")
            self._rest = []
            for line in lines:
                self._take(line, finished)
        if last:
            if not self._rest and self._after_blank and not self._fence and not last[0].isspace():
                self._finish(finished)
            self._rest.append(last)
        return "\n".join(finished)

    def close(self) -> str:
        text = "\n".join([*self._lines, "".join(self._rest)])
        self._lines, self._rest, self._fence, self._after_blank = [], [], "", False
        return text.strip("\n")

    def tail(self, lines: int) -> str:
        """The last lines of what may still change; inside a code block, with the fence that opened it."""
        shown = self._lines[-lines:]
        if self._fence and len(self._lines) > lines:
            shown = [self._fence, *shown]
        return "\n".join([*shown, "".join(self._rest)[-lines * 200 :]])

    def _take(self, line: str, finished: list[str]) -> None:
        mark = _FENCE.match(line)
        if self._fence:
            self._lines.append(line)
            if mark and mark[1].startswith(self._fence) and not line[mark.end() :].strip(" `~"):
                self._fence = ""
                self._finish(finished)
            return
        if self._after_blank and line and not line[0].isspace():
            self._finish(finished)
        self._after_blank = not line.strip()
        if mark:
            self._fence = mark[1]
        self._lines.append(line)

    def _finish(self, finished: list[str]) -> None:
        finished += self._lines
        self._lines = []
        self._after_blank = False
