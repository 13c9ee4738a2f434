"""A provider: an endpoint, and the dialect for each of its models."""

from __future__ import annotations

import msgspec

from ..core.dialect import Dialect, Endpoint
from .efforts import with_efforts
from .families import leaking, search


class Provider(msgspec.Struct, frozen=True):
    """`dialects` are tried in order, by a pattern searched in the lower-cased model name; "" fits every model.

    `family` is the pattern a vendor's own models follow; empty for a host of other people's models, which takes any name.
    `models` are names worth suggesting; `names` other spellings of the provider.
    """

    name: str
    endpoint: Endpoint
    dialects: tuple[tuple[str, Dialect], ...]
    models: tuple[str, ...] = ()
    family: str = ""
    names: tuple[str, ...] = ()

    def dialect_for(self, model: str) -> Dialect | None:
        lowered = model.lower()
        if self.family and not search(self.family, lowered):
            return None
        for pattern, dialect in self.dialects:
            if search(pattern, lowered):
                # The row says how the host speaks; what comes with the weights (leaked formats, levels of
                # effort) is looked up by name, so that no host has to repeat it.
                return with_efforts(leaking(dialect, lowered), lowered)
        return None
