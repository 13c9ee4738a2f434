"""Codex under the names of models that it knows gets tools of OpenAI's own kinds: text instead of arguments, namespaces, tools
declared inside the conversation. Every model can call them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from midstream.testing import AgentScript, CallTool
from tests.clients.agents import AGENTS, run
from tests.clients.conftest import Result, Stage
from tests.clients.gateway import Gateway, gateway_process, upstreams
from tests.clients.test_model_change import MODELS

CODEX = next(agent for agent in AGENTS if agent.name == "codex")
ANSWER = "Patched, Captain."
PATCH = "*** Begin Patch\n*** Add File: notes.txt\n+first line\n*** End Patch\n"
MORE = "*** Begin Patch\n*** Update File: notes.txt\n@@\n first line\n+second line\n*** End Patch\n"
PLANS = {
    "gpt-5.5": AgentScript(
        CallTool("apply_patch", {"input": PATCH}), CallTool("apply_patch", {"input": MORE}), answer=ANSWER
    ),
    "gpt-5.6-sol": AgentScript(
        CallTool("exec", {"input": "text(await tools.exec_command({cmd: 'echo first line > notes.txt'}))"}),
        CallTool("exec", {"input": "text(await tools.exec_command({cmd: 'echo second line >> notes.txt'}))"}),
        answer=ANSWER,
    ),
}


@pytest.fixture(scope="module")
def gateway(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway_process(tmp_path_factory.mktemp("gateway"), pointed("kimi-k2.5"), upstreams(stage.running)) as running:
        yield running


def pointed(model: str) -> str:
    return "[aliases]\n" + "".join([f'"{name}" = "{MODELS[model]}"\n' for name in PLANS])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", PLANS)
def test_codex_under_a_name_it_knows(
    name: str, model: str, stage: Stage, gateway: Gateway, tmp_path: Path, results: list[Result]
) -> None:
    if not CODEX.installed:
        pytest.skip("DID NOT RUN: codex is not installed")
    gateway.reload(pointed(model))
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    stage.begin(PLANS[name])
    ran = run(CODEX, "Write two lines.", url=gateway.url, model=name, home=home, work=work)
    notes = work / "notes.txt"
    done = notes.exists() and notes.read_text() == "first line\nsecond line\n"
    rounds, refused = len(stage.models) - 1, len(stage.refused)
    reasoning = f"{stage.echoed} of {stage.thought}"
    results.append(
        Result("codex", f"{model}, as {name}", rounds, stage.requests, refused, reasoning, done, ran.seconds)
    )
    assert not stage.refused, [problem.message for problem in stage.refused]
    assert ran.status == 0 and ANSWER in ran.output, ran.output
    assert done and rounds == len(stage.plan.rounds), ran.output
    assert stage.echoed == stage.thought, stage.heard
