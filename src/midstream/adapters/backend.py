"""What is behind every adapter: midstream's client, for callers who have no place to keep one, and the memory of answers.

A client belongs to one event loop, and other libraries are used from many (`asyncio.run` twice, a thread per worker): there
is one for each. Callers without a loop get a thread with one. Both end with `close` or `aclose`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from ..client.catalog import Catalog
from ..client.client import Client
from ..client.sync import Background
from ..core.blocks import Conversation, Turn
from ..core.dialect import Options
from ..core.errors import MidstreamError, RetriesExhausted
from ..core.events import Done, Event
from ..core.handoff import Note
from ..core.secret import Secret
from ..core.tools import ToolSpec
from ..dialects.registry import Resolved
from ..transport import TransportOptions
from ..wires.request import Request
from .answer_memory import AnswerMemory
from .open_stream import SyncOpenStream

T = TypeVar("T")
Sending: TypeAlias = Callable[[Resolved, Request], None]
_LOG = logging.getLogger("midstream.adapters")
_TOLD = 1000
"""So many different things are logged: some name a caller's own fields and values, of which there is no end."""


def last_attempt(error: MidstreamError) -> MidstreamError:
    """What went wrong in the end: if every attempt failed, what the last one failed with."""
    return error.attempts[-1] if isinstance(error, RetriesExhausted) and error.attempts else error


class Backend:
    """Asks models for answers, and remembers them for the history that comes back.

    `catalog` resolves names and finds keys: by default the user's configuration and the environment. `api_key` is used for
    every host instead.
    """

    def __init__(
        self,
        catalog: Catalog | None = None,
        *,
        api_key: str | Secret | None = None,
        transport: TransportOptions | None = None,
        memory: AnswerMemory | None = None,
    ) -> None:
        self.catalog = catalog or Catalog()
        self.memory = memory or AnswerMemory()
        self._api_key = None if api_key is None else Secret(api_key)
        self._transport = transport
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()
        self._background: Background | None = None
        self._lock = threading.Lock()
        self._told: set[tuple[str, str]] = set()

    def resolve(self, model: str) -> Resolved:
        """The model with its dialect and endpoint; UnknownModel says what is there instead."""
        return self.catalog.resolve(model)

    async def complete(
        self,
        model: str,
        conversation: Conversation,
        tools: Sequence[ToolSpec] = (),
        options: Options | None = None,
        sending: Sending | None = None,
        api_key: Secret | None = None,
        recalled: Conversation | None = None,
    ) -> Turn:
        """The next answer, whole. One that failed is raised as what it failed with.

        `sending` is told what the model is sent; `api_key` is this request's own. `recalled` is what the memory gave, where
        `conversation` was fitted to its model since.
        """
        turn = await self._client().complete(
            model, conversation, tools=tools, options=options, sending=self._telling(sending), api_key=api_key
        )
        turn.raise_for_failure()
        self.memory.add(recalled or conversation, turn)
        return turn

    async def batches(
        self,
        model: str,
        conversation: Conversation,
        tools: Sequence[ToolSpec] = (),
        options: Options | None = None,
        sending: Sending | None = None,
        api_key: Secret | None = None,
        recalled: Conversation | None = None,
    ) -> AsyncGenerator[list[Event], None]:
        """The next answer as events, in the batches in which they arrive."""
        client = self._client()
        told = self._telling(sending)
        async with aclosing(
            client.batches(model, conversation, tools=tools, options=options, sending=told, api_key=api_key)
        ) as batches:
            async for batch in batches:
                last = batch[-1]
                if type(last) is Done:
                    # Before the reader learns that it is whole: it may come back at once.
                    self.memory.add(recalled or conversation, last.turn)
                yield batch

    def log_dropped(self, target: Resolved, notes: Iterable[Note]) -> None:
        """Log which of the caller's options the model is not sent, each once: other libraries have no place for notes.

        Not a Python warning: one set of options goes to many models, and a program whose warnings are errors would fail
        at a switch.
        """
        for note in notes:
            found = (target.name, note.why)
            if note.action != "dropped" or note.what != "option" or found in self._told or len(self._told) >= _TOLD:
                continue
            self._told.add(found)
            _LOG.warning("not sent to %s: %s", *found)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, for a caller without an event loop."""
        return self._thread().run(work)

    def iterate(self, items: AsyncGenerator[T, None]) -> SyncOpenStream[T]:
        """The same items in a plain `for`, for a caller without an event loop."""
        return SyncOpenStream(items, self._thread())

    def close(self) -> None:
        """Close the connections of the thread, and end it."""
        with self._lock:
            background, self._background = self._background, None
        if background is not None:
            try:
                background.run(self.aclose())
            finally:
                background.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    def _telling(self, sending: Sending | None) -> Sending:
        def told(target: Resolved, request: Request) -> None:
            self.log_dropped(target, request.notes)
            if sending is not None:
                sending(target, request)

        return told

    def _client(self) -> Client:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            # Histories are read anew from the other library's messages each time: there is nothing to go on with.
            client = Client(self.catalog, api_key=self._api_key, transport=self._transport, remember=False)
            self._clients[loop] = client
        return client

    def _thread(self) -> Background:
        with self._lock:
            if self._background is None:
                self._background = Background()
            return self._background
