"""What a server offers: its tools, prompts and resources, read page by page, bounded and judged before anything uses them.

A server may be anybody's. What it says twice, too long, without end, or as a schema that no host's pass can take is left
out or replaced here, and told: no turn fails for it later.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from ...core.blocks import Value
from ...core.errors import InvalidSchema
from ...core.refs import MAX_SIZE
from ...core.schemas import PASSES
from ...core.visible import readable
from .messages import message_of
from .sdk import is_closed, is_unknown_method

if TYPE_CHECKING:
    from mcp import Client

MAX_TOOLS = 256
MAX_LISTED = 1000
"""Prompts, and resources."""
MAX_PAGES = 50
MAX_SECONDS = 5.0
"""For each list beside the tools."""
MAX_DESCRIPTION = 4096
MAX_SCHEMA = 64 * 1024
"""Bytes of one tool's schema, which goes with every request."""
MAX_NAME = 72
"""Characters of a tool's own name; with the server's it makes at most 128."""
_ANYTHING: dict[str, Any] = {"type": "object"}


class OfferedTool(Value, frozen=True):
    """A tool as its server describes it; `growth` is how much its schema may grow in a request."""

    name: str
    description: str = ""
    schema: dict[str, Any] = msgspec.field(default_factory=dict)
    read_only: bool = False
    growth: int = 0


class PromptArgument(Value, frozen=True):
    """What a prompt wants to be told."""

    name: str
    required: bool = False
    description: str = ""


class OfferedPrompt(Value, frozen=True):
    """A message that the server writes."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class OfferedResource(Value, frozen=True):
    """Something to read."""

    uri: str
    name: str = ""
    mime: str = ""


class Offer(Value, frozen=True):
    """Everything that a server offers, and what was wrong with it."""

    tools: tuple[OfferedTool, ...] = ()
    prompts: tuple[OfferedPrompt, ...] = ()
    resources: tuple[OfferedResource, ...] = ()
    problems: tuple[str, ...] = ()


async def read_offer(client: Client, seconds: float) -> Offer:
    """What the server offers now, within these seconds. Errors of the SDK pass, where they are about tools: a server whose
    prompts or resources cannot be listed, which is common, has the others."""
    can = client.server_capabilities
    problems: list[str] = []
    tools = await _pages(client.list_tools, "tools", MAX_TOOLS, problems) if can.tools else []
    prompts = await _pages_if_any(client.list_prompts, "prompts", problems, seconds) if can.prompts else []
    resources = await _pages_if_any(client.list_resources, "resources", problems, seconds) if can.resources else []
    return Offer(
        tuple(_once([_tool(each, problems) for each in tools], "tool", problems)),
        tuple(_once([_prompt(each) for each in prompts], "prompt", problems)),
        tuple([OfferedResource(str(each.uri), _text(each.name), _text(each.mime_type)) for each in resources]),
        tuple(problems),
    )


def canonical_name(server: str, name: str) -> str:
    """`mcp__server__name`, in characters that every provider takes; a name with others carries a digest of itself, so that no
    two tools of a server meet. A name that is too long for one host is shortened by that host's wire."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:MAX_NAME]
    if plain != name:
        plain = f"{plain}_{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"
    return f"mcp__{server}__{plain}"


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns names this; a star at the end stands for the rest."""
    return any(name.startswith(each[:-1]) if each.endswith("*") else name == each for each in patterns)


async def _pages(fetch: Callable[..., Awaitable[Any]], what: str, most: int, problems: list[str]) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    # A server may give a next page for ever.
    for _ in range(MAX_PAGES):
        page = await fetch(cursor=cursor)
        found += getattr(page, what)
        cursor = page.next_cursor
        if not cursor or len(found) > most:
            break
    if cursor or len(found) > most:
        problems.append(f"it lists more than {most} {what}; the first {most} are used")
    return found[:most]


async def _pages_if_any(
    fetch: Callable[..., Awaitable[Any]], what: str, problems: list[str], seconds: float
) -> list[Any]:
    limit = min(MAX_SECONDS, seconds / 4)
    try:
        async with asyncio.timeout(limit):
            return await _pages(fetch, what, MAX_LISTED, problems)
    except TimeoutError:
        problems.append(f"it did not list its {what} within {limit:g} s; they are left out")
    except Exception as error:
        # The border of the SDK: whatever is wrong with this list, the tools are there.
        if is_closed(error):
            raise
        if not is_unknown_method(error):
            problems.append(f"its {what} cannot be listed ({message_of(error)}); they are left out")
    return []


def _tool(tool: Any, problems: list[str]) -> OfferedTool:
    schema, growth, fault = usable_schema(tool.input_schema)
    if fault:
        problems.append(
            f"the schema of {_text(tool.name)[:80]} cannot be used ({fault}); its arguments are not described"
        )
    hints = tool.annotations
    return OfferedTool(
        tool.name, _text(tool.description or tool.title), schema, bool(hints and hints.read_only_hint), growth
    )


def usable_schema(schema: Any) -> tuple[dict[str, Any], int, str]:
    """A schema that every host's pass takes, how many bytes it may grow there, and why it is not the one given, if it is not."""
    try:
        size = len(msgspec.json.encode(schema))
        if size > MAX_SCHEMA:
            return _ANYTHING, 0, f"it has {size:,} bytes, more than {MAX_SCHEMA:,}"
        # Each dialect has its own pass, and the next model may have any.
        sizes = [len(msgspec.json.encode(change(schema))) for change in PASSES.values()]
    except (InvalidSchema, RecursionError, TypeError, ValueError) as error:
        return _ANYTHING, 0, str(error) or type(error).__name__
    growth = max(0, max(sizes) - size)
    if growth > MAX_SIZE // 16:
        return _ANYTHING, 0, f"its references make {max(sizes):,} bytes of it"
    return schema, growth, ""


def _prompt(prompt: Any) -> OfferedPrompt:
    arguments = [
        PromptArgument(each.name, bool(each.required), _text(each.description)) for each in prompt.arguments or ()
    ]
    return OfferedPrompt(prompt.name, _text(prompt.description), tuple(arguments))


def _once(items: list[Any], what: str, problems: list[str]) -> list[Any]:
    found: dict[str, Any] = {}
    for item in items:
        if item.name in found:
            problems.append(f"it lists the {what} {_text(item.name)[:80]} twice; the first one is used")
        found.setdefault(item.name, item)
    return list(found.values())


def _text(value: Any) -> str:
    """Words of a server, for a model and for people: bounded, hidden characters written out."""
    text = readable(value) if isinstance(value, str) else ""
    return text if len(text) <= MAX_DESCRIPTION else text[:MAX_DESCRIPTION] + "…"
