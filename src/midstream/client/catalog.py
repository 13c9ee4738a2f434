"""Which models this program can reach, and how: the registry, the user's configuration and the environment together.

The environment is read when a request is made, never at import. An address or a key comes from, in this order: the caller,
the environment, the configuration, the registry.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ..core.errors import ConfigError, MissingKey
from ..dialects.provider import Provider
from ..dialects.registry import REGISTRY, Registry, Resolved
from .config import Config, LoadedConfig, load_config
from .prices import Price, price_of


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
        own = [self._configured(name) for name in self.config.providers]
        self.registry: Registry = REGISTRY.with_providers([*own, *providers]) if own or providers else REGISTRY

    def resolve(self, name: str) -> Resolved:
        """The model behind a name or alias, at the address the environment gives."""
        target = self.registry.resolve(self.config.aliases.get(name, name))
        for variable in target.endpoint.base_env:
            if self._environ.get(variable):
                return replace(target, endpoint=replace(target.endpoint, base_url=self._environ[variable].rstrip("/")))
        return target

    def names(self) -> list[str]:
        """Names to offer: aliases first."""
        return [*sorted(self.config.aliases), *self.registry.known_models()]

    def key_variable(self, target: Resolved) -> str | None:
        """The environment variable that holds this provider's key, if one is set."""
        endpoint = target.endpoint
        return next((name for name in (*endpoint.key_env, *endpoint.bearer_env) if self._environ.get(name)), None)

    def auth_headers(self, target: Resolved, api_key: str | None = None) -> dict[str, str]:
        """The secret headers for one request; MissingKey says which variable to set."""
        endpoint = target.endpoint
        if endpoint.auth == "none":
            return {}
        variable = self.key_variable(target) if api_key is None else None
        key = api_key if api_key is not None else self._environ.get(variable or "", "")
        if not key:
            if _is_loopback(endpoint.base_url):
                return {}
            raise MissingKey(_no_key(target))
        if endpoint.auth == "bearer" or variable in endpoint.bearer_env:
            return {"authorization": f"Bearer {key}"}
        return {endpoint.auth: key}

    def price(self, target: Resolved) -> Price | None:
        """What a token costs there, by the user's figures or the dated table; None if nobody knows."""
        own = self.config.models.get(target.name)
        if own is not None and own.input_price is not None and own.output_price is not None:
            read = own.input_price if own.cache_read_price is None else own.cache_read_price
            write = own.input_price if own.cache_write_price is None else own.cache_write_price
            return Price(own.input_price, own.output_price, read, write, "configuration")
        return price_of(target.provider, target.model)

    def context_window(self, target: Resolved) -> int | None:
        own = self.config.models.get(target.name)
        if own is not None and own.context is not None:
            return own.context
        return target.dialect.limits.context

    def _configured(self, name: str) -> Provider:
        settings = self.config.providers[name]
        model = REGISTRY.providers.get(name) or REGISTRY.providers.get(settings.like)
        if model is None:
            raise ConfigError(f"providers.{name}.like: no provider {settings.like!r} to be like")
        endpoint = model.endpoint
        if settings.base_url:
            endpoint = replace(endpoint, base_url=settings.base_url.rstrip("/"), base_env=())
        if settings.api_key_env is not None:
            endpoint = replace(endpoint, key_env=(settings.api_key_env,))
        if settings.headers:
            endpoint = replace(endpoint, headers={**(endpoint.headers or {}), **settings.headers})
        dialects = model.dialects
        if name != model.name:  # reasoning made at another address belongs there
            dialects = tuple([(pattern, replace(dialect, provider=name)) for pattern, dialect in dialects])
        return Provider(name, endpoint, dialects, models=model.models)


def _no_key(target: Resolved) -> str:
    names = (*target.endpoint.key_env, *target.endpoint.bearer_env)
    if not names:
        return f"no key for {target.provider}: pass api_key="
    others = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
    return f"no key for {target.provider}: set {names[0]}{others}, or pass api_key="


def _is_loopback(url: str) -> bool:
    host = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    return host.startswith(("127.", "localhost", "[::1]"))
