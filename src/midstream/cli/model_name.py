"""Which model a word means: the same for `-m`, `/model`, the environment and the configuration.

An alias, `provider/model`, or the bare name of a listed model: that is the first provider's that lists it and has its key,
else the first one's that lists it. A double is only meant by `sim/…`.
"""

from __future__ import annotations

from ..client.catalog import Catalog
from ..core.errors import UnknownModel
from ..dialects.registry import meant
from ..sim.providers import SIM
from .models import key_state
from .options import model_names


def find_model(catalog: Catalog, word: str) -> str:
    """The name of the model; UnknownModel says what was probably meant."""
    word = word.strip()
    try:
        catalog.resolve(word)
    except UnknownModel as error:
        listed = _listed(catalog, word)
        if listed is None:
            raise UnknownModel(_unknown(catalog, word, error)) from None
        return listed
    return word


def _listed(catalog: Catalog, bare: str) -> str | None:
    wanted = bare.lower()
    rows = {name: row for name, row in catalog.registry.providers.items() if name != SIM}
    settled = [name.partition("/") for name in catalog.config.models]
    found = [
        (row, model)
        for row, models in [
            *[(rows[provider], (model,)) for provider, _, model in settled if provider in rows],
            *[(row, row.models) for row in rows.values()],
        ]
        for model in models
        if wanted in (model.lower(), model.rpartition("/")[2].lower())
    ]
    # The same name at several hosts: the one that can answer is meant.
    ready = [(row, model) for row, model in found if key_state(catalog, row)[1]]
    for row, model in ready or found:
        return f"{row.name}/{model}"
    return None


def _unknown(catalog: Catalog, word: str, error: UnknownModel) -> str:
    """One sentence with a suggestion. A provider that does not know the model says itself what it serves."""
    provider = word.partition("/")[0].partition(":")[0].lower()
    if word != provider and provider in catalog.registry.providers:
        return str(error)
    hint = meant(word, model_names(catalog))
    return f"unknown model {word!r}{hint or '; write provider/model.'} `midstream models` lists them"
