"""Whether a provider has its key, in words; the key itself is never looked at."""

from __future__ import annotations

from ..client.catalog import Catalog
from ..core.errors import MissingKey
from ..dialects.provider import Provider
from ..dialects.registry import Resolved


def key_state(catalog: Catalog, provider: Provider) -> str:
    """`MOONSHOT_API_KEY is set`, `set MOONSHOT_API_KEY` or `needs no key` (a host on this machine needs none)."""
    target = Resolved(provider.name, "", provider.dialects[0][1], provider.endpoint)
    source = catalog.key_source(target)
    if source is not None:
        return f"{source} is set"
    try:
        catalog.check_key(target)
    except MissingKey:
        names = (*provider.endpoint.key_env, *provider.endpoint.bearer_env)
        return f"set {names[0]}" if names else "pass a key"
    return "needs no key"
