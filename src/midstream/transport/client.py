"""One request until it is answered: attempts, waits, and the error to raise when none succeeds.

Attempts end at the first byte of a good answer; after it nothing is sent twice. One failure that is not retried is raised
as it is; several are a RetriesExhausted that carries each; an error that no retry can fix is raised as it is, whenever it
comes.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping
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
"""(status, headers, body) -> the typed error."""

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
    """An HTTP client for one event loop. Connections are kept for the next request until `aclose`."""

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
        """Send the request, again if need be, and wait for the first byte of a good response."""
        auth_headers = hidden = SecretHeaders(auth_headers)  # rebound too: the locals of a frame may be shown
        target = prepare(request, base_url, hidden, accept_encoding(request.stream))
        pool = self._ready()
        moments = _Moments(self._clock(), pool.loop.time() + self.options.total)
        attempts: list[MidstreamError] = []
        while True:
            outcome = await self._attempt(pool, target, moments, tuple(attempts))
            if isinstance(outcome, HTTPResponse):
                return outcome
            attempts.append(outcome.error)
            hopeful = worth_retrying(outcome.error, outcome.headers)
            delay = self._delay(len(attempts) - 1, outcome.headers, moments) if hopeful else None
            if delay is None:
                raise _verdict(attempts, hopeful)
            await self._sleep(delay)

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
        elif self._pool.loop is not asyncio.get_running_loop():
            raise LocalError("the transport belongs to another event loop; create one Transport per loop")
        return self._pool

    def _delay(self, attempt: int, headers: Mapping[str, str], moments: _Moments) -> float | None:
        """The wait before the next attempt; None when the retries, the budget or the time are used up."""
        policy = self.options.retry
        delay = retry_delay(attempt, headers, self._now(), self._rng, policy)
        if delay is None or self._clock() + delay > moments.began + min(policy.budget, self.options.total):
            return None
        return delay

    async def _attempt(
        self, pool: ConnectionPool, target: Target, moments: _Moments, attempts: tuple[MidstreamError, ...]
    ) -> HTTPResponse | _Failure:
        start = pool.loop.time()
        limit = min(self.options.first_byte, moments.ends - start)
        try:
            async with asyncio.timeout_at(start + limit):
                return await self._ask(pool, target, moments, attempts)
        except TimeoutError:
            late = TimedOut(f"{target.where} did not start to answer within {limit:g} s")
        return _Failure(late, {})

    async def _ask(
        self, pool: ConnectionPool, target: Target, moments: _Moments, attempts: tuple[MidstreamError, ...]
    ) -> HTTPResponse | _Failure:
        """Send, follow what may be followed, and wait for the first byte."""
        try:
            raw, target = await self._send(pool, target)
        except MidstreamError as error:
            return _Failure(error, {})
        response = HTTPResponse(raw, self.options, moments.ends, attempts, target.secrets)
        if not 200 <= response.status < 300:
            body = await self._error_body(response)
            return _Failure(self._refusal(response, target, body), target.secrets.scrub_headers(response.headers))
        try:
            await response.begin()
        except TruncatedStream:
            lost = ConnectFailed(f"{target.where} closed the connection before the first byte of its answer")
            return _Failure(lost, {})
        except MidstreamError as error:
            return _Failure(error, {})
        return response

    async def _send(self, pool: ConnectionPool, target: Target) -> tuple[RawResponse, Target]:
        """Send it, and again where a redirect within the origin leads, as often as the options allow."""
        raw = await pool.send(target)
        for _ in range(self.options.max_redirects):
            place = target.moved(raw.headers.get("location", "")) if raw.status in _KEEPING_METHOD else None
            if place is None:
                break
            raw.close()
            target = place
            raw = await pool.send(target)
        return raw, target

    async def _error_body(self, response: HTTPResponse) -> bytes:
        """As much of an error's body as arrives in time and fits; the status alone is enough without it."""
        parts: list[bytes] = []
        room = self.options.max_error_body
        try:
            async with asyncio.timeout(self.options.error_body), response:
                while room > 0 and (data := await response.chunk()):
                    parts.append(data[:room])
                    room -= len(data)
        except (TimeoutError, MidstreamError):
            pass
        return b"".join(parts)

    def _refusal(self, response: HTTPResponse, target: Target, body: bytes) -> ProviderError:
        """The typed error of a response that is not a success."""
        if response.status in _REDIRECTS:
            return ProviderError(
                f"{target.where} redirects to another place, and redirects are not followed with a key; "
                "set the base URL to its target",
                status=response.status,
            )
        headers = target.secrets.scrub_headers(response.headers)
        # Scrubbed before it is parsed, because the parser may cut a key in half, and after, because it may join two halves.
        error = self._error_from_response(response.status, headers, target.secrets.scrub(body))
        error = target.secrets.scrub_error(error)
        asked = retry_after(headers, self._now())
        if error.retry_after is None and asked is not None and asked >= 0:
            error.retry_after = asked
        return error


def _verdict(attempts: list[MidstreamError], hopeful: bool) -> MidstreamError:
    """The error to raise for failed attempts: the only one, or all of them where another attempt might have helped."""
    last = attempts[-1]
    if len(attempts) == 1:
        return last
    if hopeful:
        verdict = RetriesExhausted(f"{len(attempts)} attempts failed; the last: {last}", attempts)
        verdict.__cause__ = last
        return verdict
    last.__cause__ = attempts[-2]
    return last
