"""Stop reasons that hosts send more than once, or not quite right."""

from __future__ import annotations

from collections.abc import Mapping

# The two reasons that hosts confuse: `stop` beside calls happens, and
# calls count, not the word (field-guide/streams.md#finish-reasons).
_NORMAL = ("end_turn", "tool_use")


def later_stop(said: str | None, new: str, meanings: Mapping[str, str]) -> str:
    """Which of two stop reasons counts: the later one, except that an answer that was cut off stays cut off."""
    # Some hosts repeat the reason with the usage. A plain "stop" in
    # that chunk must not hide that the answer was cut off or refused.
    return new if not said or meanings.get(said, said) in _NORMAL else said


def settled_stop(reason: str, calls: int) -> str:
    """Calls that end with a plain end are still calls, and a stop for tools without any is a plain end."""
    return ("tool_use" if calls else "end_turn") if reason in _NORMAL else reason
