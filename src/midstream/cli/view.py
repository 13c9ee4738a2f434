"""Views: the interface between the commands and what shows a conversation, and the lines that all views have in common.

A view gets the agent's events in order between `begin` and `end`; `pause` makes room for a question to the human.
Whatever comes from a model, a tool or a file is made safe for the terminal before it is written.
"""

from __future__ import annotations

import itertools
import re
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Protocol

import msgspec

from ..agent.approval_request import ApprovalRequest
from ..client.compaction import ContextUse
from ..client.session import Session
from ..client.session import total_cost as total_cost
from ..client.tokens import estimate_text
from ..core.blocks import Conversation, ToolCall, ToolResponse, Turn
from ..core.compaction import without_summaries
from ..core.events import AgentEvent, ErrorInfo
from ..core.plural import pluralize
from ..core.visible import terminal_safe, visible
from ..toolformats.partial import partial_arguments
from .context_line import used
from .terminal import cells, columns, encoding

# Below this, two columns leave too little for the second.
_NARROW = 72
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
RESULT_LINES = 12
LINE_LENGTH = 400
ARGUMENT_LENGTH = 1200
DIFF_COLORS = {"+": "green", "-": "red", "@": "cyan", "\\": "cyan"}
"""The colour of a row of a diff, by its first character."""
_SHORTEST_MODEL = 8


class Status:
    """The status line with the spinner: time, model, tokens, cost. Tokens are an estimate until the host has counted them."""

    def __init__(self, model: str, cost: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.model = model
        self.doing = ""
        self._cost = cost
        self._clock = clock
        self._began = clock()
        self._tokens = 0
        self._frames = itertools.cycle(FRAMES)

    def add(self, text: str) -> None:
        # The estimate adds one to every text; here the texts are pieces of one, and the surplus would pile up.
        self._tokens += max(1, estimate_text(text) - 1) if text else 0

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    def line(self) -> str:
        parts = [f"{next(self._frames)} {self.seconds:.1f} s", self.model]
        if self._tokens:
            parts.append(f"~{self._tokens} tokens")
        if self._cost:
            parts.append(money(self._cost))
        if self.doing:
            parts.append(self.doing)
        return " · ".join(parts)


def money(dollars: float) -> str:
    if not dollars:
        return "$0"
    return f"${dollars:.4f}" if dollars < 1 else f"${dollars:.2f}"


def summary(session: Session, first_turn: int, seconds: float) -> str:
    """One line about the answers since `first_turn`."""
    costs = session.costs(first_turn)
    read = sum(each.usage.read for each in costs)
    written = sum(each.usage.output for each in costs)
    parts = [session.model, f"{read:,} in, {written:,} out"]
    cost = total_cost(costs)
    if cost is not None:
        parts.append(money(cost))
    return " · ".join([*parts, f"context {used(session.context(), short=True)}", f"{seconds:.1f} s"])


class View(Protocol):
    """Shows a conversation. `unfolded`: thinking is shown in full. `streams`: text is shown as it arrives and cannot be taken
    back, so an answer that was cut off must not be requested again."""

    unfolded: bool

    @property
    def streams(self) -> bool: ...

    def begin(self, status: Status) -> None: ...

    def show(self, event: AgentEvent) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def end(self) -> None: ...

    def replay(self, turns: Sequence[Turn]) -> None:
        """Show turns that are already in the conversation."""
        ...

    @property
    def width(self) -> int:
        """How many columns there are for a line."""
        ...

    def notice(self, *lines: str) -> None:
        """Show a message of ours, broken between words."""
        ...

    def refold(self, rows_above: int | None = None) -> bool:
        """Show the thinking of the last answer as `unfolded` now says, in place; False where that is not possible.

        `rows_above`: how many rows of the screen are above the cursor, if somebody knows."""
        ...

    def forget(self) -> None:
        """Something else was written to the screen: nothing above it can be shown anew."""
        ...

    def thought(self, text: str) -> None:
        """Show the thinking of an earlier answer."""
        ...

    def failure(self, message: str) -> None: ...

    def diff(self, rows: Sequence[str]) -> None:
        """Show the rows of a diff."""
        ...

    def beside(self, *answers: tuple[str, str]) -> None:
        """Show answers, each with its heading, side by side if there is room."""
        ...


class Gate:
    """Passes events on to a view, or holds them back while the human is being asked something."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._is_closed = False
        self._held: list[AgentEvent] = []

    def show(self, event: AgentEvent) -> None:
        if self._is_closed:
            self._held.append(event)
        else:
            self._view.show(event)

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Keep the screen free; events that arrive meanwhile are shown afterwards."""
        self._view.pause()
        self._is_closed = True
        try:
            yield
        finally:
            self._is_closed = False
            self._view.resume()
            # Shown in the order in which they came, after the view has its place on the screen again.
            held, self._held = self._held, []
            for event in held:
                self._view.show(event)


def shown_on(stream: IO[str], request: ApprovalRequest) -> str:
    """The request as this stream can show it now: its width, its characters."""
    return request.shown(columns(stream), encoding(stream))


def repeat_line(failed: ErrorInfo) -> str:
    """What is said when an answer that failed is requested again."""
    return f"the answer broke off and is requested again: {' '.join(failed.message.split())}"


def system_line(turn: Turn) -> str:
    """What a system turn says, and the tools that it declares."""
    tools = f"[tools from here on: {', '.join([tool.qualified_name for tool in turn.tools])}]" if turn.tools else ""
    return "\n".join([part for part in (turn.text, tools) if part])


def call_line(call: ToolCall) -> str:
    """A call in one line: its name and arguments."""
    try:
        values = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, RecursionError, ValueError):
        values = None
    return f"{visible(call.qualified_name)}({shortened(_arguments(values, call.arguments), ARGUMENT_LENGTH)})"


def partial_call_line(name: str, raw: str) -> str:
    """A call that is still arriving: the arguments so far; of a long text, its end."""
    text = _arguments(partial_arguments(raw) or None, raw)
    return f"{visible(name)}({text if len(text) <= LINE_LENGTH else '…' + text[1 - LINE_LENGTH :]} …"


def _arguments(values: Any, raw: str) -> str:
    if not isinstance(values, dict):
        return one_line(raw)
    return ", ".join(
        [f"{one_line(name)}={one_line(msgspec.json.encode(value).decode())}" for name, value in values.items()]
    )


def result_lines(response: ToolResponse, most: int = RESULT_LINES) -> list[str]:
    """The first lines of a result, made safe and cut to a length, and how much is left out."""
    lines = terminal_safe(response.text).split("\n") if response.text else []
    while lines and not lines[-1].strip():
        lines.pop()
    others = [part for part in response.content if not hasattr(part, "text")]
    shown = [shortened(line.expandtabs(4), LINE_LENGTH) for line in lines[:most]]
    if len(lines) > most:
        shown.append(f"… {pluralize(len(lines) - most, 'more line')}")
    if others:
        shown.append(f"({pluralize(len(others), 'attachment')})")
    return shown or ["(no output)"]


def one_line(text: str) -> str:
    return visible(text).replace("\n", "⏎").replace("\t", " ")


def shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


class _Wrapper(textwrap.TextWrapper):
    """Breaks between words and behind the bars of a usage line, [on|off|auto]."""

    wordsep_simple_re = re.compile(r"([\t\n\r ]+|(?<=\|)(?=\S))")


def wrapped(text: str, width: int) -> list[str]:
    """A line of ours, broken between words to fit; what continues it is indented further than it is."""
    if len(text) <= width or width < 20:
        return [text]
    indent = text[: len(text) - len(text.lstrip())]
    return _Wrapper(width, subsequent_indent=f"{indent}  ", break_on_hyphens=False).wrap(text) or [text]


def two_columns(rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Terms and what they mean: side by side, or the meaning below where there is little room or the term is long."""
    column = 0 if width < _NARROW else max([len(term) for term, _ in rows if len(term) <= width // 3], default=0)
    lines: list[str] = []
    for term, meaning in rows:
        if column and len(term) <= column:
            first, *rest = textwrap.wrap(meaning, width - column - 4) or [""]
            lines += [f"  {term:<{column}}  {first}", *[f"  {'':<{column}}  {each}" for each in rest]]
        else:
            lines += wrapped(f"  {term}", width)
            lines += [f"      {each}" for each in textwrap.wrap(meaning, max(10, width - 6))]
    return lines


def current_mark(is_current: bool) -> str:
    """What stands before a line of a list: a star before the current one."""
    return "* " if is_current else "  "


class Meter:
    """How much of the model's window the conversation takes, and what it has cost so far, for the status bar.

    A `~` marks an estimate; without it the figure is the host's own count of the last request and its answer. The figures are
    worked out when the conversation has changed: a status bar is drawn at every key.
    """

    def __init__(self) -> None:
        self._known: tuple[Conversation, str, int] | None = None
        self._use = ContextUse(0)
        self._cost: float | None = None
        self._turns = 0

    def turns(self, session: Session) -> str:
        """How many turns were said. A summary is one of the store's, and so are one that was refused and one that was taken back."""
        self._look(session)
        return pluralize(self._turns, "turn")

    def bar(self, session: Session, width: int, *others: str) -> str:
        """The status bar: the model, `others`, the window, the cost, as far as `width` columns go. What matters least goes
        first: the others from the last on, the long form of the figures, the provider's name, the end of the model's."""
        self._look(session)
        cost = [money(self._cost)] if self._cost is not None else []
        long, short = used(self._use), used(self._use, short=True)
        model, bare = session.model, session.model.rpartition("/")[2]
        for count in range(len(others), -1, -1):
            line = _joined([model, *others[:count], long, *cost])
            if cells(line) <= width:
                return line
        for parts in ([model, short, *cost], [bare, short, *cost]):
            if len(_joined(parts)) <= width:
                return _joined(parts)
        for rest in ([short, *cost], [short]):
            room = width - len(_joined(["", *rest]))
            if room >= _SHORTEST_MODEL or not cost or rest == [short]:
                return _joined([shortened(bare, max(1, room)), *rest]) if room >= 1 else shortened(short, max(1, width))
        return shortened(short, max(1, width))

    def _look(self, session: Session) -> None:
        known = (session.conversation, session.model, len(session.tools))
        # By identity: a conversation is a frozen value, and a new one is made for every change.
        if self._known is not None and self._known[0] is known[0] and self._known[1:] == known[1:]:
            return
        self._known = known
        self._use = session.context()
        self._cost = session.spent()
        self._turns = len(without_summaries(session.conversation).turns)


def _joined(parts: Sequence[str]) -> str:
    return " · ".join(parts)
