"""`midstream mcp`: the MCP servers that chats use, tried, trusted and logged in to; and midstream as such a server."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import click
import msgspec

from ..agent.mcp.configured import ConfiguredServer, configured_servers, trust
from ..agent.mcp.connection import Connection, variable_lookup
from ..agent.mcp.oauth import TokenStore, log_in
from ..agent.mcp.offer import Offer
from ..agent.mcp.offer_cache import OfferCache
from ..agent.processes import known_key_names
from ..agent.project import Project
from ..client.config import load_config
from ..client.key_store import FILE, KeyStore, key_fault
from ..client.mcp_server import SECRET_PREFIX, McpServer
from ..core.errors import ConfigError, ToolFailed
from ..core.plural import pluralize
from ..core.visible import visible
from .keys import piped_key, typed_key
from .main import FAILED, OK
from .mcp_servers import described, placed, tool_lines
from .options import Settings, store_option, tool_option
from .running import run
from .terminal import color_option

_EPILOG = """\b
Examples:
  midstream mcp list                          the servers of config.toml and .mcp.json, without starting them
  midstream mcp test                          start each, list its tools, end it
  midstream mcp trust                         let the servers of this project's .mcp.json be started
  midstream mcp secret GITHUB_TOKEN           store what ${GITHUB_TOKEN} stands for
  midstream mcp login docs                    log in to a remote server (OAuth)
  midstream chat --allow 'mcp__time__*'       call these tools without asking

\b
In config.toml:
  [mcp.time]
  command = ["uvx", "mcp-server-time"]
  [mcp.docs]
  url = "https://docs.example/mcp"
  headers = { Authorization = "Bearer ${DOCS_TOKEN}" }"""


@click.group(epilog=_EPILOG)
@color_option
def mcp() -> None:
    """Use MCP servers in a chat, or be one for other agents."""


@mcp.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def list_servers(as_json: bool) -> None:
    """List the servers and what they offered last. Nothing is started."""
    project = Project()
    found = configured_servers(load_config(), project)
    cache = OfferCache()
    for problem in found.problems:
        click.echo(visible(f"midstream: {problem}"), err=True)
    for entry in found.found:
        offer = cache.get(placed(entry.server, project))
        if as_json:
            click.echo(msgspec.json.encode(_row(entry, offer)).decode())
        else:
            known = "not started yet" if offer is None else _tools(offer)
            click.echo(f"{described(entry, project)} · {known}")
    if not found.found and not as_json:
        click.echo("no MCP servers; name some in config.toml ([mcp.NAME]) or in a project's .mcp.json")


@mcp.command("test")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def test_servers(names: tuple[str, ...]) -> int:
    """Start servers, list their tools, and end them. The exit code is 1 if one of them cannot be used."""
    project = Project()
    servers = [_named(name) for name in names] or configured_servers(load_config(), project).usable
    if not servers:
        raise ConfigError("there is no MCP server to test; `midstream mcp list` shows those that are named")
    return run(_test([placed(server, project) for server in servers]))


async def _test(servers: list[McpServer]) -> int:
    key_names = known_key_names(".")
    code = OK
    for server in servers:
        offers: list[Offer] = []
        connection = Connection(server, on_offer=offers.append, tell=lambda _: None, key_names=key_names)
        connection.start()
        try:
            await connection.ready()
            offer = offers[-1]
            OfferCache().put(server, offer)
            click.echo(visible(f"{server.name}: ok · {connection.described or server.shown} · {_tools(offer)}"))
            for line in (*tool_lines(offer), *[visible(f"  problem: {each}") for each in offer.problems]):
                click.echo(line)
        except ToolFailed as error:
            code = FAILED
            click.echo(visible(f"{server.name}: failed · {error}"))
            for line in connection.log[-5:]:
                click.echo(f"  {line}")
        finally:
            await connection.close()
    return code


@mcp.command("trust")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def trust_project(yes: bool) -> None:
    """Let the servers of this project's .mcp.json be started, as the file is now."""
    project = Project()
    found = configured_servers(load_config(), project)
    waiting = found.untrusted
    if not waiting:
        raise ConfigError("there is nothing to trust: no .mcp.json here names servers that are not trusted")
    for entry in waiting:
        click.echo(described(entry, project))
    if not yes and not click.confirm("May these programs be started on this machine?", err=True):
        click.echo("not trusted")
        return
    click.echo(visible(f"trusted: {trust(project, found.digest)}, until it changes"))


@mcp.command("secret")
@click.argument("name")
@click.option("--stdin", "piped", is_flag=True, help="Read it from standard input, for scripts.")
@click.option("--file", "in_file", is_flag=True, help="Store it in keys.json even if there is a keyring.")
@click.option("--remove", is_flag=True, help="Remove it instead.")
def secret(name: str, piped: bool, in_file: bool, remove: bool) -> None:
    """Store what ${NAME} stands for in the settings of servers. It is asked for, and not shown while you type."""
    store = KeyStore()
    if not name.isidentifier():
        raise click.UsageError("expected the name of a variable, as it is written in ${NAME}, never the secret itself")
    if remove:
        place = store.remove(f"{SECRET_PREFIX}{name}")
        click.echo(f"removed ${{{name}}}" if place else f"${{{name}}} is not stored")
        return
    key = piped_key() if piped else typed_key(f"${{{name}}}")
    fault = key_fault(key)
    if fault:
        raise click.UsageError(f"this is not a secret as it can be stored: {fault}; nothing was stored")
    place = store.set(f"{SECRET_PREFIX}{name}", key, in_file=in_file)
    where = f"{store.path}, which only you can read" if place == FILE else "the system's keyring"
    click.echo(visible(f"stored ${{{name}}} in {where}"))


@mcp.command("login")
@click.argument("name")
def login(name: str) -> None:
    """Log in to a remote server (OAuth): open the address in a browser on this machine."""
    click.echo(run(log_in_to(_named(name), _show_address)))


async def log_in_to(server: McpServer, show: Callable[[str], None]) -> str:
    """Log in, and say how it went; `show` gets the address to open in a browser."""
    from ..agent.mcp.sdk import load  # takes most of a second, and in the chat it runs in a thread

    await load()
    # A connection looks for its login under the address that it opens, and that one has no variables in it.
    filled = server.filled(variable_lookup(os.environ)) if server.url else server
    auth = await log_in(filled, show)
    patient = msgspec.structs.replace(server, start_timeout=600.0)
    connection = Connection(patient, on_offer=lambda _: None, tell=lambda _: None, auth=auth)
    connection.start()
    try:
        await connection.ready()
    finally:
        await connection.close()
    logged_in = await TokenStore(filled).exists()
    return f"logged in to {server.name}" if logged_in else f"{server.name} asks for no login"


@mcp.command("logout")
@click.argument("name")
def logout(name: str) -> None:
    """Forget the login of a remote server."""
    removed = TokenStore(_named(name)).remove()
    click.echo(f"logged out of {name}" if removed else f"there was no login of {name}")


_SERVE_EPILOG = """\b
In another agent's configuration:
  {"mcpServers": {"midstream": {"command": "midstream", "args": ["mcp", "serve"]}}}
  claude mcp add midstream -- midstream mcp serve

\b
It offers ask_model (any model; an earlier conversation continued on another one, with the switch report), doctor and
search_conversations. Nobody can be asked: tools of the model that is asked are those of -T, and what writes or runs
happens only where --allow covers it."""


@mcp.command("serve", epilog=_SERVE_EPILOG)
@click.option("-m", "--model", metavar="MODEL", help="The model where a request names none. [env: MIDSTREAM_MODEL]")
@tool_option("A tool that asked models may use; repeatable.")
@click.option(
    "--allow", multiple=True, metavar="PATTERN", help="Allow without asking, such as 'bash:git status*'; repeatable."
)
@click.option("-y", "--yolo", is_flag=True, help="Allow every tool call without asking.")
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    help="Listen on this port of loopback instead of stdio; 0 takes a free one.",
)
@click.option(
    "--token",
    envvar="MIDSTREAM_MCP_TOKEN",
    help="What clients over HTTP must send; else one is made and shown. [env: MIDSTREAM_MCP_TOKEN]",
)
@click.option("--no-store", "store", flag_value=False, default=True, help="Do not save the conversations.")
@store_option
def serve(port: int | None, token: str | None, **given: Any) -> None:
    """Be an MCP server for other agents: ask_model, doctor, search_conversations."""
    try:
        from .mcp_server import serve_http, serve_stdio  # the SDK's server is as heavy as its client
    except ImportError as error:
        raise ConfigError(
            f"midstream mcp serve needs {error.name}, which is not installed: pip install '.[mcp]' in midstream's checkout"
        ) from None
    settings = Settings(**given)
    run(serve_stdio(settings) if port is None else serve_http(settings, port, token))


def _show_address(url: str) -> None:
    click.echo(visible(f"Open this address in a browser on this machine to log in:\n{url}"), err=True)
    sys.stderr.flush()


def _tools(offer: Offer) -> str:
    return pluralize(len(offer.tools), "tool")


def _named(name: str) -> McpServer:
    found = configured_servers(load_config(), Project())
    entry = next((each for each in found.found if each.server.name == name), None)
    if entry is None:
        names = ", ".join([each.server.name for each in found.found]) or "none"
        raise ConfigError(f"no MCP server {name!r}; there are: {names}")
    if not entry.trusted:
        raise ConfigError(f"{name} is named by {entry.origin}, which is not trusted: midstream mcp trust")
    return entry.server


def _row(entry: ConfiguredServer, offer: Offer | None) -> dict[str, Any]:
    server = entry.server
    return {
        "name": server.name,
        "transport": "http" if server.url else "stdio",
        "runs": server.shown,
        "variables": server.variables,
        "from": entry.origin,
        "trusted": entry.trusted,
        "enabled": server.enabled,
        "tools": None if offer is None else [each.name for each in offer.tools],
    }
