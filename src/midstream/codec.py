"""midstream without a network: encode a request, decode an answer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from threading import Lock
from typing import TypedDict, Unpack

from msgspec.structs import replace

from .core.blocks import Conversation, Turn, human
from .core.compaction import SentTurns, sent_turns
from .core.dialect import Dialect, Options, TextCalls
from .core.errors import LocalError
from .core.events import Event
from .core.tools import ToolSpec, declared_tools, join_tools
from .dialects.registry import REGISTRY, Resolved, resolve
from .wires.decode_context import DecodeContext
from .wires.history_cache import HistoryCache
from .wires.native_path import choose_dialect
from .wires.registry import get_wire
from .wires.request import Request, RequestDraft
from .wires.stream_decoder import StreamDecoder, decode_chunks, decode_whole

_CHOICES = ("auto", "none", "required")
_HISTORY = HistoryCache()
_ENCODING = Lock()
"""Threads that share a cache must not go on with one writer while another reads it."""


def mint_turn_key() -> str:
    """A fresh turn key: minted once, when a turn opens."""
    return os.urandom(16).hex()


def encode_request(
    model: str | Resolved,
    conversation: Conversation | str,
    *,
    tools: Sequence[ToolSpec] = (),
    options: Options | None = None,
    cache: HistoryCache | None = _HISTORY,
) -> Request:
    """The next request of this conversation, as `model` requires it: method, path, headers without secrets, body, notes.

    A plain string is a conversation of one human turn. Finished turns are encoded once and kept in `cache` (None keeps
    nothing).

    Neither files nor the environment are read here: a name is looked up in the built-in registry. For the user's own
    providers, aliases and addresses pass `Catalog().resolve(name)`, which is what Session and Client do.
    """
    check_model_first(model)
    if isinstance(conversation, str):
        conversation = Conversation((human(conversation),))
    target = resolve(model) if isinstance(model, str) else model
    options = options or Options()
    if cache is None:
        sent = sent_turns(conversation.turns)
    else:
        with _ENCODING:
            sent = cache.sent_turns(conversation.turns)
    if sent.turns is not conversation.turns:
        conversation = replace(conversation, turns=sent.turns)
        options = _without_older_response(options, sent)
    known = tools
    if target.dialect.native is not None or options.tool_choice is not None:
        known = join_tools(tools, [tool for _, tool in declared_tools(conversation.turns)])
    _check_choice(options.tool_choice, known)
    dialect = choose_dialect(target.dialect, conversation, known, options)
    with _ENCODING if cache is not None else nullcontext():
        request = RequestDraft(conversation, dialect, target.model, tools, options, cache).encode()
    if sent.since < 0:
        return request
    return replace(
        request,
        notes=(*sent.notes(), *[sent.placed(note) for note in request.notes]),
        begins=tuple([(sent.places[turn], at) for turn, at in request.begins]),
    )


def _without_older_response(options: Options, sent: SentTurns) -> Options:
    """A host that kept a response has the turns before it as they were: it cannot be continued from before a summary."""
    wanted = options.previous_response_id
    if wanted is None or sent.summary < 0:
        return options
    since = [turn for turn, place in zip(sent.turns, sent.places, strict=True) if place > sent.summary]
    return options if any(turn.response_id == wanted for turn in since) else replace(options, previous_response_id=None)


def check_model_first(model: object) -> None:
    """TypeError for the arguments (conversation, model), which some libraries take in this order."""
    if isinstance(model, (Conversation, Turn)):  # not `|`, which makes a type anew at each request
        raise TypeError(
            f"expected a model first and the conversation second, got a {type(model).__name__} as the model: "
            "swap the two arguments"
        )


def _check_choice(choice: str | None, tools: Sequence[ToolSpec]) -> None:
    """Hosts refuse a tool that was not declared, or call it anyway; only the caller knows which one was meant."""
    if choice is None or choice in _CHOICES or any(choice in (tool.name, tool.qualified_name) for tool in tools):
        return
    names = ", ".join(tool.qualified_name for tool in tools) or "(none)"
    raise LocalError(
        f"tool_choice={choice!r}: expected {', '.join(_CHOICES)} or the name of a tool; the tools are: {names}"
    )


class DecodeOptions(TypedDict, total=False):
    """What is known of an answer. A `request` that encode_request made knows all of it but the turn key."""

    request: Request
    wire: str | None
    dialect: str | Dialect | None
    """A dialect, or the name of one or of a model."""
    turn_key: str | None
    model: str
    tool_names: Mapping[str, str] | None
    tools: Sequence[ToolSpec]
    text_calls: TextCalls


def make_decoder(**options: Unpack[DecodeOptions]) -> StreamDecoder:
    """A decoder for one answer: feed it bytes, get events. DecodeOptions says what it may be told."""
    turn_key = options.get("turn_key") or mint_turn_key()
    if "request" in options:
        return options["request"].decoder(turn_key)
    dialect, model = options.get("dialect"), options.get("model", "")
    if isinstance(dialect, str):
        if "/" in dialect or ":" in dialect:
            target = resolve(dialect)
            dialect, model = target.dialect, model or target.model
        else:
            dialect = REGISTRY.dialect(dialect)
    wire = options.get("wire") or (dialect.wire if dialect is not None else "openai-chat")
    dialect = dialect or get_wire(wire).default
    if dialect.wire != wire:
        raise LocalError(f"the dialect {dialect.name} is not for the wire {wire!r}: it speaks {dialect.wire!r}")
    return DecodeContext(
        dialect,
        turn_key,
        model,
        options.get("tools", ()),
        options.get("tool_names") or {},
        options.get("text_calls", "execute"),
    ).decoder()


def decode_stream(chunks: bytes | Iterable[bytes], **options: Unpack[DecodeOptions]) -> Iterator[Event]:
    """The events of a streamed answer, in one piece or cut into chunks anyhow."""
    return decode_chunks(make_decoder(**options), (chunks,) if isinstance(chunks, bytes) else chunks)


def decode_response(body: bytes, *, status: int = 200, **options: Unpack[DecodeOptions]) -> Turn:
    """A whole answer as a Turn; ProviderError for an error the provider sent."""
    return decode_whole(make_decoder(**options), body, status=status)
