"""An agent whose model has nothing to add after its last tool: through the gateway it ends as it does at the host itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from midstream.testing import AgentScript, RunCommand
from tests.clients.agents import AGENTS, Agent, Ran, run
from tests.clients.conftest import Stage
from tests.clients.gateway import Gateway
from tests.clients.test_agents import DIRECT

TASK = "Write done into done.txt, and say nothing."


@pytest.mark.parametrize("agent", AGENTS, ids=[agent.name for agent in AGENTS])
def test_the_same_requests_and_the_same_end(agent: Agent, stage: Stage, gateway: Gateway, tmp_path: Path) -> None:
    if not agent.installed:
        pytest.skip(f"DID NOT RUN: {agent.name} is not installed")
    provider, model = agent.direct or DIRECT[agent.wire]
    ends: list[tuple[int | None, int]] = []
    for way, url in (("direct", stage.running.base_url(provider)), ("gateway", gateway.url)):
        home, work = tmp_path / way / "home", tmp_path / way / "work"
        home.mkdir(parents=True)
        work.mkdir()
        stage.begin(AgentScript(RunCommand(f"echo done > {work}/done.txt"), answer=""))
        ran: Ran = run(agent, TASK, url=url, model=model, home=home, work=work)
        assert (work / "done.txt").exists(), ran.output
        assert not stage.refused, [problem.message for problem in stage.refused]
        ends.append((ran.status, stage.requests))
        print(f"{agent.name}, {way}: exit code {ran.status}, {stage.requests} requests, {ran.seconds:.1f} s")
    assert ends[0] == ends[1], ran.output
