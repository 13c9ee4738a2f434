"""Every agent does a task of three rounds of calls with every model: files on disk as asked, and nothing refused.

The models are doubles that carry out a plan; what counts as refused is what they wrote down themselves.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from midstream.testing import AgentScript, ReadFile, RunCommand, WriteFile
from tests.clients.agents import AGENTS, Agent, Ran, run
from tests.clients.conftest import Result, Stage
from tests.clients.gateway import Gateway
from tests.clients.namespace import is_alone

TASK = "Write notes.txt, append a number to it, write other.txt, then read notes.txt."
ANSWER = "All of it is done, Captain."
NUMBER = "4242"
"""Stands in no command: who has seen it has seen the result of one."""
DIRECT = {
    "anthropic": ("anthropic", "claude-sonnet-5"),
    "openai-responses": ("openai-responses", "gpt-5.2"),
    "gemini": ("gemini", "gemini-3-pro-preview"),
    "openai-chat": ("moonshot", "kimi-k2.5"),
}

SET_UP = [agent for agent in AGENTS if agent.setup]
MODELS = ("kimi-k2.5", "claude-sonnet-5", "gpt-5.2", "gemini-3-pro-preview", "mistral-large-latest")


def plan(work: Path) -> AgentScript:
    notes = work / "notes.txt"
    return AgentScript(
        WriteFile(str(notes), "first line\n"),
        [RunCommand(f"expr 6 '*' 707 >> {notes}"), RunCommand(f"echo other > {work}/other.txt")],
        ReadFile(str(notes)),
        answer=ANSWER,
    )


def perform(
    agent: Agent, stage: Stage, folder: Path, *, url: str, model: str, target: str, exports: str | None = None
) -> tuple[Ran, Result]:
    """Let the agent do the task."""
    if not agent.installed:
        pytest.skip(f"DID NOT RUN: {agent.name} is not installed")
    home, work = folder / "home", folder / "work"
    home.mkdir()
    work.mkdir()
    stage.begin(plan(work))
    ran = run(agent, TASK, url=url, model=model, home=home, work=work, exports=exports)
    rounds = sum(1 for seen in stage.seen if seen.status == 200 and _has_tools(seen.body)) - 1
    files = {file.name: file.read_text() for file in work.iterdir() if file.is_file()}
    done = files.get("notes.txt") == f"first line\n{NUMBER}\n" and files.get("other.txt") == "other\n"
    reasoning = f"{stage.echoed} of {stage.thought}"
    return ran, Result(agent.name, target, rounds, stage.requests, len(stage.refused), reasoning, done, ran.seconds)


def judge(ran: Ran, result: Result, stage: Stage) -> None:
    assert not stage.refused, [problem.message for problem in stage.refused]
    assert ran.status == 0, ran.output
    assert result.files, ran.output
    assert result.rounds == len(stage.plan.rounds), ran.output
    assert ANSWER in ran.output
    assert NUMBER in json.dumps(stage.seen[-1].body), "the model never saw the result of its last call"


def judge_prefix(stage: Stage) -> None:
    """What was sent before is sent again as it was, whatever agents do to their histories: models keep what they have read."""
    bodies = [seen.body for seen in stage.seen if _has_tools(seen.body)]
    names = [name for name in ("messages", "input", "contents") if name in bodies[0]]
    for before, after in pairwise([_without_marks(body[names[0]]) for body in bodies]):
        assert after[: len(before)] == before
    for before, after in pairwise(bodies):
        assert _without_marks(before.get("tools")) == _without_marks(after.get("tools"))


def _without_marks(value: Any) -> Any:
    match value:
        case dict():
            return {name: _without_marks(each) for name, each in value.items() if name != "cache_control"}
        case list():
            return [_without_marks(each) for each in value]
        case _:
            return value


def _has_tools(body: dict[str, Any]) -> bool:
    return bool(body.get("tools"))


def test_nothing_can_leave(alone: bool) -> None:
    if not alone:
        pytest.skip("DID NOT RUN: only root can leave the network")
    assert is_alone()


@pytest.mark.parametrize("agent", AGENTS, ids=[agent.name for agent in AGENTS])
def test_without_a_gateway(agent: Agent, stage: Stage, tmp_path: Path, results: list[Result]) -> None:
    """The agent at a double of its own provider: what goes wrong here has nothing to do with the gateway."""
    provider, model = agent.direct or DIRECT[agent.wire]
    url = stage.running.base_url(provider)
    ran, result = perform(agent, stage, tmp_path, url=url, model=model, target=f"{model}, directly")
    results.append(result)
    judge(ran, result, stage)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("agent", AGENTS, ids=[agent.name for agent in AGENTS])
def test_through_the_gateway(
    agent: Agent, model: str, stage: Stage, gateway: Gateway, tmp_path: Path, results: list[Result]
) -> None:
    ran, result = perform(agent, stage, tmp_path, url=gateway.url, model=model, target=model)
    results.append(result)
    judge(ran, result, stage)
    assert stage.echoed == stage.thought, stage.heard
    judge_prefix(stage)


@pytest.mark.parametrize("agent", SET_UP, ids=[agent.name for agent in SET_UP])
def test_as_the_gateway_says(
    agent: Agent, stage: Stage, gateway: Gateway, tmp_path: Path, results: list[Result]
) -> None:
    """What `midstream serve --print` prints is all that an agent needs to be told."""
    model = "moonshot/kimi-k2.5"
    exports = gateway.printed(agent.setup, model)
    target = f"{model}, as --print says"
    ran, result = perform(agent, stage, tmp_path, url=gateway.url, model=model, target=target, exports=exports)
    results.append(result)
    judge(ran, result, stage)
