"""A long tool conversation over small windows: summarised as often as it has to be, through five dialects, and undone."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any

import pytest

from midstream.agent.loop import Agent
from midstream.agent.run import RunLimits
from midstream.agent.toolbox import Toolbox
from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.compaction import Compaction
from midstream.client.config import Config, ModelConfig
from midstream.client.session import Session
from midstream.core.blocks import Conversation
from midstream.core.compaction import sent_turns
from midstream.core.errors import ContextTooLong
from midstream.core.events import AgentEvent, CompactionFinished, CompactionStarted, Done, Stopped
from midstream.core.tools import ToolSpec
from midstream.sim.answer import Answer, Call
from midstream.sim.server import Sim
from midstream.store import MemoryStore, Store

KIMI, CLAUDE, MISTRAL = "moonshot/kimi-k2.5", "anthropic/claude-sonnet-4-5", "mistral/mistral-large-latest"
FIVE = (KIMI, CLAUDE, "openai-responses/gpt-5.2", "gemini/gemini-3-pro-preview", MISTRAL)
WINDOW = 32_768
FACT = re.compile(r"FACT-\d+: [^\n.]+")
WRITER = "You write the working memory"


def look(place: str) -> str:
    """Look at a place."""
    return f"At {place} there is " + " ".join([f"shelf-{number} of {place}" for number in range(140)])


Summarise = Callable[[str], Answer]


def with_facts(material: str) -> Answer:
    """A summary as a fair model writes it: the facts it was shown, and little else."""
    return Answer("Facts:\n" + "\n".join(dict.fromkeys(FACT.findall(material))) + "\nOpen tasks: look at more places.")


class Worker:
    """A model that looks at one place for every message, and then says so; asked for a summary, it gives `summarise`."""

    def __init__(self, summarise: Summarise = with_facts) -> None:
        self.summarise = summarise

    def __call__(self, conversation: Conversation, tools: Sequence[ToolSpec], *, model: str, thinks: bool) -> Answer:
        why = "I think about the place." if thinks else ""
        if conversation.system_text.startswith(WRITER):
            return self.summarise(conversation.turns[-1].text)
        last = conversation.turns[-1]
        if last.tool_responses or not tools:
            return Answer("I have looked. " + "All is well there. " * 20, why)
        return Answer("", why, (Call("look", {"place": f"place {len(conversation.turns)}"}),))


class Bench:
    """An agent whose models are doubles with a window."""

    def __init__(
        self,
        model: str = KIMI,
        *,
        window: int | None = WINDOW,
        known: int | None = WINDOW,
        script: Worker | None = None,
        compaction: Compaction | None = Compaction(),  # noqa: B008  (frozen)
        store: Store | None = None,
        conversation: Conversation | None = None,
        windows: dict[str, int] | None = None,
    ) -> None:
        self.script = script or Worker()
        self.sim = Sim(script=self.script, strict="paranoid", window=window, keep=5000)
        self._model, self._compaction, self._conversation = model, compaction, conversation
        sizes = dict.fromkeys(FIVE, known) | (windows or {})
        self._config = Config(models={name: ModelConfig(context=size) for name, size in sizes.items()})
        self.store = store or MemoryStore()
        self._stack = AsyncExitStack()
        self.events: list[AgentEvent] = []

    async def __aenter__(self) -> Bench:
        await self._stack.enter_async_context(self.sim)
        catalog = Catalog(self._config, environ={}, providers=self.sim.providers())
        client = await self._stack.enter_async_context(Client(catalog))
        self.session = Session(
            self._model,
            store=self.store,
            client=client,
            compaction=self._compaction,
            conversation=self._conversation,
            system="You help in a large house.",
        )
        self.agent = Agent(self.session, Toolbox([look]), RunLimits(rounds=None))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    async def say(self, text: str) -> None:
        async for event in self.agent.run(text):
            self.events.append(event)

    async def fill(self, exchanges: int) -> None:
        for number in range(exchanges):
            await self.say(f"Look at place {number}.")

    def summaries(self) -> list[CompactionFinished]:
        return [event for event in self.events if isinstance(event, CompactionFinished)]

    def requests(self, since: int = 0) -> list[str]:
        """What was sent but for the requests for summaries."""
        bodies = [json.dumps(seen.body) for seen in list(self.sim.seen)[since:]]
        return [body for body in bodies if WRITER not in body]


def assert_pairs(bench: Bench) -> None:
    """What models are sent now has every call with its result right behind it."""
    turns = sent_turns(bench.session.conversation.turns).turns
    for number, turn in enumerate(turns):
        if turn.tool_calls:
            assert [each.call_id for each in turns[number + 1].tool_responses] == [each.id for each in turn.tool_calls]
        for response in turn.tool_responses:
            assert response.call_id in {call.id for call in turns[number - 1].tool_calls}


def test_a_400_turn_conversation_over_32k_windows_through_five_dialects() -> None:
    asyncio.run(_400_turns())


async def _400_turns() -> None:
    code = {number: f"FACT-{number}: vault {number} opens with {7919 * (number + 3)}" for number in range(0, 100, 5)}
    keep = "the caretaker is called Ignatius Okonkwo-Bell"
    async with Bench(compaction=Compaction(keep=(keep,))) as bench:
        planted: list[str] = []
        compacted, checked = False, 0
        for number in range(100):
            if number and number % 8 == 0:
                bench.session.switch_model(FIVE[number // 8 % 5])
            if number in code:
                planted.append(code[number])
            before = len(bench.sim.seen)
            await bench.say(f"Look at place {number}. {code.get(number, '')}")
            for body in [json.dumps(seen.body) for seen in list(bench.sim.seen)[before:]]:
                if WRITER in body:
                    compacted = True
                elif compacted:
                    checked += 1
                    assert [fact for fact in planted if fact not in body] == []
                    assert keep in body  # the model that summarises drops it: it stands there all the same
            assert_pairs(bench)
        turns = bench.session.conversation.turns
        said = [turn for turn in turns if turn.compacted is None]
        assert len(said) == 400 and bench.sim.refusals == 0 and not bench.sim.refused
        assert (
            checked > 100 and len(bench.summaries()) >= 3 and all(event.turn is not None for event in bench.summaries())
        )
        wires = {turn.origin.wire for turn in said if turn.origin}
        assert wires == {"openai-chat", "anthropic", "openai-responses", "gemini"}
        assert bench.store.load(bench.session.conversation.id) == bench.session.conversation

        while sent_turns(bench.session.conversation.turns).summary >= 0:
            await bench.session.undo_compaction()
        whole = Conversation(tuple(said), bench.session.conversation.system)
        client = bench.session.client
        for model in FIVE:
            plain = client.encode(model, whole, bench.session.tools).body
            assert bench.session.request(model).body == plain, model


def test_without_compaction_the_same_conversation_is_refused() -> None:
    async def main() -> None:
        async with Bench(compaction=None) as bench:
            with pytest.raises(ContextTooLong):
                await bench.fill(100)
            assert bench.sim.refusals == 1

    asyncio.run(main())


def test_room_is_made_between_the_rounds_of_one_run() -> None:
    asyncio.run(_one_long_run())


async def _one_long_run() -> None:
    class Busy(Worker):
        def __call__(self, conversation: Conversation, tools: Sequence[ToolSpec], **asked: Any) -> Answer:
            if conversation.system_text.startswith(WRITER):
                return self.summarise(conversation.turns[-1].text)
            self.rounds = getattr(self, "rounds", 0) + 1
            if self.rounds > 60:
                return Answer("Done.", "I am done." if asked["thinks"] else "")
            return Answer("", "Another." if asked["thinks"] else "", (Call("look", {"place": f"place {self.rounds}"}),))

    async with Bench(script=Busy()) as bench:
        await bench.say("Look at sixty places. FACT-1: the key is under the mat")
        assert bench.sim.refused == [] and len(bench.summaries()) >= 1
        kinds = [type(event) for event in bench.events]
        first = kinds.index(CompactionStarted)
        assert kinds[first + 1] is CompactionFinished and Done in kinds[:first] and Done in kinds[first:]
        assert isinstance(bench.events[-1], Stopped) and bench.events[-1].reason == "text"
        started = bench.events[first]
        assert isinstance(started, CompactionStarted) and started.reason == "near_limit"
        assert started.window == WINDOW and started.tokens >= 0.85 * WINDOW
        assert_pairs(bench)
        last = bench.requests()[-1]
        assert "FACT-1: the key is under the mat" in last and "word for word:\\nLook at sixty places." in last
        # Kimi's own reasoning stands beside every call that was kept.
        body = list(bench.sim.seen)[-1].body
        calls = [message for message in body["messages"] if message.get("tool_calls")]
        assert calls and all(message["reasoning_content"] == "Another." for message in calls)


def test_a_conversation_that_does_not_fit_the_next_model_is_told_before_and_summarised_by_the_one_it_leaves() -> None:
    asyncio.run(_smaller_window())


async def _smaller_window() -> None:
    async with Bench(CLAUDE, window=None, known=200_000, windows={MISTRAL: WINDOW}) as bench:
        await bench.fill(40)
        assert bench.summaries() == []
        report = bench.session.switch_model(MISTRAL)
        assert report.fits is False
        (told,) = [line for line in report.lines() if line.startswith("compaction: ")]
        assert told.startswith(f"compaction: with your next message, {CLAUDE} first summarises the earlier turns")
        assert bench.summaries() == [] and bench.session.conversation.turns[-1].compacted is None
        before = len(bench.sim.seen)
        await bench.say("Look once more.")
        (started,) = [event for event in bench.events if isinstance(event, CompactionStarted)]
        assert (started.model, started.reason, started.window) == (CLAUDE, "smaller_window", WINDOW)
        paths = [seen.path for seen in list(bench.sim.seen)[before:]]
        assert paths[0].startswith("/anthropic/") and all(path.startswith("/mistral/") for path in paths[1:])
        assert bench.session.context().tokens < 0.5 * WINDOW
        report = bench.session.preview()
        assert report.fits and not report.compaction
        assert [note.code for note in report.notes if note.what == "turn"] == ["compacted"]
        # A change back costs nothing, and nobody is asked twice.
        bench.session.switch_model(CLAUDE)
        await bench.say("And again.")
        assert len(bench.summaries()) == 1


@pytest.mark.parametrize("known", [None, 1_000_000])
def test_a_host_that_refuses_the_conversation_is_asked_once_more(known: int | None) -> None:
    async def main() -> None:
        async with Bench("openai-responses/gpt-5.2", window=6000, known=known) as bench:
            await bench.fill(8)
            assert bench.sim.refusals == len(bench.summaries()) >= 1
            started = [event for event in bench.events if isinstance(event, CompactionStarted)]
            assert {event.reason for event in started} == {"too_long"}
            assert [event for event in bench.events if isinstance(event, Stopped)] == [Stopped("text")] * 8

    # `known` None: nobody knows this model's window but for the table, which says 400,000.
    asyncio.run(main())


def test_a_second_refusal_is_raised() -> None:
    async def main() -> None:
        async with Bench(window=3000, known=None) as bench:
            await bench.say("Look at place 1.")
            bench.sim.window = 50
            with pytest.raises(ContextTooLong):
                await bench.say("Look at place 2.")
            assert bench.session.conversation.turns[-1].speaker in ("human", "system")

    asyncio.run(main())


def test_what_summaries_cost_counts() -> None:
    async def main() -> None:
        async with Bench() as bench:
            await bench.fill(12)
            before = bench.session.costs()
            first = len(bench.session.conversation.turns)
            turn = await bench.session.compact()
            (cost,) = bench.session.costs(first)
            assert cost.model == KIMI and cost.usage == turn.usage and cost.cost and cost.usage.read > 5000
            assert bench.session.costs()[: len(before)] == before
            for number in range(60):
                result = await bench.agent.run(f"Look at place {number}.")
                summaries = [turn for turn in result.turns if turn.compacted is not None]
                if summaries:
                    break
            usages = [turn.usage for turn in result.turns if turn.usage is not None]
            assert len(usages) == 3 and summaries[0].usage in usages
            assert result.usage.total == sum([usage.total for usage in usages]) and result.rounds == 2
            assert result.cost == sum([each.cost or 0.0 for each in bench.session.costs()[-3:]])

    asyncio.run(main())
