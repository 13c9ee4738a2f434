"""Everything that decoding an answer depends on: who answers, in which dialect, and what was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from ..core.blocks import Origin
from ..core.dialect import Dialect, TextCalls
from ..core.reduce import TurnBuilder
from ..core.tools import ToolSpec
from .plain_tools import called, plain_tool
from .registry import get_wire
from .sse import DEFAULT_LIMIT
from .stream_decoder import StreamDecoder

_NO_NAMES: Mapping[str, str] = MappingProxyType({})


class DecodeContext(msgspec.Struct, frozen=True):
    dialect: Dialect
    turn_key: str
    model: str = ""
    tools: Sequence[ToolSpec] = ()
    """The tools of the request, as they are to us."""
    tool_names: Mapping[str, str] = _NO_NAMES
    """The name of a tool by the one it was declared under, where the wire could not take its own."""
    text_calls: TextCalls = "execute"
    limit: int = DEFAULT_LIMIT
    """How many bytes of an event, a line or a body may be held."""

    @property
    def declared(self) -> Sequence[ToolSpec]:
        """The tools as the host was told of them."""
        return [plain_tool(tool, self.dialect) for tool in self.tools]

    @property
    def wire_names(self) -> frozenset[str]:
        """The names under which the tools were declared to the host."""
        changed = set(self.tool_names.values())
        return frozenset([*self.tool_names, *[tool.name for tool in self.declared if tool.name not in changed]])

    def builder(self) -> TurnBuilder:
        origin = Origin(self.dialect.provider, self.dialect.wire, self.model)
        return TurnBuilder(self.turn_key, origin, called=called(self.tools, self.dialect))

    def decoder(self) -> StreamDecoder:
        """A decoder for one answer, by the dialect's wire."""
        make: Callable[[DecodeContext], StreamDecoder] = get_wire(self.dialect.wire).room("decode").make_decoder
        return make(self)
