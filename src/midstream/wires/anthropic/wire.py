"""This wire as the registry knows it."""

from __future__ import annotations

from ...core.dialect import Dialect
from ..decode_context import DecodeContext
from ..sse import SSEParser
from ..stream_decoder import StreamDecoder
from ..wire import Wire, guarded
from .decode import MessagesStreamReader
from .encode import encode_messages
from .parse import read_messages_request
from .plain import PLAIN


def _decoder(dialect: Dialect, asked: DecodeContext) -> StreamDecoder:
    return StreamDecoder(MessagesStreamReader(dialect, asked), SSEParser(limit=asked.limit), limit=asked.limit)


WIRE = Wire("anthropic", encode_messages, _decoder, PLAIN, guarded(read_messages_request))
