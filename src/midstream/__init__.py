"""One conversation, any order of models, never a 400.

Every public name is imported when it is first used: `import midstream` alone costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agent.loop import Agent
    from .agent.toolbox import Toolbox
    from .client.calls import complete, stream
    from .client.session import Session
    from .client.sync import complete_sync, stream_sync
    from .client.turn import Client
    from .codec import decode_response, decode_stream, encode_request
    from .codec import make_decoder as make_decoder
    from .codec import mint_turn_key as mint_turn_key
    from .core.blocks import (
        Conversation,
        Media,
        Text,
        Thinking,
        ToolCall,
        ToolResponse,
        Turn,
        Usage,
        human,
        tool_result,
    )
    from .core.blocks import Opaque as Opaque
    from .core.dialect import Options
    from .core.errors import MidstreamError, ProviderError
    from .core.events import Event
    from .core.handoff import Note
    from .core.reduce import reduce
    from .core.tools import ToolSpec
    from .dialects.registry import resolve
    from .wires.request import Request as Request

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Client",
    "Conversation",
    "Event",
    "Media",
    "MidstreamError",
    "Note",
    "Options",
    "ProviderError",
    "Session",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolResponse",
    "ToolSpec",
    "Toolbox",
    "Turn",
    "Usage",
    "complete",
    "complete_sync",
    "decode_response",
    "decode_stream",
    "encode_request",
    "human",
    "reduce",
    "resolve",
    "stream",
    "stream_sync",
    "tool_result",
]

_HOMES = {
    "agent.loop": "Agent",
    "agent.toolbox": "Toolbox",
    "client.calls": "complete stream",
    "client.session": "Session",
    "client.sync": "complete_sync stream_sync",
    "client.turn": "Client",
    "codec": "decode_response decode_stream encode_request make_decoder mint_turn_key",
    "core.blocks": "Conversation Media Opaque Text Thinking ToolCall ToolResponse Turn Usage human tool_result",
    "core.dialect": "Options",
    "core.errors": "MidstreamError ProviderError",
    "core.events": "Event",
    "core.handoff": "Note",
    "core.reduce": "reduce",
    "core.tools": "ToolSpec",
    "dialects.registry": "resolve",
    "wires.request": "Request",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
