"""The wires by name. A new wire is one row here."""

from __future__ import annotations

from ..core.errors import UnknownModel
from .anthropic.wire import WIRE as ANTHROPIC
from .cohere.wire import WIRE as COHERE
from .completion.wire import WIRE as COMPLETION
from .gemini.wire import WIRE as GEMINI
from .ollama.wire import WIRE as OLLAMA
from .openai_chat.wire import WIRE as OPENAI_CHAT
from .openai_responses.wire import WIRE as OPENAI_RESPONSES
from .wire import Wire

# Only the values: what a wire can do is loaded when a room of it is entered.
WIRES: dict[str, Wire] = {
    wire.name: wire for wire in (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI, OLLAMA, COHERE, COMPLETION)
}


def get_wire(name: str) -> Wire:
    wire = WIRES.get(name)
    if wire is None:
        raise UnknownModel(f"unknown wire {name!r}; expected one of {', '.join(sorted(WIRES))}")
    return wire
