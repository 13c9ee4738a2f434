"""Which MCP servers there are: those of the configuration, and those of the project's `.mcp.json`, if it is trusted.

A project's file may have come with somebody else's code, and a server in it is a program that runs here. So nothing of it is
started until the user has said so: `trusted_projects` in their own configuration lists the folder, or `/mcp trust` has
recorded the file as it is now. When it changes, they are asked anew. A trusted project's server comes before one of the
same name in the configuration.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from ...client.config import LoadedConfig, config_home
from ...client.mcp_server import McpServer, server_name
from ...core.blocks import Value
from ...core.errors import ConfigError, ToolFailed
from ...core.visible import visible
from ..project import Project

FILE = ".mcp.json"
TRUST_FILE = "mcp_trust.json"
MAX_FILE = 256 * 1024
MAX_SERVERS = 32
_HTTP = ("http", "streamable-http", "streamable_http", "streamableHttp")


class ConfiguredServer(Value, frozen=True):
    """A server, the file that names it, and whether it may be started."""

    server: McpServer
    origin: str
    trusted: bool = True


class ConfiguredServers(Value, frozen=True):
    """All servers that were found, and what is wrong with files or entries."""

    found: tuple[ConfiguredServer, ...] = ()
    problems: tuple[str, ...] = ()
    digest: str = ""
    """Of the project's file, as it was read: what the user saw is what they trust."""

    @property
    def usable(self) -> list[McpServer]:
        """Those that may be started."""
        return [each.server for each in self.found if each.trusted and each.server.enabled]

    @property
    def untrusted(self) -> list[ConfiguredServer]:
        return [each for each in self.found if not each.trusted]


def configured_servers(loaded: LoadedConfig, project: Project) -> ConfiguredServers:
    """The servers of the configuration and of the project."""
    found: dict[str, ConfiguredServer] = {}
    for name, server in loaded.config.mcp.items():
        origin = next((path for key, path in loaded.origins.items() if key.startswith(f"mcp.{name}.")), "")
        found[name] = ConfiguredServer(msgspec.structs.replace(server, name=name), origin)
    problems: list[str] = []
    digest = ""
    path = project.root / FILE
    try:
        read = project.read(path, MAX_FILE)
        if read is not None:
            digest = _digest(read.text)
            if read.cut:
                raise ToolFailed(f"it is larger than {MAX_FILE >> 10} KB")
            trusted = _is_listed(project.root, loaded.config.trusted_projects) or _trusted().get(str(path)) == digest
            for server in servers_of_json(read.text, problems):
                entry = ConfiguredServer(server, str(path), trusted)
                # One that is not trusted takes nobody's place.
                if trusted or server.name not in found:
                    found[server.name] = entry
    except ToolFailed as error:
        problems.append(str(error))
    return ConfiguredServers(tuple(found.values()), tuple([f"{path}: {each}" for each in problems]), digest)


def servers_of_json(text: str, problems: list[str]) -> list[McpServer]:
    """The servers in the text of a `.mcp.json`; an entry that cannot be used is told and left out."""
    try:
        whole = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise ToolFailed(f"it is not valid JSON ({error})") from None
    entries = whole.get("mcpServers") if isinstance(whole, dict) else None
    if not isinstance(entries, dict):
        raise ToolFailed('expected {"mcpServers": {NAME: {"command": …} or {"url": …}}}')
    found: dict[str, McpServer] = {}
    for name, entry in list(entries.items())[:MAX_SERVERS]:
        try:
            server = _server(name, entry)
        except (ConfigError, msgspec.ValidationError) as error:
            problems.append(visible(f"{name}: {error}")[:300])
            continue
        if server.name in found:
            problems.append(visible(f"{name}: another server is called {server.name} already; give it another name"))
        found.setdefault(server.name, server)
    if len(entries) > MAX_SERVERS:
        problems.append(f"only the first {MAX_SERVERS} servers are used")
    return list(found.values())


def trust(project: Project, digest: str) -> Path:
    """Record that the project's file may start its servers as the user saw them, in the file with this digest."""
    path = project.root / FILE
    read = project.read(path, MAX_FILE)
    if read is None or _digest(read.text) != digest:
        raise ConfigError(f"{path} has changed since it was shown, so it is not trusted; look at it again")
    # Not the digest of what was read just now: the file may change at any moment, and only this text was seen.
    _write({**_trusted(), str(path): digest})
    return path


def _server(name: str, entry: Any) -> McpServer:
    if not isinstance(entry, dict):
        raise ConfigError("expected an object")
    kind = entry.get("type") or entry.get("transport") or ("http" if entry.get("url") else "stdio")
    if kind not in (*_HTTP, "stdio"):
        raise ConfigError(f"unknown transport {kind!r}; expected stdio or http (SSE servers are not supported)")
    # Other programs have settings of their own here; what decides what runs is read, the rest is theirs.
    names = ("command", "args", "env", "cwd") if kind == "stdio" else ("url", "headers")
    given = {key: entry[key] for key in names if entry.get(key) is not None}
    if entry.get("disabled") is True or entry.get("enabled") is False:
        given["enabled"] = False
    return msgspec.convert({**given, "name": server_name(name)}, McpServer).checked()


def _is_listed(folder: Path, trusted: Iterable[str]) -> bool:
    return any(Path(each).expanduser().resolve() == folder for each in trusted)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _trusted() -> dict[str, str]:
    try:
        return msgspec.json.decode((config_home() / TRUST_FILE).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}  # absent or damaged: nothing is trusted, and the user is asked again


def _write(trusted: dict[str, str]) -> None:
    path = config_home() / TRUST_FILE
    temporary = path.with_name(f".{TRUST_FILE}.{secrets.token_hex(6)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(trusted), indent=2) + b"\n")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
