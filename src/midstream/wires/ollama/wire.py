"""This wire as the registry knows it."""

from __future__ import annotations

from ...core.dialect import Dialect
from ...toolformats.registry import text_filter
from ..decode_context import DecodeContext
from ..framing import LineFraming
from ..stream_decoder import StreamDecoder
from ..wire import Wire, guarded
from .decode import OllamaStreamReader
from .encode import encode_ollama
from .parse import read_ollama_request
from .plain import PLAIN


def _decoder(dialect: Dialect, asked: DecodeContext) -> StreamDecoder:
    answer = OllamaStreamReader(dialect, asked, text_filter(dialect, asked.tools, asked.text_calls))
    return StreamDecoder(answer, LineFraming(limit=asked.limit), limit=asked.limit, instead={b"<": None})


WIRE = Wire("ollama", encode_ollama, _decoder, PLAIN, guarded(read_ollama_request))
