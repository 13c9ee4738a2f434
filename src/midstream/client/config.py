"""The user's settings in files: `~/.config/midstream/config.toml`, then the project's `.midstream.toml` over it.

    default_model = "moonshot/kimi-k2.5"

    instructions = false                  # the terminal does not tell models what AGENTS.md says; memory, skills likewise

    [providers.work]                      # a host of your own, or another address for a known one
    like = "openai-compatible"            # whose dialects it speaks
    base_url = "http://127.0.0.1:8080/v1"
    api_key_env = "WORK_API_KEY"          # the name of a variable, never a key

    [providers.vertex]
    api_key_command = ["gcloud", "auth", "print-access-token"]    # docs/providers.md

    [aliases]
    fast = "groq/moonshotai/kimi-k2-instruct-0905"

    [models."work/kimi-k2.5"]
    context = 262144
    input_price = 0.6                     # dollars a million tokens
    output_price = 3.0
    media = ["image"]                     # what it reads; [] for text only
    tools = false                         # its host takes none: they go over plain text

    [timeouts]                            # seconds; gateway.toml has its own, for all requests or an alias
    first_byte = 30                       # then the next model of a chain is asked; 600 if nothing is said
    idle = 60                             # without data in the middle of an answer; 180
    total = 900                           # for one model; 3600

    [chat]                                # docs/terminal.md
    vi = true                             # vi keys at the prompt
    notify = "bell"                       # or "osc9": when an answer took long; "off" is the default
    notify_after = 20                     # seconds
    compact = "auto"                      # or "off": summarise earlier turns near the end of the window (docs/compaction.md)
    compact_at = 0.85                     # of the window
    compact_model = "fast"                # who writes the summary; the current model if nobody is named

    [mcp.time]                            # docs/mcp.md
    command = ["uvx", "mcp-server-time"]

    [mcp.docs]
    url = "https://docs.example/mcp"
    headers = { Authorization = "Bearer ${DOCS_TOKEN}" }
    allow = ["search"]                    # called without asking

    [sandbox]                             # docs/sandbox.md
    use = "on"                            # or "auto": where the machine has one; default "off"
    network = false
    read = ["~/miniconda3"]               # further paths that commands may read

Every value remembers the file it came from. A file that cannot be read says what is wrong and where. A project's file counts
only if it is the user's own: theirs, and nobody else may write it. Even so it may have come with somebody else's code: only if
the user's own file lists its folder in `trusted_projects`, it may name providers (addresses, keys, headers) and MCP servers, and
change what `provider/model` or a name of the user's own file means.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec

from ..core.dialect import MediaKind, check_auth, without_header_values
from ..core.errors import ConfigError
from ..core.ids import OLD_WORDS
from ..core.patterns import late_pattern
from .mcp_server import McpServer

PROJECT_FILE = ".midstream.toml"
_BARE_KEY = late_pattern(r"[A-Za-z0-9_-]+")
_VARIABLE = late_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_ONLY_OFF = ("instructions", "memory", "skills")  # what you turned off, a project does not turn on again


# Unknown names are errors in every one of these: a misspelt setting that is silently ignored is the hardest to find.
class ProviderConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    like: str = "openai-compatible"
    """The provider whose dialects it speaks."""
    base_url: str = ""
    """Where it is reached, such as `http://127.0.0.1:8080/v1`."""
    api_key_env: str | None = None
    """The variable that holds its key; never the key itself."""
    api_key_command: str | tuple[str, ...] = ()
    """A program that prints the key; a list is run as it is, a string by the shell."""
    api_key_ttl: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """How many seconds a key that the command printed is used, where its output does not say when it expires."""
    auth: str | None = None
    """How the key is sent: `bearer`, `none`, or the name of the header that carries it, such as `x-api-key`; if nothing is said,
    as by the provider that it is like."""
    headers: dict[str, str] = {}
    """Headers that go with every request; not the place for a key."""
    query: dict[str, str] = {}
    """Query parameters that go with every request; not the place for a key."""
    media: tuple[MediaKind, ...] | None = None
    """What the models of this host read besides text: any of `image`, `audio`, `video`, `file`."""
    dialect: dict[str, Any] = {}
    """Fields of the dialects that this host does differently from the one it is like."""

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # a command may hold a secret too
        shown = dict(without_header_values(self))
        return list({**shown, "api_key_command": "***" if self.api_key_command else ()}.items())

    def __repr__(self) -> str:
        return f"ProviderConfig({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


class ModelConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    context: int | None = None
    """Its window, in tokens."""
    media: tuple[MediaKind, ...] | None = None
    """What the model reads besides text: any of `image`, `audio`, `video`, `file`; empty for text only."""
    input_price: float | None = None
    """Dollars per million tokens read; counts only together with `output_price`."""
    output_price: float | None = None
    """Dollars per million tokens written."""
    cache_read_price: float | None = None
    """The same for tokens that the host's cache served; `input_price` if nothing is said."""
    cache_write_price: float | None = None
    """The same for tokens written to the cache; `input_price` if nothing is said."""
    tools: bool | None = None
    """Whether the host takes declared tools for this model; false sends them over plain text."""

    @property
    def prices(self) -> tuple[float | None, ...]:
        return self.input_price, self.output_price, self.cache_read_price, self.cache_write_price


class ChatConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How `midstream chat` and `ask` behave."""

    vi: bool = False
    """vi keys at the prompt."""
    notify: Literal["off", "bell", "osc9"] = "off"
    """How to tell that a long answer has ended."""
    notify_after: Annotated[float, msgspec.Meta(ge=0)] = 20.0
    """How many seconds a long answer takes."""
    compact: Literal["auto", "off"] = "auto"
    """Whether earlier turns are summarised when the conversation nears the end of the window."""
    compact_at: Annotated[float, msgspec.Meta(ge=0.1, le=1)] = 0.85
    """The part of the window from which on they are."""
    compact_model: str = ""
    """Who writes the summary; the current model if nobody is named."""


class SandboxConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    use: Literal["on", "auto", "off"] = "off"
    """Whether commands of tools run in a sandbox: always, where the machine has one, or not."""
    network: bool = False
    """Whether commands in the sandbox may use the network."""
    read: tuple[str, ...] = ()
    """Paths that commands may read beside the system and the working folder."""


Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]


class TimeoutConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long to wait for a host."""

    first_byte: Seconds | None = None
    """How many seconds to wait for the first byte of an answer, connecting included: 600 if nothing is said. A host that thinks
    before it sends anything needs them."""
    idle: Seconds | None = None
    """How many seconds a begun answer may bring no data: 180."""
    total: Seconds | None = None
    """How many seconds one model has from the request to the last byte, retries included: 3600."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    default_model: str = ""
    """The model where none is named: `provider/model` or an alias."""
    providers: dict[str, ProviderConfig] = {}
    """Hosts of your own, and what is different about known ones."""
    aliases: dict[str, str] = {}
    """Short names for models."""
    models: dict[str, ModelConfig] = {}
    """What is known of single models: windows, prices, media."""
    timeouts: TimeoutConfig = TimeoutConfig()
    """How long to wait for a host."""
    chat: ChatConfig = ChatConfig()
    """How `midstream chat` and `midstream ask` behave."""
    sandbox: SandboxConfig = SandboxConfig()
    """Where commands of tools are confined; a project that is not trusted may only turn it on."""
    mcp: dict[str, McpServer] = {}
    """MCP servers, whose tools a chat can use."""
    trusted_projects: tuple[str, ...] = ()
    """Folders whose project files may name providers and MCP servers, and change what a name means; only your own file can set this."""
    instructions: bool | None = None
    """Whether the terminal tells models what AGENTS.md says; None: in a chat, and where tools are used."""
    memory: bool | None = None
    """The same for the notes of /remember."""
    skills: bool | None = None
    """The same for skills."""


class LoadedConfig(msgspec.Struct, frozen=True):
    """The merged configuration; `origins` says for each dotted name which file set it, `ignored` what of project files does
    not count, and why. `redefined` are the names to which a trusted project gives another meaning, with its file."""

    config: Config = Config()
    origins: dict[str, str] = {}
    files: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    redefined: dict[str, str] = {}


def old_words(loaded: LoadedConfig) -> list[str]:
    """A line for each tool format in the files that is named by a word which now means something else elsewhere."""
    found = []
    for name, settings in loaded.config.providers.items():
        word = settings.dialect.get("tool_format")
        if isinstance(word, str) and word in OLD_WORDS:
            path = loaded.origins.get(f"providers.{name}.dialect.tool_format", "the configuration")
            found.append(f"{path}: [providers.{_toml_key(name)}.dialect] tool_format: {explain_old_word(word)}")
    return found


def explain_old_word(word: str) -> str:
    return f'"{word}" means {OLD_WORDS[word]} here; write that, or {word}-json for tools that are declared to the host'


def config_home(environ: Mapping[str, str] | None = None) -> Path:
    """Where the user's own file is: MIDSTREAM_HOME, XDG_CONFIG_HOME/midstream, or ~/.config/midstream."""
    env = os.environ if environ is None else environ
    if env.get("MIDSTREAM_HOME"):
        return Path(env["MIDSTREAM_HOME"]).expanduser()
    base = env.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "midstream"


def load_config(directory: Path | None = None, environ: Mapping[str, str] | None = None) -> LoadedConfig:
    """The user's file with the project's over it; neither has to be there. The project's is the nearest one upwards that is
    the user's."""
    start = (directory or Path.cwd()).resolve()
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    found: list[str] = []
    ignored: list[str] = []
    redefined: dict[str, str] = {}
    own = config_home(environ) / "config.toml"
    if own.is_file():
        # Checked one file at a time, before they are merged: a message must name the file that is wrong.
        values = _parse(_read(own), own)
        _check(values, own)
        _merge(merged, values, str(own), origins, "")
        found.append(str(own))
    project = _project_file(start, ignored)
    if project is not None:
        path, data = project
        values = _parse(data, path)
        trusted = _check_trust(_check(values, path), values, path, merged.get("trusted_projects", ()))
        taken = _taken_names(values.get("aliases", {}), merged.get("aliases", {}))
        if trusted:
            redefined = dict.fromkeys(taken, str(path))
        elif taken:
            # Not an error: what a cloned repository would like is no reason for its user not to work in it.
            values["aliases"] = {name: model for name, model in values["aliases"].items() if name not in taken}
            ignored += [f"{path}: aliases.{_toml_key(name)}: {_untrusted(why, path)}" for name, why in taken.items()]
        values = {
            name: value for name, value in values.items() if name not in _ONLY_OFF or merged.get(name) is not False
        }
        _merge(merged, values, str(path), origins, "")
        found.append(str(path))
    config = msgspec.convert(merged, Config)
    _check_names(config, origins, found)
    return LoadedConfig(config, origins, tuple(found), tuple(ignored), redefined)


def _taken_names(aliases: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The aliases of a project that give another meaning to a name that has one, and which meaning that is."""
    # By its form, not by the providers that are known: a program may add some, and the doubles are one.
    whole = {name: "a model by its whole name" for name in aliases if "/" in name or ":" in name}
    return whole | {
        name: "an alias of your own file" for name in aliases if own.get(name, aliases[name]) != aliases[name]
    }


def _untrusted(why: str, path: Path) -> str:
    return f'it is {why}, and this project is not trusted: put trusted_projects = ["{path.parent}"] into your own config.toml'


def _project_file(start: Path, ignored: list[str]) -> tuple[Path, bytes] | None:
    """The nearest file upwards that counts, with its content; those that do not are told."""
    # Upwards to the root, as git does. A file that somebody else put
    # into /tmp or a shared folder does not count, but it is told.
    for folder in (start, *start.parents):
        path = folder / PROJECT_FILE
        if not path.is_file():
            continue
        try:
            # One descriptor is judged and read, so that nobody can exchange the file in between.
            with path.open("rb") as file:
                # The link and what it leads to: either, if another user's, lets them choose what is read.
                fault = foreign(path.lstat()) or foreign(os.fstat(file.fileno()))
                if fault is None:
                    return path, file.read()
        except PermissionError:
            fault = "you may not read it"
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        ignored.append(f"{path}: {fault}")
    return None


def foreign(status: os.stat_result, owners: Collection[int] = ()) -> str | None:
    """Why a file is not the user's own, or None if it is; files of `owners` count as theirs. Where there are no users
    (Windows), every file is."""
    if not hasattr(os, "geteuid"):
        return None
    if status.st_uid != os.geteuid() and status.st_uid not in owners:
        return "it belongs to another user"
    if stat.S_ISLNK(status.st_mode):
        return None  # a link has no mode of its own
    if status.st_mode & stat.S_IWOTH:
        return "everybody may write it (chmod o-w)"
    if status.st_mode & stat.S_IWGRP and not _own_group(status.st_gid):
        return "its group may write it (chmod g-w)"
    return None


def _own_group(gid: int) -> bool:
    """Whether a group is the user's private one: many systems give each user a group of the same name, with nobody else in
    it, and let it write all of their files."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error}") from None


def _parse(data: bytes, path: Path) -> dict[str, Any]:
    import tomllib  # most programs have no file to read

    try:
        return tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def _check(values: dict[str, Any], path: Path) -> Config:
    try:
        return msgspec.convert(values, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {_misfit(values) or error}") from None


def _misfit(values: Mapping[str, Any]) -> str:
    """What does not fit, by the table it stands in; empty if every table fits."""
    for title, table, kind in _tables(values):
        known = kind.__struct_fields__
        unknown = next((name for name in table if name not in known), None)
        if unknown == "api_key" and kind is ProviderConfig:
            return (
                f"{title}: a key does not belong in this file; api_key_env names the variable that holds it, "
                f"or `midstream keys set {title.partition('.')[2].rstrip(']')}` stores it"
            )
        if unknown is not None:
            from ..dialects.registry import meant  # most files are right

            hint = meant(unknown, known) or "."
            return f"{title}: unknown setting {unknown!r}{hint} Known: {', '.join(known)}"
        try:
            msgspec.convert(table, kind)
        except msgspec.ValidationError as error:
            return f"{title}: {_wrong_word(table, kind) or str(error).replace('`$.', '`')}"
    return ""


def _wrong_word(table: Mapping[str, Any], kind: type[msgspec.Struct]) -> str:
    """The setting that takes one of a few words and has another, with those words; empty if there is none."""
    for field in msgspec.structs.fields(kind):
        words = [word for word in get_args(field.type) if isinstance(word, str)]
        if words and isinstance(table.get(field.name), str) and table[field.name] not in words:
            return f"invalid {field.name} {table[field.name]!r}; expected one of {', '.join(words)}"
    return ""


def _tables(values: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], type[msgspec.Struct]]]:
    """Every table that has settings of its own, with the title it has in the file; the whole file comes last."""
    for group, kind in (("providers", ProviderConfig), ("models", ModelConfig), ("mcp", McpServer)):
        tables = values.get(group)
        for name, table in tables.items() if isinstance(tables, dict) else ():
            if isinstance(table, dict):
                yield f"[{group}.{_toml_key(name)}]", table, kind
    for group, single in (("timeouts", TimeoutConfig), ("chat", ChatConfig), ("sandbox", SandboxConfig)):
        table = values.get(group)
        if isinstance(table, dict):
            yield f"[{group}]", table, single
    yield "at the top", dict(values), Config


def _toml_key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else f'"{name}"'


def _check_names(config: Config, origins: Mapping[str, str], files: Sequence[str]) -> None:
    """A name that leads nowhere would be ignored without a word: a price, or `tools = false`, that never counts."""
    for name in config.models:
        path = next((origins[each] for each in origins if each.startswith(f"models.{name}.")), files[-1])
        title = f"{path}: [models.{_toml_key(name)}]"
        if "*" in name:
            raise ConfigError(f"{title}: each model has a table of its own; there are no patterns")
        if name in config.aliases or "/" in name or ":" in name:
            continue
        if name in config.providers:
            raise ConfigError(f'{title} is about one model: write [models."{name}/MODEL"]')
        provider = next(iter(config.providers), "PROVIDER")
        raise ConfigError(f'{title} names no provider and no alias: write [models."{provider}/{name}"] or its like')
    for name, settings in config.providers.items():
        if settings.api_key_env and not _VARIABLE.fullmatch(settings.api_key_env):  # it may be a key: not shown
            path = origins[f"providers.{name}.api_key_env"]
            raise ConfigError(
                f"{path}: [providers.{_toml_key(name)}]: api_key_env is the name of a variable (letters, digits and _), "
                f"never a key"
            )
        try:
            check_auth((settings.auth or "none").lower())
        except ConfigError as error:
            path = origins[f"providers.{name}.auth"]
            raise ConfigError(f"{path}: [providers.{_toml_key(name)}]: {error}") from None
    for name, server in config.mcp.items():
        path = next((origins[each] for each in origins if each.startswith(f"mcp.{name}.")), files[-1])
        if server.name not in ("", name):
            raise ConfigError(
                f"{path}: [mcp.{_toml_key(name)}]: the table's name is the server's name; leave `name` out"
            )
        try:
            msgspec.structs.replace(server, name=name).checked()
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None


def _check_trust(config: Config, values: Mapping[str, Any], path: Path, trusted: Sequence[str]) -> bool:
    """Whether a project is trusted. One that is not may not lead a key away: to another host, were it this machine, or out of
    another variable. Nor may it loosen the sandbox: written out, even a default would replace what the user said."""
    folder = path.parent
    if config.trusted_projects:
        raise ConfigError(f"{path}: trusted_projects belongs in your own file, not in a project's")
    if any(Path(each).expanduser().resolve() == folder for each in trusted):
        return True
    # A cloned repository could otherwise name its own host for a
    # known provider and be sent the key with the first request.
    for name in config.providers:
        raise ConfigError(
            f"{path}: providers.{name} decides where a key is sent, and this project is not trusted: "
            f'move it to your own config.toml, or put trusted_projects = ["{folder}"] there'
        )
    # A server is a program: a cloned repository would run it on this machine.
    for name in config.mcp:
        raise ConfigError(
            f"{path}: mcp.{name} names a program or an address, and this project is not trusted: "
            f'move it to your own config.toml, or put trusted_projects = ["{folder}"] there'
        )
    # `values`, not `config`: after conversion a default and a setting that says the same cannot be told apart.
    if values.get("sandbox", {}) not in ({}, {"use": "on"}):
        raise ConfigError(
            f"{path}: sandbox decides what commands may reach, and this project is not trusted: it may only say "
            f'use = "on"; move the rest to your own config.toml, or put trusted_projects = ["{folder}"] there'
        )
    return False


def _merge(into: dict[str, Any], values: Mapping[str, Any], origin: str, origins: dict[str, str], prefix: str) -> None:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            # Tables merge key by key, so a project can set one price without repeating the rest.
            _merge(into.setdefault(key, {}), value, origin, origins, f"{name}.")
        else:
            into[key] = value
            origins[name] = origin
