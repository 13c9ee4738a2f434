"""One request, checked before anything is sent: a URL that cannot lead elsewhere and headers that cannot be split.

Control characters in the method, path, a header's name or value are refused, and so are dot segments, URLs with a user,
query or fragment in the base, and headers that frame the message. A message about a header names it and never quotes its
value: it may be a key.
"""

from __future__ import annotations

import ipaddress
import re
import warnings
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Protocol
from urllib.parse import unquote, urljoin, urlsplit

from ..core.errors import LocalError
from ..core.patterns import late_pattern
from ..core.secret import Secret, SecretHeaders, is_secret_header
from .encoding import accept_encoding
from .secrets import Secrets

# What may be sent. A line break in a header's value would begin a header of its own, a space in a path another
# request line; the transport sets the headers that frame a message, because a second Content-Length lets two readers
# disagree on where it ends. A tab is allowed in values, as in RFC 9110 §5.5; lone surrogates have no UTF-8.
_TOKEN = late_pattern(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_UNPRINTABLE = late_pattern(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_URL_TEXT = late_pattern(r"[!-~]+")
_HOST = late_pattern(r"[A-Za-z0-9._\-]+|\[[0-9A-Fa-f:.]+\]")
_FRAMING = frozenset(
    ("connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade")
)
PORTS = {"http": 80, "https": 443}
"""The schemes that are spoken, and where their hosts listen if nothing else is said."""
_KNOWN = 512


class OutgoingRequest(Protocol):
    """What the transport needs of an encoded request; it holds no secret."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> bytes: ...
    @property
    def stream(self) -> bool: ...


class Target:
    """A request that may be sent."""

    __slots__ = ("_head", "body", "headers", "host", "method", "port", "request", "scheme", "secrets", "stream", "url")

    def __init__(
        self,
        method: str,
        url: str,
        headers: SecretHeaders,
        body: bytes,
        secrets: Secrets,
        stream: bool,
        origin: tuple[str, str, int] | None = None,
    ) -> None:
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        self.stream = stream
        self.secrets = secrets
        self.request: OutgoingRequest | None = None
        """The request it was made from, for a tap."""
        # `origin` is handed in where it was already worked out and remembered; a redirect works it out anew.
        self.scheme, self.host, self.port = origin or origin_of(url)
        self._head = b""

    def __repr__(self) -> str:
        return f"<{self.method} {self.where}>"

    @property
    def where(self) -> str:
        """Scheme, host and path for messages. The query is left out: some hosts take their key there."""
        return self.url.partition("?")[0]

    @property
    def authority(self) -> str:
        """Host and port as a Host header has them: the port only where it is not the scheme's own."""
        return authority(self.host, self.port if self.port != PORTS[self.scheme] else None)

    @property
    def path(self) -> str:
        """What follows the host."""
        _, _, rest = self.url.partition("://")
        slash = rest.find("/")
        return rest[slash:] if slash >= 0 else "/"

    @property
    def head(self) -> bytes:
        """The request line and the headers, but for those that frame the body. They hold the key: bind them to no name."""
        if not self._head:
            self._head = head_of(self, self.path)
        return self._head

    def again(self, body: bytes, request: OutgoingRequest | None = None) -> Target:
        """The same request with another body: nothing is checked or put together twice."""
        twin = object.__new__(Target)
        twin.method, twin.url, twin.headers, twin.secrets = self.method, self.url, self.headers, self.secrets
        twin.scheme, twin.host, twin.port = self.scheme, self.host, self.port
        twin.stream, twin.body, twin._head = self.stream, body, self.head
        twin.request = request
        return twin

    def moved(self, location: str) -> Target | None:
        """The same request at the place a redirect names, or None if that is not within this origin."""
        if not _URL_TEXT.fullmatch(location):
            return None
        try:
            url = urljoin(self.url, location).partition("#")[0]
            # A user before the host is refused even at the same host: it would be credentials that the peer chose.
            if "@" in urlsplit(url).netloc or origin_of(url) != origin_of(self.url):
                return None
        except (LocalError, ValueError):
            return None
        target = Target(self.method, url, self.headers, self.body, self.secrets, self.stream)
        target.request = self.request
        return target


def head_of(target: Target, place: str) -> bytes:
    """The request line, for a request to this place, and the headers."""
    lines = [f"{target.method} {place} HTTP/1.1", f"host: {target.authority}"]
    lines += [f"{name}: {value.reveal()}" for name, value in target.headers.items()]
    return ("\r\n".join(lines) + "\r\n").encode("utf-8")


class KnownTargets:
    """Prepares requests, and reuses an earlier one if only the body differs, as it does with every turn of a
    conversation. A path with a query is prepared each time: it may hold a key."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[SecretHeaders, Target]] = {}

    def prepare(
        self, request: OutgoingRequest, base_url: str, auth_headers: SecretHeaders, *, plain: bool = False
    ) -> Target:
        """`plain` asks for an answer that is not compressed, so that a tap can find a secret in it."""
        plain = plain or request.stream
        place = (request.method, base_url, request.path, request.stream, plain, *request.headers.items())
        known = self._known.get(place)
        if known is not None and known[0] == auth_headers:
            return known[1].again(request.body, request)
        target = prepare(request, base_url, auth_headers, accept_encoding(plain))
        if "?" not in request.path:
            if len(self._known) >= _KNOWN:  # models are named in paths, and clients of a gateway choose them
                self._known.clear()
            self._known[place] = (SecretHeaders(auth_headers), target.again(b""))
        return target


def prepare(request: OutgoingRequest, base_url: str, auth_headers: SecretHeaders, accept_encoding: str) -> Target:
    """Check everything and put it together; LocalError says what is wrong."""
    if not _TOKEN.fullmatch(request.method):
        raise LocalError(f"invalid HTTP method {request.method[:40]!r}")
    merged = SecretHeaders(_public_headers(tuple(request.headers.items())))
    _add_headers(merged, auth_headers)
    # Last, so that no header of the request asks for a compression that cannot be undone within bounds.
    merged["accept-encoding"] = _accepted(accept_encoding)
    base, origin = _base(base_url)
    url = base + _path(request.path)
    target = Target(request.method, url, merged, request.body, Secrets(auth_headers), request.stream, origin)
    target.request = request
    return target


# The same few addresses, paths and names are asked for again and again, and checking them costs as much as encoding a short
# request. Nothing that may hold a key is remembered: no query, and of headers only those of the request without its secrets.
_remembered = lru_cache(maxsize=512)
_accepted = _remembered(Secret)


@_remembered
def _public_headers(headers: tuple[tuple[str, str], ...]) -> SecretHeaders:
    checked = SecretHeaders({"user-agent": "midstream"})
    _add_headers(checked, SecretHeaders(dict(headers)))
    return checked


def _add_headers(merged: SecretHeaders, headers: SecretHeaders) -> None:
    for name, value in headers.items():
        merged[_header_name(name)] = value
        if _UNPRINTABLE.search(value.reveal()):
            raise LocalError(
                f"the value of the header {name!r} contains a control character; check it for a line break"
            )


def origin_of(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of an absolute http(s) URL."""
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError:
        raise LocalError("invalid URL; expected https://host[:port]/path") from None
    if scheme not in PORTS or not host or port == 0:
        raise LocalError(f"expected an http or https URL with a host, got the scheme {scheme[:20]!r}")
    return scheme, host, port or PORTS[scheme]


def authority(host: str, port: int | None) -> str:
    """A host as it is written before a path; the dot that ends an absolute name is left out, as in certificates."""
    host = f"[{host}]" if ":" in host else host.rstrip(".")
    return host if port is None else f"{host}:{port}"


@_remembered
def _base(base_url: str) -> tuple[str, tuple[str, str, int]]:
    if not _URL_TEXT.fullmatch(base_url) or "\\" in base_url:
        raise LocalError(
            "the base URL contains spaces, control or non-ASCII characters; expected https://host[:port]/path"
        )
    origin = origin_of(base_url)
    parts = urlsplit(base_url)
    if "@" in parts.netloc:
        raise LocalError("the base URL contains a user or password; pass the key as api_key, not in the URL")
    if "?" in base_url or "#" in base_url:
        raise LocalError("the base URL contains a query or fragment; expected https://host[:port]/path")
    if not _HOST.fullmatch(re.sub(r":\d*\Z", "", parts.netloc)):
        raise LocalError("the host of the base URL is neither a name nor an address")
    _check_segments(parts.path)
    return base_url.rstrip("/"), origin


def _path(path: str) -> str:
    if not _URL_TEXT.fullmatch(path) or "\\" in path or "#" in path:
        raise LocalError("the path contains spaces, control characters, or others that must be percent-encoded first")
    path = "/" + path.removeprefix("/")
    if path.startswith("//"):
        raise LocalError("the path begins with an empty segment")
    _check_segments(path.partition("?")[0])
    return path


@_remembered
def _check_segments(path: str) -> None:
    # Decoded first: `%2e%2e` is the same segment to a server, and a model's name may come into the path.
    if any(unquote(segment) in (".", "..") for segment in path.split("/")):
        raise LocalError("the path contains a '.' or '..' segment, which would lead out of the base URL")


@_remembered
def _header_name(name: str) -> str:
    """In lower case; LocalError if it cannot be one."""
    if not _TOKEN.fullmatch(name):
        raise LocalError(f"{name[:40]!r} is not a valid header name")
    if name.lower() in _FRAMING:
        raise LocalError(f"the header {name!r} is set by the transport and cannot be given")
    return name.lower()


@_remembered
def is_loopback(host: str) -> bool:
    """True for `localhost` and for literal loopback addresses (127.0.0.0/8, ::1, the unspecified ones). Nothing is looked up.

    A name that only begins or ends so is another host: a name server decides what `evil.localhost` leads to.
    """
    host = host.strip("[]").lower()
    if host in ("localhost", "localhost."):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # ::ffff:127.0.0.1 is the same place, but `is_loopback` of
    # Python's IPv6 addresses does not say so in every version.
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback or address.is_unspecified


def leads_to_loopback(url: str) -> bool:
    """The same for the host of a URL; False for one that cannot be read."""
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


_told: set[str] = set()


class KeyInClearText(UserWarning):
    """A key is sent over plain http to another machine."""


def _known_origin(base_url: str) -> tuple[str, str, int]:
    try:
        return _base(base_url)[1]
    except LocalError:
        return origin_of(base_url)


@_remembered
def _read_by_all(base_url: str) -> str:
    """The host and port that requests go to over plain http, through a network; empty if they do not."""
    if not base_url.lower().startswith("http:"):
        return ""
    try:
        _, host, port = _known_origin(base_url)
    except LocalError:
        return ""  # the transport refuses it
    return "" if is_loopback(host) else f"{host}:{port}"


def warn_of_clear_text(base_url: str, header_names: Iterable[str]) -> None:
    """Warn once per host when a key goes over plain http to another machine."""
    where = _read_by_all(base_url)
    if not where or where in _told or not any(is_secret_header(name) for name in header_names):
        return
    _told.add(where)
    warnings.warn(
        f"the key for {where} is sent over plain http, readable by everyone on the way; use https or a tunnel to localhost",
        KeyInClearText,
        stacklevel=2,
    )
