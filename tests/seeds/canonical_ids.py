"""Canonical tool ids: made once when a call comes in, mapped for each host on the way out."""

from __future__ import annotations

import asyncio
import re
import tempfile
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
from midstream.store import SqliteStore
from midstream.testing import Answer, Call, sim_server
from tests.seeds.table import Table

TABLE = Table(
    not_run={
        "Location: packages/core/src/services/history/canonicalToolIds.ts": "a file of another program",
        "Tests to Update": "files of another program; what they assert is checked here",
        "Ensure non-tool history IDs are not affected": "nothing but calls and their results has an id here",
        "Incremental Rollout": "the order of that program's work",
    },
    differs={
        "hist_tool_${hash} with allowed chars [a-zA-Z0-9_-]": "24 characters of the base64url(sha256)",
        "Existing histories become incompatible by design": (
            "they do not here: the one-time pass that was out of scope there is `midstream.adapters.from_model_messages`, "
            "and every import does it"
        ),
        "canonicalizeToolResponseId with rawId, toolName, turnKey and callIndex": "of the call, which is the one the response answers",
        "Kimi: createMapper uses the request tool call order (not history ordering)": (
            "K2's mapper is made for the turns that are sent, in the order they are sent in"
        ),
        "Persist turnKey in IContent.metadata so replays are stable": "`Turn.key`, stored with the turn",
        "Store raw provider ID and provider name in metadata": "`ToolCall.raw_id` and `ToolCall.provider`",
        "Different providers/raw IDs yield different outputs": "so do other turns and positions, because hosts repeat raw ids",
    },
)
checked = TABLE.checked
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
    call = ToolCall(id, "glob")
    return human("hi"), Turn("ai", (call,), key="a"), Turn("tool", (tool_result(call, "x"),), key="t")


@checked("Determinism for same input")
def _() -> None:
    assert canonical_tool_call_id(*GIVEN) == canonical_tool_call_id(*GIVEN)


@checked("Different providers/raw IDs yield different outputs")
def _() -> None:
    given = product(("a", "b"), ("0", "1"), ("f", "g"), ("t", "u"), (0, 1))
    assert len({canonical_tool_call_id(*each) for each in given}) == 32


@checked("Missing inputs still valid", "Verify missing rawId or toolName still yields deterministic IDs")
def _() -> None:
    for given in ((None, None, None, "", 0), (None, "x", None, "t", 1), ("p", None, "f", "t", 2)):
        assert SHAPE.fullmatch(canonical_tool_call_id(*given))
        assert canonical_tool_call_id(*given) == canonical_tool_call_id(*given)


@checked("hist_tool_${hash} with allowed chars [a-zA-Z0-9_-]", "Assert canonical IDs match hist_tool_[a-zA-Z0-9_-]+")
def _() -> None:
    for raw in ("functions.glob:0", "", "é😀", "a b\n", "\ud800", "x" * 10_000):
        assert SHAPE.fullmatch(canonical_tool_call_id("p", raw, "f", "t", 0))


@checked("Accept a stable turnKey (not array index)")
def _() -> None:
    def read(key: str) -> str:
        return _answer(key).tool_calls[0].id

    assert read("k") == read("k") != read("another")


@checked("canonicalizeToolResponseId with rawId, toolName, turnKey and callIndex")
def _() -> None:
    assert canonical_tool_response_id(*GIVEN) == canonical_tool_call_id(*GIVEN)


@checked("Store raw provider ID and provider name in metadata")
def _() -> None:
    (call,) = _answer("k").tool_calls
    assert (call.raw_id, call.provider) == ("functions.glob:0", "moonshot")
    assert call.id == canonical_tool_call_id("moonshot", "functions.glob:0", "glob", "k", 0)


@checked("If rawId missing, resolve via position matcher and reuse call's canonical ID")
def _() -> None:
    first, second = _imported("", "").turns[1].tool_calls
    answers = [block for block in _imported("", "").turns[2].blocks if isinstance(block, ToolResponse)]
    assert [answer.call_id for answer in answers] == [first.id, second.id] and first.id != second.id


@checked("Ensure tool_call/tool_response pairing via canonical IDs")
def _() -> None:
    turns = _imported("functions.glob:0", "functions.read:1").turns
    answers = [block for block in turns[2].blocks if isinstance(block, ToolResponse)]
    assert [call.id for call in turns[1].tool_calls] == [answer.call_id for answer in answers]
    assert all(SHAPE.fullmatch(answer.call_id) for answer in answers)


@checked("Persist turnKey in IContent.metadata so replays are stable")
def _() -> None:
    with tempfile.TemporaryDirectory() as folder, sim_server(Answer(calls=(Call("look"),)), "Done.", "Again.") as sim:

        async def talk(*content: str, conversation: Conversation | None = None) -> None:
            store = SqliteStore(Path(folder) / "conversations.db")
            conversation = conversation and store.load(conversation.id)
            async with sim.client() as client:
                model = "openai/gpt-4o"
                session = Session(model, tools=[LOOK], client=client, store=store, conversation=conversation)
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


@checked("Verify replay stability with same turnKey")
def _() -> None:
    assert _imported("a", "b") == _imported("a", "b")
    assert _answer("k") == _answer("k") and _answer("k").key == "k"


@checked(
    "Replace generateHistoryId() with canonicalizer fallback to ensure no random IDs",
    "getIdGeneratorCallback() should yield canonical IDs derived from turnKey + call index",
)
def _() -> None:
    bare = {"function": {"name": "glob", "arguments": "{}"}}
    first, second = [_answer("k", bare).tool_calls[0].id for _ in range(2)]
    assert first == second == canonical_tool_call_id("moonshot", None, "glob", "k", 0)


@checked("OpenAI: hist_tool_x → call_x")
def _() -> None:
    _, assistant, tool = body("openai/gpt-4o", *exchange())["messages"]
    assert (
        assistant["tool_calls"][0]["id"]
        == tool["tool_call_id"]
        == "call_abc"
        == one(standard_strategy, "hist_tool_abc")
    )


@checked("normalizeToHistoryToolId becomes passthrough for canonical IDs")
def _() -> None:
    canonical = canonical_tool_call_id(*GIVEN)
    assert from_own_id(canonical) == canonical
    for strategy in (standard_strategy, anthropic_strategy):
        assert from_own_id(one(strategy, canonical)) == canonical


@checked("OpenAI Responses: canonical suffix with call_ prefix for function_call and function_call_output IDs")
def _() -> None:
    items = body("openai-responses/gpt-4o", *exchange())["input"]
    found = {item["type"]: item["call_id"] for item in items if "call_id" in item}
    assert found == {"function_call": "call_abc", "function_call_output": "call_abc"}


@checked("Anthropic: hist_tool_x → toolu_x", "Expect direct toolu_ prefix with canonical suffix")
def _() -> None:
    _, assistant, results = body("anthropic/claude-sonnet-4-5", *exchange())["messages"]
    assert assistant["content"][0]["id"] == results["content"][0]["tool_use_id"] == "toolu_abc"
    assert one(anthropic_strategy, "hist_tool_abc") == "toolu_abc"


@checked("No sanitization required")
def _() -> None:
    canonical = canonical_tool_call_id(*GIVEN)
    suffix = canonical.removeprefix("hist_tool_")
    assert (
        one(standard_strategy, canonical) == f"call_{suffix}"
        and one(anthropic_strategy, canonical) == f"toolu_{suffix}"
    )


@checked(
    "Kimi mapping uses canonical IDs and stable order",
    "Kimi: createMapper uses the request tool call order (not history ordering)",
)
def _() -> None:
    calls = [ToolCall(f"hist_tool_{n}", name) for n, name in enumerate(("a", "b", "a"))]
    mapper = kimi_strategy.create_mapper([Turn("ai", (call,), key=call.id) for call in calls])
    backwards = [mapper.resolve_tool_call_id(call) for call in reversed(calls)]
    assert backwards == ["functions.a:2", "functions.b:1", "functions.a:0"]
    later = kimi_strategy.create_mapper([Turn("ai", (call,), key=call.id) for call in calls[1:]])
    assert [later.resolve_tool_call_id(call) for call in calls[1:]] == ["functions.b:0", "functions.a:1"]


@checked("Mistral: map canonical IDs to 9-char IDs deterministically")
def _() -> None:
    made = {one(mistral_strategy, canonical_tool_call_id("p", str(n), "f", "t", n)) for n in range(200)}
    assert len(made) == 200 and all(re.fullmatch(r"[a-zA-Z0-9]{9}", id) for id in made)
    assert one(mistral_strategy, "hist_tool_abc") == one(mistral_strategy, "hist_tool_abc")


@checked("Mistral mapping is deterministic and handles collision fallback")
def _() -> None:
    taken = one(mistral_strategy, "hist_tool_abc")
    calls = ToolCall(taken, "f"), ToolCall("hist_tool_abc", "f")  # the first is nine characters long and stays as it is
    both = [mistral_strategy.create_mapper([Turn("ai", calls, key="a")]) for _ in range(2)]
    first, second = [[mapper.resolve_tool_call_id(call) for call in calls] for mapper in both]
    assert first == second and first[0] == taken != first[1] and re.fullmatch(r"[a-zA-Z0-9]{9}", first[1])


@checked("preserving deterministic pairing across providers (Kimi K2, Mistral, OpenAI, OpenAI Responses, Anthropic)")
def _() -> None:
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


@checked("Existing histories become incompatible by design")
def _() -> None:
    old = _imported("hist_tool_functionsread_file3", "call_1")
    assert [call.raw_id for call in old.turns[1].tool_calls] == ["hist_tool_functionsread_file3", "call_1"]


def _answer(key: str, call: dict[str, Any] | None = None) -> Turn:
    call = call or {"id": "functions.glob:0", "type": "function", "function": {"name": "glob", "arguments": "{}"}}
    choice = {"index": 0, "message": {"role": "assistant", "tool_calls": [call]}, "finish_reason": "tool_calls"}
    answer = msgspec.json.encode({"id": "x", "object": "chat.completion", "choices": [choice]})
    return decode_response(answer, dialect="moonshot/kimi-k2-0905-preview", turn_key=key)


def _imported(*ids: str) -> Conversation:
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
