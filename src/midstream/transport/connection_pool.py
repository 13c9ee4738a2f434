"""The only module that uses aiohttp: it is imported here, on first use, and its errors are translated here.

No message quotes an aiohttp error: those carry the request's headers, and bytes of the peer that may echo them. They are
not kept as cause or context either.
"""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..core.errors import (
    ConfigError,
    ConnectFailed,
    LimitExceeded,
    LocalError,
    MalformedStream,
    MidstreamError,
    TransportError,
    TruncatedStream,
)
from ..core.secret import SecretText
from .options import TransportOptions
from .proxy import Proxy, proxy_for
from .target import Target

if TYPE_CHECKING:
    import aiohttp

_READ_BUFFER = 64 * 1024
_MAX_HEADER = 16 * 1024
_LARGE = 1024 * 1024


class ConnectionPool:
    """Connections kept for the next request, bound to the running event loop."""

    def __init__(self, options: TransportOptions, environ: Mapping[str, str]) -> None:
        import aiohttp
        from yarl import URL

        self._aiohttp = aiohttp
        self._url: Any = URL
        self._environ = environ
        self._ssl: ssl.SSLContext | None = None
        self.loop = asyncio.get_running_loop()
        # How many requests run at once is for the caller to say, so the pool has no limit of its own. The proxy, the
        # trust and the decompression are ours; cookies would tie conversations together.
        self._inner = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=options.keep_alive),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=options.connect, sock_connect=None, sock_read=None),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            read_bufsize=_READ_BUFFER,
            max_line_size=_MAX_HEADER,
            max_field_size=_MAX_HEADER,
        )

    async def send(self, target: Target) -> AiohttpResponse:
        """Send it and wait for the head of the answer."""
        proxy = proxy_for(target.scheme, target.host, target.port, self._environ)
        try:
            inner = await self._inner.request(
                target.method,
                self._url(target.url, encoded=True),
                data=target.body if len(target.body) <= _LARGE else io.BytesIO(target.body),
                allow_redirects=False,
                **self._route(target, proxy),
            )
            return AiohttpResponse(self._aiohttp, inner)
        except (self._aiohttp.ClientError, OSError, ValueError) as error:
            failure = _send_failure(self._aiohttp, error, target, proxy)
        raise failure

    async def aclose(self) -> None:
        await self._inner.close()

    def _route(self, target: Target, proxy: Proxy | None) -> dict[str, Any]:
        """How to get there: headers, proxy and trust."""
        headers = target.headers.reveal()
        route: dict[str, Any] = {}
        if target.scheme == "https":
            if self._ssl is None:
                self._ssl = ssl_context(self._environ)
            route["ssl"] = self._ssl
        if proxy is not None:
            route["proxy"] = proxy.url
            if proxy.authorization and target.scheme == "https":
                route["proxy_headers"] = {"Proxy-Authorization": SecretText(proxy.authorization.reveal())}
            elif proxy.authorization:
                headers["proxy-authorization"] = SecretText(proxy.authorization.reveal())
        return {**route, "headers": headers}


class AiohttpResponse:
    """An answer's head and its raw body."""

    def __init__(self, library: Any, inner: aiohttp.ClientResponse) -> None:
        self._aiohttp = library
        self._inner = inner
        self.status = inner.status
        self.headers: Mapping[str, str] = {
            name.lower(): ", ".join(inner.headers.getall(name)) for name in inner.headers
        }
        self._heed_loss()

    async def read(self) -> bytes:
        try:
            return await self._inner.content.readany()
        except (self._aiohttp.ClientError, OSError):
            failure = TruncatedStream("the connection was lost before the answer ended")
        raise failure

    def close(self) -> None:
        self._inner.close()

    def _heed_loss(self) -> None:
        """End the body with the connection. aiohttp does not, where it closed the connection itself over bad framing."""
        protocol = self._inner.connection.protocol if self._inner.connection is not None else None
        closed = protocol.closed if protocol is not None else None
        if closed is None:
            return
        closed.remove_done_callback(_retrieve)
        closed.add_done_callback(_retrieve)
        closed.add_done_callback(self._lost)

        def forget() -> None:
            closed.remove_done_callback(self._lost)

        self._inner.content.on_eof(forget)

    def _lost(self, closed: asyncio.Future[None]) -> None:
        content = self._inner.content
        if not content.is_eof() and content.exception() is None:
            self._inner.close()

    def finish(self, grace: float) -> None:
        # At its end the body gives the connection back by itself, read or not; closing is then without effect.
        if not self._inner.content.is_eof():
            asyncio.get_running_loop().call_later(grace, self._inner.close)


def _send_failure(library: Any, error: Exception, target: Target, proxy: Proxy | None) -> MidstreamError:
    host = f"{target.host}:{target.port}"
    via = f" through the proxy {proxy.url}" if proxy is not None else ""
    if isinstance(error, library.ConnectionTimeoutError):
        return ConnectFailed(f"connecting to {host}{via} took too long")
    if isinstance(error, library.ClientConnectorCertificateError):
        return TransportError(
            f"the certificate of {host}{via} is not trusted; if it was issued by your own authority, set SSL_CERT_FILE to its certificate"
        )
    if isinstance(error, library.ClientHttpProxyError):
        return ConnectFailed(f"the proxy {proxy.url if proxy else ''} refused a tunnel to {host} with {error.status}")
    if isinstance(error, library.ClientConnectorError):
        return ConnectFailed(f"no connection to {host}{via}: {error.os_error.strerror or type(error).__name__}")
    if isinstance(error, library.ClientResponseError):
        if _caused_by(error, "LineTooLong"):
            return LimitExceeded(f"a header in the response of {host} is longer than {_MAX_HEADER} bytes")
        return MalformedStream(f"the response of {host} is not valid HTTP")
    if isinstance(error, ValueError) and not isinstance(error, OSError):
        return LocalError(f"{target.where} is not a valid http or https URL")
    return ConnectFailed(f"{host}{via} closed the connection before it answered")


def _retrieve(closed: asyncio.Future[None]) -> None:
    """Look at how a connection ended, so that asyncio does not report it as never looked at."""
    if not closed.cancelled():
        closed.exception()


def _caused_by(error: BaseException | None, name: str) -> bool:
    """Whether an error of this class is in the chain; aiohttp wraps its parser's errors without telling them apart."""
    for _ in range(8):
        if error is None:
            return False
        if type(error).__name__ == name:
            return True
        error = error.__cause__ or error.__context__
    return False


def ssl_context(environ: Mapping[str, str]) -> ssl.SSLContext:
    """A verifying context. A file that cannot be used is an error, never a silent fall back to another trust."""
    file, folder = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
    if not file and not folder:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cafile=file or None, capath=folder or None)
    except OSError as error:
        reason = error.strerror or "no certificate in it"
    raise ConfigError(
        f"SSL_CERT_FILE={file!r} cannot be used: {reason}; set it to a file of PEM certificates, or unset it"
    )
