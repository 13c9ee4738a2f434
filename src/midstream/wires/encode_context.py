"""What is to be asked, of whom, and how: all that an encoder works from."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import msgspec

from ..core.blocks import Conversation
from ..core.dialect import Dialect, Options
from ..core.handoff import Note
from ..core.tools import ToolSpec
from .history_cache import HistoryCache, W, write_history
from .request import Request


class EncodeContext(msgspec.Struct, frozen=True):
    conversation: Conversation
    dialect: Dialect
    model: str
    tools: Sequence[ToolSpec] = ()
    options: Options = Options()
    cache: HistoryCache | None = None

    def history(self, make_writer: Callable[[Dialect, Options, str], W], *key: Hashable) -> W:
        """The turns through a writer; `key` is what of the options changes how they are written.

        The dialect goes in by identity (two may share a name, and reasoning that belongs to one host must not reach the
        other); its writer keeps it alive, so no other can have its id.
        """
        dialect, options, model = self.dialect, self.options, self.model
        place = (dialect.wire, id(dialect), model, *key)
        return write_history(self.conversation.turns, lambda: make_writer(dialect, options, model), place, self.cache)

    def request(
        self,
        path: str,
        body: bytes,
        notes: Iterable[Note],
        *,
        tool_names: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        reader: Dialect | None = None,
    ) -> Request:
        """The HTTP request; `reader` is the dialect of the answer, where it is not the one of the question."""
        dialect = self.dialect
        return Request(
            "POST",
            path,
            {"content-type": "application/json", **(headers or {}), **(dialect.headers or {})},
            body,
            notes=tuple(notes),
            tool_names=tool_names,
            stream=self.options.stream,
            wire=dialect.wire,
            model=self.model,
            dialect=reader,
        )
