"""The end of an answer, where hosts say it more than once or not quite."""

from __future__ import annotations

from collections.abc import Mapping

_NORMAL = ("end_turn", "tool_use")


def later_stop(said: str | None, new: str, meanings: Mapping[str, str]) -> str:
    """What counts when a host says its end twice: the later word, but an answer that was cut stays cut."""
    return new if not said or meanings.get(said, said) in _NORMAL else said


def settled_stop(reason: str, calls: int) -> str:
    """Calls that end with a plain end are still calls, and a stop for tools without any is a plain end."""
    return ("tool_use" if calls else "end_turn") if reason in _NORMAL else reason
