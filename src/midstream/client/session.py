"""A conversation with a current model, which may change at any time.

`send` adds what the human says, streams the answer and keeps it; `use` changes only the model and tells, before anything is
sent, what the next one will see. What is stored is never rewritten.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from msgspec.structs import replace

from ..codec import mint_turn_key
from ..core.blocks import Conversation, Media, Text, Turn, Usage, Value, human
from ..core.dialect import MissingReasoning, Options
from ..core.errors import LocalError, UnknownModel
from ..core.events import Done, ErrorEvent, Event
from ..core.handoff import SwitchReport, switch_report
from ..core.ids import ToolFormat, valid_tool_format
from ..core.reduce import reduce
from ..core.tools import ToolSpec
from ..dialects.registry import Resolved
from ..store.protocol import Store
from ..wires.request import Request
from .estimate import estimate_conversation, estimate_text
from .reply import Reply
from .turn import Client


class TurnCost(Value, frozen=True):
    """What one answer used, at the model that made it. `cost` is in dollars, None where no price is known."""

    model: str
    usage: Usage
    cost: float | None = None


class Session:
    """One conversation on its way through any number of models."""

    def __init__(
        self,
        model: str | Sequence[str],
        *,
        store: Store | None = None,
        tools: Sequence[ToolSpec] = (),
        system: str = "",
        conversation: Conversation | None = None,
        options: Options | None = None,
        client: Client | None = None,
    ) -> None:
        self._client = client or Client()
        self._owns_client = client is None
        self._store = store
        self.tools = tuple(tools)
        self.options = options or Options()
        self.conversation = conversation if conversation is not None else Conversation(system=system)
        self._models: tuple[str, ...] = ()
        self._set_models(model)

    @property
    def model(self) -> str:
        """The current model; the first of a fallback chain."""
        return self._models[0]

    @property
    def models(self) -> tuple[str, ...]:
        return self._models

    @property
    def client(self) -> Client:
        return self._client

    @property
    def target(self) -> Resolved:
        return self._client.catalog.resolve(self.model)

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if self._owns_client:
            await self._client.aclose()

    def send(self, *content: str | Text | Media) -> Reply:
        """Say something and stream the answer. With nothing to say, the model goes on from where the conversation is."""
        return Reply(self._turn(content))

    async def add(self, turn: Turn) -> None:
        """Keep a turn: in the store first, if there is one, then here."""
        turn = turn if turn.key else replace(turn, key=mint_turn_key())
        if self._store is not None:
            if not self.conversation.id:
                self.conversation = replace(
                    self.conversation, id=await asyncio.to_thread(self._store.create, self.conversation)
                )
            await asyncio.to_thread(self._store.append, self.conversation.id, turn, len(self.conversation.turns))
        self.conversation = self.conversation.add(turn)

    def use(self, model: str | Sequence[str]) -> SwitchReport:
        """Change the model. The report says what it will see of the conversation; nothing is sent."""
        before = self._models
        self._set_models(model)
        try:
            return self.preview()
        except Exception:  # an unusable model must leave the session with the one it had
            self._models = before
            raise

    def preview(self, model: str | None = None) -> SwitchReport:
        """What `model` (or the current one) would see if asked now."""
        target = self._client.catalog.resolve(model or self.model)
        notes = self.request(model).notes if self.conversation.turns else ()
        report = switch_report(target.name, self.conversation.turns, notes)
        tokens = estimate_conversation(self.conversation) + sum(
            estimate_text(tool.name + tool.description + str(tool.parameters or "")) for tool in self.tools
        )
        return replace(report, tokens=tokens, context=self._client.catalog.context_window(target))

    def request(self, model: str | None = None) -> Request:
        """The exact request the next model would get, without secrets."""
        return self._client.encode(model or self.model, self.conversation, self.tools, self.options)

    @property
    def tool_format(self) -> tuple[ToolFormat, bool]:
        """The tool format in force, and whether it was chosen automatically."""
        manual = self.options.tool_format
        if manual:
            return valid_tool_format(manual), False
        return self.target.dialect.tool_format, True

    def set_tool_format(self, name: str | None) -> ToolFormat:
        """Choose a tool format by hand; `auto` or None leaves it to the model. An unknown name lists the valid ones."""
        chosen = None if name is None or name.strip().lower() == "auto" else valid_tool_format(name)
        self.options = replace(self.options, tool_format=chosen)
        return self.tool_format[0]

    def set_missing_reasoning(self, policy: MissingReasoning) -> None:
        self.options = replace(self.options, missing_reasoning=policy)

    def costs(self) -> list[TurnCost]:
        """Usage and cost of every answer so far, each at the model that made it."""
        costs: list[TurnCost] = []
        for turn in self.conversation.turns:
            if turn.usage is None or turn.origin is None:
                continue
            name = f"{turn.origin.provider}/{turn.origin.model}"
            costs.append(TurnCost(name, turn.usage, self._cost(turn, name)))
        return costs

    def _cost(self, turn: Turn, name: str) -> float | None:
        usage = turn.usage
        assert usage is not None
        if usage.cost is not None:
            return usage.cost
        catalog = self._client.catalog
        try:
            price = catalog.price(catalog.resolve(name))
        except UnknownModel:
            return None
        return None if price is None else price.cost(usage)

    def _set_models(self, model: str | Sequence[str]) -> None:
        models = (model,) if isinstance(model, str) else tuple(model)
        if not models:
            raise LocalError("a session needs at least one model")
        for name in models:
            self._client.catalog.resolve(name)
        self._models = models

    async def _turn(self, content: Sequence[str | Text | Media]) -> AsyncGenerator[list[Event], None]:
        if content:
            await self.add(human(*content, key=mint_turn_key()))
        batches = self._client.batches(
            self._models, self.conversation, tools=self.tools, options=self.options, turn_key=mint_turn_key()
        )
        seen: list[Event] = []
        try:
            async for batch in batches:
                last = batch[-1]
                seen += batch
                if isinstance(last, (Done, ErrorEvent)):
                    seen.clear()
                    await self.add(last.turn)
                yield batch
        finally:
            await batches.aclose()
            if seen:  # the caller left in the middle: what came is kept, marked, and never replayed
                await asyncio.shield(self.add(replace(reduce(seen), failure="aborted")))
