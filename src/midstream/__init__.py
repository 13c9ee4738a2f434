"""One conversation, any order of models, never a 400."""

from .codec import decode_response, decode_stream, encode_request, make_decoder, mint_turn_key
from .core.blocks import (
    Conversation,
    Media,
    Opaque,
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
from .core.handoff import Note
from .core.reduce import reduce
from .core.tools import ToolSpec
from .dialects.registry import resolve
from .wires.request import Request

__version__ = "0.1.0"

__all__ = [
    "Conversation",
    "Event",
    "Media",
    "MidstreamError",
    "Note",
    "Opaque",
    "Options",
    "ProviderError",
    "Request",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolResponse",
    "ToolSpec",
    "Turn",
    "Usage",
    "decode_response",
    "decode_stream",
    "encode_request",
    "human",
    "make_decoder",
    "mint_turn_key",
    "reduce",
    "resolve",
    "tool_result",
]
