"""The same without async, for scripts and notebooks: `complete_sync`, `stream_sync` and `SyncSession`.

Each runs an event loop in a thread of its own, so it also works where a loop is already running. The thread ends with the
answer, or when the session is closed. Ctrl-C reaches the caller and cancels the request.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401  its own hook at the end of the program must be older than ours
import threading
import time
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import AbstractAsyncContextManager, AsyncExitStack, closing, suppress
from typing import Any, Generic, Protocol, Self, TypedDict, TypeVar, Unpack, overload

from ..core.blocks import Conversation, Media, Text, Turn
from ..core.dialect import MissingReasoning, Options
from ..core.errors import ContextTooLong, LocalError
from ..core.events import CompactionEvent, ErrorInfo, Event, TextDelta
from ..core.handoff import SwitchReport
from ..core.ids import ToolFormat
from ..core.secret import Secret, hide
from ..core.tools import ToolSpec
from ..dialects.registry import Resolved
from ..store.protocol import Store
from ..wires.request import Request
from ..wires.tool_format import ToolFormatChoice
from .answer_type import AnswerType, Parsed
from .catalog import Catalog
from .client import Client, complete, stream_once
from .compaction import Compaction, ContextUse
from .reply import ReplyState, warn_unused
from .session import Session, TurnCost

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E")
R = TypeVar("R")


class AnswerOptions(TypedDict, total=False):
    """The options of `stream` and `complete`."""

    tools: Sequence[ToolSpec]
    options: Options | None
    api_key: str | Secret | None
    base_url: str | None
    catalog: Catalog | None


@overload
def complete_sync(
    model: str | Sequence[str], conversation: Conversation | str, **options: Unpack[AnswerOptions]
) -> Turn: ...
@overload
def complete_sync(
    model: str | Sequence[str],
    conversation: Conversation | str,
    *,
    schema: type[T] | AnswerType[T],
    **options: Unpack[AnswerOptions],
) -> Parsed[T]: ...
@overload
def complete_sync(
    model: str | Sequence[str],
    conversation: Conversation | str,
    *,
    schema: dict[str, Any],
    **options: Unpack[AnswerOptions],
) -> Parsed[Any]: ...
def complete_sync(
    model: str | Sequence[str],
    conversation: Conversation | str,
    *,
    schema: Any = None,
    **options: Unpack[AnswerOptions],
) -> Turn | Parsed[Any]:
    """The next answer as a whole Turn: `complete` without async, with the same options."""
    work: Coroutine[Any, Any, Turn | Parsed[Any]] = complete(model, conversation, schema=schema, **options)
    del options  # they may hold a key, and the locals of a frame may be shown
    with closing(Background()) as background:
        return background.run(work)


def stream_sync(
    model: str | Sequence[str], conversation: Conversation | str, **options: Unpack[AnswerOptions]
) -> SyncReply:
    """Stream the next answer in a plain `for`: `stream` without async, with the same options."""
    return SyncReply(_streamed(stream_once(model, conversation, **options)))


def _streamed(batches: AsyncGenerator[list[Event], None]) -> Generator[list[Event], None, None]:
    """The batches, from a thread that is started with the first and ends with the last."""
    with closing(Background()) as background:
        yield from background.iterate(batches)


class SyncStream(Generic[E, R]):
    """A Stream without async, which SyncReply and SyncRun have in common. Leave early with `close`, or use `with`."""

    _used = False

    def __init__(self, events: Generator[E, None, None], outcome: Callable[[], R]) -> None:
        self._events = events
        self._outcome = outcome

    def __iter__(self) -> Iterator[E]:
        self._used = True  # `for event in session.send(…)` drops the reply before its first event
        return self._events

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._used:
            warn_unused(self, "iterate it, or call result()")

    def result(self) -> R:
        """Work to the end and give the result. After iterating to the end, it is there at once."""
        for _ in self:
            pass
        return self._outcome()

    def close(self) -> None:
        """Stop here: connections are closed at once, running tools are cancelled, and what came is kept."""
        self._used = True
        self._events.close()


class SyncReply(SyncStream[Event, Turn]):
    """`for event in reply` gives events; `reply.result()` gives the Turn, whole or as far as it came (see `error`).

    As with `Reply`, only what keeps an answer from starting is raised; `reply.text` is the answer's text, and raises what ended it early.
    Leave early with `close`, or use `with`. A reply that
    is neither iterated nor asked for its result sends nothing, and warns.
    """

    def __init__(self, batches: Generator[list[Event], None, None]) -> None:
        self._state = ReplyState()
        super().__init__(_followed(batches, self._state), self._state.result)

    @property
    def turn(self) -> Turn | None:
        """The whole turn after the end; before it, what has come so far with `failure` set; None before the start."""
        return self._state.turn

    @property
    def error(self) -> ErrorInfo | None:
        """What ended the answer early, or None. `error.to_exception()` is the exception to raise for it."""
        return self._state.error

    def iter_text(self) -> Iterator[str]:
        """Only the text of the answer, piece by piece as it comes."""
        for event in self:
            if isinstance(event, TextDelta):
                yield event.delta

    @property
    def text(self) -> str:
        """The text of the whole answer: works to the end, and raises what ended it early."""
        turn = self.result()
        if self.error is not None:
            raise self.error.to_exception()
        return turn.text


class SyncParsedReply(SyncReply, Generic[R]):
    """A SyncReply to a request with a schema: `reply.value()` gives the answer as a value of it, as ParsedReply does."""

    def __init__(self, batches: Generator[list[Event], None, None], answer: AnswerType[R]) -> None:
        super().__init__(batches)
        self._answer = answer

    def value(self) -> R:
        """Work to the end and give the value. SchemaMismatch says what is wrong with an answer that has none."""
        turn = self.result()
        return self._state.value(turn, self._answer)

    def iter_text(self) -> Iterator[str]:
        """The text of the answer, in one piece, once it is known to follow the schema."""
        turn = self.result()
        if self.error is None:
            yield turn.text


def _followed(batches: Generator[list[Event], None, None], state: ReplyState) -> Generator[Event, None, None]:
    try:
        for batch in batches:
            state.add(batch)
            yield from batch
    finally:
        batches.close()
        state.left()


class SessionOptions(TypedDict, total=False):
    """The options of a Session."""

    store: Store | None
    tools: Sequence[ToolSpec]
    system: str
    conversation: Conversation | None
    options: Options | None
    client: Client | None
    compaction: Compaction | None
    api_key: str | Secret | None
    base_url: str | None


class SyncSession:
    """A Session without async: `send` gives a SyncReply. Close it, or use `with`.

    It takes the arguments of `Session`, and closes the client it was given: a client belongs to one event loop. Every public
    name of `Session` is here too; what is awaited there is waited for, and what is iterated there with `async for` is iterated
    with `for`.
    """

    _background: Background | None = None

    def __init__(self, model: str | Sequence[str], **options: Unpack[SessionOptions]) -> None:
        options["api_key"] = hide(options.get("api_key"))  # the locals of a frame may be shown
        self.session = Session(model, **options)
        self._closed = False

    @property
    def model(self) -> str:
        """The current model; the first of a fallback chain."""
        return self.session.model

    @property
    def models(self) -> tuple[str, ...]:
        """The current model and those to fall back on."""
        return self.session.models

    @property
    def client(self) -> Client:
        return self.session.client

    @property
    def target(self) -> Resolved:
        """The current model with its dialect and endpoint."""
        return self.session.target

    @property
    def conversation(self) -> Conversation:
        """All that was said so far."""
        return self.session.conversation

    @conversation.setter
    def conversation(self, conversation: Conversation) -> None:
        self.session.conversation = conversation

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that are declared to the model."""
        return self.session.tools

    @tools.setter
    def tools(self, tools: Sequence[ToolSpec]) -> None:
        self.session.tools = tuple(tools)

    @property
    def options(self) -> Options:
        """The options of each request."""
        return self.session.options

    @options.setter
    def options(self, options: Options) -> None:
        self.session.options = options

    @property
    def compaction(self) -> Compaction | None:
        """When earlier turns are summarised; None for never."""
        return self.session.compaction

    @compaction.setter
    def compaction(self, compaction: Compaction | None) -> None:
        self.session.compaction = compaction

    @property
    def background(self) -> Background:
        """The thread that does the work, started when it is first needed."""
        if self._closed:
            raise LocalError("the session is closed: make a new one to go on")
        if self._background is None:
            self._background = Background()
        return self._background

    def __enter__(self) -> SyncSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # At the end of the program its thread has been ended, and nothing is left to close.
        if self._background is not None and self._background.is_alive:
            warnings.warn(
                "a SyncSession was not closed: call close(), or use `with`", ResourceWarning, stacklevel=2, source=self
            )
            self._background.close()

    @overload
    def send(self, *content: str | Text | Media) -> SyncReply: ...
    @overload
    def send(self, *content: str | Text | Media, schema: type[T] | AnswerType[T]) -> SyncParsedReply[T]: ...
    @overload
    def send(self, *content: str | Text | Media, schema: dict[str, Any]) -> SyncParsedReply[Any]: ...
    def send(self, *content: str | Text | Media, schema: Any = None) -> SyncReply:
        """Say something and stream the answer. With no content (or ""), the model continues from where the conversation is.

        With a `schema`, as `Session.send` takes it, `reply.value()` gives the answer as a value of it."""
        if schema is None:
            return SyncReply(self._sent(content, None))
        answer: AnswerType[Any] = AnswerType.of(schema)
        return SyncParsedReply(self._sent(content, answer), answer)

    def batches(
        self, *content: str | Text | Media, schema: AnswerType[Any] | None = None, make_room: bool = True
    ) -> Generator[list[Event], None, None]:
        """The events of `send` in the batches in which they arrived: see `Session.batches`."""
        yield from self.background.iterate(self.session.batches(*content, schema=schema, make_room=make_room))

    def add(self, turn: Turn) -> None:
        """Add a turn: to the store first, if there is one, then here."""
        self.background.run(self.session.add(turn))

    def switch_model(self, model: str | Sequence[str]) -> SwitchReport:
        """Change the model. The report says what it will see of the conversation; nothing is sent."""
        return self.session.switch_model(model)

    def use(self, model: str | Sequence[str]) -> SwitchReport:
        """Short for `switch_model`."""
        return self.session.switch_model(model)

    def preview(self, model: str | None = None) -> SwitchReport:
        """What `model` (or the current one) would see if asked now."""
        return self.session.preview(model)

    def request(self, model: str | None = None) -> Request:
        """The exact request the next model would get, without secrets."""
        return self.session.request(model)

    def context(self, *content: str | Text | Media) -> ContextUse:
        """How much of the current model's window the conversation takes, with this content."""
        return self.session.context(*content)

    @property
    def tool_format(self) -> tuple[ToolFormat, bool]:
        """The tool format in use, and whether it was chosen automatically."""
        return self.session.tool_format

    @property
    def tool_format_choice(self) -> ToolFormatChoice:
        """The tool format in use, and why."""
        return self.session.tool_format_choice

    def set_tool_format(self, name: str | None) -> ToolFormat:
        """Choose a tool format by hand; `auto` or None chooses the model's own: see `Session.set_tool_format`."""
        return self.session.set_tool_format(name)

    def set_missing_reasoning(self, policy: MissingReasoning) -> None:
        """What to do where the next model requires reasoning that the history lacks: see `Options.missing_reasoning`."""
        self.session.set_missing_reasoning(policy)

    def compacting(self, *keep: str, model: str | None = None) -> Generator[CompactionEvent, None, None]:
        """`compact` as events: the second says how it ended, and a failure is not raised."""
        yield from self.background.iterate(self.session.compacting(*keep, model=model))

    def make_room(
        self, *content: str | Text | Media, refused: ContextTooLong | None = None
    ) -> Generator[CompactionEvent, None, None]:
        """Summarise earlier turns if the session's `compaction` says so: see `Session.make_room`."""
        yield from self.background.iterate(self.session.make_room(*content, refused=refused))

    def compact(self, *keep: str, model: str | None = None) -> Turn:
        """Summarise the earlier turns, so that models are sent the summary in their place: see `Session.compact`."""
        return self.background.run(self.session.compact(*keep, model=model))

    def undo_compaction(self) -> Turn:
        """Take back the last summary that is in force."""
        return self.background.run(self.session.undo_compaction())

    def costs(self, since: int = 0) -> list[TurnCost]:
        """Usage and cost of every answer from the turn `since` on, each at the model that made it."""
        return self.session.costs(since)

    def spent(self) -> float | None:
        """Dollars that the conversation has cost so far, with the answers that were undone; None if no price is known."""
        return self.session.spent()

    def carry_costs(self, successor: Conversation) -> Conversation:
        """The conversation that is to replace this session's, so that what was spent stays the same."""
        return self.session.carry_costs(successor)

    def rewind(self, length: int) -> None:
        """Continue from after the first `length` turns; what the others cost remains spent."""
        self.background.run(self.session.rewind(length))

    def close(self) -> None:
        """Stop what is going on, close the connections and end the thread."""
        self._closed = True
        background, self._background = self._background, None
        if background is not None:
            try:
                background.run(self._aclose())
            finally:
                background.close()

    aclose = close
    """`close`, by the name that it has on `Session`."""

    async def _aclose(self) -> None:
        try:
            await self.session.aclose()
        finally:
            await self.session.client.aclose()

    def _sent(
        self, content: Sequence[str | Text | Media], answer: AnswerType[Any] | None
    ) -> Generator[list[Event], None, None]:
        yield from self.batches(*content, schema=answer)


class ClosableItems(Protocol[T_co]):
    """An async generator, or what is used like one."""

    def __aiter__(self) -> AsyncIterator[T_co]: ...
    def __anext__(self) -> Awaitable[T_co]: ...
    def aclose(self) -> Coroutine[Any, Any, None]: ...


# A program that ends with a session or a reply still open ends their loops first, while threads still run. Later, Python stops
# a daemon thread wherever it is, and a reply that is collected then would wait for it for ever.
_AT_EXIT = 5.0
"""Seconds that clean-up may take at the end of the program."""
_alive: set[Background] = set()


def _end_all() -> None:
    until = time.monotonic() + _AT_EXIT
    for background in _alive.copy():
        background.end_with_the_program(until)


# Before `concurrent.futures` ends its own threads, in which a store writes: `atexit` would be too late, and nothing public runs
# as early. The hook that was registered last runs first.
getattr(threading, "_register_atexit", atexit.register)(_end_all)


# One loop per session and not one for the program: a session that hangs must not stop another, and closing it ends
# everything that belongs to it.
class Background:
    """An event loop in a thread. The thread is a daemon: a program that ends in the middle ends."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._awaited: set[Future[Any]] = set()
        self._held = AsyncExitStack()
        self._failure: Exception | None = None
        self._at_exit = False
        self._thread = threading.Thread(target=self._main, name="midstream-loop", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        _alive.add(self)

    @property
    def is_alive(self) -> bool:
        """Whether the loop has not ended."""
        return self._thread.is_alive()

    def enter(self, context: AbstractAsyncContextManager[T]) -> T:
        """Enter it in the loop. It is left when the loop ends, also if that is the end of the program."""
        return self.run(self._held.enter_async_context(context))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, done in the loop. If the caller is interrupted, it is cancelled and waited for."""
        outcome: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            if self._stop.is_set():
                outcome.set_exception(_ended())  # a loop that ends would leave the task in the middle
                return
            tasks.append(self._loop.create_task(work))
            tasks[0].add_done_callback(lambda task: _settle(outcome, task))

        def cancel() -> None:
            for task in tasks:
                task.cancel()

        if self._inside:
            work.close()
            # A tool or a callback that calls the synchronous API from within the loop would wait for itself.
            raise LocalError(
                "called from the event loop's own thread, where waiting would block for ever: use the async API"
            )
        self._awaited.add(outcome)
        try:
            self._loop.call_soon_threadsafe(begin)
        except RuntimeError:
            outcome.set_exception(_ended())
        try:
            return outcome.result()
        except BaseException:
            if outcome.done() and not tasks:
                work.close()  # it came too late to be begun
            # Ctrl-C while waiting: cancel the work and wait until it has cleaned up, then raise.
            if not outcome.done():
                with suppress(RuntimeError):  # a loop that has ended cancels by itself
                    self._loop.call_soon_threadsafe(cancel)
                wait((outcome,))
            raise
        finally:
            self._awaited.discard(outcome)

    def iterate(self, items: ClosableItems[T]) -> Generator[T, None, None]:
        """The same items in a plain `for`."""
        try:
            # A tuple of one, since an item may itself be None, and StopIteration cannot pass through a future.
            while (found := self.run(_next(items))) is not None:
                yield found[0]
        finally:
            self.end(items)

    def end(self, items: ClosableItems[T]) -> None:
        """Close them, wherever that can be waited for."""
        # A generator may be collected in any thread; in the loop's own, and when it ends, the loop closes `items` itself.
        if self._thread.is_alive() and not self._inside and not self._stop.is_set():
            try:
                self.run(_close(items))
            except LocalError:
                # So does a loop that ends.
                if not self._stop.is_set():
                    raise

    def close(self) -> None:
        """End the loop and wait for its thread. What could not be closed in it is raised."""
        self._begin_to_end()
        if not self._inside:
            self._thread.join()
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure

    def end_with_the_program(self, until: float) -> None:
        """End the loop, and wait for its thread until then at most."""
        self._at_exit = True
        self._begin_to_end()
        self._thread.join(max(0.0, until - time.monotonic()))

    def _begin_to_end(self) -> None:
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._stop.set)

    @property
    def _inside(self) -> bool:
        return self._thread is threading.current_thread()

    def _main(self) -> None:
        try:
            with asyncio.Runner() as runner:
                self._loop = runner.get_loop()
                self._stop = asyncio.Event()
                # Only now may another thread use `_loop` and `_stop`; `__init__` waits for this.
                self._ready.set()
                runner.run(self._until_the_end())
        except Exception as error:  # raised again where it is waited for
            # At the end of the program no thread can be started, not even the one that waits for the loop's own threads.
            if not (self._at_exit and isinstance(error, RuntimeError)):
                self._failure = error
        _alive.discard(self)
        self._ready.set()
        # What came while the loop was ending was never begun, and somebody waits for it. Nothing comes after this: a closed
        # loop takes nothing.
        for outcome in self._awaited.copy():
            if not outcome.done():
                outcome.set_exception(_ended())

    async def _until_the_end(self) -> None:
        async with self._held:
            await self._stop.wait()


def _ended() -> LocalError:
    return LocalError("the event loop has ended: the session was closed")


def _settle(outcome: Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        outcome.set_exception(CancelledError())
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


async def _next(items: ClosableItems[T]) -> tuple[T] | None:
    try:
        return (await anext(items),)
    except StopAsyncIteration:
        return None


async def _close(items: ClosableItems[T]) -> None:
    await items.aclose()
