"""Sessions of other programs: found, read, accepted by every kind of model, and written so that the program finds them."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream import Conversation, Media, Text, Thinking, ToolCall, ToolResponse, Turn, encode_request, human
from midstream.doctor.matrix import TOOLS
from midstream.errors import StoreError
from midstream.sim.players import make_players
from midstream.sim.rules import judge
from midstream.store import MemoryStore
from midstream.store.programs import PROGRAMS, Imported, Place, SessionFile
from midstream.store.protocol import Entry
from tests.doctor.test_matrix import CORE
from tests.long_run import each_once

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
LINES = [name for name in PROGRAMS if (DATA / name).is_dir()]
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


def _refused(conversation: Conversation) -> dict[str, str]:
    """Who refuses it with a next question, as somebody would go on; in the strictest reading of every host's rules."""
    asked = Conversation((*conversation.turns, Turn("human", (Text("And tomorrow?"),))))
    refused = {}
    for reader in CORE:
        player = PLAYERS[reader]
        request = encode_request(player.target, asked, tools=TOOLS)
        if problems := judge(request.body, player.host, "paranoid"):
            refused[reader] = str(problems[0])
    return refused


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_kind_of_model_takes_it(name: str, tmp_path: Path) -> None:
    assert not _refused(_read(name, tmp_path).entry.conversation)


def _damaged(value: Any, place: int) -> Any:
    """A value of another type than the one that was there."""
    others = [None, 5, "", "5", [], {}, [5, None], [{"type": "text"}], [{"type": 5, "text": 7}], {"a": 1}]
    return others[place % len(others)] if not isinstance(value, dict) or place % 2 else {}


def _fields(value: Any) -> Iterator[tuple[Any, Any]]:
    """Where each value below this one stands: what holds it, and its key there."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _fields(inner)


@pytest.mark.parametrize("name", LINES)
def test_a_wrong_type_anywhere_is_no_crash_and_nobody_refuses_the_rest(name: str, tmp_path: Path) -> None:
    place = program_home(name, tmp_path)
    session = _only(name, place)
    path = Path(session.path)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    refused: dict[str, Any] = {}
    for number, record in enumerate(records):
        for place_in, (holder, key) in enumerate(list(_fields(record)), number):
            kept, holder[key] = holder[key], _damaged(holder[key], place_in)
            path.write_text("\n".join([json.dumps(each) for each in records]))
            list(PROGRAMS[name].find(place))
            # A file of which nothing is left says so; everything else that is raised fails the test.
            with suppress(StoreError):
                conversation = PROGRAMS[name].read(session).entry.conversation
                MemoryStore().add(Entry(conversation))
                refused |= {f"{number} {key} {holder[key]}": told for told in [_refused(conversation)] if told}
            holder[key] = kept
    assert not refused


@pytest.mark.parametrize("called", ["", "5", "no such name!"])
def test_a_call_with_an_odd_name_is_taken_by_everyone(called: str, tmp_path: Path) -> None:
    """Its result keeps the name that was stored with it, and hosts want the two to be the same."""
    place = program_home("llm", tmp_path)
    with closing(sqlite3.connect(_only("llm", place).path)) as db:
        db.execute("UPDATE tool_calls SET name = ?", (called,))
        db.commit()
    assert not _refused(PROGRAMS["llm"].read(_only("llm", place)).entry.conversation)


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
    assert list(imported.left_out) == ["3 lines that are damaged or not yet written to their end", *case["left_out"]]


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


@pytest.mark.parametrize("name", LINES)
def test_text_that_is_not_unicode_is_carried_with_replacements(name: str, tmp_path: Path) -> None:
    session = _only(name, program_home(name, tmp_path))
    path = Path(session.path)
    data = path.read_bytes().replace(b"It is 4242, Captain.", b"It is 4242\xff, \\ud83d Captain.")
    path.write_bytes(b"\xef\xbb\xbf" + data)
    imported = PROGRAMS[name].read(session)
    assert _story(imported.entry.conversation) == [*STORY[:-1], "ai: It is 4242\ufffd, \ufffd Captain."]
    assert list(imported.left_out) == LEFT_OUT[name]


@pytest.mark.parametrize("name", LINES)
def test_what_only_looks_like_a_session_is_not_listed(name: str, tmp_path: Path) -> None:
    place = program_home(name, tmp_path)
    session = _only(name, place)
    path = Path(session.path)

    def beside(label: str) -> Path:
        """Where a second session would be, or a second file of a folder that holds only one."""
        if name == "kimi-code":
            folder = path.parents[3] / label / "agents" / "main"
            folder.mkdir(parents=True)
            return folder / path.name
        return path.with_name(f"{path.stem}-{label}{path.suffix}")

    os.mkfifo(beside("pipe"))  # a reader would wait for ever
    beside("folder").mkdir()
    beside("gone").symlink_to(tmp_path / "nowhere")
    loop = beside("loop")
    loop.symlink_to(loop)
    beside("empty").touch()
    beside("noise").write_bytes(b"\x00\xff" * 5000)
    beside("nested").write_bytes(b"[" * 200_000)
    assert list(PROGRAMS[name].find(place)) == [session]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_files_of_the_program_are_left_as_they_were(name: str, tmp_path: Path) -> None:
    place = program_home(name, tmp_path)
    for path in tmp_path.rglob("*.db"):
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA journal_mode = WAL")  # as opencode has it

    def state() -> dict[str, tuple[bytes, int]]:
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    before = state()
    PROGRAMS[name].read(_only(name, place))
    assert state() == before


def test_a_database_is_read_with_what_is_still_in_its_log(tmp_path: Path) -> None:
    place = program_home("opencode", tmp_path)
    with closing(sqlite3.connect(_only("opencode", place).path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("UPDATE session SET title = 'Not yet in the file.'")
        db.commit()
        assert _only("opencode", place).title == "Not yet in the file."


def test_codex_lists_a_fork_by_its_own_id_and_no_subagents(tmp_path: Path) -> None:
    place = program_home("codex", tmp_path)
    path = Path(_only("codex", place).path)
    for source, own in (("cli", "fork"), ({"subagent": "review"}, "review")):
        head = {"type": "session_meta", "payload": {"id": own, "cwd": "/srv/fork", "source": source}}
        path.with_name(f"rollout-{own}.jsonl").write_bytes(json.dumps(head).encode() + b"\n" + path.read_bytes())
    found = {session.id: session.folder for session in PROGRAMS["codex"].find(place)}
    assert found == {"01a1e87a-0000-7000-8000-000000000001": FOLDER, "fork": "/srv/fork"}


def test_gemini_cli_finds_sessions_beside_a_document_that_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = program_home("gemini-cli", tmp_path)
    session = _only("gemini-cli", place)
    document = {"sessionId": "old", "messages": [{"id": "1", "type": "user", "content": "First."}]}
    older = Path(session.path).with_name("session-older.json")
    older.write_text(json.dumps(document) + " " * 10_000)
    assert {each.id for each in PROGRAMS["gemini-cli"].find(place)} == {session.id, "old"}
    monkeypatch.setattr("midstream.store.programs.program.LARGEST", 9_000)
    assert list(PROGRAMS["gemini-cli"].find(place)) == [session]


def test_opencode_names_the_latest_session_of_all_databases(tmp_path: Path) -> None:
    sample = json.loads((DATA / "opencode.json").read_bytes())
    for name, own, moment in (("opencode.db", "ses_a", 1000), ("opencode-dev.db", "ses_b", 2000), ("opencode-x.db", "ses_c", "soon")):  # fmt: skip
        sample["session"]["id"] = own
        _opencode(tmp_path / own / name, sample)
        with closing(sqlite3.connect(tmp_path / own / name)) as db:
            db.execute("UPDATE session SET time_updated = ?, title = NULL, directory = x'ff'", (moment,))
            db.commit()
        (tmp_path / "opencode").mkdir(exist_ok=True)
        (tmp_path / own / name).rename(tmp_path / "opencode" / name)
    (tmp_path / "opencode" / "opencode-broken.db").write_bytes(b"no database")
    found = list(PROGRAMS["opencode"].find(Place(tmp_path, {"XDG_DATA_HOME": str(tmp_path)})))
    assert [session.id for session in found] == ["ses_b", "ses_a", "ses_c"]
    assert {(session.title, session.folder) for session in found} == {("", "")}


def test_opencode_carries_images_of_results_and_tells_a_call_without_result(tmp_path: Path) -> None:
    sample = json.loads((DATA / "opencode.json").read_bytes())
    tools = [part for _, _, part in sample["parts"] if part["type"] == "tool"]
    tools[0]["state"]["attachments"] = [
        {"type": "file", "mime": "image/png", "url": "data:image/png;base64,iVBORw0KGgo="},
        {"type": "file", "mime": "image/png", "url": "file:///srv/project/tide.png"},
    ]
    tools[1]["state"] = {"status": "running", "input": {}}
    path = tmp_path / "new" / "opencode.db"
    _opencode(path, sample)
    imported = PROGRAMS["opencode"].read(SessionFile("opencode", sample["session"]["id"], str(path)))
    responses = [block for turn in imported.entry.conversation.turns for block in turn.blocks if isinstance(block, ToolResponse)]  # fmt: skip
    assert len(responses) == 2 and [type(part) for part in responses[0].content] == [Text, Media]
    assert list(imported.left_out) == ["1 parts of the kind 'file' that only name a file"]


def test_llm_is_read_whatever_its_columns_hold(tmp_path: Path) -> None:
    place = program_home("llm", tmp_path)
    with closing(sqlite3.connect(_only("llm", place).path)) as db:
        db.execute("UPDATE responses SET prompt = x'4e6f7465ff', datetime_utc = x'00' WHERE id = '1'")
        db.execute("UPDATE tool_calls SET tool_call_id = x'61ff' WHERE id = 1")
        db.execute("UPDATE conversations SET name = x'ff'")
        db.commit()
    imported = PROGRAMS["llm"].read(_only("llm", place))
    assert sorted(_story(imported.entry.conversation))[-1] == "tool: written"
    assert "human: Note\ufffd" in _story(imported.entry.conversation)
    MemoryStore().add(imported.entry)


def test_what_llm_only_names_is_told(tmp_path: Path) -> None:
    place = program_home("llm", tmp_path)
    with closing(sqlite3.connect(_only("llm", place).path)) as db:
        db.executescript(
            "CREATE TABLE attachments (id TEXT PRIMARY KEY, type TEXT, path TEXT, url TEXT, content BLOB);"
            'CREATE TABLE prompt_attachments (response_id TEXT, attachment_id TEXT, "order" INTEGER);'
            "INSERT INTO attachments VALUES ('a', 'image/png', '/gone.png', NULL, NULL);"
            "INSERT INTO prompt_attachments VALUES ('1', 'a', 0);"
        )
    told = "1 attachments, which llm only names: the files are gone or have changed"
    assert list(PROGRAMS["llm"].read(_only("llm", place)).left_out) == [told]


@pytest.mark.parametrize("name", LINES)
@given(data=st.binary(max_size=300) | st.lists(st.recursive(st.none() | st.text(max_size=5), st.lists, max_leaves=5)).map(repr).map(str.encode))  # fmt: skip
def test_what_is_no_session_is_said_so(name: str, data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("odd") / "session.jsonl"
    path.write_bytes(data)
    with pytest.raises(StoreError):
        PROGRAMS[name].read(SessionFile(name, "one", str(path)))


@each_once(("target", WRITERS), ("source", PROGRAMS))
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


def _written(target: str, folder: Path, conversation: Conversation) -> tuple[str, list[dict[str, Any]]]:
    write = PROGRAMS[target].write
    assert write is not None
    exported = write(conversation, Place(folder), folder)
    lines = b"\n".join(data for path, data in exported.files.items() if path.suffix in (".json", ".jsonl"))
    return exported.id, [json.loads(line) for line in lines.splitlines() if line.startswith(b"{")]


def test_codex_gets_an_id_that_carries_its_time(tmp_path: Path) -> None:
    before = time.time()
    written = uuid.UUID(_written("codex", tmp_path, Conversation((human("Hello"),)))[0])
    assert written.version == 7 and written.variant == uuid.RFC_4122
    assert int(before * 1000) <= written.int >> 80 <= int(time.time() * 1000)


def test_opencode_gets_ids_that_sort_before_its_own(tmp_path: Path) -> None:
    """Its own begin with the lower 48 bits of 4096 times the milliseconds."""
    before = int(time.time() * 1000) * 0x1000
    written = _written("opencode", tmp_path, Conversation((human("Hello"),)))[0]
    made = int(written.partition("_")[2][:12], 16)
    assert (made - before) & 0xFFFFFFFFFFFF < 60_000 * 0x1000


@pytest.mark.parametrize(("given", "args"), [("", {}), ('{"a": 1}', {"a": 1})])
def test_kimi_code_gets_the_arguments_of_a_call(given: str, args: dict[str, Any], tmp_path: Path) -> None:
    turns = (
        human("Go"),
        Turn("ai", (ToolCall("one", "look", given),)),
        Turn("tool", (ToolResponse("one", "look", (Text("seen"),)),)),
    )
    _, records = _written("kimi-code", tmp_path, Conversation(turns))
    assert f'"args": {json.dumps(args)}' in json.dumps(records)


@pytest.mark.parametrize("name", [*LINES, "opencode"])
def test_a_folder_that_is_closed_to_us_is_told(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = program_home(name, tmp_path)
    folder = PROGRAMS[name].folder(place)

    def closed(path: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", closed)
        begins = re.escape(repr(str(folder))[:-1])
        with pytest.raises(StoreError, match=f"cannot read {begins}.*: Permission denied"):
            list(PROGRAMS[name].find(place))
    shutil.rmtree(folder)
    folder.touch()
    assert list(PROGRAMS[name].find(place)) == []


def _odd(name: str, folder: Path) -> Imported:
    case = next(case for case in ODD if case["name"] == name)
    path = folder / "session.jsonl"
    path.write_text("\n".join([json.dumps(record) for record in case["records"]]), "utf-8")
    return PROGRAMS[case["program"]].read(SessionFile(case["program"], "one", str(path)))


def test_gemini_cli_forgets_who_answered_when_it_resumes_and_we_do_not(tmp_path: Path) -> None:
    turns = _odd("a resume, which writes the results again", tmp_path).entry.conversation.turns
    assert [turn.origin.model for turn in turns if turn.origin] == ["gemini-3-pro-preview"] * 2


def test_gemini_cli_lists_a_session_whose_beginning_ends_in_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = program_home("gemini-cli", tmp_path)
    session = _only("gemini-cli", place)
    path = Path(session.path)
    context = {"id": "0", "type": "user", "content": [{"text": "<session_context>\nHere."}]}
    with path.open("a") as file:
        file.write(json.dumps({"$set": {"messages": [context]}}) + "\n")
    monkeypatch.setattr("midstream.store.programs.program._HEAD", path.stat().st_size)
    assert _only("gemini-cli", place).title == session.title


@pytest.mark.parametrize("name", ["kimi-code", "opencode"])
def test_a_tool_that_failed_is_told_to_the_next_model(name: str, tmp_path: Path) -> None:
    """Where the wire has no field for it: the second of three results."""
    if name == "opencode":
        sample = json.loads((DATA / "opencode.json").read_bytes())
        tools = [part for _, _, part in sample["parts"] if part["type"] == "tool"]
        tools[1]["state"] = {"status": "error", "input": {}, "error": "no such file"}
        path = tmp_path / "new" / "opencode.db"
        _opencode(path, sample)
        session = SessionFile(name, sample["session"]["id"], str(path))
    else:
        session = _only(name, program_home(name, tmp_path))
        records = [json.loads(line) for line in Path(session.path).read_text().splitlines()]
        results = [record["event"] for record in records if record.get("event", {}).get("type") == "tool.result"]
        results[1]["result"]["isError"] = True
        Path(session.path).write_text("\n".join([json.dumps(record) for record in records]))
    turns = PROGRAMS[name].read(session).entry.conversation.turns
    told = [block.is_error for turn in turns for block in turn.blocks if isinstance(block, ToolResponse)]
    assert told == [False, True, False]


@pytest.mark.parametrize("own", ["/etc", "../..", "long" * 2000, "nul\0"])
def test_gemini_cli_s_sessions_may_be_called_anything(own: str, tmp_path: Path) -> None:
    session = _only("gemini-cli", program_home("gemini-cli", tmp_path))
    path = Path(session.path)
    path.write_text(path.read_text().replace(session.id, json.dumps(own)[1:-1]))
    assert PROGRAMS["gemini-cli"].read(session).entry.conversation.turns


@pytest.mark.parametrize("name", ["claude-code", "gemini-cli", "kimi-code", "opencode"])
def test_subagents_that_have_sessions_of_their_own_are_told(name: str, tmp_path: Path) -> None:
    place = program_home(name, tmp_path)
    session = _only(name, place)
    path = Path(session.path)
    if name == "opencode":
        with closing(sqlite3.connect(path)) as db:
            db.execute("INSERT INTO session (id, parent_id) VALUES ('ses_sub', ?)", (session.id,))
            db.commit()
    else:
        where = {
            "claude-code": path.with_suffix("") / "subagents" / "agent-1.jsonl",
            "gemini-cli": path.parent / session.id / "1.jsonl",
            "kimi-code": path.parents[1] / "agent-1" / "wire.jsonl",
        }[name]
        where.parent.mkdir(parents=True)
        where.write_bytes(path.read_bytes())
    assert _only(name, place) == session
    assert "1 subagents: what they answered is carried, but not how they came to it" in PROGRAMS[name].read(session).left_out  # fmt: skip


_IMAGE = "iVBORw0KGgo="
_WITH_IMAGE = Conversation(
    (
        Turn("human", (Text("What is this?"), Media("image/png", data=_IMAGE))),
        Turn("ai", (Text("A tide table."),)),
        human("Thanks."),
    )
)


def test_kimi_code_reads_and_gets_images_under_its_own_name(tmp_path: Path) -> None:
    _, records = _written("kimi-code", tmp_path, _WITH_IMAGE)
    url = f"data:image/png;base64,{_IMAGE}"
    assert {"type": "image_url", "imageUrl": {"url": url}} in records[1]["message"]["content"]
    turns = PROGRAMS["kimi-code"].read(_only("kimi-code", _home_with("kimi-code", tmp_path))).entry.conversation.turns
    assert [block.data for block in turns[0].blocks if isinstance(block, Media)] == [_IMAGE]


def test_kimi_code_keeps_larger_images_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = _home_with("kimi-code", tmp_path)
    session = _only("kimi-code", place)
    path = Path(session.path)
    blobs = path.parent / "blobs"
    blobs.mkdir()
    (blobs / "abc1").write_bytes(b"\x89PNG")
    (path.parent / "secret").write_bytes(b"none of it")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    (place_of,) = [part for part in records[1]["message"]["content"] if part["type"] == "image_url"]

    def read(url: str) -> tuple[list[str | None], list[str]]:
        place_of["imageUrl"] = {"url": url}
        path.write_text("\n".join([json.dumps(record) for record in records]))
        imported = PROGRAMS["kimi-code"].read(session)
        turn = imported.entry.conversation.turns[0]
        return [block.data for block in turn.blocks if isinstance(block, Media)], list(imported.left_out)

    assert read("blobref:image/png;abc1") == (["iVBORw=="], [])
    told = ["1 images or other media whose file is gone or too large"]
    for own in ("gone", "../secret", "long" * 2000, ""):
        assert read(f"blobref:image/png;{own}") == ([], told)
    assert read("blobref:") == ([], told)
    monkeypatch.setattr("midstream.store.programs.kimi_code.LARGEST", 4)
    assert read("blobref:image/png;abc1") == (["iVBORw=="], [])
    monkeypatch.setattr("midstream.store.programs.kimi_code.LARGEST", 3)
    assert read("blobref:image/png;abc1") == ([], told)


def _home_with(target: str, folder: Path) -> Place:
    """A home in which the conversation with an image was written for this program."""
    place = Place(folder / "home")
    write = PROGRAMS[target].write
    assert write is not None
    for path, data in write(_WITH_IMAGE, place, folder / "project").files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return place


def test_opencode_gets_images(tmp_path: Path) -> None:
    _, (document,) = _written("opencode", tmp_path, _WITH_IMAGE)
    parts = [part for part in document["messages"][0]["parts"] if part["type"] == "file"]
    assert [(part["mime"], part["url"]) for part in parts] == [("image/png", f"data:image/png;base64,{_IMAGE}")]


def test_codex_gets_every_content_as_a_list(tmp_path: Path) -> None:
    """It leaves out a message whose content is a plain text."""
    _, records = _written("codex", tmp_path, _WITH_IMAGE)
    contents = [record["payload"]["content"] for record in records if record["type"] == "response_item"]
    assert [[part.get("text") for part in content] for content in contents] == [
        ["What is this?", None], ["A tide table."], ["Thanks."],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("folder", "name"), [("my wörk.dir v1.0", "my-w-rk-dir-v1-0"), ("App", "app"), ("日本", "project")]
)
def test_gemini_cli_finds_its_project_by_the_folder(folder: str, name: str, tmp_path: Path) -> None:
    write = PROGRAMS["gemini-cli"].write
    assert write is not None
    base, place = tmp_path / ".gemini" / "tmp", Place(tmp_path)
    # Another folder of the same name was there before.
    (base / name).mkdir(parents=True)
    (base / name / ".project_root").write_text(f"/elsewhere/{folder}")
    first = write(_WITH_IMAGE, place, tmp_path / folder).files
    root = base / f"{name}-1" / ".project_root"
    assert first[root] == str(tmp_path / folder).encode() and len(first) == 2
    root.parent.mkdir()
    root.write_bytes(first[root])
    # Now it is known, and its file is left as it is.
    (again,) = write(_WITH_IMAGE, place, tmp_path / folder).files
    assert again.parent == root.parent / "chats"
