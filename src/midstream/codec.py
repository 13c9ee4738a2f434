"""midstream without a network: encode a request, decode an answer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from threading import Lock

from msgspec.structs import replace

from .core.blocks import Conversation, Turn, human
from .core.dialect import Dialect, Options, TextCalls
from .core.errors import LocalError
from .core.events import Event
from .core.tools import ToolSpec
from .dialects.registry import REGISTRY, Resolved, resolve
from .wires.decode_context import DecodeContext
from .wires.history_cache import HistoryCache
from .wires.native_path import choose_dialect
from .wires.registry import get_wire
from .wires.request import Request
from .wires.wire import Decoder, decode_chunks, decode_whole

_CHOICES = ("auto", "none", "required")
_HISTORY = HistoryCache()
_ENCODING = Lock()
"""Threads that share a cache must not go on with one writer while another reads it."""


def mint_turn_key() -> str:
    """A fresh turn key: minted once, when a turn opens."""
    return os.urandom(16).hex()


def encode_request(
    conversation: Conversation | str,
    model: str | Resolved,
    *,
    tools: Sequence[ToolSpec] = (),
    options: Options | None = None,
    cache: HistoryCache | None = _HISTORY,
) -> Request:
    """The next request of this conversation as `model` wants it: method, path, headers without secrets, body, notes.

    What was encoded before is not encoded again: finished turns are kept in `cache` (pass None for none). A plain string
    is a conversation of one human turn.
    """
    if isinstance(conversation, str):
        conversation = Conversation((human(conversation),))
    target = resolve(model) if isinstance(model, str) else model
    options = options or Options()
    _check_choice(options.tool_choice, tools)
    dialect = choose_dialect(target.dialect, conversation, tools, options)
    with _ENCODING if cache is not None else nullcontext():
        request = get_wire(dialect.wire).encode(
            conversation, dialect, target.model, tools=tools, options=options, cache=cache
        )
    return request if request.dialect is not None else replace(request, dialect=dialect)


def _check_choice(choice: str | None, tools: Sequence[ToolSpec]) -> None:
    """A host refuses a tool it was not told of, or calls it none the less; which one was meant only the caller knows."""
    if choice is None or choice in _CHOICES or any(tool.name == choice for tool in tools):
        return
    names = ", ".join(tool.name for tool in tools) or "(none)"
    raise LocalError(
        f"tool_choice={choice!r}: expected {', '.join(_CHOICES)} or the name of a tool; the tools are: {names}"
    )


def make_decoder(
    *,
    wire: str | None = None,
    dialect: str | Dialect | None = None,
    turn_key: str | None = None,
    model: str = "",
    tool_names: dict[str, str] | None = None,
    tools: Sequence[ToolSpec] = (),
    text_calls: TextCalls = "execute",
) -> Decoder:
    """A decoder for one answer: feed it bytes, get events. `dialect` may be the name of one, or of a model."""
    if isinstance(dialect, str):
        if "/" in dialect or ":" in dialect:
            target = resolve(dialect)
            dialect, model = target.dialect, model or target.model
        else:
            dialect = REGISTRY.dialect(dialect)
    spoken = get_wire(wire or (dialect.wire if dialect is not None else "openai-chat"))
    asked = DecodeContext(turn_key or mint_turn_key(), model, tool_names or {}, tools, text_calls)
    return spoken.decoder(dialect or spoken.plain, asked)


def decode_stream(
    chunks: bytes | Iterable[bytes],
    *,
    wire: str | None = None,
    dialect: str | Dialect | None = None,
    turn_key: str | None = None,
    model: str = "",
    tool_names: dict[str, str] | None = None,
    tools: Sequence[ToolSpec] = (),
    text_calls: TextCalls = "execute",
) -> Iterator[Event]:
    """The events of a streamed answer, in one piece or cut into chunks anyhow."""
    decoder = make_decoder(
        wire=wire,
        dialect=dialect,
        turn_key=turn_key,
        model=model,
        tool_names=tool_names,
        tools=tools,
        text_calls=text_calls,
    )
    return decode_chunks(decoder, (chunks,) if isinstance(chunks, bytes) else chunks)


def decode_response(
    body: bytes,
    *,
    wire: str | None = None,
    status: int = 200,
    dialect: str | Dialect | None = None,
    turn_key: str | None = None,
    model: str = "",
    tool_names: dict[str, str] | None = None,
    tools: Sequence[ToolSpec] = (),
    text_calls: TextCalls = "execute",
) -> Turn:
    """A whole answer as a Turn; ProviderError for an error the provider sent."""
    decoder = make_decoder(
        wire=wire,
        dialect=dialect,
        turn_key=turn_key,
        model=model,
        tool_names=tool_names,
        tools=tools,
        text_calls=text_calls,
    )
    return decode_whole(decoder, body, status=status)
