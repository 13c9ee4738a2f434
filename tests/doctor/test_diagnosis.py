"""Every broken history is named and healed, and nobody refuses the healed copy."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import midstream.doctor
from midstream.core.blocks import Block, Conversation, Origin, Text, Thinking, ToolCall, ToolResponse, Turn, human
from midstream.doctor import Diagnosis, examine, heal, refusals
from midstream.store.importing import read_history
from midstream.store.protocol import Entry
from tests.core.histories import from_vector
from tests.long_run import in_share
from tests.shared_data import ROOT, own_vectors, vectors

OPENCLAW = "streaming/openclaw.json"
REPAIR = "ids/history_repair.json"
# lawful as they stand: the vector shows what a repair must leave alone, or a form only the wire gives
SOUND = {
    "history_repair-003": "its call has its result",
    "history_repair-011": "every call has its result; the vector is about what is appended",
    "history_repair-012": "no calls at all; the vector is about what is appended",
    "history_repair-013": "its call has its result",
    "history_repair-015": "both calls have their results",
    "history_repair-023": "an empty history breaks no law: there is nothing in it",
}


def histories() -> list[Any]:
    """Our own histories, and those of the two shared files, as (id, vector)."""
    found = list(own_vectors(REPAIR).items())
    if (ROOT / "vectors" / REPAIR).exists():
        found += [(name, vector) for name, vector in vectors(REPAIR).items() if "before" in vector]
        found += [
            (name, v)
            for name, v in vectors(OPENCLAW).items()
            if v["kind"].startswith("tool_") and "ids" not in v["input"]
        ]
    own = own_vectors(REPAIR)
    return [
        pytest.param(name, vector, id=name, marks=() if name in own or in_share(number) else pytest.mark.long)
        for number, (name, vector) in enumerate(found)
    ]


def diagnosis(vector: dict[str, Any]) -> Diagnosis:
    if "input" in vector:
        given = vector["input"]
        messages = given.get("messages") or [{"role": "assistant", "content": given["assistant_content"]}]
        return examine(Conversation(tuple([openclaw_turn(message) for message in messages])))
    before = vector["before"]
    if before and "speaker" in before[0]:
        return examine(Conversation(from_vector(before)))
    if before and "parts" in before[0]:
        return examine(Conversation(tuple([gemini_turn(content) for content in before])))
    wire = "anthropic" if vector["layer"] == "anthropic messages" else "openai"
    entry = imported(before, wire)
    return examine(entry.conversation, entry.original)


def imported(messages: list[dict[str, Any]], format: str) -> Entry:
    return next(iter(read_history(msgspec.json.encode(messages), format)))


def openclaw_turn(message: dict[str, Any]) -> Turn:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if message["role"] == "toolResult":
        texts = tuple([Text(part["text"]) for part in parts])
        return Turn("tool", (ToolResponse(message["toolCallId"], message["toolName"], texts),))
    blocks: list[Block] = []
    for part in parts:
        if part["type"] == "text":
            blocks.append(Text(part["text"]))
        else:
            given = part.get("arguments", part.get("input"))
            raw = "" if given is None else msgspec.json.encode(given).decode()
            blocks.append(ToolCall(part["id"], part["name"], raw))
    failure = message.get("stopReason") if message.get("stopReason") in ("error", "aborted") else ""
    return Turn("ai" if message["role"] == "assistant" else "human", tuple(blocks), failure=failure or "")


def gemini_turn(content: dict[str, Any]) -> Turn:
    blocks = [
        Text(part["text"]) if "text" in part else ToolCall(part["functionCall"]["name"], part["functionCall"]["name"])
        for part in content["parts"]
    ]
    return Turn("ai" if content["role"] == "model" else "human", tuple(blocks))


@pytest.mark.parametrize(("name", "vector"), histories())
def test_every_broken_history_is_named_and_healed(name: str, vector: dict[str, Any]) -> None:
    found = diagnosis(vector)
    if name in SOUND:
        assert not found.broken, found.findings
    else:
        assert found.broken, "nothing was found"
        assert all(finding.kind and finding.words for finding in found.findings)
    assert refusals(found.healed) == {}
    again = examine(found.healed)
    assert not again.broken, again.findings


def kinds(conversation: Conversation) -> set[str]:
    found = examine(conversation)
    assert refusals(found.healed) == {}
    assert examine(found.healed).findings == ()
    return {finding.kind for finding in (*found.findings, *found.cautions)}


CALL = ToolCall("call_1", "read_file", "{}")
RESULT = ToolResponse("call_1", "read_file", (Text("ok"),))
ASKED = human("go")
CLAUDE = Origin("anthropic", "anthropic", "claude-sonnet-4-5")
KIMI = Origin("moonshot", "openai-chat", "kimi-k2.5")


@pytest.mark.parametrize(
    ("kind", "turns"),
    [
        ("unanswered call", (ASKED, Turn("ai", (CALL,)))),
        ("orphan result", (ASKED, Turn("tool", (RESULT,)))),
        ("second result", (ASKED, Turn("ai", (CALL,)), Turn("tool", (RESULT, RESULT)))),
        ("repeated id", (ASKED, *(Turn("ai", (CALL,)), Turn("tool", (RESULT,))) * 2)),
        ("displaced result", (ASKED, Turn("ai", (CALL,)), human("wait"), Turn("tool", (RESULT,)))),
        ("failed answer", (ASKED, Turn("ai", (Text("so"),), failure="truncated"))),
        ("empty turn", (ASKED, Turn("ai", ()))),
        ("call outside an answer", (ASKED, Turn("tool", (CALL, RESULT)))),
        ("words among results", (ASKED, Turn("ai", (CALL,)), Turn("tool", (RESULT, Text("look"))))),
        ("blank text", (human(" "), Turn("ai", (Text("yes?"),)))),
        (
            "results out of order",
            (
                ASKED,
                Turn("ai", (CALL, ToolCall("call_2", "ls"))),
                Turn("tool", (ToolResponse("call_2", "ls", (Text("x"),)), RESULT)),
            ),
        ),
        ("broken arguments", (ASKED, Turn("ai", (ToolCall("call_1", "read_file", '{"a":'),)), Turn("tool", (RESULT,)))),
        ("invalid tool name", (ASKED, Turn("ai", (ToolCall("call_1", "read file!"),)), Turn("tool", (RESULT,)))),
        ("call without id", (ASKED, Turn("ai", (ToolCall("", "ls"),)), Turn("tool", (ToolResponse("", "ls"),)))),
        (
            "missing reasoning",
            (
                ASKED,
                Turn("ai", (Thinking("hm", "reasoning_content", origin=KIMI), Text("so")), origin=KIMI),
                ASKED,
                Turn("ai", (Text("and so"),), origin=KIMI),
            ),
        ),
        (
            "missing reasoning",
            (
                ASKED,
                Turn("ai", (Thinking("hm", "reasoning_content", origin=KIMI), Text("so")), origin=KIMI),
                ASKED,
                Turn("ai", (CALL,), origin=KIMI),
                Turn("tool", (RESULT,)),
            ),
        ),
        (
            "foreign signature",
            (
                ASKED,
                Turn("ai", (Thinking("hm", signature="EqRkLm", origin=CLAUDE), CALL), origin=CLAUDE),
                Turn("tool", (RESULT,)),
                Turn("ai", (Text("done"),), origin=KIMI),
            ),
        ),
    ],
)  # fmt: skip
def test_each_kind_of_break_has_its_name(kind: str, turns: tuple[Turn, ...]) -> None:
    assert kind in kinds(Conversation(turns))


def test_a_sound_history_is_called_sound() -> None:
    assert (
        kinds(Conversation((ASKED, Turn("ai", (CALL,)), Turn("tool", (RESULT,)), Turn("ai", (Text("ok"),))))) == set()
    )


def verdicts(found: Diagnosis) -> dict[str, str]:
    return {verdict.host: verdict.problems[0].message if verdict.problems else "" for verdict in found.verdicts}


def test_the_words_are_those_of_each_host() -> None:
    call = {"id": "functions.ls:0", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "functions.ls:0", "content": "a.txt"},
    ]
    entry = imported(messages, "openai")
    said = verdicts(examine(entry.conversation, entry.original))
    assert said["openai"] == "" and said["openai-responses"] == ""
    assert "String should match pattern '^[a-zA-Z0-9_-]+$'" in said["anthropic"]
    assert said["mistral"] == "Tool call id was functions.ls:0 but must be a-z, A-Z, 0-9, with a length of 9."
    assert said["moonshot-k2"] == "Invalid request: text content is empty"  # the file's own "", which our reading drops
    assert said["deepseek-reasoner"] == "Missing `reasoning_content` field in the assistant message at message index 1."


def test_a_hosts_own_seal_is_trusted_and_a_foreign_one_is_not() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "EqRkLmReal"}
    use = {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {}}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [thinking, use]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt"}]},
    ]
    entry = imported(messages, "anthropic")
    said = verdicts(examine(entry.conversation, entry.original))
    assert said["anthropic"] == ""
    assert "could not be verified" in said["openai-responses"]
    own = verdicts(examine(entry.conversation))
    assert own["anthropic"] == ""
    assert refusals(examine(entry.conversation, entry.original).healed) == {}


def test_the_healed_copy_keeps_what_was_said() -> None:
    turns = (
        human("go", " "),
        Turn("ai", (Thinking("hm", "reasoning_content"), CALL)),
        human("and?"),
        Turn("tool", (RESULT,)),
    )
    healed = examine(Conversation(turns, system="Be kind.")).healed
    assert healed.system == "Be kind."
    assert [turn.speaker for turn in healed.turns] == ["human", "ai", "tool", "human"]
    assert healed.turns[1].thinking == "hm" and healed.turns[2].tool_responses[0].text == "ok"
    assert healed.turns[1].tool_calls[0].id.startswith("hist_tool_")


@pytest.mark.parametrize(
    "data",
    [
        b'[{"role":"user","content":"half \\ud83d"},{"role":"assistant","content":"","score":NaN}]',
        b'{"role":"user","content":"half \\ud83d"}\n{"role":"assistant","content":""}',
        b'\xef\xbb\xbf[{"role":"user","content":"two\nlines"},{"role":"assistant","content":""}]',
    ],
)
def test_what_is_not_json_to_the_letter_is_examined(data: bytes) -> None:
    (entry,) = read_history(data)
    assert "blank content" in [finding.kind for finding in examine(entry.conversation, entry.original).findings]


def test_no_stale_entries() -> None:
    if (ROOT / "vectors" / REPAIR).exists():
        assert set(SOUND) <= {*vectors(REPAIR), *vectors(OPENCLAW)}


TEXTS = st.sampled_from(["", " ", "so", "a\nb"])
LABELS = st.sampled_from(["call_1", "call_2", "functions.ls:0", "0", "toolu_1|x", "", "x" * 70])
TOOL_NAMES = st.sampled_from(["ls", "read_file", "a.b", "", " cat ", "n" * 70])
ARGUMENTS = st.sampled_from(["{}", "", '{"a":', "[1]", '{"a":1}'])
MAKERS = st.sampled_from([None, KIMI, CLAUDE])
BLOCKS = st.one_of(
    st.builds(Text, TEXTS),
    st.builds(ToolCall, LABELS, TOOL_NAMES, ARGUMENTS),
    st.builds(lambda label, name, text: ToolResponse(label, name, (Text(text),)), LABELS, TOOL_NAMES, TEXTS),
    st.builds(
        lambda text, seal, origin: Thinking(text, "reasoning_content", seal, origin=origin),
        TEXTS, st.none() | st.just("EqRk"), MAKERS,
    ),
)  # fmt: skip
TURNS = st.builds(
    lambda speaker, blocks, origin, failure: Turn(speaker, tuple(blocks), origin=origin, failure=failure),
    st.sampled_from(["human", "ai", "tool"]),
    st.lists(BLOCKS, max_size=4),
    MAKERS,
    st.sampled_from(["", "", "", "truncated"]),
)


@given(st.lists(TURNS, max_size=6))
@settings(max_examples=120)
def test_whatever_the_history_the_healed_copy_is_sound_and_nobody_refuses_it(turns: list[Turn]) -> None:
    found = examine(Conversation(tuple(turns)))
    assert refusals(found.healed) == {}
    assert examine(found.healed).findings == ()
    assert heal(found.healed) == found.healed


def test_the_public_names_are_these() -> None:
    names = "SCENES Diagnosis Finding HandOff RecordedAnswer Verdict examine hand_offs heal naive_body read_answer refusals table with_raw_ids"
    assert midstream.doctor.__all__ == names.split()
    assert all(hasattr(midstream.doctor, name) for name in names.split())
