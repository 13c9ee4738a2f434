"""The chat wire as the registry knows it."""

from __future__ import annotations

from ...core.dialect import Dialect
from ...toolformats.registry import leak_filter, text_filter
from ..decode_context import DecodeContext
from ..sse import SSEParser
from ..stream_decoder import StreamDecoder
from ..wire import Wire, guarded
from .decode import ChatStreamReader
from .encode import encode_chat
from .parse import read_chat_request


def _decoder(dialect: Dialect, asked: DecodeContext) -> StreamDecoder:
    leaks, tools = dialect.leaks, asked.tools
    answer = ChatStreamReader(
        dialect,
        asked,
        text_filter(dialect, tools, asked.text_calls),
        None if leaks is None else lambda: leak_filter(leaks, tools, safety=asked.text_calls),
    )
    return StreamDecoder(answer, SSEParser(limit=asked.limit), limit=asked.limit)


WIRE = Wire("openai-chat", encode_chat, _decoder, Dialect("openai-chat", "openai-chat"), guarded(read_chat_request))
