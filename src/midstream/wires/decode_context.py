"""What was asked, as far as the reading of its answer depends on it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..core.blocks import Origin
from ..core.dialect import Dialect, TextCalls
from ..core.reduce import TurnBuilder
from ..core.tools import ToolSpec
from .sse import DEFAULT_LIMIT


class DecodeContext(msgspec.Struct, frozen=True):
    turn_key: str
    model: str = ""
    tool_names: dict[str, str] = {}
    """The name of a tool by the one it was declared under, where this wire could not say its own."""
    tools: Sequence[ToolSpec] = ()
    text_calls: TextCalls = "execute"
    limit: int = DEFAULT_LIMIT
    """How many bytes of an event, a line or a body may be held."""

    @property
    def wire_names(self) -> frozenset[str]:
        """The names of the tools as the host was told them."""
        changed = set(self.tool_names.values())
        return frozenset([*self.tool_names, *[tool.name for tool in self.tools if tool.name not in changed]])

    def builder(self, dialect: Dialect) -> TurnBuilder:
        return TurnBuilder(self.turn_key, Origin(dialect.provider, dialect.wire, self.model))
