"""This wire as the registry knows it."""

from __future__ import annotations

from ...core.dialect import Dialect
from ..decode_context import DecodeContext
from ..sse import SSEParser
from ..stream_decoder import StreamDecoder
from ..wire import Wire, guarded
from .decode import ResponsesStreamReader
from .encode import encode_responses
from .parse import read_responses_request


def _decoder(dialect: Dialect, asked: DecodeContext) -> StreamDecoder:
    return StreamDecoder(ResponsesStreamReader(dialect, asked), SSEParser(limit=asked.limit), limit=asked.limit)


_PLAIN = Dialect("openai-responses", "openai-responses", system_role="instructions", tool_result_media="inline")

WIRE = Wire("openai-responses", encode_responses, _decoder, _PLAIN, guarded(read_responses_request))
