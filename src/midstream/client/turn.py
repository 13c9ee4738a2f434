"""One turn with a model: encode, send, decode.

`stream` gives events; a failure before `start` is an exception, after it an `error` event. A chain of models is tried in
order, and only before the first byte: an answer that has begun is never spliced with another model's. `complete` is the
same for whoever wants the Turn.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from types import TracebackType

from msgspec.structs import replace

from ..codec import encode_request, make_decoder, mint_turn_key
from ..core.blocks import Conversation, Turn
from ..core.dialect import Options
from ..core.errors import ConnectFailed, MidstreamError, RetriesExhausted
from ..core.events import Done, ErrorEvent, Event
from ..core.tools import ToolSpec
from ..dialects.registry import Resolved
from ..transport import Answer, Transport, TransportOptions, stream_events
from ..wires.outgoing import HistoryCache
from ..wires.request import Request
from ..wires.wire import decode_whole
from .breaker import Breaker
from .catalog import Catalog
from .reply import Reply


class Client:
    """Talks to models: connections, encoded histories and the circuit breaker live as long as it does."""

    def __init__(
        self,
        catalog: Catalog | None = None,
        *,
        transport: TransportOptions | Transport | None = None,
        api_key: str | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        self.catalog = catalog or Catalog()
        self._transport = transport if isinstance(transport, Transport) else Transport(transport)
        self._api_key = api_key
        self._breaker = breaker or Breaker()
        self._history = HistoryCache()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._transport.aclose()

    def encode(
        self,
        model: str | Resolved,
        conversation: Conversation,
        tools: Sequence[ToolSpec] = (),
        options: Options | None = None,
    ) -> Request:
        """The request that `stream` would send, without its secrets."""
        return encode_request(conversation, self._target(model), tools=tools, options=options, cache=self._history)

    def stream(
        self,
        model: str | Sequence[str],
        conversation: Conversation,
        *,
        tools: Sequence[ToolSpec] = (),
        options: Options | None = None,
        turn_key: str | None = None,
    ) -> Reply:
        """The events of the next answer. Given several models, the next is tried where one cannot begin to answer."""
        return Reply(self.batches(model, conversation, tools=tools, options=options, turn_key=turn_key))

    async def batches(
        self,
        model: str | Sequence[str],
        conversation: Conversation,
        *,
        tools: Sequence[ToolSpec] = (),
        options: Options | None = None,
        turn_key: str | None = None,
    ) -> AsyncGenerator[list[Event], None]:
        """As `stream`, in the batches the network brought: for whoever counts microseconds."""
        names = [model] if isinstance(model, str) else list(model)
        failures: list[MidstreamError] = []
        for number, name in enumerate(names):
            target = self._target(name)
            try:
                answer_batches = self._one(
                    target, conversation, tools, options or Options(), turn_key or mint_turn_key()
                )
                first = await anext(answer_batches)
            except MidstreamError as error:
                failures.append(error)
                if not error.retryable or number == len(names) - 1:
                    raise _verdict(names, failures) from error
                continue
            async with aclosing(answer_batches):
                yield first
                async for batch in answer_batches:
                    yield batch
            return

    async def complete(
        self,
        model: str | Sequence[str],
        conversation: Conversation,
        *,
        tools: Sequence[ToolSpec] = (),
        options: Options | None = None,
        turn_key: str | None = None,
    ) -> Turn:
        """The next answer, whole. What `stream` would tell with an `error` event is raised."""
        names = [model] if isinstance(model, str) else list(model)
        asked = replace(options or Options(), stream=False)
        failures: list[MidstreamError] = []
        for number, name in enumerate(names):
            try:
                return await self._whole(self._target(name), conversation, tools, asked, turn_key or mint_turn_key())
            except MidstreamError as error:
                failures.append(error)
                if not error.retryable or number == len(names) - 1:
                    raise _verdict(names, failures) from error
        raise _verdict(names, failures)

    def _target(self, model: str | Resolved) -> Resolved:
        return self.catalog.resolve(model) if isinstance(model, str) else model

    async def _one(
        self, target: Resolved, conversation: Conversation, tools: Sequence[ToolSpec], options: Options, turn_key: str
    ) -> AsyncGenerator[list[Event], None]:
        began = time.monotonic()
        request = self.encode(target, conversation, tools, options)
        decoder = make_decoder(
            dialect=request.dialect,
            turn_key=turn_key,
            model=target.model,
            tool_names=request.tool_names,
            tools=tools,
        )
        answer = await self._open(request, target)
        async with aclosing(stream_events(answer, decoder)) as batches:
            async for batch in batches:
                last = batch[-1]
                if isinstance(last, (Done, ErrorEvent)):
                    turn = replace(last.turn, latency_ms=(time.monotonic() - began) * 1000)
                    batch[-1] = replace(last, turn=turn)
                yield batch

    async def _whole(
        self, target: Resolved, conversation: Conversation, tools: Sequence[ToolSpec], options: Options, turn_key: str
    ) -> Turn:
        began = time.monotonic()
        request = self.encode(target, conversation, tools, options)
        answer = await self._open(request, target)
        async with answer:
            body = await answer.read()
        decoder = make_decoder(
            dialect=request.dialect,
            turn_key=turn_key,
            model=target.model,
            tool_names=request.tool_names,
            tools=tools,
        )
        turn = decode_whole(decoder, body, provider=target.provider)
        return replace(turn, latency_ms=(time.monotonic() - began) * 1000)

    async def _open(self, request: Request, target: Resolved) -> Answer:
        """Send it, with the host's headers and key, unless its breaker is open."""
        host = target.endpoint.base_url
        self._breaker.check(host)
        headers = {**(target.endpoint.headers or {}), **self.catalog.auth_headers(target, self._api_key)}
        try:
            answer = await self._transport.open(request, host, headers)
        except MidstreamError as error:
            if error.retryable:
                self._breaker.failed(host)
            raise
        self._breaker.succeeded(host)
        return answer


def _verdict(names: Sequence[str], failures: list[MidstreamError]) -> MidstreamError:
    if len(names) == 1 and failures:
        return failures[0]
    if not failures:
        return ConnectFailed("no model was given")
    told = "; ".join(f"{name}: {error}" for name, error in zip(names, failures, strict=False))
    return RetriesExhausted(f"no model of the chain could answer: {told}", failures)
