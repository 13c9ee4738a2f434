"""The MCP servers of an agent: `McpServers` starts them, gives a Toolbox their tools, and ends them.

    async with McpServers([McpServer("time", command=["uvx", "mcp-server-time"])]) as servers:
        agent = Agent(session, Toolbox(["read_file", servers], approve=approval))

Tools are there at once if the server was used before with the same configuration; otherwise the first run waits for the
server, as long as it may take to start and never longer. What a server offers may change at any time: a Toolbox asks anew
before each request to a model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from ...client.mcp_server import McpServer
from ...core.errors import ConfigError, LocalError
from ...core.refs import MAX_SIZE
from ...core.tools import ToolSpec
from ..processes import known_key_names
from ..progress import progress_listener
from ..tool import Content, Tool
from .connection import Connection
from .offer import Offer, OfferedPrompt, OfferedResource, OfferedTool, canonical_name, fits
from .offer_cache import OfferCache

PREFIX = "mcp__"
MAX_NOTICES = 100
# Requests have a limit for what all schemas grow by together; half of it is left to other tools.
_GROWTH = MAX_SIZE // 2


class McpServers:
    """Servers that run together. `lazy`: one whose tools are known from before is started at its first use.

    `tell` gets lines for people (a server ended, a list changed); without it they are kept for `take_notices`. What it raises is
    raised by the next look at the tools: it is neither the server's fault nor the model's business.
    """

    def __init__(
        self,
        servers: Iterable[McpServer],
        *,
        lazy: bool = False,
        cache: OfferCache | None = None,
        key_names: Collection[str] | None = None,
        environ: Mapping[str, str] | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self._lazy = lazy
        self._cache = cache or OfferCache()
        self._key_names = key_names
        self._environ = environ
        self._listener = tell or self._keep_notice
        self._fault: Exception | None = None  # what `tell` raised
        self._notices: list[str] = []
        self._offers: dict[str, Offer] = {}
        self._tools: tuple[Tool, ...] | None = None
        self.connections: dict[str, Connection] = {}
        """Each server's connection, by its name."""
        self._waited: set[str] = set()
        for server in servers:
            if server.checked().name in self.connections:
                raise ConfigError(f"two MCP servers are named {server.name!r}")
            if server.enabled:
                self._connect(server)

    async def __aenter__(self) -> McpServers:
        for name, connection in self.connections.items():
            if not (self._lazy and name in self._offers):
                connection.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.gather(*[each.close() for each in self.connections.values()])

    def add(self, server: McpServer) -> None:
        """One more server, started now."""
        self._connect(server.checked())
        self._tools = None
        self.connections[server.name].start()

    @property
    def servers(self) -> list[McpServer]:
        return [each.server for each in self.connections.values()]

    def tools(self) -> tuple[Tool, ...]:
        """The tools that the servers offer now, as `mcp__server__tool`."""
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault
        if self._tools is None:
            self._tools = tuple(self._made())
        return self._tools

    def offer(self, name: str) -> Offer:
        """What a server offers, as far as is known."""
        return self._offers.get(name, Offer())

    async def ready(self) -> None:
        """Until every server's tools are known, or its time to start is over. Each is waited for once: a server that hangs
        does not hold up every turn."""
        unknown = [
            each
            for name, each in self.connections.items()
            if name not in self._offers and name not in self._waited and each.state in ("starting", "restarting")
        ]
        if unknown:
            await asyncio.gather(*[each.ready() for each in unknown], return_exceptions=True)
            # Only now: whoever asks meanwhile has to wait as well, or its turn would be without these tools.
            self._waited |= {each.server.name for each in unknown}

    async def restart(self, name: str) -> None:
        """Start a server again."""
        self._waited.discard(name)
        await self._connection(name).restart()

    async def read(self, server: str, uri: str) -> Content:
        """A resource of a server."""
        return await self._connection(server).read(uri)

    async def prompt(self, server: str, name: str, arguments: dict[str, str]) -> Content:
        """A prompt of a server, with its arguments filled in."""
        return await self._connection(server).prompt(name, arguments)

    def prompts(self) -> dict[str, tuple[str, OfferedPrompt]]:
        """The prompts of all servers by `mcp__server__prompt`, each with its server's name."""
        return {
            canonical_name(server, each.name): (server, each)
            for server, offer in self._offers.items()
            for each in offer.prompts
        }

    def resources(self) -> list[tuple[str, OfferedResource]]:
        """The resources of all servers, each with its server's name."""
        return [(server, each) for server, offer in self._offers.items() for each in offer.resources]

    def take_notices(self) -> list[str]:
        """What people should know and were not told yet."""
        taken, self._notices = self._notices, []
        return taken

    def _connect(self, server: McpServer) -> None:
        if self._key_names is None:
            self._key_names = known_key_names(".")
        cached = self._cache.get(server)
        if cached is not None:
            self._offers[server.name] = cached
        self.connections[server.name] = Connection(
            server,
            on_offer=partial(self._take, server),
            tell=self._tell,
            key_names=self._key_names,
            environ=self._environ,
        )

    def _connection(self, name: str) -> Connection:
        found = self.connections.get(name)
        if found is None:
            raise LocalError(f"no MCP server {name!r}; there are: {', '.join(self.connections) or 'none'}")
        return found

    def _take(self, server: McpServer, offer: Offer) -> None:
        before = self._offers.get(server.name)
        if before == offer:
            return
        self._offers[server.name] = offer
        self._tools = None
        self._cache.put(server, offer)
        known = set() if before is None else set(before.problems)
        for problem in offer.problems:
            if problem not in known:
                self._tell(f"MCP server {server.name}: {problem}")
        if before is not None and (changed := _changed(before, offer)):
            self._tell(f"MCP server {server.name}: its tools have changed: {changed}")

    def _made(self) -> Iterable[Tool]:
        grown = 0
        names: set[str] = set()
        for name, connection in self.connections.items():
            server = connection.server
            for each in self.offer(name).tools:
                if server.tools is not None and not fits(each.name, server.tools):
                    continue
                grown += each.growth
                described = each if grown <= _GROWTH else OfferedTool(each.name, each.description, {"type": "object"})
                made = _tool(connection, described)
                # A cached offer is anybody's file by now: two names that meet must not break the toolbox.
                if made.name not in names:
                    names.add(made.name)
                    yield made

    def _tell(self, text: str) -> None:
        try:
            self._listener(text)
        except Exception as error:  # the program's own code, called in the middle of a server's
            self._fault = self._fault or error

    def _keep_notice(self, text: str) -> None:
        # A server that stumbles for hours must not fill the memory with it.
        self._notices = [*self._notices[1 - MAX_NOTICES :], text]


def allow_patterns(servers: Sequence[McpServer]) -> list[str]:
    """The patterns of the allow-list that the `allow` of servers means."""
    return [
        f"{PREFIX}{server.name}__{each}" if each.endswith("*") else canonical_name(server.name, each)
        for server in servers
        for each in server.allow
    ]


def _tool(connection: Connection, offered: OfferedTool) -> Tool:
    server = connection.server

    async def call(**arguments: Any) -> Content:
        return await connection.call(offered.name, arguments, progress_listener())

    spec = ToolSpec(canonical_name(server.name, offered.name), offered.description, offered.schema)
    return Tool(
        spec,
        call,
        # A server's word that a tool only reads is not taken for it: every call is asked about, unless a pattern allows it.
        writes=True,
        parallel_safe=offered.read_only,
        # The connection limits its own time, since only it knows about progress.
        timeout=None,
    )


def _changed(before: Offer, after: Offer) -> str:
    old, new = {each.name for each in before.tools}, {each.name for each in after.tools}
    parts = [f"+{name}" for name in sorted(new - old)] + [f"-{name}" for name in sorted(old - new)]
    return ", ".join([part[:80] for part in parts[:8]]) + (f" and {len(parts) - 8} more" if len(parts) > 8 else "")
