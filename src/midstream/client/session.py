"""A conversation with a current model, which may change at any time.

`send` adds what the human says, streams the answer and keeps it. `switch_model` changes only the model and reports, before
anything is sent, what the next one will see. What is stored is never rewritten.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, TypeVar, overload

from msgspec.structs import replace

from ..codec import mint_turn_key
from ..core.blocks import Conversation, Media, Origin, Text, Turn, Usage, Value, human
from ..core.dialect import MissingReasoning, Options
from ..core.errors import MidstreamError, StoreError, UnknownModel
from ..core.events import Done, ErrorEvent, ErrorInfo, Event, Start
from ..core.handoff import SwitchReport, switch_report
from ..core.ids import ToolFormat, valid_tool_format
from ..core.tools import ToolSpec
from ..dialects.registry import Resolved
from ..store.protocol import Entry, Store
from ..wires.native_path import choose_dialect
from ..wires.request import Request
from ..wires.tool_format import ToolFormatChoice, resolve_tool_format
from .answer_type import AnswerType
from .cancellation import Turnstile, shield
from .client import Client, model_names
from .reply import ParsedReply, Reply, aborted
from .tokens import Price, estimate_conversation, estimate_tool, price_of

T = TypeVar("T")


class TurnCost(Value, frozen=True):
    """What one answer used, at the model that made it. `cost` is in dollars, None if no price is known; `source` says where
    the figure comes from."""

    model: str
    usage: Usage
    cost: float | None = None
    source: str = "no price is known"


def total_cost(costs: Iterable[TurnCost]) -> float | None:
    """The sum of all known costs; None if none is known."""
    known = [each.cost for each in costs if each.cost is not None]
    return sum(known) if known else None


class Session:
    """One conversation with any number of models, one after another.

    `model` is a name such as `moonshot/kimi-k2.5`, or several to fall back on in order. Names, addresses and keys come from
    the user's configuration and the environment (`client.catalog`). With a `store`, every turn is written to it before it
    counts as said. Close the session, or use `async with`.
    """

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
        self._models = self._checked(model)
        self._turnstile = Turnstile("the session is already answering: read that reply to its end, or close it, first")
        self._adding = asyncio.Lock()

    @property
    def model(self) -> str:
        """The current model; the first of a fallback chain."""
        return self._models[0]

    @property
    def models(self) -> tuple[str, ...]:
        """The current model and those to fall back on."""
        return self._models

    @property
    def client(self) -> Client:
        return self._client

    @property
    def target(self) -> Resolved:
        """The current model with its dialect and endpoint."""
        return self._client.catalog.resolve(self.model)

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._turnstile.clear()
        if self._owns_client:
            await self._client.aclose()

    @overload
    def send(self, *content: str | Text | Media) -> Reply: ...
    @overload
    def send(self, *content: str | Text | Media, schema: type[T] | AnswerType[T]) -> ParsedReply[T]: ...
    @overload
    def send(self, *content: str | Text | Media, schema: dict[str, Any]) -> ParsedReply[Any]: ...
    def send(self, *content: str | Text | Media, schema: Any = None) -> Reply:
        """Say something and stream the answer. With no content (or ""), the model continues from where the conversation is.

        With a `schema`, the answer is JSON that follows it, and `await reply.value()` gives it as a value: a msgspec Struct,
        a dataclass, a TypedDict or a pydantic model, or a JSON schema as a dict.

        Nothing happens until the Reply is awaited or iterated. One answer at a time: what came of an earlier reply that was
        left in the middle is kept first.
        """
        if schema is None:
            return Reply(self.batches(*content))
        answer: AnswerType[Any] = AnswerType.of(schema)
        return ParsedReply(self.batches(*content, schema=answer), answer)

    def batches(
        self, *content: str | Text | Media, schema: AnswerType[Any] | None = None
    ) -> AsyncGenerator[list[Event], None]:
        """The events of `send` in the batches in which they arrived: lower overhead per event."""
        return self._turnstile.through(self._turn(content, schema))

    async def add(self, turn: Turn) -> None:
        """Add a turn: to the store first, if there is one, then here. If the caller is cancelled, both still agree."""
        turn = turn if turn.key else replace(turn, key=mint_turn_key())
        if self._store is None:
            self.conversation = self.conversation.add(turn)
        else:
            await shield(self._append(self._store, turn))

    async def _append(self, store: Store, turn: Turn) -> None:
        async with self._adding:
            if not self.conversation.id:
                created = await asyncio.to_thread(store.create, self.conversation)
                self.conversation = replace(self.conversation, id=created)
            await asyncio.to_thread(store.append, self.conversation.id, turn, len(self.conversation.turns))
            self.conversation = self.conversation.add(turn)

    def switch_model(self, model: str | Sequence[str]) -> SwitchReport:
        """Change the model. The report says what it will see of the conversation; nothing is sent.

        If the model cannot be used, this raises, and the session keeps the one it had.
        """
        models = self._checked(model)
        report = self.preview(models[0])
        self._models = models
        return report

    def use(self, model: str | Sequence[str]) -> SwitchReport:
        """Short for `switch_model`."""
        return self.switch_model(model)

    def preview(self, model: str | None = None) -> SwitchReport:
        """What `model` (or the current one) would see if asked now."""
        target = self._client.catalog.resolve(model or self.model)
        notes = self.request(model).notes if self.conversation.turns else ()
        report = switch_report(target.name, self.conversation.turns, notes)
        tokens = estimate_conversation(self.conversation) + sum(estimate_tool(tool) for tool in self.tools)
        return replace(report, tokens=tokens, context=self._client.catalog.context_window(target))

    def request(self, model: str | None = None) -> Request:
        """The exact request the next model would get, without secrets."""
        return self._client.encode(model or self.model, self.conversation, self.tools, self.options)

    @property
    def tool_format(self) -> tuple[ToolFormat, bool]:
        """The tool format in use, and whether it was chosen automatically."""
        choice = self.tool_format_choice
        return choice.name, choice.automatic

    @property
    def tool_format_choice(self) -> ToolFormatChoice:
        """The tool format in use, and why: the model's own, or the one set by hand as far as the model's wire can speak it."""
        dialect = choose_dialect(self.target.dialect, self.conversation, self.tools, self.options)
        return resolve_tool_format(dialect, self.options.tool_format)

    def set_tool_format(self, name: str | None) -> ToolFormat:
        """Choose a tool format by hand; `auto` or None chooses the model's own. UnknownToolFormat lists the valid names.

        Returns the format in use: another than the one asked for where the model's wire cannot speak that
        (`tool_format_choice.note` says why).
        """
        chosen = None if name is None or name.strip().lower() == "auto" else valid_tool_format(name)
        self.options = replace(self.options, tool_format=chosen)
        return self.tool_format[0]

    def set_missing_reasoning(self, policy: MissingReasoning) -> None:
        """What to do where the next model requires reasoning that the history lacks: see `Options.missing_reasoning`."""
        self.options = replace(self.options, missing_reasoning=policy)

    def costs(self, since: int = 0) -> list[TurnCost]:
        """Usage and cost of every answer from the turn `since` on, each at the model that made it."""
        return self._costs(self.conversation.turns[since:])

    def _costs(self, turns: Iterable[Turn]) -> list[TurnCost]:
        costs: list[TurnCost] = []
        for turn in turns:
            if turn.usage is None or turn.origin is None:
                continue
            name = turn.origin.name
            price = self._price(name)
            if turn.usage.cost is not None:
                costs.append(TurnCost(name, turn.usage, turn.usage.cost, "reported by the host"))
            elif price is not None:
                costs.append(TurnCost(name, turn.usage, price.cost(turn.usage), price.source))
            else:
                costs.append(TurnCost(name, turn.usage))
        return costs

    def spent(self) -> float | None:
        """Dollars that the conversation has cost so far, with the answers that were undone; None if no price is known."""
        known, undone = total_cost(self.costs()), self.conversation.undone_cost
        return undone if known is None else known + (undone or 0.0)

    def carry_costs(self, successor: Conversation) -> Conversation:
        """The conversation that is to replace this session's, so that what was spent stays the same: `undone_cost` is the
        part that its own turns do not account for."""
        spent, own = self.spent(), total_cost(self._costs(successor.turns))
        # Rounded, or differences of floats would leave a trace of dollars that nobody paid.
        return replace(successor, undone_cost=None if spent is None else max(0.0, round(spent - (own or 0.0), 12)))

    async def rewind(self, length: int) -> None:
        """Continue from after the first `length` turns. With a store this is a copy: the whole conversation stays there under
        the id it had. What the turns that are left out cost remains spent."""
        before = self.conversation
        kept = self.carry_costs(replace(before, turns=before.turns[:length], id=""))
        if self._store is not None and before.id:
            kept = await shield(asyncio.to_thread(_copied, self._store, kept, before.id))
        self.conversation = kept

    def _price(self, name: str) -> Price | None:
        catalog = self._client.catalog
        try:
            return catalog.price(catalog.resolve(name))
        except UnknownModel:  # not of this program's providers any more; the doubles, where none is running
            return price_of(*name.split("/", 1)) if "/" in name else None

    def _checked(self, model: str | Sequence[str]) -> tuple[str, ...]:
        models = model_names(model)
        for name in models:
            self._client.catalog.resolve(name)
        return models

    async def _turn(
        self, content: Sequence[str | Text | Media], answer: AnswerType[Any] | None
    ) -> AsyncGenerator[list[Event], None]:
        said = [part for part in content if part not in ("", Text(""))]
        if said:
            await self.add(human(*said, key=mint_turn_key()))
        asked = self.conversation
        options = self.options if answer is None else replace(self.options, schema=answer.schema)
        begun = False
        while True:
            key = mint_turn_key()
            batches = self._client.batches(self._models, asked, tools=self.tools, options=options, turn_key=key)
            origin = self._origin()
            seen: list[Event] = []
            last: Event | None = None
            try:
                async for batch in batches:
                    last = batch[-1]
                    if isinstance(last, (Done, ErrorEvent)):
                        seen.clear()
                        last = batch[-1] = await self._kept(last if answer is None else answer.checked(last))
                    else:
                        seen += batch
                    yield batch
            except MidstreamError as error:
                if not begun:
                    raise
                info = ErrorInfo.of(error)  # the reply has begun, so nothing is raised any more
                yield [Start(key), ErrorEvent(info, Turn("ai", key=key, failure=info.kind))]
                return
            finally:
                await batches.aclose()
                left = aborted(seen)
                if left.blocks:  # an answer that was left before its first block has nothing to keep
                    await self.add(replace(left, origin=origin))
            if answer is None or begun or not isinstance(last, ErrorEvent) or not answer.asks_again(last):
                return
            begun = True
            asked = self._reproached(last, answer)

    def _reproached(self, failed: ErrorEvent, answer: AnswerType[Any]) -> Conversation:
        """The conversation with an answer that does not follow its schema, and with what is wrong with it: for one request. What
        is kept is an answer that failed, which no later request holds, and the one that comes now."""
        turns = self.conversation.turns
        if turns and turns[-1].key == failed.turn.key:
            turns = turns[:-1]
        return replace(self.conversation, turns=(*turns, *answer.reproach(failed.turn, failed.to_exception())))

    def _origin(self) -> Origin | None:
        """Who is about to answer, if that is certain: an answer that is left early does not get to say it."""
        if len(self._models) > 1:
            return None
        target = self.target
        return Origin(target.dialect.provider, target.dialect.wire, target.model)

    async def _kept(self, last: Done | ErrorEvent) -> Done | ErrorEvent:
        """The terminal event, once its turn is stored. A reply that has started never raises, so a store that fails is
        reported by the event, with the turn, and the session continues without it."""
        try:
            await self.add(last.turn)
        except StoreError as error:
            info = replace(ErrorInfo.of(error), message=f"the answer could not be stored: {error}")
            return ErrorEvent(info, replace(last.turn, failure=info.kind))
        return last


def _copied(store: Store, kept: Conversation, parent: str) -> Conversation:
    """The conversation as a new one in the store, forked from its parent with the parent's settings."""
    entry = Entry(kept, store.entry(parent).meta, parent=parent, forked_at=len(kept.turns))
    return replace(kept, id=store.add(entry))
