"""An MCP server as it is configured: a program to run (stdio) or an address (streamable HTTP), and its limits.

`${NAME}` in `args`, `env`, `url` and `headers` stands for an environment variable, or for a secret that was stored with
`midstream mcp secret NAME`. It is put in when the server is started and nowhere else, so neither a configuration nor what
is shown of it has to hold a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from ..core.errors import ConfigError
from ..core.patterns import late_pattern
from ..core.secret import hide_url_secrets

MAX_SERVER_NAME = 40
SECRET_PREFIX = "mcp:"
HIDDEN = "***"
# No double underscore: `mcp__a__b__c` must say where the server ends and the tool begins.
_NAME = late_pattern(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*\Z")
_VARIABLE = late_pattern(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_LITERAL = "$${"  # stands for ${ itself


class McpServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One MCP server: `McpServer("time", command=["uvx", "mcp-server-time"])` or `McpServer("docs", url="https://…/mcp")`."""

    name: str = ""
    """What its tools are called by, `mcp__NAME__tool`; in a file, the name of its table."""
    command: str | tuple[str, ...] = ()
    """The program to run; a list is the program and its arguments."""
    args: tuple[str, ...] = ()
    """Arguments of the program."""
    env: dict[str, str] = {}
    """Variables for the program beside the ordinary ones; keys and secrets of the environment are not passed on otherwise."""
    cwd: str = ""
    """The folder that it runs in; the current one if nothing is said."""
    url: str = ""
    """The address of a server over streamable HTTP."""
    headers: dict[str, str] = {}
    """Headers that go with every request to the address."""
    enabled: bool = True
    """Whether it is started."""
    tools: tuple[str, ...] | None = None
    """Only these of its tools; a star at the end of a name stands for the rest of it."""
    allow: tuple[str, ...] = ()
    """Those of its tools that are called without asking, likewise; only in your own file."""
    start_timeout: Annotated[float, msgspec.Meta(gt=0, le=600)] = 30.0
    """Seconds that it may take to start and to list its tools."""
    call_timeout: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 60.0
    """Seconds that a call may take; a report of progress starts them anew, up to ten times as many."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The program and its arguments."""
        command = (self.command,) if isinstance(self.command, str) else self.command
        return (*command, *self.args)

    @property
    def digest(self) -> str:
        """Changes with everything that decides what this server is and offers."""
        import hashlib  # every client reads a configuration, few have servers in it

        said = (self.argv, self.env, self.cwd, self.url, self.headers)
        return hashlib.sha256(msgspec.json.encode(said, order="deterministic")).hexdigest()

    @property
    def shown(self) -> str:
        """Where it runs, in one line, without the values of variables and headers."""
        return hide_url_secrets(self.url, HIDDEN) if self.url else " ".join(self.argv)

    @property
    def variables(self) -> list[str]:
        """The variables that it refers to."""
        texts = (*self.argv, *self.env.values(), self.url, *self.headers.values())
        return list(dict.fromkeys([match[1] for text in texts for match in _VARIABLE.finditer(text)]))

    def checked(self) -> McpServer:
        """The same; ConfigError says what is wrong with it."""
        where = f"MCP server {self.name!r}"
        if not _NAME.match(self.name) or len(self.name) > MAX_SERVER_NAME:
            raise ConfigError(
                f"{where}: expected a name of at most {MAX_SERVER_NAME} letters, digits, - and single _, which its tools are "
                "called by"
            )
        if bool(self.url) == bool(self.argv and self.argv[0]):
            raise ConfigError(f"{where}: expected either `command` (a program to run) or `url` (an address)")
        if self.url and not self.url.startswith(("https://", "http://", "${")):
            raise ConfigError(f"{where}: expected a url that begins with https:// or http://")
        if any("\0" in text for text in (*self.argv, self.cwd, *self.env, *self.env.values())):
            raise ConfigError(f"{where}: a NUL character can be part of no command and no variable")
        return self

    def filled(self, lookup: Callable[[str], str | None]) -> McpServer:
        """The same with its variables put in; ConfigError names one that is not set."""

        def put(text: str) -> str:
            parts = [
                _VARIABLE.sub(lambda match: self._value(lookup, match[1], match[2]), part)
                for part in text.split(_LITERAL)
            ]
            return "${".join(parts)

        def put_all(table: Mapping[str, str]) -> dict[str, str]:
            return {name: put(value) for name, value in table.items()}

        return msgspec.structs.replace(
            self,
            command=tuple([put(word) for word in self.argv]),
            args=(),
            env=put_all(self.env),
            url=put(self.url),
            headers=put_all(self.headers),
        )

    def _value(self, lookup: Callable[[str], str | None], name: str, otherwise: str | None) -> str:
        found = lookup(name)
        if found is None:
            found = otherwise
        if found is None:
            raise ConfigError(
                f"MCP server {self.name}: ${{{name}}} is not set; set the variable, or store it with "
                f"`midstream mcp secret {name}`"
            )
        return found

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        hidden = {"env": _veiled(self.env), "headers": _veiled(self.headers), "url": hide_url_secrets(self.url, HIDDEN)}
        return [(name, hidden.get(name, getattr(self, name))) for name in self.__struct_fields__]

    def __repr__(self) -> str:
        return f"McpServer({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


def literal(text: str) -> str:
    """A text in which nothing stands for a variable."""
    return text.replace("${", _LITERAL)


def server_name(text: str) -> str:
    """The nearest valid name to one that another program's file has, such as `GitHub Server`."""
    import re

    plain = re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]+", "-", text)).strip("_-")
    return plain[:MAX_SERVER_NAME].rstrip("_-") or "server"


def _veiled(table: Mapping[str, str]) -> dict[str, str]:
    return dict.fromkeys(table, HIDDEN)
