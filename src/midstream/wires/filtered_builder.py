"""A builder for readers that know nothing of text filters: calls and thinking that stand in the text are read out of it.

A reader tells it what came, as it would tell a TurnBuilder. Text goes through one filter for the whole answer, each stretch
of reasoning through one of its own; what the filters find is built as if the wire had said it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..core.blocks import Media, Opaque, Origin
from ..core.errors import LimitExceeded
from ..core.events import ErrorInfo
from ..core.reduce import Called, Piece, TurnBuilder
from ..toolformats.apply import FilteredText
from ..toolformats.findings import TextFilter
from .stop_reasons import settled_stop

_say, _think = TurnBuilder.text, TurnBuilder.thinking  # a lookup less for each piece


class FilteredBuilder(TurnBuilder):
    __slots__ = ("_filtering", "_make_reasoning", "_reasoning", "_text", "_thought", "_told")

    def __init__(
        self,
        turn_key: str,
        origin: Origin,
        text: TextFilter | None,
        reasoning: Callable[[], TextFilter] | None,
        *,
        called: Mapping[str, Called] | None = None,
        keep_empty: bool = False,
    ) -> None:
        super().__init__(turn_key, origin, called=called, keep_empty=keep_empty)
        self._text = FilteredText(self, text) if text is not None else None
        self._make_reasoning = reasoning
        self._reasoning: FilteredText | None = None
        # Kept apart from the head: a call found in the reasoning
        # may have ended it, and the reader still wants its handle.
        self._thought: Piece | None = None  # the reasoning that came last
        # While a filter speaks, its findings come in through the same
        # methods as the reader's words, and must not be filtered again.
        self._filtering = False  # a filter speaks, not the reader
        self._told = False

    @property
    def is_blank(self) -> bool:
        """Whether nothing has come, be it that a filter still holds it back."""
        return not self._told and super().is_blank

    def text(self, delta: str, extra: dict[str, Any] | None = None) -> None:
        filtered = self._text
        if (
            filtered is not None
            and filtered.alarm not in delta  # the everyday case: no marker can begin here
            and extra is None
            and self._reasoning is None
            and not self._filtering
            and not self.split_surrogates
        ):
            filtered.past.append(delta)
            _say(self, delta)
            return
        self._end_reasoning()
        if self._filtering or filtered is None:
            _say(self, delta, extra)
            return
        if delta:
            # `extra` (citations) cannot go through a filter. It joins
            # the text that is there when the filter has spoken.
            self._feed(filtered, delta)
        if extra is not None:
            _say(self, "", extra)

    def all_text(self, deltas: list[str]) -> bool:
        if self._filtering or (self._text is None and self._reasoning is None):
            return super().all_text(deltas)
        if self._text is None or self._reasoning is not None:
            return False
        self._filtering = True
        try:
            return self._text.feed_all(deltas)
        finally:
            self._filtering = False

    def all_thinking(self, deltas: list[str]) -> Piece | None:
        # Each has to be looked at, unless no filter is there.
        filtered = self._make_reasoning is not None and not self._filtering
        return None if filtered else super().all_thinking(deltas)

    def thinking(self, delta: str, field: str = "") -> Piece:
        filtered = self._reasoning
        if filtered is not None and filtered.alarm not in delta and not self._filtering and not self.split_surrogates:
            filtered.past.append(delta)
            self._thought = _think(self, delta, field)
            return self._thought
        if self._filtering:
            self._thought = super().thinking(delta, field)
            return self._thought
        # An empty piece says that there is reasoning, and has nothing to be filtered.
        if self._make_reasoning is None or not delta:
            return super().thinking(delta, field)
        if self._reasoning is None:
            self._reasoning = FilteredText(self, self._make_reasoning(), field)
            self._thought = super().thinking("", field)  # the reader wants to sign it, whatever comes of it
        self._feed(self._reasoning, delta)
        assert self._thought is not None
        return self._thought

    def open_call(
        self,
        raw_id: str | None,
        name: str,
        extra: dict[str, Any] | None = None,
        *,
        freeform: bool = False,
        namespace: str = "",
    ) -> Piece:
        self._end_reasoning()
        return super().open_call(raw_id, name, extra, freeform=freeform, namespace=namespace)

    def whole(self, block: Media | Opaque) -> None:
        self._end_reasoning()
        super().whole(block)

    def end_block(self) -> None:
        """A call may go on behind the end of a text block, so only reasoning ends here."""
        self._end_reasoning()
        super().end_block()

    def finish(self, stop_reason: str, raw_stop: str | None = None) -> None:
        if not self.ended:
            self.settle()
            # Calls that were found in the text change what the host's word means.
            stop_reason = settled_stop(stop_reason, self.calls)
        super().finish(stop_reason, raw_stop)

    def fail(self, error: ErrorInfo) -> None:
        if not self.ended:
            # What a filter holds back came before the error, so it is kept.
            try:
                self.settle()
            except LimitExceeded:
                pass  # what was held back does not fit; the error being told is the one that came first
        super().fail(error)

    def settle(self) -> None:
        self._end_reasoning()
        if self._text is not None:
            self._close(self._text)

    def _end_reasoning(self) -> None:
        """Reasoning is over: what its filter held back is due before anything else."""
        if self._reasoning is not None and not self._filtering:
            self._close(self._reasoning)
            self._reasoning = None

    def _feed(self, filtered: FilteredText, delta: str) -> None:
        self._told = True
        self._filtering = True
        try:
            filtered.feed(delta)
        finally:
            self._filtering = False

    def _close(self, filtered: FilteredText) -> None:
        self._filtering = True
        try:
            filtered.close()
        finally:
            self._filtering = False
