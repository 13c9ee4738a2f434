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
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from ..codec import check_model_first, encode_request, mint_turn_key
from ..core.blocks import Conversation, Turn, human
from ..core.dialect import Endpoint, Options
from ..core.errors import (
    KINDS,
    BadRequest,
    ContextTooLong,
    LocalError,
    MediaRefused,
    MidstreamError,
    MissingKey,
    NotFound,
    ProviderError,
    RetriesExhausted,
    SchemaMismatch,
    TruncatedStream,
    Unauthorized,
    UnknownModel,
)
from ..core.events import Done, ErrorEvent, ErrorInfo, Event, Start
from ..core.modules import late_module
from ..core.patterns import late_pattern
from ..core.secret import Secret, SecretHeaders, hide
from ..core.tools import ToolSpec
from ..dialects.registry import Resolved
from ..telemetry import current_telemetry
from ..transport import EventReader, HTTPResponse, Transport, TransportOptions
from ..transport.client import Call
from ..transport.tap import Tap, everywhere
from ..transport.target import warn_of_clear_text
from ..wires.history_cache import HistoryCache
from ..wires.request import Request
from ..wires.request_stencil import RequestStencils
from .access import Access, home_of
from .attempts import Attempt, Report, Reporter, Sending, Tries
from .breaker import Admission, Breaker, host_of
from .catalog import Catalog
from .reply import Reply

if TYPE_CHECKING:
    from ..telemetry.telemetry import Inference, Telemetry
    from ..transport.client import Answers
    from . import answer_type
    from .answer_type import AnswerType, Parsed
else:
    # Most answers are plain text.
    answer_type = late_module(".answer_type", globals())

T = TypeVar("T")
_JOINED = 64  # endpoints whose headers are remembered together with those of their key


class Client:
    """Talks to models. Connections, encoded histories and the circuit breaker live as long as the client.

    `catalog` resolves names and finds keys: by default the user's configuration and the environment. `api_key` is used instead
    of what the catalog finds, and `base_url` instead of the address, for the provider of the first model that a request names: the
    others of a chain have keys and addresses of their own. To `base_url` goes `api_key` or no key. `remember=False` keeps no encoded histories, only what short requests have in
    common: for a caller such as a server, to whom each conversation is new. `recorder` receives every exchange: a
    `midstream.recording.Recorder` saves each one in a file. `breaker` decides when a chain passes over a host that keeps failing: by
    default the client has a `Breaker()` of its own; None is for none. `telemetry` takes spans and metrics: by default it is the program's
    OpenTelemetry SDK, if one is set up; False turns it off.
    """

    def __init__(
        self,
        catalog: Catalog | None = None,
        *,
        transport: TransportOptions | Transport | None = None,
        api_key: str | Secret | None = None,
        base_url: str | None = None,
        breaker: Breaker | Literal["own"] | None = "own",
        remember: bool = True,
        recorder: Tap | None = None,
        telemetry: Telemetry | Literal[False] | None = None,
    ) -> None:
        self.catalog = catalog or Catalog()
        if transport is None:
            transport = self.catalog.transport_options()
        # A Transport may be shared by several clients; it is closed with this one all the same.
        self._transport = transport if isinstance(transport, Transport) else Transport(transport)
        self._waits: dict[tuple[float | None, ...], TransportOptions] = {}
        if recorder is not None:
            self._transport.tap = recorder
        api_key = hide(api_key)
        self.access = Access.given(api_key, base_url)
        self._breaker = Breaker() if breaker == "own" else breaker
        self._history = HistoryCache() if remember else None
        self._telemetry = telemetry
        self._stencils = None if remember else RequestStencils()
        self._joined: dict[int, tuple[Endpoint, SecretHeaders, SecretHeaders]] = {}

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
        target, stencils = self._target(model), self._stencils
        if stencils is None or isinstance(conversation, str):
            return encode_request(target, conversation, tools=tools, options=options, cache=self._history)

        def encode(anew: Conversation) -> Request:
            return encode_request(target, anew, tools=tools, options=options, cache=None)

        return stencils.encode(target.dialect, target.model, conversation, tools, options or Options(), encode)

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

    def batches(
        self,
        model: str | Sequence[str],
        conversation: Conversation | str,
        *,
        tools: Sequence[ToolSpec] = (),
        options: Options | None = None,
        turn_key: str | None = None,
        api_key: Secret | None = None,
        sending: Sending | None = None,
        access: Access | None = None,
        tries: Tries | None = None,
    ) -> AsyncGenerator[list[Event], None]:
        """The events of `stream` in the batches in which they arrived: lower overhead per event.

        `api_key` is this request's own, or `access` if it has an address of its own, too; `sending` is called with every model that
        is asked, and what it is sent, and what it returns with every attempt that is over. A caller who may request the answer once
        more counts its `tries` with ours.
        """
        tries = tries or Tries()
        access = access or Access.given(api_key, None, is_shared=False)
        telemetry = self.telemetry
        # Without telemetry there is no generator more on the way of each event.
        if telemetry is None:
            return self._batches(model, conversation, tools, options, turn_key, access, sending, tries)
        return self._traced(
            telemetry, model, conversation, tools, options or Options(), turn_key, access, sending, tries
        )

    @property
    def telemetry(self) -> Telemetry | None:
        """The telemetry for an answer that is requested now; None if it is off."""
        return (self._telemetry or None) if self._telemetry is not None else current_telemetry()

    async def _traced(
        self,
        telemetry: Telemetry,
        model: str | Sequence[str],
        conversation: Conversation | str,
        tools: Sequence[ToolSpec],
        options: Options,
        turn_key: str | None,
        access: Access | None,
        sending: Sending | None,
        tries: Tries,
    ) -> AsyncGenerator[list[Event], None]:
        """The same batches, inside a span."""
        span = self._span(telemetry, model, conversation, options, access)
        told = _telling(span, sending)
        try:
            inner = self._batches(model, conversation, tools, options, turn_key, access, told, tries)
            async with aclosing(inner) as batches:
                async for batch in batches:
                    span.batch(batch)
                    yield batch
        except BaseException as error:  # also a caller who leaves: the span has an end in any case
            span.failed(error)
            raise

    def _span(
        self,
        telemetry: Telemetry,
        model: str | Sequence[str],
        conversation: Conversation | str,
        options: Options,
        access: Access | None,
    ) -> Inference:
        name = model_names(model)[0]
        try:
            target = self.catalog.resolve(name)
        except UnknownModel:
            target = None
        if telemetry.contents:
            own = [each.api_key for each in (access, self.access) if each is not None and each.api_key is not None]
            telemetry.learn([*self.catalog.keys_at_hand().values(), *own])
        if isinstance(conversation, str):
            conversation = Conversation((human(conversation),))
        return telemetry.answer(target, name, conversation, options)

    async def _batches(
        self,
        model: str | Sequence[str],
        conversation: Conversation | str,
        tools: Sequence[ToolSpec],
        options: Options | None,
        turn_key: str | None,
        access: Access | None,
        sending: Sending | None,
        tries: Tries,
    ) -> AsyncGenerator[list[Event], None]:
        options = options or Options()
        turn_key = turn_key or mint_turn_key()
        names = model_names(model)
        failures: list[MidstreamError] = []
        # Three nested tries, from the outside in: the models of the chain, the attempts with one model, and
        # (in the transport) the attempts until a first byte. The last two share one count (`call`). Everything ends at the first
        # block of an answer: what was shown cannot be taken back, and another model cannot go on from it.
        started = False
        for number, name in enumerate(names, 1):
            # Each model of a chain is encoded for itself: ids, reasoning and tools differ from one to the next.
            sent = self._prepare(name, names[0], conversation, tools, options, access, has_next=number < len(names))
            target = sent.target
            reporter = _reporter(sending, sent)
            call: Call | None = None
            while True:
                failed: ErrorEvent | None = None
                try:
                    began = time.monotonic()
                    if call is None:
                        call = self._call(sent, reporter, tries)
                    answers = _Answers(self, sent, reporter, call)
                    try:
                        while (accepted := await answers.next()) is not None:
                            answer = accepted
                            # One `start` for the reader, however many hosts accept and then fail.
                            if not started:
                                started = True
                                yield [Start(turn_key, target.model)]
                    finally:
                        answers.close()
                    # One generator for the whole way up: each one more is paid at every chunk of a live stream.
                    reader = EventReader(answer, sent.request.decoder(turn_key))
                    ended = False
                    came = 0.0
                    try:
                        while not ended:
                            batch = await reader.batch()
                            ended = reader.ended
                            if type(batch[0]) is Start:
                                del batch[0]  # told when the host accepted the request
                            if batch and not came:
                                came = time.monotonic()
                            if ended:
                                # Only a failure without any block comes back
                                # here; every other end is already in the batch.
                                if reporter is not None:
                                    reporter.ended(answer, _failure_of(batch[-1]))
                                failed = _settle(batch, began, came)
                                if failed is None and isinstance(last := batch[-1], ErrorEvent):
                                    call.attempts.append(last.error.to_exception())
                            if batch:
                                yield batch
                    finally:
                        reader.close()
                        if not ended and reporter is not None:
                            reporter.left(answer)
                    if failed is None:
                        return
                    failure = failed.to_exception()
                except MidstreamError as error:  # the transport has tried as often as it may
                    failure = error
                    break
                if not _breaks_off(failure):
                    call.attempts.append(failure)
                    break
                if not await self._transport.pause(call, failure):
                    break
            failures.append(failure)
            if not _moves_on(failure):
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
        sending: Sending | None = None,
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
        sending: Sending | None = None,
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
        sending: Sending | None = None,
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
        sending: Sending | None = None,
    ) -> Turn | Parsed[Any]:
        """The next answer as a whole Turn. An error of the provider is raised; an empty or cut answer has `failure` set.

        With a `schema` (as `Session.send` takes it) it is the value and its turn, asked for once more if it does not follow
        the schema; then SchemaMismatch is raised.
        """
        access = Access.given(api_key, None, is_shared=False)
        if schema is None:
            return await self._complete(model, conversation, tools, options, turn_key, access, sending)
        if isinstance(conversation, str):
            conversation = Conversation((human(conversation),))
        answer: AnswerType[Any] = answer_type.AnswerType.of(schema)
        options = replace(options or Options(), schema=answer.schema)
        turn = await self._complete(model, conversation, tools, options, turn_key, access, sending)
        try:
            return answer_type.Parsed(answer.last_word(turn), turn)
        except SchemaMismatch as error:
            if turn.stop_reason in answer_type.CUT:
                raise
            rejected = replace(turn, failure=error.kind)
            conversation = conversation.add(*answer.reproach(turn, error))
        # A new key for the turn: the rejected one keeps the first.
        turn = await self._complete(model, conversation, tools, options, None, access, sending)
        return answer_type.Parsed(answer.last_word(turn), turn, rejected)

    def _complete(
        self,
        model: str | Sequence[str],
        conversation: Conversation | str,
        tools: Sequence[ToolSpec],
        options: Options | None,
        turn_key: str | None,
        access: Access | None,
        sending: Sending | None,
    ) -> Coroutine[Any, Any, Turn]:
        whole = options or Options()
        if whole.stream:
            whole = replace(whole, stream=False)
        telemetry = self.telemetry
        # Without telemetry there is no coroutine more on the way of each answer.
        if telemetry is None:
            return self._whole(model, conversation, tools, whole, turn_key, access, sending)
        span = self._span(telemetry, model, conversation, whole, access)
        return _spanned(span, self._whole(model, conversation, tools, whole, turn_key, access, _telling(span, sending)))

    async def _whole(
        self,
        model: str | Sequence[str],
        conversation: Conversation | str,
        tools: Sequence[ToolSpec],
        whole: Options,
        turn_key: str | None,
        access: Access | None,
        sending: Sending | None,
    ) -> Turn:
        """The answer of the first model that gives one: until it is whole, nothing of it was shown, so the next may be asked."""
        names = model_names(model)
        turn_key = turn_key or mint_turn_key()
        failures: list[MidstreamError] = []
        for number, name in enumerate(names, 1):
            sent = self._prepare(name, names[0], conversation, tools, whole, access, has_next=number < len(names))
            reporter = _reporter(sending, sent)
            call: Call | None = None
            while True:
                began = time.monotonic()
                try:
                    if call is None:
                        call = self._call(sent, reporter)
                    answer = await self._open(sent, reporter, call)
                except MidstreamError as error:  # the transport has tried as often as it may
                    failure = error
                    break
                try:
                    turn = await _read_whole(sent, answer, turn_key, reporter)
                except MidstreamError as error:
                    failure = error
                else:
                    turn = replace(turn, latency_ms=(time.monotonic() - began) * 1000, answered_at=time.time())
                    kind = KINDS.get(turn.failure)
                    if number == len(names) or turn.blocks or kind is None or not kind.retryable:
                        return turn
                    failure = kind.restore(f"{name} gave no answer ({turn.failure})")
                    break
                # The same model only after an error in so many words: an answer that broke off may have been paid for.
                error_told = isinstance(failure, ProviderError) and failure.retryable
                if not error_told or not await self._transport.pause(call, failure):
                    break
            failures.append(failure)
            if not _moves_on(failure):
                break
        raise _verdict(names, failures)

    async def send(
        self,
        model: str | Resolved,
        request: Request,
        *,
        api_key: Secret | None = None,
        options: Options | None = None,
        reporter: Reporter | None = None,
    ) -> HTTPResponse:
        """Send a request that the caller made, with the host's headers and key. The answer is the caller's to read or close. Of the
        options, only how long to wait counts; `reporter` is told of the attempts that failed."""
        target, access = self._target(model), Access.given(api_key, None, is_shared=False)
        return await self._open(self._addressed_to(target, target, request, access, self._waits_of(options)), reporter)

    def target(self, model: str, access: Access | None = None) -> Resolved:
        """The model at the address where a request that names it first goes."""
        target = self._target(model)
        access = access or self.access
        return access.reach(target) if access is not None and access.is_for(target, home_of(target)) else target

    def _target(self, model: str | Resolved) -> Resolved:
        return self.catalog.resolve(model) if isinstance(model, str) else model

    def _prepare(
        self,
        name: str,
        first: str,
        conversation: Conversation | str,
        tools: Sequence[ToolSpec],
        options: Options | None,
        access: Access | None,
        *,
        has_next: bool,
    ) -> _Sent:
        """What one model of a chain is sent; `first` is the first of the chain."""
        target = self._target(name)
        request = self.encode(target, conversation, tools, options)
        first_target = target if name == first else self._target(first)
        return self._addressed_to(target, first_target, request, access, self._waits_of(options), has_next)

    def _addressed_to(
        self,
        target: Resolved,
        first: Resolved,
        request: Request,
        access: Access | None,
        waits: TransportOptions | None = None,
        has_next: bool = False,
    ) -> _Sent:
        """The request with the key and the address that were given, as far as they are for this target."""
        access = access or self.access
        if access is None:
            return _Sent(target, request, waits=waits, has_next=has_next)
        if not access.is_for(target, home_of(first)):
            other = (access.home or home_of(first))[0]
            return _Sent(target, request, other=other, waits=waits, has_next=has_next)
        keyless = bool(access.base_url) and access.api_key is None
        reached, key = access.reach(target), access.api_key
        return _Sent(reached, request, key, access.is_shared, keyless, waits=waits, has_next=has_next)

    def _waits_of(self, options: Options | None) -> TransportOptions | None:
        """The transport's options with the waits of this request; None if it has none of its own."""
        if options is None or (options.first_byte is None and options.idle is None and options.total is None):
            return None
        waits = options.first_byte, options.idle, options.total
        known = self._waits.get(waits)
        if known is None:
            if len(self._waits) >= _JOINED:
                self._waits.clear()
            known = self._waits[waits] = self._transport.options.with_waits(*waits)
        return known

    def _call(self, sent: _Sent, reporter: Reporter | None, tries: Tries | None = None) -> Call:
        """The one count of all requests that are made for an answer of one model."""
        failed = None if reporter is None else reporter.failed
        call = self._transport.call(sent.waits, failed, None if tries is None else tries.of(sent.target.name))
        if tries is not None:
            tries.limit = call.options.retry.max_retries
        return call

    async def _open(self, sent: _Sent, reporter: Reporter | None = None, call: Call | None = None) -> HTTPResponse:
        """Send the request as `_Answers` does, and wait for the first byte of the answer that is to be read."""
        target = sent.target
        call = call or self._call(sent, reporter)
        secret, admission = await self._admitted(sent, reporter)
        renewals = 0
        try:
            while True:
                request, headers = self._addressed(sent, secret)
                try:
                    answer = await self._transport.open(request, target.endpoint.base_url, headers, call=call)
                    break
                except Unauthorized as error:
                    renewals += 1
                    secret = await self._renewed(sent, secret, error, renewals)
                    call.attempts.pop()  # a key that has run out is no failed try
            if admission is not None:
                admission.succeeded()
        except MidstreamError as error:
            if admission is not None and sent.shared_key:
                admission.judge(error)
            explain(error, target, keyless=not secret, moved=sent.keyless)
            raise
        finally:  # also when the caller leaves
            if admission is not None:
                admission.leave()
        return answer

    async def _admitted(self, sent: _Sent, reporter: Reporter | None) -> tuple[SecretHeaders, Admission | None]:
        """The headers of the key, where one is found and the breaker of the host lets the request pass."""
        try:
            # Before the breaker is asked: a missing key is the caller's to fix, and says nothing about the host.
            secret = self._key_at_hand(sent) or await self._authorized(sent)
            if self._breaker is None:
                return secret, None
            return secret, self._breaker.admit(host_of(sent.target.endpoint.base_url), has_next=sent.has_next)
        except MidstreamError as error:
            if reporter is not None:
                reporter.failed(0, error, 0.0)
            raise

    def _key_at_hand(self, sent: _Sent) -> SecretHeaders | None:
        return self.catalog.headers_at_hand(sent.target) if sent.api_key is None and not sent.keyless else None

    async def _authorized(self, sent: _Sent) -> SecretHeaders:
        if sent.keyless:
            return SecretHeaders()
        try:
            return await self.catalog.authorize(sent.target, sent.api_key)
        except MissingKey:
            # A replay asks nobody, and a machine that only runs tests has no keys.
            if everywhere.source is not None and everywhere.source.offline:
                return SecretHeaders()
            if sent.other:
                # The same error, with advice that is true where the key that was given is another provider's.
                advice = f"ask it with a Client or Session of its own: what was given here is for {sent.other}"
                self.catalog.check_key(sent.target, otherwise=advice)
            raise

    def _addressed(self, sent: _Sent, secret: SecretHeaders) -> tuple[Request, SecretHeaders]:
        """The request with its endpoint's path, and the headers of the endpoint and the key."""
        request, endpoint = sent.request, sent.target.endpoint
        if endpoint.query:
            request = replace(request, path=endpoint.at(request.path))
        headers = secret
        if endpoint.headers:
            # The same headers for the same key and endpoint: the transport goes on from what it knows.
            known = self._joined.get(id(endpoint))
            if known is None or known[0] is not endpoint or known[1] is not secret:
                if len(self._joined) >= _JOINED:
                    self._joined.clear()
                known = (endpoint, secret, SecretHeaders({**endpoint.headers, **secret}))
                self._joined[id(endpoint)] = known
            headers = known[2]
        warn_of_clear_text(endpoint.base_url, headers)
        return request, headers

    async def _renewed(self, sent: _Sent, refused: SecretHeaders, error: Unauthorized, renewals: int) -> SecretHeaders:
        """Headers with a new key, once, where a command prints them and has another; else the refusal stands."""
        # 403 is about what a key may do, and a key from a variable is the same at every look.
        if (
            sent.keyless
            or renewals > 1
            or error.status != 401
            or self.catalog.key_command(sent.target, sent.api_key) is None
        ):
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
    """Whether the key is everybody's: see `Access.is_shared`."""
    keyless: bool = False
    """Whether it goes to an address that the program gave without a key."""
    other: str = ""
    """The provider that the program's own key is for, where that is another one."""
    waits: TransportOptions | None = None
    """How long to wait for this one, where that is not as for every request."""
    has_next: bool = False
    """Whether there is another model to go to."""


def _reporter(sending: Sending | None, sent: _Sent) -> Reporter | None:
    """Say what is sent now; the reporter of its attempts, if they are asked for."""
    report = None if sending is None else sending(sent.target, sent.request)
    return None if report is None else Reporter(sent.target, report)


class _Answers:
    """Sends the request with the host's headers and key, unless the host's breaker is open.

    The answers of Transport.answers: each as soon as the host has accepted the request, the last one to be read.
    """

    __slots__ = (
        "_accepted",
        "_admission",
        "_answers",
        "_call",
        "_client",
        "_renewals",
        "_reporter",
        "_secret",
        "_sent",
    )

    def __init__(self, client: Client, sent: _Sent, reporter: Reporter | None, call: Call) -> None:
        self._client = client
        self._sent = sent
        self._reporter = reporter
        self._accepted: HTTPResponse | None = None
        self._call = call
        self._admission: Admission | None = None
        self._secret = SecretHeaders()
        self._renewals = 0
        self._answers: Answers | None = None

    async def next(self) -> HTTPResponse | None:
        client, sent, reporter = self._client, self._sent, self._reporter
        if self._answers is None:
            self._secret, self._admission = await client._admitted(sent, reporter)
        self._accepted = None  # from here on the transport reports how it ends
        try:
            while True:
                try:
                    answers = self._answers
                    if answers is None:
                        request, headers = client._addressed(sent, self._secret)
                        base_url = sent.target.endpoint.base_url
                        answers = self._answers = client._transport.answers(request, base_url, headers, call=self._call)
                    answer = await answers.next()
                    break
                # Once more with a new key, if a key that a command printed is refused.
                except Unauthorized as error:
                    self._renewals += 1
                    self._secret = await client._renewed(sent, self._secret, error, self._renewals)
                    self._call.attempts.pop()  # a key that has run out is no failed try
                    self._answers = None
        except MidstreamError as error:
            if self._admission is not None and sent.shared_key:
                self._admission.judge(error)
            explain(error, sent.target, keyless=not self._secret, moved=sent.keyless)
            raise
        if answer is None and self._admission is not None:
            self._admission.succeeded()
        self._accepted = answer
        return answer

    def close(self) -> None:
        if self._admission is not None:
            self._admission.leave()
        if self._accepted is not None and self._reporter is not None:
            self._reporter.left(self._accepted)
        if self._answers is not None:
            self._answers.close()


async def _read_whole(sent: _Sent, answer: HTTPResponse, turn_key: str, reporter: Reporter | None) -> Turn:
    try:
        body = await answer.read()
    except BaseException as error:  # also a caller who leaves
        if reporter is not None:
            reporter.failed(answer.status, error, time.monotonic() - answer.began)
        raise
    finally:
        answer.close()
    try:
        turn = sent.request.read_answer(body, turn_key, sent.target.provider)
        if reporter is not None:
            reporter.ended(answer, turn.failure)
        return turn
    except MidstreamError as error:
        failure = answer.secrets.scrub_error(error)
        if reporter is not None:
            reporter.ended(answer, failure.kind)
    del body  # it may echo the key, and the locals of a frame may be shown
    raise failure


async def _spanned(span: Inference, answer: Coroutine[Any, Any, Turn]) -> Turn:
    try:
        turn = await answer
    except BaseException as error:  # also a caller who leaves: the span has an end in any case
        span.failed(error)
        raise
    span.done(turn)
    return turn


def _telling(span: Inference, sending: Sending | None) -> Sending:
    """Also tell the span which model is asked, and what became of each attempt."""

    def told(target: Resolved, request: Request) -> Report:
        span.sending(target)
        report = None if sending is None else sending(target, request)

        def attempted(attempt: Attempt) -> None:
            span.attempted(attempt.model, attempt.host, attempt.status, attempt.error, attempt.ms)
            if report is not None:
                report(attempt)

        return attempted

    return told


def _failure_of(event: Event) -> str:
    return event.error.kind if isinstance(event, ErrorEvent) else ""


def _settle(batch: list[Event], began: float, came: float) -> ErrorEvent | None:
    """Say in the last batch when the answer ended, how long it took, and when its first piece came. A failure before the first block is
    taken out of it."""
    last = batch[-1]
    assert isinstance(last, (Done, ErrorEvent))
    ttft_ms = (came - began) * 1000 if last.turn.blocks else None
    latency_ms = (time.monotonic() - began) * 1000
    last = replace(last, turn=replace(last.turn, latency_ms=latency_ms, ttft_ms=ttft_ms, answered_at=time.time()))
    if isinstance(last, ErrorEvent) and not last.turn.blocks:
        batch.clear()
        return last
    batch[-1] = last
    return None


def _verdict(names: Sequence[str], failures: Sequence[MidstreamError]) -> MidstreamError:
    """The error of a whole chain. The only one, or one that no other model could cure, is raised as it is."""
    last = failures[-1]
    if len(failures) == 1 or not _moves_on(last):
        return last
    # Not strict: the chain may have ended before its last name.
    told = "; ".join(f"{name}: {error}" for name, error in zip(names, failures, strict=False))
    return RetriesExhausted(f"none of the models could answer: {told}", failures)


def _moves_on(error: MidstreamError) -> bool:
    """Whether the next model of a chain may answer. Most of what no retry cures (a malformed history, say) no other model cures;
    a request above an account's rate limit, which is a 429, may be below another's."""
    return error.retryable or (isinstance(error, ContextTooLong) and error.status == 429)


def _breaks_off(error: MidstreamError) -> bool:
    """Whether an answer that ended so before its first block is worth asking the same model for again."""
    return isinstance(error, TruncatedStream) or (isinstance(error, ProviderError) and error.retryable)


def stream(
    model: str | Sequence[str],
    conversation: Conversation | str,
    *,
    tools: Sequence[ToolSpec] = (),
    options: Options | None = None,
    api_key: str | Secret | None = None,
    base_url: str | None = None,
    catalog: Catalog | None = None,
) -> Reply:
    """Stream the next answer: iterate the Reply for events, or await it for the Turn.

    A plain string is a conversation of one human turn. A client is made for this one answer; keep a Client or a Session to
    reuse connections and encoded histories.
    """
    return Reply(
        stream_once(
            model, conversation, tools=tools, options=options, api_key=api_key, base_url=base_url, catalog=catalog
        )
    )


@overload
async def complete(
    model: str | Sequence[str],
    conversation: Conversation | str,
    *,
    tools: Sequence[ToolSpec] = (),
    options: Options | None = None,
    api_key: str | Secret | None = None,
    base_url: str | None = None,
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
    base_url: str | None = None,
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
    base_url: str | None = None,
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
    base_url: str | None = None,
    catalog: Catalog | None = None,
) -> Turn | Parsed[Any]:
    """The next answer as a whole Turn; with a `schema`, as a value of it and its turn. A client is made for this one answer,
    as with `stream`."""
    api_key = hide(api_key)
    async with Client(catalog, api_key=api_key, base_url=base_url) as client:
        if schema is None:
            return await client.complete(model, conversation, tools=tools, options=options)
        return await client.complete(
            model, conversation, schema=answer_type.AnswerType[Any](schema), tools=tools, options=options
        )


async def stream_once(
    model: str | Sequence[str],
    conversation: Conversation | str,
    *,
    tools: Sequence[ToolSpec] = (),
    options: Options | None = None,
    api_key: str | Secret | None = None,
    base_url: str | None = None,
    catalog: Catalog | None = None,
) -> AsyncGenerator[list[Event], None]:
    """The batches of one answer, by a client that is closed with it."""
    api_key = hide(api_key)
    async with (
        Client(catalog, api_key=api_key, base_url=base_url) as client,
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


def explain(error: MidstreamError, target: Resolved, *, keyless: bool = False, moved: bool = False) -> None:
    """Add the provider's name to an error and, where one is known, what to try. `keyless`: no key was sent; `moved`: since it went
    to an address that the program gave without one."""
    if isinstance(error, ProviderError):
        error.provider = error.provider or target.provider
        # A good key at the wrong one of Moonshot's addresses looks
        # exactly like a bad key (field-guide/kimi.md#errors).
        if isinstance(error, Unauthorized) and error.status == 401:
            error.message += (
                _MOVED if moved else _no_key_sent(target) if keyless else _other_hosts(target.endpoint.base_url)
            )
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


_MOVED = ". No key was sent: to an address given as base_url goes only a key given as api_key"


def _no_key_sent(target: Resolved) -> str:
    names = target.endpoint.key_env
    return f". No key was sent: {names[0]} is not set" if names and target.endpoint.auth != "none" else ""


def _other_hosts(base_url: str) -> str:
    host = urlsplit(base_url).hostname or ""
    if host not in _SISTERS:
        return ""
    sisters = [address for sister, address in _SISTERS.items() if sister != host]
    return f". Keys of {host} are not interchangeable with those of {' and '.join(sisters)}: use the host that issued the key"
