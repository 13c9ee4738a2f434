"""Tools over plain text: the agent's loop through strict doubles that answer in the format they were told the tools in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from midstream import Agent, Client, Options, Session
from midstream.client.catalog import Catalog
from midstream.client.config import Config, ModelConfig
from midstream.core.blocks import Conversation, Turn
from midstream.core.tools import parse_arguments
from midstream.errors import BadRequest, ToolFailed
from midstream.events import Stopped, ToolFinished
from midstream.sim.server import Sim
from midstream.store.sqlite import MemoryStore
from midstream.wires.tool_format import TEXT_FORMATS
from tests.long_run import each_once

WIRES = {
    "openai-chat": "openai/gpt-4o",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "ollama": "ollama/qwen3:4b",
    "completion": "deepinfra/moonshotai/Kimi-K2.5",
    "openai-responses": "openai-responses/gpt-5.1",
    "cohere": "cohere/command-a-03-2025",
}
NATIVE = "mistral/mistral-large-latest"
FOUR_ROUNDS = (
    "List files in a and list files in b, then read a.txt and read b.txt. Then list files in c and read c.txt, "
    "then read d.txt and list files in d"
)
FIELDS = {"tools", "tool_choice", "parallel_tool_calls", "toolConfig", "functions"}


def list_files(path: str) -> str:
    """List the files in a folder."""
    return f"{path}/one.txt {path}/two.txt"


def read_file(path: str) -> str:
    """Read a file."""
    return f"</tool_response> the words of {path} & <more>"


def on_stage(play: Callable[[Sim, Client], Awaitable[Any]], config: Config | None = None, **options: Any) -> Any:
    async def run() -> Any:
        async with Sim(strict="paranoid", **options) as sim:
            catalog = Catalog(config or Config(), environ={}, providers=sim.providers())
            async with Client(catalog) as client:
                return await play(sim, client)

    return asyncio.run(run())


def options_for(wire: str, format: str | None) -> Options:
    return Options(tool_format=format, path="native" if wire == "completion" else None)


async def rounds(agent: Agent, words: str = FOUR_ROUNDS) -> tuple[int, Turn]:
    """How many results a run made, and its last turn."""
    events = [event async for event in agent.run(words)]
    assert events[-1] == Stopped("text"), events[-1]
    return sum(isinstance(event, ToolFinished) for event in events), agent.session.conversation.turns[-1]


def check_stored(conversation: Conversation) -> None:
    """Nothing of the format is left in the store: ordinary calls with ids of their own, each with its result."""
    calls = [call for turn in conversation.turns for call in turn.tool_calls]
    results = [result for turn in conversation.turns for result in turn.tool_responses]
    assert [call.id for call in calls] == [result.call_id for result in results]
    assert len({call.id for call in calls}) == len(calls)
    for turn in conversation.turns:
        assert turn.stop_reason == ("tool_use" if turn.tool_calls else "end_turn") or turn.speaker != "ai"
        assert not (turn.extra or {}).get("problems")
    for call in calls:
        assert call.id.startswith("hist_tool_") and set(parse_arguments(call)) == {"path"}, call
    words = " ".join(turn.text for turn in conversation.turns if turn.tool_calls)
    assert words.replace("Let me look.", "").strip() == ""


@each_once(("wire", WIRES), ("format", TEXT_FORMATS))
def test_four_rounds_of_parallel_calls_then_a_native_host_and_back(format: str, wire: str) -> None:
    async def play(sim: Sim, client: Client) -> None:
        session = Session(WIRES[wire], client=client, store=MemoryStore(), options=options_for(wire, format))
        agent = Agent(session, [list_files, read_file])
        made, last = await rounds(agent)
        assert made == 8 and "the words of d.txt" in last.text
        assert [len(turn.tool_calls) for turn in session.conversation.turns if turn.tool_calls] == [2, 2, 2, 2]
        sent = [seen.body for seen in sim.seen]
        assert len(sent) == 5 and not any(FIELDS & set(body) for body in sent)
        check_stored(session.conversation)
        session.options = Options()
        session.use(NATIVE)
        assert (await rounds(agent, "read e.txt and list files in e"))[0] == 2
        assert "tools" in sim.seen[-1].body
        session.options = options_for(wire, format)
        session.use(WIRES[wire])
        assert (await rounds(agent, "list files in f and read f.txt"))[0] == 2
        assert not FIELDS & set(sim.seen[-1].body)
        check_stored(session.conversation)
        assert sim.refused == [] and all(seen.status == 200 for seen in sim.seen)

    on_stage(play)


@pytest.mark.parametrize("format", TEXT_FORMATS)
def test_a_result_that_failed_is_taken_beside_one_that_went_well(format: str) -> None:
    def read_file(path: str) -> str:
        """Read a file."""
        raise ToolFailed(f"no such file: {path}")

    async def play(sim: Sim, client: Client) -> None:
        options = options_for("openai-chat", format)
        session = Session(WIRES["openai-chat"], client=client, store=MemoryStore(), options=options)
        agent = Agent(session, [list_files, read_file])
        made, last = await rounds(agent, "read a.txt and list files in a, then read b.txt")
        assert made == 3 and "one.txt" in last.text and "no such file: b.txt" in last.text
        assert sim.refused == [] and all(seen.status == 200 for seen in sim.seen)

    on_stage(play)


MINE = "vllm/my-finetune"
WITHOUT_TOOLS = Config(models={MINE: ModelConfig(tools=False)})


@pytest.mark.parametrize("model", [MINE, "ollama/gemma3"])
@pytest.mark.parametrize("format", [None, "hermes", "xml"])
def test_a_model_whose_host_takes_no_tools_uses_them_all_the_same(format: str | None, model: str) -> None:
    async def play(sim: Sim, client: Client) -> None:
        session = Session(model, client=client, store=MemoryStore(), options=Options(tool_format=format))
        agent = Agent(session, [list_files, read_file])
        assert (await rounds(agent))[0] == 8
        choice = session.tool_format_choice
        assert choice.is_text and choice.automatic is (format is None)
        assert choice.name == (format or {"ollama/gemma3": "gemma-text", MINE: "hermes"}[model])
        told = [note.code for note in session.request().notes]
        assert ("tools_as_text" in told) is (format is None)
        check_stored(session.conversation)
        session.options = Options()
        session.use(NATIVE)
        assert (await rounds(agent, "read e.txt and list files in e"))[0] == 2
        session.options = Options(tool_format=format)
        session.use(model)
        assert (await rounds(agent, "list files in f and read f.txt"))[0] == 2
        assert sim.refused == []

    on_stage(play, WITHOUT_TOOLS, toolless=("vllm",))


def test_such_a_host_refuses_declared_tools() -> None:
    async def play(sim: Sim, client: Client) -> None:
        for model in (MINE, "ollama/gemma3"):
            session = Session(model, client=client, options=Options(tool_format="native"))
            with pytest.raises(BadRequest, match="does not support tools"):
                await Agent(session, [list_files]).run("list files in a")
        assert [problem.rule for problem in sim.refused] == ["no tools", "no tools"]

    on_stage(play, WITHOUT_TOOLS, toolless=("vllm",))


def test_an_unknown_model_of_a_provider_keeps_one_dialect_so_its_history_stays_cached() -> None:
    catalog = Catalog(WITHOUT_TOOLS, environ={})
    assert catalog.resolve(MINE).dialect is catalog.resolve(MINE).dialect
    assert not catalog.resolve(MINE).dialect.native_tools and catalog.resolve("vllm/other").dialect.native_tools
