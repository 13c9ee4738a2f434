"""Lines about the model's window: how much of it is taken, and what is being done about it."""

from __future__ import annotations

from ..client.compaction import ContextUse
from ..core.blocks import Turn
from ..core.events import CompactionFinished, CompactionStarted
from ..core.plural import pluralize

_REASONS = {
    "near_limit": "the conversation is near the end of the window",
    "smaller_window": "the conversation does not fit the window of the new model",
    "too_long": "the host says that the conversation is too long",
}


def used(use: ContextUse, *, short: bool = False) -> str:
    """`~12,345 of 262,144 tokens (5%)`, or `~12k/262k 5%`."""
    mark = "" if use.exact else "~"
    part = None if use.part is None else percent(use.part)
    if short:
        return f"{mark}{_thousands(use.tokens)}" + (f"/{_thousands(use.window or 0)} {part}" if part else " tokens")
    return f"{mark}{use.tokens:,}" + (f" of {use.window:,} tokens ({part})" if part else " tokens")


def percent(part: float) -> str:
    return f"{part:.0%}" if part >= 0.01 or not part else "<1%"


def _thousands(tokens: int) -> str:
    if tokens < 1000:
        return str(tokens)
    return (
        f"{tokens / 1000:.1f}k"
        if tokens < 9950
        else f"{tokens / 1000:.0f}k"
        if tokens < 999_500
        else f"{tokens / 1e6:.1f}M"
    )


def started_line(event: CompactionStarted) -> str:
    """What is about to be summarised, and why."""
    why = f": {_REASONS[event.reason]}" if event.reason in _REASONS else ""
    size = used(ContextUse(event.tokens, event.window))
    return f"({event.model} summarises the first {pluralize(event.turns, 'turn')}{why}; {size})"


def finished_line(event: CompactionFinished) -> str:
    """How it ended."""
    mark = event.turn.compacted if event.turn is not None else None
    if mark is None:
        why = event.error.message if event.error is not None else "unknown"
        return f"(not summarised: {why})"
    return (
        f"(summarised: about {mark.tokens_before:,} tokens are now {mark.tokens_after:,}; the original turns stay stored, "
        "/compact undo brings them back)"
    )


def compaction_lines(turn: Turn, unfolded: bool) -> list[str]:
    """A turn of the history that was not said; the text of a summary only if it is asked for."""
    mark = turn.compacted
    if mark is None or mark.action == "failure":
        return []
    if mark.action == "undo":
        return ["(the summary was taken back: models are sent the original turns)"]
    first = f"(models are sent a summary in place of the first {pluralize(mark.until, 'turn')})"
    return [first, *[f"  {line}" for line in turn.text.split("\n")]] if unfolded else [first]
