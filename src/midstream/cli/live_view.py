"""The live view: finished output goes into the scrollback for good, the rest is repainted below it a few times a second.

Text is rendered as Markdown, thinking is dim and folds to one line when it ends (Ctrl-T unfolds), a call shows its arguments
while they arrive. Everything from a model or a tool passes through `Safe`, which checks the segments that are written:
Markdown can turn `&#13;` or `&rlm;` into characters that the source did not show.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text as Line

from ..core import events
from ..core.blocks import Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ..core.events import AgentEvent
from ..core.plural import pluralize
from ..core.visible import terminal_safe, visible
from .attachment import human_text
from .context_line import compaction_lines, finished_line, started_line
from .screen_record import ScreenRecord
from .terminal import showable
from .view import DIFF_COLORS, Status, call_line, partial_call_line, repeat_line, result_lines, system_line, wrapped

# Often enough to look alive, seldom enough for a slow connection.
_TICK = 1 / 12
_THINKING_LINES = 6
_THINKING_CHARS = 2000
_SPARE_LINES = 4
_SIDE_BY_SIDE = 100
_INDENT = 16
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class Safe:
    """A renderable without control characters other than the newline, in signs that the terminal has.

    A character that is written out (`\\u{202e}`, `...`) is longer than what was laid out: such a row goes on in the next.
    """

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        for line in console.render_lines(self._inner, options, pad=False):
            row = [
                Segment(showable(terminal_safe(segment.text), console.file), segment.style)
                for segment in line
                if not segment.control
            ]
            length = Segment.get_line_length(row)
            # A row that wraps by itself would not be counted, and the
            # next repaint would leave a part of it on the screen.
            for part in Segment.divide(row, range(width, length + width, width)) if length > width else [row]:
                yield from part
                yield Segment.line()


class Thought:
    """Thinking, in full or as one line, by what the view says at the moment."""

    def __init__(self, text: str, seconds: float | None, is_unfolded: Callable[[], bool]) -> None:
        self._text = text
        self._head = "thought" if seconds is None else f"thought for {seconds:.1f} s"
        self._is_unfolded = is_unfolded

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._is_unfolded():
            yield Line(self._text, "dim italic")
            return
        line, hint = f"▸ {self._head}, {pluralize(len(self._text.split()), 'word')}", " (Ctrl-T unfolds)"
        yield Line(line + hint if len(line + hint) <= options.max_width else line, "dim")


class Bottom:
    """The last lines of a renderable, so that what is repainted fits on the screen. `painted` is told how many they are."""

    def __init__(self, inner: RenderableType, lines: int, painted: Callable[[int], None] = lambda lines: None) -> None:
        self._inner = inner
        self._lines = lines
        self._painted = painted

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._inner, options, pad=False)
        self._painted(min(len(lines), self._lines))
        for line in lines[-self._lines :]:
            yield from line
            yield Segment.line()


class Trimmed:
    """A renderable without blank lines around it, because the view spaces the blocks itself."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._inner, options, pad=False)
        while lines and _is_blank(lines[-1]):
            lines.pop()
        begun = False
        for line in lines:
            begun = begun or not _is_blank(line)
            if begun:
                yield from line
                yield Segment.line()


def _markdown(text: str) -> Trimmed:
    from rich.markdown import Markdown  # a sixth of the start of a chat, and not needed before the first answer

    return Trimmed(Markdown(text, hyperlinks=False))


def _is_blank(line: list[Segment]) -> bool:
    return not "".join([segment.text for segment in line]).strip()


class LiveView:
    """A View for a terminal with a cursor. `unfolded` may be changed at any time."""

    streams = True

    def __init__(self, console: Console) -> None:
        self.unfolded = False
        self._console = console
        self._record = ScreenRecord(console)
        self._status: Status | None = None
        self._live: Live | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._feed = MarkdownFeed()
        self._has_parts = False
        self._thinking: list[str] = []
        self._thought_from = 0.0
        self._call: tuple[str, list[str]] | None = None
        self._failed: events.ErrorInfo | None = None

    def begin(self, status: Status) -> None:
        self._status = status
        self.forget()
        self.resume()

    def end(self) -> None:
        self._settle()
        self._stop_live()
        self._status = None

    def resume(self) -> None:
        if self._live is None and self._status is not None:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="crop",
            )
            self._live.start()
            self._ticker = asyncio.get_running_loop().create_task(self._tick())

    def pause(self) -> None:
        self._stop_live()
        self.forget()

    def forget(self) -> None:
        self._record.forget()

    def refold(self, rows_above: int | None = None) -> bool:
        if self._thinking:
            return True  # still arriving: the next frame shows it
        if not self._record.is_on_screen(rows_above) or not any(map(_is_thought, self._record.parts)):
            return False
        if showable("✓", self._console.file) != "✓":
            return False  # stand-ins are longer than what they stand for, so the lines cannot be counted
        was_live = self._live is not None
        self._stop_live()
        for part in self._record.take_back():
            self._print(part)
        if was_live:
            self.resume()
        return True

    def thought(self, text: str) -> None:
        self.forget()
        self._print(Thought(terminal_safe(text).strip(), None, lambda: self.unfolded))

    @property
    def width(self) -> int:
        return self._console.width

    def _stop_live(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        if self._live is not None:
            # Emptied before it is stopped: rich leaves the last frame otherwise.
            self._live.update(Line(""))
            self._live.stop()
            self._live = None

    def show(self, event: AgentEvent) -> None:
        match event:
            case events.Start():
                if self._failed is not None:
                    self.failure(repeat_line(self._failed))
                    self._failed = None
                self._doing("")
            case events.TextStart():
                self._feed = MarkdownFeed()
                self._has_parts = False
            case events.TextDelta():
                self._count(event.delta)
                self._markdown(self._feed.feed(terminal_safe(event.delta)))
            case events.TextEnd():
                self._markdown(self._feed.close())
            case events.ThinkingStart():
                self._thinking = []
                self._thought_from = self._status.seconds if self._status is not None else 0.0
            case events.ThinkingDelta():
                self._count(event.delta)
                self._thinking.append(terminal_safe(event.delta))
            case events.ThinkingEnd():
                self._end_thinking()
            case events.ToolCallStart():
                self._call = (event.name, [])
            case events.ToolCallDelta():
                self._count(event.delta)
                if self._call is not None:
                    self._call[1].append(event.delta)
            case events.ToolCallEnd():
                self._call = None
                self._print_call(event.block)
            case events.BlockEvent():
                self._print(Line(f"({visible(event.block.kind)})", "dim"))
            case events.ToolStarted():
                self._doing(f"running {visible(event.call.name)}")
            case events.ToolFinished():
                self._doing("")
                self._print_result(event.response)
            case events.CompactionStarted():
                self._doing("summarising")
                self.notice(started_line(event))
            case events.CompactionFinished():
                self._doing("")
                self.notice(finished_line(event))
            case events.ErrorEvent():
                self._settle()
                self._failed = event.error
            case events.Done():
                self._settle()
            case events.Stopped():
                self._failed = None
                if event.detail:
                    self.failure(event.detail)

    def replay(self, turns: Sequence[Turn]) -> None:
        for turn in turns:
            if turn.compacted is not None:
                self.notice(*compaction_lines(turn, self.unfolded))
                continue
            if turn.speaker == "human":
                self._print(Line.assemble(("› ", "bold cyan"), terminal_safe(human_text(turn))))
                continue
            if turn.speaker == "system":
                self._print(Line.assemble(("system ", "bold magenta"), terminal_safe(system_line(turn))))
                continue
            for block in turn.blocks:
                match block:
                    case Text():
                        self._has_parts = False
                        self._markdown(block.text)
                    case Thinking():
                        if self.unfolded and block.text.strip():
                            self._print(Line(terminal_safe(block.text).strip(), "dim italic"))
                    case ToolCall():
                        self._print_call(block)
                    case ToolResponse():
                        self._print_result(block)
                    case Media() | Opaque():
                        self._print(Line(f"({visible(block.kind)})", "dim"))
            if turn.failure:
                self._print(Line(f"(this answer failed: {visible(turn.failure)})", "dim"))

    def notice(self, *lines: str) -> None:
        for line in lines:
            for part in wrapped(visible(line), self.width):
                self._print(Line(part))

    def failure(self, message: str) -> None:
        first, *rest = wrapped(f"✗ {' '.join(visible(message).split())}", self.width)
        self._print(Line.assemble(("✗", "bold red"), first.removeprefix("✗")))
        for line in rest:
            self._print(Line(line))

    def diff(self, rows: Sequence[str]) -> None:
        for row in rows:
            self._print(Line(visible(row).expandtabs(4), DIFF_COLORS.get(row[:1], "")))

    def beside(self, *answers: tuple[str, str]) -> None:
        columns = [
            Group(Line(visible(heading), "bold"), Line(""), Safe(_markdown(terminal_safe(text))))
            for heading, text in answers
        ]
        if self._console.width < _SIDE_BY_SIDE:
            self._print(Group(*[part for column in columns for part in (column, Line(""))]))
            return
        from rich.table import Table  # imported when answers are compared

        table = Table.grid(padding=(0, 2), expand=True)
        for _ in columns:
            table.add_column(ratio=1)
        table.add_row(*columns)
        self._print(Group(table, Line("")))

    def _settle(self) -> None:
        """Put what is still open into the scrollback: an answer that was cut off keeps what arrived."""
        if self._thinking:
            self._end_thinking()
        self._markdown(self._feed.close())
        if self._call is not None:
            line, self._call = self._partial_call(self._call), None
            self._print(Line(line, "dim"))

    @staticmethod
    def _partial_call(call: tuple[str, list[str]]) -> str:
        name, pieces = call
        return f"⚙ {partial_call_line(name, ''.join(pieces))}"

    def _end_thinking(self) -> None:
        text = "".join(self._thinking).strip()
        self._thinking = []
        seconds = (self._status.seconds if self._status is not None else 0.0) - self._thought_from
        if text:
            self._print(Thought(text, seconds, lambda: self.unfolded))

    def _markdown(self, text: str) -> None:
        """Print a finished part of a text; parts of one text have a blank line between them."""
        if text.strip():
            self._print(Group(*([Line("")] if self._has_parts else []), _markdown(text)))
            self._has_parts = True

    def _print_call(self, call: ToolCall) -> None:
        self._print(Line.assemble(("⚙ ", "bold cyan"), call_line(call)))

    def _print_result(self, response: ToolResponse) -> None:
        first, *rest = result_lines(response)
        mark = ("✗ ", "bold red") if response.failed else ("✓ ", "bold green")
        self._print(Line.assemble(mark, (first, "dim")))
        if rest:
            self._print(Padding(Line("\n".join(rest), "dim"), (0, 0, 0, 2)))

    def _print(self, renderable: RenderableType) -> None:
        if self._live is not None:
            self._live.update(self._frame())  # what is printed for good must not be repainted as well
        self._console.print(Safe(renderable))
        self._record.add(renderable)

    def _doing(self, what: str) -> None:
        if self._status is not None:
            self._status.doing = what

    def _count(self, text: str) -> None:
        if self._status is not None:
            self._status.add(text)

    async def _tick(self) -> None:
        while self._live is not None:
            self._live.update(self._frame(), refresh=True)
            await asyncio.sleep(_TICK)

    def _frame(self) -> RenderableType:
        # What is repainted must fit on the screen; rows that have scrolled away cannot be overwritten.
        height = max(3, self._console.height - _SPARE_LINES)
        parts: list[RenderableType] = []
        if self._thinking:
            # Only the end is laid out anew at every tick: thinking may have hundreds of thousands of characters.
            text = "".join(self._thinking)[-_THINKING_CHARS:].strip()
            room = height if self.unfolded else min(height, _THINKING_LINES)
            parts.append(Bottom(Safe(Line(text, "dim italic")), room))
        tail = self._feed.tail(height)
        if tail.strip():
            gap = [Line("")] if self._has_parts else []
            parts.append(Bottom(Group(*gap, Safe(_markdown(tail))), height))
        if self._call is not None:
            parts.append(Safe(Line(self._partial_call(self._call), "cyan")))
        if self._status is not None:
            line = Line(visible(self._status.line()) + " · Esc stops", "dim", no_wrap=True, overflow="ellipsis")
            parts.append(Safe(line))
        return Bottom(Group(*parts), height + 2, self._record.painted)


def _is_thought(part: RenderableType) -> bool:
    return isinstance(part, Thought)


class MarkdownFeed:
    """Markdown while it is written: `feed` gives what is finished, `tail` the rest so far, `close` the rest for good.

    A block is finished when an unindented line follows a blank one, or when a code fence closes; nothing that comes later
    changes how it looks. Each line is looked at once.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._rest: list[str] = []
        self._fence = ""
        self._after_blank = False

    def feed(self, text: str) -> str:
        head, newline, last = text.rpartition("\n")
        finished: list[str] = []
        if newline:
            lines = ("".join(self._rest) + head).split("\n")
            self._rest = []
            for line in lines:
                self._take(line, finished)
        if last:
            # The first character of a new block already ends the one
            # before it; waiting for its line would hold that back.
            if not self._rest and self._after_blank and not self._fence and not last[0].isspace():
                self._finish(finished)
            self._rest.append(last)
        return "\n".join(finished)

    def close(self) -> str:
        text = "\n".join([*self._lines, "".join(self._rest)])
        self._lines, self._rest, self._fence, self._after_blank = [], [], "", False
        return text.strip("\n")

    def tail(self, lines: int) -> str:
        """The last lines of what may still change; inside a code block, with the fence that opened it."""
        shown = self._lines[-lines:]
        if self._fence and len(self._lines) > lines:
            shown = [self._fence, *shown]
        return "\n".join([*shown, "".join(self._rest)[-lines * 200 :]])

    def _take(self, line: str, finished: list[str]) -> None:
        mark = _FENCE.match(line)
        if self._fence:
            self._lines.append(line)
            # A fence closes with as many signs as opened it, or more, and nothing behind them.
            if mark and mark[1].startswith(self._fence) and not line[mark.end() :].strip(" `~"):
                self._fence = ""
                self._finish(finished)
            return
        if self._after_blank and line and not line[0].isspace():
            self._finish(finished)
        self._after_blank = not line.strip()
        if mark:
            self._fence = mark[1]
        self._lines.append(line)

    def _finish(self, finished: list[str]) -> None:
        finished += self._lines
        self._lines = []
        self._after_blank = False
