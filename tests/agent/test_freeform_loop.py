"""An agent with a freeform tool and one of a namespace, and a system turn in the middle, against a strict double of each wire."""

from __future__ import annotations

import asyncio

import pytest

from midstream.agent.loop import Agent
from midstream.agent.tool import Tool
from midstream.client.session import Session
from midstream.core.blocks import Turn
from midstream.core.tools import Grammar
from midstream.testing import sim_server

MODELS = (
    "moonshot/kimi-k3",
    "openai/gpt-5.2",
    "openai-responses/gpt-5.2",
    "anthropic/claude-opus-4-8",
    "anthropic/claude-sonnet-4-5",
    "gemini/gemini-3-pro-preview",
    "ollama/qwen3",
    "cohere/command-a-03-2025",
    "mistral/mistral-large-latest",
)


@pytest.mark.parametrize("model", MODELS)
def test_the_tools_run_and_the_next_model_reads_it_all(model: str) -> None:
    ran: list[str] = []

    def apply_patch(text: str) -> str:
        """Apply a patch."""
        ran.append(text)
        return "patched"

    def stop_timer() -> str:
        """Stop the timer."""
        ran.append("stopped")
        return "stopped"

    async def main() -> None:
        tools = [
            Tool.freeform(apply_patch, grammar=Grammar("lark", "start: /.+/")),
            Tool.from_function(stop_timer, namespace="clock"),
        ]
        with sim_server(strict="paranoid") as sim:
            async with sim.client() as client:
                session = Session(model, client=client, system="Be brief.")
                agent = Agent(session, tools)
                await agent.run("Apply patch 'a b', then stop timer.")
                await session.add(Turn("system", ["Be kind."], role="developer"))
                for other in MODELS:
                    session.use(other)
                    await agent.run("Thanks.")
                assert not sim.refused
                calls = [call for turn in session.conversation.turns for call in turn.tool_calls]
                kinds = [(call.kind, call.qualified_name) for call in calls]
                assert kinds == [("freeform", "apply_patch"), ("function", "clock/stop_timer")]
                assert not [turn.failure for turn in session.conversation.turns if turn.failure]

    asyncio.run(main())
    assert ran[1:] == ["stopped"] and "a b" in ran[0]
