"""Lawful events of many kinds, and what is left of them on each wire: the oracle of the answer rooms.

An `Act` is one block on its way. `speak` tells acts to a TurnBuilder, which gives the events that a writer gets. `carried`
tells the same acts to another one as the wire's decoder would, with what the wire cannot carry left out: LOSSES names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec.structs import replace

from midstream.core.blocks import Media, Opaque, Origin, Text, Thinking, ToolCall, Turn, Usage
from midstream.core.errors import KINDS
from midstream.core.events import Done, ErrorEvent, ErrorInfo, Event
from midstream.core.reduce import TurnBuilder
from midstream.wires.answer import AnswerContext
from midstream.wires.registry import get_wire
from midstream.wires.stop_reasons import settled_stop

LOSSES: dict[str, tuple[str, ...]] = {
    "openai-chat": (
        "the border between two blocks of one kind, and empty ones",
        "signatures, encrypted and redacted reasoning; citations; that a text is a refusal, in a stream",
        "media and opaque blocks, except this wire's own annotations, audio and images",
        "a stop reason that is none of stop, tool_calls, length and content_filter, unless a host of this wire gave it",
    ),
    "openai-responses": (
        "empty text",
        "signatures and redaction; encrypted reasoning that was not asked for; how a reasoning was cut into parts",
        "media and opaque blocks, except this wire's own items",
        "a stop reason that is none of completed, max_output_tokens and content_filter, unless a host of this wire gave it",
    ),
    "anthropic": (
        "empty text",
        "encrypted reasoning that is not redacted; annotations of other wires",
        "media and opaque blocks, except this wire's own",
        "no counts at all: they arrive as zeros",
        "the cost",
    ),
    "gemini": (
        "the border between two blocks of one kind, and empty ones",
        "a signature that is not base64; one of streamed text comes after it, in an empty block",
        "encrypted and redacted reasoning; opaque blocks of other wires",
        "the layout of a call's arguments, and how they streamed",
        "tokens written to a cache; the cost",
    ),
    "ollama": (
        "the border between two blocks of one kind, and empty ones",
        "signatures, encrypted and redacted reasoning",
        "media and opaque blocks",
        "the layout of a call's arguments, and how they streamed",
        "counts of cached and of reasoning tokens; the cost",
        "no counts at all: they arrive as zeros",
        "a refusal: it ends like any answer",
        "the response's id",
    ),
    "cohere": (
        "empty text and thinking",
        "signatures, encrypted and redacted reasoning",
        "media and opaque blocks",
        "tokens written to a cache; the cost",
        "the model's name",
    ),
    "completion": (
        "every border but the one between thinking, text and calls; how a call's arguments streamed",
        "signatures, encrypted and redacted reasoning; media and opaque blocks; ids that the text format does not write",
        "counts of cached tokens written; the cost",
    ),
}
"""What a wire cannot carry; docs/answers.md says the same."""

WORDS = st.text('ab Zé😀\n"\\{}', min_size=1, max_size=6)
NAMES = st.sampled_from(["get_weather", "f", "read-file"])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 10**25), st.text('aé"', max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text("ab", max_size=2), inner, max_size=2)),
    max_leaves=4,
)
SIGNATURES = st.sampled_from([None, "c2ln", "b3RoZXI="])


class Act(msgspec.Struct, frozen=True):
    """One block: its kind, the pieces it comes in, and what is beside them."""

    kind: str
    pieces: tuple[str, ...] = ()
    name: str = ""
    signature: str | None = None
    encrypted: str | None = None
    redacted: bool = False


class Answer(msgspec.Struct, frozen=True):
    acts: tuple[Act, ...]
    stop: str = "end_turn"
    usage: Usage | None = None
    failure: str = ""


@st.composite
def cut(draw: st.DrawFn, text: str) -> tuple[str, ...]:
    """A text in pieces."""
    places = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=3)))
    return tuple([piece for piece in map(text.__getitem__, map(slice, [0, *places], [*places, None])) if piece])


@st.composite
def calls(draw: st.DrawFn) -> Act:
    given = draw(st.dictionaries(st.text("ab", min_size=1, max_size=2), VALUES, max_size=2))
    text = json.dumps(given, ensure_ascii=False, separators=draw(st.sampled_from([(",", ":"), (", ", ": ")])))
    return Act("call", draw(cut(draw(st.sampled_from([text, text, text, ""])))), draw(NAMES))


ACTS = st.one_of(
    st.builds(Act, st.just("text"), st.lists(WORDS, max_size=3).map(tuple)),
    st.builds(Act, st.just("thinking"), st.lists(WORDS, max_size=3).map(tuple), signature=SIGNATURES),
    st.builds(Act, st.just("thinking"), encrypted=st.just("ZW5j"), redacted=st.booleans()),
    calls(),
    st.builds(Act, st.sampled_from(["media", "own", "foreign"])),
)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    cached, stored, fresh = (draw(st.integers(0, 50)) for _ in range(3))
    output = draw(st.integers(0, 50))
    apart = draw(st.booleans())
    read = fresh if apart else fresh + cached + stored
    return Usage(
        read, output, cached, stored, draw(st.integers(0, output)), not apart, draw(st.sampled_from([None, 0.5]))
    )


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    acts = tuple(draw(st.lists(ACTS, max_size=5)))
    failure = draw(st.sampled_from(["", "", "", *FAILURES]))
    stop = draw(st.sampled_from(["end_turn", "max_tokens", "refusal"]))
    if any(act.kind == "call" for act in acts) and stop == "end_turn":
        stop = "tool_use"
    said = any(act.kind == "call" or "".join(act.pieces).strip() for act in acts if act.kind != "thinking")
    if not failure and not said:
        acts = (*acts, Act("text", ("said",)))  # an answer must say something, or it ends as `empty`
    return Answer(acts, stop, draw(st.one_of(st.none(), usages())), failure)


FAILURES = (
    "rate_limited",
    "overloaded",
    "context_too_long",
    "quota_exceeded",
    "bad_request",
    "truncated",
    "idle_timeout",
)

OWN: dict[str, Opaque] = {
    "openai-chat": Opaque("annotations", [{"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A", "start_index": 0, "end_index": 1}}]),
    "openai-responses": Opaque("web_search_call", {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}}),
    "anthropic": Opaque("server_tool_use", {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}),
    "gemini": Opaque("executableCode", {"executableCode": {"language": "PYTHON", "code": "1"}}),
    "cohere": Opaque("citations", [{"start": 0, "end": 1, "text": "a", "sources": []}]),
}  # fmt: skip
"""A block of each wire that the core has no word for, as its decoder keeps it."""
IMAGE = Media("image/*", data="aGk=")


def _own(wire: str) -> Opaque:
    block = OWN.get(wire, Opaque("other", {"type": "other"}))
    return replace(block, origin=Origin("p", wire, "m"))


def failed(kind: str) -> ErrorInfo:
    return ErrorInfo.of(KINDS[kind]("it was not to be"))


def speak(answer: Answer, wire: str) -> list[Event]:
    """The events of an answer that came from anywhere."""
    builder = TurnBuilder("made", Origin("p", "anywhere", "upstream"))
    builder.start("upstream", "up-1")
    for number, act in enumerate(answer.acts):
        builder.end_block()
        match act.kind:
            case "text":
                builder.text("")
                for piece in act.pieces:
                    builder.text(piece)
            case "thinking":
                thought = builder.thinking("", "reasoning")
                thought.signature, thought.encrypted, thought.redacted = act.signature, act.encrypted, act.redacted
                for piece in act.pieces:
                    builder.thinking(piece)
            case "call":
                call = builder.open_call(f"raw{number}", act.name)
                for piece in act.pieces:
                    builder.call_arguments(call, piece)
                builder.close_call(call)
            case "media":
                builder.whole(IMAGE)
            case "own":
                builder.whole(_own(wire))
            case _:
                builder.whole(Opaque("strange", {"a": 1}, Origin("p", "elsewhere", "m")))
    builder.usage = answer.usage
    if answer.failure:
        builder.fail(failed(answer.failure))
    else:
        builder.finish(answer.stop)
    return builder.take()


Teller = Callable[[TurnBuilder, Act, str], None]
"""Tells a decoder's builder what arrives of an act; the id is the wire's own."""


def carried(answer: Answer, wire: str, context: AnswerContext, ids: list[str]) -> list[Event]:
    """The events as they should arrive; `ids` are those that the calls were written under."""
    dialect = get_wire(wire).default
    builder = TurnBuilder("read", Origin(dialect.provider, wire, "m"))
    named = "" if wire == "cohere" else context.model
    builder.start(named, None if wire == "ollama" else context.response_id)
    waiting = iter(ids)
    own: list[Opaque] = []
    for act in answer.acts:
        if act.kind == "own" and wire in OWN:
            if wire == "cohere":
                own.append(_own(wire))  # citations are gathered behind all else
            else:
                builder.whole(replace(_own(wire), origin=builder.origin))
        elif act.kind in ("own", "foreign") or (act.kind == "media" and wire != "gemini"):
            continue
        elif act.kind == "media":
            builder.whole(IMAGE)
        else:
            TELLERS[wire](builder, act, next(waiting) if act.kind == "call" else "")
    if own:
        every = [item for block in own for item in block.data]
        builder.whole(Opaque("citations", every, builder.origin))
    if answer.failure:
        builder.usage = _counted_by_then(answer.usage, wire, context)
        builder.fail(ErrorInfo(KINDS_KEPT[wire].get(answer.failure, OTHER_KIND[wire]), ""))
    else:
        builder.usage = counted(answer.usage, wire)
        builder.finish(settled_stop(STOPS.get(wire, {}).get(answer.stop, answer.stop), builder.calls))
    return builder.take()


def _call(builder: TurnBuilder, act: Act, call_id: str, *, whole: bool = False) -> None:
    piece = builder.open_call(call_id, act.name)
    text = "".join(act.pieces) or "{}"
    if whole:
        builder.call_arguments(piece, msgspec.json.format(text.encode(), indent=-1).decode())
    else:
        for part in act.pieces or ("{}",):
            builder.call_arguments(piece, part)
    builder.close_call(piece)


def _chat(builder: TurnBuilder, act: Act, call_id: str) -> None:
    if act.kind == "call":
        _call(builder, act, call_id)
    elif act.kind == "text":
        for piece in act.pieces:
            builder.text(piece)
    elif act.pieces:
        for piece in act.pieces:
            builder.thinking(piece, "reasoning_content")
    elif builder.is_blank and get_wire("openai-chat").default.reasoning.echo != "never":
        builder.thinking("", "reasoning_content")


def _messages(builder: TurnBuilder, act: Act, call_id: str) -> None:
    builder.end_block()
    if act.kind == "call":
        _call(builder, act, call_id)
    elif act.kind == "text":
        for piece in act.pieces:
            builder.text(piece)
    else:
        thought = builder.thinking("", "thinking")
        if act.redacted:
            thought.redacted, thought.encrypted = True, act.encrypted
        else:
            thought.signature = act.signature
        for piece in act.pieces:
            builder.thinking(piece)
    builder.end_block()


def _responses(builder: TurnBuilder, act: Act, call_id: str) -> None:
    builder.end_block()
    if act.kind == "call":
        _call(builder, act, call_id)
    elif act.kind == "text":
        for piece in act.pieces:
            builder.text(piece)
    else:
        thought = builder.thinking("", "summary")
        thought.encrypted = act.encrypted
        for piece in act.pieces:
            builder.thinking(piece)
    builder.end_block()


def _gemini(builder: TurnBuilder, act: Act, call_id: str) -> None:
    if act.kind == "call":
        _call(builder, act, call_id, whole=True)
    elif act.kind == "text":
        for piece in act.pieces:
            builder.text(piece)
    else:
        for piece in act.pieces:
            builder.thinking(piece, "thought")
        if act.signature:
            builder.end_block()
            builder.thinking("", "thought").signature = act.signature
            builder.end_block()


def _ollama(builder: TurnBuilder, act: Act, call_id: str) -> None:
    if act.kind == "call":
        _call(builder, act, call_id, whole=True)
    else:
        for piece in act.pieces:
            if act.kind == "text":
                builder.text(piece)
            else:
                builder.thinking(piece, "thinking")


def _cohere(builder: TurnBuilder, act: Act, call_id: str) -> None:
    builder.end_block()
    if act.kind == "call":
        _call(builder, act, call_id)
    for piece in act.pieces if act.kind != "call" else ():
        if act.kind == "text":
            builder.text(piece)
        else:
            builder.thinking(piece, "thinking")
    builder.end_block()


TELLERS: dict[str, Teller] = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _messages,
    "gemini": _gemini,
    "ollama": _ollama,
    "cohere": _cohere,
}
STOPS = {"ollama": {"refusal": "end_turn"}}
_NAMED = {kind: kind for kind in ("rate_limited", "overloaded", "context_too_long", "quota_exceeded", "bad_request")}
KINDS_KEPT: dict[str, dict[str, str]] = {
    "openai-chat": _NAMED,
    "openai-responses": {**_NAMED, "bad_request": "provider"},
    "anthropic": _NAMED,
    "gemini": {**_NAMED, "quota_exceeded": "rate_limited", "context_too_long": "bad_request"},
    "ollama": {},
    "cohere": {},
    "completion": _NAMED,
}
"""The kinds of error that a wire has words for, by what they arrive as."""
OTHER_KIND = dict.fromkeys(KINDS_KEPT, "overloaded") | {"ollama": "provider", "cohere": "provider"}


def counted(usage: Usage | None, wire: str) -> Usage | None:
    """The counts as they should arrive."""
    if usage is None:
        return {"anthropic": Usage(cache_in_input=False), "ollama": Usage()}.get(wire)
    whole = Usage(usage.read, usage.output, usage.cache_read, usage.cache_write, usage.reasoning, cost=usage.cost)
    match wire:
        case "anthropic":
            return replace(whole, input=usage.fresh, cache_in_input=False, cost=None)
        case "gemini" | "cohere":
            return replace(whole, cache_write=0, cost=None)
        case "ollama":
            return Usage(usage.read, usage.output)
        case "openai-responses":
            return replace(whole, cost=None)
    return whole


def _counted_by_then(usage: Usage | None, wire: str, context: AnswerContext) -> Usage | None:
    """The counts that are known where an answer fails: all on one wire, the request's on another, else none."""
    if wire == "openai-responses":
        return counted(usage, wire)
    return Usage(context.input_tokens, cache_in_input=False) if wire == "anthropic" else None


def bare(event: Event) -> Event:
    """An event without what the wire adds by itself: raw counts, raw stop reasons, the fields of items, the words of an error."""
    if isinstance(event, (Done, ErrorEvent)):
        turn = event.turn
        plain = replace(
            turn,
            blocks=tuple([_bare_block(block) for block in turn.blocks]),
            usage=replace(turn.usage, raw=None) if turn.usage is not None else None,
            raw_stop=None,
            extra=None,
            response_model="",
        )
        return Done(plain) if isinstance(event, Done) else ErrorEvent(ErrorInfo(event.error.kind, ""), plain)
    block = getattr(event, "block", None)
    return replace(event, block=_bare_block(block)) if block is not None else event


def _bare_block(block: Any) -> Any:
    if isinstance(block, (Text, Thinking, ToolCall)) and block.extra:
        rest = {key: value for key, value in block.extra.items() if key not in ("item", "lengths")}
        return replace(block, extra=rest or None)
    return block


def last_turn(events: list[Event]) -> Turn:
    last = events[-1]
    assert isinstance(last, (Done, ErrorEvent))
    return last.turn
