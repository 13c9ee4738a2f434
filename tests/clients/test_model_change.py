"""Every agent does a task of eight rounds, and another model is behind its alias in each: nothing refused, and whoever comes
back reads its own reasoning."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import pytest

from midstream.core.blocks import Conversation, Turn
from midstream.testing import AgentScript, RunCommand
from tests.clients.agents import AGENTS, Agent, run
from tests.clients.conftest import Result, Stage, has_reasoning
from tests.clients.gateway import Gateway, gateway_process, upstreams

ROUNDS = 8
ANSWER = "All eight are done, Captain."
MODELS = {
    "kimi-k2.5": "moonshot/kimi-k2.5",
    "claude-sonnet-5": "anthropic/claude-sonnet-5",
    "gpt-5.2": "openai-responses/gpt-5.2",
    "gemini-3-pro-preview": "gemini/gemini-3-pro-preview",
    "mistral-large-latest": "mistral/mistral-large-latest",
}
ORDER = list(islice(cycle(MODELS), ROUNDS + 1))


def pointed(model: str) -> str:
    return f'[aliases]\nthe-model = "{MODELS[model]}"\n'


@pytest.fixture(scope="module")
def gateway(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    with gateway_process(folder, pointed(ORDER[0]), upstreams(stage.running)) as running:
        yield running


@pytest.mark.parametrize("agent", AGENTS, ids=[agent.name for agent in AGENTS])
def test_another_model_in_every_round(
    agent: Agent, stage: Stage, gateway: Gateway, tmp_path: Path, results: list[Result]
) -> None:
    if not agent.installed:
        pytest.skip(f"DID NOT RUN: {agent.name} is not installed")
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    notes = work / "notes.txt"
    following = iter(ORDER[1:])
    heard: list[Conversation] = []

    def change() -> None:
        heard.append(stage.heard)
        gateway.reload(pointed(next(following)))

    gateway.reload(pointed(ORDER[0]))
    commands = [RunCommand(f"expr {number} + 1 >> {notes}") for number in range(ROUNDS)]
    stage.begin(AgentScript(*commands, answer=ANSWER), change)
    ran = run(agent, "Count to eight.", url=gateway.url, model="the-model", home=home, work=work)
    done = notes.exists() and notes.read_text() == "".join([f"{number + 1}\n" for number in range(ROUNDS)])
    own = [
        has_reasoning(turns[number]) for number, turns in enumerate(map(_rounds, [*heard, stage.heard][len(MODELS) :]))
    ]
    echoed = f"{sum(own)} of {len(own)}"
    refused = len(stage.refused)
    results.append(
        Result(agent.name, "another in every round", len(heard), stage.requests, refused, echoed, done, ran.seconds)
    )
    assert not stage.refused, [problem.message for problem in stage.refused]
    assert ran.status == 0 and ANSWER in ran.output, ran.output
    assert stage.models == ORDER, ran.output
    assert done, ran.output
    assert own == [True] * (ROUNDS + 1 - len(MODELS)), heard


def _rounds(conversation: Conversation) -> list[Turn]:
    return [turn for turn in conversation.turns if turn.tool_calls]
