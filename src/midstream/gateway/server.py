"""The gateway's server: uvicorn on one socket, in this process or in several that are watched over.

SIGTERM and SIGINT drain: nothing new is accepted, what is open may finish within `drain` seconds and is then cancelled, and
the exit code is 0. A second signal cancels at once. SIGHUP calls the application's `reload()`.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from math import inf
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import msgspec
import uvicorn

from ..core.errors import LocalError
from .protocol import App, EngineState, GatewayProtocol, Limits

log = logging.getLogger("midstream.gateway")

_GRACE = 5.0  # what a cancelled request may take to clean up
_FLUSH = 1.0  # what the last bytes of answers may take to leave
_UNSENT = 32 * 1024  # bytes of an answer that the kernel keeps before the network takes them
_QUICK = 5.0  # a worker that lived shorter than this did not work
_QUICK_DEATHS = 5
_LONGEST_WAIT = 30.0


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how to serve."""

    host: str = "127.0.0.1"
    port: int = 8080
    limits: Limits = Limits()
    drain: float = 30.0
    """Seconds that open answers get when the server is told to end."""
    workers: int = 1
    backlog: int = 2048
    loop: str = "auto"
    """`auto` is uvloop where it is installed; `asyncio` or `uvloop`."""


class Server(uvicorn.Server):
    """One process's server."""

    def __init__(
        self,
        app: App,
        options: ServerOptions,
        *,
        ready: Callable[[str], None] | None = None,
        refused: Callable[[int], None] | None = None,
        parent: int | None = None,
        every_second: Callable[[], None] | None = None,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=GatewayProtocol,
            ws="none",
            loop=options.loop,
            lifespan="on",
            interface="asgi3",
            log_config=None,
            access_log=False,
            # Whoever is not behind a proxy could otherwise be told any client address by its clients.
            proxy_headers=False,
            server_header=False,
            backlog=options.backlog,
        )
        super().__init__(config)
        self.options = options
        self.state = self.server_state = EngineState(options.limits, refused)
        self.owns_process = False
        self.stuck = False
        self._app = app
        self._ready = ready
        self._parent = parent
        self._every_second = every_second
        self._reloading: set[asyncio.Task[None]] = set()
        shortest = min(
            options.limits.head_time, options.limits.body_time, options.limits.write_time, options.limits.idle_time
        )
        self._sweep_every = 1 if shortest < 5 else 5  # ticks

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.owns_process:
            # What was loaded lives as long as the process: the collector need not walk it again and again.
            gc.collect()
            gc.freeze()
        if self._ready is not None and sockets:
            self._ready(address_of(sockets[0]))

    async def on_tick(self, counter: int) -> bool:
        if counter % self._sweep_every == 0:
            self.sweep()
        # A killed parent cannot tell its workers; orphans would hold the port.
        if self._parent is not None and os.getppid() != self._parent:
            log.error("the process that watches over this worker is gone: draining")
            self.should_exit = True
        end = await super().on_tick(counter)
        if counter % 10 == 0:  # uvicorn has just made a new date
            self.state.default_head = b"".join([b"%b: %b\r\n" % header for header in self.state.default_headers])
            if self._every_second is not None:
                self._every_second()
        return end

    def sweep(self) -> None:
        """End what has run out of time."""
        now = self.state.clock()
        # uvicorn types its connections as its own protocols; all of these are ours.
        late = [each for each in self.state.connections if each.expires < now or each.write_expires < now]  # type: ignore[union-attr]
        for connection in late:
            connection.expire(now)  # type: ignore[union-attr]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        state = self.state
        # The order of an end: accept nothing, close what is idle, wait, cancel, flush, abort. Each step is bounded,
        # and a second signal skips the waiting (`force_exit`).
        state.draining = True
        for server in self.servers:
            server.close()
        for sock in sockets or []:
            sock.close()
        for connection in list(state.connections):
            connection.shutdown()
        loop = asyncio.get_running_loop()
        if await self._wait(lambda: not state.connections and not state.tasks, loop.time() + self.options.drain):
            log.info("drained")
        else:
            log.warning("ending %d open answers", len(state.tasks))
        tasks = set(state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=_GRACE)
            self.stuck = bool(left)
        for connection in list(state.connections):
            connection.shutdown()
        # It has done its work; the last bytes may still leave.
        self.force_exit = False
        await self._wait(lambda: not state.connections, loop.time() + _FLUSH)
        for connection in list(state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # the transports tell their protocols
        for reloading in self._reloading:
            reloading.cancel()
        await asyncio.gather(*self._reloading, return_exceptions=True)
        try:
            async with asyncio.timeout(_GRACE):
                await self.lifespan.shutdown()
        except TimeoutError:
            log.error("the application did not end within %g s", _GRACE)
            self.stuck = True

    async def _wait(self, until: Callable[[], bool], deadline: float) -> bool:
        loop = asyncio.get_running_loop()
        while not until():
            if self.force_exit or loop.time() >= deadline:
                return False
            self.sweep()
            # Polled: connections end in many places, and a drain happens once in a process's life.
            await asyncio.sleep(0.02)
        return True

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        ends = [signal.SIGTERM] if self._parent is not None else [signal.SIGTERM, signal.SIGINT]
        hooks: list[tuple[int, Callable[[], object]]] = [(each, partial(self.handle_exit, each, None)) for each in ends]
        if hasattr(signal, "SIGHUP"):
            hooks.append((signal.SIGHUP, self.reload))
        before = {number: signal.getsignal(number) for number, _ in hooks}
        if self._parent is not None:
            # A terminal sends it to every process of the group; the parent tells its workers itself.
            before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number, hook in hooks:
            loop.add_signal_handler(number, hook)
        try:
            yield
        finally:
            for number, _ in hooks:
                loop.remove_signal_handler(number)
            for number, handler in before.items():
                signal.signal(number, handler)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().serve(sockets)
        except asyncio.CancelledError:
            # The loop ends, or the program around it has had enough: uvicorn would leave sockets and the application open.
            self.force_exit = True
            if self.started:
                await self.shutdown(sockets)
            for sock in sockets or []:
                sock.close()
            raise
        if self.stuck and self.owns_process:
            log.error("some requests do not let themselves be cancelled: ending without them")
            logging.shutdown()
            sys.stdout.flush()
            os._exit(1)  # the loop would wait for them for ever

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True

    def reload(self) -> None:
        """Ask the application to read its configuration again; a failure leaves it as it was."""
        task = asyncio.get_running_loop().create_task(self._reload())
        self._reloading.add(task)
        task.add_done_callback(self._reloading.discard)

    async def _reload(self) -> None:
        hook = getattr(self._app, "reload", None)
        if hook is None:
            log.info("SIGHUP: there is nothing to reload")
            return
        try:
            result = hook()
            if inspect.isawaitable(result):
                await result
        except Exception as error:  # the edge: what is being served must not end because of a mistake in a file
            log.error("not reloaded: %s", error)
        else:
            log.info("reloaded")


def bind(options: ServerOptions) -> socket.socket:
    """A listening socket on the address asked for."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            if os.name == "posix":
                # A restart must not wait for old connections to time out. Not
                # on Windows, where it lets another program take the port.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                # Otherwise the kernel hoards megabytes for a client that does not read, and it takes minutes to notice.
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
            listener.bind(address)
            listener.listen(options.backlog)
            listener.setblocking(False)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        where = f"{options.host}:{options.port}"
        raise LocalError(
            f"cannot listen on {where}: {error.strerror or error}; choose another with --host or --port"
        ) from None
    return listener


def address_of(listener: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    app: App,
    options: ServerOptions,
    *,
    ready: Callable[[str], None] | None = None,
    refused: Callable[[int], None] | None = None,
    listener: socket.socket | None = None,
) -> int:
    """Serve in this process until a signal comes. Gives the exit code.

    `ready` is told the URL, `refused` the status of each request that is refused before the application sees it. If the
    application has a method `reload`, SIGHUP calls it (and awaits what it gives).
    """
    refused = refused or getattr(app, "refused", None)
    return _run(Server(app, options, ready=ready, refused=refused), listener or bind(options))


def _run(server: Server, listener: socket.socket) -> int:
    server.owns_process = True
    try:
        server.run([listener])
    except SystemExit as end:  # uvicorn's word for a start that failed
        return end.code if isinstance(end.code, int) else 1
    finally:
        listener.close()
    return 0


def serve_workers(
    factory: Callable[[], App],
    options: ServerOptions,
    *,
    ready: Callable[[str], None] | None = None,
) -> int:
    """Serve in `options.workers` processes that share one socket. Gives the exit code.

    Each worker is a fresh process and makes its application with `factory`, which must therefore be importable: a function of
    a module, or a `functools.partial` of one with plain values. If the application has `metrics`, the workers share them. A worker that dies is replaced, later each time it dies early;
    when none stays alive, the server gives up.
    """
    listener = bind(options)
    try:
        return Supervisor(factory, options, listener, ready).run()
    finally:
        listener.close()


class Supervisor:
    """Keeps the workers alive, and passes signals on."""

    def __init__(
        self,
        factory: Callable[[], App],
        options: ServerOptions,
        listener: socket.socket,
        ready: Callable[[str], None] | None,
    ) -> None:
        self._factory = factory
        self._options = options
        self._listener = listener
        self._ready = ready
        # Not fork: threads and event loops do not survive it.
        self._context = multiprocessing.get_context("spawn")
        self._workers: dict[int, _Worker] = {}
        self._signals = 0
        self._failed = False

    def run(self) -> int:
        # A signal handler may do little; a byte here wakes the loop below at once.
        wake, waker = socket.socketpair()
        with ExitStack() as stack:
            for each in (wake, waker, self._handlers(waker)):
                stack.enter_context(each)
            wake.setblocking(False)
            self._workers = {number: _Worker() for number in range(self._options.workers)}
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="midstream-gateway-")))
            give_up = inf
            asked = 0
            ready = self._ready
            try:
                while not self._signals or any(each.process for each in self._workers.values()):
                    now = time.monotonic()
                    if not self._signals:
                        for number, worker in self._workers.items():
                            if worker.process is None and worker.start_at <= now:
                                self._start(number, worker, folder)
                    elif asked < self._signals:
                        asked = self._signals
                        # What a worker may take at most by its own rules; after that it hangs.
                        give_up = now + (self._options.drain if asked == 1 else 0) + 2 * _GRACE + _FLUSH
                        self._tell(signal.SIGTERM)
                    if now > give_up:
                        for worker in self._workers.values():
                            if worker.process is not None:
                                worker.process.kill()
                    wait(
                        [wake, *(each.process.sentinel for each in self._workers.values() if each.process)], timeout=0.2
                    )
                    with suppress(BlockingIOError):
                        wake.recv(4096)
                    self._bury()
                    if ready is not None and all(each.is_ready for each in self._workers.values()):
                        ready(address_of(self._listener))
                        ready = None  # told once
            finally:
                for worker in self._workers.values():
                    if worker.process is not None:
                        worker.process.kill()
                        worker.process.join()
        return 1 if self._failed else 0

    def _start(self, number: int, worker: _Worker, folder: Path) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_work,
            args=(self._factory, self._options, self._listener, theirs, os.getpid(), folder, number),
            name=f"midstream-gateway-{number}",
        )
        process.start()
        theirs.close()
        worker.process, worker.ready, worker.started = process, ours, time.monotonic()

    def _bury(self) -> None:
        for number, worker in self._workers.items():
            process = worker.process
            if process is None or process.is_alive():
                continue
            process.join()
            code = process.exitcode
            process.close()
            worker.process = None
            worker.close()
            if self._signals:
                continue
            lived = time.monotonic() - worker.started
            # Only deaths right after the start count together: they mean that the next will die as well.
            worker.quick_deaths = worker.quick_deaths + 1 if lived < _QUICK else 1
            delay = min(_LONGEST_WAIT, 0.25 * 2 ** (worker.quick_deaths - 1))
            worker.start_at = time.monotonic() + delay
            log.error("worker %d ended with code %s after %.1f s; the next starts in %g s", number, code, lived, delay)
            # All of them: one that works is worth keeping.
            if all(each.quick_deaths >= _QUICK_DEATHS for each in self._workers.values()):
                log.error("no worker stays alive: giving up")
                self._failed = True
                self._signals = max(self._signals, 1)

    def _tell(self, number: int) -> None:
        for worker in self._workers.values():
            if worker.process is not None and worker.process.is_alive() and worker.process.pid:
                os.kill(worker.process.pid, number)

    @contextmanager
    def _handlers(self, waker: socket.socket) -> Generator[None, None, None]:
        def end(number: int, frame: FrameType | None) -> None:
            self._signals += 1
            waker.send(b"x")

        def reload(number: int, frame: FrameType | None) -> None:
            self._tell(number)

        numbers = {signal.SIGTERM: end, signal.SIGINT: end}
        if hasattr(signal, "SIGHUP"):
            numbers[signal.SIGHUP] = reload
        before = {number: signal.signal(number, handler) for number, handler in numbers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class _Worker:
    """One place for a worker, and who is in it."""

    def __init__(self) -> None:
        self.process: Any = None
        self.ready: Any = None
        self.started = 0.0
        self.start_at = 0.0
        self.quick_deaths = 0
        self._is_ready = False

    @property
    def is_ready(self) -> bool:
        if not self._is_ready and self.ready is not None and self.process is not None:
            try:
                self._is_ready = self.ready.poll() and bool(self.ready.recv())
            except (EOFError, OSError):
                pass  # it died; _bury sees it
        return self._is_ready

    def close(self) -> None:
        self._is_ready = False
        if self.ready is not None:
            self.ready.close()
            self.ready = None


def _work(
    factory: Callable[[], App],
    options: ServerOptions,
    listener: socket.socket,
    ready: Any,
    parent: int,
    folder: Path,
    number: int,
) -> None:
    """A worker's whole life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to reload

    def tell(url: str) -> None:
        ready.send(True)
        ready.close()

    app = factory()
    metrics = getattr(app, "metrics", None)
    if metrics is not None:
        metrics.share(folder, number)
    server = Server(
        app,
        options,
        ready=tell,
        refused=getattr(app, "refused", None),
        parent=parent,
        every_second=None if metrics is None else metrics.save,
    )
    sys.exit(_run(server, listener))
