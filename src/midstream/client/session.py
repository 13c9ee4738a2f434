"""A conversation with a current model, which may change at any time.

`send` adds what the human says, streams the answer and keeps it. `switch_model` changes only the model and reports, before
anything is sent, what the next one will see. What is stored is never rewritten.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar, overload

from msgspec.structs import replace

from ..codec import mint_turn_key
from ..core.blocks import Compacted, Conversation, Media, Origin, Text, Turn, Usage, Value, human
from ..core.compaction import SentTurns, sent_turns
from ..core.dialect import MissingReasoning, Options
from ..core.errors import ContextTooLong, LocalError, MidstreamError, StoreError, UnknownModel
from ..core.events import (
    CompactionEvent,
    CompactionFinished,
    CompactionStarted,
    Done,
    ErrorEvent,
    ErrorInfo,
    Event,
    Start,
)
from ..core.handoff import Note, SwitchReport, switch_report
from ..core.ids import ToolFormat, chosen_tool_format
from ..core.modules import late_module
from ..core.secret import Secret, hide
from ..core.tools import ToolSpec
from ..dialects.registry import Resolved
from ..store.protocol import Entry, Store
from ..wires.native_path import choose_dialect
from ..wires.request import Request
from ..wires.tool_format import ToolFormatChoice, resolve_tool_format
from .access import Access, home_of
from .attempts import Tries
from .cancellation import Turnstile, shield
from .client import Client, model_names
from .compaction import Compaction, ContextUse, Plan, Summary, make_plan
from .prices import Price, price_of
from .reply import ParsedReply, Reply, aborted
from .tokens import estimate_conversation, estimate_tool, estimate_turn

if TYPE_CHECKING:
    from . import answer_type
    from .answer_type import AnswerType
else:
    # Most answers are plain text.
    answer_type = late_module(".answer_type", globals())

T = TypeVar("T")
_NOT_YET = "a call of the last answer has no result yet; only if none comes is an error sent instead"


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
    the user's configuration and the environment (`client.catalog`). `api_key` and `base_url`, here or of the `client`, are for the
    provider of the first model named here: no other gets them, whatever the session falls back on, switches to or summarises
    with. With a `store`, every turn is written to it before it
    counts as said. With a `compaction`, earlier turns are summarised when the conversation nears the model's window. Close the session, or use `async with`.
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
        compaction: Compaction | None = None,
        api_key: str | Secret | None = None,
        base_url: str | None = None,
    ) -> None:
        access = Access.given(hide(api_key), base_url, is_shared=client is None)
        del api_key  # the locals of a frame may be shown
        self._client = client or Client()
        # A client that was handed in may serve others and is not closed here.
        self._owns_client = client is None
        self._store = store
        self.tools = tuple(tools)
        self.options = options or Options()
        self.compaction = compaction
        self.conversation = conversation if conversation is not None else Conversation(system=system)
        self._models = self._checked(model)
        access = access or self._client.access
        # For good: the first model is another one after a switch.
        self._access = (
            None if access is None else replace(access, home=home_of(self._client.catalog.resolve(self.model)))
        )
        self._turnstile = Turnstile("the session is already answering: read that reply to its end, or close it, first")
        self._adding = asyncio.Lock()
        self._larger = ""  # the model before the current one, if its window was larger
        self._gave_up: tuple[str, int] | None = None  # a conversation that could not be compacted, and its tokens then

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
        return self._client.target(self.model, self._access)

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
        answer: AnswerType[Any] = answer_type.AnswerType.of(schema)
        return ParsedReply(self.batches(*content, schema=answer), answer)

    def batches(
        self,
        *content: str | Text | Media,
        schema: AnswerType[Any] | None = None,
        make_room: bool = True,
        tries: Tries | None = None,
    ) -> AsyncGenerator[list[Event], None]:
        """The events of `send` in the batches in which they arrived: lower overhead per event.

        Without `make_room`, nothing is summarised now: the caller has called `make_room` itself, to see its events. A caller who
        may request the answer once more counts its `tries` with ours.
        """
        return self._turnstile.through(self._turn(content, schema, make_room, tries))

    async def add(self, turn: Turn) -> None:
        """Add a turn: to the store first, if there is one, then here. If the caller is cancelled, both still agree."""
        # Ids of calls are made from the turn's key, so every turn has one before it counts.
        turn = turn if turn.key else replace(turn, key=mint_turn_key())
        if self._store is None:
            self.conversation = self.conversation.add(turn)
        else:
            # A cancellation between the store and the value here would leave the two different for good.
            await shield(self._append(self._store, turn))

    async def _append(self, store: Store, turn: Turn) -> None:
        async with self._adding:
            # Created with the first turn that is said: a session that is opened and closed leaves no trace.
            if not self.conversation.id:
                created = await asyncio.to_thread(store.create, self.conversation)
                self.conversation = replace(self.conversation, id=created)
            # The length that we know: if another process has added to
            # the conversation, this raises instead of mixing the two.
            await asyncio.to_thread(store.append, self.conversation.id, turn, len(self.conversation.turns))
            self.conversation = self.conversation.add(turn)

    async def compact(self, *keep: str, model: str | None = None) -> Turn:
        """Summarise the earlier turns, so that models are sent the summary in their place; the turn that holds it.

        The last turns stay as they are, what is in `keep` stands in the summary word for word. `model` writes it (default:
        see Compaction). The store keeps everything, and `undo_compaction` takes the summary back. Raises LocalError if there
        is nothing to summarise, CompactionFailed or what the host said if there is no usable summary; then nothing changed.
        """
        events = [event async for event in self.compacting(*keep, model=model)]
        finished = events[-1]
        assert isinstance(finished, CompactionFinished)
        if finished.turn is None:
            assert finished.error is not None
            raise finished.error.to_exception()
        return finished.turn

    def compacting(self, *keep: str, model: str | None = None) -> AsyncGenerator[CompactionEvent, None]:
        """`compact` as events: the second says how it ended, and a failure is not raised."""
        return self._turnstile.through(self._asked_to_compact(keep, model))

    def make_room(
        self, *content: str | Text | Media, refused: ContextTooLong | None = None
    ) -> AsyncGenerator[CompactionEvent, None]:
        """Summarise earlier turns if the session's `compaction` says so: if this content brings the conversation near the
        window of the model, or if the host has `refused` the conversation. No events if there is nothing to do."""
        return self._turnstile.through(self._make_room(content, refused is not None))

    async def undo_compaction(self) -> Turn:
        """Take back the last summary that is in force: models are sent the turns it stood for again. The turn that says so."""
        sent = sent_turns(self.conversation.turns)
        if sent.summary < 0:
            raise LocalError("nothing to undo: no turns of this conversation are summarised")
        self._check_no_open_calls()
        await self.add(Turn("system", compacted=Compacted("undo")))
        return self.conversation.turns[-1]

    def context(self, *content: str | Text | Media) -> ContextUse:
        """How much of the current model's window the conversation takes, with this content: by the host's own count of the
        last request, and an estimate of what came since."""
        target = self.target
        reader = Origin(target.dialect.provider, target.dialect.wire, target.model)
        window = self._client.catalog.context_window(target)
        sent = sent_turns(self.conversation.turns)
        extra = estimate_turn(human(*content)) if content else 0
        # From the end, to the last answer of this very model: its host has counted everything up to there, exactly.
        for number in range(len(sent.turns) - 1, -1, -1):
            turn, place = sent.turns[number], sent.places[number]
            if turn.compacted is not None:
                break  # what stands before the summary are instructions
            # An answer to the conversation in another form, with a summary or without, says nothing of this one.
            if (counted := _counted(turn, reader)) and sent.was_sent_so(place):
                since = sum([estimate_turn(later, reader) for later in sent.turns[number + 1 :]]) + extra
                return ContextUse(counted + since, window, exact=not since)
        if (left := self._left_by_summary(sent, reader)) is not None:
            return ContextUse(left + extra, window)
        return ContextUse(self._estimate(reader) + extra, window)

    def _left_by_summary(self, sent: SentTurns, reader: Origin) -> int | None:
        """What the summary in force left of the host's own count, and an estimate of what came since; None if this model's host
        had counted nothing then."""
        turns = self.conversation.turns
        mark = turns[sent.summary].compacted if sent.summary >= 0 else None
        answer = next(
            (turn for turn in reversed(turns[: max(0, sent.summary)]) if turn.speaker == "ai" and not turn.failure),
            None,
        )
        if mark is None or not mark.tokens_after or answer is None or not _counted(answer, reader):
            return None
        later = [turn for turn, place in zip(sent.turns, sent.places, strict=True) if place > sent.summary]
        return mark.tokens_after + sum([estimate_turn(turn, reader) for turn in later])

    def _estimate(self, reader: Origin | None = None) -> int:
        return estimate_conversation(self.conversation, reader) + sum([estimate_tool(tool) for tool in self.tools])

    def switch_model(self, model: str | Sequence[str]) -> SwitchReport:
        """Change the model. The report says what it will see of the conversation; nothing is sent.

        If the model cannot be used, this raises, and the session keeps the one it had.
        """
        models = self._checked(model)
        # Before anything is changed: a model that cannot be resolved or encoded for leaves the session as it was.
        report = self.preview(models[0])
        self._larger = self.model if self._has_larger_window(models[0]) else ""
        self._models = models
        return report

    def _has_larger_window(self, other: str) -> bool:
        """Whether the current model can read more than another."""
        catalog = self._client.catalog
        ours, theirs = catalog.context_window(self.target), catalog.context_window(catalog.resolve(other))
        return ours is not None and theirs is not None and ours > theirs

    def use(self, model: str | Sequence[str]) -> SwitchReport:
        """Short for `switch_model`."""
        return self.switch_model(model)

    def preview(self, model: str | None = None) -> SwitchReport:
        """What `model` (or the current one) would see if asked now."""
        catalog = self._client.catalog
        target = catalog.resolve(model or self.model)
        notes = self.request(model).notes if self.conversation.turns else ()
        sent = sent_turns(self.conversation.turns)
        if self._has_open_calls:  # an agent is at work on them: the next request has their results
            last = sent.places[-1]
            notes = tuple([replace(note, why=_NOT_YET) if _is_open(note, last) else note for note in notes])
        report = switch_report(target.name, sent.turns, notes, sent.places)
        tokens = self._estimate()
        window = catalog.context_window(target)
        return replace(
            report,
            tokens=tokens,
            context=window,
            compaction=self._announced(target, tokens, window),
            tool_format=self._unsuited_format(target),
        )

    def _unsuited_format(self, target: Resolved) -> str:
        """What becomes of a tool format set by hand at a model whose own is another."""
        asked = self.options.tool_format
        if asked is None:
            return ""
        dialect = choose_dialect(target.dialect, self.conversation, self.tools, self.options)
        choice, own = resolve_tool_format(dialect, asked), resolve_tool_format(dialect)
        if choice.note is not None:
            return choice.why
        if choice.name == own.name or choice.name == "native":
            return ""
        return f"{choice.name}, set by hand, stays; the own one of {target.name} is {own.name} (set_tool_format('auto') chooses it)"

    def _announced(self, target: Resolved, tokens: int, window: int | None) -> str:
        """What will be done before this model is sent the conversation, if it does not fit."""
        policy = self.compaction
        if policy is None or window is None or tokens < policy.at * window:
            return ""
        leaves_larger = (
            target.name != self.target.name and self._has_larger_window(target.name) and self._reads_more(self.model)
        )
        writer = policy.model or (self.model if leaves_larger else target.name)
        return f"with your next message, {writer} first summarises the earlier turns; the last ones stay as they are"

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
        self.options = replace(self.options, tool_format=chosen_tool_format(name))
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
            # The host's own figure, then a price, then nothing: an unknown cost is never shown as zero.
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
        # A new id: what is stored is never shortened, so the rewound conversation is another one.
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
        self,
        content: Sequence[str | Text | Media],
        answer: AnswerType[Any] | None,
        make_room: bool,
        tries: Tries | None = None,
    ) -> AsyncGenerator[list[Event], None]:
        said = [part for part in content if part not in ("", Text(""))]
        # Before the message is added, so that the summary does not stand between the question and its answer.
        if make_room:
            await _drain(self._make_room(said, False))
        if said:
            await self.add(human(*said, key=mint_turn_key()))
        started, held = False, list[Event]()
        try:
            async with aclosing(self._answer(answer, tries)) as batches:
                async for batch in batches:
                    # Held back: if room can be made, the caller never hears of this refusal.
                    if make_room and is_refused_as_too_long(batch[-1]):
                        held = batch
                        break
                    started = True
                    yield batch
            if not held:
                return
        except ContextTooLong:
            if not make_room or not await _drain(self._make_room((), True)):
                raise
        else:
            if not await _drain(self._make_room((), True)):
                yield held
                return
        # Once more and no further: a host that still refuses it is believed.
        async with aclosing(self._answer(answer)) as batches:
            async for batch in batches:
                if started and type(batch[0]) is Start:
                    del batch[0]  # a reply has one
                if batch:
                    yield batch

    async def _answer(
        self, answer: AnswerType[Any] | None, tries: Tries | None = None
    ) -> AsyncGenerator[list[Event], None]:
        """Ask for the next answer and keep it; one that does not follow its schema is asked for once more."""
        asked = self.conversation
        options = self.options if answer is None else replace(self.options, schema=answer.schema)
        begun = False
        while True:
            key = mint_turn_key()
            batches = self._client.batches(
                self._models, asked, tools=self.tools, options=options, turn_key=key, access=self._access, tries=tries
            )
            # Now, not at the end: the model may be switched while the answer is left.
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
                # The caller closed the reply in the middle. What was shown
                # stays in the history, marked, so that people find it again.
                left = aborted(seen)
                if left.blocks:  # an answer that was left before its first block has nothing to keep
                    await self.add(replace(left, origin=origin))
            if answer is None or begun or not isinstance(last, ErrorEvent) or not answer.asks_again(last):
                return
            begun, tries = True, None
            # For one request: what is kept is an answer that failed, which no later request holds, and the one that comes now.
            asked = self.conversation.add(*answer.reproach(last.turn, last.to_exception()))

    async def _asked_to_compact(self, keep: Sequence[str], model: str | None) -> AsyncGenerator[CompactionEvent, None]:
        self._check_no_open_calls()
        if model is not None:
            self._client.catalog.resolve(model)
        use = self.context()
        recent = (self.compaction or Compaction()).recent
        plan = make_plan(self.conversation, sent_turns(self.conversation.turns), use, recent, self._origin())
        if plan is None:
            raise LocalError("nothing to summarise: the conversation has only its last turns, which stay as they are")
        async for event in self._compact("asked", plan, use, keep, (model,) if model is not None else self._writers()):
            yield event

    async def _make_room(
        self, content: Sequence[str | Text | Media], refused: bool
    ) -> AsyncGenerator[CompactionEvent, None]:
        policy = self.compaction
        # Between a call and its result nothing can be cut.
        if policy is None or self._has_open_calls:
            return
        use = self.context(*content)
        if not refused and not self._is_due(policy, use):
            return
        plan = make_plan(self.conversation, sent_turns(self.conversation.turns), use, policy.recent, self._origin())
        if plan is None:
            return
        reason = "too_long" if refused else "smaller_window" if self._reads_more(self._larger) else "near_limit"
        async for event in self._compact(reason, plan, use, (), self._writers()):
            yield event

    def _is_due(self, policy: Compaction, use: ContextUse) -> bool:
        if use.part is None or use.part < policy.at:
            return False
        sent = sent_turns(self.conversation.turns)
        mark = self.conversation.turns[sent.summary].compacted if sent.summary >= 0 else None
        if mark is not None and not use.grew(mark.tokens_after):
            return False  # the last summary did not help: neither would another
        return self._gave_up is None or self._gave_up[0] != self._first_key or use.grew(self._gave_up[1])

    @property
    def _first_key(self) -> str:
        """What tells one conversation from another, and stays when it is rewound or forked."""
        turns = self.conversation.turns
        return turns[0].key if turns else ""

    def _reads_more(self, model: str) -> bool:
        """Whether a model that was left for one with a smaller window is part of this conversation: it may be the model of
        another one, which has no business with this one's words."""
        if not model:
            return False
        target = self._client.catalog.resolve(model)
        who = (target.dialect.provider, target.model)
        return any(
            turn.origin is not None and (turn.origin.provider, turn.origin.model) == who
            for turn in self.conversation.turns
        )

    def _writers(self) -> tuple[str, ...]:
        """Who may write a summary, in the order in which they are asked."""
        chosen = self.compaction.model if self.compaction is not None else ""
        # The model that was left may still read all of the conversation; the current one is the last resort.
        larger = self._larger if self._reads_more(self._larger) else ""
        return tuple(dict.fromkeys([chosen or larger or self.model, self.model]))

    async def _compact(
        self, reason: str, plan: Plan, use: ContextUse, keep: Sequence[str], writers: Sequence[str]
    ) -> AsyncGenerator[CompactionEvent, None]:
        """Have the plan's turns summarised by the first of the models that can, and add the summary."""
        always = self.compaction.keep if self.compaction is not None else ()
        for number, model in enumerate(writers, 1):
            yield CompactionStarted(model, reason, plan.until, use.tokens, use.window)
            summary = Summary(self._client, model, plan, (*always, *keep), self._access)
            try:
                turn = await summary.write(reason, use, self._estimate(self._origin()))
            except MidstreamError as error:
                # Failed, but paid for: the costs of a session must add up.
                if summary.usage is not None:
                    failure = Compacted("failure", reason=error.kind, tokens_before=use.tokens, tokens_after=use.tokens)
                    await self.add(Turn("system", origin=summary.origin, usage=summary.usage, compacted=failure))
                # Not tried again at once with the next message; see `_is_due`.
                self._gave_up = (self._first_key, use.tokens)
                if number == len(writers):
                    yield CompactionFinished(error=replace(ErrorInfo.of(error), message=str(error)))
                continue
            await self.add(turn)
            self._gave_up, self._larger = None, ""
            yield CompactionFinished(self.conversation.turns[-1])
            return

    @property
    def _has_open_calls(self) -> bool:
        turns = sent_turns(self.conversation.turns).turns
        return bool(turns) and turns[-1].speaker == "ai" and bool(turns[-1].tool_calls) and not turns[-1].failure

    def _check_no_open_calls(self) -> None:
        if self._has_open_calls:
            raise LocalError("the last answer's tool calls have no results yet: add them first")

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


def _is_open(note: Note, last: int) -> bool:
    return note.code == "unanswered_call" and note.turn == last


def is_refused_as_too_long(event: Event) -> bool:
    """Whether an answer ended before its first block because the conversation does not fit the model's window."""
    return isinstance(event, ErrorEvent) and event.error.kind == ContextTooLong.kind and not event.turn.blocks


async def _drain(events: AsyncGenerator[CompactionEvent, None]) -> bool:
    """Whether earlier turns were summarised, once it is done."""
    done = False
    async with aclosing(events):
        async for event in events:
            done = isinstance(event, CompactionFinished) and event.turn is not None
    return done


def _counted(turn: Turn, reader: Origin) -> int:
    """How many tokens the host of this model counted in a request and its answer; 0 if it was another, or said nothing."""
    if turn.usage is None or not turn.usage.read or turn.origin != reader or turn.failure:
        return 0
    return turn.usage.total
