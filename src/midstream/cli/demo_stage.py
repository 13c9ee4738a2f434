"""How the demo is shown: text that streams, in colour where there is a terminal for it, or one JSON object a line.

Whatever comes from a model, a tool or a file is made safe for the terminal first.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import click
import msgspec

from ..core import events
from ..core.blocks import ToolCall, ToolResponse
from ..core.events import Event
from ..core.plural import pluralize
from ..core.visible import terminal_safe
from .terminal import Paint, color_choice, wants_color

_FOLD = 100
_RESULT = 100
_COLOURS = {"kept": "green", "adapted": "yellow", "dropped": "magenta"}


class Row(msgspec.Struct, frozen=True):
    """One form of the same call's id."""

    where: str
    id: str


class Switch(msgspec.Struct, frozen=True):
    """A change of model: the report, the ids of one call so far, and what the model's double says to the raw history."""

    model: str
    report: tuple[tuple[str, str], ...]
    call: str
    rows: tuple[Row, ...]
    untranslated: str


class Totals(msgspec.Struct):
    models: int
    requests: int = 0
    switches: int = 0
    refused: int = 0
    broken: int = 0
    saved: int = 0
    """Switches at which the untranslated history would have been refused."""


class TextStage:
    """For people."""

    def __init__(self, *, live: bool = False) -> None:
        self._colour = Paint(wants_color(color_choice(), sys.stdout))
        self._live = live
        self._width = min(100, shutil.get_terminal_size((88, 24)).columns)
        self._column = 0
        self._hang = 2
        self._thought = 0

    def opening(self, question: str, models: Sequence[str]) -> None:
        self._line("midstream: one conversation, any order of models, never a 400", "bold")
        hosts = "the real hosts, with your keys" if self._live else "strict doubles of the hosts: loopback, no key"
        self._line(f"{pluralize(len(models), 'model')} in a row, over HTTP, on {hosts}\n", "dim")
        self.says(question)

    def says(self, text: str) -> None:
        self._begin("you  ", "bold")
        self._flow(text, "")
        self._line("")

    def speaker(self, model: str, wire: str) -> None:
        self._line("")
        self._flow(f"{model} ", "bold cyan")
        self._line(f"({wire})", "dim")

    def event(self, event: Event) -> None:
        match event:
            case events.ThinkingStart():
                self._thought = 0
                self._begin("  thinking  ")
            case events.ThinkingDelta():
                room = max(0, _FOLD - self._thought)
                self._flow(event.delta[:room], "dim italic")
                self._thought += len(event.delta)
            case events.ThinkingEnd():
                folded = self._thought - _FOLD
                self._line(f" … {pluralize(folded, 'character')} folded" if folded > 0 else "", "dim")
            case events.TextDelta():
                if not self._column:
                    self._begin("  ")
                self._flow(event.delta, "")
            case events.TextEnd():
                self._line("")
            case events.ToolCallStart():
                self._begin("  calls     ")
                self._flow(event.name, "bold yellow")
            case events.ToolCallEnd():
                self._line(f"({event.block.arguments})", "yellow")
            case _:
                pass

    def result(self, call: ToolCall, response: ToolResponse) -> None:
        text = " ".join(response.text.split())
        self._begin("  result    ")
        self._line(text if len(text) <= _RESULT else text[:_RESULT] + "…", "red" if response.is_error else "green")

    def switch(self, switch: Switch) -> None:
        self._line("")
        self.rule(f"── switch to {switch.model} ")
        for label, text in switch.report:
            self._begin(f"  {label}: ", _COLOURS.get(label, "dim"))
            self._line(text, "dim")
        if switch.rows:
            self._line(f"  the id of {switch.call}:", "dim")
            width = max(len(row.where) for row in switch.rows)
            for row in switch.rows:
                newest = row is switch.rows[-1]
                self._flow(f"    {row.where:{width}}  ", "" if newest else "dim")
                self._line(row.id, "bold cyan" if newest else "cyan")
        if switch.untranslated:
            self._begin("  untranslated: ", "red")
            self._line(switch.untranslated, "red dim")

    def failed(self, words: str) -> None:
        if self._column:
            self._line("")
        self._line(f"  failed: {words}", "bold red")

    def closing(self, totals: Totals) -> None:
        self._line("")
        self.rule("")
        good = not (totals.refused or totals.broken)
        told = f"{pluralize(totals.requests, 'request')}, {pluralize(totals.models, 'model')}, {totals.refused} refused"
        broken = f", {totals.broken} broken off" if totals.broken else ""
        self._line(told + broken + ".", "bold green" if good else "bold red")
        if totals.saved:
            whose = "by these rules" if self._live else "by the same doubles"
            sent = (
                f"Sent as it stood, the history would have been refused at {totals.saved} of {totals.switches} switches"
            )
            self._line(f"{sent}, {whose}.", "dim")
        if not self._live:
            self._line("With a key: midstream demo --live moonshot/kimi-k2.5,anthropic/claude-sonnet-4-5", "dim")

    def rule(self, title: str) -> None:
        """A line across, with a title at its beginning."""
        self._line(title.ljust(self._width, "─"), "bold blue")

    def _begin(self, head: str, style: str = "dim") -> None:
        """Open a line whose continuations stand under what follows `head`."""
        self._flow(head, style)
        self._hang = len(head)

    def _flow(self, text: str, style: str) -> None:
        """Write on, breaking lines between words at the width."""
        for piece in _words(terminal_safe(text)):
            # A piece that is longer than a line is written as it
            # is: breaking the line before it would not make it fit.
            if piece == "\n" or (self._column + len(piece) > self._width and self._column > self._hang):
                self._paint("\n" + " " * self._hang, "")
                self._column = self._hang
                piece = piece.lstrip()
            self._paint(piece, style)
            self._column += len(piece)

    def _paint(self, text: str, style: str) -> None:
        click.echo(self._colour(text, *style.split()), nl=False, color=self._colour.on)

    def _line(self, text: str, style: str = "") -> None:
        self._flow(text.rstrip("\n"), style)
        self._paint("\n" * (1 + len(text) - len(text.rstrip("\n"))), "")
        self._column = 0
        self._hang = 2


class JsonStage:
    """For programs."""

    def opening(self, question: str, models: Sequence[str]) -> None:
        self._tell("opening", question=question, models=list(models))

    def says(self, text: str) -> None:
        self._tell("human", text=text)

    def speaker(self, model: str, wire: str) -> None:
        self._tell("speaker", model=model, wire=wire)

    def event(self, event: Event) -> None:
        self._tell("event", event=event)

    def result(self, call: ToolCall, response: ToolResponse) -> None:
        self._tell("result", call=call.id, response=response)

    def switch(self, switch: Switch) -> None:
        lines = [f"{label}: {text}" for label, text in switch.report]
        self._tell("switch", **{**msgspec.to_builtins(switch), "report": lines})

    def failed(self, words: str) -> None:
        self._tell("failed", words=words)

    def closing(self, totals: Totals) -> None:
        self._tell("closing", **msgspec.to_builtins(totals))

    @staticmethod
    def _tell(kind: str, **fields: Any) -> None:
        click.echo(msgspec.json.encode({"kind": kind, **fields}))


class QuietStage:
    """Shows nothing: the tour is run only for the conversation it produces."""

    def opening(self, question: str, models: Sequence[str]) -> None: ...
    def says(self, text: str) -> None: ...
    def speaker(self, model: str, wire: str) -> None: ...
    def event(self, event: Event) -> None: ...
    def result(self, call: ToolCall, response: ToolResponse) -> None: ...
    def switch(self, switch: Switch) -> None: ...
    def failed(self, words: str) -> None: ...
    def closing(self, totals: Totals) -> None: ...


Stage: TypeAlias = TextStage | JsonStage | QuietStage
"""Where the demo plays."""


def _words(text: str) -> list[str]:
    """Words with the blanks before them, and line ends by themselves."""
    pieces: list[str] = []
    for number, line in enumerate(text.split("\n")):
        if number:
            pieces.append("\n")
        start = 0
        for at in range(1, len(line)):
            if line[at] == " " and line[at - 1] != " ":
                pieces.append(line[start:at])
                start = at
        if line[start:]:
            pieces.append(line[start:])
    return pieces
