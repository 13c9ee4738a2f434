"""This wire as the registry knows it."""

from ..wire import Wire, without_text
from .decoder import AnthropicDecoder
from .encoder import encode_messages
from .plain import PLAIN
from .reader import read_messages_request

WIRE = Wire("anthropic", encode_messages, without_text(AnthropicDecoder), PLAIN, read_messages_request)
