"""Names of models -> dialect and endpoint: `resolve("moonshot/kimi-k2.5")`, `resolve("deepinfra:moonshotai/Kimi-K2.5")`.

Only the first separator counts: `openrouter/moonshotai/kimi-k2` is OpenRouter's `moonshotai/kimi-k2`. A name that cannot be
placed raises UnknownModel with what was probably meant.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from ..core.dialect import Dialect, Endpoint
from ..core.errors import UnknownModel
from . import chat_hosts, kimi, openai_responses
from .provider import Provider

PROVIDERS: dict[str, Provider] = {
    row.name: row for module in (kimi, chat_hosts, openai_responses) for row in module.PROVIDERS
}
_NAMES: dict[str, str] = {
    spelling: row.name for row in PROVIDERS.values() for spelling in (row.name, *row.names) if spelling
}


class Resolved(msgspec.Struct, frozen=True):
    """A model that can be talked to."""

    provider: str
    model: str
    dialect: Dialect
    endpoint: Endpoint

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"


@lru_cache(maxsize=512)
def resolve(name: str) -> Resolved:
    """The dialect and endpoint behind `provider/model` or `provider:model`."""
    match = re.match(r"\s*([^/:\s]+)[/:](\S.*?)\s*\Z", name)
    if match is None:
        raise UnknownModel(f"{name!r} names no provider: write provider/model{_meant(name, _all_models())}")
    spelled, model = match[1].lower(), match[2]
    provider = PROVIDERS.get(_NAMES.get(spelled, ""))
    if provider is None:
        hint = _meant(name, _all_models()) or _meant(spelled, _NAMES)
        raise UnknownModel(f"no provider {spelled!r}{hint}. Known: {', '.join(sorted(PROVIDERS))}")
    dialect = provider.dialect_for(model)
    if dialect is None:
        known = [f"{provider.name}/{model}" for model in provider.models]
        hint = _meant(f"{provider.name}/{model}", known) or f". It serves {', '.join(provider.models)}"
        raise UnknownModel(f"{provider.name} has no model {model!r}{hint}")
    return Resolved(provider.name, model, dialect, provider.endpoint)


def known_models() -> list[str]:
    """Names worth offering, as `provider/model`."""
    return sorted(_all_models())


def all_dialects() -> dict[str, Dialect]:
    """Every dialect of the registry by its name."""
    return {dialect.name: dialect for row in PROVIDERS.values() for _, dialect in row.dialects}


def get_dialect(name: str) -> Dialect:
    dialect = all_dialects().get(name)
    if dialect is None:
        raise UnknownModel(f"no dialect {name!r}{_meant(name, all_dialects())}")
    return dialect


def _all_models() -> list[str]:
    return [f"{row.name}/{model}" for row in PROVIDERS.values() for model in row.models]


def _meant(name: str, known: Iterable[str]) -> str:
    """`; did you mean x?` for the nearest of `known`, comparing also the part behind the slash."""
    wanted = name.lower()
    spelled = {option.lower(): option for option in known}
    for option in list(spelled.values()):
        spelled.setdefault(option.lower().partition("/")[2], option)
    spelled.pop("", None)
    near = difflib.get_close_matches(wanted, spelled, n=3, cutoff=0.6)
    found = list(dict.fromkeys(spelled[match] for match in near))
    return f"; did you mean {' or '.join(found)}?" if found else ""
