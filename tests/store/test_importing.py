from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.core.blocks import Conversation, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from midstream.core.errors import StoreError
from midstream.core.history import repair
from midstream.core.ids import PREFIX
from midstream.store import FORMATS, Entry, MemoryStore, SqliteStore, import_file, read_history
from midstream.store.importing import looks_like

CALL = {"id": "functions.f:0", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}

OPENAI: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]},
    {"role": "assistant", "content": None, "reasoning_content": "", "tool_calls": [CALL, {**CALL, "id": "functions.g:1"}]},
    {"role": "tool", "tool_call_id": "functions.g:1", "content": "second"},
    {"role": "tool", "tool_call_id": "functions.f:0", "content": "first"},
    {"role": "developer", "content": "Now be kind."},
    {"role": "assistant", "content": "again", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "functions.f:0", "content": [{"type": "text", "text": "third"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "done"}, {"type": "mystery", "x": 1}]},
]  # fmt: skip

ANTHROPIC: dict[str, Any] = {
    "model": "claude-sonnet-4-5",
    "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "redacted_thinking", "data": "sealed"},
            {"type": "text", "text": "calling"},
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "no"}], "is_error": True},
            {"type": "text", "text": "go on"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        ]},
        {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]},
    ],
}  # fmt: skip

RESPONSES: dict[str, Any] = {
    "model": "gpt-5.2",
    "instructions": "Be brief.",
    "input": [
        {"role": "user", "content": "hi"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "sealed"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "calling"}]},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "no"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    ],
}  # fmt: skip

KIMI = [
    {"role": "_system_prompt", "content": "You are Kimi."},
    {"role": "_checkpoint", "id": 0},
    {"role": "user", "content": "hi"},
    {"role": "_usage", "token_count": 10},
    {"role": "assistant", "content": [{"type": "think", "think": "hm", "encrypted": None}, {"type": "text", "text": "x"}], "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "functions.f:0", "content": [{"type": "text", "text": "<system>ok</system>"}, {"type": "text", "text": "out"}]},
]  # fmt: skip


GEMINI = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}]},
        {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "calling"}, {"functionCall": {"name": "f", "args": {"a": 1}}},
                                    {"functionCall": {"name": "f", "args": {"a": 2}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "one"}}},
                                   {"functionResponse": {"name": "f", "response": {"output": "two"}}}]},
        {"role": "model", "parts": [{"text": "done"}]},
    ],
}  # fmt: skip


class TestGemini:
    """Without ids, as Gemini gives none: each result finds its call by its place."""

    @pytest.mark.parametrize("given", [GEMINI, GEMINI["contents"]], ids=["request", "contents"])
    @pytest.mark.parametrize("format", ["gemini", None])
    def test_reads_contents(self, given: Any, format: str | None) -> None:
        entry = only(given, format)
        assert entry.original is not None and entry.original.format == "gemini"
        talk = entry.conversation
        assert talk.system == ("Be brief." if given is GEMINI else "")
        assert speakers(talk) == ["human", "ai", "tool", "ai"]
        _, answer, results, _ = talk.turns
        assert (answer.thinking, answer.text) == ("hm", "calling")
        assert [call.arguments for call in answer.tool_calls] == ['{"a":1}', '{"a":2}']
        assert [call.id for call in answer.tool_calls] == [response.call_id for response in results.tool_responses]
        assert answer.origin is not None and answer.origin.provider == "gemini"

    @pytest.mark.parametrize(
        "given", [{"contents": [1]}, {"contents": [{"role": "assistant", "parts": []}]}, {"contents": [{"parts": [1]}]}]
    )
    def test_what_is_none_is_refused(self, given: Any) -> None:
        with pytest.raises(StoreError, match="history 1"):
            only(given, "gemini")


def only(data: Any, format: str | None = None, **options: Any) -> Entry:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    (entry,) = read_history(raw, format, **options)
    return entry


def jsonl(lines: list[Any]) -> bytes:
    return b"".join([json.dumps(line).encode() + b"\n" for line in lines])


def speakers(conversation: Conversation) -> list[str]:
    return [turn.speaker for turn in conversation.turns]


class TestOpenAI:
    def test_reads_messages(self) -> None:
        talk = only({"model": "kimi-k2.5", "messages": OPENAI}, provider="moonshot").conversation
        assert talk.system == "Be brief."
        assert speakers(talk) == ["human", "ai", "tool", "system", "ai", "tool", "ai"]
        first, answer, results, rule, *_, last = talk.turns
        assert first.blocks == (Text("hi"), Media("image/png", "aGk="))
        assert answer.origin is not None
        assert (answer.origin.provider, answer.origin.model) == ("moonshot", "kimi-k2.5")
        assert answer.blocks[0] == Thinking("", "reasoning_content", origin=answer.origin)
        assert [response.text for response in results.tool_responses] == ["second", "first"]
        assert (rule.role, rule.text) == ("developer", "Now be kind.")
        assert last.blocks[1] == Opaque("part", {"type": "mystery", "x": 1}, last.origin)

    def test_ids_are_canonical_and_paired_though_raw_ones_repeat(self) -> None:
        talk = only(OPENAI).conversation
        calls = [call for turn in talk.turns for call in turn.tool_calls]
        answers = {response.call_id: response.text for turn in talk.turns for response in turn.tool_responses}
        assert [call.raw_id for call in calls] == ["functions.f:0", "functions.g:1", "functions.f:0"]
        assert len({call.id for call in calls}) == 3
        assert all(call.id.startswith(PREFIX) for call in calls)
        assert [answers[call.id] for call in calls] == ["first", "second", "third"]

    def test_results_without_ids_are_matched_by_place(self) -> None:
        talk = only([
            {"role": "user", "content": "hi"},
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "old style"},
        ]).conversation  # fmt: skip
        assert talk.turns[1].tool_calls[0].id == talk.turns[2].tool_responses[0].call_id

    def test_a_null_is_nothing(self) -> None:
        said = {"role": "assistant", "content": "x", "tool_calls": None, "function_call": None, "refusal": None}
        assert only([said]).conversation.turns[0].blocks == (Text("x"),)

    def test_a_line_may_be_a_message_or_a_history(self) -> None:
        assert only(jsonl(OPENAI)).conversation == only(OPENAI).conversation
        histories = list(read_history(jsonl([{"messages": OPENAI}, {"messages": OPENAI[:2]}])))
        assert [len(entry.conversation.turns) for entry in histories] == [7, 1]
        assert histories[1].original is not None
        assert json.loads(histories[1].original.data) == {"messages": OPENAI[:2]}


class TestAnthropic:
    def test_reads_messages(self) -> None:
        talk = only(ANTHROPIC).conversation
        assert talk.system == (Text("Be brief."), Text("Be kind."))
        assert speakers(talk) == ["human", "ai", "tool", "human", "ai"]
        origin = talk.turns[1].origin
        assert origin is not None
        assert (origin.provider, origin.model) == ("anthropic", "claude-sonnet-4-5")
        thinking, redacted, text, call = talk.turns[1].blocks
        assert thinking == Thinking("hm", "thinking", "sig", origin=origin)
        assert redacted == Thinking("", "thinking", encrypted="sealed", redacted=True, origin=origin)
        assert text == Text("calling")
        assert isinstance(call, ToolCall)
        assert (call.name, json.loads(call.arguments), call.raw_id) == ("f", {"a": 1}, "toolu_1")
        assert talk.turns[2].blocks == (ToolResponse(call.id, "f", (Text("no"),), True, "toolu_1"),)
        assert talk.turns[3].blocks == (Text("go on"), Media("image/png", "aGk="))
        assert talk.turns[4].blocks[0] == Opaque("server_tool_use", ANTHROPIC["messages"][3]["content"][0], origin)


class TestResponses:
    def test_reads_items(self) -> None:
        talk = only(RESPONSES).conversation
        assert talk.system == "Be brief."
        assert speakers(talk) == ["human", "ai", "tool", "ai"]
        thinking, text, call = talk.turns[1].blocks
        assert isinstance(thinking, Thinking)
        assert (thinking.text, thinking.encrypted, thinking.extra) == ("hm", "sealed", {"item": {"id": "rs_1"}})
        assert text == Text("calling")
        assert isinstance(call, ToolCall)
        assert talk.turns[2].tool_responses[0].call_id == call.id
        assert isinstance(talk.turns[3].blocks[0], Opaque)

    def test_reads_bare_lists_answers_and_plain_input(self) -> None:
        assert only(RESPONSES["input"]).conversation.turns[0].text == "hi"
        assert only({"output": RESPONSES["input"][1:4]}).conversation.turns[0].text == "calling"
        assert only({"input": "just text"}).conversation.turns[0].text == "just text"
        assert only({"instructions": "Be brief."}).conversation == Conversation(system="Be brief.")


class TestKimi:
    def test_reads_a_context_file(self) -> None:
        talk = only(jsonl(KIMI)).conversation
        assert talk.system == "You are Kimi."
        assert speakers(talk) == ["human", "ai", "tool"]
        thinking, text, call = talk.turns[1].blocks
        assert isinstance(thinking, Thinking)
        assert (thinking.text, thinking.field) == ("hm", "reasoning_content")
        assert text == Text("x")
        assert isinstance(call, ToolCall)
        assert (call.provider, call.raw_id) == ("moonshot", "functions.f:0")
        assert talk.turns[2].tool_responses[0].content == (Text("<system>ok</system>"), Text("out"))

    def test_reads_parts_of_its_own(self) -> None:
        said = {"type": "think", "think": "hm", "encrypted": "sealed"}
        heard = {"type": "audio_url", "audio_url": {"url": "https://x/y.mp3"}}
        talk = only([{"role": "user", "content": [heard]}, {"role": "assistant", "content": [said, {"type": "new"}]}])
        asked, answer = talk.conversation.turns
        assert asked.blocks == (Media("audio/*", url="https://x/y.mp3"),)
        assert answer.blocks == (
            Thinking("hm", "reasoning_content", "sealed", origin=answer.origin),
            Opaque("part", {"type": "new"}, answer.origin),
        )


@pytest.mark.parametrize(
    ("document", "kind"),
    [(OPENAI, "openai"), (ANTHROPIC, "anthropic"), (RESPONSES, "responses"), (RESPONSES["input"], "responses"), (KIMI, "kimi")],
    ids=["openai", "anthropic", "responses", "items", "kimi"],
)  # fmt: skip
def test_formats_are_told_apart_and_the_original_is_kept(document: Any, kind: str) -> None:
    raw = json.dumps(document, indent=1).encode()
    entry = only(raw, name="file.json")
    assert entry.original is not None
    assert (entry.original.format, entry.original.data, entry.original.name) == (kind, raw, "file.json")
    assert only(raw, kind).conversation == entry.conversation
    assert repair(entry.conversation.turns).notes == [] or kind == "openai"
    assert all(turn.key for turn in entry.conversation.turns)


LINES = [b'{"role":"user","content":"one"}', b'{"role":"assistant","content":"half \\ud83d"}']


@pytest.mark.parametrize(
    ("data", "said"),
    [
        pytest.param(b'[{"role":"user","content":"half \\ud83d"}]', ["half \ufffd"], id="half a character"),
        pytest.param(b'[{"role":"user","content":"caf\xe9"}]', ["caf\ufffd"], id="bytes that are no UTF-8"),
        pytest.param(b'[{"role":"user","content":"two\nlines"}]', ["two\nlines"], id="a raw line break"),
        pytest.param(b'[{"role":"user","content":"x","score":NaN}]', ["x"], id="no number"),
        pytest.param(b"\n".join(LINES), ["one", "half \ufffd"], id="in one of several lines"),
        pytest.param(b"\xef\xbb\xbf" + LINES[0], ["one"], id="a mark of UTF-8"),
        pytest.param(LINES[0].decode().encode("utf-16"), ["one"], id="UTF-16"),
        pytest.param("\ufeff".encode("utf-16-be") + LINES[0].decode().encode("utf-16-be"), ["one"], id="UTF-16, the other way"),
    ],
)  # fmt: skip
def test_what_is_not_json_to_the_letter_is_read(data: bytes, said: list[str]) -> None:
    assert [turn.text for turn in only(data).conversation.turns] == said


class TestRefusals:
    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"", "the history is empty; expected"),
            (b" \n", "the history is empty; expected"),
            (b"hello", "neither JSON nor JSON lines"),
            (b'{"role":"user"}\nnot json', "line 2"),
            (b"[" * 100_000, "neither JSON nor JSON lines"),
            (b'"\\ud800"', "cannot tell the format"),
            (b"42", "cannot tell the format"),
            (b"[]", "cannot tell the format"),
            (b'{"recipes": []}', "cannot tell the format"),
            (b'[{"role": "wizard", "content": "x"}]', "cannot tell the format"),
            (b'[{"role": "user", "content": 7}]', "message 0, content: expected a list of objects, got int"),
            (b'[{"role": "user", "content": ["x"]}]', "message 0"),
            (b'[{"role": "assistant", "tool_calls": [{"id": "x"}]}]', "tool call: expected an object"),
            (b'[{"role": "assistant", "tool_calls": 7}]', "tool_calls: expected a list of objects, got int"),
            (b'{"messages": [{"role": "user", "content": "x"}], "system": 7}', "system: expected a list of objects"),
            (b'{"input": [{}]}', "item 0: expected a role or a type"),
            (b'{"input": [{"role": "user", "content": 7}]}', "item 0, content: expected a list of objects"),
        ],
    )
    def test_say_what_is_wrong(self, data: bytes, message: str) -> None:
        with pytest.raises(StoreError, match=message):
            list(read_history(data))

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b'{"recipes": []}', "history 1: expected a list of objects, got dict"),
            (b'[{"role": "user", "content": "x"}, null]', "history 1, number 1: expected an object, got NoneType"),
        ],
    )
    def test_say_what_is_wrong_where_the_format_is_named(self, data: bytes, message: str) -> None:
        with pytest.raises(StoreError, match=message):
            list(read_history(data, "openai"))

    def test_an_unknown_format_lists_the_known(self) -> None:
        with pytest.raises(StoreError, match=", ".join(FORMATS)):
            list(read_history(b"[]", "word"))

    def test_files_that_cannot_be_read(self, tmp_path: Path) -> None:
        for path, words in (
            (tmp_path / "missing", "no such file: '.*missing'"),
            (tmp_path, "cannot read .*: Is a directory"),
        ):
            with pytest.raises(StoreError, match=words):
                import_file(MemoryStore(), path)
        (tmp_path / "text").write_text("[]")
        with pytest.raises(StoreError, match=r"not a logs\.db"):
            import_file(MemoryStore(), tmp_path / "text", "llm")

    @given(st.binary(max_size=60) | st.recursive(
        st.none() | st.integers() | st.sampled_from(["user", "assistant", "tool", "text", "tool_use", "x", ""]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
            st.sampled_from(["role", "content", "type", "messages", "input", "tool_calls", "text", "source", "function", "id"]),
            inner, max_size=4),
        max_leaves=12,
    ).map(lambda value: json.dumps(value).encode()), st.sampled_from([None, *FORMATS]))  # fmt: skip
    @settings(max_examples=300, deadline=None)
    def test_garbage_gives_a_history_or_a_store_error(self, data: bytes, format: str | None) -> None:
        store = MemoryStore()
        try:
            for entry in read_history(data, format):
                store.add(entry)
        except StoreError:
            pass


LLM_SCHEMA = """
CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
CREATE TABLE responses (id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT, prompt_json TEXT, options_json TEXT,
    response TEXT, response_json TEXT, conversation_id TEXT, duration_ms INTEGER, datetime_utc TEXT);
"""
LLM_LATER = """
ALTER TABLE responses ADD COLUMN input_tokens INTEGER;
ALTER TABLE responses ADD COLUMN output_tokens INTEGER;
ALTER TABLE responses ADD COLUMN resolved_model TEXT;
ALTER TABLE responses ADD COLUMN reasoning TEXT;
CREATE TABLE attachments (id TEXT PRIMARY KEY, type TEXT, path TEXT, url TEXT, content BLOB);
CREATE TABLE prompt_attachments (response_id TEXT, attachment_id TEXT, "order" INTEGER);
CREATE TABLE fragments (id INTEGER PRIMARY KEY, hash TEXT, content TEXT, datetime_utc TEXT, source TEXT);
CREATE TABLE prompt_fragments (response_id TEXT, fragment_id INTEGER, "order" INTEGER);
CREATE TABLE tool_calls (id INTEGER PRIMARY KEY, response_id TEXT, tool_id INTEGER, name TEXT, arguments TEXT, tool_call_id TEXT);
CREATE TABLE tool_results (id INTEGER PRIMARY KEY, response_id TEXT, tool_id INTEGER, name TEXT, output TEXT,
    tool_call_id TEXT, instance_id INTEGER, exception TEXT);
"""
LLM_MESSAGES = """
CREATE TABLE messages (hash TEXT PRIMARY KEY, parent_hash TEXT, role TEXT, provider_metadata TEXT);
CREATE TABLE parts (id INTEGER PRIMARY KEY, message_hash TEXT, position INTEGER, type TEXT, tool_name TEXT, text TEXT, payload TEXT);
CREATE TABLE part_fragments (part_id INTEGER, fragment_id INTEGER, "order" INTEGER);
CREATE TABLE threads (id TEXT PRIMARY KEY, name TEXT, tip_message_hash TEXT, forked_from TEXT, datetime_utc TEXT);
CREATE TABLE turns (id TEXT PRIMARY KEY, thread_id TEXT, parent_message_hash TEXT, tip_message_hash TEXT, model TEXT,
    resolved_model TEXT, input_tokens INTEGER, output_tokens INTEGER, duration_ms INTEGER, datetime_utc TEXT);
"""


class TestLlm:
    @pytest.fixture
    def logs(self, tmp_path: Path) -> Path:
        path = tmp_path / "logs #1?.db"
        with closing(sqlite3.connect(path)) as db:
            db.executescript(LLM_SCHEMA)
            db.execute("INSERT INTO conversations VALUES ('conv', 'Weather talk', 'gpt-5')")
            add = "INSERT INTO responses (id, model, prompt, system, response, conversation_id, duration_ms, datetime_utc) VALUES (?,?,?,?,?,?,?,?)"
            db.execute(add, ("02", "gpt-5", "", None, "Sunny.", "conv", 7, "2025-01-01T00:00:02"))
            db.execute(add, ("01", "gpt-5", "weather?", "Be brief.", "", "conv", 5, "2025-01-01T00:00:01+00:00"))
            db.execute(add, ("00", "haiku", "alone", None, "yes", None, None, "2024-01-01T00:00:00"))
            db.commit()
        return path

    def test_reads_an_early_file(self, logs: Path) -> None:
        store = MemoryStore()
        alone, talk = import_file(store, logs)
        assert [turn.text for turn in store.load(alone).turns] == ["alone", "yes"]
        assert [turn.text for turn in store.load(talk).turns] == ["weather?", "Sunny."]
        assert (talk, store.load(talk).system, store.info(talk).title) == ("conv", "Be brief.", "Weather talk")
        assert store.info(talk).created == 1735689601.0
        assert store.info(talk).models == ("gpt-5",)

    @pytest.mark.parametrize("changed", [False, True])
    def test_a_file_that_was_attached_is_read_if_it_is_still_that_file(
        self, logs: Path, tmp_path: Path, changed: bool
    ) -> None:
        """A database may have come from anywhere, and name any file of this machine."""
        file = tmp_path / "dot.png"
        file.write_bytes(b"hi")
        digest = hashlib.sha256(b"changed since" if changed else b"hi").hexdigest()
        with closing(sqlite3.connect(logs)) as db:
            db.executescript(LLM_LATER)
            db.execute("INSERT INTO attachments VALUES (?, 'image/png', ?, NULL, NULL)", (digest, str(file)))
            db.execute("INSERT INTO prompt_attachments VALUES ('01', ?, 0)", (digest,))
            db.commit()
        with closing(SqliteStore(tmp_path / "mine.db")) as store:
            asked = store.entry(import_file(store, logs)[1]).conversation.turns[0]
        read = [block for block in asked.blocks if isinstance(block, Media)]
        assert read == ([] if changed else [Media("image/png", "aGk=")])
        assert any(isinstance(block, Opaque) for block in asked.blocks) is changed

    def test_reads_tools_reasoning_fragments_and_attachments(self, logs: Path, tmp_path: Path) -> None:
        with closing(sqlite3.connect(logs)) as db:
            db.executescript(LLM_LATER)
            db.execute(
                "UPDATE responses SET reasoning = 'hm', resolved_model = 'gpt-5-mini', input_tokens = 3 WHERE id = '01'"
            )
            db.execute("INSERT INTO fragments (id, content) VALUES (1, 'a fragment')")
            db.execute("INSERT INTO prompt_fragments VALUES ('01', 1, 0)")
            db.execute("INSERT INTO attachments VALUES ('a', 'image/png', NULL, NULL, x'6869')")
            db.execute("INSERT INTO attachments VALUES ('b', 'image/gif', NULL, 'https://x.example/b', NULL)")
            db.execute("INSERT INTO attachments VALUES ('c', NULL, '/home/me/c.pdf', NULL, NULL)")
            db.execute("INSERT INTO attachments VALUES ('d', 'text/plain', '/home/me/d', 'https://x.example/d', x'64')")
            for order, name in enumerate("abcd"):
                db.execute("INSERT INTO prompt_attachments VALUES ('01', ?, ?)", (name, order))
            db.execute(
                """INSERT INTO tool_calls VALUES (1, '01', 1, 'f', '{"a": 1}', 'call_1'), (2, '01', 1, 'f', '{}', NULL)"""
            )
            db.execute(
                "INSERT INTO tool_results VALUES (1, '02', 1, 'f', 'one', 'call_1', NULL, NULL), (2, '02', 1, 'f', 'two', NULL, NULL, 'Boom')"
            )
            db.commit()
        with closing(SqliteStore(tmp_path / "mine.db")) as store:
            talk = store.entry(import_file(store, logs)[1])
        asked, answer, results, last = talk.conversation.turns
        assert asked.blocks == (
            Text("a fragment"),
            Text("weather?"),
            Media("image/png", "aGk="),
            Media("image/gif", url="https://x.example/b"),
            # llm keeps the path only; a host can do nothing with it, and it is nobody's business there.
            Opaque("llm.attachment", {"id": "c", "type": None, "path": "/home/me/c.pdf", "url": None}),
            Media("text/plain", "ZA==", "https://x.example/d"),
        )
        assert answer.blocks[0] == Thinking("hm", origin=answer.origin)
        assert answer.usage is not None
        assert answer.usage.input == 3
        assert [call.raw_id for call in answer.tool_calls] == ["call_1", None]
        assert [(response.text, response.is_error) for response in results.tool_responses] == [
            ("one", False),
            ("two", True),
        ]
        assert [response.call_id for response in results.tool_responses] == [call.id for call in answer.tool_calls]
        assert [response.raw_id for response in results.tool_responses] == ["call_1", None]
        assert last == Turn(
            "ai", (Text("Sunny."),), last.key, origin=last.origin, latency_ms=7, answered_at=last.answered_at
        )
        assert answer.answered_at is not None and answer.answered_at == talk.created
        assert talk.original is not None
        kept = json.loads(talk.original.data)
        assert [row["id"] for row in kept["responses"]] == ["01", "02"]
        assert kept["responses"][1]["tool_results"][1]["exception"] == "Boom"

    def test_reads_the_message_store(self, logs: Path) -> None:
        with closing(sqlite3.connect(logs)) as db:
            db.executescript(LLM_LATER + LLM_MESSAGES)
            db.execute("INSERT INTO threads VALUES ('conv', 'Newer', 'm4', NULL, '2025-02-01T00:00:00+00:00')")
            db.execute(
                "INSERT INTO turns (id, thread_id, tip_message_hash, model) VALUES ('t1', 'conv', 'm2', 'gpt-5'), ('t2', 'conv', 'm4', 'gpt-5')"
            )
            db.execute("INSERT INTO fragments (id, content) VALUES (1, 'FRAGMENT')")
            roles = ["system", "user", "assistant", "tool", "assistant"]
            for number, role in enumerate(roles):
                db.execute(
                    "INSERT INTO messages VALUES (?, ?, ?, NULL)",
                    (f"m{number}", f"m{number - 1}" if number else None, role),
                )
            db.executemany("INSERT INTO parts VALUES (?, ?, ?, ?, ?, ?, ?)", [
                (1, "m0", 0, "text", None, "Be brief.", None),
                (2, "m1", 0, "text", None, None, '{"text_ref": [{"literal": "see "}, {"fragment": 1}, {"literal": "!"}]}'),
                (3, "m1", 1, "attachment", None, None, '{"attachment": "a"}'),
                (4, "m2", 0, "reasoning", None, "hm", None),
                (5, "m2", 1, "tool_call", "f", None, '{"arguments": {"a": 1}, "tool_call_id": "c1"}'),
                (6, "m3", 0, "tool_result", "f", None, '{"output": "no", "tool_call_id": "c1", "exception": "Boom"}'),
                (7, "m4", 0, "text", None, "Sunny.", None),
            ])  # fmt: skip
            db.execute("INSERT INTO part_fragments VALUES (2, 1, 0)")
            db.commit()
        store = MemoryStore()
        newer, alone = import_file(store, logs)
        assert [turn.text for turn in store.load(alone).turns] == ["alone", "yes"]
        talk = store.load(newer)
        assert (newer, store.info(newer).title, talk.system) == ("conv", "Newer", "Be brief.")
        asked, answer, result, last = talk.turns
        assert asked.blocks[0] == Text("see FRAGMENT!")
        assert isinstance(asked.blocks[1], Opaque)
        assert answer.origin is not None
        assert (answer.origin.model, answer.thinking) == ("gpt-5", "hm")
        (call,) = answer.tool_calls
        assert (call.name, json.loads(call.arguments)) == ("f", {"a": 1})
        assert result.blocks == (ToolResponse(call.id, "f", (Text("no"),), True, "c1"),)
        assert last.text == "Sunny."

    @pytest.mark.parametrize(
        ("carried", "is_whole"),
        [
            pytest.param(Turn("ai", (Thinking("why", signature="sig"), Text("Sunny."))), True, id="says the same"),
            pytest.param(Turn("ai", (Thinking("why", signature="sig"), Text("Rain."))), False, id="other words"),
            pytest.param(Turn("human", (Text("Sunny."),)), False, id="another speaker"),
        ],
    )
    def test_an_answer_of_our_plugin_is_whole_if_it_says_the_same(
        self, carried: Turn, is_whole: bool, logs: Path
    ) -> None:
        payload = {"provider_metadata": {"midstream": msgspec.to_builtins(carried)}}
        with closing(sqlite3.connect(logs)) as db:
            db.executescript(LLM_LATER + LLM_MESSAGES)
            db.execute("INSERT INTO threads VALUES ('conv', 'Newer', 'm0', NULL, '2025-02-01T00:00:00+00:00')")
            db.execute("INSERT INTO messages VALUES ('m0', NULL, 'assistant', NULL)")
            db.execute("INSERT INTO parts VALUES (1, 'm0', 0, 'text', NULL, 'Sunny.', ?)", (json.dumps(payload),))
            db.commit()
        store = MemoryStore()
        (answer,) = store.load(import_file(store, logs)[0]).turns
        assert (answer.speaker, answer.text) == ("ai", "Sunny.")
        assert [block.signature for block in answer.blocks if isinstance(block, Thinking)] == ["sig"] * is_whole

    def test_is_only_read(self, logs: Path) -> None:
        before = logs.read_bytes()
        import_file(MemoryStore(), logs)
        assert logs.read_bytes() == before

    def test_another_database_is_refused(self, tmp_path: Path) -> None:
        with closing(sqlite3.connect(tmp_path / "x.db")) as db:
            db.execute("CREATE TABLE recipes (name)")
        with pytest.raises(StoreError, match=r"not a logs\.db of llm"):
            import_file(MemoryStore(), tmp_path / "x.db")


LOOKS = {
    # what a history looks like -> histories that do
    "openai": (
        [{"role": role} for role in ("system", "developer", "user", "assistant", "tool", "function")],
        [{"role": "user", "content": "x"}],
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
    ),
    "anthropic": (
        {"system": "s", "messages": [{"role": "user", "content": "x"}]},
        *[
            [{"role": "assistant", "content": [{"type": kind}]}]
            for kind in ("tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use")
        ],
    ),
    "responses": (
        {"input": "x"}, {"output": []}, {"instructions": "x"},
        [{"role": "user", "content": "x"}, {"type": "function_call"}],
        [{"type": "message", "role": "user", "content": [{"type": "input_text"}]}],
        [{"type": "reasoning"}], [{"type": "item_reference"}], [{"type": "function_call_output"}],
    ),
    "kimi": (
        [{"role": "_checkpoint"}, {"role": "user", "content": "x"}],
        [{"role": "assistant", "content": [{"type": "think", "think": "x"}]}],
    ),
    None: ([], {}, 3, [3], [{"role": "user"}, 3], [{"role": "narrator"}], [{"role": 3}], {"messages": 3}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("format", "document"), [(name, each) for name, documents in LOOKS.items() for each in documents]
)
def test_what_a_history_looks_like(format: str | None, document: Any) -> None:
    assert looks_like(document) == format
