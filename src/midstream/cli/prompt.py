"""Input from a terminal: a prompt with history, completion and several lines, and the keys that work while an answer streams.

Enter sends; Alt-Enter, or a backslash before Enter, starts a new line. `@` completes the names of files, a file that is
dropped on the terminal becomes such a name, and Ctrl-V attaches the image on the clipboard. While an answer streams, Esc and Ctrl-C stop it and
Ctrl-T folds or unfolds thinking; anything else that is typed goes to the next prompt.

The terminal is held for the whole chat, between two prompts too: in a raw mode, and marking what is pasted, so that a paste
is one key wherever it comes. What came before a prompt was up cannot run a command by itself: its Enter is not taken.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.buffer import ValidationState
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import vi_mode
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.styles import Style
from prompt_toolkit.validation import Validator

from ..agent.approval import NO, Decision
from ..agent.approval_request import ApprovalRequest
from ..core.errors import StoreError
from ..core.visible import visible
from ..store.paths import is_read_only, make_private_file
from .line_input import Interrupted, decided, decision_of, in_rows, no_command
from .mention import complete_mention, dropped_paths, written
from .picker import pick
from .terminal import columns, showable, write
from .view import shown_on

Complete = Callable[[str], Iterable[tuple[str, str]]]
"""The completions of a line up to the cursor, each with its meaning."""

_PROMPT_ROWS = 10  # the line, the room for completions and the status bar
_ESCAPE_WAIT = 0.08  # an Esc that starts a key sequence is followed by the rest at once
_READS = 64  # of 1,024 bytes: more than the terminal itself keeps
_HINT = "typed before this prompt: Enter runs it, Ctrl-C drops it"
_STYLE = Style.from_dict({"prompt": "bold ansicyan", "bottom-toolbar": "noreverse ansibrightblack"})


class TerminalInput:
    """Reads what the human types. The counterpart of a View."""

    interactive = True
    picks = True

    def __init__(
        self,
        *,
        complete: Complete,
        toggle: Callable[[int], None],
        typed: Callable[[], None],
        paste: Callable[[], None],
        acts: Callable[[str], bool] = no_command,
        color: bool,
        vi: bool = False,
        history: Path | None = None,
    ) -> None:
        self._input = create_input()
        self._output = create_output()
        self._watch = Watch(self._input, self._output)
        self._toggle = toggle
        self._sign = showable("› ", sys.stdout)
        self._paste = paste
        self._acts = acts
        self._early = False  # the keys that are read now came before the prompt
        self._waits = False  # a command among them waits for an Enter
        # None lets the library find out what the terminal can do.
        self._depth = None if color else ColorDepth.DEPTH_1_BIT
        self._toolbar: Callable[[], str] = lambda: ""
        self._stop: Callable[[], None] = lambda: None
        self._session: PromptSession[str] = PromptSession(
            input=self._input,
            output=self._output,
            history=_history(history),
            completer=_Words(complete),
            complete_while_typing=True,
            multiline=True,
            key_bindings=self._bindings(),
            prompt_continuation=showable("… ", sys.stdout),
            style=_STYLE,
            color_depth=self._depth,
            # With it, the arrow keys search by what is typed, which surprises in a text of several lines.
            enable_history_search=False,
            vi_mode=vi,
            # Not the binding of Enter: more keys than that accept a line.
            validator=Validator.from_callable(self._may_be_accepted, _HINT, move_cursor_to_end=True),
            validate_while_typing=False,
        )
        self._session.app.before_render += lambda _: self._begin_fresh()
        self._session.default_buffer.on_text_changed += lambda _: typed()

    def toolbar(self, text: Callable[[], str]) -> None:
        """Set what is shown below the prompt."""
        self._toolbar = text

    async def read(self) -> str:
        """What was typed; EOFError for Ctrl-D, Interrupted for Ctrl-C."""
        with self._watch.resting() as early:
            store_typeahead(self._input, early)
            self._early, self._waits = True, False
            try:
                return await self._session.prompt_async(
                    FormattedText([("class:prompt", self._sign)]),
                    bottom_toolbar=self._below,
                    handle_sigint=False,  # the chat handles it, here and everywhere else
                )
            except KeyboardInterrupt:
                raise Interrupted from None

    async def approve(self, request: ApprovalRequest, is_command: Callable[[str], bool] = no_command) -> Decision:
        """Show the whole call and ask. Ctrl-C and Esc stop the whole answer.

        The call goes into the scrollback, because a prompt is cropped to the screen. What was typed before the question was
        shown is not an answer to it: it goes to the next prompt.
        """
        write(sys.stdout, f"{shown_on(sys.stdout, request)}\n")
        try:
            return await decided(request, self.ask, is_command, sys.stdout)
        except (EOFError, Interrupted):
            self._stop()
            return NO

    async def confirm(self, question: str) -> bool:
        """Ask a question that wants a yes; anything else, Ctrl-C and Esc are a no."""
        try:
            return decision_of(await self.ask(visible(question))).allowed
        except (EOFError, Interrupted):
            return False

    async def ask(self, question: str) -> str:
        """One line; Interrupted for Esc and Ctrl-C. What was typed before the question goes to the next prompt."""
        asking: PromptSession[str] = PromptSession(
            input=self._input, style=_STYLE, color_depth=self._depth, key_bindings=_question_keys()
        )
        with self._aside():
            try:
                return await asking.prompt_async(
                    FormattedText([("class:prompt", in_rows(question, columns(sys.stdout)))]), handle_sigint=False
                )
            except KeyboardInterrupt:
                raise Interrupted from None

    async def pick(self, rows: Sequence[str]) -> int | None:
        with self._aside():
            return await pick(rows, self._input, self._output, self._depth)

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """While the context is open, a question reads the keys. What came before it goes to the next prompt."""
        with self._watch.resting() as early:
            try:
                yield
            finally:
                store_typeahead(self._input, [*early, *get_typeahead(self._input)])

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the terminal while the context is open."""
        self._watch.hold()
        try:
            yield
        finally:
            self._watch.release()

    @contextmanager
    def lend(self) -> Iterator[None]:
        """Give the terminal to another program while the context is open."""
        self._watch.release()
        try:
            yield
        finally:
            self._watch.hold()

    @contextmanager
    def watching(self, stop: Callable[[], None], toggle: Callable[[], None]) -> Iterator[None]:
        """Handle the keys that stop and unfold, while something else uses the screen."""
        self._stop = stop
        before = self._watch.actions
        self._watch.actions = {Keys.Escape: stop, Keys.ControlC: stop, Keys.ControlT: toggle}
        try:
            yield
        finally:
            self._watch.actions = before

    def _below(self) -> str:
        buffer = self._session.default_buffer
        shown = _HINT if self._waits and self._acts(buffer.text) else self._toolbar()
        return showable(visible(shown), sys.stdout)

    def _may_be_accepted(self, text: str) -> bool:
        """Whether Enter takes this text: a command that was typed before the prompt was there waits for another Enter."""
        self._waits = self._early and self._acts(text)
        return not self._waits

    def _begin_fresh(self) -> None:
        """From here on, what is read was typed at the prompt: it takes what came early before it is drawn."""
        if self._early and self._waits:
            buffer = self._session.default_buffer
            buffer.document = Document(buffer.text.rstrip("\n"))
            buffer.validation_state, buffer.validation_error = ValidationState.UNKNOWN, None  # they are kept for a text
        self._early = False

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.document.text_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()
                if self._waits:  # what follows is not a part of the command
                    buffer.insert_text("\n")

        # Not Ctrl-J: until the prompt is up, the terminal still turns Enter into it. With vi keys, Esc and then Enter
        # are two keys: leave the insert mode, send.
        @keys.add("escape", "enter", filter=~vi_mode)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-t")
        def _(event: KeyPressEvent) -> None:
            above = _rows_above(event.app)
            run_in_terminal(lambda: self._toggle(above))

        @keys.add("c-v")
        def _(event: KeyPressEvent) -> None:
            run_in_terminal(self._paste)

        @keys.add(Keys.BracketedPaste)
        def _(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            paths = dropped_paths(text)
            event.current_buffer.insert_text(" ".join(map(written, paths)) + " " if paths else text)

        return keys


class Watch:
    """Holds the terminal, and handles keys while there is no prompt. A prompt takes the keys over and gives them back."""

    def __init__(self, source: Input, output: Output) -> None:
        self._input = source
        self._output = output
        # Each prompt would switch it off when it ends, and what is pasted then would come as lines and their Enters.
        self._unmark = output.disable_bracketed_paste
        output.disable_bracketed_paste = lambda: None  # type: ignore[method-assign]
        self._open: ExitStack | None = None
        self._resting = False
        # As a signal, so that whatever handles SIGINT at this time does so.
        self.actions: dict[Keys, Callable[[], None]] = {Keys.ControlC: lambda: signal.raise_signal(signal.SIGINT)}

    def hold(self) -> None:
        with ExitStack() as stack:
            # Raw, so that Esc and Ctrl-T come as keys; Ctrl-C then comes as a key as well, and is among the actions. It also
            # keeps every byte: otherwise the terminal cuts lines, and the end of a paste with them.
            stack.enter_context(self._input.raw_mode())
            stack.enter_context(self._input.attach(self._ready))
            self._output.enable_bracketed_paste()
            self._output.flush()
            self._open = stack.pop_all()

    def release(self) -> None:
        if self._open is not None:
            self._unmark()
            self._output.flush()
            self._open.close()
            self._open = None

    @contextmanager
    def resting(self) -> Iterator[list[KeyPress]]:
        """While the context is open, a prompt reads the keys. Gives those that came before it."""
        # From three places: what the terminal holds, half a key sequence, and what was put by. A read takes a part of the
        # first, and may give nothing although there is more: half a paste.
        for _ in range(_READS):
            self._handle(self._input.read_keys())
        self._handle(self._input.flush_keys())
        self._resting = True
        try:
            yield get_typeahead(self._input)
        finally:
            self._resting = False

    def _ready(self) -> None:
        self._handle(self._input.read_keys())
        # A lone Esc looks like the beginning of an arrow key until nothing follows it.
        asyncio.get_running_loop().call_later(_ESCAPE_WAIT, self._flush)

    def _flush(self) -> None:
        if self._open is not None and not self._resting:
            self._handle(self._input.flush_keys())

    def _handle(self, presses: list[KeyPress]) -> None:
        for press in presses:
            action = self.actions.get(press.key) if isinstance(press.key, Keys) else None
            if action is not None:
                action()
            else:
                store_typeahead(self._input, [press])


class _Words(Completer):
    def __init__(self, complete: Complete) -> None:
        self._complete = complete

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        line = document.text_before_cursor
        if not line.startswith("/") or "\n" in line:
            typed, names = complete_mention(line)
            for text, meaning in [*names, *(self._complete(typed) if typed else ())]:
                yield Completion(text, start_position=-len(typed), display_meta=meaning)
            return
        word = line.rpartition(" ")[2]
        for text, meaning in self._complete(line):
            yield Completion(text, start_position=-len(word), display_meta=meaning)


def _rows_above(app: Application[str]) -> int:
    """How many rows of the screen are above the prompt; until the terminal has told, as many as there would be if the prompt
    were at the bottom."""
    renderer = app.renderer
    if renderer.height_is_known:
        return renderer.rows_above_layout
    drawn = renderer.last_rendered_screen
    return max(0, app.output.get_size().rows - (drawn.height if drawn is not None else _PROMPT_ROWS))


def _question_keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", eager=True)
    def _(event: KeyPressEvent) -> None:
        event.app.exit(exception=KeyboardInterrupt())

    return keys


def _history(path: Path | None) -> History:
    if path is None:
        return InMemoryHistory()
    try:
        make_private_file(path)
    except StoreError:  # a read-only medium: what is typed is remembered while the chat is open
        return InMemoryHistory()
    return InMemoryHistory() if is_read_only(path) else FileHistory(str(path))
