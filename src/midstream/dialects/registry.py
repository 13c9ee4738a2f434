"""Names of models -> dialect and endpoint: `resolve("moonshot/kimi-k2.5")`, `resolve("deepinfra:moonshotai/Kimi-K2.5")`.

Only the first separator counts: `openrouter/moonshotai/kimi-k2` is OpenRouter's `moonshotai/kimi-k2`. A name that cannot be
placed raises UnknownModel with what was probably meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ..core.dialect import Dialect, Endpoint
from ..core.errors import UnknownModel
from ..core.nearest import nearest
from ..core.patterns import late_pattern
from . import anthropic, chat_hosts, cohere, completion, gemini, kimi, ollama, openai_responses
from .provider import Provider

# Split at the first separator: `qwen3:32b` and `moonshotai/kimi-k2` are names of models
# (field-guide/names.md#model-names).
_NAME = late_pattern(r"\s*([^/:\s]+)[/:](\S.*?)\s*\Z")


class Resolved(msgspec.Struct, frozen=True):
    """A model that can be talked to."""

    provider: str
    model: str
    dialect: Dialect
    endpoint: Endpoint

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"


class Registry:
    """The providers one program knows. `with_providers` gives one that knows more."""

    def __init__(self, providers: Iterable[Provider]) -> None:
        self.providers: Mapping[str, Provider] = {row.name: row for row in providers}
        self._names = {spelling: row.name for row in self.providers.values() for spelling in row.names}
        # After the spellings, so that a provider's own name is never shadowed by another's alias.
        self._names.update({name: name for name in self.providers})
        self._resolved: dict[str, Resolved] = {}

    def with_providers(self, providers: Iterable[Provider]) -> Registry:
        """These and more; a provider of the same name replaces the old one."""
        return Registry([*self.providers.values(), *providers])

    def resolve(self, name: str) -> Resolved:
        """The dialect and endpoint behind `provider/model` or `provider:model`.

        `midstream.resolve` is this method of the built-in registry: it reads no configuration and no environment.
        `Catalog().resolve` also knows the user's providers, aliases and addresses, as Session does.
        """
        known = self._resolved.get(name)
        if known is None:
            known = self._place(name)
            # A bound, because a gateway resolves whatever its clients type.
            if len(self._resolved) < 512:
                self._resolved[name] = known
        return known

    def provider(self, name: str) -> Provider:
        """The provider of this name, in any of its spellings; UnknownModel suggests others."""
        spelled = name.strip().lower()
        found = self.providers.get(self._names.get(spelled, ""))
        if found is None:
            hint = meant(spelled, self._names) or "."
            raise UnknownModel(f"unknown provider {spelled!r}{hint} Known: {', '.join(sorted(self.providers))}")
        return found

    def known_models(self) -> list[str]:
        """Names worth offering, as `provider/model`."""
        return [f"{row.name}/{model}" for row in self.providers.values() for model in row.models]

    def dialects(self) -> dict[str, Dialect]:
        """Every dialect by its name, native paths included."""
        chosen = [dialect for row in self.providers.values() for _, dialect in row.dialects]
        native = [dialect.native for dialect in chosen if dialect.native is not None]
        return {dialect.name: dialect for dialect in (*chosen, *native)}

    def dialect(self, name: str) -> Dialect:
        found = self.dialects().get(name)
        if found is None:
            raise UnknownModel(f"unknown dialect {name!r}{meant(name, self.dialects())}")
        return found

    def _place(self, name: str) -> Resolved:
        match = _NAME.match(name)
        if match is None:
            raise UnknownModel(
                f"{name!r} does not name a provider; write provider/model{meant(name, self.known_models())}"
            )
        spelled, model = match[1].lower(), match[2]
        provider = self.providers.get(self._names.get(spelled, ""))
        if provider is None:
            if spelled in _ELSEWHERE:
                raise UnknownModel(f"unknown provider {spelled!r}: {_ELSEWHERE[spelled]}")
            # The whole name first: what looks like a provider may be the beginning of a model's name.
            hint = meant(name, self.known_models()) or meant(spelled, self._names)
            raise UnknownModel(f"unknown provider {spelled!r}{hint or '.'} Known: {', '.join(sorted(self.providers))}")
        dialect = provider.dialect_for(model)
        if dialect is None:
            known = [f"{provider.name}/{model}" for model in provider.models]
            hint = meant(f"{provider.name}/{model}", known) or f". It serves {', '.join(provider.models)}"
            raise UnknownModel(f"{provider.name} has no model {model!r}{hint}")
        return Resolved(provider.name, model, dialect, provider.endpoint)


_ELSEWHERE = {
    "sim": "doubles run inside the command (`midstream chat -m sim/kimi-k2.5`). In Python start them first: "
    "`with midstream.testing.sim_server() as sim:`, and pass client=sim.client()",
}
"""Names that are no provider's here, and where they are one's."""


def meant(name: str, known: Iterable[str]) -> str:
    """`; did you mean x?` for the nearest of `known`, comparing also the part behind the slash."""
    spelled = {option.lower(): option for option in known}
    # People leave the provider out; then the part behind the slash is what they typed.
    for option in list(spelled.values()):
        spelled.setdefault(option.lower().partition("/")[2], option)
    spelled.pop("", None)
    near = nearest(name.lower(), spelled, n=3, cutoff=0.6)
    found = list(dict.fromkeys(spelled[match] for match in near))
    return f"; did you mean {' or '.join(found)}?" if found else ""


_MODULES = (kimi, chat_hosts, anthropic, openai_responses, gemini, ollama, cohere, completion)
REGISTRY = Registry(row for module in _MODULES for row in module.PROVIDERS)
resolve = REGISTRY.resolve
