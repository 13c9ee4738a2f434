"""Ask a model for one answer: encode, send, decode.

`stream` gives events; `start` comes as soon as a host has accepted the request. A failure before it is raised, a later one is
an `error` event. `complete` gives the whole Turn. An answer that fails before its first block, in a way that another attempt
may cure, is asked for again, and then from the next model of a chain; there is one `start` however often that happens. An
answer whose first block has begun is never continued by another model. The functions `stream` and `complete` make a client for
one answer.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeVar, overload
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from ..codec import check_model_first, encode_request, mint_turn_key
from ..core.blocks import Conversation, Turn, human
from ..core.dialect import Options
from ..core.errors import (
    BadRequest,
    LocalError,
    MediaRefused,
    MidstreamError,
    NotFound,
    ProviderError,
    RetriesExhausted,
    SchemaMismatch,
    TruncatedStream,
    Unauthorized,
)
from ..core.events import Done, ErrorEvent, ErrorInfo, Event, Start
from ..core.patterns import late_pattern
from ..core.secret import Secret, SecretHeaders, hide
from ..core.tools import ToolSpec
from ..dialects.registry import Resolved
from ..transport import EventReader, HTTPResponse, Transport, TransportOptions
from ..transport.target import warn_of_clear_text
from ..wires.history_cache import HistoryCache
from ..wires.request import Request
from ..wires.stream_decoder import decode_whole
from .answer_type import CUT, AnswerType, Parsed
from .breaker import Breaker, host_of
from .catalog import Catalog
from .reply import Reply

T = TypeVar("T")


class Client:
    """Talks to models. Connections, encoded histories and the circuit breaker live as long as the client.

    `catalog` resolves names and finds keys: by default the user's configuration and the environment. `api_key` is used for
    every host instead of what the catalog finds. `remember=False` keeps no encoded histories: for a caller that reads each
    conversation anew, as a server does, there is nothing to go on with.
    """

    def __init__(
        self,
        catalog: Catalog | None = None,
        *,
        transport: TransportOptions | Transport | None = None,
        api_key: str | Secret | None = None,
        breaker: Breaker | None = None,
        remember: bool = True,
    ) -> None:
        self.catalog = catalog or Catalog()
        # A Transport may be shared by several clients; it is closed with this one all the same.
        self._transport = transport if isinstance(transport, Transport) else Transport(transport)
        self._api_key = None if api_key is None else Secret(api_key)
        self._breaker = breaker or Breaker()
        self._history = HistoryCache() if remember else None

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
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
        """The request that `stream` would send, without its secrets. Nothing is sent."""
        return encode_request(self._target(model), conversation, tools=tools, options=options, cache=self._history)

    def stream(
        self,
        model: str | Sequence[str],
        conversation: Conversation | str,
        *,
        tools: Sequence[ToolSpec] = (),
        options: Options | None = None,
        turn_key: str | None = None,
    ) -> Reply:
        """Stream the next answer: iterate the Reply for events, or await it for the Turn.

        A plain string is a conversation of one human turn. Given several models, the next one is tried where one cannot
        begin to answer.
        """
        return Reply(self.batches(model, conversation, tools=tools, options=options, turn_key=turn_key))

    async def batches(
        self,
        model: str | Sequence[str],
        conversation: Conversation | str,
        *,
        tools: Sequence[ToolSpec] = (),
        options: Options | None = None,
        turn_key: str | None = None,
        api_key: Secret | None = None,
        sending: Callable[[Resolved, Request], None] | None = None,
    ) -> AsyncGenerator[list[Event], None]:
        """The events of `stream` in the batches in which they arrived: lower overhead per event.

        `api_key` is this request's own; `sending` is told of every model that is asked, and what it is sent.
        """
        options = options or Options()
        turn_key = turn_key or mint_turn_key()
        names = model_names(model)
        failures: list[MidstreamError] = []
        # Three nested tries, from the outside in: the models of the chain, the attempts with one model, and
        # (in the transport) the attempts until a first byte. Everything ends at the first block of an
        # answer: what was shown cannot be taken back, and another model cannot go on from it.
        started = False
        for name in names:
            # Each model of a chain is encoded for itself: ids, reasoning and tools differ from one to the next.
            target = self._target(name)
            sent = _Sent(
                target, self.encode(target, conversation, tools, options), api_key or self._api_key, api_key is None
            )
            if sending is not None:
                sending(target, sent.request)
            first, attempt = time.monotonic(), 0
            while True:
                failed: ErrorEvent | None = None
                try:
                    began = time.monotonic()
                    async with aclosing(self._answers(sent)) as answers:
                        async for accepted in answers:
                            answer = accepted
                            # One `start` for the reader, however many hosts accept and then fail.
                            if not started:
                                started = True
                                yield [Start(turn_key, target.model)]
                    # One generator for the whole way up: each one more is paid at every chunk of a live stream.
                    reader = EventReader(answer, sent.request.decoder(turn_key))
                    ended = False
                    try:
                        while not ended:
                            batch = await reader.batch()
                            ended = reader.ended
                            if type(batch[0]) is Start:
                                del batch[0]  # told when the host accepted the request
                            if ended:
                                # Only a failure without any block comes back
                                # here; every other end is already in the batch.
                                failed = _settle(batch, began)
                            if batch:
                                yield batch
                    finally:
                        reader.close()
                    if failed is None:
                        return
                    failure = failed.to_exception()
                except MidstreamError as error:  # the transport has tried as often as it may
                    failure = error
                    break
                spent = time.monotonic() - first
                if not _breaks_off(failure) or not await self._transport.pause(attempt, spent, _wait(failure)):
                    break
                attempt += 1
            failures.append(failure)
            # Another model would be refused for the same reason (a malformed history, say), so the chain ends.
            if not failure.retryable:
                break
        verdict = _verdict(names, failures)
        # Before `start` errors are raised, after it they are events: a reader who has begun needs no `try`.
        if not started:
            raise verdict
        # The error is of the whole chain, or of the transport, and no
        # decoder has told it; one is made only to give it the right form.
        if failed is None or len(failures) > 1:
            yield sent.request.decoder(turn_key).fail(ErrorInfo.of(verdict))[-1:]
        else:
            yield [failed]

    @overload
    async def complete(
        self,
        model: str | Sequence[str],
        conversation: Conversation | str,
        *,
        tools: Sequence[ToolSpec] = (),
        options: Options | None = None,
        turn_key: str | None = None,
        api_key: Secret | None = None,
        sending: Callable[[Resolved, Request], None] | None = None,
    ) -> Turn: ...
    @overload
    async def complete(
        self,
        model: str | Sequence[str],
        conversation: Conversation | str,
        *,
        schema: type[T] | AnswerType[T],
        tools: Sequence[ToolSpec] = (),
        options: Options | None = None,
        turn_key: str | None = None,
        api_key: Secret | None = None,
        sending: Callable[[Resolved, Request], None] | None = None,
    ) -> Parsed[T]: ...
    @overload
    async def complete(
        self,
        model: str | Sequence[str],
        conversation: Conversation | str,
        *,
        schema: dict[str, Any],
        tools: Sequence[ToolSpec] = (),
        options: Options | None = None,
        turn_key: str | None = None,
        api_key: Secret | None = None,
        sending: Callable[[Resolved, Request], None] | None = None,
    ) -> Parsed[Any]: ...
    async def complete(
        self,
        model: str | Sequence[str],
        conversation: Conversation | str,
        *,
        schema: Any = None,
        tools: Sequence[ToolSpec] = (),
        options: Options | None = None,
        turn_key: str | None = None,
        api_key: Secret | None = None,
        sending: Callable[[Resolved, Request], None] | None = None,
    ) -> Turn | Parsed[Any]:
        """The next answer as a whole Turn. An error of the provider is raised; an empty or cut answer has `failure` set.

        With a `schema` (as `Session.send` takes it) it is the value and its turn, asked for once more if it does not follow
        the schema; then SchemaMismatch is raised.
        """
        if schema is None:
            return await self._complete(model, conversation, tools, options, turn_key, api_key, sending)
        if isinstance(conversation, str):
            conversation = Conversation((human(conversation),))
        answer: AnswerType[Any] = AnswerType.of(schema)
        options = replace(options or Options(), schema=answer.schema)
        turn = await self._complete(model, conversation, tools, options, turn_key, api_key, sending)
        try:
            return Parsed(answer.last_word(turn), turn)
        except SchemaMismatch as error:
            if turn.stop_reason in CUT:
                raise
            rejected = replace(turn, failure=error.kind)
            conversation = conversation.add(*answer.reproach(turn, error))
        # A new key for the turn: the rejected one keeps the first.
        turn = await self._complete(model, conversation, tools, options, None, api_key, sending)
        return Parsed(answer.last_word(turn), turn, rejected)

    async def _complete(
        self,
        model: str | Sequence[str],
        conversation: Conversation | str,
        tools: Sequence[ToolSpec],
        options: Options | None,
        turn_key: str | None,
        api_key: Secret | None,
        sending: Callable[[Resolved, Request], None] | None,
    ) -> Turn:
        whole = options or Options()
        if whole.stream:
            whole = replace(whole, stream=False)
        sent, answer, began = await self._begin(model, conversation, tools, whole, api_key, sending)
        # Whole answers are not retried in the middle: nothing of
        # them was shown, but all of it may have been paid for.
        async with answer:
            body = await answer.read()
        decoder = sent.request.decoder(turn_key or mint_turn_key())
        try:
            turn = decode_whole(decoder, body, provider=sent.target.provider)
        except MidstreamError as error:
            failure = answer.secrets.scrub_error(error)
        else:
            return replace(turn, latency_ms=(time.monotonic() - began) * 1000)
        del body  # it may echo the key, and the locals of a frame may be shown
        raise failure

    async def send(self, model: str | Resolved, request: Request, *, api_key: Secret | None = None) -> HTTPResponse:
        """Send a request that the caller made, with the host's headers and key. The answer is the caller's to read or close."""
        return await self._open(_Sent(self._target(model), request, api_key or self._api_key, api_key is None))

    def _target(self, model: str | Resolved) -> Resolved:
        return self.catalog.resolve(model) if isinstance(model, str) else model

    async def _begin(
        self,
        model: str | Sequence[str],
        conversation: Conversation | str,
        tools: Sequence[ToolSpec],
        options: Options,
        api_key: Secret | None,
        sending: Callable[[Resolved, Request], None] | None,
    ) -> tuple[_Sent, HTTPResponse, float]:
        """Try the models in order until one begins to answer: what was sent, its answer, and when."""
        names = model_names(model)
        failures: list[MidstreamError] = []
        for name in names:
            target = self._target(name)
            sent = _Sent(
                target, self.encode(target, conversation, tools, options), api_key or self._api_key, api_key is None
            )
            if sending is not None:
                sending(target, sent.request)
            began = time.monotonic()
            try:
                return sent, await self._open(sent), began
            except MidstreamError as error:
                failures.append(error)
                if not error.retryable:
                    break
        raise _verdict(names, failures)

    async def _open(self, sent: _Sent) -> HTTPResponse:
        """Send the request as `_answers` does, and wait for the first byte of the answer that is to be read."""
        target = sent.target
        # Before the breaker is asked: a missing key is the caller's to fix, and says nothing about the host.
        secret = await self.catalog.authorize(target, sent.api_key)
        host = host_of(target.endpoint.base_url)
        self._breaker.check(host)
        renewals = 0
        try:
            while True:
                request, headers = _addressed(sent, secret)
                try:
                    answer = await self._transport.open(request, target.endpoint.base_url, headers)
                    break
                except Unauthorized as error:
                    renewals += 1
                    secret = await self._renewed(sent, secret, error, renewals)
        except MidstreamError as error:
            if sent.shared_key:
                self._breaker.judge(host, error)
            explain(error, target, keyless=not secret)
            raise
        self._breaker.succeeded(host)
        return answer

    async def _answers(self, sent: _Sent) -> AsyncGenerator[HTTPResponse, None]:
        """Send the request with the host's headers and key, unless the host's breaker is open.

        The answers of Transport.answers: each as soon as the host has accepted the request, the last one to be read.
        """
        target = sent.target
        secret = await self.catalog.authorize(target, sent.api_key)
        host = host_of(target.endpoint.base_url)
        self._breaker.check(host)
        try:
            async with aclosing(self._send(sent, secret)) as answers:
                async for answer in answers:
                    yield answer
        except MidstreamError as error:
            if sent.shared_key:
                self._breaker.judge(host, error)
            explain(error, target, keyless=not secret)
            raise
        self._breaker.succeeded(host)

    async def _send(self, sent: _Sent, secret: SecretHeaders) -> AsyncGenerator[HTTPResponse, None]:
        """Send the request, and once more with a new key if a key that a command printed is refused."""
        base_url = sent.target.endpoint.base_url
        renewals = 0
        while True:
            request, headers = _addressed(sent, secret)
            try:
                async with aclosing(self._transport.answers(request, base_url, headers)) as answers:
                    async for answer in answers:
                        yield answer
                return
            except Unauthorized as error:
                renewals += 1
                secret = await self._renewed(sent, secret, error, renewals)

    async def _renewed(self, sent: _Sent, refused: SecretHeaders, error: Unauthorized, renewals: int) -> SecretHeaders:
        """Headers with a new key, once, where a command prints them and has another; else the refusal stands."""
        # 403 is about what a key may do, and a key from a variable is the same at every look.
        if renewals > 1 or error.status != 401 or self.catalog.key_command(sent.target, sent.api_key) is None:
            raise error
        secret = await self.catalog.authorize(sent.target, sent.api_key, refused=refused)
        if secret == refused:
            raise error
        return secret


class _Sent(msgspec.Struct, frozen=True):
    target: Resolved
    request: Request
    api_key: Secret | None = None
    shared_key: bool = True
    """Whether the key is everybody's. With one of its own, a request's failures say nothing about the host for others."""


def _settle(batch: list[Event], began: float) -> ErrorEvent | None:
    """Say in the last batch how long the answer took. A failure before the first block is taken out of it."""
    last = batch[-1]
    assert isinstance(last, (Done, ErrorEvent))
    last = replace(last, turn=replace(last.turn, latency_ms=(time.monotonic() - began) * 1000))
    if isinstance(last, ErrorEvent) and not last.turn.blocks:
        batch.clear()
        return last
    batch[-1] = last
    return None


def _addressed(sent: _Sent, secret: SecretHeaders) -> tuple[Request, SecretHeaders]:
    """The request at the place where its endpoint has it, and the headers of the endpoint and the key."""
    request, endpoint = sent.request, sent.target.endpoint
    if endpoint.query:
        request = replace(request, path=endpoint.at(request.path))
    headers = SecretHeaders({**endpoint.headers, **secret}) if endpoint.headers else secret
    warn_of_clear_text(endpoint.base_url, headers)
    return request, headers


def _verdict(names: Sequence[str], failures: Sequence[MidstreamError]) -> MidstreamError:
    """The error of a whole chain. The only one, or one that no other model could cure, is raised as it is."""
    last = failures[-1]
    if len(failures) == 1 or not last.retryable:
        return last
    # Not strict: the chain may have ended before its last name.
    told = "; ".join(f"{name}: {error}" for name, error in zip(names, failures, strict=False))
    return RetriesExhausted(f"none of the models could answer: {told}", failures)


def _breaks_off(error: MidstreamError) -> bool:
    """Whether an answer that ended so before its first block is worth asking the same model for again."""
    return isinstance(error, TruncatedStream) or (isinstance(error, ProviderError) and error.retryable)


def _wait(error: MidstreamError) -> float | None:
    return error.retry_after if isinstance(error, ProviderError) else None


def stream(
    model: str | Sequence[str],
    conversation: Conversation | str,
    *,
    tools: Sequence[ToolSpec] = (),
    options: Options | None = None,
    api_key: str | Secret | None = None,
    catalog: Catalog | None = None,
) -> Reply:
    """Stream the next answer: iterate the Reply for events, or await it for the Turn.

    A plain string is a conversation of one human turn. A client is made for this one answer; keep a Client or a Session to
    reuse connections and encoded histories.
    """
    return Reply(stream_once(model, conversation, tools=tools, options=options, api_key=api_key, catalog=catalog))


@overload
async def complete(
    model: str | Sequence[str],
    conversation: Conversation | str,
    *,
    tools: Sequence[ToolSpec] = (),
    options: Options | None = None,
    api_key: str | Secret | None = None,
    catalog: Catalog | None = None,
) -> Turn: ...
@overload
async def complete(
    model: str | Sequence[str],
    conversation: Conversation | str,
    *,
    schema: type[T] | AnswerType[T],
    tools: Sequence[ToolSpec] = (),
    options: Options | None = None,
    api_key: str | Secret | None = None,
    catalog: Catalog | None = None,
) -> Parsed[T]: ...
@overload
async def complete(
    model: str | Sequence[str],
    conversation: Conversation | str,
    *,
    schema: dict[str, Any],
    tools: Sequence[ToolSpec] = (),
    options: Options | None = None,
    api_key: str | Secret | None = None,
    catalog: Catalog | None = None,
) -> Parsed[Any]: ...
async def complete(
    model: str | Sequence[str],
    conversation: Conversation | str,
    *,
    schema: Any = None,
    tools: Sequence[ToolSpec] = (),
    options: Options | None = None,
    api_key: str | Secret | None = None,
    catalog: Catalog | None = None,
) -> Turn | Parsed[Any]:
    """The next answer as a whole Turn; with a `schema`, as a value of it and its turn. A client is made for this one answer,
    as with `stream`."""
    api_key = hide(api_key)
    async with Client(catalog, api_key=api_key) as client:
        if schema is None:
            return await client.complete(model, conversation, tools=tools, options=options)
        return await client.complete(model, conversation, schema=AnswerType[Any](schema), tools=tools, options=options)


async def stream_once(
    model: str | Sequence[str],
    conversation: Conversation | str,
    *,
    tools: Sequence[ToolSpec] = (),
    options: Options | None = None,
    api_key: str | Secret | None = None,
    catalog: Catalog | None = None,
) -> AsyncGenerator[list[Event], None]:
    """The batches of one answer, by a client that is closed with it."""
    api_key = hide(api_key)
    async with (
        Client(catalog, api_key=api_key) as client,
        aclosing(client.batches(model, conversation, tools=tools, options=options)) as batches,
    ):
        async for batch in batches:
            yield batch


def model_names(model: str | Sequence[str]) -> tuple[str, ...]:
    """One model, or a chain of them, as a chain."""
    check_model_first(model)
    names = (model,) if isinstance(model, str) else tuple(model)
    if not names:
        raise LocalError("no model was given: expected a name such as 'moonshot/kimi-k2.5', or several")
    return names


# Moonshot's international, Chinese and coding hosts each have keys of their own, and a key is easily taken for another's.
# host -> its address, and the provider that leads there
_SISTERS = {
    "api.moonshot.ai": "https://api.moonshot.ai/v1 (moonshot/…)",
    "api.moonshot.cn": "https://api.moonshot.cn/v1 (moonshot-cn/…)",
    "api.kimi.com": "https://api.kimi.com/coding/v1 (kimi-coding/…)",
}


_NO_TOOLS = late_pattern(
    r"(?:not|n't|no) support(?:ed)?(?: for)? (?:native )?(?:tools?|functions?)\b|(?:tools?|functions?)(?:[ _-]\w+)? (?:is|are) not "
    r"(?:supported|enabled)|enable-auto-tool-choice|tool-call-parser|no endpoints? found that support tool",
    re.I,
)


def explain(error: MidstreamError, target: Resolved, *, keyless: bool = False) -> None:
    """Add the provider's name to an error and, where one is known, what to try. `keyless`: no key was sent."""
    if isinstance(error, ProviderError):
        error.provider = error.provider or target.provider
        # A good key at the wrong one of Moonshot's addresses looks
        # exactly like a bad key (field-guide/kimi.md#errors).
        if isinstance(error, Unauthorized) and error.status == 401:
            error.message += _no_key_sent(target) if keyless else _other_hosts(target.endpoint.base_url)
        elif isinstance(error, MediaRefused):
            error.message += (
                f'. If this model reads none, say media = [] under [models."{target.name}"] in config.toml: '
                "a line of text is then sent instead"
            )
        elif (
            target.dialect.native_tools
            and isinstance(error, (BadRequest, NotFound))
            and _NO_TOOLS.search(error.message)
        ):
            error.message += (
                f'. If this model takes no tools, say tools = false under [models."{target.name}"] in config.toml: '
                "they then go over plain text"
            )


def _no_key_sent(target: Resolved) -> str:
    names = target.endpoint.key_env
    return f". No key was sent: {names[0]} is not set" if names and target.endpoint.auth != "none" else ""


def _other_hosts(base_url: str) -> str:
    host = urlsplit(base_url).hostname or ""
    if host not in _SISTERS:
        return ""
    sisters = [address for sister, address in _SISTERS.items() if sister != host]
    return f". Keys of {host} are not interchangeable with those of {' and '.join(sisters)}: use the host that issued the key"
