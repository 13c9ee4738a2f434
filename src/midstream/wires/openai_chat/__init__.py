"""OpenAI's chat-completions wire, as many hosts speak it."""

from .decoder import ChatDecoder
from .encoder import encode_chat
from .reader import read_chat_request, read_messages

__all__ = ["ChatDecoder", "encode_chat", "read_chat_request", "read_messages"]
