"""Anthropic's Messages wire, as Claude and its look-alikes speak it."""

from .decoder import AnthropicDecoder
from .encoder import encode_messages
from .plain import PLAIN
from .reader import read_messages_request

__all__ = ["PLAIN", "AnthropicDecoder", "encode_messages", "read_messages_request"]
