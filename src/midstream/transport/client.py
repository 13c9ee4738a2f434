"""One request until it is answered: attempts, waits, and the error to raise when none succeeds.

`answers` gives an answer as soon as its status and headers are good. Attempts end at the first byte of its body; after it
nothing is sent twice, unless the reader of the answer says so (`pause`). One failure that is not retried is raised
as it is; several are a RetriesExhausted that carries each; an error that no retry can fix is raised as it is, whenever it
comes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from ..core.blocks import Value
from ..core.errors import (
    ConnectFailed,
    LocalError,
    MidstreamError,
    ProviderError,
    RetriesExhausted,
    TruncatedStream,
)
from ..core.modules import late_module
from ..core.secret import Secret, SecretEnvironment, hidden_headers
from ..wires.provider_errors import provider_error
from .options import TransportOptions
from .response import HTTPResponse, RawResponse
from .retry import retry_after, retry_delay, worth_retrying
from .tap import Sender, Tap, TappedSender, everywhere
from .target import KnownTargets, OutgoingRequest, Target

if TYPE_CHECKING:
    import asyncio
    import random

    from . import connection_pool
    from .connection_pool import ConnectionPool
else:
    # The event loop, TLS and llhttp: nothing needs them before the first request.
    asyncio = late_module("asyncio", globals())
    random = late_module("random", globals())
    connection_pool = late_module(".connection_pool", globals())

ErrorReader: TypeAlias = Callable[[int, Mapping[str, str], bytes], ProviderError]
"""(status, headers, body) -> the typed error they tell of."""

# Only 307 and 308 promise that the method and the body stay (RFC 9110 §15.4). The others turn a POST into a
# GET in most clients, which no model host means; they are reported, never followed.
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_KEEPING_METHOD = frozenset((307, 308))


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


def _random() -> float:
    return random.random()


def error_from_response(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    return provider_error(status, body, headers=headers)


FailedAttempt: TypeAlias = Callable[[int, BaseException, float], None]
"""Called with each attempt that failed or was left: the status that came (0 for none), the error, and how many seconds it took."""


class _Failure(Value, frozen=True):
    """An attempt's error, with the headers that say whether to try again."""

    error: MidstreamError
    headers: Mapping[str, str]
    status: int = 0


class Call:
    """One answer with all the requests that are made for it. When it began and must end: by the clock that tests may replace,
    and by the event loop's. `attempts` are the errors of those that failed: the reader of an answer adds its own (`pause`), so that
    one count holds for all."""

    __slots__ = ("attempts", "began", "ends", "failed", "options")

    def __init__(
        self,
        began: float,
        ends: float,
        options: TransportOptions,
        failed: FailedAttempt | None,
        attempts: list[MidstreamError] | None,
    ) -> None:
        self.began = began
        self.ends = ends
        self.options = options
        self.failed = failed
        self.attempts: list[MidstreamError] = [] if attempts is None else attempts

    def fail(self, status: int, error: BaseException, began: float) -> None:
        if self.failed is not None:
            self.failed(status, error, time.monotonic() - began)


class Transport:
    """An HTTP client for one event loop. Connections are kept for the next turn until `aclose`."""

    def __init__(
        self,
        options: TransportOptions | None = None,
        *,
        error_from_response: ErrorReader = error_from_response,
        environ: Mapping[str, str] | None = None,
        tap: Tap | None = None,
        sleep: Callable[[float], Awaitable[None]] = _sleep,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        rng: Callable[[], float] = _random,
    ) -> None:
        self.options = options or TransportOptions()
        self._error_from_response = error_from_response
        self._environ = SecretEnvironment(os.environ if environ is None else environ)
        self._sleep = sleep
        self._clock = clock
        self._now = now
        self._rng = rng
        self._targets = KnownTargets()
        self._pool: ConnectionPool | None = None
        self._closed = False
        self.tap = tap
        """Receives every exchange."""

    async def open(
        self,
        request: OutgoingRequest,
        base_url: str,
        auth_headers: Mapping[str, str | Secret] | None = None,
        *,
        call: Call | None = None,
    ) -> HTTPResponse:
        """Send the request, again if need be, and wait for the first byte of a good answer."""
        auth_headers = hidden = hidden_headers(auth_headers)  # rebound too: the locals of a frame may be shown
        target = self._targets.prepare(request, base_url, hidden, plain=self._listened)
        pool = self._ready()
        call = call or self.call()
        while True:
            start, began = pool.loop.time(), time.monotonic()
            # One limit over sending, headers and first byte: a host that thinks for minutes sends its
            # headers late or its first byte late, and the user set one limit for both.
            limit = min(call.options.first_byte, call.ends - start)
            outcome = await self._ask(pool, target, call, start + limit, limit)
            if isinstance(outcome, HTTPResponse):
                failure = await self._begun(outcome, target, call)
                if failure is None:
                    return outcome
                outcome = failure
            await self._before_the_next(outcome, call, began)

    def answers(
        self,
        request: OutgoingRequest,
        base_url: str,
        auth_headers: Mapping[str, str | Secret] | None = None,
        *,
        call: Call | None = None,
    ) -> Answers:
        """Send the request, again if need be: each answer whose status and headers are good, as soon as they have come."""
        auth_headers = hidden = hidden_headers(auth_headers)
        target = self._targets.prepare(request, base_url, hidden, plain=self._listened)
        pool = self._ready()
        return Answers(self, pool, target, call or self.call())

    def call(
        self,
        options: TransportOptions | None = None,
        failed: FailedAttempt | None = None,
        attempts: list[MidstreamError] | None = None,
    ) -> Call:
        """The count and the limits of one answer, for every request that is made for it. `options` are for this answer alone;
        `attempts` are the failures that count already."""
        options = options or self.options
        # Two clocks. Budgets of waits are counted by the clock that was handed in, so that tests need not
        # wait; timeouts of asyncio know only the loop's time.
        return Call(self._clock(), self._ready().loop.time() + options.total, options, failed, attempts)

    async def pause(self, call: Call, failure: MidstreamError) -> bool:
        """Wait before an answer that broke off at once is requested again, as the policy says; False if it is not to be."""
        call.attempts.append(failure)
        delay = self._delay(call, failure, {})
        if delay is None:
            return False
        await self._wait(delay)
        return True

    async def aclose(self) -> None:
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.aclose()

    async def __aenter__(self) -> Transport:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _wait(self, delay: float) -> None:
        if everywhere.source is None or not everywhere.source.instant:
            await self._sleep(delay)

    @property
    def _listened(self) -> bool:
        return self.tap is not None or everywhere.tap is not None

    def _ready(self) -> ConnectionPool:
        if self._closed:
            raise LocalError("the transport is closed; create a new one")
        if self._pool is None:
            self._pool = connection_pool.ConnectionPool(self.options, self._environ)
        # A socket belongs to the loop that opened it. Used from another
        # it hangs without an error, so this is refused by name.
        elif self._pool.loop is not asyncio.get_running_loop():
            raise LocalError("the transport belongs to another event loop; create one Transport per loop")
        return self._pool

    def _delay(self, call: Call, failure: MidstreamError, headers: Mapping[str, str]) -> float | None:
        """The wait before the next attempt; None when the retries, the budget or the time are used up."""
        policy = call.options.retry
        asked = getattr(failure, "retry_after", None)
        # Some hosts name the wait in the body or in an event; put where `retry_delay` looks, so that one rule judges all.
        if asked is not None:
            headers = {"retry-after": str(asked)}
        delay = retry_delay(len(call.attempts) - 1, headers, self._now(), self._rng, policy)
        # Better to raise now than to sleep first and then find that the time is up.
        if delay is None or self._clock() + delay > call.began + min(policy.budget, call.options.total):
            return None
        return delay

    async def _before_the_next(self, failure: _Failure, call: Call, began: float) -> None:
        """Wait until the next attempt may begin; where there is to be none, raise what the attempts came to."""
        call.fail(failure.status, failure.error, began)
        call.attempts.append(failure.error)
        hopeful = worth_retrying(failure.error, failure.headers)
        delay = self._delay(call, failure.error, failure.headers) if hopeful else None
        if delay is None:
            raise _verdict(call.attempts, hopeful)
        await self._wait(delay)

    async def _ask(
        self, pool: ConnectionPool, target: Target, call: Call, due: float, limit: float
    ) -> HTTPResponse | _Failure:
        """Send, follow what may be followed, and wait for a status and headers."""
        listened = self.tap is not None or everywhere.tap is not None or everywhere.source is not None
        sender = TappedSender(pool, self.tap) if listened else pool
        began = time.monotonic()
        try:
            response: RawResponse = await sender.send(target, due, limit)
            if response.status in _KEEPING_METHOD and call.options.max_redirects:
                # The target moves by a redirect within its origin;
                # messages name where the answer truly came from.
                response, target = await self._follow(sender, response, target, due, limit)
            answer = HTTPResponse(response, call.options, call.ends, tuple(call.attempts), target.secrets, began, due)
            if 200 <= answer.status < 300:
                return answer
            body = await self._error_body(answer)
        except MidstreamError as error:
            return _Failure(error, {})
        except BaseException as error:  # the caller left
            call.fail(0, error, began)
            raise
        headers = target.secrets.scrub_headers(answer.headers)
        return _Failure(self._refusal(answer, target, body), headers, answer.status)

    async def _begun(self, answer: HTTPResponse, target: Target, call: Call) -> _Failure | None:
        """Wait for the first byte."""
        try:
            await answer.begin()
        # Nothing of the body was seen, so this is a connection that failed and is worth another attempt; a
        # cut later is not, because text may already have been shown and would be paid for twice.
        except TruncatedStream:
            why = f"{target.where} closed the connection before the first byte of its answer"
            return _Failure(ConnectFailed(why), {}, answer.status)
        except MidstreamError as error:
            return _Failure(error, {}, answer.status)
        except BaseException as error:
            call.fail(answer.status, error, answer.began)
            raise
        return None

    async def _follow(
        self, sender: Sender, response: RawResponse, target: Target, due: float, limit: float
    ) -> tuple[RawResponse, Target]:
        """Send it again where a redirect within the origin leads, as often as the options allow."""
        for _ in range(self.options.max_redirects):
            # `moved` refuses another origin: the key is in the headers, and it would go along.
            place = target.moved(response.headers.get("location", "")) if response.status in _KEEPING_METHOD else None
            if place is None:
                break
            response.close()
            target = place
            response = await sender.send(target, due, limit)
        return response, target

    async def _error_body(self, answer: HTTPResponse) -> bytes:
        """As much of an error's body as arrives in time and fits; the status alone is enough without it."""
        parts: list[bytes] = []
        room = self.options.max_error_body
        try:
            # A peer that refuses and then dawdles must not hold up the error: its status already says enough.
            async with asyncio.timeout(self.options.error_body), answer:
                while room > 0 and (data := await answer.chunk()):
                    parts.append(data[:room])
                    room -= len(data)
        except (TimeoutError, MidstreamError):
            pass
        return b"".join(parts)

    def _refusal(self, answer: HTTPResponse, target: Target, body: bytes) -> ProviderError:
        """The typed error of a response that is not a success."""
        # The Location is not quoted: it may repeat a key from the query.
        if answer.status in _REDIRECTS:
            return ProviderError(
                f"{target.where} redirects to another place, and redirects are not followed with a key; "
                "set the base URL to where it leads",
                status=answer.status,
            )
        headers = target.secrets.scrub_headers(answer.headers)
        # Before it is read, for the reader may cut it; and after, for it may put together what was apart.
        error = self._error_from_response(answer.status, headers, target.secrets.scrub(body))
        error = target.secrets.scrub_error(error)
        # The reader of the body knows the waits that some wires write
        # into it; the header fills in only where it found none.
        asked = retry_after(headers, self._now())
        if error.retry_after is None and asked is not None and asked >= 0:
            error.retry_after = asked
        return error


class Answers:
    """The answers to one request. Close it wherever it is left: an answer that nobody has begun to read is closed with it."""

    # Not an async generator: the loop keeps a list of those, and closing one
    # is another coroutine, which together cost as much as sending the request.
    __slots__ = ("_answer", "_call", "_due", "_pool", "_target", "_told", "_transport")

    def __init__(self, transport: Transport, pool: ConnectionPool, target: Target, call: Call) -> None:
        self._transport = transport
        self._pool = pool
        self._target = target
        self._call = call
        self._answer: HTTPResponse | None = None
        self._due = self._told = 0.0

    async def next(self) -> HTTPResponse | None:
        """The next answer that was accepted, after waiting for the first byte of the one before: None says that this byte has
        come, and that the answer before is to be read. If it does not come, the request is sent again where that may help."""
        transport, loop_time, call = self._transport, self._pool.loop.time, self._call
        answer, self._answer = self._answer, None
        if answer is not None:
            # What the caller took is given back to the host.
            answer.first_byte_by(self._due + loop_time() - self._told)
            failure = await transport._begun(answer, self._target, call)
            if failure is None:
                return None
            await transport._before_the_next(failure, call, answer.began)
        while True:
            start, began = loop_time(), time.monotonic()
            limit = min(call.options.first_byte, call.ends - start)
            self._due = start + limit
            outcome = await transport._ask(self._pool, self._target, call, self._due, limit)
            if isinstance(outcome, HTTPResponse):
                # The caller may look at the answer for as long as it likes;
                # that time is not the host's, and the limit moves by it.
                self._told = loop_time()
                outcome.first_byte_by(inf)
                self._answer = outcome
                return outcome
            await transport._before_the_next(outcome, call, began)

    def close(self) -> None:
        # Nobody else has this answer, and its connection would stay open.
        if self._answer is not None:
            self._answer.close()


def _verdict(attempts: list[MidstreamError], hopeful: bool) -> MidstreamError:
    """The error to raise for failed attempts: the only one, or all of them where another attempt might have helped."""
    last = attempts[-1]
    if len(attempts) == 1:
        return last
    # The retries ran out although another might have helped: the caller needs all errors to judge. Otherwise the last
    # one is final by itself (a wrong key, say), and hiding it in RetriesExhausted would hide what to do.
    if hopeful:
        verdict = RetriesExhausted(f"{len(attempts)} attempts failed; the last: {last}", list(attempts))
        verdict.__cause__ = last
        return verdict
    last.__cause__ = attempts[-2]
    return last
