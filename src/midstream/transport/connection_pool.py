"""Connections kept for the next request, and the trust they are made with.

How many requests run at once is for the caller to say, so the pool limits only what it keeps unused. No cookies: they would tie
conversations together.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from math import inf

from ..core.errors import ConfigError, ConnectFailed, LocalError, TruncatedStream
from .http1 import Connection, Exchange, late
from .options import TransportOptions
from .proxy import proxy_for
from .route import Resolve, Route, addresses, connect
from .target import Target

# A request that changes nothing when it is sent twice (RFC 9110 §9.2.2). Others are sent again only by the retry policy.
_IDEMPOTENT = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"))

_CLOSING = 1.0  # an aborted connection ends at the loop's next turns; nothing may hang if one does not


class ConnectionPool:
    """Bound to the running event loop."""

    def __init__(self, options: TransportOptions, environ: Mapping[str, str], *, resolve: Resolve = addresses) -> None:
        self.loop = asyncio.get_running_loop()
        self._options = options
        self._environ = environ
        self._resolve = resolve
        self._ssl: ssl.SSLContext | None = None
        self._free: dict[Route, list[Connection]] = {}
        self._routes: dict[Connection, Route] = {}
        """Every connection that is open, used or not."""
        self._sweeper: asyncio.TimerHandle | None = None
        self._watcher: asyncio.TimerHandle | None = None
        self._watched_until = inf  # what is due earlier would be missed by the watcher
        self._emptied: asyncio.Future[None] | None = None
        self._closed = False
        # An async generator held open only for its `finally`; see `_with_the_loop`.
        self._end: AsyncGenerator[None, None] | None = None

    async def send(self, target: Target, due: float = inf, limit: float = inf) -> Exchange:
        """Send it and wait for the head of the answer; TimedOut where its first byte has not come when it is `due`."""
        route = Route.of(target, proxy_for(target.scheme, target.host, target.port, self._environ))
        connection = self._kept(route)
        reused = connection is not None
        if due < self._watched_until:
            self._watch(due)
        if connection is None:
            connection = await self._connect_by(due, limit, route, target)
        exchange = await self._exchange(connection, route, target, due, limit)
        # A POST is not repeated here: the peer may have read it, and an answer of a model is paid for. It
        # fails as ConnectFailed, and the retry policy decides.
        if exchange is None and reused and target.method in _IDEMPOTENT:
            # The peer may have closed it as unused just when it was used: once more, on a new one.
            connection = await self._connect_by(due, limit, route, target)
            exchange = await self._exchange(connection, route, target, due, limit)
        if exchange is None:
            raise ConnectFailed(f"{route.shown} closed the connection before it answered")
        return exchange

    async def aclose(self) -> None:
        """Close every connection and wait until the loop has done so."""
        # Through the generator where there is one: closed directly, it would run `_close` again when the loop ends.
        end, self._end = self._end, None
        await (self._close() if end is None else end.aclose())

    async def _close(self) -> None:
        self._closed = True
        for timer in (self._sweeper, self._watcher):
            if timer is not None:
                timer.cancel()
        self._sweeper = self._watcher = None
        self._free.clear()
        for connection in list(self._routes):
            connection.abort()
        if self._routes:
            self._emptied = self.loop.create_future()
            # `abort` only schedules the close. Waiting for `forget` of
            # the last one keeps "unclosed transport" warnings away.
            await asyncio.wait([self._emptied], timeout=_CLOSING)

    def give_back(self, connection: Connection) -> None:
        if self._closed:
            connection.abort()
            return
        connection.expires = self.loop.time() + self._options.keep_alive
        self._free.setdefault(self._routes[connection], []).append(connection)
        if sum(map(len, self._free.values())) > self._options.max_unused:
            self._drop_oldest()
        # One timer for all connections, set for the first that expires;
        # `keep_alive` is the same for each, so later ones end later.
        if self._sweeper is None:
            self._sweeper = self.loop.call_at(connection.expires, self._sweep)

    def forget(self, connection: Connection) -> None:
        route = self._routes.pop(connection, None)
        if route is not None:
            self._withdraw(connection, route)
        if not self._routes and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    async def _connect_by(self, due: float, limit: float, route: Route, target: Target) -> Connection:
        failure = None
        try:
            async with asyncio.timeout_at(None if due == inf else due):
                return await self._connect(route)
        except TimeoutError:
            failure = late(target.url, limit)
        raise failure

    async def _connect(self, route: Route) -> Connection:
        connection = await connect(route, self._trust, self._options.connect, self._resolve)
        # The pool was closed while this connection was being made; nobody would ever close it.
        if self._closed:
            connection.abort()
            raise LocalError("the transport is closed; create a new one")
        self._routes[connection] = route
        connection.keeper = self
        if self._end is None:
            self._end = self._with_the_loop()
            await anext(self._end)
        return connection

    async def _with_the_loop(self) -> AsyncGenerator[None, None]:
        """Close the connections that nobody closed before the loop ends: `asyncio.run` and its like end the async generators
        that are still open, and a socket that is left to the collector warns."""
        try:
            yield
        finally:
            await self._close()

    async def _exchange(
        self, connection: Connection, route: Route, target: Target, due: float, limit: float
    ) -> Exchange | None:
        """The answer; None if the peer hung up without a word."""
        proxy = route.proxy
        try:
            return await connection.exchange(
                target,
                due=due,
                limit=limit,
                absolute=route.forwarded,
                authorization=proxy.authorization if proxy is not None and route.forwarded else None,
            )
        except TruncatedStream:
            return None

    def _kept(self, route: Route) -> Connection | None:
        """The one used last that is still good: the others may grow old."""
        now = self.loop.time()
        while free := self._free.get(route):
            # From the end, so that a few connections stay warm and the
            # rest expire, instead of all being kept alive by turns.
            connection = free.pop()
            if not free:
                del self._free[route]
            if connection.expires > now and connection.quiet:
                return connection
            connection.abort()
        return None

    def _withdraw(self, connection: Connection, route: Route) -> None:
        free = self._free.get(route)
        if free is not None and connection in free:
            free.remove(connection)
            if not free:
                del self._free[route]

    def _drop_oldest(self) -> None:
        # Each list is in the order of giving back, so its first is
        # its oldest, and the oldest of all is the first of some list.
        route, free = min(self._free.items(), key=lambda item: item[1][0].expires)
        oldest = free[0]
        self._withdraw(oldest, route)
        oldest.abort()

    def _sweep(self) -> None:
        """Close what was unused for too long; one timer for all of them."""
        now = self.loop.time()
        self._sweeper = None
        kept = [connection for free in self._free.values() for connection in free]
        for connection in kept:
            if connection.expires <= now:
                self._withdraw(connection, self._routes[connection])
                connection.abort()
        left = [connection.expires for connection in kept if connection.expires > now]
        if left:
            self._sweeper = self.loop.call_at(min(left), self._sweep)

    def _watch(self, due: float) -> None:
        """Look at this moment at what is due; one timer for all requests. Limits are mostly the same, so a request that begins
        later is due later, and the timer stays as it is."""
        if self._watcher is not None:
            self._watcher.cancel()
        self._watched_until = due
        self._watcher = self.loop.call_at(due, self._look)

    def _look(self) -> None:
        # The loop may call a moment before the time that was asked for.
        now = max(self.loop.time(), self._watched_until)
        self._watcher, self._watched_until = None, inf
        for connection in [each for each in self._routes if each.due <= now]:
            connection.expire()
        left = min([each.due for each in self._routes], default=inf)
        if left < inf:
            self._watch(left)

    def _trust(self) -> ssl.SSLContext:
        if self._ssl is None:
            self._ssl = ssl_context(self._environ)
        return self._ssl


def ssl_context(environ: Mapping[str, str]) -> ssl.SSLContext:
    """A verifying context. A file that cannot be used is an error, never a silent fall back to another trust."""
    file, folder = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
    # The two variables are those OpenSSL and other clients use;
    # reading them here means that an error can name the variable.
    if not file and not folder:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cafile=file or None, capath=folder or None)
    except OSError as error:
        reason = error.strerror or "no certificate in it"
    raise ConfigError(
        f"SSL_CERT_FILE={file!r} cannot be used: {reason}; set it to a file of PEM certificates, or unset it"
    )
