"""This wire as the registry knows it."""

from __future__ import annotations

from ...core.dialect import Dialect
from ..decode_context import DecodeContext
from ..framing import ArrayFraming
from ..sse import SSEParser
from ..stream_decoder import StreamDecoder
from ..wire import Wire, guarded
from .decode import GeminiStreamReader
from .encode import encode_gemini
from .parse import read_gemini_request
from .plain import PLAIN


def _decoder(dialect: Dialect, asked: DecodeContext) -> StreamDecoder:
    limit = asked.limit
    instead = {b"[": ArrayFraming(limit=limit), b"{": None, b"<": None}
    return StreamDecoder(GeminiStreamReader(dialect, asked), SSEParser(limit=limit), limit=limit, instead=instead)


WIRE = Wire("gemini", encode_gemini, _decoder, PLAIN, guarded(read_gemini_request))
