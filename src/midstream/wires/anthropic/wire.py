"""This wire as the registry knows it."""

from __future__ import annotations

from ...core.dialect import Dialect
from ..asked import Asked
from ..sse import SSEParser
from ..stream_decoder import StreamDecoder
from ..wire import Wire, guarded
from .decoder import AnthropicAnswer
from .encoder import encode_messages
from .plain import PLAIN
from .reader import read_messages_request


def _decoder(dialect: Dialect, asked: Asked) -> StreamDecoder:
    return StreamDecoder(AnthropicAnswer(dialect, asked), SSEParser(limit=asked.limit), limit=asked.limit)


WIRE = Wire("anthropic", encode_messages, _decoder, PLAIN, guarded(read_messages_request))
