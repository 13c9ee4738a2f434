"""A gateway made from its configuration, as a server runs it: the parts are opened at the start and closed at the end.

`make_app` is importable and takes plain values, so that each worker process can make its own. Without any provider's key and
without aliases, the doubles of `midstream.sim` are started on loopback, and their models are served.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ..client.catalog import Catalog
from ..client.client import Client
from ..core.blocks import Usage
from ..core.errors import MidstreamError, StoreError, Unauthorized
from ..core.handoff import summarize_notes
from ..recording.recorder import Recorder
from ..recording.scrub import Scrub
from ..sim.providers import SIM, sim_providers
from ..sim.server import Sim
from ..store import open_store
from ..transport import Transport, TransportOptions
from ..web.guard import Guard, Visitor
from ..web.lifespan import run_lifespan
from ..web.traffic import Traffic, TrafficLimits, TrafficTap
from .access_log import AccessLog, LogFormat, RequestRecord
from .app import Gateway, Send, Settings
from .body import Message, Receive
from .config import GatewayConfig, load_config
from .exchange import Exchange
from .limits import SYNC_EVERY, Limiter
from .live import LiveTraffic
from .metrics import Metrics
from .refusals import Refusal
from .routing import Router, tell_unpriced
from .seal import Sealer
from .state import GatewayState, UsageRow, open_state
from .tenants import Authenticator
from .tracing import start_tracing
from .vault import Vault

if TYPE_CHECKING:
    from ..web.app import WebApp

log = logging.getLogger("midstream.gateway")

WIRES = ("openai-chat", "openai-responses", "anthropic", "gemini")
_DAY = 86_400.0
_HOURLY = 3_600.0
_FLUSH_EVERY = 1.0
_UNUSED = 1_000  # connections to hosts that wait for the next request
_UNWRITTEN = 100_000
"""Rows of the usage log that wait while the database is away; what comes after them is lost, and counted."""


class AppOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a process needs to know to make its gateway."""

    config: Path | None = None
    state: str | None = None
    """Where state is kept (`open_state`); None for memory."""
    loopback: bool = True
    shared: bool = False
    """Whether other processes use the same state, so that limits must be shared."""
    sim: bool = False
    """Serve the doubles."""
    record: str = ""
    """Record every exchange with a host in this folder; empty: as the configuration says."""
    page: bool = True
    """Whether the page may be served. One of several processes must not: each would know only a part."""
    hosts: tuple[str, ...] = ()
    """Names under which browsers reach the page, in addition to those of this machine and of the configuration."""
    log_format: LogFormat = "none"
    log_fd: int = 1


def make_app(options: AppOptions) -> GatewayApp:
    """The application of one process."""
    return GatewayApp(load_config(options.config), options)


class GatewayApp:
    """The ASGI application. `gateway` is there between start and end."""

    def __init__(
        self,
        config: GatewayConfig,
        options: AppOptions | None = None,
        *,
        catalog: Catalog | None = None,
        transport: TransportOptions | None = None,
    ) -> None:
        self.config = config
        self.options = options or AppOptions()
        self.gateway: Gateway | None = None
        self.state: GatewayState | None = None
        self.metrics = Metrics(wires=WIRES)
        self._hosts = (*config.page.hosts, *self.options.hosts)
        self.guard = Guard(hosts=self._hosts, identify=self._identify)
        self._catalog = catalog
        self._transport = transport
        self._log: AccessLog | None = None
        # Closed in the reverse order of opening, so that what writes at its end (usage, spend) still has a database.
        self._stack = AsyncExitStack()
        self._tracing = start_tracing()
        self._rows: list[UsageRow] = []
        self.lost_rows = 0

    # A coroutine function, although it costs a frame: other ASGI servers ask for that to tell the version of the interface.
    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self.gateway is not None:
            await self.gateway(scope, receive, send)
        elif scope["type"] == "lifespan":
            await run_lifespan(receive, send, self._start, self.close)

    def refused(self, status: int) -> None:
        """A request that the server refused before it came here."""
        self.metrics.refused(status)

    def reload(self) -> None:
        """Read the configuration again. What is under way goes on as it began; ConfigError leaves all as it was."""
        if self.gateway is None or self.options.config is None:
            return
        config = load_config(self.options.config)
        self.gateway.router.replace(config)
        self.gateway.authenticator.reconfigure(config.keys)
        self.gateway.settings = settings_of(config)
        self.gateway.limiter.max_in_flight = config.server.max_in_flight
        self.gateway.forget_prices()
        if told := tell_unpriced(self.gateway.router):
            log.warning("%s", told)
        self.metrics.know(self.gateway.router.targets())
        # Sockets, files and keys of these sections are open already; telling is better than half applying.
        later = [
            f"[{name}]"
            for name in ("server", "state", "vault", "page")
            if getattr(config, name) != getattr(self.config, name)
        ]
        if later:
            log.warning("%s changed too: restart the gateway to apply that", " and ".join(later))
        self.config = config

    async def open(self) -> Gateway:
        """Open all parts. Used by the server at its start, and by tests."""
        config, options, stack = self.config, self.options, self._stack
        try:
            state = self.state = open_state(options.state)
            # First, since the sealer, the keys and the limits are read from it.
            stack.push_async_callback(state.close)
            await state.open()
            catalog = self._catalog or await self._make_catalog()
            # Nothing is remembered: each request brings its whole history,
            # and a cache of all clients' histories would only grow.
            folder = options.record or config.server.record
            scrub = Scrub(patterns=config.server.record_scrub)
            recorder = Recorder(folder, scrub=scrub) if folder else None
            transport = Transport(self._transport or catalog.transport_options(TransportOptions(max_unused=_UNUSED)))
            client = Client(catalog, transport=transport, remember=False, telemetry=False, recorder=recorder)
            stack.push_async_callback(client.aclose)
            sealer = Sealer() if config.vault.seal else None
            if sealer is not None:
                await sealer.refresh(state, time.time())
            vault = Vault(state, keep=config.vault.keep_days * _DAY) if config.vault.enabled else None
            router = Router(config, catalog)
            limiter = Limiter(state, shared=options.shared, max_in_flight=config.server.max_in_flight)
            authenticator = Authenticator(state, config.keys, loopback=options.loopback, hosts=self._hosts)
            await authenticator.refresh()
            live = self._make_live(authenticator)

            if live is not None:
                transport.tap = TrafficTap(live.traffic, beside=recorder)
            self._log = AccessLog(options.log_fd, options.log_format)
            gateway = Gateway(
                client=client,
                router=router,
                authenticator=authenticator,
                limiter=limiter,
                state=state,
                sealer=sealer,
                vault=vault,
                settings=settings_of(config),
                metrics=self.metrics,
                finished=self._finished,
                refused=self._noted,
                keep_contents=self._tracing is not None and self._tracing.contents,
                live=live,
                make_page=self._make_page if config.page.enabled and options.page else None,
            )
        # Half a gateway is closed again, or a failed start would leave connections and a file lock behind.
        except BaseException:
            await stack.aclose()
            raise
        self.metrics.know(router.targets())
        self.metrics.gauge("midstream_open_streams", "Streams that are open.", lambda: len(gateway.open_streams))
        self.metrics.gauge("midstream_in_flight", "Requests in progress.", lambda: limiter.in_flight)
        tasks = [
            gateway.keep_company(),
            # What need not be exact at every moment is done by the clock, off the path of requests.
            _every(SYNC_EVERY, limiter.sync),
            _every(SYNC_EVERY, authenticator.refresh),
            _every(_FLUSH_EVERY, self._write_usage),
            _every(_HOURLY, lambda: state.sweep(time.time())),
        ]
        if sealer is not None:
            tasks.append(_every(_HOURLY, lambda: sealer.refresh(state, time.time())))
        stack.push_async_callback(self._end, tasks, limiter)
        self.gateway = gateway
        return gateway

    async def close(self) -> None:
        await self._stack.aclose()
        if self._log is not None:
            self._log.close()
        self.gateway = None

    async def __aenter__(self) -> Gateway:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _end(self, tasks: list[asyncio.Task[None]], limiter: Limiter) -> None:
        for task in tasks:
            task.cancel()
        # The periodic tasks first: none may write after the last flush.
        await asyncio.gather(*tasks, return_exceptions=True)
        for last in (limiter.sync, self._write_usage):
            try:
                await last()
            except MidstreamError as error:
                log.error("not all that was used could be written down: %s", error)

    async def _make_catalog(self) -> Catalog:
        if not self.options.sim:
            return Catalog(fixed=True)  # each request asks for the same few models
        sim = await self._stack.enter_async_context(Sim(port=0))
        # Only `sim/…`: what is named by its real provider must never be answered by a double.
        return Catalog(providers=[row for row in sim_providers(sim.url) if row.name == SIM])

    def page_address(self, url: str) -> str:
        """The address of the page for the operator, with a token that works once; "" if there is no page."""
        if not (self.config.page.enabled and self.options.page):
            return ""
        return f"{url}/#token={self.guard.issue_token()}"

    def _make_live(self, authenticator: Authenticator) -> LiveTraffic | None:
        page = self.config.page
        # A gateway that has keys now has them for ever: what is off then by default need not listen at all.
        wanted = authenticator.is_open if page.live is None else page.live
        if not (wanted and page.enabled and self.options.page):
            return None
        limits = TrafficLimits(page.live_count, page.live_mb * 1024 * 1024, page.live_minutes * 60)
        return LiveTraffic(Traffic(limits), authenticator, page.live)

    def _make_page(self, gateway: Gateway) -> WebApp:
        """Made when the first browser comes. Its owner, who has the token, sees what `midstream web` shows."""
        # Starlette, and the tools of an agent: a gateway that nobody looks at needs neither.
        from ..web.app import WebApp
        from ..web.archive import Archive
        from ..web.talk import Talk

        store = open_store()
        self._stack.callback(store.close)
        archive = Archive(store, catalog=gateway.client.catalog)
        self._stack.push_async_callback(archive.close)
        traffic = gateway.live.traffic if gateway.live is not None else None
        talk = Talk(archive, gateway.client, traffic=traffic)
        return WebApp(
            guard=self.guard,
            client=gateway.client,
            archive=archive,
            traffic=traffic,
            talk=talk,
            title="midstream gateway",
        )

    async def _identify(self, scope: Message) -> Visitor:
        """The tenant whose key a visitor has. While no key is needed, only the token opens the page, since nobody could be told apart."""
        gateway = self.gateway
        if gateway is None or gateway.authenticator.is_open:
            raise Unauthorized(
                "open the address that the gateway printed when it started; it ends with the key", status=401
            )
        tenant = await gateway.authenticator.tenant(scope["headers"], b"")
        return Visitor(tenant.id, admin=tenant.key_id in self.config.page.admin_keys)

    async def _start(self) -> None:
        try:
            await self.open()
        except MidstreamError as error:
            log.error("cannot start: %s", error)
            raise

    def _finished(self, exchange: Exchange) -> None:
        record = record_of(exchange)
        self.metrics.add(record)
        if self._tracing is not None:
            self._tracing.add(exchange, record)
        if self._log is not None:
            self._log.add(record)
        # A bound: a database that is away for hours must not fill the memory.
        if len(self._rows) < _UNWRITTEN:
            self._rows.append(_row(record, exchange))
        else:
            self.lost_rows += 1

    def _noted(self, refusal: Refusal) -> None:
        self.metrics.refused(refusal.status)
        if self._log is not None:
            tenant = refusal.tenant
            self._log.add(
                RequestRecord(
                    status=refusal.status,
                    wire=refusal.wire,
                    tenant=tenant.id if tenant is not None else "",
                    key=tenant.key_id if tenant is not None else "",
                    attempts=0,
                    error=refusal.error,
                    path=refusal.path,
                )
            )

    async def _write_usage(self) -> None:
        if self._rows and self.state is not None:
            rows, self._rows = self._rows, []
            try:
                await self.state.log_usage(rows)
            except StoreError:
                # Back to the front, so that the order of the log stays that of the requests.
                self._rows = rows + self._rows
                raise


def settings_of(config: GatewayConfig) -> Settings:
    return Settings(
        max_body=config.server.max_body_mb * 1024 * 1024,
        keep_responses=config.vault.response_days * _DAY,
        own_keys=config.defaults.pass_client_keys,
    )


_NOTHING = Usage()


def record_of(exchange: Exchange) -> RequestRecord:
    """What the log says of a request."""
    now = time.monotonic()
    usage = exchange.usage if exchange.usage is not None else _NOTHING
    request, tenant, target = exchange.request, exchange.tenant, exchange.target
    # Our own server counts bytes; under another one the sizes are unknown and stay 0.
    extension = (exchange.scope.get("extensions") or {}).get("midstream")
    received, sent = extension["traffic"]() if extension is not None else (0, 0)
    return RequestRecord(
        id=exchange.id,
        status=exchange.status,
        wire=exchange.wire,
        tenant=tenant.id,
        key=tenant.key_id,
        asked=exchange.asked,
        model=target.name if target is not None else "",
        stream=exchange.stream,
        input=usage.read,
        output=usage.output,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        # None is "unknown" and stays so; 0 would look like a free answer.
        cost=exchange.cost,
        ttft_ms=None if exchange.first is None else (exchange.first - exchange.began) * 1000,
        duration_ms=(now - exchange.began) * 1000,
        attempts=len(exchange.tried),
        tried=tuple(exchange.tried),
        notes=len(exchange.notes) + (len(request.notes) if request is not None else 0),
        noted=summarize_notes(exchange.all_notes()),
        received=received,
        sent=sent,
        error=exchange.error,
        path=exchange.passed,
    )


def _row(record: RequestRecord, exchange: Exchange) -> UsageRow:
    return UsageRow(
        record.time.timestamp(),
        record.tenant,
        record.key,
        record.model,
        exchange.target.provider if exchange.target is not None else "",
        record.wire,
        record.status,
        record.input,
        record.output,
        record.cache_read,
        record.cache_write,
        None if record.cost is None else round(record.cost * 1_000_000),
        record.duration_ms,
        record.ttft_ms,
    )


def _every(seconds: float, work: Callable[[], Awaitable[object]]) -> asyncio.Task[None]:
    """Do something again and again; what fails is told, and done again the next time."""

    async def repeat() -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except MidstreamError as error:
                log.warning("%s", error)

    return asyncio.create_task(repeat())
