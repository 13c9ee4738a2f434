"""OpenAI's chat-completions wire, as many hosts speak it."""

from .decoder import ChatDecoder
from .encoder import encode_chat

__all__ = ["ChatDecoder", "encode_chat"]
