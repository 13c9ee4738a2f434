"""Who may see the page, asked before any path is looked at.

The page is for one browser on this machine, so every request must name us as its Host (else another site's name was pointed at
our address) and come from our own pages, if a browser says where it comes from. The API wants a session besides, which a
one-time token from the URL's fragment is exchanged for. It travels in a header that only our own script sets: a browser never
adds it by itself, as it would a cookie, so no other site can use it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from hmac import compare_digest
from typing import Any, TypeAlias

from ..core.blocks import Value
from ..core.errors import Unauthorized

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

API = "/web/api/"
SESSION = "x-midstream-session"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
# Trusted Types make every way from text to markup an error in the browser itself: the page builds nodes, and only nodes.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
    (b"cache-control", b"no-store"),
)
# What is asked about where a request comes from.
_SAID_ONCE = (b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest")
_MOST_SESSIONS = 256
_MOST_OF_ONE = 16  # of one visitor: the oldest of these makes room, and nobody else's
_IDLE = 12 * 3600.0


class Visitor(Value, frozen=True):
    """Who looks at the page. The `owner` runs the program, and may see and do everything; of a gateway's `tenant` only its own
    traffic is shown, unless its key is an `admin` one."""

    tenant: str = ""
    owner: bool = False
    admin: bool = False


OWNER = Visitor(owner=True, admin=True)


class _Session(Value, frozen=True):
    until: float
    visitor: Visitor
    entered: Message | None = None
    """The request with whose key it was opened: a key that is revoked later ends it."""


class Guard:
    """Tokens, sessions, and the addresses under which the page answers."""

    def __init__(
        self,
        *,
        hosts: Collection[str] = (),
        identify: Callable[[Message], Awaitable[Visitor]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hosts = frozenset([*_LOOPBACK, *[host.lower() for host in hosts]])
        self._identify = identify
        self._clock = clock
        self._token = ""
        self._sessions: dict[str, _Session] = {}
        self.on_locked_out: Callable[[], None] | None = None
        """Called when somebody without a session comes and there is no token that could open one: whoever runs the program may
        be that somebody, in another browser or a day later, and needs a new address. Only the terminal is told, and not again
        before the new token was used."""

    def issue_token(self) -> str:
        """A token that opens one session; the one before it is worth nothing from now on."""
        self._token = secrets.token_urlsafe(24)
        return self._token

    async def open_session(self, scope: Message, token: str) -> str:
        """A session for whoever has the token, or a key of the gateway; Unauthorized for anybody else."""
        if token:
            known, self._token = self._token, ""
            if not known or not compare_digest(known.encode(), token.encode()):
                # A wrong guess does not use the real one up.
                self._token = known
                raise self._locked_out("this link was used before, or is not ours")
            return self._remember(OWNER)
        if self._identify is None:
            raise Unauthorized("open the address that `midstream web` has printed: its end is the key", status=401)
        return self._remember(await self._identify(scope), {"headers": scope.get("headers", ())})

    async def visitor(self, session: str) -> Visitor:
        """Whose session this is; Unauthorized if it is nobody's, or the key that opened it is good no more."""
        now = self._clock()
        # By the whole value in a dictionary: a session has 192 random bits, and nothing is learnt from how long a miss takes.
        found = self._sessions.get(session)
        if found is None or found.until < now:
            raise self._locked_out("no session")
        visitor = found.visitor
        if found.entered is not None and self._identify is not None:
            try:
                visitor = await self._identify(found.entered)
            except Unauthorized:
                self._sessions.pop(session, None)
                raise
        self._sessions[session] = _Session(now + _IDLE, visitor, found.entered)
        return visitor

    def fault(self, scope: Message) -> str:
        """Why a request is refused before anything else is looked at; "" if it is not."""
        headers: dict[bytes, str] = {}
        for name, value in scope["headers"]:
            # Said twice, it would be for us to choose which of the two to believe.
            if name in headers and name in _SAID_ONCE:
                return f"the header {name.decode()} is there twice"
            headers[name] = value.decode("latin-1")
        host = headers.get(b"host", "").lower()
        name, _, port = host.rpartition(":") if ":" in host and not host.endswith("]") else (host, "", "")
        if name not in self._hosts or not (port.isdecimal() or not port):
            return f"the page is not served under the name {name[:100]!r}"
        origin = headers.get(b"origin")
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            return "requests from other pages are refused"
        site = headers.get(b"sec-fetch-site", "none")
        # Opening a link to the page from elsewhere is fine, using it from elsewhere is not.
        opens = scope["path"] == "/" and headers.get(b"sec-fetch-mode") == "navigate" and scope["method"] == "GET"
        if site not in ("none", "same-origin") and not (opens and headers.get(b"sec-fetch-dest") == "document"):
            return "requests from other sites are refused"
        return ""

    def _locked_out(self, why: str) -> Unauthorized:
        if not self._token and self.on_locked_out is not None:
            self.on_locked_out()
        return Unauthorized(f"{why}: open the newest address in the terminal where midstream runs", status=401)

    def _remember(self, visitor: Visitor, entered: Message | None = None) -> str:
        now = self._clock()
        self._sessions = {key: each for key, each in self._sessions.items() if each.until >= now}
        same = [key for key, each in self._sessions.items() if each.visitor == visitor]
        if len(same) >= _MOST_OF_ONE:
            del self._sessions[same[0]]
        elif len(self._sessions) >= _MOST_SESSIONS:
            # Never the owner's: the token that opened it is used up, and there is no other way in.
            del self._sessions[next(key for key, each in self._sessions.items() if not each.visitor.owner)]
        session = secrets.token_urlsafe(24)
        self._sessions[session] = _Session(now + _IDLE, visitor, entered)
        return session
