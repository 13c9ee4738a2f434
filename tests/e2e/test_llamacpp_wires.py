"""The real llama.cpp server on each of its endpoints: chat, completions, Messages and Responses.

Foreign histories are taken, forced calls come whole, a loop goes on, and a bad key is what it is.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import Config, ProviderConfig
from midstream.core.blocks import Conversation, Turn, human, tool_result
from midstream.core.dialect import Options
from midstream.core.errors import Unauthorized
from midstream.core.events import Event
from midstream.core.lifecycle import check
from midstream.core.reduce import reduce
from midstream.core.tools import ToolSpec
from midstream.doctor.matrix import SCENES, TOOLS
from midstream.sim.players import make_players
from tests.e2e.conftest import KEY

# Each endpoint by a provider that speaks its wire, and the path the dialect has to take.
ENDPOINTS = {
    "chat": ("llamacpp/kimi-k2", "chat"),
    "completions": ("llamacpp/kimi-k2", "native"),
    "messages": ("messages/kimi-k2", None),
    "responses": ("responses/kimi-k2", None),
}
MAKERS = ("claude", "gemini-3-pro", "openai-responses-5", "mistral")
PATHS = ("notes.txt", "src/a b.py", "größe.md")
READ = ToolSpec(
    "read_file",
    "Read a file",
    {
        "type": "object",
        "properties": {"path": {"type": "string", "enum": list(PATHS)}},
        "required": ["path"],
        "additionalProperties": False,
    },
)
ASKED = Conversation((human("Read something.", key="q0"),), "You read files.")


def client(engine: str, key: str = "") -> Client:
    providers = {
        "messages": ProviderConfig(like="moonshot-anthropic", base_url=engine),
        "responses": ProviderConfig(like="responses-compatible", base_url=f"{engine}/v1"),
    }
    return Client(Catalog(Config(providers=providers), environ={"LLAMACPP_BASE_URL": engine}), api_key=key or None)


def options(endpoint: str, **more: Any) -> Options:
    return Options(path=ENDPOINTS[endpoint][1], **more)  # type: ignore[arg-type]


async def ask(asking: Client, endpoint: str, said: Conversation, tools: Any, **more: Any) -> Turn:
    reply = asking.stream(ENDPOINTS[endpoint][0], said, tools=tools, options=options(endpoint, **more))
    events: list[Event] = [event async for event in reply]
    check(events)
    return reduce(events)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_the_history_of_another_model_is_taken(engine: str, endpoint: str, maker: str) -> None:
    player = make_players()[maker]
    # The model has no eyes, and the server refuses pictures; the dialects of Kimi K2 know that of themselves.
    scenes = [name for name in SCENES if not (endpoint == "responses" and name == "images in results")]

    async def run() -> dict[str, Turn]:
        async with client(engine, KEY) as asking:
            histories = {name: SCENES[name](player, player).done() for name in scenes}
            return {name: await ask(asking, endpoint, said, TOOLS, max_tokens=2) for name, said in histories.items()}

    for name, turn in asyncio.run(run()).items():
        assert not turn.failure and turn.usage is not None and turn.usage.output > 0, (name, turn)


@pytest.mark.parametrize("endpoint", ["chat", "messages", "responses"])
def test_a_loop_of_forced_calls_goes_on(guarded_engine: str, endpoint: str) -> None:
    """Four rounds of calls and results: each call is whole, and the engine takes its own back."""

    async def run() -> list[Turn]:
        turns: list[Turn] = []
        async with client(guarded_engine, KEY) as asking:
            said = ASKED
            for number in range(4):
                turn = await ask(asking, endpoint, said, (READ,), tool_choice="required", max_tokens=600, seed=number)
                results = tuple([tool_result(call, f"line {number}") for call in turn.tool_calls])
                said = said.add(turn, Turn("tool", results, key=f"r{number}"))
                turns.append(turn)
        return turns

    for turn in asyncio.run(run()):
        assert (turn.failure, turn.stop_reason) == ("", "tool_use"), turn
        assert turn.tool_calls and "<|" not in turn.text + turn.thinking
        for call in turn.tool_calls:
            assert call.name == "read_file" and json.loads(call.arguments)["path"] in PATHS, call


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_bad_key_is_unauthorized_and_the_right_one_is_not(guarded_engine: str, endpoint: str) -> None:
    async def run(key: str) -> Turn:
        async with client(guarded_engine, key) as asking:
            return await ask(asking, endpoint, ASKED, (), max_tokens=2)

    with pytest.raises(Unauthorized) as refused:
        asyncio.run(run("a wrong key"))
    assert refused.value.status == 401 and "wrong key" not in str(refused.value)
    assert asyncio.run(run(KEY)).failure in ("", "empty")  # the eager model often begins a call and gets no further
