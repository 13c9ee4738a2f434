"""`midstream chat`: read a message, answer it, repeat until the human leaves. Stopping an answer keeps what has arrived.

At a terminal with a cursor this is a live view and a prompt (live_view.py, prompt.py); elsewhere lines come in and plain
text goes out, so that a chat can be scripted.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, aclosing
from typing import Any, Protocol

import click

from .. import __version__
from ..agent.approval import Decision
from ..agent.approval_request import ApprovalRequest
from ..agent.run import RunLimits
from ..client.session import Session
from ..core.blocks import Media, Text
from ..core.errors import ConfigError, MidstreamError
from ..store.paths import data_dir
from . import commands  # noqa: F401  (registers the slash commands)
from .double_press import DoublePress
from .line_input import Interrupted, LineInput
from .main import OK, code_for
from .options import Settings, conversation_options, tool_option
from .plain_view import PlainView
from .running import interrupts, run
from .slash import complete, dispatch, is_command
from .terminal import Paint, color_choice, has_cursor, is_terminal, wants_color
from .view import Gate, Status, View, money, summary
from .workspace import Workspace

HISTORY_TURNS = 40
_EPILOG = """\b
Examples:
  midstream chat -m sim/kimi-k2.5              needs no key: a scripted model
  midstream chat -m moonshot/kimi-k2.5 -T all
  midstream chat --continue                    continue the last conversation with its model and settings
  midstream chat --allow 'bash:git status*'    do not ask about these

\b
In the chat, /help lists the commands, /model switches to another model, Esc stops an answer and
Ctrl-C twice quits. Tools that write files or run commands ask first."""


class Human(Protocol):
    """Where the messages come from."""

    interactive: bool

    async def read(self) -> str: ...

    async def approve(self, request: ApprovalRequest) -> Decision: ...

    def watching(self, stop: Callable[[], None], toggle: Callable[[], None]) -> AbstractContextManager[None]: ...

    def toolbar(self, text: Callable[[], str]) -> None: ...


@click.command(epilog=_EPILOG)
@tool_option("Only this tool (default: all); repeatable.", default=("all",))
@click.option("--no-tools", is_flag=True, help="Use no tools.")
@conversation_options
def chat(tools: tuple[str, ...], no_tools: bool, **given: Any) -> int:
    """Chat with a model that can use tools, and switch to another model at any time."""
    return run(_chat(Settings(tools=() if no_tools else tools, **given)))


async def _chat(settings: Settings) -> int:
    chatting = Chat()
    live = has_cursor(sys.stdout) and has_cursor(sys.stdin)
    human, view = _terminal(chatting, settings) if live else _pipe()
    # Ask only somebody who can see the question.
    ask = chatting.approve if human.interactive and (live or is_terminal(sys.stderr)) else None
    async with Workspace(settings, ask=ask, limits=RunLimits(retry_text=not view.streams)) as workspace:
        chatting.open(workspace, human, view)
        return await chatting.run()


def _terminal(chatting: Chat, settings: Settings) -> tuple[Human, View]:
    try:
        from rich.console import Console

        from .live_view import LiveView
        from .prompt import TerminalInput
    except ImportError as error:
        raise ConfigError(
            f"the chat needs {error.name}, which is not installed: pip install '.[chat]' in midstream's checkout"
        ) from None
    color = wants_color(color_choice(), sys.stdout)
    console = Console(
        force_terminal=True, no_color=not color, highlight=False, markup=False, emoji=False, legacy_windows=False
    )
    human = TerminalInput(
        complete=lambda line: complete(chatting, line),
        toggle=chatting.toggle,
        typed=chatting.typed,
        color=color,
        history=data_dir() / "history" if settings.store else None,
    )
    return human, LiveView(console)


def _pipe() -> tuple[Human, View]:
    view = PlainView(sys.stdout, sys.stderr, Paint(wants_color(color_choice(), sys.stderr)))
    return LineInput(0, sys.stderr, interactive=is_terminal(sys.stdin)), view


class Chat:
    """A running chat. Created before the workspace, because the prompt and the approvals refer to it."""

    workspace: Workspace
    view: View

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._quitting = DoublePress(clock)
        self._answering: asyncio.Task[None] | None = None
        self._reading: asyncio.Future[str] | None = None
        self._interrupted = False
        self._stopped = False
        self._left = False
        self._code = OK

    def open(self, workspace: Workspace, human: Human, view: View) -> None:
        self.workspace = workspace
        self.view = view
        self._gate = Gate(view)
        self._human = human
        human.toolbar(self._toolbar)

    @property
    def session(self) -> Session:
        return self.workspace.session

    async def run(self) -> int:
        self._greet()
        with interrupts(self._interrupt):
            while not self._left:
                try:
                    text = await self._read()
                except EOFError:
                    break
                except Interrupted:
                    if self._quitting.press():
                        break
                    self.view.notice("(press Ctrl-C again to quit, or type /exit)")
                    continue
                self._quitting.disarm()
                if text.strip():
                    await self._handle(text)
        return self._code

    def leave(self) -> None:
        self._left = True

    def stop(self) -> None:
        """Stop the current answer and keep what has arrived; a second time, also leave the chat."""
        if self._stopped:
            self._left = True
        if self._answering is not None and not self._stopped:
            self._stopped = True
            self._answering.cancel()

    def typed(self) -> None:
        """Whoever types does not mean to quit."""
        self._quitting.disarm()

    def toggle(self, rows_above: int | None = None) -> None:
        """Fold or unfold thinking, in place where the last answer is still on the screen, else below."""
        self.view.unfolded = not self.view.unfolded
        if not self.view.refold(rows_above) and self._answering is None:
            thought = next((turn.thinking for turn in reversed(self.session.conversation.turns) if turn.thinking), "")
            if self.view.unfolded and thought:
                self.view.thought(thought)
            else:
                self.view.notice(f"thinking is {'shown in full' if self.view.unfolded else 'folded'}")

    async def approve(self, request: ApprovalRequest) -> Decision:
        """Ask the human while the view is paused."""
        with self._gate.closed():
            return await self._human.approve(request)

    def show_history(self) -> None:
        turns = self.session.conversation.turns
        if len(turns) > HISTORY_TURNS:
            self.view.notice(f"({len(turns) - HISTORY_TURNS} earlier turns; /export writes them all)")
        self.view.replay(turns[-HISTORY_TURNS:])

    async def _read(self) -> str:
        if self._interrupted:
            self._interrupted = False
            raise Interrupted
        self._reading = asyncio.ensure_future(self._human.read())
        try:
            return await self._reading
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise Interrupted from None
        finally:
            self._reading = None
            self.view.forget()

    def _interrupt(self) -> None:
        """Handle SIGINT at any point: stop the answer, or the prompt, or else the next prompt."""
        if self._answering is not None:
            self._stop_key()
        elif self._reading is not None:
            self._reading.cancel()
        else:
            self._interrupted = True

    async def _handle(self, text: str) -> None:
        """Handle one line. Whatever goes wrong with it, the chat continues."""
        try:
            if is_command(text.strip()):
                await dispatch(self, text.strip())
            else:
                await self.answer(text)
        except MidstreamError as error:
            self._code = code_for(error) if not self._human.interactive else OK
            self.view.failure(str(error))
        except BrokenPipeError:  # nobody reads our output any more
            raise
        except Exception as error:
            # The chat's loop is an edge: a defect may cost one answer, not the conversation.
            if os.environ.get("MIDSTREAM_DEBUG"):
                raise
            self.view.failure(
                f"unexpected {type(error).__name__}: {error} (a bug: please report it; MIDSTREAM_DEBUG=1 shows where)"
            )

    async def answer(self, *content: str | Text | Media) -> None:
        """Send a message and show the answer to it. Without content, the model continues from where the conversation is."""
        session = self.session
        first = len(session.conversation.turns)
        status = Status(session.model, session.spent())
        self._stopped = False
        self.view.begin(status)
        self._answering = asyncio.ensure_future(self._stream(content))
        try:
            with self._human.watching(self._stop_key, self.toggle):
                await self._answering
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._stopped or (task is not None and task.cancelling()):
                raise
        finally:
            self._answering = None
            self.view.end()
            self.workspace.store_settings()
        self.view.notice(
            "(stopped; what has arrived is kept)" if self._stopped else f"({summary(session, first, status.seconds)})"
        )

    def _stop_key(self) -> None:
        self._quitting.press()
        self.stop()

    async def _stream(self, content: Sequence[str | Text | Media]) -> None:
        async with aclosing(self.workspace.agent.run(*content)) as events:
            async for event in events:
                self._gate.show(event)

    def _greet(self) -> None:
        session = self.session
        format, automatic = session.tool_format
        if self._human.interactive:
            how = " (automatic)" if automatic else ""
            self.view.notice(f"midstream {__version__} · {session.model} · tool format {format}{how} · /help")
        if session.conversation.turns:
            self.show_history()

    def _toolbar(self) -> str:
        session = self.session
        cost = session.spent()
        parts = [session.model, session.conversation.id[:8] or "new", f"{len(session.conversation.turns)} turns"]
        return " · ".join([*parts, money(cost)] if cost is not None else parts)
