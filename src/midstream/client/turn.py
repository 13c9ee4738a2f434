"""One turn with a model: encode, send, decode.

`stream` gives events; a failure before `start` is an exception, after it an `error` event. A chain of models is tried in
order, on failures that a retry may mend and only before the first byte: an answer that has begun is never spliced with
another model's. `complete` is the same for whoever wants the Turn.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from types import TracebackType

import msgspec
from msgspec.structs import replace

from ..codec import encode_request, mint_turn_key
from ..core.blocks import Conversation, Turn
from ..core.dialect import Options
from ..core.errors import LocalError, MidstreamError, RetriesExhausted
from ..core.events import Done, ErrorEvent, Event
from ..core.secret import Secret, SecretHeaders
from ..core.tools import ToolSpec
from ..dialects.registry import Resolved
from ..transport import Answer, Transport, TransportOptions, stream_events
from ..transport.clear_text import warn_of_clear_text
from ..wires.history_cache import HistoryCache
from ..wires.request import Request
from ..wires.stream_decoder import decode_whole
from .breaker import Breaker, host_of
from .catalog import Catalog
from .explain import explain
from .reply import Reply


class Client:
    """Talks to models: connections, encoded histories and the circuit breaker live as long as it does."""

    def __init__(
        self,
        catalog: Catalog | None = None,
        *,
        transport: TransportOptions | Transport | None = None,
        api_key: str | Secret | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        self.catalog = catalog or Catalog()
        self._transport = transport if isinstance(transport, Transport) else Transport(transport)
        self._api_key = None if api_key is None else Secret(api_key)
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
        conversation: Conversation | str,
        tools: Sequence[ToolSpec] = (),
        options: Options | None = None,
    ) -> Request:
        """The request that `stream` would send, without its secrets."""
        return encode_request(conversation, self._target(model), tools=tools, options=options, cache=self._history)

    def stream(
        self,
        model: str | Sequence[str],
        conversation: Conversation | str,
        *,
        tools: Sequence[ToolSpec] = (),
        options: Options | None = None,
        turn_key: str | None = None,
    ) -> Reply:
        """The events of the next answer; a plain string is a conversation of one human turn. Given several models, the next is tried where one cannot begin to answer."""
        return Reply(self.batches(model, conversation, tools=tools, options=options, turn_key=turn_key))

    async def batches(
        self,
        model: str | Sequence[str],
        conversation: Conversation | str,
        *,
        tools: Sequence[ToolSpec] = (),
        options: Options | None = None,
        turn_key: str | None = None,
    ) -> AsyncGenerator[list[Event], None]:
        """As `stream`, in the batches the network brought: for whoever counts microseconds."""
        options = options or Options()
        turn_key = turn_key or mint_turn_key()
        asked, answer, began = await self._begin(model, conversation, tools, options)
        decoder = asked.request.decoder(turn_key)
        async with aclosing(stream_events(answer, decoder)) as batches:
            async for batch in batches:
                last = batch[-1]
                if isinstance(last, (Done, ErrorEvent)):
                    turn = replace(last.turn, latency_ms=(time.monotonic() - began) * 1000)
                    batch[-1] = replace(last, turn=turn)
                yield batch

    async def complete(
        self,
        model: str | Sequence[str],
        conversation: Conversation | str,
        *,
        tools: Sequence[ToolSpec] = (),
        options: Options | None = None,
        turn_key: str | None = None,
    ) -> Turn:
        """The next answer, whole. An error the provider sent is raised; an empty or cut answer has `failure` set."""
        whole = replace(options or Options(), stream=False)
        asked, answer, began = await self._begin(model, conversation, tools, whole)
        async with answer:
            body = await answer.read()
        decoder = asked.request.decoder(turn_key or mint_turn_key())
        try:
            turn = decode_whole(decoder, body, provider=asked.target.provider)
        except MidstreamError as error:
            failure = answer.secrets.scrub_error(error)
        else:
            return replace(turn, latency_ms=(time.monotonic() - began) * 1000)
        del body  # it may echo the key, and the locals of a frame may be shown
        raise failure

    def _target(self, model: str | Resolved) -> Resolved:
        return self.catalog.resolve(model) if isinstance(model, str) else model

    async def _begin(
        self, model: str | Sequence[str], conversation: Conversation | str, tools: Sequence[ToolSpec], options: Options
    ) -> tuple[_Asked, Answer, float]:
        """The first model of the chain that begins to answer, its answer, and when it was asked."""
        names = [model] if isinstance(model, str) else list(model)
        if not names:
            raise LocalError("no model was given")
        failures: list[MidstreamError] = []
        for name in names:
            target = self._target(name)
            asked = _Asked(target, self.encode(target, conversation, tools, options))
            began = time.monotonic()
            try:
                return asked, await self._open(asked.request, target), began
            except MidstreamError as error:
                failures.append(error)
                if not error.retryable:
                    break
        if len(failures) == 1:
            raise failures[0]
        raise _verdict(names, failures)

    async def _open(self, request: Request, target: Resolved) -> Answer:
        """Send it, with the host's headers and key, unless its breaker is open."""
        base = target.endpoint.base_url
        key = self.catalog.auth_headers(target, self._api_key)
        headers = SecretHeaders({**(target.endpoint.headers or {}), **key})
        warn_of_clear_text(base, headers)
        host = host_of(base)
        self._breaker.check(host)
        try:
            answer = await self._transport.open(request, base, headers)
        except MidstreamError as error:
            self._breaker.judge(host, error)
            explain(error, target)
            raise
        self._breaker.succeeded(host)
        return answer


class _Asked(msgspec.Struct, frozen=True):
    target: Resolved
    request: Request


def _verdict(names: Sequence[str], failures: Sequence[MidstreamError]) -> MidstreamError:
    """The error of a chain. One that no other model could mend is raised as it is, after those before it were tried."""
    last = failures[-1]
    if not last.retryable:
        return last
    told = "; ".join(f"{name}: {error}" for name, error in zip(names, failures, strict=False))
    return RetriesExhausted(f"no model of the chain could answer: {told}", failures)
