"""Commands about MCP servers: how they are, what they offer, what they wrote; and their prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.errors import LocalError
from ..slash import Words, command

if TYPE_CHECKING:
    from ..chat import Chat

_WORDS = ("tools", "resources", "prompts", "log", "restart", "trust")


def _words(chat: Chat) -> Words:
    return [(word, "") for word in _WORDS]


@command(
    "/mcp [tools|resources|prompts|log|restart [NAME]|trust]",
    "show the MCP servers, what they offer and what they wrote; restart one; trust the project's",
    _words,
)
async def _mcp(chat: Chat, rest: str) -> None:
    from ..mcp_servers import described, status_line, tool_lines  # most chats have no servers

    word, _, name = rest.partition(" ")
    name = name.strip()
    if word == "trust":
        await _trust(chat)
        return
    servers = chat.workspace.mcp
    if servers is None:
        chat.view.notice(
            "no MCP servers; [mcp.NAME] in config.toml or a project's .mcp.json names some (docs/mcp.md), and the tool `mcp` "
            "must be in use (-T mcp, -T all)"
        )
        return
    running = servers.running
    names = [name] if name else list(running.connections)
    if name and name not in running.connections:
        raise LocalError(f"no MCP server {name!r} is in use; there are: {', '.join(running.connections) or 'none'}")
    if word in ("tools", "resources", "prompts"):
        # A server that is just starting has not said yet what it offers.
        await running.ready()
    if not word:
        for each in names:
            chat.view.notice(f"  {status_line(each, running.connections[each], running.offer(each))}")
        for entry in servers.found.found:
            if entry.server.name not in running.connections:
                chat.view.notice(f"  {described(entry, servers.project)}")
    elif word == "tools":
        for each in names:
            chat.view.notice(f"{each}:", *(tool_lines(running.offer(each)) or ["  no tools"]))
    elif word == "resources":
        chat.view.notice(
            *[f"  @{server}:{each.uri} {each.name}" for server, each in running.resources()] or ["no resources"]
        )
    elif word == "prompts":
        lines = [
            f"  /{called} {' '.join([each.name for each in prompt.arguments])}: {prompt.description}"
            for called, (_, prompt) in running.prompts().items()
        ]
        chat.view.notice(*lines or ["no prompts"])
    elif word == "log":
        for each in names:
            chat.view.notice(
                f"{each}:", *[f"  {line}" for line in running.connections[each].log] or ["  nothing was written"]
            )
    elif word == "restart" and name:
        await running.restart(name)
        chat.view.notice(f"{name} is started again")
    else:
        raise LocalError(f"invalid /mcp {rest!r}; expected {', '.join(_WORDS)}, and for restart a name")


async def _trust(chat: Chat) -> None:
    from ...agent.mcp.configured import trust
    from ..mcp_servers import described

    workspace = chat.workspace
    servers = await workspace.open_mcp(always=True)
    assert servers is not None
    shown = servers.found
    waiting = shown.untrusted
    if not waiting:
        raise LocalError("there is nothing to trust: no .mcp.json here names servers that are not trusted")
    chat.view.notice(*[f"  {described(each, servers.project)}" for each in waiting])
    if not chat.interactive:
        # Lines from a pipe may be anybody's text, and this would run programs.
        raise LocalError("nobody is there to be asked; `midstream mcp trust` trusts them from a shell")
    if (await chat.ask("Start these programs here, now and in later chats? [y]es, [n]o: ")).lower() not in ("y", "yes"):
        chat.view.notice("not trusted; nothing was started")
        return
    path = trust(servers.project, shown.digest)
    servers.find_again()
    chat.view.notice(f"trusted: {path} as it is now; its servers are being started")
