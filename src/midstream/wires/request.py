"""What an encode gives: one HTTP request without its secrets, and the notes of what had to change."""

from __future__ import annotations

from ..core.blocks import Value
from ..core.dialect import Dialect
from ..core.handoff import Note


class Request(Value, frozen=True):
    """`path` is relative to the endpoint's base URL. `tool_names` maps a name on the wire back to the tool's own.

    `dialect` is the one that reads the answer: the path that was chosen, and how the prompt left off.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    notes: tuple[Note, ...] = ()
    tool_names: dict[str, str] | None = None
    stream: bool = True
    wire: str = ""
    model: str = ""
    dialect: Dialect | None = None
