"""Which models this program can reach, and how: the registry, the user's configuration and the environment together.

The environment is read when a request is made, never at import. An address or a key comes from, in this order: the caller,
the environment, the configuration, the registry.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ..core.dialect import Endpoint
from ..core.errors import ConfigError, MissingKey, UnknownModel
from ..core.secret import Secret, SecretHeaders
from ..dialects.provider import Provider
from ..dialects.registry import REGISTRY, Registry, Resolved
from ..transport.loopback import leads_to_loopback
from .config import Config, LoadedConfig, ModelConfig, load_config
from .tokens import Price, price_of, window_of


class Catalog:
    """Resolves names, finds keys, knows prices. One for a program is enough; it holds no secret."""

    def __init__(
        self,
        config: Config | LoadedConfig | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        providers: Iterable[Provider] = (),
    ) -> None:
        loaded = config if config is not None else load_config(environ=environ)
        self.config = loaded.config if isinstance(loaded, LoadedConfig) else loaded
        self._environ = os.environ if environ is None else environ
        rows = [*REGISTRY.providers.values(), *[self._configured(name) for name in self.config.providers], *providers]
        self.registry = Registry([_with_both_spellings(row) for row in rows])

    def resolve(self, name: str) -> Resolved:
        """The model behind a name or alias, at the address the environment gives."""
        target = self.registry.resolve(self.config.aliases.get(name, name))
        variable = self.base_variable(target)
        if variable is None:
            return target
        return replace(target, endpoint=_at(self._environ[variable], target.endpoint))

    def base_variable(self, target: Resolved) -> str | None:
        """The environment variable that gives this provider's address, if one is set."""
        return next((name for name in target.endpoint.base_env if self._environ.get(name)), None)

    def names(self) -> list[str]:
        """Names to offer: aliases first."""
        return [*sorted(self.config.aliases), *self.registry.known_models()]

    def key_variable(self, target: Resolved) -> str | None:
        """The environment variable that holds this provider's key, if one is set."""
        endpoint = target.endpoint
        return next((name for name in (*endpoint.key_env, *endpoint.bearer_env) if self._environ.get(name)), None)

    def key_names(self) -> frozenset[str]:
        """Every environment variable that some provider's key is read from, whether it is set or not."""
        configured = [each.api_key_env for each in self.config.providers.values() if each.api_key_env]
        rows = [*REGISTRY.providers.values(), *self.registry.providers.values()]
        return frozenset(configured).union(*[(*row.endpoint.key_env, *row.endpoint.bearer_env) for row in rows])

    def auth_headers(
        self, target: Resolved, api_key: str | Secret | None = None, *, otherwise: str = "pass api_key="
    ) -> SecretHeaders:
        """The secret headers for one request; MissingKey says which variable to set, or what to do `otherwise`."""
        endpoint = target.endpoint
        if endpoint.auth == "none":
            return SecretHeaders()
        variable = self.key_variable(target) if api_key is None else None
        key = api_key = Secret(api_key if api_key is not None else self._environ.get(variable or "", ""))
        if not key:
            if leads_to_loopback(endpoint.base_url):
                return SecretHeaders()
            raise MissingKey(_no_key(target, otherwise))
        if endpoint.auth == "bearer" or variable in endpoint.bearer_env:
            return SecretHeaders({"authorization": key.behind("Bearer ")})
        return SecretHeaders({endpoint.auth: key})

    def price(self, target: Resolved) -> Price | None:
        """What a token costs there, by the user's figures or the dated table; None if nobody knows."""
        own = self._settled(target)
        if own is not None and own.input_price is not None and own.output_price is not None:
            read = own.input_price if own.cache_read_price is None else own.cache_read_price
            write = own.input_price if own.cache_write_price is None else own.cache_write_price
            return Price(own.input_price, own.output_price, read, write, "configuration")
        return price_of(target.provider, target.model)

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
        model = known or REGISTRY.providers.get(settings.like)
        if model is None:
            raise ConfigError(f"providers.{name}.like: no provider {settings.like!r} to be like")
        endpoint = model.endpoint
        if known is None:
            stem = name.upper().replace("-", "_")
            endpoint = replace(endpoint, key_env=(f"{stem}_API_KEY",), bearer_env=(), base_env=(f"{stem}_BASE_URL",))
        if settings.base_url:
            endpoint = _at(settings.base_url, endpoint)
        if settings.api_key_env is not None:
            endpoint = replace(endpoint, key_env=(settings.api_key_env,), bearer_env=())
        if settings.headers:
            endpoint = replace(endpoint, headers={**(endpoint.headers or {}), **settings.headers})
        if known is not None:
            return replace(known, endpoint=endpoint)
        # reasoning made at another address belongs there
        dialects = tuple([(pattern, replace(dialect, provider=name)) for pattern, dialect in model.dialects])
        return Provider(name, endpoint, dialects, models=model.models)


def _with_both_spellings(provider: Provider) -> Provider:
    """The SDKs say X_BASE_URL and litellm's family X_API_BASE: users have set either (facts/conventions.md)."""
    names = list(provider.endpoint.base_env)
    for name in provider.endpoint.base_env:
        if name.endswith("_BASE_URL"):
            names.append(name.removesuffix("_BASE_URL") + "_API_BASE")
        elif name.endswith("_API_BASE"):
            names.append(name.removesuffix("_API_BASE") + "_BASE_URL")
    return replace(provider, endpoint=replace(provider.endpoint, base_env=tuple(dict.fromkeys(names))))


def _at(address: str, endpoint: Endpoint) -> Endpoint:
    """The endpoint at another address, which may be written out further than our base is."""
    base = address.rstrip("/")
    tail = next((tail for tail in endpoint.base_tails if base.endswith(tail)), "")
    return replace(endpoint, base_url=base.removesuffix(tail))


def _no_key(target: Resolved, otherwise: str) -> str:
    names = (*target.endpoint.key_env, *target.endpoint.bearer_env)
    if not names:
        return f"no key for {target.provider}: {otherwise}"
    others = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
    return f"no key for {target.provider}: set {names[0]}{others}, or {otherwise}"
