"""A text filter at work on a stream: its findings become the events and blocks of a turn.

Text and thinking go to the builder as they are; a call found in the text is a call like any other. What looked like a call
but is not one is kept out of the text, so that no later request replays it, and recorded in the turn's `extra["problems"]`.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from ..core.reduce import MAX_PROBLEMS, Piece, TurnBuilder
from ..core.surrogates import REPLACEMENT, join
from .findings import (
    ArgumentsFound,
    CallEnded,
    CallFound,
    Finding,
    ProblemFound,
    TextFilter,
    TextFound,
    ThinkingFound,
)


class FilteredText:
    """Feeds deltas of one field through a filter into a TurnBuilder.

    With `field` (`reasoning_content` …) the stream is a reasoning field: its text is thinking.

    A piece without the character `alarm` need not be fed: it is text, if it is appended to `past`. Where calls are only looked
    for in case a host leaks one, this is nearly every piece. An empty alarm is in every text, so it stands for "feed it".
    """

    __slots__ = (
        "_alarms", "_builder", "_call", "_closed", "_field", "_filter", "_half", "alarm", "past", "problems",
    )  # fmt: skip

    # A host may leak calls in its text and in its reasoning: each
    # field has its own filter, and both speak to one builder.
    def __init__(self, builder: TurnBuilder, filter: TextFilter, field: str = "") -> None:
        self._builder = builder
        self._filter = filter
        self._field = field
        self._call: Piece | None = None
        self._closed = False
        self._half = ""
        self._alarms = ""  # of a filter at rest
        self.alarm = ""
        self.past: list[str] = []
        self.problems: list[ProblemFound] = []

    def feed(self, delta: str) -> None:
        alarms = self._alarms
        # The fast way around the filter, taken by nearly every delta:
        # at rest, and none of the characters that begin a marker.
        if not alarms or self._builder.split_surrogates or any(alarm in delta for alarm in alarms):
            self._read(delta)
            self._rest()
            return
        self.past.append(delta)
        if self._field:
            self._builder.thinking(delta, self._field)
        else:
            self._builder.text(delta)

    def feed_all(self, deltas: list[str]) -> bool:
        """As `feed` for each of them. False, and nothing done, where they have to be looked at one by one."""
        # One search over all deltas instead of one for each.
        together = "".join(deltas)
        if not self._alarms or any(alarm in together for alarm in self._alarms):
            return False
        builder = self._builder
        if builder.all_thinking(deltas) is None if self._field else not builder.all_text(deltas):
            return False
        self.past += deltas
        return True

    def _rest(self) -> None:
        idle = None if self._closed or self._builder.split_surrogates else self._filter.idle
        # `past` is the filter's own list: what goes past it must still be known
        # to it, since a later marker asks what stands before it (quoting).
        self.past, self._alarms = ([], "") if idle is None else idle
        # A caller that has one character to look for can test it faster than any set of them.
        self.alarm = self._alarms if len(self._alarms) == 1 else ""

    def _read(self, delta: str) -> None:
        if self._closed:  # the end was said: what a host still writes is no call
            self._apply(TextFound(delta))
            return
        if self._builder.split_surrogates:  # a filter reads whole characters only
            delta, self._half = join(self._half, delta)
        for finding in self._filter.feed(delta):
            self._apply(finding)

    @property
    def in_call(self) -> bool:
        """Whether a call is open."""
        return self._call is not None

    def close(self) -> None:
        """No more text comes: give what was held back. Once is enough."""
        if self._closed:
            return
        # A half character at the very end never gets its other half.
        if self._half:
            self._half = ""
            self._read(REPLACEMENT)
        self._closed = True
        self._alarms = self.alarm = ""
        for finding in self._filter.close():
            self._apply(finding)
        if self._call is not None:
            self._builder.close_call(self._call)
            self._call = None
        if self._filter.unclosed:
            self._builder.unclosed = True
        # Added to what another filter of the same turn has found.
        if self.problems:
            extra = self._builder.extra or {}
            known = [*extra.get("problems", ()), *[msgspec.to_builtins(problem) for problem in self.problems]]
            self._builder.extra = {**extra, "problems": known[:MAX_PROBLEMS]}

    def _apply(self, finding: Finding) -> None:
        builder = self._builder
        match finding:
            case TextFound():
                if self._field:
                    builder.thinking(finding.text, self._field)
                else:
                    builder.text(finding.text)
            case ThinkingFound():
                builder.thinking(finding.text, self._field)
            case CallFound():
                self._call = builder.open_call(finding.raw_id, finding.name)
            case ArgumentsFound():
                if self._call is not None:
                    builder.call_arguments(self._call, finding.json)
            case CallEnded():
                if self._call is not None:
                    builder.close_call(self._call)
                    self._call = None
            case ProblemFound():
                if len(self.problems) < MAX_PROBLEMS:
                    self.problems.append(finding)
            case _:
                assert_never(finding)
