"""Seed 003: canonical tool ids, made once when a call comes in, mapped for each host on the way out."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import re
import tempfile
from base64 import urlsafe_b64encode
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from midstream import (
    Conversation,
    Session,
    ToolCall,
    ToolResponse,
    ToolSpec,
    Turn,
    decode_response,
    encode_request,
    human,
    tool_result,
)
from midstream.adapters import from_model_messages
from midstream.core.history import CallMatcher
from midstream.ids import (
    ToolIdStrategy,
    anthropic_strategy,
    canonical_tool_call_id,
    canonical_tool_response_id,
    from_own_id,
    kimi_strategy,
    mistral_strategy,
    standard_strategy,
)
from midstream.store import SqliteStore, read_history
from midstream.testing import Answer, Call, sim_server
from midstream.wires.request import parse_request
from tests.seeds.document import Document

DOCUMENT = Document("003", "Canonical Tool ID Implementation Plan")
yes, differs = DOCUMENT.yes, DOCUMENT.differs
ROOT = Path(__file__).parents[2]
GIVEN = ("moonshot", "functions.glob:0", "glob", "turn-1", 0)
SHAPE = re.compile(r"hist_tool_[a-zA-Z0-9_-]+")
LOOK = ToolSpec("look", "Look", {"type": "object", "properties": {}})


def one(strategy: ToolIdStrategy, id: str, name: str = "glob") -> str:
    call = ToolCall(id, name)
    return strategy.create_mapper([Turn("ai", (call,), key="a")]).resolve_tool_call_id(call)


def body(model: str, *turns: Turn) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(encode_request(model, Conversation(turns)).body)
    return decoded


def exchange(id: str = "hist_tool_abc") -> tuple[Turn, ...]:
    call = ToolCall(id, "glob", {})
    return human("hi"), Turn("ai", (call,), key="a"), Turn("tool", (tool_result(call, ["file.ts"]),), key="t")


@yes(
    "normalizes tool call IDs once at ingestion and uses provider-specific mapping only at the edge",
    "This removes point-to-point conversions while preserving deterministic pairing across providers (Kimi K2, Mistral, OpenAI, OpenAI Responses, Anthropic)",
)
def one_conversation_goes_through_all_five() -> None:
    models = ["moonshot/kimi-k2.5", "mistral/mistral-large-latest", "openai/gpt-4o", "openai-responses/gpt-4o"]
    models += ["anthropic/claude-sonnet-4-5"]

    with sim_server(*[Answer("", "Hm.", (Call("look"), Call("look")))] * (2 * len(models))) as sim:

        async def talk() -> Conversation:
            async with sim.client() as client, Session(models[0], tools=[LOOK], client=client) as session:
                for model in models * 2:
                    session.switch_model(model)
                    turn = await session.send("Go on")
                    await session.add(Turn("tool", tuple([tool_result(call, "x") for call in turn.tool_calls])))
                return session.conversation

        conversation = asyncio.run(talk())
        assert not sim.refused and sim.requests == 10
    ids = [call.id for turn in conversation.turns for call in turn.tool_calls]
    assert len(set(ids)) == 20 and all(map(SHAPE.fullmatch, ids))


@differs(
    "`midstream.ids` and `core/history.py`, beside the wires: one program, in Python",
    "packages/core/src/services/history/canonicalToolIds.ts",
    "packages/core/src/services/history/ContentConverters.ts",
    "packages/core/src/services/history/HistoryService.ts",
    "packages/core/src/core/geminiChat.ts",
    "packages/core/src/services/history/canonicalToolIds.test.ts",
)
@yes("canonicalizeToolCallId(input)", "canonicalizeToolResponseId(input)")
def the_two_functions_are_there() -> None:
    assert SHAPE.fullmatch(canonical_tool_call_id(*GIVEN)) and SHAPE.fullmatch(canonical_tool_response_id(*GIVEN))
    assert (ROOT / "src/midstream/core/ids.py").is_file() and (ROOT / "src/midstream/core/history.py").is_file()


@yes("Deterministic ID generation using base64url(sha256)", "Determinism for same input")
def the_same_input_gives_the_same_id() -> None:
    assert canonical_tool_call_id(*GIVEN) == canonical_tool_call_id(*GIVEN)
    assert len(urlsafe_b64encode(hashlib.sha256(b"").digest()[:18])) == len(canonical_tool_call_id(*GIVEN)) - len(
        "hist_tool_"
    )


@differs(
    "the first 24 characters of it: with the longest prefix that is 34, below every host's limit",
    "Canonical ID format: hist_tool_${hash} with allowed chars [a-zA-Z0-9_-]",
)
@yes("Assert canonical IDs match hist_tool_[a-zA-Z0-9_-]+")
def an_id_has_24_characters_behind_its_prefix() -> None:
    for raw in ("functions.glob:0", "", "é😀", "a b\n", "\ud800", "x" * 10_000):
        made = canonical_tool_call_id("p", raw, "f", "t", 0)
        assert SHAPE.fullmatch(made) and len(made) == 34


@yes(
    "Accept a stable turnKey (not array index)",
    "Ensure ContentConverters.toIContent receives a stable turnKey per message",
)
def a_key_is_no_place_in_an_array() -> None:
    """Also of what comes from outside: with its beginning cut, a history has the ids that it had."""
    assert answer("k").tool_calls[0].id == answer("k").tool_calls[0].id != answer("another").tool_calls[0].id
    messages = msgspec.json.encode(
        [
            {"role": "user", "content": "older"},
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": "list files"},
            {
                "role": "assistant",
                "tool_calls": [{"id": "functions.glob:0", "function": {"name": "glob", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "functions.glob:0", "content": '["file.ts"]'},
        ]
    )
    found: set[str] = set()
    for cut in (0, 2, 3):
        left = msgspec.json.encode(msgspec.json.decode(messages)[cut:])
        (entry,) = read_history(left, "openai")
        parsed = parse_request("openai-chat", b'{"model":"m","messages":%b}' % left).conversation
        for turns in (entry.conversation.turns, parsed.turns):
            assert turns[-2].tool_calls[0].id == turns[-1].tool_responses[0].call_id
            assert not any(turn.key.lstrip("m").isdigit() for turn in turns)
            found.add(turns[-1].tool_responses[0].call_id)
    assert len(found) == 1


@yes(
    "providerName?: string",
    "rawId?: string",
    "toolName?: string",
    "turnKey: string",
    "callIndex: number",
    "Missing inputs still valid",
)
def three_inputs_may_be_missing_and_two_may_not() -> None:
    assert SHAPE.fullmatch(canonical_tool_call_id(turn_key="turn-1", call_index=0))
    for given in ((None, None, None, "", 0), (None, "x", None, "t", 1), ("p", None, "f", "t", 2)):
        assert SHAPE.fullmatch(canonical_tool_call_id(*given)) and SHAPE.fullmatch(canonical_tool_response_id(*given))
    assert [*inspect.signature(canonical_tool_call_id).parameters] == [
        "provider",
        "raw_id",
        "tool_name",
        "turn_key",
        "call_index",
    ]
    for missing in ({"turn_key": "t"}, {"call_index": 0}):
        try:
            canonical_tool_call_id(**missing)  # type: ignore[call-overload]
        except TypeError as error:
            assert "needs turn_key and call_index" in str(error)
        else:
            raise AssertionError(missing)


@yes("Verify missing rawId or toolName still yields deterministic IDs")
def missing_inputs_are_deterministic() -> None:
    for given in ((None, None, None, "", 0), (None, "x", None, "t", 1), ("p", None, "f", "t", 2)):
        assert canonical_tool_call_id(*given) == canonical_tool_call_id(*given)


@differs(
    "so do other turns and positions, always: hosts repeat raw ids in every turn",
    "Different providers/raw IDs yield different outputs",
)
def every_input_counts() -> None:
    given = product(("a", "b"), ("0", "1"), ("f", "g"), ("t", "u"), (0, 1))
    assert len({canonical_tool_call_id(*each) for each in given}) == 32


@yes(
    "Replace normalizeToHistoryId with canonicalizer calls",
    "Use canonicalizeToolCallId with rawId, toolName, turnKey, and call index",
)
def a_call_that_comes_in_gets_its_id_from_these() -> None:
    (call,) = answer("k").tool_calls
    assert call.id == canonical_tool_call_id("moonshot", "functions.glob:0", "glob", "k", 0)


@differs(
    "of the call that the response answers: its raw id, name, key and index, never those of the response's own turn",
    "Use canonicalizeToolResponseId with rawId, toolName, turnKey, and call index",
)
def a_response_has_the_id_that_its_call_has() -> None:
    assert canonical_tool_response_id(*GIVEN) == canonical_tool_call_id(*GIVEN)
    turns = imported("functions.glob:0", "functions.read:1").turns
    assert [response.call_id for response in turns[2].tool_responses] == [call.id for call in turns[1].tool_calls]


@yes(
    "If rawId missing, resolve via position matcher and reuse call’s canonical ID",
    "Use existing position matcher to align tool responses with canonical tool calls",
)
def results_without_ids_find_their_calls_by_position() -> None:
    turns = imported("", "").turns
    first, second = turns[1].tool_calls
    assert [response.call_id for response in turns[2].tool_responses] == [first.id, second.id] and first.id != second.id
    matcher = CallMatcher(from_own_id)
    matcher.opened([first, second])
    assert [found.id for _ in range(2) if (found := matcher.claim("", "")) is not None] == [first.id, second.id]


@differs(
    "`ToolCall.raw_id` and `ToolCall.provider`, always",
    "Store raw provider ID and provider name in metadata if needed for debugging",
)
def the_hosts_own_id_is_kept_beside_it() -> None:
    (call,) = answer("k").tool_calls
    assert (call.raw_id, call.provider) == ("functions.glob:0", "moonshot")


@yes(
    "Replace generateHistoryId() with canonicalizer fallback to ensure no random IDs",
    "getIdGeneratorCallback() should yield canonical IDs derived from turnKey + call index",
)
def a_call_without_an_id_has_one_from_its_turn_and_index() -> None:
    bare = {"function": {"name": "glob", "arguments": "{}"}}
    first, second = [answer("k", bare).tool_calls[0].id for _ in range(2)]
    assert first == second == canonical_tool_call_id("moonshot", None, "glob", "k", 0)


@yes("Ensure non-tool history IDs are not affected (only tool_call/tool_response)")
def nothing_else_has_an_id() -> None:
    turns = imported("a", "b").turns
    assert all(
        not hasattr(block, "id")
        for turn in turns
        for block in turn.blocks
        if not isinstance(block, ToolCall | ToolResponse)
    )


@differs("`Turn.key`, stored with the turn", "Persist turnKey in IContent.metadata so replays are stable")
def the_key_is_stored_with_the_turn() -> None:
    with tempfile.TemporaryDirectory() as folder, sim_server(Answer(calls=(Call("look"),)), "Done.", "Again.") as sim:

        async def talk(*content: str, conversation: Conversation | None = None) -> None:
            store = SqliteStore(Path(folder) / "conversations.db")
            conversation = conversation and store.load(conversation.id)
            async with sim.client() as client:
                session = Session("openai/gpt-4o", tools=[LOOK], client=client, store=store, conversation=conversation)
                turn = await session.send(*content)
                if turn.tool_calls:
                    await session.add(Turn("tool", (tool_result(turn.tool_calls[0], "x"),)))
                    await session.send()
                kept.append(session.conversation)
            store.close()

        kept: list[Conversation] = []
        asyncio.run(talk("Look"))
        asyncio.run(talk("And now?", conversation=kept[0]))
        before, after = [seen.body["messages"] for seen in sim.seen[1:]]
        assert after[: len(before)] == before and before[1]["tool_calls"][0]["id"] == before[2]["tool_call_id"]
    assert kept[1].turns[:4] == kept[0].turns and all(turn.key for turn in kept[1].turns)


@yes("hist_tool_x → call_x", "normalizeToOpenAIToolId becomes prefix transformer", "Expect simple prefix mapping")
def openai_gets_another_prefix() -> None:
    _, assistant, tool = body("openai/gpt-4o", *exchange("hist_tool_x"))["messages"]
    assert assistant["tool_calls"][0]["id"] == tool["tool_call_id"] == "call_x" == one(standard_strategy, "hist_tool_x")


@yes("Use canonical suffix with call_ prefix for function_call and function_call_output IDs")
def responses_get_the_same() -> None:
    items = body("openai-responses/gpt-4o", *exchange())["input"]
    found = {item["type"]: item["call_id"] for item in items if "call_id" in item}
    assert found == {"function_call": "call_abc", "function_call_output": "call_abc"}


@yes(
    "normalizeToAnthropicToolId becomes prefix transformer",
    "hist_tool_x → toolu_x",
    "Expect direct toolu_ prefix with canonical suffix",
)
def anthropic_gets_its_prefix() -> None:
    _, assistant, results = body("anthropic/claude-sonnet-4-5", *exchange("hist_tool_x"))["messages"]
    assert assistant["content"][0]["id"] == results["content"][0]["tool_use_id"] == "toolu_x"
    assert one(anthropic_strategy, "hist_tool_x") == "toolu_x"


@yes("normalizeToHistoryToolId becomes passthrough for canonical IDs")
def ids_of_ours_that_come_back_are_known() -> None:
    canonical = canonical_tool_call_id(*GIVEN)
    assert from_own_id(canonical) == canonical
    for strategy in (standard_strategy, anthropic_strategy):
        assert from_own_id(one(strategy, canonical)) == canonical


@yes("Remove sanitization/fallback randomness since canonical IDs are already compliant", "No sanitization required")
def a_canonical_id_is_taken_as_it_is() -> None:
    canonical = canonical_tool_call_id(*GIVEN)
    suffix = canonical.removeprefix("hist_tool_")
    assert one(standard_strategy, canonical) == f"call_{suffix}"
    assert one(anthropic_strategy, canonical) == f"toolu_{suffix}"


@yes(
    "Kimi strategy uses canonical IDs as keys and maps to functions.{tool}:{index}",
    "Ensure createMapper uses the request tool call order (not history ordering)",
    "Kimi ID: stable index order based on outgoing request tool call order",
    "Kimi mapping uses canonical IDs and stable order",
)
def kimi_counts_through_the_request() -> None:
    calls = [ToolCall(f"hist_tool_{n}", name) for n, name in enumerate(("a", "b", "a"))]
    mapper = kimi_strategy.create_mapper([Turn("ai", (call,), key=call.id) for call in calls])
    backwards = [mapper.resolve_tool_call_id(call) for call in reversed(calls)]
    assert backwards == ["functions.a:2", "functions.b:1", "functions.a:0"]
    later = kimi_strategy.create_mapper([Turn("ai", (call,), key=call.id) for call in calls[1:]])
    assert [later.resolve_tool_call_id(call) for call in calls[1:]] == ["functions.b:0", "functions.a:1"]


@yes(
    "Mistral strategy should map canonical IDs to 9-char IDs deterministically",
    "Replace generateMistralToolId() with hash-based 9-char base62 truncation",
)
def mistral_gets_nine_characters() -> None:
    made = {one(mistral_strategy, canonical_tool_call_id("p", str(n), "f", "t", n)) for n in range(200)}
    assert len(made) == 200 and all(re.fullmatch(r"[a-zA-Z0-9]{9}", id) for id in made)
    assert one(mistral_strategy, "hist_tool_abc") == one(mistral_strategy, "hist_tool_abc")


@differs(
    "the nine lowest digits of half the hash, and an id that has nine letters and digits already, as Mistral's own, stays",
    "Mistral ID: base62(hash(canonicalId + salt)).slice(0, 9) with collision fallback",
)
@yes(
    "Add collision detection: if generated ID already used for a different canonical ID, rehash with a salt suffix until unique",
    "Mistral mapping is deterministic and handles collision fallback",
)
def two_ids_of_mistral_never_collide() -> None:
    taken = one(mistral_strategy, "hist_tool_abc")
    calls = ToolCall(taken, "f"), ToolCall("hist_tool_abc", "f")  # the first is nine characters long and stays as it is
    both = [mistral_strategy.create_mapper([Turn("ai", calls, key="a")]) for _ in range(2)]
    first, second = [[mapper.resolve_tool_call_id(call) for call in calls] for mapper in both]
    assert first == second and first[0] == taken != first[1] and re.fullmatch(r"[a-zA-Z0-9]{9}", first[1])


@yes("Ensure tool_call/tool_response pairing via canonical IDs")
def calls_and_results_are_paired() -> None:
    turns = imported("functions.glob:0", "functions.read:1").turns
    assert [call.id for call in turns[1].tool_calls] == [answer.call_id for answer in turns[2].tool_responses]
    assert all(SHAPE.fullmatch(answer.call_id) for answer in turns[2].tool_responses)


@yes("Verify replay stability with same turnKey")
def reading_twice_gives_the_same() -> None:
    assert imported("a", "b") == imported("a", "b")
    assert answer("k") == answer("k") and answer("k").key == "k"


@differs(
    "they stay: a history made elsewhere is canonicalized when it is read, its own ids kept beside",
    "Existing histories become incompatible by design",
    "If legacy histories must be supported, add a one-time canonicalization pass (not in scope)",
)
def older_histories_are_read() -> None:
    old = imported("hist_tool_functionsread_file3", "call_1")
    assert [call.raw_id for call in old.turns[1].tool_calls] == ["hist_tool_functionsread_file3", "call_1"]
    assert all(re.fullmatch(r"hist_tool_[\w-]{24}", call.id) for call in old.turns[1].tool_calls)


@differs(
    "the order of another program's work",
    "Introduce canonicalizer utility + tests.",
    "Update affected tests for new behavior.",
)
def the_tests_stand_beside_the_code() -> None:
    assert (ROOT / "tests/core/test_ids.py").is_file() and (ROOT / "tests/wires/test_outside_keys.py").is_file()


def answer(key: str, call: dict[str, Any] | None = None) -> Turn:
    call = call or {"id": "functions.glob:0", "type": "function", "function": {"name": "glob", "arguments": "{}"}}
    choice = {"index": 0, "message": {"role": "assistant", "tool_calls": [call]}, "finish_reason": "tool_calls"}
    said = msgspec.json.encode({"id": "x", "object": "chat.completion", "choices": [choice]})
    return decode_response(said, dialect="moonshot/kimi-k2-0905-preview", turn_key=key)


def imported(*ids: str) -> Conversation:
    """A history made elsewhere: two calls and their results."""
    calls = [
        {"type": "tool-call", "toolCallId": id, "toolName": name, "input": {}}
        for id, name in zip(ids, "fg", strict=True)
    ]
    output = {"type": "text", "value": "x"}
    results = [{"type": "tool-result", "toolCallId": id, "toolName": "", "output": output} for id in ids]
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": calls},
        {"role": "tool", "content": results},
    ]
    return from_model_messages(messages, "moonshot")
