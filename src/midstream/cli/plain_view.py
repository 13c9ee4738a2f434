"""The plain view: the text of the answer goes to one stream, everything else to the other. No cursor movement but a spinner.

The answer is written piece by piece, unchanged where it is data (a pipe, a file), and made safe where it goes to a terminal.
Nothing but the answer goes to data, so there only the end of a text ends a line.
The spinner shows only while nothing is being written, and only on a terminal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import IO

from ..core import events
from ..core.blocks import Text, ToolCall, ToolResponse, Turn
from ..core.events import AgentEvent
from ..core.visible import terminal_safe, visible
from .attachment import human_text
from .context_line import compaction_lines, finished_line, started_line
from .terminal import Paint, columns, has_cursor, is_terminal, showable, write
from .view import DIFF_COLORS, Status, call_line, repeat_line, result_lines, shortened, system_line, wrapped

_TICK = 0.1
_PIPE_WIDTH = 100  # where nobody sees the lines, they are as wide as they would be on a usual terminal
_CLEAR = "\r\x1b[K"


class PlainView:
    """A View for pipes and dumb terminals. With `quiet_answer` the text is not written: the caller prints it at the end."""

    def __init__(
        self,
        out: IO[str],
        err: IO[str],
        paint: Paint,
        *,
        thinking: bool = True,
        quiet_answer: bool = False,
    ) -> None:
        self._out = out
        self._err = err
        self._paint = paint
        self.unfolded = thinking
        self._quiet = quiet_answer
        # A file gets the model's bytes as they are; only a terminal can be harmed by them.
        self._safe = is_terminal(out)
        self._spins = has_cursor(err)
        self._spinner: asyncio.Task[None] | None = None
        self._status: Status | None = None
        self._open_line: IO[str] | None = None
        self._failed: events.ErrorInfo | None = None

    @property
    def streams(self) -> bool:
        return not self._quiet

    def begin(self, status: Status) -> None:
        self._status = status
        self.resume()

    def end(self) -> None:
        self.pause()
        self._end_line()
        self._status = None

    def pause(self) -> None:
        if self._spinner is not None:
            self._spinner.cancel()
            self._spinner = None
            write(self._err, _CLEAR)

    def resume(self) -> None:
        if self._spins and self._status is not None and self._spinner is None:
            self._spinner = asyncio.get_running_loop().create_task(self._spin(self._status))

    def show(self, event: AgentEvent) -> None:
        match event:
            case events.TextDelta():
                self._say(event.delta)
            case events.TextEnd():
                self._end_line()
            case events.ThinkingDelta() if self.unfolded:
                self.pause()
                self._aside(self._paint(terminal_safe(event.delta), "dim"))
            case events.ThinkingEnd() if self.unfolded:
                self._end_line()
            case events.ToolCallEnd():
                self._line(self._paint("⚙ ", "cyan") + call_line(event.block))
            case events.BlockEvent():
                self._line(f"({visible(event.block.kind)})")
            case events.ToolStarted():
                self._doing(f"running {visible(event.call.name)}")
                self.resume()
            case events.ToolFinished():
                self._result(event.response)
            case events.CompactionStarted():
                self._doing("summarising")
                self._line(visible(started_line(event)))
            case events.CompactionFinished():
                self._doing("")
                self._line(visible(finished_line(event)))
            case events.Start():
                if self._failed is not None:
                    self.failure(repeat_line(self._failed))
                    self._failed = None
                self._doing("")
                self.resume()
            case events.ErrorEvent():
                self._end_line()
                self._failed = event.error
            case events.Stopped():
                self._failed = None
                self._end_line()
                if event.detail:
                    self.failure(event.detail)
            case _:
                pass

    def replay(self, turns: Sequence[Turn]) -> None:
        for turn in turns:
            if turn.compacted is not None:
                self.notice(*compaction_lines(turn, self.unfolded))
                continue
            if turn.speaker == "human":
                self._line(self._paint("› ", "cyan") + terminal_safe(human_text(turn)))
                continue
            if turn.speaker == "system":
                self._line(self._paint("system ", "magenta") + terminal_safe(system_line(turn)))
                continue
            for block in turn.blocks:
                if isinstance(block, Text):
                    self._say(block.text)
                    self._end_line()
                elif isinstance(block, ToolCall):
                    self._line(self._paint("⚙ ", "cyan") + call_line(block))
                elif isinstance(block, ToolResponse):
                    self._result(block)

    @property
    def width(self) -> int:
        return columns(self._err) if is_terminal(self._err) else _PIPE_WIDTH

    def notice(self, *lines: str) -> None:
        for line in lines:
            for part in self._wrapped(visible(line)):
                self._line(part)

    def refold(self, rows_above: int | None = None) -> bool:
        return False

    def forget(self) -> None: ...

    def thought(self, text: str) -> None:
        self.notice(*[f"  {line}" for line in text.strip().split("\n")])

    def failure(self, message: str) -> None:
        head = "midstream:"
        first, *rest = self._wrapped(f"{head} {' '.join(visible(message).split())}")
        self._line(self._paint(head, "red") + first.removeprefix(head))
        for line in rest:
            self._line(line)

    def _wrapped(self, line: str) -> list[str]:
        return wrapped(line, self.width) if is_terminal(self._err) else [line]

    def diff(self, rows: Sequence[str]) -> None:
        for row in rows:
            color = DIFF_COLORS.get(row[:1])
            self._line(self._paint(visible(row), *([color] if color else [])))

    def beside(self, *answers: tuple[str, str]) -> None:
        for heading, text in answers:
            self._line(self._paint(visible(heading), "bold"))
            self._line(terminal_safe(text).strip("\n"))

    def _doing(self, what: str) -> None:
        if self._status is not None:
            self._status.doing = what

    def _say(self, text: str) -> None:
        if self._quiet or not text:
            return
        self.pause()
        # Both streams may be the same screen: a line that one has begun is ended before the other writes.
        if self._open_line is self._err:
            self._end_line()
        self._write_out(showable(terminal_safe(text), self._out) if self._safe else text)
        self._open_line = None if text.endswith("\n") else self._out

    def _write_out(self, text: str) -> None:
        try:
            write(self._out, text)
        except BrokenPipeError:
            # Nobody reads it any more. What ends the program writes nothing more to it.
            self._quiet, self._open_line = True, None
            raise

    def _aside(self, text: str) -> None:
        if self._open_line is self._out:
            self._end_line()
        write(self._err, showable(text, self._err))
        self._open_line = self._err

    def _line(self, text: str) -> None:
        spinning = self._spinner is not None
        self.pause()
        self._end_line()
        write(self._err, showable(text, self._err) + "\n")
        if spinning:
            self.resume()

    def _result(self, response: ToolResponse) -> None:
        mark = self._paint("✗", "red") if response.failed else self._paint("✓", "green")
        first, *rest = result_lines(response)
        self._line(f"{mark} {self._paint(first, 'dim')}")
        for line in rest:
            self._line("  " + self._paint(line, "dim"))

    def _end_line(self) -> None:
        open_line, self._open_line = self._open_line, None
        if open_line is self._out:
            self._write_out("\n")
        elif open_line is not None:
            write(open_line, "\n")

    async def _spin(self, status: Status) -> None:
        while True:
            # One row: what wraps cannot be cleared again.
            line = shortened(showable(visible(status.line()), self._err), columns(self._err) - 1)
            write(self._err, _CLEAR + self._paint(line, "dim"))
            await asyncio.sleep(_TICK)
