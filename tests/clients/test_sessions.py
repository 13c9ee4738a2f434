"""Sessions that real agents wrote are imported and go on with other models; conversations go back and are resumed there."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from midstream import Client, Conversation, Session, Text
from midstream.core.blocks import human
from midstream.store import MemoryStore
from midstream.store.programs import PROGRAMS, Imported, Place
from midstream.testing import AgentScript
from tests.clients.agents import AGENTS, Agent, run
from tests.clients.conftest import Result, Stage
from tests.clients.gateway import Gateway
from tests.clients.test_agents import ANSWER, DIRECT, NUMBER, TASK, perform

READERS = ("moonshot/kimi-k2.5", "anthropic/claude-sonnet-5", "openai-responses/gpt-5.2", "gemini/gemini-3-pro-preview", "mistral/mistral-large-latest")  # fmt: skip
READABLE = [agent for agent in AGENTS if agent.name in PROGRAMS]
WRITABLE = [agent for agent in READABLE if PROGRAMS[agent.name].write is not None]
QUESTION = "Which number was it?"
# How each resumes a session by its id without a terminal; `{id}` stands for it, the rest as in its row.
RESUMES = {
    "claude-code": ["claude", "-p", "{task}", "--model", "{model}", "--resume", "{id}"],
    "codex": [],  # made of its own command below: the options go between
    "gemini-cli": ["gemini", "-p", "{task}", "-m", "{model}", "--yolo", "--resume", "{id}"],
    "kimi-code": ["kimi", "-p", "{task}", "-m", "__kimi_env_model__", "-r", "{id}"],
    "opencode": ["sh", "-c", "opencode import {file} && opencode run --session {id} -m lo/{model} '{task}'"],
}
# What every session of a program has that is not carried over, and that must be told. opencode's database holds no such thing.
TOLD = {
    "claude-code": "reminders and attachments that Claude Code adds by itself",
    "codex": "system prompt of Codex",
    "gemini-cli": "message in which Gemini CLI describes where it runs",
    "kimi-code": "system prompt of Kimi Code",
    "opencode": None,
}


@pytest.fixture(scope="module")
def imported(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Imported]:
    return {}


def _session(agent: Agent, stage: Stage, folder: Path, known: dict[str, Imported]) -> Imported:
    """What this agent's own file says of the task that it did, once for the whole run."""
    if not agent.installed:
        pytest.skip(f"DID NOT RUN: {agent.name} is not installed")
    if agent.name not in known:
        provider, model = DIRECT[agent.wire]
        base = folder / f"made-by-{agent.name}"
        base.mkdir()
        ran, result = perform(agent, stage, base, url=stage.running.base_url(provider), model=model, target=model)
        assert result.files, ran.output
        (session,) = PROGRAMS[agent.name].find(Place(base / "home"))
        assert session.folder in ("", str(base / "work"))
        known[agent.name] = PROGRAMS[agent.name].read(session)
    return known[agent.name]


@pytest.mark.parametrize("agent", READABLE, ids=[agent.name for agent in READABLE])
def test_a_real_session_goes_on_with_every_model(
    agent: Agent, stage: Stage, tmp_path: Path, imported: dict[str, Imported], results: list[Result]
) -> None:
    found = _session(agent, stage, tmp_path, imported)
    conversation = found.entry.conversation
    texts = [block.text for turn in conversation.turns for block in turn.blocks if isinstance(block, Text)]
    assert ANSWER in texts and NUMBER in str(conversation)
    assert sum(len(turn.tool_calls) for turn in conversation.turns) == 4
    told = TOLD[agent.name]
    assert told is None or any(told in line for line in found.left_out), found.left_out
    stage.begin(AgentScript(answer="I remember it."))

    async def go_on() -> None:
        async with Client(stage.running.catalog()) as client:
            session = Session(READERS[0], client=client, store=MemoryStore(), conversation=conversation)
            for model in READERS:
                session.use(model)
                turn = await session.send(QUESTION)
                assert not turn.failure, (model, turn.failure)

    asyncio.run(go_on())
    assert not stage.refused, [problem.message for problem in stage.refused]
    assert all(NUMBER in json.dumps(seen.body) for seen in stage.seen)
    results.append(Result(agent.name, "imported, five models", 3, stage.requests, len(stage.refused), "-", None, 0.0))


@pytest.mark.parametrize("target", WRITABLE, ids=[agent.name for agent in WRITABLE])
@pytest.mark.parametrize("source", READABLE, ids=[agent.name for agent in READABLE])
def test_a_session_of_one_agent_is_resumed_in_another(
    source: Agent, target: Agent, stage: Stage, gateway: Gateway, tmp_path: Path, imported: dict[str, Imported], results: list[Result]
) -> None:  # fmt: skip
    conversation = _session(source, stage, tmp_path, imported).entry.conversation
    if not target.installed:
        pytest.skip(f"DID NOT RUN: {target.name} is not installed")
    # No plain name: each program makes a name of its own of it, and looks for its sessions there.
    home, work = tmp_path / "home", tmp_path / "My wörk.dir"
    home.mkdir()
    work.mkdir()
    write = PROGRAMS[target.name].write
    assert write is not None
    exported = write(Conversation((*conversation.turns, human("Wait a moment."))), Place(home), work)
    for path, data in exported.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    stage.begin(AgentScript(answer="I remember it."))
    file = str(next(iter(exported.files)))
    words = RESUMES[target.name] or [*target.command[:2], "resume", *target.command[2:-1], "{id}", "{task}"]
    command = tuple([word.replace("{id}", exported.id).replace("{file}", file) for word in words])
    ran = run(replace(target, command=command), QUESTION, url=gateway.url, model="kimi-k2.5", home=home, work=work)
    assert ran.status == 0 and "I remember it." in ran.output, ran.output
    assert not stage.refused, [problem.message for problem in stage.refused]
    body = json.dumps(stage.seen[-1].body)
    missing = [said for said in (TASK, NUMBER, ANSWER, "Wait a moment.", QUESTION) if said not in body]
    assert not missing, "the model was not told what was said before"
    results.append(
        Result(target.name, f"resumed, begun in {source.name}", 3, stage.requests, 0, "-", None, ran.seconds)
    )
