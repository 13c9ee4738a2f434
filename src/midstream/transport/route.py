"""The way to an origin: its addresses raced, through a proxy or not, and TLS on top.

Addresses are tried as RFC 8305 says (happy eyeballs): families alternate, the next begins when one failed or after a quarter
second, the first to connect is used. asyncio has the same in `create_connection`, but uvloop has not, so it is done here,
the same on both. No error of a library is kept as cause or context.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from itertools import zip_longest
from typing import Any, TypeAlias

from ..core.blocks import Value
from ..core.errors import ConnectFailed, LocalError, MidstreamError, TransportError, TruncatedStream
from .http1 import Connection
from .proxy import Proxy
from .target import Target, authority, origin_of

Address: TypeAlias = tuple[int, Any]
"""Family and socket address."""
Resolve: TypeAlias = Callable[[str, int], Awaitable[list[Address]]]

ATTEMPT_DELAY = 0.25  # RFC 8305 §8


class Route(Value, frozen=True):
    """Where connections lead that may serve the same requests."""

    scheme: str
    host: str
    port: int
    proxy: Proxy | None = None

    @classmethod
    def of(cls, target: Target, proxy: Proxy | None) -> Route:
        return cls(target.scheme, target.host, target.port, proxy)

    @property
    def shown(self) -> str:
        """For messages."""
        via = f" through the proxy {self.proxy.url}" if self.proxy is not None else ""
        return f"{self.host}:{self.port}{via}"

    @property
    def forwarded(self) -> bool:
        """The proxy reads the request itself and sends it on; a tunnel would hide it."""
        return self.proxy is not None and self.scheme == "http"


async def connect(route: Route, trust: Callable[[], ssl.SSLContext], limit: float, resolve: Resolve) -> Connection:
    """A connection ready for requests; ConnectFailed or TransportError says why there is none."""
    try:
        async with asyncio.timeout(limit):
            return await _connect(route, trust, resolve)
    except TimeoutError:
        # Errors are made here and raised after the `try`: raised inside, they would
        # carry the library's error, and its frames, as context. A certificate that
        # is not trusted is no ConnectFailed, because trying again cannot help.
        failure: MidstreamError = ConnectFailed(f"connecting to {route.shown} took too long")
    except ssl.SSLCertVerificationError as error:
        # The reason too: Python 3.13 and newer refuse an authority that SSL_CERT_FILE names if its certificate lacks a field.
        failure = TransportError(
            f"the certificate of {route.shown} is not trusted ({error.verify_message.rstrip('.')}); if it was issued by your"
            " own authority, set SSL_CERT_FILE to its certificate"
        )
    except ssl.SSLError:
        failure = ConnectFailed(f"no connection to {route.shown}: TLS failed")
    except OSError as error:
        failure = ConnectFailed(f"no connection to {route.shown}: {_reason(error)}")
    except ValueError:  # UnicodeError is one: a label of the name is empty or too long
        failure = LocalError(f"{route.shown} is not the name of a host; check the base URL")
    raise failure


async def _connect(route: Route, trust: Callable[[], ssl.SSLContext], resolve: Resolve) -> Connection:
    if route.proxy is None:
        return await _open(route.host, route.port, trust() if route.scheme == "https" else None, resolve)
    scheme, host, port = origin_of(route.proxy.url)
    # Before connecting: a broken SSL_CERT_FILE should be reported without a proxy having been bothered.
    context = trust() if "https" in (scheme, route.scheme) else None
    connection = await _open(host, port, context if scheme == "https" else None, resolve)
    if route.scheme == "https":
        assert context is not None
        await _tunnel(connection, route, route.proxy, context)
    return connection


async def _open(host: str, port: int, context: ssl.SSLContext | None, resolve: Resolve) -> Connection:
    connection = await race(await resolve(host, port))
    if context is not None:
        await _secure(connection, host, context)
    return connection


async def _secure(connection: Connection, host: str, context: ssl.SSLContext) -> None:
    """TLS from here on, with a certificate for this host."""
    assert connection.transport is not None
    loop = asyncio.get_running_loop()
    try:
        # The dot that ends an absolute name is in no certificate.
        transport = await loop.start_tls(connection.transport, connection, context, server_hostname=host.rstrip("."))
    except BaseException:
        connection.abort()
        raise
    assert transport is not None
    connection.transport = transport


async def _tunnel(connection: Connection, route: Route, proxy: Proxy, context: ssl.SSLContext) -> None:
    """Have the proxy pass bytes to the origin, and speak TLS with that."""
    place = f"{route.host}:{route.port}"
    failure = None
    try:
        status = await connection.tunnel(authority(route.host, route.port), proxy.url, proxy.authorization)
    except TruncatedStream:
        failure = ConnectFailed(f"the proxy {proxy.url} closed the connection before it gave a tunnel to {place}")
    if failure is None and not 200 <= status < 300:
        failure = ConnectFailed(f"the proxy {proxy.url} refused a tunnel to {place} with {status}")
    if failure is None and not connection.alive:
        failure = ConnectFailed(f"the proxy {proxy.url} closed the tunnel to {place}")
    if failure is not None:
        connection.abort()
        raise failure
    await _secure(connection, route.host, context)


async def addresses(host: str, port: int) -> list[Address]:
    """What a name resolves to, in the order the system prefers. An address is itself: no thread is asked."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return [(family, (host, port) if family == socket.AF_INET else (host, port, 0, 0))]
    # The loop asks in a thread. `dict.fromkeys` drops duplicates
    # and keeps the order, which is the system's preference.
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((family, place) for family, _, _, _, place in found))


async def race(found: Iterable[Address], delay: float = ATTEMPT_DELAY) -> Connection:
    """A connection to the first of the addresses that answers."""
    waiting = interleaved(found)
    # The usual case needs no task.
    if len(waiting) == 1:
        return await _attempt(waiting[0])
    running: set[asyncio.Task[Connection]] = set()
    failure: OSError = OSError("the name has no address")
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.create_task(_attempt(waiting.pop(0))))
            done, _ = await asyncio.wait(
                running, timeout=delay if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                running.discard(task)
                error = task.exception()
                if error is None:
                    running.update(done)  # others may have come in at the same time
                    running.discard(task)
                    return task.result()
                # Not a refusal of this address but a fault: the others would fail in the same way.
                if not isinstance(error, OSError):
                    raise error
                failure = error
    finally:
        for task in running:
            # A connection may be made in the very turn in which its task is cancelled; `_discard` closes that one.
            task.cancel()
            task.add_done_callback(_discard)
    raise failure


async def _attempt(address: Address) -> Connection:
    family, place = address
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: Connection(loop), place[0], place[1], family=family)
    return connection


def _discard(task: asyncio.Task[Connection]) -> None:
    """One that came in second."""
    if not task.cancelled() and task.exception() is None:
        task.result().abort()


def interleaved(found: Iterable[Address]) -> list[Address]:
    """The families in turn, beginning with the one the system put first."""
    families: dict[int, list[Address]] = {}
    for address in found:
        families.setdefault(address[0], []).append(address)
    return [address for group in zip_longest(*families.values()) for address in group if address is not None]


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "the name could not be resolved"
    return os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
