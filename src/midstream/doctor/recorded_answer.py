"""How midstream reads a recorded answer: its events and its turn, or the error it ends in.

The model is the one that was recorded, or known from the address and the body of the request. Nothing is sent: the bytes go through the
decoder as they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from ..core.blocks import Conversation, Thinking, Turn, Value
from ..core.dialect import Dialect
from ..core.errors import LocalError, MidstreamError, TruncatedStream, UnknownModel
from ..core.events import Done, ErrorEvent, ErrorInfo, Event
from ..core.tools import ToolSpec
from ..dialects.registry import REGISTRY
from ..recording.cassette import read_exchange
from ..recording.exchange import RecordedExchange, unpacked
from ..recording.replay import recut
from ..sim.routes import ROUTES, find_route
from ..wires.decode_context import DecodeContext
from ..wires.provider_errors import provider_error
from ..wires.registry import get_wire
from ..wires.request import ParsedRequest, parse_request
from ..wires.stream_decoder import StreamDecoder

_KEY = "recorded"


class RecordedAnswer(Value, frozen=True):
    """An answer as midstream reads it. `events` are empty where the host refused; `turn` is then None."""

    model: str
    wire: str
    conversation: Conversation | None = None
    events: tuple[Event, ...] = ()
    turn: Turn | None = None
    error: ErrorInfo | None = None

    @property
    def thinking(self) -> str:
        """All reasoning in one text."""
        blocks = () if self.turn is None else self.turn.blocks
        return "".join([block.text for block in blocks if isinstance(block, Thinking)])


def read_answer(exchange: RecordedExchange, *, model: str = "", cuts: Sequence[bytes] | None = None) -> RecordedAnswer:
    """Read a recorded answer, as `model`'s if given; `cuts` are its bytes, cut in another way."""
    wire, dialect, name = _reader(exchange, model)
    request = _parsed_request(exchange, wire, dialect)
    shown = f"{dialect.provider}/{name}" if dialect.provider else name
    conversation = None if request is None else request.conversation
    answer = RecordedAnswer(shown, wire, conversation)
    try:
        events = _events(exchange, dialect, name, () if request is None else request.tools, cuts)
    except MidstreamError as error:
        return replace(answer, error=ErrorInfo.of(error))
    last = events[-1]
    assert isinstance(last, (Done, ErrorEvent))
    failure = last.error if isinstance(last, ErrorEvent) else None
    return replace(answer, events=tuple(events), turn=last.turn, error=failure)


def read_recording(path: str | Path, *, pace: str = "chunks", seed: int = 0, model: str = "") -> RecordedAnswer:
    """Read the answer in a file: cut as it was recorded (`chunks`), byte by byte (`bytes`) or at `random`."""
    exchange = read_exchange(path)
    match pace:
        case "chunks":
            return read_answer(exchange, model=model)
        case "bytes" | "random":
            cuts = list(recut(b"".join(unpacked(exchange)), pace, Random(seed)))
            return read_answer(exchange, model=model, cuts=cuts)
        case _:
            raise LocalError(f"invalid pace {pace!r}; expected one of chunks, bytes, random")


def _events(
    exchange: RecordedExchange, dialect: Dialect, model: str, tools: Sequence[ToolSpec], cuts: Sequence[bytes] | None
) -> list[Event]:
    failure = None if exchange.error is None else exchange.error.to_exception()
    head = exchange.head
    if head is None:
        raise failure or TruncatedStream("the recording has no answer")
    chunks = unpacked(exchange) if cuts is None else list(cuts)
    if not 200 <= head.status < 300:
        raise provider_error(head.status, b"".join(chunks), headers=head.headers)
    decoder = DecodeContext(dialect, _KEY, model, tools).decoder()
    if exchange.ending == "clean" and not exchange.streamed:
        return decoder.read_body(b"".join(chunks))
    return _streamed(decoder, chunks, failure)


def _streamed(decoder: StreamDecoder, chunks: Sequence[bytes], failure: MidstreamError | None) -> list[Event]:
    events: list[Event] = []
    for data in chunks:
        if not decoder.ended:
            events += decoder.feed(data)
    if not decoder.ended and failure is not None:
        events += decoder.fail(ErrorInfo.of(failure))
    elif not decoder.ended:
        events += decoder.close()
    if not decoder.ended:
        events += decoder.fail(ErrorInfo.of(TruncatedStream("the body ended before the answer did")))
    return events


def _parsed_request(exchange: RecordedExchange, wire: str, dialect: Dialect) -> ParsedRequest | None:
    """The request as a conversation and tools; None if it cannot be read as one."""
    if exchange.request.body is None:
        return None
    try:
        return parse_request(
            wire, exchange.request.body.data, provider=dialect.provider, model="model", stream=exchange.streamed
        )
    except MidstreamError:
        return None


def _reader(exchange: RecordedExchange, named: str) -> tuple[str, Dialect, str]:
    """The wire, the dialect and the model's name that read an answer."""
    if named:
        target = REGISTRY.resolve(named)
        return target.dialect.wire, _path(target.dialect, exchange.wire), target.model
    parts = urlsplit(exchange.request.url)
    found = find_route("", exchange.request.method, unquote(parts.path), tuple(ROUTES))
    wire = exchange.wire or ("" if found is None else found.wire)
    if not wire:
        raise LocalError(
            f"{exchange.request.method} {parts.path} is not a path on which models answer; name the model with --model"
        )
    body = exchange.request.body
    named_model = body.json.get("model") if body is not None and isinstance(body.json, dict) else None
    model = exchange.model.partition("/")[2] or str(named_model or "") or ("" if found is None else found.model)
    for provider in (exchange.model.partition("/")[0].removeprefix("sim:"), _at(parts.netloc, wire)):
        if provider:
            try:
                dialect = _path(REGISTRY.resolve(f"{provider}/{model}").dialect, wire)
            except UnknownModel:
                continue
            if dialect.wire == wire:
                return wire, dialect, model
    return wire, get_wire(wire).default, model


def _path(dialect: Dialect, wire: str) -> Dialect:
    """Of a host with two paths, the one whose wire was recorded."""
    native = dialect.native
    return native if native is not None and native.wire == wire else dialect


def _at(netloc: str, wire: str) -> str:
    """The provider at an address that speaks this wire."""
    for row in REGISTRY.providers.values():
        if urlsplit(row.endpoint.base_url).netloc == netloc and any(
            dialect.wire == wire for _, dialect in row.dialects
        ):
            return row.name
    return ""
