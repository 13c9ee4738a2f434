"""One request until it is answered: attempts, waits, and the error to raise when none succeeds.

`answers` gives an answer as soon as its status and headers are good. Attempts end at the first byte of its body; after it
nothing is sent twice, unless the reader of the answer says so (`pause`). One failure that is not retried is raised
as it is; several are a RetriesExhausted that carries each; an error that no retry can fix is raised as it is, whenever it
comes.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import TypeAlias

from ..core.blocks import Value
from ..core.errors import (
    ConnectFailed,
    LocalError,
    MidstreamError,
    ProviderError,
    RetriesExhausted,
    TimedOut,
    TruncatedStream,
)
from ..core.secret import Secret, SecretEnvironment, SecretHeaders
from ..wires.provider_errors import provider_error
from .connection_pool import ConnectionPool
from .encoding import accept_encoding
from .options import TransportOptions
from .response import HTTPResponse, RawResponse
from .retry import retry_after, retry_delay, worth_retrying
from .target import OutgoingRequest, Target, prepare

ErrorReader: TypeAlias = Callable[[int, Mapping[str, str], bytes], ProviderError]
"""(status, headers, body) -> the typed error they tell of."""

# Only 307 and 308 promise that the method and the body stay (RFC 9110 §15.4). The others turn a POST into a
# GET in most clients, which no model host means; they are reported, never followed.
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_KEEPING_METHOD = frozenset((307, 308))


def error_from_response(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    return provider_error(status, body, headers=headers)


class _Failure(Value, frozen=True):
    """An attempt's error, with the headers that say whether to try again."""

    error: MidstreamError
    headers: Mapping[str, str]


class _Moments(Value, frozen=True):
    """When a call began and must end: by the clock that tests may replace, and by the event loop's."""

    began: float
    ends: float


class Transport:
    """An HTTP client for one event loop. Connections are kept for the next turn until `aclose`."""

    def __init__(
        self,
        options: TransportOptions | None = None,
        *,
        error_from_response: ErrorReader = error_from_response,
        environ: Mapping[str, str] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self.options = options or TransportOptions()
        self._error_from_response = error_from_response
        self._environ = SecretEnvironment(os.environ if environ is None else environ)
        self._sleep = sleep
        self._clock = clock
        self._now = now
        self._rng = rng
        self._pool: ConnectionPool | None = None
        self._closed = False

    async def open(
        self,
        request: OutgoingRequest,
        base_url: str,
        auth_headers: Mapping[str, str | Secret] | None = None,
    ) -> HTTPResponse:
        """Send the request, again if need be, and wait for the first byte of a good answer."""
        auth_headers = hidden = SecretHeaders(auth_headers)  # rebound too: the locals of a frame may be shown
        target = prepare(request, base_url, hidden, accept_encoding(request.stream))
        pool = self._ready()
        # Two clocks. Budgets of waits are counted by the clock that was handed in, so that tests need not
        # wait; timeouts of asyncio know only the loop's time.
        moments = _Moments(self._clock(), pool.loop.time() + self.options.total)
        attempts: list[MidstreamError] = []
        while True:
            start = pool.loop.time()
            limit = min(self.options.first_byte, moments.ends - start)
            try:
                # One timer over sending, headers and first byte: a host that thinks for minutes sends its
                # headers late or its first byte late, and the user set one limit for both.
                async with asyncio.timeout_at(start + limit):
                    outcome = await self._ask(pool, target, moments, tuple(attempts))
                    if isinstance(outcome, HTTPResponse):
                        failure = await self._begun(outcome, target)
                        if failure is None:
                            return outcome
                        outcome = failure
            except TimeoutError:
                outcome = _late(target, limit)
            await self._before_the_next(outcome, attempts, moments)

    async def answers(
        self,
        request: OutgoingRequest,
        base_url: str,
        auth_headers: Mapping[str, str | Secret] | None = None,
    ) -> AsyncGenerator[HTTPResponse, None]:
        """Each answer whose status and headers are good, as soon as they have come.

        Asking for the next waits for the first byte of this one: then the iterator ends, and this answer is to be read. If
        that byte does not come, the request is sent again where that may help, and another answer follows.
        """
        auth_headers = hidden = SecretHeaders(auth_headers)
        target = prepare(request, base_url, hidden, accept_encoding(request.stream))
        pool = self._ready()
        moments = _Moments(self._clock(), pool.loop.time() + self.options.total)
        attempts: list[MidstreamError] = []
        while True:
            start = pool.loop.time()
            limit = min(self.options.first_byte, moments.ends - start)
            outcome = await self._attempt(pool, target, moments, start + limit, limit, tuple(attempts))
            if isinstance(outcome, HTTPResponse):
                # The caller may look at the answer for as long as it likes;
                # that time is not the host's, and the limit moves by it.
                told = pool.loop.time()
                try:
                    yield outcome
                # The caller left without reading: nobody else has this answer, and its connection would stay open.
                except GeneratorExit:
                    outcome.close()
                    raise
                # What the caller took is given back to the host.
                ends = start + limit + pool.loop.time() - told
                failure = await self._first_byte(outcome, target, ends, limit)
                if failure is None:
                    return
                outcome = failure
            await self._before_the_next(outcome, attempts, moments)

    async def pause(self, attempt: int, spent: float, asked: float | None = None) -> bool:
        """Wait before an answer that broke off at once is asked for again, as the policy says; False if it is not to be.

        `attempt` counts from 0, `spent` is how long ago the first one began, `asked` the wait that the peer asks for.
        """
        # The wait was told inside the stream (an error event), not in a header; put where `retry_delay`
        # looks, so one rule judges both.
        headers = {} if asked is None else {"retry-after": str(asked)}
        delay = retry_delay(attempt, headers, self._now(), self._rng, self.options.retry)
        if delay is None or spent + delay > min(self.options.retry.budget, self.options.total):
            return False
        await self._sleep(delay)
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

    def _ready(self) -> ConnectionPool:
        if self._closed:
            raise LocalError("the transport is closed; create a new one")
        if self._pool is None:
            self._pool = ConnectionPool(self.options, self._environ)
        # A socket belongs to the loop that opened it. Used from another
        # it hangs without an error, so this is refused by name.
        elif self._pool.loop is not asyncio.get_running_loop():
            raise LocalError("the transport belongs to another event loop; create one Transport per loop")
        return self._pool

    def _delay(self, attempt: int, headers: Mapping[str, str], moments: _Moments) -> float | None:
        """The wait before the next attempt; None when the retries, the budget or the time are used up."""
        policy = self.options.retry
        delay = retry_delay(attempt, headers, self._now(), self._rng, policy)
        # Better to raise now than to sleep first and then find that the time is up.
        if delay is None or self._clock() + delay > moments.began + min(policy.budget, self.options.total):
            return None
        return delay

    async def _before_the_next(self, failure: _Failure, attempts: list[MidstreamError], moments: _Moments) -> None:
        """Wait until the next attempt may begin; where there is to be none, raise what the attempts came to."""
        attempts.append(failure.error)
        hopeful = worth_retrying(failure.error, failure.headers)
        delay = self._delay(len(attempts) - 1, failure.headers, moments) if hopeful else None
        if delay is None:
            raise _verdict(attempts, hopeful)
        await self._sleep(delay)

    async def _attempt(
        self,
        pool: ConnectionPool,
        target: Target,
        moments: _Moments,
        ends: float,
        limit: float,
        attempts: tuple[MidstreamError, ...],
    ) -> HTTPResponse | _Failure:
        try:
            async with asyncio.timeout_at(ends):
                return await self._ask(pool, target, moments, attempts)
        except TimeoutError:
            return _late(target, limit)

    async def _ask(
        self, pool: ConnectionPool, target: Target, moments: _Moments, attempts: tuple[MidstreamError, ...]
    ) -> HTTPResponse | _Failure:
        """Send, follow what may be followed, and wait for a status and headers."""
        try:
            # The target may have moved by a redirect within its
            # origin; messages name where the answer truly came from.
            response, target = await self._send(pool, target)
        except MidstreamError as error:
            return _Failure(error, {})
        answer = HTTPResponse(response, self.options, moments.ends, attempts, target.secrets)
        if not 200 <= answer.status < 300:
            body = await self._error_body(answer)
            return _Failure(self._refusal(answer, target, body), target.secrets.scrub_headers(answer.headers))
        return answer

    async def _first_byte(self, answer: HTTPResponse, target: Target, ends: float, limit: float) -> _Failure | None:
        try:
            async with asyncio.timeout_at(ends):
                return await self._begun(answer, target)
        except TimeoutError:
            return _late(target, limit)

    async def _begun(self, answer: HTTPResponse, target: Target) -> _Failure | None:
        """Wait for the first byte."""
        try:
            await answer.begin()
        # Nothing of the body was seen, so this is a connection that failed and is worth another attempt; a
        # cut later is not, because text may already have been shown and would be paid for twice.
        except TruncatedStream:
            return _Failure(
                ConnectFailed(f"{target.where} closed the connection before the first byte of its answer"), {}
            )
        except MidstreamError as error:
            return _Failure(error, {})
        return None

    async def _send(self, pool: ConnectionPool, target: Target) -> tuple[RawResponse, Target]:
        """Send it, and again where a redirect within the origin leads, as often as the options allow."""
        response = await pool.send(target)
        for _ in range(self.options.max_redirects):
            # `moved` refuses another origin: the key is in the headers, and it would go along.
            place = target.moved(response.headers.get("location", "")) if response.status in _KEEPING_METHOD else None
            if place is None:
                break
            response.close()
            target = place
            response = await pool.send(target)
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


def _late(target: Target, limit: float) -> _Failure:
    return _Failure(TimedOut(f"{target.where} did not begin to answer in the {limit:g} s allowed"), {})


def _verdict(attempts: list[MidstreamError], hopeful: bool) -> MidstreamError:
    """The error to raise for failed attempts: the only one, or all of them where another attempt might have helped."""
    last = attempts[-1]
    if len(attempts) == 1:
        return last
    # The retries ran out although another might have helped: the caller needs all errors to judge. Otherwise the last
    # one is final by itself (a wrong key, say), and hiding it in RetriesExhausted would hide what to do.
    if hopeful:
        verdict = RetriesExhausted(f"{len(attempts)} attempts failed; the last: {last}", attempts)
        verdict.__cause__ = last
        return verdict
    last.__cause__ = attempts[-2]
    return last
