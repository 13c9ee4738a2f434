"""Claude Code searches the web by a request of its own; behind a model that has no search it is told so, and goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from midstream.testing import AgentScript, CallTool
from tests.clients.agents import AGENTS, run
from tests.clients.conftest import Stage
from tests.clients.gateway import Gateway

CLAUDE = next(agent for agent in AGENTS if agent.name == "claude-code")
SEARCHES = replace(CLAUDE, command=tuple([part.replace("Bash,Read,Write", "WebSearch") for part in CLAUDE.command]))
ANSWER = "I could not look it up, Captain."


def test_a_search_that_the_model_does_not_have(stage: Stage, gateway: Gateway, tmp_path: Path) -> None:
    if not CLAUDE.installed:
        pytest.skip("DID NOT RUN: claude-code is not installed")
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    stage.begin(AgentScript(CallTool("WebSearch", {"query": "weather in Oslo"}), answer=ANSWER))
    ran = run(SEARCHES, "What is the weather in Oslo?", url=gateway.url, model="kimi-k2.5", home=home, work=work)
    assert ran.status == 0 and ANSWER in ran.output, ran.output
    (told,) = [message["content"] for message in stage.seen[-1].body["messages"] if message["role"] == "tool"]
    print(f"the tool's result: {told!r}")
    assert "unavailable" in json.dumps(told) and "400" not in json.dumps(told)
    assert not stage.refused
    assert not any("Perform a web search" in json.dumps(seen.body) for seen in stage.seen), "a model was asked"
