"""LangChain's own standard tests on our chat model, at the doubles; `tests/e2e/test_adapter_langchain.py` runs it in its environment.

python -m pytest -c /dev/null -o asyncio_mode=auto tests/e2e/drivers/langchain_suite.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests
from langgraph.checkpoint.memory import InMemorySaver

from midstream.adapters.langchain import ChatMidstream
from midstream.testing import SimServer, sim_server
from tests.adapters.tour import MODELS, errand, judge, weather

KIMI, CLAUDE = MODELS[0], MODELS[1]


@pytest.fixture(scope="session", autouse=True)
def sim() -> Iterator[SimServer]:
    with sim_server(strict="paranoid") as server:
        Standard.doubles = server
        yield server
        assert server.refused == []


class Standard:
    doubles: SimServer
    served: str

    @property
    def chat_model_class(self) -> type[ChatMidstream]:
        return ChatMidstream

    @property
    def chat_model_params(self) -> dict[str, Any]:
        doubles = getattr(Standard, "doubles", None)
        return {"model": self.served, **({"catalog": doubles.catalog()} if doubles is not None else {})}


class TestUnit(Standard, ChatModelUnitTests):  # type: ignore[misc]
    served = KIMI


# What a double cannot do is turned off by the suite's own switches: it reads no PDF and hears nothing, invents no joke for a
# schema that it is only told of, and the pictures of these tests come from the network.
class Integration(Standard, ChatModelIntegrationTests):  # type: ignore[misc]
    @property
    def supports_image_inputs(self) -> bool:
        return False

    @property
    def supports_image_tool_message(self) -> bool:
        return False

    @property
    def model_override_value(self) -> str:
        return CLAUDE if self.served == KIMI else KIMI


class TestKimi(Integration):
    served = KIMI


class TestClaude(Integration):
    served = CLAUDE


class TestResponses(Integration):
    served = MODELS[2]


class TestGemini(Integration):
    served = MODELS[3]


class TestMistral(Integration):
    served = MODELS[4]


def get_weather(city: str) -> str:
    """The weather in a city."""
    return weather(city)


def test_an_agent_of_langchain_changes_its_model_at_every_turn() -> None:
    """`create_agent` with a checkpoint: the conversation is what LangGraph stored."""
    with sim_server(strict="paranoid") as doubles:
        saved = InMemorySaver()
        for number, name in enumerate(MODELS):
            model = ChatMidstream(model=name, catalog=doubles.catalog(), effort="medium")
            agent = create_agent(model, tools=[get_weather], system_prompt="Be brief.", checkpointer=saved)
            config = {"configurable": {"thread_id": "tour"}}
            asked = {"messages": [{"role": "user", "content": errand(number)}]}
            if number % 2:
                *_, (_, last) = agent.stream(asked, config, stream_mode=["messages", "values"])
            else:
                last = agent.invoke(asked, config)
            assert weather(f"Town {number}") in last["messages"][-1].text
            model.close()
        judge(doubles, requests=2 * len(MODELS))
