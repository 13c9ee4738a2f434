"""What a hand-off did to the history: every adaptation leaves a Note, and the notes of an encode are the switch report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, get_args

from .blocks import Turn, Value
from .patterns import late_pattern
from .plural import pluralize

# Three words are enough for a reader to decide whether to worry: `kept` is never shown, `adapted` means that the model
# still learns of it in another form, `dropped` that it does not.
Action: TypeAlias = Literal["kept", "adapted", "dropped"]

# The codes are public: programs match on them and docs/notes.md explains each, so one that is here stays here.
NoteCode: TypeAlias = Literal[
    # The history itself, repaired for every reader.
    "failed_turn", "empty_turn", "repeated_id", "misplaced_call", "text_among_results", "displaced_result",
    "second_result", "orphan_result", "unanswered_call", "results_out_of_order", "compacted",
    # Reasoning.
    "foreign_thinking", "thinking_as_text", "unsigned_thinking", "reasoning_not_accepted", "unreadable_reasoning",
    "lone_reasoning", "missing_reasoning", "foreign_signature", "thinking_not_echoed", "seal_not_opened",
    "reasoning_not_found",
    # Other blocks and turns.
    "broken_arguments", "misplaced_block", "foreign_block", "foreign_citations", "unsupported_media", "moved_media",
    "blank_text", "blank_turn", "first_turn", "role_changed", "reordered_blocks", "system_folded",
    # The options of the request.
    "thinking_disabled", "thinking_changed", "unsupported_option", "option_changed", "max_tokens_changed",
    "tool_choice_changed", "response_not_continued", "schema_adapted", "schema_in_words",
    # Tools.
    "tool_renamed", "too_many_tools", "foreign_builtin", "freeform_as_function", "tool_declared", "tool_format_changed",
    "tools_as_text", "marker_escaped",
    # The answer, on its way through a gateway.
    "empty_answer", "stop_reason_changed",
]  # fmt: skip
NOTE_CODES: tuple[NoteCode, ...] = get_args(NoteCode)
"""What a Note can be about, for code to match on; docs/notes.md says what each means."""


class Note(Value, frozen=True):
    """One thing that was kept, adapted or dropped on the way to a wire.

    `what` names the kind of thing (`thinking`, `tool_call`, `tool_response`, `turn`, `media`, `option`, `schema` …), `turn`
    is its place in the conversation (None for anything outside the turns). `code` is for programs, `why` for people: match
    on the first, show the second.
    """

    action: Action
    what: str
    code: NoteCode
    why: str
    turn: int | None = None
    key: str = ""
    name: str = ""
    """The option that it is about, where it is about one."""

    @property
    def is_news(self) -> bool:
        """Whether it tells of a change. What was kept of a history is none; an answer may be kept though we think little of it."""
        return self.action != "kept" or self.what == "answer"

    def __str__(self) -> str:
        place = f" (turn {self.turn})" if self.turn is not None else ""
        return f"{self.action} {self.what}{place}: {self.why}"


def summarize_notes(notes: Iterable[Note]) -> str:
    """What was changed, in one line for a header or a log: the codes with how often each applied, and the option that a note is
    about (`unsupported_option: n, missing_reasoning;n=2`)."""
    counts: Counter[str] = Counter()
    named: Counter[str] = Counter()
    for note in notes:
        if not note.is_news:
            continue
        named[note.code] += bool(note.name)
        # The names are a client's own, and so is their number.
        if note.name and named[note.code] <= _MOST_NAMES:
            counts[f"{note.code}: {_UNSAFE.sub('?', note.name)}"] += 1
        else:
            counts[note.code] += 1
    return ", ".join([f"{code};n={count}" if count > 1 else code for code, count in counts.items()])


_MOST_NAMES = 16
_UNSAFE = late_pattern(r"[^A-Za-z0-9_.$-]")


class SwitchReport(Value, frozen=True):
    """A whole hand-off: how many blocks of each kind the next model sees, and the notes."""

    model: str
    kept: dict[str, int]
    notes: tuple[Note, ...]
    tokens: int | None = None
    """About how many tokens the next model must read without a cache."""
    context: int | None = None
    """The next model's window, where it is known."""
    compaction: str = ""
    """What will be done before the next message is sent, so that the conversation fits."""
    tool_format: str = ""
    """What becomes of a tool format that was set by hand, where it is not the next model's own."""

    @property
    def fits(self) -> bool | None:
        """Whether the conversation fits the window; None if unknown."""
        return None if self.tokens is None or self.context is None else self.tokens <= self.context

    @property
    def adapted(self) -> tuple[Note, ...]:
        return tuple([note for note in self.notes if note.action == "adapted"])

    @property
    def dropped(self) -> tuple[Note, ...]:
        return tuple([note for note in self.notes if note.action == "dropped"])

    def lines(self) -> list[str]:
        """The report for a person: one line for what is kept, then one for each reason, with how often it applied."""
        return [f"{label}: {text}" for label, text in self.rows()]

    def rows(self) -> list[tuple[str, str]]:
        """The lines as label and text, for a display that sets the labels apart."""
        kept = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kept.items())) or "nothing"
        rows = [("kept", kept)]
        # Grouped by the sentence, not by the code: two causes of one code have to be told apart, and forty turns that
        # lost their reasoning for the same cause are one line.
        grouped = Counter((note.action, note.what, note.why) for note in self.notes if note.action != "kept")
        for (action, what, why), count in grouped.items():
            times = f" (x{count})" if count > 1 else ""
            rows.append((action, f"{what}: {why}{times}"))
        if self.tool_format:
            rows.append(("tool format", self.tool_format))
        if self.compaction:
            rows.append(("compaction", self.compaction))
        if self.tokens is not None:
            window = "" if self.context is None else f" of a window of {self.context:,}"
            # A conversation that will be compacted first needs no warning, for then it fits.
            warning = " - too long: it will not fit" if self.fits is False and not self.compaction else ""
            rows.append(("to be read again", f"about {pluralize(self.tokens, 'token')}{window}{warning}"))
        return rows


def switch_report(
    model: str, turns: Iterable[Turn], notes: Sequence[Note], places: Iterable[int] | None = None
) -> SwitchReport:
    """Count what the next model sees: every block of the history less the dropped ones and those of dropped turns.

    `places` are where the turns stand in the conversation, if they are not all of it.
    """
    # Counted, because one turn may lose several blocks of a kind and keep others.
    gone = Counter((note.turn, note.what) for note in notes if note.action == "dropped")
    kept: Counter[str] = Counter()
    for number, turn in zip(places, turns, strict=True) if places is not None else enumerate(turns):
        if (number, "turn") in gone:
            continue
        held = Counter(str(block.__struct_config__.tag) for block in turn.blocks)
        kept.update({kind: max(0, count - gone[number, kind]) for kind, count in held.items()})
    return SwitchReport(model, {kind: count for kind, count in kept.items() if count}, tuple(notes))
