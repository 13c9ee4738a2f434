"""This wire as the registry knows it."""

from __future__ import annotations

from ...core.dialect import Dialect
from ..asked import Asked
from ..framing import ArrayFraming
from ..sse import SSEParser
from ..stream_decoder import StreamDecoder
from ..wire import Wire, guarded
from .decoder import GeminiAnswer
from .encoder import encode_gemini
from .plain import PLAIN
from .reader import read_gemini_request


def _decoder(dialect: Dialect, asked: Asked) -> StreamDecoder:
    limit = asked.limit
    instead = {b"[": ArrayFraming(limit=limit), b"{": None, b"<": None}
    return StreamDecoder(GeminiAnswer(dialect, asked), SSEParser(limit=limit), limit=limit, instead=instead)


WIRE = Wire("gemini", encode_gemini, _decoder, PLAIN, guarded(read_gemini_request))
