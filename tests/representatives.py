"""Dialects that stand for all: on each wire every value that a field of a dialect takes occurs in one of them.

Code decides by the fields of a dialect and by nothing else, nearly always by one of them. So a test over all dialects has these in
`make test`, and the others, whose every value these have, in `make test-long`. A new dialect joins if it brings a value that is new.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from midstream.core.dialect import Dialect
from midstream.sim.players import make_players

from .long_run import cases

PLAYERS = make_players()
_NAMES = frozenset({"name", "provider"})
"""Shown and compared with those of origins, and nothing is decided by them."""
_PARTS = ("reasoning", "limits")


def representatives(*fields: str, among: Iterable[str] = PLAYERS) -> list[str]:
    """The names of a few of these dialects in which every value of these fields (of all, if none is named) occurs, wire by wire.

    A field of a part is named with it, as in `reasoning.echo`.
    """
    known = {name: VALUES[name] for name in among}
    if unknown := set(fields) - set(VALUES["openai"]):
        raise LookupError(f"no such fields: {', '.join(sorted(unknown))}")
    looked_at = {
        name: {
            (values["wire"], field, value)
            for field, value in values.items()
            if not fields or field in {"wire", *fields}
        }
        for name, values in known.items()
    }
    missing = set[tuple[str, str, str]]().union(*looked_at.values())
    chosen: list[str] = []
    while missing:
        chosen.append(max(looked_at, key=lambda name: len(looked_at[name] & missing)))
        missing -= looked_at[chosen[-1]]
    return chosen


def dialect_cases(*fields: str, among: Iterable[str] = PLAYERS) -> list[Any]:
    """The names of all these dialects as parameters of a test, those that are not representative marked as long."""
    among = list(among)
    return cases(among, set(representatives(*fields, among=among)))


def _values(dialect: Dialect) -> dict[str, str]:
    """Every field of a dialect and of its parts by its value's text, which can be compared whatever it is."""
    found = {
        field: repr(getattr(dialect, field)) for field in dialect.__struct_fields__ if field not in {*_NAMES, *_PARTS}
    }
    found["native"] = str(dialect.native is not None)  # the other path is a dialect among these
    for part in _PARTS:
        values = getattr(dialect, part)
        found |= {f"{part}.{field}": repr(getattr(values, field)) for field in values.__struct_fields__}
    return found


VALUES = {name: _values(player.target.dialect) for name, player in PLAYERS.items()}
