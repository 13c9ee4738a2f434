"""`midstream chat`: read a message, answer it, repeat until the human leaves. Stopping an answer keeps what has arrived.

At a terminal with a cursor this is a live view and a prompt (live_view.py, prompt.py); elsewhere lines come in and plain
text goes out, so that a chat can be scripted.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, aclosing
from typing import Any, Protocol, TypeVar

import click

from .. import __version__
from ..agent.approval import Decision
from ..agent.approval_request import ApprovalRequest
from ..agent.changes import Changes
from ..agent.run import RunLimits
from ..client.config import ChatConfig
from ..client.session import Session
from ..core.blocks import Media, Text, ToolCall
from ..core.compaction import said_last
from ..core.errors import ConfigError, LocalError, MidstreamError
from ..core.events import AgentEvent
from ..core.plural import pluralize
from ..store.paths import data_dir
from . import commands  # noqa: F401  (registers the slash commands)
from .attachment import Attachment, secret_question
from .attachments import Attachments
from .line_input import Interrupted, LineInput
from .main import OK, code_for
from .options import Settings, conversation_options, tool_option
from .plain_view import PlainView
from .running import DoublePress, interrupts, run
from .shell_command import is_shell_line, run_shell_line, shell_line
from .slash import complete, dispatch, is_command, names_command
from .terminal import Notifier, Paint, color_choice, columns, has_cursor, is_terminal, wants_color
from .view import Gate, Meter, Status, View, shortened, summary
from .workspace import Workspace

T = TypeVar("T")

# Enough to remember where one was; a long conversation would fill the scrollback.
HISTORY_TURNS = 40
_EPILOG = """\b
Examples:
  midstream chat -m sim/kimi-k2.5              needs no key: a scripted model
  midstream chat -m moonshot/kimi-k2.5 -T all
  midstream chat --continue                    continue the last conversation with its model and settings
  midstream chat --allow 'bash:git status*'    do not ask about these
  midstream chat --system @reviewer            your prompts/reviewer.md (midstream config prompts)
  midstream chat --no-instructions             do not tell the model what AGENTS.md says

\b
In the chat, /help lists the commands, /model switches to another model, Esc stops an answer and
Ctrl-C twice quits. @FILE and @FOLDER/ in a message take a file or folder along; /attach and /paste
attach images. Tools that write files or run commands ask first. !COMMAND runs in your own shell, and its
output goes with your next message; /retry and /compare get another answer."""


class Human(Protocol):
    """Where the messages come from."""

    interactive: bool
    picks: bool
    """Whether `pick` can show a list to choose from."""

    async def read(self) -> str: ...

    async def ask(self, question: str) -> str:
        """One line of an answer; EOFError or Interrupted if there is none."""
        ...

    async def pick(self, rows: Sequence[str]) -> int | None:
        """The number of the row that was chosen, or None."""
        ...

    async def approve(self, request: ApprovalRequest, is_command: Callable[[str], bool]) -> Decision: ...

    def watching(self, stop: Callable[[], None], toggle: Callable[[], None]) -> AbstractContextManager[None]: ...

    def toolbar(self, text: Callable[[], str]) -> None: ...

    async def confirm(self, question: str) -> bool: ...

    def hold(self) -> AbstractContextManager[None]:
        """Hold the terminal while the context is open."""
        ...

    def lend(self) -> AbstractContextManager[None]:
        """Give the terminal to another program while the context is open."""
        ...


@click.command(epilog=_EPILOG)
@tool_option("Only this tool (default: all); repeatable.", default=("all",))
@click.option("--no-tools", is_flag=True, help="Use no tools.")
@conversation_options
def chat(tools: tuple[str, ...], no_tools: bool, **given: Any) -> int:
    """Chat with a model that can use tools, and switch to another model at any time."""
    return run(_chat(Settings(tools=() if no_tools else tools, is_chat=True, **given)))


async def _chat(settings: Settings) -> int:
    chatting = Chat()
    live = has_cursor(sys.stdout) and has_cursor(sys.stdin)
    # Ask only somebody who can see the question.
    ask = chatting.approve if live or (is_terminal(sys.stdin) and is_terminal(sys.stderr)) else None
    workspace = Workspace(settings, ask=ask)
    config = workspace.catalog.config.chat
    human, view = _terminal(chatting, settings, config) if live else _pipe()
    # Text that is on the screen cannot be taken back, so an answer of which some was shown is not requested again.
    workspace.limits = RunLimits(retry_text=not view.streams)
    with human.hold():
        async with workspace:
            chatting.open(workspace, human, view, Notifier(sys.stdout, config) if live else None)
            return await chatting.run()


def _terminal(chatting: Chat, settings: Settings, config: ChatConfig) -> tuple[Human, View]:
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
        paste=chatting.paste,
        acts=acts,
        color=color,
        vi=config.vi,
        history=data_dir() / "history" if settings.store else None,
    )
    return human, LiveView(console)


def _pipe() -> tuple[Human, View]:
    view = PlainView(sys.stdout, sys.stderr, Paint(wants_color(color_choice(), sys.stderr)))
    return LineInput(0, sys.stderr, interactive=is_terminal(sys.stdin), acts=acts), view


def acts(text: str) -> bool:
    """Whether a line does something here, and is not a message to the model."""
    return is_shell_line(text) or is_command(text.strip())


class Chat:
    """A running chat. Created before the workspace, because the prompt and the approvals refer to it."""

    workspace: Workspace
    view: View

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.unsent: list[Text] = []
        """Output of commands that goes with the next message."""
        self._titles: dict[str, str] = {}
        self._quitting = DoublePress(clock)
        self._meter = Meter()
        self._answering: asyncio.Task[None] | None = None
        self._reading: asyncio.Future[Any] | None = None
        self._interrupted = False
        self._stopped = False
        self._status: Status | None = None
        self._left = False
        self._code = OK
        self.attachments = Attachments()

    def open(self, workspace: Workspace, human: Human, view: View, notifier: Notifier | None = None) -> None:
        self.workspace = workspace
        self.view = view
        self._notifier = notifier
        self._gate = Gate(view)
        self.changes = Changes()
        workspace.agent.toolbox.watch = self.changes.before
        workspace.agent.toolbox.progress = self._progress
        self._human = human
        human.toolbar(self._toolbar)

    @property
    def interactive(self) -> bool:
        """Whether somebody is there: to be asked, and to mean the files that a message names."""
        return self._human.interactive

    @property
    def session(self) -> Session:
        return self.workspace.session

    async def run(self) -> int:
        self._greet()
        with interrupts(self._interrupt):
            while not self._left:
                self._tell_servers()
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
        # The first press asks for an end that keeps what came; whoever presses again wants out.
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
            self._notify("a tool call waits for your approval")
            return await self._human.approve(request, names_command)

    @property
    def picks(self) -> bool:
        return self._human.picks

    async def ask(self, question: str) -> str:
        """One line of an answer; nothing if Esc, Ctrl-C or the end of the input came instead."""
        try:
            return (await self._interruptible(self._human.ask(question))).strip()
        except (EOFError, Interrupted):
            return ""

    async def pick(self, rows: Sequence[str]) -> int | None:
        """The number of the row that the human chose, or None."""
        try:
            return await self._interruptible(self._human.pick(rows))
        except (EOFError, Interrupted):
            return None

    @property
    def title(self) -> str:
        """The title that the human gave this conversation. The store is asked once: the status line shows it at every key."""
        conversation, store = self.session.conversation.id, self.workspace.store
        if store is None or not conversation:
            return ""
        if conversation not in self._titles:
            self._titles[conversation] = store.get_meta(conversation, "title") or ""
        return self._titles[conversation]

    @title.setter
    def title(self, text: str) -> None:
        conversation = self.session.conversation.id
        self.workspace.require_store().set_meta(conversation, "title", text or None)
        self._titles[conversation] = text

    def lend_terminal(self) -> AbstractContextManager[None]:
        """Give the terminal to another program while the context is open."""
        return self._human.lend()

    async def may_send(self, item: Attachment) -> bool:
        """Whether a file may go to the model: the human is asked about one that looks like keys."""
        if not item.secret:
            return True
        if not self.interactive:
            raise LocalError(f"{item.name} was not attached: {item.secret}, and there is nobody to ask")
        warning, question = secret_question(item, self.session.model)
        self.view.notice(warning)
        try:
            return await self._interruptible(self._human.confirm(question))
        except Interrupted:
            return False

    def paste(self) -> None:
        """Attach the image on the clipboard; what goes wrong is shown."""
        try:
            self.attachments.add_clipboard(self)
        except MidstreamError as error:
            self.view.failure(str(error))

    def show_history(self) -> None:
        turns = self.session.conversation.turns
        if len(turns) > HISTORY_TURNS:
            self.view.notice(f"({pluralize(len(turns) - HISTORY_TURNS, 'earlier turn')}; /export writes them all)")
        self.view.replay(turns[-HISTORY_TURNS:])

    async def _read(self) -> str:
        if self._interrupted:
            self._interrupted = False
            raise Interrupted
        return await self._interruptible(self._human.read())

    async def _interruptible(self, reading: Coroutine[Any, Any, T]) -> T:
        """Wait for the human; Interrupted if a SIGINT comes first."""
        self._reading = asyncio.ensure_future(reading)
        try:
            said: T = await self._reading
            return said
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
        # Exactly one of the three is going on; a signal between two of them is kept for the next prompt.
        if self._answering is not None:
            self._stop_key()
        elif self._reading is not None:
            self._reading.cancel()
        else:
            self._interrupted = True

    async def _handle(self, text: str) -> None:
        """Handle one line. Whatever goes wrong with it, the chat continues."""
        try:
            if is_shell_line(text):
                await run_shell_line(self, text)
            elif is_command(text.strip()):
                await dispatch(self, text.strip())
            else:
                content = await self.attachments.compose(self, text)
                if content is not None:
                    await self.send(*content)
        except MidstreamError as error:
            # A script wants to know that a line failed; a person has read it.
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

    async def send(self, *content: str | Text | Media) -> None:
        """Answer a message, with the output of commands before it. What could not be sent stays for the next one."""
        first = len(self.session.conversation.turns)
        try:
            await self.answer(*self.unsent, *content)
        finally:
            if self.was_said(first):
                self.unsent, self.attachments.items = [], ()

    def was_said(self, first: int) -> bool:
        """Whether there is a message of the human from this turn on. Earlier turns may have been summarised before it."""
        place = said_last(self.session.conversation.turns)
        return place is not None and place >= first

    def tell_waiting(self) -> None:
        """Say what will go with the next message, whichever conversation that is in."""
        for each in self.unsent:
            self.view.notice(f"goes with your next message: the output of {shell_line(each)} (/undo takes it back)")
        for item in self.attachments.items:
            self.view.notice(f"goes with your next message: {item.label} (/attach remove takes it off)")

    async def answer(self, *content: str | Text | Media) -> None:
        """Send a message and show the answer to it. Without content, the model continues from where the conversation is."""
        session = self.session
        first = len(session.conversation.turns)
        status = Status(session.model, session.spent())
        try:
            finished = await self.until_stopped(self._stream(content), status)
        finally:
            self.workspace.store_settings()
        if finished:
            self.view.notice(f"({summary(session, first, status.seconds)})")
        elif content and not self.was_said(first):
            self.view.notice("(stopped; your message was not sent)")
        else:
            self.view.notice("(stopped; what has arrived is kept)")
        if finished:
            self._notify(f"{session.model} has answered")

    async def until_stopped(self, work: Coroutine[Any, Any, None], status: Status) -> bool:
        """Do some work that Esc and Ctrl-C stop; False if they did."""
        self._stopped = False
        self._status = status
        self.view.begin(status)
        self._answering = asyncio.ensure_future(work)
        try:
            with self._human.watching(self._stop_key, self.toggle):
                await self._answering
        except asyncio.CancelledError:
            task = asyncio.current_task()
            # A stop by key ends the work only; a cancelled chat (SIGTERM) has to end itself too.
            if not self._stopped or (task is not None and task.cancelling()):
                raise
        finally:
            self._answering = None
            self.view.end()
        return not self._stopped

    def _notify(self, what: str) -> None:
        if self._notifier is not None and self._status is not None:
            self._notifier.notify(self._status.seconds, what)

    def show(self, event: AgentEvent) -> None:
        """Show an event, once the human has answered what they are being asked."""
        self._gate.show(event)

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
        self.show_sources()
        if self.workspace.mcp is not None:
            self.view.notice(*self.workspace.mcp.greeting())
        if session.conversation.turns:
            self.show_history()

    def show_sources(self) -> None:
        """Say what a new conversation is told beside the user's words, and what was left out."""
        told = self.workspace.told
        if self._human.interactive:
            self.view.notice(*told.sources)
        self.view.notice(*[f"ignored: {each}" for each in told.ignored])

    def _tell_servers(self) -> None:
        """Say what happened to MCP servers, when nobody is typing."""
        servers = self.workspace.mcp
        if servers is not None:
            self.view.notice(*servers.running.take_notices())

    def _progress(self, call: ToolCall, text: str) -> None:
        if self._status is not None:
            self._status.doing = f"{call.name}: {shortened(text, 60)}"

    def _toolbar(self) -> str:
        named = shortened(self.title, 30) or self.session.conversation.id[:8] or "new"
        return self._meter.bar(self.session, columns(sys.stdout), named, self._meter.turns(self.session))
