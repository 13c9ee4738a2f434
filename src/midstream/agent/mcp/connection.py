"""One server while it is used: started, asked, watched, restarted when it ends, and ended without a trace.

A task of its own holds the connection, from its start to its end. A server that does not start in its time is given up. One
that ends later, floods, or twice in a row does not answer is started again after a pause, a few times; whoever calls it
meanwhile waits as long as a start may take, never longer. A call is never sent twice, for what it did is not known; unless
the server has forgotten the session, and so did nothing.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec.structs import replace

from ...client.key_store import KeyStore
from ...client.mcp_server import SECRET_PREFIX, McpServer
from ...core.errors import ConfigError, MidstreamError, ToolFailed
from ...core.secret import Secret
from ...core.visible import visible
from ...telemetry import current_telemetry
from ...transport.secrets import Secrets
from ..tool import Content
from . import sdk
from .content import prompt_content, resource_content, result_content
from .http_refusal import refused_words
from .messages import is_invalid, message_of
from .oauth import stored_auth
from .offer import Offer, read_offer
from .process import ServerProcess

if TYPE_CHECKING:
    import httpx2
    from mcp import Client

State: TypeAlias = Literal["idle", "starting", "ready", "restarting", "failed", "closed"]
Progress: TypeAlias = Callable[[str], None]
Sleep: TypeAlias = Callable[[float], Awaitable[None]]

LOAD_SECONDS = 60.0
"""How long the SDK may take to be imported, which is no server's fault."""
MAX_RESTARTS = 3
PAUSE = 0.5
"""Seconds before the first restart; each further one waits twice as long."""
SETTLED = 60.0
"""Seconds after which a server that was restarted counts as a good one again."""
MAX_LOG = 200
MAX_PROBLEMS = 20
MAX_PROGRESS = 10
"""How many times its limit a call may take in all while it reports progress."""
_SUBSCRIBE = 5.0  # seconds for a subscription to be confirmed
_REFRESH = 0.2  # seconds between two readings of a list that changes all the time


class _Forgotten(Exception):
    """The server does not know the session of a request any more."""


class Connection:
    """The connection to one server. `on_offer` is told what it offers; `tell` gets a line for people now and then."""

    def __init__(
        self,
        server: McpServer,
        *,
        on_offer: Callable[[Offer], None],
        tell: Callable[[str], None],
        key_names: Collection[str] = (),
        environ: Mapping[str, str] | None = None,
        auth: httpx2.Auth | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.server = server
        self.state: State = "idle"
        self.fault = ""
        """Why it is not ready."""
        self.described = ""
        """What it calls itself."""
        self.given: tuple[Secret, ...] = ()
        """What it was started with that nobody else may see."""
        self._on_offer = on_offer
        self._tell = tell
        self._key_names = key_names
        self._environ = os.environ if environ is None else environ
        self._auth = auth
        self._sleep = sleep
        self._secrets = Secrets()
        self._lines: deque[str] = deque(maxlen=MAX_LOG)
        self._limit = 0.0
        self._client: Client | None = None
        self._process: ServerProcess | None = None
        self._task: asyncio.Task[None] | None = None
        self._settled: asyncio.Event = asyncio.Event()
        self._broken = asyncio.Event()
        self._changed = asyncio.Event()
        self._why_broken = ""
        self._timeouts = 0
        self._was_ready = False
        self._handshake = False
        self._bad: list[str] = []
        self._status = 0
        self._flood = ""

    @property
    def log(self) -> list[str]:
        """The last lines that it wrote, without secrets that we gave it."""
        # Cleaned when somebody looks: a server may write a hundred thousand lines that nobody reads.
        return [self._clean(visible(line)) for line in self._lines]

    def start(self) -> None:
        """Begin to connect, in the background; nothing if that is under way."""
        if self._task is None or self._task.done():
            self.state, self.fault = "starting", ""
            self._settled.clear()
            self._limit = time.monotonic() + LOAD_SECONDS + self.server.start_timeout
            self._task = asyncio.create_task(self._keep(), name=f"mcp-{self.server.name}")

    async def restart(self) -> None:
        """End it and start it again, whatever state it is in."""
        await self.close()
        self.start()

    async def ready(self) -> None:
        """Until it is connected; ToolFailed if that fails or takes longer than it may."""
        await self._connected()

    async def close(self) -> None:
        """End the connection, and the program with everything it started."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))
        self.state = "closed"
        self._settled.set()

    async def call(self, tool: str, arguments: dict[str, Any], progress: Progress | None = None) -> Content:
        """The result of a tool; ToolFailed says what went wrong."""

        async def ask(client: Client, heard: Any) -> Any:
            return await client.call_tool(tool, arguments, progress_callback=heard)

        return result_content(await self._asked(f"the call of {tool}", ask, progress))

    async def read(self, uri: str) -> Content:
        """A resource."""
        result = await self._asked(f"reading {uri}", lambda client, _: client.read_resource(uri))
        return resource_content(result.contents)

    async def prompt(self, name: str, arguments: dict[str, str]) -> Content:
        """The content of a prompt."""
        result = await self._asked(f"the prompt {name}", lambda client, _: client.get_prompt(name, arguments))
        return prompt_content(result.messages)

    async def _asked(
        self, what: str, ask: Callable[[Client, Any], Awaitable[Any]], progress: Progress | None = None
    ) -> Any:
        try:
            return await self._asked_once(what, ask, progress)
        except _Forgotten:
            # It refused the request because it did not know who asked, so nothing happened yet.
            try:
                return await self._asked_once(what, ask, progress)
            except _Forgotten:
                name = self.server.name
                raise ToolFailed(f"the MCP server {name} refused {what}: it forgets its sessions at once") from None
        finally:
            if (telemetry := current_telemetry()) is not None:
                # A span may hold the result or the failure, and a server may repeat what it was given.
                telemetry.learn(self.given)

    async def _asked_once(
        self, what: str, ask: Callable[[Client, Any], Awaitable[Any]], progress: Progress | None
    ) -> Any:
        client = await self._connected()
        name, limit = self.server.name, self.server.call_timeout
        loop = asyncio.get_running_loop()
        last = loop.time() + limit * MAX_PROGRESS
        deadline = asyncio.timeout(limit)
        reported = False

        async def heard(done: float, total: float | None, message: str | None) -> None:
            nonlocal reported
            reported = True
            # It may have run out this very moment.
            with suppress(RuntimeError):
                deadline.reschedule(min(loop.time() + limit, last))
            if progress is not None:
                progress(self._clean(_progress_line(done, total, message)))

        try:
            async with deadline:
                result = await ask(client, heard)
        except TimeoutError:
            if not deadline.expired():
                raise
            if reported and loop.time() >= last:
                limit *= MAX_PROGRESS
            raise ToolFailed(self._timed_out(what, limit)) from None
        except MidstreamError:
            raise
        except Exception as error:
            # The border of the SDK: errors of the protocol, of HTTP and of validation become words for the model.
            if sdk.is_forgotten(error):
                if client is self._client:
                    self._break(message_of(error))
                raise _Forgotten from None
            if sdk.is_closed(error):
                raise ToolFailed(await self._died(what, error)) from None
            self._timeouts = 0
            did = "gave an answer that cannot be read to" if is_invalid(error) else "refused"
            raise ToolFailed(self._clean(f"the MCP server {name} {did} {what}: {message_of(error)}")) from None
        self._timeouts = 0
        return result

    def _timed_out(self, what: str, limit: float) -> str:
        self._timeouts += 1
        told = f"the MCP server {self.server.name} did not answer {what} within {limit:g} s; the call was cancelled"
        # Once may be a slow page; twice in a row, nothing else will be answered either.
        if self._timeouts >= 2:
            self._break(f"it did not answer {self._timeouts} calls in a row")
            told += ", and the server is started again"
        return told

    async def _died(self, what: str, error: Exception) -> str:
        process = self._process
        if process is not None:
            # The report of its end comes a moment after its output has closed.
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await asyncio.shield(process.gone)
        why = self._flood or message_of(error)
        if process is not None:
            why = process.last_words + self._last_words()
        self._break(why)
        return self._clean(
            f"the MCP server {self.server.name} ended during {what}: {why}. Whether the call had an effect is not known; the "
            "server is started again"
        )

    async def _connected(self) -> Client:
        if self.state == "idle":
            self.start()
        with suppress(TimeoutError):
            # Counted from when it was started, not from when it was asked: nobody waits for the same start twice.
            async with asyncio.timeout(max(0.0, self._limit - time.monotonic())):
                await self._settled.wait()
        if self._client is None:
            fault = self.fault or f"it did not start within {self.server.start_timeout:g} s"
            raise ToolFailed(f"the MCP server {self.server.name} is not available: {fault}")
        return self._client

    async def _keep(self) -> None:
        """Connect, and again after each end, as often as makes sense."""
        restarts = 0
        while True:
            began = time.monotonic()
            was_ready = False
            try:
                await self._live()
                was_ready = True
            except Exception as error:
                # Whatever the SDK or a server comes up with: a server that cannot be used must not end the program.
                was_ready = self._was_ready
                self.fault = self._clean(self._worded(error))
            finally:
                self._client = None
            _heed_cancellation()
            if was_ready and time.monotonic() - began > SETTLED:
                restarts = 0
            # What did not start will not start a moment later either; what ran may have stumbled.
            if not was_ready or restarts >= MAX_RESTARTS:
                self.state = "failed"
                if was_ready:
                    self.fault = f"{self.fault}; it was started {MAX_RESTARTS + 1} times and is given up"
                self._say(f"{self.fault} (/mcp restart {self.server.name} tries again)")
                self._settled.set()
                return
            self.state = "restarting"
            self._settled.clear()
            pause = PAUSE * 2**restarts
            self._limit = time.monotonic() + pause + self.server.start_timeout
            self._say(f"{self.fault}; it is started again")
            await self._sleep(pause)
            restarts += 1

    async def _live(self) -> None:
        """One connection: returns, with `fault` set, when it has ended."""
        self._broken.clear()
        self._changed.clear()
        self._timeouts = 0
        self._was_ready = False
        self._why_broken = self._flood = ""
        await sdk.load()
        server = self._filled()
        # Whoever waits is let go when the time is over, not when the rest of the server has been cleared away.
        giving_up = asyncio.get_running_loop().call_later(server.start_timeout, self._settled.set)
        deadline = asyncio.timeout_at(asyncio.get_running_loop().time() + server.start_timeout)
        try:
            try:
                await self._connect(server, deadline, giving_up)
            except Exception:
                if not self._ended_unasked():
                    raise
                # Older programs may end when they are asked for the newest protocol before anything else.
                self._handshake = True
                await self._connect(server, asyncio.timeout_at(deadline.when()), giving_up)
        finally:
            giving_up.cancel()
            if not self._was_ready:
                self._handshake = False
        self.fault = self._clean(self._why_broken)

    def _ended_unasked(self) -> bool:
        """Whether a program ended without a word before it was asked for anything but its protocol."""
        process = self._process
        return process is not None and not self._handshake and process.gone.done() and process.is_silent

    async def _connect(self, server: McpServer, deadline: asyncio.Timeout, giving_up: asyncio.TimerHandle) -> None:
        auth = self._auth or (await stored_auth(server, self._keep_secret) if server.url else None)
        transport = self._transport(server, auth)
        try:
            async with deadline, sdk.make_client(transport, self._on_message, handshake=self._handshake) as client:
                # Before the list is read: a change in between would be heard by nobody.
                listening = await self._subscribed(client)
                try:
                    offer = await read_offer(client, self.server.start_timeout)
                    deadline.reschedule(None)
                    giving_up.cancel()
                    info = client.server_info
                    self.described = visible(f"{info.name} {info.version}")[:100] if info is not None else ""
                    self._client, self.state, self.fault, self._was_ready = client, "ready", "", True
                    self._take(offer)
                    self._settled.set()
                    _heed_cancellation()
                    await self._until_broken(client)
                finally:
                    for task in listening:
                        task.cancel()
                    await asyncio.gather(*listening, return_exceptions=True)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise ToolFailed(f"it did not start within {server.start_timeout:g} s{self._last_words()}") from None

    async def _until_broken(self, client: Client) -> None:
        """Keep the list up to date until the connection ends."""
        watching = [asyncio.create_task(self._refresh(client)), asyncio.create_task(self._broken.wait())]
        ended: set[asyncio.Future[Any]] = {*watching[:2]}
        if self._process is not None:
            ended.add(self._process.gone)
        try:
            await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
        if self._process is not None and not self._why_broken:
            self._why_broken = self._process.last_words + self._last_words()
        self._why_broken = self._why_broken or "the connection ended"

    async def _refresh(self, client: Client) -> None:
        while True:
            await self._changed.wait()
            # A server that cries change all the time is read now and then.
            await asyncio.sleep(_REFRESH)
            self._changed.clear()
            try:
                async with asyncio.timeout(self.server.start_timeout):
                    offer = await read_offer(client, self.server.start_timeout)
            except TimeoutError:
                self._break("it did not list its tools again")
                return
            except Exception as error:
                # As above: a list that cannot be read is told, and the last good one stays.
                self._note(f"its new list cannot be read: {message_of(error)}")
                if sdk.is_closed(error):
                    self._break(message_of(error))
                    return
                continue
            self._take(offer)

    async def _subscribed(self, client: Client) -> list[asyncio.Task[None]]:
        """The task that hears of changes, where the protocol wants a subscription for that."""
        if not sdk.is_modern(client):
            return []
        heard = asyncio.Event()
        task = asyncio.create_task(self._listen(client, heard))
        with suppress(TimeoutError):
            async with asyncio.timeout(_SUBSCRIBE):
                await heard.wait()
        return [task]

    async def _listen(self, client: Client, heard: asyncio.Event) -> None:
        """Hear of changes; `heard` is set when that has begun, or when it will not."""
        can = client.server_capabilities
        tools, prompts, resources = [
            bool(kind and kind.list_changed) for kind in (can.tools, can.prompts, can.resources)
        ]
        if not (tools or prompts or resources):
            heard.set()
            return
        try:
            async with client.listen(
                tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
            ) as changes:
                heard.set()
                async for _ in changes:
                    self._changed.set()
        except Exception as error:
            # Without a subscription the list is as old as the connection, which is no reason to end it.
            self._note(f"changes of its lists are not heard: {message_of(error)}")
        finally:
            heard.set()

    async def _on_message(self, message: Any) -> None:
        if isinstance(message, Exception):
            self._note(f"(not a message) {message_of(message)}")
            return
        method = str(getattr(message, "method", ""))
        if method.endswith("/list_changed"):
            self._changed.set()
        elif method == "notifications/message":
            self._note(str(getattr(message.params, "data", "")))

    def _transport(self, server: McpServer, auth: httpx2.Auth | None) -> AbstractAsyncContextManager[Any]:
        if server.url:
            self._process = None
            return sdk.http_transport(server, auth, self._bad_tool, self._on_status, self._on_flood)
        self._process = ServerProcess(server, self._note, self._key_names)
        return sdk.stdio_transport(self._process, self._bad_tool, server.start_timeout)

    def _filled(self) -> McpServer:
        """The server with its variables; their values are kept out of everything that is shown."""
        lookup = variable_lookup(self._environ)
        values = {name: found for name in self.server.variables if (found := lookup(name))}
        filled = self.server.filled(lookup)
        self.given = ()
        self._keep_secret(*values.values(), *filled.env.values(), *filled.headers.values())
        return filled

    def _keep_secret(self, *texts: str) -> None:
        """Keep these out of everything that is shown from now on."""
        self.given = tuple(dict.fromkeys([*self.given, *[Secret(text) for text in texts if text]]))
        self._secrets = Secrets({str(number): secret for number, secret in enumerate(self.given)})

    def _on_status(self, status: int) -> None:
        self._status = status

    def _on_flood(self, why: str) -> None:
        self._flood = why

    def _bad_tool(self, problem: str) -> None:
        if len(self._bad) < MAX_PROBLEMS:
            self._bad.append(visible(problem)[:300])

    def _take(self, offer: Offer) -> None:
        bad, self._bad = dict.fromkeys(self._bad), []
        offer = replace(offer, problems=(*offer.problems, *bad)[:MAX_PROBLEMS])
        for problem in offer.problems:
            self._note(problem)
        self._on_offer(offer)

    def _break(self, why: str) -> None:
        """End this connection; whoever asks from now on waits for the next one."""
        self._why_broken = why
        self._broken.set()
        self._client = None
        self._settled.clear()
        self.state = "restarting"
        self._limit = time.monotonic() + self.server.start_timeout

    def _worded(self, error: BaseException) -> str:
        if isinstance(error, ConfigError | ToolFailed):
            # Whoever shows a fault says whose it is.
            return str(error).removeprefix(f"MCP server {self.server.name}: ")
        if self._process is not None and self._process.gone.done():
            return f"{self._process.last_words} before it had started{self._last_words()}"
        if self._flood:
            return self._flood
        if self._process is None and self._status in (401, 403):
            return refused_words(self.server, self._status)
        failed = "its connection broke" if self._was_ready else "it could not be connected"
        return f"{failed}: {message_of(error)}"

    def _last_words(self) -> str:
        """The last thing that it said, which is often the reason."""
        process = self._process
        said = "" if process is None or process.fault else process.last_error
        return f" (its last words: {visible(said)[:160]})" if said else ""

    def _note(self, line: str) -> None:
        self._lines.append(line[:500])

    def _say(self, text: str) -> None:
        self._tell(f"MCP server {self.server.name}: {text}")

    def _clean(self, text: str) -> str:
        return self._secrets.scrub_text(text)


def variable_lookup(environ: Mapping[str, str]) -> Callable[[str], str | None]:
    """Finds what `${NAME}` stands for in a server's settings: a variable, or a secret that was stored."""
    keys = KeyStore(environ)

    def lookup(name: str) -> str | None:
        if name in environ:
            return environ[name]
        stored = keys.get(f"{SECRET_PREFIX}{name}")
        return None if stored is None else stored.reveal()

    return lookup


def _heed_cancellation() -> None:
    """Raise if this task was told to end: a cancellation that meets one of anyio's own, while the SDK clears a connection
    away, is taken for it and only counted."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _progress_line(done: float, total: float | None, message: str | None) -> str:
    share = f"{done:g} of {total:g}" if total else f"{done:g}"
    return visible(f"{share}: {message}" if message else share)[:200]
