"""Conversations that the real llm has written are imported and go on with other models, pictures and reasoning included."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from midstream import Client, Conversation, Media, Session, Thinking
from midstream.store import SqliteStore
from midstream.testing import SimServer, sim_server
from tests.e2e.doubles_environment import doubles_environment

pytest.importorskip("llm", reason="llm is not installed: run `make test-e2e`, which installs it")
from tests.e2e.test_adapter_llm import FUNCTIONS, PIXEL, run

READERS = (
    "anthropic/claude-sonnet-4-5", "gemini/gemini-3-pro-preview", "mistral/mistral-large-latest", "openai-responses/gpt-5.2",
    "moonshot/kimi-k2.5",
)  # fmt: skip


@pytest.fixture
def sim() -> Iterator[SimServer]:
    with sim_server(strict="paranoid") as server:
        yield server


@pytest.fixture
def environ(sim: SimServer, tmp_path: Path) -> dict[str, str]:
    """With a model of llm's own that leads to a double: what it stores has nothing of ours."""
    folder = tmp_path / "llm"
    folder.mkdir()
    (folder / "extra-openai-models.yaml").write_text(
        f"- model_id: theirs\n  model_name: gpt-4o\n  api_base: {sim.base_url('openai')}\n  supports_tools: true\n  vision: true\n"
    )
    return {**doubles_environment(sim, tmp_path), "HOME": str(tmp_path)}


def ours(environ: dict[str, str], *words: str) -> tuple[str, str]:
    command = [sys.executable, "-m", "midstream.cli.main", *words]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def stored(environ: dict[str, str], own: str) -> Conversation:
    store = SqliteStore(Path(environ["MIDSTREAM_HOME"]) / "conversations.db")
    try:
        return store.load(own)
    finally:
        store.close()


def go_on(sim: SimServer, conversation: Conversation) -> None:
    async def ask() -> None:
        async with Client(sim.catalog()) as client:
            session = Session(READERS[0], client=client, conversation=conversation)
            for model in READERS:
                session.use(model)
                turn = await session.send("And now?")
                assert not turn.failure, (model, turn.failure)

    asyncio.run(ask())
    assert sim.refused == []


def test_a_conversation_of_llm_s_own_model_goes_on(sim: SimServer, environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PIXEL)
    (tmp_path / "fragment.txt").write_text("The fragment says 99.")
    theirs = ("-m", "theirs", "--key", "none")
    files = ("-f", str(tmp_path / "fragment.txt"), "-a", str(tmp_path / "dot.png"))
    run(environ, *theirs, "-s", "Be brief.", *files, "What is this?")
    (first,) = {row["conversation_id"] for row in json.loads(run(environ, "logs", "list", "-n", "0", "--json"))}
    run(environ, *theirs, "Something else, in a conversation of its own")
    run(environ, *theirs, "--cid", first, "--functions", FUNCTIONS, "Call get_weather with city 'Oslo'.")
    assert "llm           2 sessions" in ours(environ, "import")[0]
    # The last one is the one that was last spoken in, not the one that was last begun.
    own, told = ours(environ, "import", "llm", "--last")
    assert "imported 6 turns of llm" in told and "not carried over" not in told
    conversation = stored(environ, own)
    assert conversation.system == "Be brief." and "The fragment says 99." in conversation.turns[0].text
    assert [block.mime for block in conversation.turns[0].blocks if isinstance(block, Media)] == ["image/png"]
    assert [call.id[:10] for turn in conversation.turns for call in turn.tool_calls] == ["hist_tool_"]
    assert ours(environ, "import", "llm", str(tmp_path / "llm" / "logs.db"))[1].startswith("imported 6 turns")
    go_on(sim, conversation)
    assert "image" in json.dumps([seen.body for seen in sim.seen if "/messages" in seen.path][-1])
    # A file that has changed is not the one that was attached.
    (tmp_path / "dot.png").write_bytes(b"another")
    own, told = ours(environ, "import", "llm", first)
    assert "not carried over: 1 attachments, which llm only names: the files are gone or have changed" in told
    go_on(sim, stored(environ, own))


def test_a_conversation_of_our_plugin_keeps_ids_and_reasoning(sim: SimServer, environ: dict[str, str]) -> None:
    kimi = "midstream/moonshot/kimi-k2.5"
    run(environ, "-m", kimi, "--functions", FUNCTIONS, "Call get_weather with city 'Rome'.")
    run(environ, "-c", "-m", "midstream/anthropic/claude-sonnet-4-5", "-o", "reasoning_effort", "medium", "And now?")
    own, _ = ours(environ, "import", "llm", "--last")
    conversation = stored(environ, own)
    thoughts = [block for turn in conversation.turns for block in turn.blocks if isinstance(block, Thinking)]
    assert {each.origin.provider for each in thoughts if each.origin is not None} == {"moonshot", "anthropic"}
    assert any(each.signature for each in thoughts)
    go_on(sim, conversation)
    sent = [seen.body for seen in sim.seen if "moonshot" in seen.path][-1]["messages"]
    assert [each["reasoning_content"] for each in sent if each.get("tool_calls")] == [thoughts[0].text]
