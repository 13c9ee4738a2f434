"""One conversation, any order of models, never a 400.

Every public name is imported when it is first used: `import midstream` alone costs next to nothing. The names are listed with
a line each in docs/api.md; what a caller matches on is in `midstream.events` and `midstream.errors`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import adapters as adapters
    from . import errors as errors
    from . import events as events
    from . import ids as ids
    from .agent.approval import Approval as Approval
    from .agent.approval import Decision as Decision
    from .agent.approval_request import ApprovalRequest as ApprovalRequest
    from .agent.loop import Agent as Agent
    from .agent.mcp.servers import McpServers as McpServers
    from .agent.run import RunLimits as RunLimits
    from .agent.run import RunResult as RunResult
    from .agent.sandbox import Sandbox as Sandbox
    from .agent.sync import SyncAgent as SyncAgent
    from .agent.tool import Tool as Tool
    from .agent.tool import tool as tool
    from .agent.toolbox import Toolbox as Toolbox
    from .client.answer_type import Parsed as Parsed
    from .client.breaker import Breaker as Breaker
    from .client.catalog import Catalog as Catalog
    from .client.client import Client as Client
    from .client.client import complete as complete
    from .client.client import stream as stream
    from .client.compaction import Compaction as Compaction
    from .client.mcp_server import McpServer as McpServer
    from .client.reply import ParsedReply as ParsedReply
    from .client.reply import Reply as Reply
    from .client.session import Session as Session
    from .client.sync import SyncSession as SyncSession
    from .client.sync import complete_sync as complete_sync
    from .client.sync import stream_sync as stream_sync
    from .codec import decode_response as decode_response
    from .codec import decode_stream as decode_stream
    from .codec import encode_request as encode_request
    from .codec import make_decoder as make_decoder
    from .codec import mint_turn_key as mint_turn_key
    from .core.blocks import Conversation as Conversation
    from .core.blocks import Media as Media
    from .core.blocks import Opaque as Opaque
    from .core.blocks import Origin as Origin
    from .core.blocks import Text as Text
    from .core.blocks import Thinking as Thinking
    from .core.blocks import ToolCall as ToolCall
    from .core.blocks import ToolResponse as ToolResponse
    from .core.blocks import Turn as Turn
    from .core.blocks import Usage as Usage
    from .core.blocks import human as human
    from .core.blocks import tool_result as tool_result
    from .core.dialect import Options as Options
    from .core.errors import MidstreamError as MidstreamError
    from .core.errors import ProviderError as ProviderError
    from .core.events import Event as Event
    from .core.handoff import Note as Note
    from .core.handoff import SwitchReport as SwitchReport
    from .core.reduce import reduce as reduce
    from .core.tools import Grammar as Grammar
    from .core.tools import ToolSpec as ToolSpec
    from .dialects.registry import Resolved as Resolved
    from .dialects.registry import resolve as resolve
    from .transport.options import RetryPolicy as RetryPolicy
    from .transport.options import TransportOptions as TransportOptions
    from .wires.request import Request as Request

__version__ = "0.1.0"

_MODULES = ("adapters", "errors", "events", "ids")
_HOMES = {
    "agent.approval": "Approval Decision",
    "agent.approval_request": "ApprovalRequest",
    "agent.loop": "Agent",
    "agent.mcp.servers": "McpServers",
    "agent.run": "RunLimits RunResult",
    "agent.sync": "SyncAgent",
    "agent.tool": "Tool tool",
    "agent.sandbox": "Sandbox",
    "agent.toolbox": "Toolbox",
    "client.answer_type": "Parsed",
    "client.breaker": "Breaker",
    "client.catalog": "Catalog",
    "client.client": "Client complete stream",
    "client.compaction": "Compaction",
    "client.mcp_server": "McpServer",
    "client.reply": "ParsedReply Reply",
    "client.session": "Session",
    "client.sync": "SyncSession complete_sync stream_sync",
    "codec": "decode_response decode_stream encode_request make_decoder mint_turn_key",
    "core.blocks": "Conversation Media Opaque Origin Text Thinking ToolCall ToolResponse Turn Usage human tool_result",
    "core.dialect": "Options",
    "core.errors": "MidstreamError ProviderError",
    "core.events": "Event",
    "core.handoff": "Note SwitchReport",
    "core.reduce": "reduce",
    "core.tools": "Grammar ToolSpec",
    "dialects.registry": "Resolved resolve",
    "transport.options": "RetryPolicy TransportOptions",
    "wires.request": "Request",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = sorted([*_MODULES, *_HOME])  # noqa: PLE0605  (for a type checker, the imports above say it)

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
