"""One conversation, any order of models, never a 400.

Every public name is imported when it is first used: `import midstream` alone costs next to nothing. The names are listed with
a line each in docs/api.md; what a caller matches on is in `midstream.events` and `midstream.errors`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import adapters, errors, events, ids
    from .agent.approval import Approval, Decision
    from .agent.approval_request import ApprovalRequest
    from .agent.loop import Agent
    from .agent.run import RunLimits, RunResult
    from .agent.sync import SyncAgent
    from .agent.tool import Tool, tool
    from .agent.toolbox import Toolbox
    from .client.catalog import Catalog
    from .client.client import Client, complete, stream
    from .client.reply import Reply
    from .client.session import Session
    from .client.sync import SyncSession, complete_sync, stream_sync
    from .codec import decode_response, decode_stream, encode_request, make_decoder, mint_turn_key
    from .core.blocks import (
        Conversation,
        Media,
        Opaque,
        Origin,
        Text,
        Thinking,
        ToolCall,
        ToolResponse,
        Turn,
        Usage,
        human,
        tool_result,
    )
    from .core.dialect import Options
    from .core.errors import MidstreamError, ProviderError
    from .core.events import Event
    from .core.handoff import Note, SwitchReport
    from .core.reduce import reduce
    from .core.tools import ToolSpec
    from .dialects.registry import Resolved, resolve
    from .wires.request import Request

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Approval",
    "ApprovalRequest",
    "Catalog",
    "Client",
    "Conversation",
    "Decision",
    "Event",
    "Media",
    "MidstreamError",
    "Note",
    "Opaque",
    "Options",
    "Origin",
    "ProviderError",
    "Reply",
    "Request",
    "Resolved",
    "RunLimits",
    "RunResult",
    "Session",
    "SwitchReport",
    "SyncAgent",
    "SyncSession",
    "Text",
    "Thinking",
    "Tool",
    "ToolCall",
    "ToolResponse",
    "ToolSpec",
    "Toolbox",
    "Turn",
    "Usage",
    "adapters",
    "complete",
    "complete_sync",
    "decode_response",
    "decode_stream",
    "encode_request",
    "errors",
    "events",
    "human",
    "ids",
    "make_decoder",
    "mint_turn_key",
    "reduce",
    "resolve",
    "stream",
    "stream_sync",
    "tool",
    "tool_result",
]

_MODULES = ("adapters", "errors", "events", "ids")
_HOMES = {
    "agent.approval": "Approval Decision",
    "agent.approval_request": "ApprovalRequest",
    "agent.loop": "Agent",
    "agent.run": "RunLimits RunResult",
    "agent.sync": "SyncAgent",
    "agent.tool": "Tool tool",
    "agent.toolbox": "Toolbox",
    "client.catalog": "Catalog",
    "client.client": "Client complete stream",
    "client.reply": "Reply",
    "client.session": "Session",
    "client.sync": "SyncSession complete_sync stream_sync",
    "codec": "decode_response decode_stream encode_request make_decoder mint_turn_key",
    "core.blocks": "Conversation Media Opaque Origin Text Thinking ToolCall ToolResponse Turn Usage human tool_result",
    "core.dialect": "Options",
    "core.errors": "MidstreamError ProviderError",
    "core.events": "Event",
    "core.handoff": "Note SwitchReport",
    "core.reduce": "reduce",
    "core.tools": "ToolSpec",
    "dialects.registry": "Resolved resolve",
    "wires.request": "Request",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

if not TYPE_CHECKING:  # a type checker must see that other names do not exist

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return import_module(f".{name}", __name__)
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f".{home}", __name__), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
