"""A database written by an earlier version opens, lists, searches, resumes and exports: see tests/data/store."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from midstream import Conversation, Turn, encode_request, human
from midstream.client.session import Session
from midstream.core.dialect import Options
from midstream.core.tools import ToolSpec
from midstream.store import ConversationInfo, Entry, SqliteStore, read_jsonl, to_jsonl, to_markdown
from midstream.testing import SimServer, sim_server

DATA = Path(__file__).parent.parent / "data" / "store"
VERSIONS = sorted(path.stem for path in DATA.glob("*.sqlite3"))
MODELS = (
    "moonshot/kimi-k2.5",
    "anthropic/claude-sonnet-4-5",
    "openai-responses/gpt-5.2",
    "gemini/gemini-3-pro-preview",
    "mistral/mistral-large-latest",
    "deepinfra/moonshotai/Kimi-K2.5",
)
TOOLS = (ToolSpec("read_file", "Read a file", {"type": "object", "properties": {"path": {"type": "string"}}}),)


class Sidecar(msgspec.Struct):
    """What the commit itself said of its database."""

    infos: list[ConversationInfo]
    searches: dict[str, list[tuple[str, int]]]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(version: str, tmp_path: Path) -> Iterator[SqliteStore]:
    copy = tmp_path / "conversations.db"
    shutil.copyfile(DATA / f"{version}.sqlite3", copy)
    with closing(SqliteStore(copy)) as opened:
        yield opened


@pytest.fixture
def sidecar(version: str) -> Sidecar:
    return msgspec.json.decode((DATA / f"{version}.json").read_bytes(), type=Sidecar)


@pytest.fixture
def exported(version: str) -> list[Entry]:
    return list(read_jsonl((DATA / f"{version}.jsonl").read_bytes().split(b"\n")))


def test_there_are_databases() -> None:
    assert "e999d29" in VERSIONS


def test_it_lists_and_searches(store: SqliteStore, sidecar: Sidecar) -> None:
    assert store.list(100) == sidecar.infos
    found = {query: [(hit.conversation, hit.position) for hit in store.search(query)] for query in sidecar.searches}
    assert found == sidecar.searches


def test_it_loads_and_exports(store: SqliteStore, exported: list[Entry], version: str) -> None:
    entries = [store.entry(entry.conversation.id) for entry in exported]
    assert entries == exported
    assert [store.load(entry.conversation.id) for entry in exported] == [entry.conversation for entry in exported]
    assert list(read_jsonl(to_jsonl(entries))) == exported
    markdown = "\n".join([to_markdown(entry, thinking=True) for entry in entries])
    assert markdown == (DATA / f"{version}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("model", MODELS)
def test_it_resumes(store: SqliteStore, exported: list[Entry], model: str) -> None:
    """The next turn of every conversation, at a strict double, which checks ids, pairing and signatures."""
    with sim_server() as sim:
        for entry in exported:
            asyncio.run(_resume(store, sim, entry.conversation.id, model))
        assert not sim.refused
    for entry in exported:
        grown = store.load(entry.conversation.id).turns
        assert grown[:-2] == entry.conversation.turns
        assert [turn.speaker for turn in grown[-2:]] == ["human", "ai"]
        assert not grown[-1].failure
    assert [hit.conversation for hit in store.search("heliotrope")]


async def _resume(store: SqliteStore, sim: SimServer, conversation_id: str, model: str) -> None:
    async with sim.client() as client:
        conversation = store.load(conversation_id)
        options = Options(thinking=True)
        session = Session(model, store=store, tools=TOOLS, conversation=conversation, client=client, options=options)
        turn = await session.send("Say heliotrope.")
        assert "heliotrope" in turn.text


OLD_TURNS = {
    # as older versions stored them, and what OpenAI and Anthropic get of them
    "an instruction": (
        b'{"speaker":"human","blocks":[{"type":"text","text":"be kind"}],"key":"s","role":"system"}',
        b'{"role":"system","content":"be kind"}',
        b"<system-instruction>",
    ),
    "a developer's": (
        b'{"speaker":"human","blocks":[{"type":"text","text":"be kind"}],"key":"s","role":"developer"}',
        b'{"role":"developer","content":"be kind"}',
        b"<system-instruction>",
    ),
    "a freeform call": (
        b'{"speaker":"ai","blocks":[{"type":"tool_call","id":"hist_tool_aaaaaaaaaaaaaaaaaaaaaaaa","name":"run",'
        b'"arguments":"print(1)","provider":"openai","extra":{"type":"custom"}}],"key":"s"}',
        b'"custom":{"name":"run","input":"print(1)"}',
        b'"input":{"input":"print(1)"}',
    ),
    "a call in a namespace": (
        b'{"speaker":"ai","blocks":[{"type":"tool_call","id":"hist_tool_aaaaaaaaaaaaaaaaaaaaaaaa","name":"close",'
        b'"arguments":"{}","provider":"openai","extra":{"item":{"namespace":"agents"}}}],"key":"s"}',
        b'"name":"agents__close_',
        b'"name":"agents__close_',
    ),
}


@pytest.mark.parametrize("name", OLD_TURNS)
def test_a_turn_of_the_old_form_is_stored_and_sent_as_what_it_is(name: str, tmp_path: Path) -> None:
    raw, openai, anthropic = OLD_TURNS[name]
    turn = msgspec.json.decode(raw, type=Turn)
    conversation = Conversation((human("q", key="q"), turn, human("well?", key="w")))
    with closing(SqliteStore(tmp_path / "old.db")) as store:
        kept = store.create(conversation)
        assert store.load(kept).turns == conversation.turns
    for model, wanted in (("openai/gpt-5.2", openai), ("anthropic/claude-sonnet-4-5", anthropic)):
        assert wanted in encode_request(model, conversation, cache=None).body
    assert conversation.turns[1] is turn and msgspec.json.encode(turn) == raw
