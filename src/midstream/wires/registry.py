"""The wires by name. Each is loaded when it is first spoken: a program that talks to one host pays for one wire."""

from __future__ import annotations

from importlib import import_module

from ..core.errors import UnknownModel
from .wire import Wire

_PACKAGES = {
    "openai-chat": "openai_chat",
    "openai-responses": "openai_responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "ollama": "ollama",
    "completion": "completion",
}
WIRES = tuple(_PACKAGES)
"""The names of all wires."""

_loaded: dict[str, Wire] = {}


def get_wire(name: str) -> Wire:
    wire = _loaded.get(name)
    if wire is None:
        package = _PACKAGES.get(name)
        if package is None:
            raise UnknownModel(f"no wire {name!r}: choose one of {', '.join(sorted(WIRES))}")
        wire = _loaded[name] = import_module(f"{__package__}.{package}.wire").WIRE
    return wire
