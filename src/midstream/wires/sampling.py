"""The options that steer sampling, as far as the dialect's host takes them; the others leave a Note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.dialect import Dialect, Options
from ..core.handoff import Note

SAMPLING = ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty")


def sampling_fields(
    options: Options,
    dialect: Dialect,
    notes: list[Note],
    names: Sequence[str] = SAMPLING,
    spelled: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The values of the named options, by their own names or as they are `spelled` here."""
    fields: dict[str, Any] = {}
    for name in names:
        value = getattr(options, name)
        if value is None or value == ():
            continue
        if name in dialect.sampling:
            fields[spelled.get(name, name) if spelled else name] = value
        else:
            notes.append(Note("dropped", "option", f"{name} is fixed or unknown for this model"))
    return fields


def token_limit(options: Options, dialect: Dialect, notes: list[Note]) -> int | None:
    """How long the answer may be, as far as the model can go; None leaves it to the host."""
    limit, most = options.max_tokens or dialect.default_max_tokens, dialect.limits.max_output
    if limit is None or most is None or limit <= most:
        return limit
    notes.append(Note("adapted", "option", f"max_tokens {limit} is above this model's {most}"))
    return most
