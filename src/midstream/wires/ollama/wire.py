"""This wire as the registry knows it."""

from __future__ import annotations

from ...core.dialect import Dialect
from ...toolformats.registry import text_filter
from ..asked import Asked
from ..framing import LineFraming
from ..stream_decoder import StreamDecoder
from ..wire import Wire, guarded
from .decoder import OllamaAnswer
from .encoder import encode_ollama
from .plain import PLAIN
from .reader import read_ollama_request


def _decoder(dialect: Dialect, asked: Asked) -> StreamDecoder:
    answer = OllamaAnswer(dialect, asked, text_filter(dialect, asked.tools, asked.text_calls))
    return StreamDecoder(answer, LineFraming(limit=asked.limit), limit=asked.limit, instead={b"<": None})


WIRE = Wire("ollama", encode_ollama, _decoder, PLAIN, guarded(read_ollama_request))
