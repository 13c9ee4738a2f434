"""The MCP servers of a chat or a question: found, started in the background, told of. Loaded where there are any."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ..agent.mcp.configured import ConfiguredServer, ConfiguredServers, configured_servers
from ..agent.mcp.connection import Connection
from ..agent.mcp.offer import Offer
from ..agent.mcp.servers import McpServers, allow_patterns
from ..agent.project import Project
from ..client.config import LoadedConfig
from ..client.mcp_server import McpServer
from ..core.plural import pluralize
from ..core.visible import visible
from .view import shortened


class FoundServers:
    """What was found, and what runs of it."""

    def __init__(self, loaded: LoadedConfig, project: Project, *, lazy: bool) -> None:
        self._loaded = loaded
        self.project = project
        self.found = configured_servers(loaded, project)
        self.running = McpServers([placed(server, project) for server in self.found.usable], lazy=lazy)

    def find_again(self) -> ConfiguredServers:
        """Look at the files again, and start servers that may run now and did not."""
        self.found = configured_servers(self._loaded, self.project)
        for server in self.found.usable:
            if server.name not in self.running.connections:
                self.running.add(placed(server, self.project))
        return self.found

    def patterns(self) -> list[str]:
        """The patterns of those tools that their servers' settings allow without asking."""
        return allow_patterns(self.found.usable)

    def greeting(self) -> list[str]:
        """What to say of them at the start."""
        lines = [f"MCP: {visible(problem)}" for problem in self.found.problems]
        if names := [each.server.name for each in self.found.untrusted]:
            where = self.project.shown(self.found.untrusted[0].origin)
            lines.append(
                f"MCP: {where} names {', '.join(names)}, not started: a project's servers are programs of its authors. "
                "/mcp shows them, /mcp trust starts them"
            )
        return lines


def placed(server: McpServer, project: Project) -> McpServer:
    """A server without a folder of its own runs in that of the conversation, and what it offers is kept for that folder."""
    return server if server.cwd or server.url else replace(server, cwd=str(project.folder))


def status_line(name: str, connection: Connection, offer: Offer) -> str:
    """One server, in one line."""
    counts = [
        pluralize(len(items), word)
        for items, word in ((offer.tools, "tool"), (offer.prompts, "prompt"), (offer.resources, "resource"))
        if items or word == "tool"
    ]
    known = "" if connection.state == "ready" else ", from before" if offer.tools else ""
    fault = f": {visible(connection.fault)}" if connection.fault else ""
    described = f" · {connection.described}" if connection.described else ""
    return f"{name}: {connection.state}{fault} · {', '.join(counts)}{known}{described}"


def described(entry: ConfiguredServer, project: Project) -> str:
    """Where a server comes from and what it runs."""
    server = entry.server
    state = "not trusted" if not entry.trusted else "" if server.enabled else "disabled"
    uses = f" · uses {', '.join([f'${name}' for name in server.variables])}" if server.variables else ""
    where = project.shown(entry.origin) if entry.origin else "the command line"
    return visible(f"{server.name}: {state + ' · ' if state else ''}{server.shown}{uses} · from {where}")


def tool_lines(offer: Offer, width: int = 90) -> Sequence[str]:
    """The tools of a server, a line each."""
    return [visible(f"  {each.name}: {shortened(' '.join(each.description.split()), width)}") for each in offer.tools]
