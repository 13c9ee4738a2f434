"""The ASGI application: which path is which wire, who may ask, and what is shared by all requests.

The paths that answer are plain ASGI callables, for they are what a gateway does all day; the others (models, health, metrics,
counting) are starlette's. Everything works with and without `/v1`.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

import msgspec

from ..client.client import Client
from ..client.prices import Price
from ..client.tokens import estimate_conversation, estimate_tool
from ..core.blocks import Usage
from ..core.errors import MidstreamError
from ..dialects.registry import Resolved
from ..transport.secrets import Secrets
from ..wires.answer import AnswerContext, make_writer
from ..wires.request import ParsedRequest
from .body import ANSWERING, PASSED, Message, Receive
from .exchange import Exchange, send_refusal
from .refusals import Refusal, as_told, refusal_headers
from .responses import KeptResponses
from .tenants import LONGEST, provider_key

if TYPE_CHECKING:
    from ..web.app import WebApp
    from .limits import Limiter
    from .live import LiveTraffic
    from .metrics import Metrics
    from .routing import Router
    from .seal import Sealer
    from .state import GatewayState
    from .tenants import Authenticator, Tenant
    from .vault import Vault

Send: TypeAlias = Callable[[Message], Awaitable[None]]

log = logging.getLogger("midstream.gateway")

_WIRES = ("openai-chat", "openai-responses", "anthropic")
HOT: dict[str, str] = {
    prefix + path: wire for prefix in ("/v1", "") for path, wire in zip(ANSWERING, _WIRES, strict=True)
}
"""Paths that answer, and the wire that is spoken there."""
_PASSED: dict[str, str] = {prefix + path: path for prefix in ("/v1", "") for path in PASSED}
# The model's name is in the path and may have slashes, so this one is a pattern where the others are a lookup.
GEMINI = re.compile(r"(?:/v1(?:alpha|beta1?)?)?/models/(?P<model>.+):(?P<stream>streamG|g)enerateContent")
_TICK = 1.0
_PRICES = 4096
"""How many prices are remembered."""


class Settings(msgspec.Struct, frozen=True):
    """What an operator may set about answering."""

    max_body: int = 32 * 1024 * 1024
    silence: float = 10.0
    """Seconds after which a waiting client is told that it is not forgotten."""
    in_flight: int = 2_000
    """Requests at once; the next is told to come back."""
    keep_responses: float = 30 * 86_400.0
    """Seconds that a stored response can be gone on from."""
    own_keys: bool = False
    """Whether a client's own provider key is used for its request (header `x-midstream-provider-key`)."""


class Gateway:
    """All that requests share. An ASGI application."""

    def __init__(
        self,
        *,
        client: Client,
        router: Router,
        authenticator: Authenticator,
        limiter: Limiter,
        state: GatewayState,
        sealer: Sealer | None = None,
        vault: Vault | None = None,
        settings: Settings | None = None,
        metrics: Metrics | None = None,
        finished: Callable[[Exchange], None] | None = None,
        refused: Callable[[Refusal], None] | None = None,
        keep_contents: bool = False,
        live: LiveTraffic | None = None,
        make_page: Callable[[Gateway], WebApp] | None = None,
    ) -> None:
        self.client = client
        self.router = router
        self.authenticator = authenticator
        self.limiter = limiter
        self.state = state
        self.sealer = sealer
        self.vault = vault
        self.settings = settings or Settings()
        self.metrics = metrics
        self.responses = KeptResponses(state, self.settings.keep_responses)
        self.keep_contents = keep_contents
        self.live = live
        self.page: WebApp | None = None
        self._make_page = make_page
        self.open_streams: set[Exchange] = set()
        self._finished = finished
        self._refused = refused
        self._prices: dict[str, Price | None] = {}
        self._small: Any = None
        self._telling: set[asyncio.Task[None]] = set()

    def __call__(self, scope: Message, receive: Receive, send: Send) -> Awaitable[None]:
        # Plain dictionaries and no framework up to here: this is what a gateway does all day, and a router would be
        # felt. So would a coroutine that only waits for the next one.
        if scope["type"] == "http" and scope["method"] == "POST":
            wire = HOT.get(scope["path"])
            if wire is not None:
                return self.answer(wire, scope, receive, send)
        return self._serve(scope, receive, send)

    async def _serve(self, scope: Message, receive: Receive, send: Send) -> None:
        """Gemini's paths, those passed on, the page and the small routes."""
        if scope["type"] != "http":  # a WebSocket, which nothing here speaks
            return
        if scope["method"] == "POST":
            if scope["path"] in _PASSED:
                await self.answer("openai-chat", scope, receive, send, passed=_PASSED[scope["path"]])
                return
            match = GEMINI.fullmatch(scope["path"])
            if match is not None:
                stream = match["stream"] == "streamG"
                # Without `alt=sse` Gemini streams one JSON array (field-guide/streams.md#framing).
                array = stream and b"alt=sse" not in scope["query_string"]
                await self.answer("gemini", scope, receive, send, unquote(match["model"]), stream, array)
                return
        if self._make_page is not None:
            if self.page is None:
                self.page = self._make_page(self)
            if self.page.serves(scope["path"]):
                await self.page(scope, receive, send)
                return
        if self._small is None:
            from .small_routes import small_routes  # starlette is only for these

            self._small = small_routes(self)
        await self._small(scope, receive, send)

    async def answer(
        self,
        wire: str,
        scope: Message,
        receive: Receive,
        send: Send,
        model: str = "",
        stream: bool = False,
        array: bool = False,
        passed: str = "",
    ) -> None:
        """One request that wants an answer of a model, or is `passed` on to this path of a host: who asks is known before anything
        of it is read."""
        # Known or not, a refusal is logged with whatever was found out by then.
        tenant = None
        try:
            # Mostly everything is known and no await is needed; the store
            # is only asked for a key that was not seen for a while.
            headers, query = scope["headers"], scope["query_string"]
            authenticator, limiter = self.authenticator, self.limiter
            tenant = authenticator.recognised(headers, query) or await authenticator.tenant(headers, query)
            own_key = provider_key(headers, True) if self.settings.own_keys else None
            admission = limiter.admit(tenant) if limiter.prepared(tenant) else await limiter.enter(tenant)
        except MidstreamError as error:
            await self.refuse(wire, scope, send, error, tenant)
            return
        exchange = Exchange(self, wire, scope, send, tenant)
        exchange.key = own_key
        exchange.passed = passed
        if self.live is not None and self.live.is_on:
            self.live.begin(exchange)
        try:
            await exchange.run(receive, model=model, stream=stream, array=array)
        except Exception as error:  # the edge: a defect of ours must not leave a client without an answer
            log.exception("request %s failed", exchange.id)
            await exchange.fail(error)
        finally:
            # In this order: what was kept for the request, then its slot,
            # then its price. The slot must be free whatever fails behind it.
            self.responses.forget(exchange)
            admission.release()
            if exchange.cost:
                # Micro-dollars are whole numbers: sums of many small floats would drift.
                admission.charge(round(exchange.cost * 1_000_000))
            if self._finished is not None:
                self._finished(exchange)
            if exchange.live is not None and self.live is not None:
                self.live.end(exchange.live, exchange)

    async def refuse(
        self, wire: str, scope: Message, send: Send, error: MidstreamError, tenant: Tenant | None = None
    ) -> None:
        """A refusal before anything of the request was read."""
        told = as_told(error)
        status, body = make_writer(wire, AnswerContext("")).error(told)
        self.note_refusal(Refusal(wire, scope["path"], status, error.kind, tenant), scope, body)
        await send_refusal(send, status, body, refusal_headers(told))

    def note_refusal(self, refusal: Refusal, scope: Message, body: bytes) -> None:
        """Let the operator see a request that never became an exchange: a wrong key or path shows nowhere else."""
        if self.live is not None and self.live.is_on:
            self.live.refuse(refusal, scope, body)
        if self._refused is not None:
            self._refused(refusal)

    def estimate(self, parsed: ParsedRequest) -> int:
        """About how many tokens a request has."""
        return estimate_conversation(parsed.conversation) + sum([estimate_tool(tool) for tool in parsed.tools])

    def cost(self, target: Resolved, usage: Usage) -> float | None:
        """What an answer cost in dollars; None if nobody knows."""
        # The host's own figure beats any table.
        if usage.cost is not None:
            return usage.cost
        name = target.name
        if name not in self._prices:
            if len(self._prices) >= _PRICES:  # clients choose the names, so there must be an end
                self._prices.clear()
            self._prices[name] = self.client.catalog.price(target) or self.router.stand_in_price()
        price = self._prices[name]
        return None if price is None else price.cost(usage)

    def forget_prices(self) -> None:
        """The configuration has changed."""
        self._prices.clear()

    def scrubbed(self, body: bytes, scope: Message) -> bytes:
        """An error's bytes without the client's own key, which an upstream may have been sent in some text.

        One of each header, and none that is too long for a key: looking for 60 KB in all its forms takes many seconds.
        """
        secrets = _own_keys(scope)
        return Secrets(secrets).scrub(body) if secrets else body

    def secrets(self, scope: Message) -> Secrets:
        """Every key that what was said in a request may hold: the client's own, and those of the upstreams."""
        return Secrets({**_own_keys(scope), **self.client.catalog.keys_at_hand()})

    def keep_company(self) -> asyncio.Task[None]:
        """Start the task that tells waiting clients that they are not forgotten; cancel it at the end."""
        return asyncio.create_task(self._tick())

    async def _tick(self) -> None:
        """Every second: clients that have heard nothing for long hear something."""
        while True:
            silence = self.settings.silence  # it may change while the gateway runs
            await asyncio.sleep(min(_TICK, silence / 4))
            now = time.monotonic()
            # One task for all streams: a timer for each would be started and cancelled at every chunk.
            for exchange in [each for each in self.open_streams if each.is_silent(now, silence)]:
                # In tasks of their own: a client that does not read must not keep the others from hearing something.
                task = asyncio.create_task(exchange.keep_alive(now))
                self._telling.add(task)
                task.add_done_callback(self._telling.discard)


_LONGEST_KEY = LONGEST + len("Bearer ")
_KEY_HEADERS = (b"authorization", b"x-api-key", b"x-goog-api-key", b"x-midstream-provider-key")


def _own_keys(scope: Message) -> dict[str, str]:
    """The keys that a client sent."""
    # A client's key for this gateway should never reach an
    # upstream, but a client may put it into a prompt or a URL, too.
    secrets = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _KEY_HEADERS}
    for pair in scope["query_string"].split(b"&"):
        if pair.startswith(b"key="):
            secrets["key"] = unquote(pair[4:].decode("latin-1"))
    return {name: value for name, value in secrets.items() if 0 < len(value) <= _LONGEST_KEY}
