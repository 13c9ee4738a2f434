"""Turn keys of what comes from outside follow from what a turn says: older turns may be cut or added, and no other id changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.adapters import from_model_messages
from midstream.core.blocks import Conversation, Text, ToolCall, ToolResponse, Turn
from midstream.core.turn_digest import SaidKeys, said_by
from midstream.gateway.issued_ids import ClientCalls
from midstream.store import read_history
from midstream.wires.request import parse_request

Exchange = tuple[str, list[tuple[str, str, dict[str, Any]]], str]
"""What the user says, the calls (raw id, name, arguments), and what the model says at the end."""


def openai(talk: list[Exchange]) -> list[Any]:
    messages: list[Any] = []
    for said, calls, end in talk:
        messages.append({"role": "user", "content": said})
        if calls:
            made = [
                {
                    "id": raw,
                    "type": "function",
                    "function": {"name": name, "arguments": msgspec.json.encode(given).decode()},
                }
                for raw, name, given in calls
            ]
            messages.append({"role": "assistant", "content": None, "tool_calls": made})
            messages += [{"role": "tool", "tool_call_id": raw, "content": "ok"} for raw, _, _ in calls]
        messages.append({"role": "assistant", "content": end})
    return messages


def anthropic(talk: list[Exchange]) -> list[Any]:
    messages: list[Any] = []
    for said, calls, end in talk:
        messages.append({"role": "user", "content": said})
        if calls:
            made = [{"type": "tool_use", "id": raw, "name": name, "input": given} for raw, name, given in calls]
            messages.append({"role": "assistant", "content": made})
            messages.append(
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": raw, "content": "ok"} for raw, _, _ in calls],
                }
            )
        messages.append({"role": "assistant", "content": [{"type": "text", "text": end}]})
    return messages


def gemini(talk: list[Exchange]) -> list[Any]:
    contents: list[Any] = []
    for said, calls, end in talk:
        contents.append({"role": "user", "parts": [{"text": said}]})
        if calls:
            contents.append(
                {
                    "role": "model",
                    "parts": [{"functionCall": {"name": name, "args": given}} for _, name, given in calls],
                }
            )
            parts = [{"functionResponse": {"name": name, "response": {"output": "ok"}}} for _, name, _ in calls]
            contents.append({"role": "user", "parts": parts})
        contents.append({"role": "model", "parts": [{"text": end}]})
    return contents


def responses(talk: list[Exchange]) -> list[Any]:
    items: list[Any] = []
    for said, calls, end in talk:
        items.append({"role": "user", "content": said})
        items += [
            {"type": "function_call", "call_id": raw, "name": name, "arguments": msgspec.json.encode(given).decode()}
            for raw, name, given in calls
        ]
        items += [{"type": "function_call_output", "call_id": raw, "output": "ok"} for raw, _, _ in calls]
        items.append({"role": "assistant", "content": [{"type": "output_text", "text": end}]})
    return items


def ai_sdk(talk: list[Exchange]) -> list[Any]:
    messages: list[Any] = []
    for said, calls, end in talk:
        messages.append({"role": "user", "content": said})
        if calls:
            made = [
                {"type": "tool-call", "toolCallId": raw, "toolName": name, "input": given} for raw, name, given in calls
            ]
            results = [
                {"type": "tool-result", "toolCallId": raw, "toolName": name, "output": {"type": "text", "value": "ok"}}
                for raw, name, _ in calls
            ]
            messages += [{"role": "assistant", "content": made}, {"role": "tool", "content": results}]
        messages.append({"role": "assistant", "content": end})
    return messages


def imported(format: str, write: Callable[[list[Exchange]], list[Any]]) -> Callable[[list[Exchange]], Conversation]:
    def read(talk: list[Exchange]) -> Conversation:
        (entry,) = read_history(msgspec.json.encode(write(talk)), format)
        return entry.conversation

    return read


def parsed(
    wire: str, key: str, write: Callable[[list[Exchange]], list[Any]]
) -> Callable[[list[Exchange]], Conversation]:
    return lambda talk: parse_request(wire, msgspec.json.encode({"model": "m", key: write(talk)})).conversation


READ: dict[str, Callable[[list[Exchange]], Conversation]] = {
    "read_history openai": imported("openai", openai),
    "read_history kimi": imported("kimi", openai),
    "read_history anthropic": imported("anthropic", anthropic),
    "read_history gemini": imported("gemini", gemini),
    "read_history responses": imported("responses", responses),
    "from_model_messages": lambda talk: from_model_messages(ai_sdk(talk), "moonshot"),
    "openai-chat": parsed("openai-chat", "messages", openai),
    "anthropic": parsed("anthropic", "messages", anthropic),
    "gemini": parsed("gemini", "contents", gemini),
    "openai-responses": parsed("openai-responses", "input", responses),
    "ollama": parsed("ollama", "messages", openai),
    "cohere": parsed("cohere", "messages", openai),
}
calls = st.lists(
    st.tuples(
        st.sampled_from(["functions.f:0", "0", "call_1"]),
        st.sampled_from("fg"),
        st.fixed_dictionaries({"n": st.integers(0, 3)}),
    ),
    max_size=2,
    unique_by=lambda call: call[0],
)
talks = st.lists(
    st.tuples(st.sampled_from(["Go on.", "Look.", "And now?"]), calls, st.sampled_from(["Done.", "Hm."])),
    min_size=1,
    max_size=6,
)


def ids(conversation: Conversation, back: int) -> list[tuple[str, list[str], list[str]]]:
    """Keys and ids of the turns, the last one first."""
    turns = list(conversation.turns)[-back:] if back else []
    return [
        (turn.key, [call.id for call in turn.tool_calls], [response.call_id for response in turn.tool_responses])
        for turn in reversed(turns)
    ]


@pytest.mark.parametrize("way", READ)
@given(talks, st.integers(1, 5))
@settings(max_examples=60)
def test_cutting_or_adding_older_turns_changes_no_id_of_the_others(way: str, talk: list[Exchange], cut: int) -> None:
    read = READ[way]
    whole, rest = read(talk), read(talk[cut:]) if talk[cut:] else Conversation()
    kept = list(whole.turns)[len(whole.turns) - len(rest.turns) :]
    # Among equal turns the older one may be the one that was cut. A result is one with its call.
    gone = Counter(said_by(bare(turn)) for turn in whole.turns[: len(whole.turns) - len(kept)])
    again: set[str] = set()
    for before, after in zip(kept, rest.turns, strict=True):
        if gone[said_by(bare(before))]:
            again |= {call.id for call in before.tool_calls}
            continue
        assert before.key == after.key
        assert [call.id for call in before.tool_calls] == [call.id for call in after.tool_calls]
        for one, other in zip(before.tool_responses, after.tool_responses, strict=True):
            assert one.call_id == other.call_id or one.call_id in again
    # And no two turns share a key, nor two calls an id.
    keys = [turn.key for turn in whole.turns]
    made = [call.id for turn in whole.turns for call in turn.tool_calls]
    assert len(set(keys)) == len(keys) and len(set(made)) == len(made) and not any(key[1:].isdigit() for key in keys)
    assert read(talk) == whole


def bare(turn: Turn) -> Turn:
    """The turn with the ids that it came with."""
    blocks: list[Any] = []
    for block in turn.blocks:
        if isinstance(block, ToolCall):
            block = msgspec.structs.replace(block, id=block.raw_id or "")
        elif isinstance(block, ToolResponse):
            block = msgspec.structs.replace(block, call_id=block.raw_id or "")
        blocks.append(block)
    return msgspec.structs.replace(turn, blocks=tuple(blocks))


def test_the_same_turn_in_another_shape_has_the_same_ids() -> None:
    """Cache marks move with each request, texts come as strings or parts, and keys in any order."""
    call = {"type": "tool_use", "id": "toolu_x", "name": "f", "input": {"a": 1, "b": 2}}
    result = {"type": "tool_result", "tool_use_id": "toolu_x", "content": "ok"}
    marked = {"cache_control": {"type": "ephemeral"}}
    one = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    other = [
        {"role": "user", "content": [{"type": "text", "text": "Go", **marked}]},
        {"role": "assistant", "content": [{**call, "input": {"b": 2, "a": 1}, **marked}]},
        {"role": "user", "content": [{**result, "content": [{"type": "text", "text": "ok"}], **marked}]},
    ]
    found = [
        parse_request("anthropic", msgspec.json.encode({"model": "m", "messages": each})).conversation
        for each in (one, other)
    ]
    assert ids(found[0], 3) == ids(found[1], 3)


@pytest.mark.parametrize("speaker", ["human", "ai", "tool", "system"])
@given(st.text(max_size=8))
def test_a_plain_text_has_the_key_of_its_turn(speaker: Any, text: str) -> None:
    """The short way that most turns take."""
    assert SaidKeys().of_turn(Turn(speaker, (Text(text), Text("")))) == SaidKeys().of_turn(Turn(speaker, (Text(text),)))


def test_equal_turns_are_told_apart() -> None:
    turn = {"role": "assistant", "tool_calls": [{"id": "functions.f:0", "function": {"name": "f", "arguments": "{}"}}]}
    tool = {"role": "tool", "tool_call_id": "functions.f:0", "content": "ok"}
    talk = parse_request("openai-chat", msgspec.json.encode({"model": "m", "messages": [turn, tool] * 3})).conversation
    assert len({call.id for turn in talk.turns for call in turn.tool_calls}) == 3
    assert [turn.tool_responses[0].call_id for turn in talk.turns[1::2]] == [
        turn.tool_calls[0].id for turn in talk.turns[::2]
    ]


def test_a_gateways_history_keeps_its_ids_and_needs_no_other_keys() -> None:
    """Its calls are known by their wire, raw ids and names: clients rewrite everything else."""
    body = msgspec.json.encode({"model": "m", "messages": openai([("Go", [("c1", "f", {"a": 1})], "Done.")])})
    talk = parse_request("openai-chat", body, identity=ClientCalls("openai-chat")).conversation
    assert [call.id for turn in talk.turns for call in turn.tool_calls] == [GATEWAY_ID]
    assert [turn.key.partition("-")[0] for turn in talk.turns] == ["said", "calls", "turn", "said"]
    assert len({turn.key for turn in talk.turns}) == 4


GATEWAY_ID = "hist_tool_OUcn_-IOgaRvJBAnuGxlvBun"
"""As at ad19a45."""
