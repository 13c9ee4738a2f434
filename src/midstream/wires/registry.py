"""The wires by name. A new wire is one row in `core/dialect.py: WIRES` and a package here that has its name."""

from __future__ import annotations

from importlib import import_module

from ..core.dialect import WIRES as NAMES
from ..core.errors import UnknownModel
from .wire import Wire

# The core's table comes first, because a dialect is checked before any wire is loaded; a second list of the same names
# here could only disagree with it. Only the values are loaded: what a wire can do comes when a room of it is entered.
WIRES: dict[str, Wire] = {
    name: import_module(f".{name.replace('-', '_')}.wire", __package__).WIRE for name in NAMES
}  # fmt: skip


def get_wire(name: str) -> Wire:
    wire = WIRES.get(name)
    if wire is None:
        raise UnknownModel(f"unknown wire {name!r}; expected one of {', '.join(sorted(WIRES))}")
    return wire
