"""The chat wire as the registry knows it."""

from __future__ import annotations

from ...core.dialect import Dialect
from ...toolformats.registry import leak_filter, text_filter
from ..asked import Asked
from ..sse import SSEParser
from ..stream_decoder import StreamDecoder
from ..wire import Wire, guarded
from .decoder import ChatAnswer
from .encoder import encode_chat
from .reader import read_chat_request


def _decoder(dialect: Dialect, asked: Asked) -> StreamDecoder:
    leaks, tools = dialect.leaks, asked.tools
    answer = ChatAnswer(
        dialect,
        asked,
        text_filter(dialect, tools, asked.text_calls),
        None if leaks is None else lambda: leak_filter(leaks, tools, safety=asked.text_calls),
    )
    return StreamDecoder(answer, SSEParser(limit=asked.limit), limit=asked.limit)


WIRE = Wire("openai-chat", encode_chat, _decoder, Dialect("openai-chat", "openai-chat"), guarded(read_chat_request))
