"""What a user types of MCP servers: prompts as slash commands (`/mcp__server__prompt what=this`), mentions of resources."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ..core.blocks import Media, Text
from ..core.errors import LocalError
from .mention import written

if TYPE_CHECKING:
    from .chat import Chat
    from .mcp_servers import FoundServers

PREFIX = "mcp__"
_SHOWN = 200


async def run_prompt(chat: Chat, called: str, rest: str) -> None:
    """Send a prompt of a server: `/mcp__server__prompt what=this`, or its arguments in their order."""
    running = _servers(chat).running
    if called not in running.prompts():
        await running.ready()  # it may be just starting
    found = running.prompts().get(called)
    if found is None:
        raise LocalError(f"no prompt /{called}; /mcp prompts lists them")
    server, prompt = found
    names = [each.name for each in prompt.arguments]
    arguments: dict[str, str] = {}
    for place, word in enumerate(_split(rest)):
        key, equals, value = word.partition("=")
        if equals and key in names:
            arguments[key] = value
        elif place < len(names):
            arguments[names[place]] = word
        else:
            raise LocalError(f"/{called} takes {len(names)} arguments ({', '.join(names)}); quote one that has blanks")
    if missing := [each.name for each in prompt.arguments if each.required and each.name not in arguments]:
        raise LocalError(
            f"/{called} needs {', '.join(missing)}: /{called} {' '.join([f'{name}=…' for name in missing])}"
        )
    content = await running.prompt(server, prompt.name, arguments)
    chat.view.notice(*[f"> {part.text}" if isinstance(part, Text) else f"> [{part.kind}]" for part in content])
    await chat.send(*_joined(content))


def prompt_words(chat: Chat) -> list[tuple[str, str]]:
    """The prompts of servers, for completion."""
    servers = chat.workspace.mcp
    return (
        []
        if servers is None
        else [(f"/{called}", each.description) for called, (_, each) in servers.running.prompts().items()]
    )


def resource_words(chat: Chat, typed: str) -> list[tuple[str, str]]:
    """The resources of servers whose mention starts so."""
    servers = chat.workspace.mcp
    if servers is None:
        return []
    start = typed[1:].lstrip("\"'")
    rows = [(f"{server}:{each.uri}", each.name) for server, each in servers.running.resources()]
    # Only a blank needs quotes here: the other signs of an address are part of it.
    return [
        (written(address) if " " in address else f"@{address}", name)
        for address, name in rows
        if address.startswith(start)
    ][:_SHOWN]


def _servers(chat: Chat) -> FoundServers:
    servers = chat.workspace.mcp
    if servers is None:
        raise LocalError("there are no MCP servers here; docs/mcp.md says how to have some")
    return servers


def _split(rest: str) -> list[str]:
    try:
        return shlex.split(rest)
    except ValueError as error:
        raise LocalError(f"cannot read the arguments: {error}") from None


def _joined(content: tuple[Text | Media, ...]) -> tuple[str | Media, ...]:
    """One text, as every host takes it, and the media behind it."""
    text = "\n\n".join([part.text for part in content if isinstance(part, Text)])
    return (text, *[part for part in content if isinstance(part, Media)])
