"""This wire as the registry knows it."""

from __future__ import annotations

from ...core.dialect import Dialect
from ...toolformats.registry import get_filter, think_filter
from ..decode_context import DecodeContext
from ..sse import SSEParser
from ..stream_decoder import StreamDecoder
from ..wire import Wire
from .decode import CompletionStreamReader
from .encode import encode_completion


def _decoder(dialect: Dialect, asked: DecodeContext) -> StreamDecoder:
    rules = dialect.reasoning
    # Writing a call as text is how a raw model calls: it is no leak, and one of an unknown tool is a call all the same.
    text_filter = (
        think_filter(rules.tags, rules.starts_inside)
        if dialect.leaks is None
        else get_filter(dialect.leaks, asked.tools, tags=rules.tags, starts_inside=rules.starts_inside)
    )
    answer = CompletionStreamReader(dialect, asked, text_filter)
    return StreamDecoder(answer, SSEParser(limit=asked.limit), limit=asked.limit)


_PLAIN = Dialect("completion", "completion", template="chatml", leaks="hermes", stop=("<|im_end|>", "<|endoftext|>"))

WIRE = Wire("completion", encode_completion, _decoder, _PLAIN)
