"""What a hand-off did to the history: every adaptation leaves a Note, and the notes of an encode are the switch report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from .blocks import Turn, Value

Action: TypeAlias = Literal["kept", "adapted", "dropped"]


class Note(Value, frozen=True):
    """One thing that was kept, adapted or dropped on the way to a wire.

    `what` names the kind of thing (`thinking`, `tool_call`, `tool_response`, `turn`, `media`, `option`, `schema` …), `turn`
    is its place in the conversation (None for what stands outside the turns), `why` is the human sentence.
    """

    action: Action
    what: str
    why: str
    turn: int | None = None
    key: str = ""

    def __str__(self) -> str:
        place = f" (turn {self.turn})" if self.turn is not None else ""
        return f"{self.action} {self.what}{place}: {self.why}"


class SwitchReport(Value, frozen=True):
    """The whole of a hand-off: how many blocks of each kind the next model sees, and the notes."""

    model: str
    kept: dict[str, int]
    notes: tuple[Note, ...]
    tokens: int | None = None
    """Roughly what the next model has to read afresh."""
    context: int | None = None
    """The next model's window, where it is known."""

    @property
    def fits(self) -> bool | None:
        """Whether the conversation fits the window; None where nobody knows."""
        return None if self.tokens is None or self.context is None else self.tokens <= self.context

    @property
    def adapted(self) -> tuple[Note, ...]:
        return tuple([note for note in self.notes if note.action == "adapted"])

    @property
    def dropped(self) -> tuple[Note, ...]:
        return tuple([note for note in self.notes if note.action == "dropped"])

    def lines(self) -> list[str]:
        """The report for a person: one line for what is kept, then one for each reason, with how often it applied."""
        kept = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kept.items())) or "nothing"
        lines = [f"kept: {kept}"]
        grouped = Counter((note.action, note.what, note.why) for note in self.notes if note.action != "kept")
        for (action, what, why), count in grouped.items():
            times = f" (x{count})" if count > 1 else ""
            lines.append(f"{action}: {what}: {why}{times}")
        if self.tokens is not None:
            window = "" if self.context is None else f" of a window of {self.context:,}"
            warning = " - too long: it will not fit" if self.fits is False else ""
            lines.append(f"to be read again: about {self.tokens:,} tokens{window}{warning}")
        return lines


def switch_report(model: str, turns: Iterable[Turn], notes: Sequence[Note]) -> SwitchReport:
    """Count what the next model sees: every block of the history less the dropped ones and those of dropped turns."""
    gone = Counter((note.turn, note.what) for note in notes if note.action == "dropped")
    kept: Counter[str] = Counter()
    for number, turn in enumerate(turns):
        if (number, "turn") in gone:
            continue
        held = Counter(str(block.__struct_config__.tag) for block in turn.blocks)
        kept.update({kind: max(0, count - gone[number, kind]) for kind, count in held.items()})
    return SwitchReport(model, {kind: count for kind, count in kept.items() if count}, tuple(notes))
