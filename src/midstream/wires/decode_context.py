"""Everything that decoding an answer depends on: who answers, in which dialect, and what was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from ..core.blocks import Origin, Text, ToolCall, Turn
from ..core.dialect import Dialect, TextCalls, TextFormat
from ..core.events import (
    Done,
    ErrorEvent,
    Event,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ..core.modules import late_module
from ..core.reduce import TurnBuilder
from ..core.tools import ToolSpec
from .plain_tools import called, plain_tool
from .registry import get_wire
from .sse import DEFAULT_LIMIT
from .stop_reasons import settled_stop
from .stream_decoder import StreamDecoder

if TYPE_CHECKING:
    from ..toolformats import registry as formats
    from ..toolformats.findings import TextFilter
    from . import filtered_builder
else:
    # An answer needs them, a request does not.
    formats = late_module("..toolformats.registry", globals(), "formats")
    filtered_builder = late_module(".filtered_builder", globals())

_NO_NAMES: Mapping[str, str] = MappingProxyType({})


# The other half of an EncodeContext. It is made from the Request, so that an answer is read in the terms in which it
# was asked for: the names that were changed, the format the tools were declared in.
class DecodeContext(msgspec.Struct, frozen=True):
    dialect: Dialect
    turn_key: str
    model: str = ""
    tools: Sequence[ToolSpec] = ()
    """The tools of the request, as they are to us."""
    tool_names: Mapping[str, str] = _NO_NAMES
    """The name of a tool by the one it was declared under, where the wire could not take its own."""
    text_calls: TextCalls = "execute"
    text_format: TextFormat | None = None
    """The format in which the tools were declared as text, and in which calls are therefore expected."""
    answer_tool: str = ""
    """The tool whose call is the answer's text, if there is one."""
    limit: int = DEFAULT_LIMIT
    """How many bytes of an event, a line or a body may be held."""
    relay_to: str = ""
    """The wire of the client that judges this answer (see `Options.relay_to`)."""

    @property
    def declared(self) -> Sequence[ToolSpec]:
        """The tools as the host was told of them."""
        return [plain_tool(tool, self.dialect) for tool in self.tools]

    @property
    def wire_names(self) -> frozenset[str]:
        """The names under which the tools were declared to the host."""
        # What the router of tool deltas compares with: a host answers with the names that it was told.
        changed = set(self.tool_names.values())
        return frozenset([*self.tool_names, *[tool.name for tool in self.declared if tool.name not in changed]])

    def builder(self) -> TurnBuilder:
        """For a reader that looks for calls in the text itself, or has no text."""
        return TurnBuilder(
            self.turn_key, self._origin, called=called(self.tools, self.dialect), keep_empty=bool(self.relay_to)
        )

    def filtered_builder(self) -> TurnBuilder:
        """For any other reader: it reads calls and thinking out of the text where this answer may hold them."""
        # Filters cost something for each piece, so a host that leaks nothing gets the plain builder.
        text, reasoning = self.text_filter(), self.reasoning_filter()
        if text is None and reasoning is None:
            return self.builder()
        return filtered_builder.FilteredBuilder(
            self.turn_key,
            self._origin,
            text,
            reasoning,
            called=called(self.tools, self.dialect),
            keep_empty=bool(self.relay_to),
        )

    @property
    def for_own_client(self) -> bool:
        """Whether the answer goes on to a client of this very wire, which knows every word that a host may end with."""
        return self.relay_to == self.dialect.wire

    @property
    def _origin(self) -> Origin:
        return Origin(self.dialect.provider, self.dialect.wire, self.model)

    def text_filter(self) -> TextFilter | None:
        """The filter for the text of the answer: of the format that was agreed on, else of what this host may leak."""
        if self.text_format is None:
            return formats.text_filter(self.dialect, self.declared, self.text_calls)
        rules = self.dialect.reasoning
        # A call is no leak here, and one of an unknown tool is a call all the same.
        return formats.get_filter(self.text_format, self.declared, tags=rules.tags, starts_inside=rules.starts_inside)

    def reasoning_filter(self) -> Callable[[], TextFilter] | None:
        """What makes a filter for each stretch of reasoning. Only a model's own tokens are a call there: anything else is a
        thought about one."""
        chosen = self.text_format
        # The host may leak the same format that was chosen: its own rules for reasoning then hold.
        if chosen is None or self.dialect.leaks == chosen:
            return formats.reasoning_filter(self.dialect, self.declared, self.text_calls)
        return (lambda: formats.leak_filter(chosen, self.declared)) if formats.text_format(chosen).special else None

    def text_answer(self, body: bytes) -> Turn | None:
        """The turn of a whole answer that is a single text, as most are that are not streamed: the same turn as a decoder gives, but
        without events. None for every other body, and on wires that have no such fast path."""
        read: Callable[[DecodeContext, bytes], Turn | None] | None = getattr(
            get_wire(self.dialect.wire).room("decode"), "text_answer", None
        )
        # Escapes may spell half a character, which only the decoder mends. Text that a filter has to see is its matter too.
        if read is None or self.answer_tool or len(body) > self.limit or b"\\u" in body:
            return None
        return read(self, body) if self.text_filter() is None else None

    def decoder(self) -> StreamDecoder:
        """A decoder for one answer, by the dialect's wire."""
        make: Callable[[DecodeContext], StreamDecoder] = get_wire(self.dialect.wire).room("decode").make_decoder
        decoder = make(self)
        if self.answer_tool:
            decoder.retell = AnswerTool(self.answer_tool).retell
        return decoder


class AnswerTool:
    """The call of a tool whose arguments are the answer, retold as the answer's text.

    A host that cannot be held to a schema is given a tool that it must call (wires/answer_schema.py). Nobody answers that
    call, so the conversation gets the text that a host with such a mode would have sent.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # The index of the call that is being told as text. Blocks never nest, so one is enough.
        self._open: int | None = None

    def retell(self, events: list[Event]) -> list[Event]:
        return [self._event(event) for event in events]

    def _event(self, event: Event) -> Event:
        match event:
            case ToolCallStart() if event.name == self._name:
                self._open = event.index
                return TextStart(event.index)
            case ToolCallDelta() if event.index == self._open:
                return TextDelta(event.index, event.delta)
            case ToolCallEnd() if event.index == self._open:
                self._open = None
                return TextEnd(event.index, Text(event.block.arguments))
            case Done() | ErrorEvent():
                return replace(event, turn=self._turn(event.turn))
            case _:
                return event

    def _turn(self, turn: Turn) -> Turn:
        blocks = tuple(
            [
                Text(block.arguments) if type(block) is ToolCall and block.name == self._name else block
                for block in turn.blocks
            ]
        )
        if blocks == turn.blocks:
            return turn
        # The tool was a means of ours: a turn that called nothing else has simply ended.
        calls = sum(type(block) is ToolCall for block in blocks)
        return replace(turn, blocks=blocks, stop_reason=settled_stop(turn.stop_reason, calls))
