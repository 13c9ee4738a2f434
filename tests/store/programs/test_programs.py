"""Sessions of other programs: found, read, accepted by every kind of model, and written so that the program finds them."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream import Conversation, Text, Thinking, ToolCall, ToolResponse, Turn, encode_request
from midstream.doctor.matrix import TOOLS
from midstream.errors import StoreError
from midstream.sim.players import make_players
from midstream.sim.rules import judge
from midstream.store import MemoryStore
from midstream.store.programs import PROGRAMS, Imported, Place, SessionFile
from tests.doctor.test_matrix import CORE

DATA = Path(__file__).parents[2] / "data" / "store" / "programs"
ODD = json.loads((DATA / "odd.json").read_bytes())
PLAYERS = make_players()
FOLDER = "/srv/project"
# The one story that every sample tells, with the names that each program's tools have left out.
STORY = [
    "human: Note the tide.", "ai: (I write it down.) call", "tool: written", "ai: (Now both at once.) call call",
    "tool: 4242 today", "ai: It is 4242, Captain.",
]  # fmt: skip
LEFT_OUT = {
    "claude-code": [
        "1 messages of other branches, of subagents or from before a compaction",
        "1 reminders and attachments that Claude Code adds by itself, its system prompt among them",
    ],
    "codex": ["1 system prompt of Codex", "2 instructions and notes that Codex adds by itself"],
    "gemini-cli": [
        "1 message in which Gemini CLI describes where it runs",
        "1 messages of the kind 'info', which are for the screen",
    ],
    "kimi-code": ["1 system prompt of Kimi Code", "1 reminders that Kimi Code adds by itself"],
    "opencode": [],
    "llm": [],
}
WRITERS = [name for name, program in PROGRAMS.items() if program.write is not None]


def program_home(name: str, folder: Path) -> Place:
    """The home of somebody who uses this program."""
    if (DATA / name).is_dir():
        shutil.copytree(DATA / name, folder, dirs_exist_ok=True)
    elif name == "opencode":
        _opencode(folder / ".local/share/opencode/opencode.db", json.loads((DATA / "opencode.json").read_bytes()))
    else:
        _llm(folder / ".config/io.datasette.llm/logs.db")
    # Linux's place, whatever the machine is.
    return Place(folder, {"LLM_USER_PATH": str(folder / ".config/io.datasette.llm")})


def _opencode(path: Path, sample: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True)
    db = sqlite3.connect(path)
    db.executescript(
        "CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT, title TEXT, revert TEXT, time_updated INT);"
        "CREATE TABLE message (id TEXT, session_id TEXT, data TEXT);"
        "CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT);"
    )
    session = sample["session"]
    db.execute(
        "INSERT INTO session VALUES (?, NULL, ?, ?, ?, 1000)",
        (session["id"], session["directory"], session["title"], session["revert"]),
    )
    for name, data in sample["messages"]:
        db.execute("INSERT INTO message VALUES (?, ?, ?)", (name, session["id"], json.dumps(data)))
    for name, message, data in sample["parts"]:
        db.execute("INSERT INTO part VALUES (?, ?, ?, ?)", (name, message, session["id"], json.dumps(data)))
    db.commit()
    db.close()


def _llm(path: Path) -> None:
    path.parent.mkdir(parents=True)
    db = sqlite3.connect(path)
    db.executescript(
        "CREATE TABLE conversations (id TEXT, name TEXT, model TEXT);"
        "CREATE TABLE responses (id TEXT, model TEXT, prompt TEXT, system TEXT, response TEXT, reasoning TEXT,"
        " conversation_id TEXT, datetime_utc TEXT);"
        "CREATE TABLE tool_calls (id INTEGER PRIMARY KEY, response_id TEXT, name TEXT, arguments TEXT, tool_call_id TEXT);"
        "CREATE TABLE tool_results (id INTEGER PRIMARY KEY, response_id TEXT, name TEXT, output TEXT, tool_call_id TEXT);"
    )
    db.execute("INSERT INTO conversations VALUES ('one', 'The tide', 'm')")
    rows = [
        ("1", "Note the tide.", "", "I write it down."),
        ("2", "", "", "Now both at once."),
        ("3", "", "It is 4242, Captain.", ""),
    ]
    for name, prompt, response, reasoning in rows:
        db.execute(
            "INSERT INTO responses VALUES (?, 'kimi', ?, '', ?, ?, 'one', ?)",
            (name, prompt, response, reasoning, f"2026-11-17T08:00:0{name}"),
        )
    calls = [("1", "write", "a"), ("2", "bash", "b"), ("2", "bash", "c")]
    db.executemany("INSERT INTO tool_calls VALUES (NULL, ?, ?, '{}', ?)", calls)
    results = [("2", "write", "written", "a"), ("3", "bash", "4242", "b"), ("3", "bash", "today", "c")]
    db.executemany("INSERT INTO tool_results VALUES (NULL, ?, ?, ?, ?)", results)
    db.commit()
    db.close()


def _only(name: str, place: Place) -> SessionFile:
    (session,) = PROGRAMS[name].find(place)
    return session


def _read(name: str, folder: Path) -> Imported:
    return PROGRAMS[name].read(_only(name, program_home(name, folder)))


def _told(turn: Turn) -> str:
    words: list[str] = []
    for block in turn.blocks:
        match block:
            case Text():
                words.append(block.text)
            case Thinking():
                words.append(f"({block.text})")
            case ToolCall():
                words.append("call")
            case ToolResponse():
                said = "".join([part.text for part in block.content if isinstance(part, Text)])
                words.append(json.loads(said)["output"] if said.startswith("{") else said)
    return f"{turn.speaker}: {' '.join(words)}"


def _story(conversation: Conversation) -> list[str]:
    return [_told(turn) for turn in conversation.turns]


def test_every_program_has_a_sample() -> None:
    assert set(LEFT_OUT) == set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_session_is_found_and_read(name: str, tmp_path: Path) -> None:
    session = _only(name, program_home(name, tmp_path))
    assert session.program == name and Path(session.path).is_file()
    assert session.title in ("Note the tide.", "The tide")
    assert session.folder == ("" if name == "llm" else FOLDER)
    imported = PROGRAMS[name].read(session)
    assert _story(imported.entry.conversation) == STORY
    assert list(imported.left_out) == LEFT_OUT[name]
    calls = [block for turn in imported.entry.conversation.turns for block in turn.tool_calls]
    assert all(call.id.startswith("hist_tool_") for call in calls) and len({call.id for call in calls}) == 3
    assert imported.entry.original is not None and imported.entry.original.data


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_stored_with_its_original(name: str, tmp_path: Path) -> None:
    imported = _read(name, tmp_path)
    store = MemoryStore()
    stored = store.entry(store.add(imported.entry))
    assert stored.conversation.turns == imported.entry.conversation.turns
    assert stored.original == imported.entry.original


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_kind_of_model_takes_it(name: str, tmp_path: Path) -> None:
    """With a next question, as somebody would go on; in the strictest reading of every host's rules."""
    conversation = _read(name, tmp_path).entry.conversation
    asked = Conversation((*conversation.turns, Turn("human", (Text("And tomorrow?"),))))
    refused = {}
    for reader in CORE:
        player = PLAYERS[reader]
        request = encode_request(player.target, asked, tools=TOOLS)
        if problems := judge(request.body, player.host, "paranoid"):
            refused[reader] = str(problems[0])
    assert not refused


@pytest.mark.parametrize("name", PROGRAMS)
def test_nobody_finds_anything_where_nothing_is(name: str, tmp_path: Path) -> None:
    assert list(PROGRAMS[name].find(Place(tmp_path, {"LLM_USER_PATH": str(tmp_path)}))) == []


def test_reasoning_goes_back_to_the_model_that_the_name_says(tmp_path: Path) -> None:
    providers = {name: _read(name, tmp_path / name).entry.conversation.turns[1].origin for name in PROGRAMS}
    assert {name: origin.provider for name, origin in providers.items() if origin is not None} == {
        "claude-code": "anthropic", "codex": "openai", "gemini-cli": "gemini", "kimi-code": "moonshot",
        "opencode": "moonshot", "llm": "",
    }  # fmt: skip


@pytest.mark.parametrize("case", ODD, ids=[f"{case['program']}: {case['name']}" for case in ODD])
def test_what_a_file_may_hold_besides(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    lines = [json.dumps(record) for record in case["records"]]
    # The program may be writing the last line at this moment, and files get damaged.
    path.write_text("\n".join([*lines, "[]", "nonsense", '{"type":"user","message":{"ro']), "utf-8")
    imported = PROGRAMS[case["program"]].read(SessionFile(case["program"], "one", str(path)))
    said = [
        f"{turn.speaker} {' '.join([block.text for block in turn.blocks if isinstance(block, Text | Thinking)])}"
        for turn in imported.entry.conversation.turns
    ]
    assert said == case["said"]
    assert list(imported.left_out) == case["left_out"]


def test_a_seal_of_a_gateway_is_not_taken_for_a_signature(tmp_path: Path) -> None:
    case = next(case for case in ODD if case["name"] == "a gateway's seal")
    path = tmp_path / "session.jsonl"
    path.write_text("\n".join([json.dumps(record) for record in case["records"]]), "utf-8")
    turn = PROGRAMS["claude-code"].read(SessionFile("claude-code", "one", str(path))).entry.conversation.turns[1]
    thinking = turn.blocks[0]
    assert isinstance(thinking, Thinking) and thinking.signature is None and thinking.text == "Hm."
    assert turn.origin is not None and turn.origin.provider == ""


def test_opencode_goes_on_after_the_last_summary_and_before_what_was_reverted(tmp_path: Path) -> None:
    sample = json.loads((DATA / "opencode.json").read_bytes())
    sample["messages"] += [
        ["msg_5", {"role": "user"}],
        ["msg_6", {"role": "assistant", "summary": True, "parentID": "msg_5"}],
    ]
    sample["messages"] += [["msg_7", {"role": "user"}], ["msg_8", {"role": "user"}]]
    said = [("msg_5", "What was done?"), ("msg_6", "The summary."), ("msg_7", "Go on."), ("msg_8", "Taken back.")]
    sample["parts"] += [
        [f"prt_1{place}", name, {"type": "text", "text": text}] for place, (name, text) in enumerate(said)
    ]
    sample["session"]["revert"] = json.dumps({"messageID": "msg_8"})
    path = tmp_path / "new" / "opencode.db"
    _opencode(path, sample)
    imported = PROGRAMS["opencode"].read(SessionFile("opencode", sample["session"]["id"], str(path)))
    assert _story(imported.entry.conversation) == ["human: What was done?", "ai: The summary.", "human: Go on."]
    assert list(imported.left_out) == ["1 messages that were reverted", "4 messages from before a compaction"]


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ("llm", "opencode")])
@given(data=st.binary(max_size=300) | st.lists(st.recursive(st.none() | st.text(max_size=5), st.lists, max_leaves=5)).map(repr).map(str.encode))  # fmt: skip
def test_what_is_no_session_is_said_so(name: str, data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("odd") / "session.jsonl"
    path.write_bytes(data)
    with pytest.raises(StoreError):
        PROGRAMS[name].read(SessionFile(name, "one", str(path)))


@pytest.mark.parametrize("target", WRITERS)
@pytest.mark.parametrize("source", PROGRAMS)
def test_a_conversation_written_for_a_program_is_found_and_read_there(source: str, target: str, tmp_path: Path) -> None:
    conversation = _read(source, tmp_path / "from").entry.conversation
    write = PROGRAMS[target].write
    assert write is not None
    folder, place = tmp_path / "project", Place(tmp_path / "to")
    exported = write(conversation, place, folder)
    for path, data in exported.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    assert exported.id in exported.resume
    if target == "opencode":  # read by `opencode import`, which tests/clients does
        document = json.loads(next(iter(exported.files.values())))
        texts = [
            part["text"] for message in document["messages"] for part in message["parts"] if part["type"] == "text"
        ]
        assert texts == ["Note the tide.", "It is 4242, Captain."]
        outputs = [part["state"]["output"] for message in document["messages"] for part in message["parts"] if part["type"] == "tool"]  # fmt: skip
        assert [json.loads(said)["output"] if said.startswith("{") else said for said in outputs] == [
            "written",
            "4242",
            "today",
        ]
        return
    session = _only(target, place)
    assert session.id == exported.id and session.title == "Note the tide."
    read = _story(PROGRAMS[target].read(session).entry.conversation)
    # Reasoning goes back only to the model that made it, unless the program itself speaks to many.
    keeps = target == "kimi-code" or (source == target and target != "gemini-cli")
    silent = [line.replace("(I write it down.) ", "").replace("(Now both at once.) ", "") for line in STORY]
    assert read == (STORY if keeps else silent)


@pytest.mark.parametrize(
    ("folder", "start"),
    [("/home/me/app", "wd_app_"), ("/srv/My App!", "wd_my-app_"), ("/", "wd_root_"), ("/home/me/日本", "wd_root_")],
)
def test_kimi_code_keeps_the_sessions_of_a_folder_under_its_name(folder: str, start: str) -> None:
    from midstream.store.programs.kimi_code import _bucket

    name = _bucket(Path(folder))
    assert name.startswith(start) and len(name) == len(start) + 12
    assert name != _bucket(Path(folder) / "other")
