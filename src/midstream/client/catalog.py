"""Which models this program can reach, and how: the registry, the user's configuration and the environment together.

The environment is read when a request is made, never at import. An address or a key comes from, in this order: the caller,
the environment, the configuration (a key: from its `api_key_command`), the registry. A key may also be one that the user
stored with `midstream keys set`, last of all (client/key_store.py).
"""

from __future__ import annotations

import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from ..core.dialect import Dialect, Endpoint
from ..core.errors import ConfigError, MissingKey, UnknownModel
from ..core.ids import OLD_WORDS
from ..core.modules import late_module
from ..core.patterns import late_pattern
from ..core.secret import PLAIN_QUERY, Secret, SecretHeaders, hide, hide_url_secrets, is_key
from ..dialects.provider import Provider
from ..dialects.registry import REGISTRY, Registry, Resolved
from ..transport.options import TransportOptions
from ..transport.target import leads_to_loopback
from .config import Config, LoadedConfig, ModelConfig, ProviderConfig, load_config
from .key_store import KeyStore
from .prices import Price, price_of
from .tokens import window_of

if TYPE_CHECKING:
    import asyncio

    from . import key_command
    from .key_command import KeyCommand
else:
    # Most keys come from the environment: nothing to wait for, and no command to run.
    asyncio = late_module("asyncio", globals())
    key_command = late_module(".key_command", globals())


_told: set[tuple[str, str, str]] = set()
_REMEMBERED = 512  # names and endpoints: clients of a gateway may ask for any name


class Catalog:
    """Resolves names, finds keys, knows prices. One per program is enough. The only secrets it holds are what an
    `api_key_command` printed (until it expires), stored keys, and keys of the environment that were requested. `clock` is the time of day, by which keys expire.

    A catalog of the user's configuration (none given, or what `load_config` gave) also finds the keys that the user stored;
    one of a `Config` of the caller's own does not.

    A `fixed` one reads the environment once, for a program that asks it thousands of times a second.
    """

    def __init__(
        self,
        config: Config | LoadedConfig | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        providers: Iterable[Provider] = (),
        clock: Callable[[], float] = time.time,
        fixed: bool = False,
    ) -> None:
        # A copy: whoever changes the original changes nothing here, so what was worked out from it stays right.
        environ = dict(os.environ if environ is None else environ) if fixed else environ
        self._is_fixed = fixed
        loaded = config if config is not None else load_config(environ=environ)
        self.config = loaded.config if isinstance(loaded, LoadedConfig) else loaded
        self._redefined = loaded.redefined if isinstance(loaded, LoadedConfig) else {}
        self._environ = os.environ if environ is None else environ
        # A Config of the caller's own is a closed world (a test, a
        # server): the keys of whoever runs it do not belong there.
        self._keys = KeyStore(environ) if isinstance(loaded, LoadedConfig) else None
        # Made once: each remembers its key until it expires, and a program may make thousands of requests.
        self._commands = {
            name: key_command.KeyCommand(
                name,
                settings.api_key_command,
                key_command.DEFAULT_TTL if settings.api_key_ttl is None else settings.api_key_ttl,
                clock=clock,
                environ=environ,
            )
            for name, settings in self.config.providers.items()
            if settings.api_key_command
        }
        self._read: dict[str, tuple[Dialect, Dialect]] = {}
        # Later rows replace earlier ones of the same name: the user's over ours, the program's over the user's.
        rows = [*REGISTRY.providers.values(), *[self._configured(name) for name in self.config.providers], *providers]
        self.registry = Registry([_with_both_spellings(row) for row in rows])
        self._configured_keys = {
            f"{name} of {provider}": Secret(max(value.split(), key=len, default=""))  # "Bearer" may stand before it
            for provider, settings in self.config.providers.items()
            for name, value in [*settings.headers.items(), *settings.query.items()]
            if is_key(name, value)
        }
        self._settles_tools = any(model.tools is not None for model in self.config.models.values())
        self._other_dialects: dict[int, tuple[Dialect, Dialect]] = {}
        self._resolved: dict[str, Resolved] = {}
        self._made_headers: dict[tuple[str, str], tuple[Secret, SecretHeaders]] = {}
        self._at_hand: dict[int, tuple[Endpoint, SecretHeaders]] = {}

    def transport_options(self, options: TransportOptions = TransportOptions()) -> TransportOptions:  # noqa: B008  (frozen)
        """The options, with how long the configuration says to wait for hosts."""
        waits = self.config.timeouts
        return options.with_waits(waits.first_byte, waits.idle, waits.total)

    def resolve(self, name: str) -> Resolved:
        """The model behind a name or alias, at the address the environment gives, with the media the user says it reads."""
        known = self._resolved.get(name)
        if known is not None:
            return known
        if name in self._redefined:
            self._tell_redefined(name)
        target = self._reading(self.registry.resolve(self.config.aliases.get(name, name)))
        variable = self.base_variable(target)
        endpoint = target.endpoint
        if variable is not None:
            endpoint = at_address(self._environ[variable], endpoint)
        # A host that takes a token at another address than a key
        # (Vertex); an address that the user set counts for both.
        elif endpoint.bearer_base and self._sends_token(target):
            endpoint = replace(endpoint, base_url=endpoint.bearer_base)
        if endpoint.places and "{" in endpoint.base_url:
            endpoint = replace(endpoint, base_url=_placed(endpoint, self._environ))
        if endpoint.query_env:
            told = {
                name: next((self._environ[each] for each in names if self._environ.get(each)), "")
                for name, names in endpoint.query_env.items()
            }
            query = {**(endpoint.query or {}), **{name: value for name, value in told.items() if value}}
            endpoint = replace(endpoint, query=query)
        unasked = endpoint is target.endpoint and not (endpoint.base_env or endpoint.bearer_base)
        target = target if endpoint is target.endpoint else replace(target, endpoint=endpoint)
        target = self._with_tools_settled(target) if self._settles_tools else target
        # Where nothing of it comes from the environment, or that never changes, it is the same the next time.
        if (unasked or self._is_fixed) and len(self._resolved) < _REMEMBERED:
            self._resolved[name] = target
        return target

    def _tell_redefined(self, name: str) -> None:
        """Say once that a trusted project gives this name another meaning than it has elsewhere."""
        path, model = self._redefined[name], self.config.aliases[name]
        if (path, name, model) not in _told:
            _told.add((path, name, model))
            warnings.warn(f"{name} means {model} here: {path} says so, a project that you trust", stacklevel=3)

    def _with_tools_settled(self, target: Resolved) -> Resolved:
        own, dialect = self._settled(target), target.dialect
        if own is None or own.tools is None or own.tools == dialect.native_tools:
            return target
        # The same value for the same dialect each time: encoded histories are kept by dialect.
        found = self._other_dialects.get(id(dialect))
        # One alternative per dialect is enough: `tools` is a bool, and here it differs from what the dialect says.
        if found is None:
            found = self._other_dialects[id(dialect)] = (dialect, replace(dialect, native_tools=own.tools))
        return replace(target, dialect=found[1])

    def _reading(self, target: Resolved) -> Resolved:
        known = self._read.get(target.name)
        if known is None or known[0] is not target.dialect:
            settled = self._settled(target)
            dialect = target.dialect
            if settled is not None and settled.media is not None:
                dialect = replace(dialect, media=settled.media)
            # The same value each time: encoded histories are kept by dialect.
            known = (target.dialect, dialect)
            if len(self._read) < 512:
                self._read[target.name] = known
        return target if known[1] is target.dialect else replace(target, dialect=known[1])

    def base_variable(self, target: Resolved | Provider) -> str | None:
        """The environment variable that gives this provider's address, if one is set."""
        environ = self._environ
        for name in target.endpoint.base_env:
            if environ.get(name):
                return name
        return None

    def names(self) -> list[str]:
        """Names to offer: aliases first, then the models that the configuration says something of."""
        own = [name for name in self.config.models if self._is_known(name)]
        return list(dict.fromkeys([*sorted(self.config.aliases), *own, *self.registry.known_models()]))

    def _is_known(self, name: str) -> bool:
        try:
            self.registry.resolve(self.config.aliases.get(name, name))
        except UnknownModel:
            return False  # it may belong to a provider of another program
        return True

    def key_variable(self, target: Resolved | Provider) -> str | None:
        """The environment variable that holds this provider's key, if one is set."""
        endpoint, environ = target.endpoint, self._environ
        for name in (*endpoint.key_env, *endpoint.bearer_env):
            if environ.get(name):
                return name
        return None

    def key_names(self) -> frozenset[str]:
        """Every environment variable that some provider's key is read from, whether it is set or not."""
        configured = [each.api_key_env for each in self.config.providers.values() if each.api_key_env]
        rows = [*REGISTRY.providers.values(), *self.registry.providers.values()]
        return frozenset(configured).union(*[(*row.endpoint.key_env, *row.endpoint.bearer_env) for row in rows])

    def keys_at_hand(self) -> dict[str, Secret]:
        """Every key that is known without asking a keyring or running a command, by its variable, or by its provider if the
        user stored it or wrote it into a header or a query of the configuration."""
        environ = self._environ
        found = {name: Secret(environ[name]) for name in self.key_names() if environ.get(name)}
        stored = {} if self._keys is None else self._keys.at_hand()
        return found | {f"key of {provider}": key for provider, key in stored.items()} | self._configured_keys

    def key_source(self, target: Resolved) -> str | None:
        """Where this provider's key comes from: the name of a variable, `api_key_command`, `keyring` or `keys.json` (where it
        was stored), or None if there is none."""
        return (
            self.key_variable(target)
            or ("api_key_command" if target.provider in self._commands else None)
            or self.stored_in(target.provider)
        )

    def stored_in(self, provider: str) -> str | None:
        """Where the user stored this provider's key: `keyring` or `keys.json`; None if it is not stored."""
        name = self._stored_name(provider)
        return None if self._keys is None or name is None else self._keys.place(name)

    def _stored_name(self, provider: str) -> str | None:
        """The name under which this provider's key is stored: its own, or that of another API of the same host that takes
        the same key (openai, openai-responses)."""
        if self._keys is None:
            return None
        names = self._keys.providers()
        # Its own name wins over a sister's: a user may have stored two keys for two APIs of one host.
        if not names or provider in names:
            return provider if names else None
        rows = self.registry.providers
        own = _key_realm(rows.get(provider))
        return next((name for name in names if own is not None and _key_realm(rows.get(name)) == own), None)

    def check_key(
        self, target: Resolved, api_key: str | Secret | None = None, *, otherwise: str = "pass api_key="
    ) -> None:
        """Raise what `auth_headers` would: MissingKey, with what to set or to do `otherwise`, or ConfigError. No command
        is run."""
        endpoint = target.endpoint
        if endpoint.auth == "none":
            return
        if not api_key and (api_key is not None or self.key_source(target) is None):
            # Servers on this machine mostly want no key. Elsewhere a request without one would only be
            # refused later, with less help.
            if leads_to_loopback(endpoint.base_url):
                return
            raise MissingKey(_no_key(target, otherwise))
        # A place of the address that nobody filled in (a region, a resource).
        if "{" in endpoint.base_url:
            raise ConfigError(_no_address(target))

    def auth_headers(self, target: Resolved, api_key: str | Secret | None = None) -> SecretHeaders:
        """The secret headers for one request; MissingKey says which variable to set. Waits for an `api_key_command`;
        `authorize` is the same where an event loop runs."""
        api_key = hide(api_key)
        self.check_key(target, api_key)
        command = self.key_command(target, api_key)
        if command is not None:
            return self._headers(target, None, command.get())
        stored = self._stored(target, api_key)
        return self._headers(target, api_key, None if stored is None else stored[0].get(stored[1]))

    def headers_at_hand(self, target: Resolved) -> SecretHeaders | None:
        """The headers that `authorize` gave for this target without a key of the caller's; None: ask `authorize`."""
        known = self._at_hand.get(id(target.endpoint))
        return known[1] if known is not None and known[0] is target.endpoint else None

    async def authorize(
        self, target: Resolved, api_key: str | Secret | None = None, refused: SecretHeaders | None = None
    ) -> SecretHeaders:
        """As `auth_headers`. `refused` are headers the host did not take: a key that a command printed is asked for anew."""
        if api_key is None:
            endpoint, variable = target.endpoint, self.key_variable(target)
            if variable is not None and endpoint.auth != "none" and "{" not in endpoint.base_url:
                headers = self._own_headers(endpoint, variable)  # the usual way, in one look at the environment
                if self._is_fixed:
                    if len(self._at_hand) >= _REMEMBERED:
                        self._at_hand.clear()
                    # With the endpoint, so that no other can have its id.
                    self._at_hand[id(endpoint)] = (endpoint, headers)
                return headers
        api_key = hide(api_key)
        self.check_key(target, api_key)
        command = self.key_command(target, api_key)
        if command is None:
            stored = self._stored(target, api_key)
            if stored is None:
                return self._headers(target, api_key)
            store, name = stored
            # A keyring may show a dialog and wait for the user: in a thread, so that other requests go on.
            at_hand = store.is_at_hand(name)
            return self._headers(target, None, store.get(name) if at_hand else await asyncio.to_thread(store.get, name))
        key = await command.fetch()
        # Only if it is still the refused one: another request may have renewed it already.
        if refused is not None and self._headers(target, None, key) == refused:
            key = await command.fetch(refused=key)
        return self._headers(target, None, key)

    def key_command(self, target: Resolved, api_key: str | Secret | None = None) -> KeyCommand | None:
        """The command that gives this provider's key, if neither the caller nor the environment does."""
        if api_key is not None or target.endpoint.auth == "none" or self.key_variable(target) is not None:
            return None
        return self._commands.get(target.provider)

    def _stored(self, target: Resolved, api_key: Secret | None) -> tuple[KeyStore, str] | None:
        """The store and the name in it, if this provider's key is to come from there."""
        if api_key is not None or target.endpoint.auth == "none" or self.key_variable(target) is not None:
            return None
        name = self._stored_name(target.provider)
        return None if self._keys is None or name is None else (self._keys, name)

    def sends_bearer(self, target: Resolved) -> bool:
        """Whether the key that is set goes as `Authorization: Bearer`."""
        return target.endpoint.auth == "bearer" or self._sends_token(target)

    def shown_headers(self, target: Resolved, key: str) -> dict[str, str]:
        """The headers of a target's endpoint as they may be shown: `key` stands for the key, in the header in which this host
        wants it, and values that the user configured are hidden, because any of them may be a secret."""
        row = REGISTRY.providers.get(target.provider)
        known = (row.endpoint.headers if row is not None else None) or {}
        headers = target.endpoint.headers or {}
        shown = {name: value if known.get(name) == value else "‹hidden›" for name, value in headers.items()}
        if target.endpoint.auth == "none":
            return shown
        bearer = self.sends_bearer(target)
        return {**shown, "authorization" if bearer else target.endpoint.auth: f"Bearer {key}" if bearer else key}

    def shown_address(self, target: Resolved, path: str) -> str:
        """The address of a request as it may be shown: without user, password and the values of its query that may be keys."""
        return hide_url_secrets(target.endpoint.base_url + target.endpoint.at(path), "‹hidden›", PLAIN_QUERY)

    def _sends_token(self, target: Resolved) -> bool:
        """Whether the key that is set is a token, where the provider takes keys in another header."""
        variable = self.key_variable(target)
        if variable is not None:
            return variable in target.endpoint.bearer_env
        return target.endpoint.command_bearer and target.provider in self._commands

    def _own_headers(self, endpoint: Endpoint, variable: str) -> SecretHeaders:
        """Headers with the key in this variable. They are the same objects as long as the variable is unchanged, so that the
        transport recognises them and reuses what it has prepared."""
        key = Secret(self._environ[variable])
        bearer = endpoint.auth == "bearer" or variable in endpoint.bearer_env
        place = ("authorization" if bearer else endpoint.auth, variable)
        made = self._made_headers.get(place)
        if made is None or made[0] != key:
            headers = SecretHeaders({place[0]: key.behind("Bearer ") if bearer else key})
            made = self._made_headers[place] = (key, headers)
        return made[1]

    def _headers(self, target: Resolved, api_key: Secret | None, found: Secret | None = None) -> SecretHeaders:
        endpoint = target.endpoint
        key = (
            api_key if api_key is not None else found or Secret(self._environ.get(self.key_variable(target) or "", ""))
        )
        if endpoint.auth == "none" or not key:
            return SecretHeaders()
        # A key that the caller passed goes where the provider takes
        # keys; only what the environment calls a token goes as one.
        if endpoint.auth == "bearer" or (api_key is None and self._sends_token(target)):
            return SecretHeaders({"authorization": key.behind("Bearer ")})
        return SecretHeaders({endpoint.auth: key})

    def price(self, target: Resolved) -> Price | None:
        """What a token costs there: each figure by the user or the dated table; None if input or output has none."""
        own, known = self._settled(target), self._listed_price(target)
        if own is None or own.prices == (None, None, None, None):
            return known
        fresh = _first(own.input_price, known.input if known else None)
        output = _first(own.output_price, known.output if known else None)
        if fresh is None or output is None:
            return None
        cache = known if own.input_price is None else None  # the cache of the table belongs to the price of the table
        read = _first(own.cache_read_price, cache.cache_read if cache else fresh)
        write = _first(own.cache_write_price, cache.cache_write if cache else fresh)
        return Price(fresh, output, read or 0.0, write or 0.0, "configuration")

    def has_price(self, target: Resolved) -> bool:
        """Whether it will be known what an answer cost."""
        return target.endpoint.reports_cost or self.price(target) is not None

    def _listed_price(self, target: Resolved) -> Price | None:
        """The price of the dated table; of a host of the user's own, that of the provider it is like."""
        found = price_of(target.provider, target.model)
        settings = self.config.providers.get(target.provider)
        if found is None and settings is not None and target.provider not in REGISTRY.providers:
            found = price_of(REGISTRY.provider(settings.like).name, target.model)
        return found

    def context_window(self, target: Resolved) -> int | None:
        """How much the model can read, by the user's figure, the dialect or the dated table; None if nobody knows."""
        own = self._settled(target)
        if own is not None and own.context is not None:
            return own.context
        return target.dialect.limits.context or window_of(target.model)

    def _settled(self, target: Resolved) -> ModelConfig | None:
        """What the user settled for a model, under any of the names that lead to it."""
        exact = self.config.models.get(target.name)
        if exact is not None:
            return exact
        for name, settled in self.config.models.items():
            try:
                # `kimi/kimi-k2.5` and `moonshot:kimi-k2.5` are one model; compared as text they would not be.
                same = self.registry.resolve(self.config.aliases.get(name, name)).name == target.name
            except UnknownModel:
                continue  # it may belong to a provider of another program
            if same:
                return settled
        return None

    def _configured(self, name: str) -> Provider:
        """A provider of the user's. One that is not in the registry has variables of its own: the key of the host it is
        like is not sent to another address."""
        settings = self.config.providers[name]
        known = REGISTRY.providers.get(name)
        # A known name is changed, a new one is made after another: both are the same table in the file.
        try:
            model = known or REGISTRY.provider(settings.like)
        except UnknownModel as error:
            raise ConfigError(f"providers.{name}.like: {error}") from None
        endpoint = model.endpoint
        if known is None:
            # Its own variables, not those of the host it is like: else `like = "openai"` would send
            # OPENAI_API_KEY to another address.
            stem = name.upper().replace("-", "_")
            endpoint = replace(endpoint, key_env=(f"{stem}_API_KEY",), bearer_env=(), base_env=(f"{stem}_BASE_URL",))
        try:
            endpoint = _settled_endpoint(endpoint, settings)
        except ConfigError as error:
            raise ConfigError(f"providers.{name}: {error}") from None
        # reasoning made at another address belongs there
        own: dict[str, Any] = {} if known is not None else {"provider": name}
        if settings.media is not None:
            own["media"] = settings.media
        dialects = tuple(
            [
                (pattern, settled_dialect(replace(dialect, **own), settings.dialect, f"providers.{name}.dialect"))
                for pattern, dialect in model.dialects
            ]
        )
        if known is not None:
            return replace(known, endpoint=endpoint, dialects=dialects)
        return Provider(name, endpoint, dialects, models=model.models)


def _first(own: float | None, usual: float | None) -> float | None:
    return usual if own is None else own


def _key_realm(row: Provider | None) -> tuple[str, str] | None:
    """Which key a provider takes, and at which host; a key is never taken to another host."""
    if row is None or not row.endpoint.key_env:
        return None
    return row.endpoint.key_env[0], row.endpoint.base_url.partition("://")[2].partition("/")[0]


def _settled_endpoint(endpoint: Endpoint, settings: ProviderConfig) -> Endpoint:
    """The endpoint with what the user settled of it."""
    if settings.base_url:
        endpoint = at_address(settings.base_url, endpoint)
    if settings.api_key_env is not None:
        # Exactly this variable: falling back on the usual ones would send a key that the user did not choose.
        endpoint = replace(endpoint, key_env=(settings.api_key_env,), bearer_env=())
    if settings.auth is not None:
        # Whoever says how to authenticate means it for keys that commands print, too.
        endpoint = replace(endpoint, auth=settings.auth.lower(), command_bearer=False)
    if settings.query:
        endpoint = replace(endpoint, query={**(endpoint.query or {}), **settings.query})
    if settings.headers:
        endpoint = replace(endpoint, headers={**(endpoint.headers or {}), **settings.headers})
    return endpoint


# Who a dialect is, as against how it speaks: another wire is another provider to be `like`.
FIXED_FIELDS = ("name", "wire", "provider", "native")
"""Fields of a dialect that a configuration cannot change."""


# When first asked for: few users settle such fields, and all their types have to be evaluated for it.
@cache
def _field_types() -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(Dialect)}


def settled_dialect(dialect: Dialect, fields: Mapping[str, Any], where: str) -> Dialect:
    """The dialect with the fields the user settled; ConfigError names the one that is wrong."""
    for name, value in fields.items():
        if name not in Dialect.__struct_fields__ or name in FIXED_FIELDS:
            known = [field for field in Dialect.__struct_fields__ if field not in FIXED_FIELDS]
            raise ConfigError(f"{where}: unknown field {name!r}; expected one of {', '.join(known)}")
        inner = getattr(dialect, name)
        if isinstance(inner, msgspec.Struct) and isinstance(value, dict):
            unknown = [key for key in value if key not in inner.__struct_fields__]
            if unknown:
                known = list(inner.__struct_fields__)
                raise ConfigError(f"{where}.{name}: unknown field {unknown[0]!r}; expected one of {', '.join(known)}")
            value = {**msgspec.to_builtins(inner), **value}
        if name == "tool_format" and isinstance(value, str):
            value = OLD_WORDS.get(value, value)
        try:
            dialect = replace(dialect, **{name: msgspec.convert(value, _field_types()[name])})
        except (ConfigError, msgspec.ValidationError) as error:
            raise ConfigError(f"{where}: {error}") from None
    return dialect


def _with_both_spellings(provider: Provider) -> Provider:
    """The SDKs say X_BASE_URL and litellm's family X_API_BASE: users have set either (field-guide/names.md#environment-variables)."""
    names = list(provider.endpoint.base_env)
    for name in provider.endpoint.base_env:
        if name.endswith("_BASE_URL"):
            names.append(name.removesuffix("_BASE_URL") + "_API_BASE")
        elif name.endswith("_API_BASE"):
            names.append(name.removesuffix("_API_BASE") + "_BASE_URL")
    return replace(provider, endpoint=replace(provider.endpoint, base_env=tuple(dict.fromkeys(names))))


def at_address(address: str, endpoint: Endpoint) -> Endpoint:
    """The endpoint at another address, which may be written out further than our base is."""
    base = address.rstrip("/")
    # Users copy addresses from documentation, with or without `/v1`; our paths bring it along.
    tail = next((tail for tail in endpoint.base_tails if base.endswith(tail)), "")
    return replace(endpoint, base_url=base.removesuffix(tail), bearer_base="")


# `{location-}` is the location and a hyphen, or nothing at all for the default: Vertex has
# `europe-west4-aiplatform…` and, for `global`, just `aiplatform…`. The value becomes part of a host name,
# so it may hold nothing that could end one.
_PLACE = late_pattern(r"\{(\w+)(-?)\}")
_PLACE_VALUE = late_pattern(r"[A-Za-z0-9][A-Za-z0-9._:-]*")


def _placed(endpoint: Endpoint, environ: Mapping[str, str]) -> str:
    """The address with its places filled; one that nobody set stays as it is."""
    places = endpoint.places or {}

    def fill(match: re.Match[str]) -> str:
        place = places[match[1]]
        variable = next((name for name in place.env if environ.get(name)), None)
        value = environ[variable] if variable is not None else place.default
        if not value:
            return match[0]
        if not _PLACE_VALUE.fullmatch(value):
            raise ConfigError(
                f"{variable}: invalid {match[1]} {value!r}; expected letters, digits, '.', '_', ':' and '-'"
            )
        if not match[2]:
            return value
        return "" if value == place.default else f"{value}-"

    return _PLACE.sub(fill, endpoint.base_url)


def _no_key(target: Resolved, otherwise: str) -> str:
    names = (*target.endpoint.key_env, *target.endpoint.bearer_env)
    if not names:
        return f"no key for {target.provider}: {otherwise}"
    others = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
    return f"no key for {target.provider}: set {names[0]}{others}, or {otherwise}"


def _no_address(target: Resolved) -> str:
    endpoint = target.endpoint
    missing = [name for name, place in (endpoint.places or {}).items() if f"{{{name}}}" in endpoint.base_url]
    ways = [*endpoint.base_env[:1], *[" or ".join((endpoint.places or {})[name].env[:2]) for name in missing]]
    return (
        f"no address for {target.provider}: {endpoint.base_url} needs {' and '.join(missing)}; "
        f"set {' or '.join(ways)}, or base_url in [providers.{target.provider}]"
    )
