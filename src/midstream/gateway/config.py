"""What the operator settled in `gateway.toml`; docs/gateway-config.md shows every setting.

Providers, addresses, keys and prices are not in this file: they come from the environment and from `config.toml`, as for every
other command. A mistake is an error at the start that names the file, the line, the setting and what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from ..core.dialect import MissingReasoning, TextCalls
from ..core.errors import ConfigError
from ..core.nearest import nearest
from .spend import Budget, parse_budget

DEFAULT_PORT = 4000
LogFormat: TypeAlias = Literal["json", "text", "none"]
Unpriced: TypeAlias = Literal["free", "dearest", "refuse"]

# The description is what an error message says was expected
# (`_expected`), so each of these is worded for an operator.
Port: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=65535, description="a port from 0 (any free one) to 65535")]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000, description="a whole number from 1")]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=86_400, description="seconds, more than 0")]
Days: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=3_650, description="days, more than 0")]
Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, description="text that is not empty")]


# The defaults are for one machine and one user; each is safe to run without reading about it first.
class ServerConfig(msgspec.Struct, frozen=True):
    """Where the gateway listens, and what it lets a connection do."""

    host: Name = "127.0.0.1"
    port: Port = DEFAULT_PORT
    workers: Annotated[int, msgspec.Meta(ge=1, le=256, description="a whole number from 1 to 256")] = 1
    drain: Annotated[float, msgspec.Meta(ge=0, le=86_400, description="seconds, 0 or more")] = 30.0
    """How long open answers may go on after SIGTERM."""
    log_format: LogFormat = "json"
    record: str = ""
    """A folder in which every exchange with a host is kept, with what was said; empty: none is."""
    record_scrub: tuple[str, ...] = ()
    """Regular expressions: what matches, or its first group, is taken out of what is kept, as keys are."""
    max_connections: Count = 10_000
    max_in_flight: Count = 2_000
    """Requests in progress, of all keys together."""
    max_body_mb: Count = 32
    max_header_kb: Count = 64
    header_timeout: Seconds = 10.0
    body_timeout: Seconds = 30.0
    write_timeout: Seconds = 30.0
    """How long a client may take to read what it was sent before its connection is closed."""


class DefaultsConfig(msgspec.Struct, frozen=True):
    """How answers are asked for where neither an alias nor a key says otherwise."""

    text_calls: TextCalls = "show"
    missing_reasoning: MissingReasoning = "placeholder"
    pass_client_keys: bool = False
    """Whether a client may bring its own key for a provider, in `x-midstream-provider-key`."""
    pass_fields: tuple[Name, ...] = ()
    """Fields of a client's body that go on to the model although it is not known to take them; `*` for all."""
    first_byte: Seconds | None = None
    """How long a host may take to the first byte of its answer, connecting included; then the next model of the alias is asked.
    None: as `[timeouts]` in `config.toml` says, else 600."""
    idle: Seconds | None = None
    """How long a begun answer may bring no data. None: the same, else 180."""
    total: Seconds | None = None
    """How long one model may take from the request to the last byte, retries included. None: the same, else 3600."""


class ModelsConfig(msgspec.Struct, frozen=True):
    """Which `provider/model` names may be asked for beside the aliases."""

    allow: tuple[Name, ...] | None = None
    """Patterns; None: whatever the operator has a key for, and hosts on this machine."""


class KeysConfig(msgspec.Struct, frozen=True):
    """Who may use the gateway, and the limits of a key that has none of its own."""

    # Three states: an operator who says nothing gets a gateway that is open on loopback until the first key is
    # created, and closed everywhere else.
    required: bool | None = None
    """None: required unless the gateway listens on loopback only and no key was ever created."""
    rate: Count | None = None
    concurrency: Count | None = None
    spend: str | None = None
    unpriced: Unpriced = "free"
    """What an answer counts against a budget if no price of its model is known: nothing, what it costs at the dearest model that is
    served here; or keys with a budget may not use such models."""

    @property
    def budget(self) -> Budget | None:
        return None if self.spend is None else parse_budget(self.spend)


class StateConfig(msgspec.Struct, frozen=True):
    """Where keys, limits, the vault and responses are kept."""

    url: str = ""
    """A path or `postgresql://…`; empty: `gateway.db` in midstream's data folder."""


class VaultConfig(msgspec.Struct, frozen=True):
    """The reasoning that is kept for clients which do not send it back."""

    enabled: bool = True
    seal: bool = True
    """Whether reasoning travels sealed inside what a client does send back."""
    keep_days: Days = 30.0
    response_days: Days = 30.0
    """How long a stored response can be continued with `previous_response_id`."""


class PageConfig(msgspec.Struct, frozen=True):
    """The page at `/`, and what it shows of the traffic."""

    enabled: bool = True
    live: bool | None = None
    """Whether requests and answers are recorded for the page; None: only while no key is needed."""
    live_count: Count = 2_000
    live_mb: Count = 64
    live_minutes: Annotated[float, msgspec.Meta(gt=0, le=1_440, description="minutes, more than 0, at most 1440")] = (
        60.0
    )
    admin_keys: tuple[Name, ...] = ()
    """Ids of the keys that see every tenant's traffic; any other key sees only its own tenant's."""
    hosts: tuple[Name, ...] = ()
    """Names under which browsers reach the page, in addition to those of this machine. Their pages may also ask an open gateway."""


class Alias(msgspec.Struct, frozen=True):
    """A name or pattern that clients ask for, and the models behind it: first choice first, the others if it cannot answer."""

    name: str
    models: tuple[str, ...]
    weights: tuple[float, ...] = ()
    sticky: bool = True
    """Whether a conversation keeps the model that the weights gave it; otherwise each request is placed anew."""
    text_calls: TextCalls | None = None
    missing_reasoning: MissingReasoning | None = None
    pass_fields: tuple[Name, ...] | None = None
    display_name: str = ""
    first_byte: Seconds | None = None
    idle: Seconds | None = None
    total: Seconds | None = None

    @property
    def is_pattern(self) -> bool:
        return "*" in self.name


# Two structs, because the name is the key of the table in the file and a field everywhere else.
class _AliasTable(msgspec.Struct, frozen=True):
    """An alias as it is written, without its name."""

    models: tuple[Name, ...] = ()
    weights: tuple[Annotated[float, msgspec.Meta(ge=0, description="0 or more")], ...] = ()
    sticky: bool = True
    text_calls: TextCalls | None = None
    missing_reasoning: MissingReasoning | None = None
    pass_fields: tuple[Name, ...] | None = None
    display_name: str = ""
    first_byte: Seconds | None = None
    idle: Seconds | None = None
    total: Seconds | None = None


class GatewayConfig(msgspec.Struct, frozen=True):
    """The whole file. `source` is its name in messages, empty where there is none."""

    server: ServerConfig = ServerConfig()
    defaults: DefaultsConfig = DefaultsConfig()
    models: ModelsConfig = ModelsConfig()
    aliases: tuple[Alias, ...] = ()
    keys: KeysConfig = KeysConfig()
    state: StateConfig = StateConfig()
    vault: VaultConfig = VaultConfig()
    page: PageConfig = PageConfig()
    source: str = ""


_SECTIONS: dict[str, type[msgspec.Struct]] = {
    "server": ServerConfig,
    "defaults": DefaultsConfig,
    "models": ModelsConfig,
    "keys": KeysConfig,
    "state": StateConfig,
    "vault": VaultConfig,
    "page": PageConfig,
}
_NAMES = (*_SECTIONS, "aliases")
S = TypeVar("S", bound=msgspec.Struct)


def load_config(path: Path | None) -> GatewayConfig:
    """The checked file, or the defaults where there is none. ConfigError says what is wrong and where."""
    if path is None:
        return GatewayConfig()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    return parse_config(data, str(path))


def parse_config(data: bytes, source: str) -> GatewayConfig:
    """The configuration in a file's bytes; `source` is its name in messages."""
    import tomllib

    try:
        text = data.decode("utf-8")
        values = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{source}, line {line}: not UTF-8 text; save the file as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: not valid TOML: {error}") from None
    file = _File(source, text)
    for name in values:
        # By hand and not by msgspec's `forbid_unknown_fields`: its message has neither a line nor a suggestion.
        if name not in _NAMES:
            raise file.error((name,), f"unknown section{near(name, _NAMES) or '.'} Allowed: {', '.join(_NAMES)}")
    sections: dict[str, Any] = {
        name: file.section((name,), values.get(name, {}), shape) for name, shape in _SECTIONS.items()
    }
    keys = sections["keys"]
    assert isinstance(keys, KeysConfig)
    try:
        # Read once now, so that a wrong budget is an error at the start and not with the first request.
        _ = keys.budget
    except ConfigError as error:
        raise file.error(("keys", "spend"), str(error)) from None
    server = sections["server"]
    assert isinstance(server, ServerConfig)
    for pattern in server.record_scrub:
        try:
            re.compile(pattern)
        except re.error as error:
            raise file.error(("server", "record_scrub"), f"{pattern!r} is not a regular expression: {error}") from None
    return GatewayConfig(**sections, aliases=_aliases(file, values.get("aliases", {})), source=source)


def _aliases(file: _File, values: Any) -> tuple[Alias, ...]:
    if not isinstance(values, dict):
        raise file.error(("aliases",), f"expected a table of names, got {_shown(values)}")
    return tuple([_alias(file, name, value) for name, value in values.items()])


def _alias(file: _File, name: str, value: Any) -> Alias:
    where = ("aliases", name)
    if not name.strip() or name != name.strip() or not name.isprintable():
        raise file.error(where, "expected a name, without blanks around it")
    # Three ways to write an alias, for one, several, or several with settings; the last holds the others.
    if isinstance(value, str):
        value = {"models": [value]}
    elif isinstance(value, list):
        value = {"models": value}
    elif not isinstance(value, dict):
        raise file.error(
            where, f"expected a model such as 'moonshot/kimi-k2.5', a list of them, or a table, got {_shown(value)}"
        )
    table = file.section(where, value, _AliasTable)
    if not table.models:
        raise file.error((*where, "models"), "expected at least one model, such as ['moonshot/kimi-k2.5']")
    if len(set(table.models)) != len(table.models):
        raise file.error((*where, "models"), "a model is named twice")
    if table.weights and (len(table.weights) != len(table.models) or not sum(table.weights)):
        raise file.error(
            (*where, "weights"), f"expected {len(table.models)} numbers, one for each model, not all of them 0"
        )
    return Alias(name, **{field: getattr(table, field) for field in _AliasTable.__struct_fields__})


class _File:
    """A file's name and text, for messages that say where."""

    def __init__(self, source: str, text: str) -> None:
        self._source = source
        self._text = text

    def section(self, where: tuple[str, ...], values: Any, shape: type[S]) -> S:
        """A table as a struct; the first setting that does not fit is told."""
        if not isinstance(values, dict):
            raise self.error(where, f"expected a table, got {_shown(values)}")
        types = get_type_hints(shape, include_extras=True)
        for name in values:
            if name not in types:
                raise self.error(
                    (*where, name), f"unknown setting{near(name, types) or '.'} Allowed here: {', '.join(types)}"
                )
        checked: dict[str, Any] = {}
        for name, value in values.items():
            try:
                # Field by field: converting the whole table would report only that something in it is wrong.
                checked[name] = msgspec.convert(value, types[name])
            except msgspec.ValidationError:
                told = f"expected {_expected(types[name])}, got {_shown(value)}"
                raise self.error((*where, name), told + _near_word(value, types[name])) from None
        return shape(**checked)

    def error(self, where: tuple[str, ...], what: str) -> ConfigError:
        line = _line_of(self._text, where)
        place = f"{self._source}, line {line}" if line else self._source
        return ConfigError(f"{place}: {dotted(where)}: {what}")


def dotted(where: Iterable[str]) -> str:
    """The name of a setting as TOML writes it."""
    return ".".join([part if re.fullmatch(r"[\w-]+", part) else f'"{part}"' for part in where])


def near(name: str, known: Iterable[str]) -> str:
    """`; did you mean x?` for the nearest of `known`, or nothing."""
    spelled = {each.lower(): each for each in known}
    found = nearest(name.lower()[:200], spelled, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join([spelled[each] for each in found])}?" if found else ""


def _words(kind: Any) -> tuple[str, ...]:
    """The words that a type allows."""
    if get_origin(kind) is Literal:
        return tuple([str(each) for each in get_args(kind)])
    return tuple([word for each in get_args(kind) for word in _words(each)])


def _near_word(value: Any, kind: Any) -> str:
    return near(value, _words(kind)) if isinstance(value, str) else ""


def _expected(kind: Any) -> str:
    """What a type allows, in words."""
    if get_origin(kind) is Annotated:
        _, meta = get_args(kind)
        return str(meta.description)
    if get_origin(kind) is Literal:
        *most, last = get_args(kind)
        return f"{', '.join(most)} or {last}"
    if get_origin(kind) is tuple:
        each = get_args(kind)[0]
        return 'a list such as ["a", "b"], with nothing empty in it' if each is Name else f"a list of {_expected(each)}"
    options = [each for each in get_args(kind) if each is not type(None)]
    if options:
        return " or ".join([_expected(each) for each in options])
    return {bool: "true or false", str: "text"}.get(kind, getattr(kind, "__name__", str(kind)))


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a table"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# Not a TOML parser. It only finds the line to name in a message; at worst the line is missing there.
_HEADER = re.compile(r"\s*\[\[?\s*(.*?)\s*\]\]?\s*(?:#.*)?\Z")
_SETTING = re.compile(
    r"\s*((?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[\w-]+))*)\s*="
)
_PART = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([\w-]+)")


def _line_of(text: str, where: tuple[str, ...]) -> int | None:
    """The line on which a setting is written, or the nearest table around it. Only for messages: the parser keeps no lines."""
    best, depth = None, 0
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            section = name = _parts(header[1])
        elif setting := _SETTING.match(line):
            name = (*section, *_parts(setting[1]))
        else:
            continue
        # The deepest name that leads to the setting: its own line, else that of its table.
        if len(name) > depth and where[: len(name)] == name:
            best, depth = number, len(name)
    return best


def _parts(name: str) -> tuple[str, ...]:
    return tuple([match[1] or match[2] or match[3] or "" for match in _PART.finditer(name)])
