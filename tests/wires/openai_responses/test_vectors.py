"""What other projects expect of a Responses request: the same, or listed with the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from midstream import Conversation, Media, Text, Thinking, ToolCall, ToolResponse, ToolSpec, Turn
from midstream.core.blocks import Block, Origin
from midstream.dialects.openai_responses import GENERIC
from tests.shared_data import vectors
from tests.wires.drafts import encode_draft
from tests.wires.openai_responses.exceptions import KOSONG, REPAIR
from tests.wires.openai_responses.requests import normal

DIALECT = replace(GENERIC, system_role="developer", provider="p")
ORIGIN = Origin("p", "openai-responses", "m")
_MARKS = ("response.output_text", "response.output_item", "input_text", "function_call_output", "input_tokens_details")


def kosong() -> dict[str, dict[str, Any]]:
    found = vectors("streaming/kosong-convert-messages.json")
    return {name: vector for name, vector in found.items() if vector["target"] == "openai responses"}


def repairs() -> dict[str, dict[str, Any]]:
    found = vectors("ids/history_repair.json")
    return {name: vector for name, vector in found.items() if vector["layer"] == "openai responses input"}


def blocks_of(content: Any) -> list[Block]:
    if isinstance(content, str):
        return [Text(content)] if content else []
    made: list[Block] = []
    for part in content or ():
        match part["$"]:
            case "TextPart":
                made.append(Text(part["text"]))
            case "ThinkPart":
                made.append(Thinking(part["think"], "summary", encrypted=part.get("encrypted"), origin=ORIGIN))
            case "ImageURLPart":
                made.append(Media("image/*", url=part["image_url"]["url"]))
            case other:
                raise AssertionError(other)
    return made


def conversation_of(given: dict[str, Any]) -> Conversation:
    turns: list[Turn] = []
    for number, message in enumerate(given["history"]):
        blocks = blocks_of(message.get("content"))
        if message["role"] == "user":
            turns.append(Turn("human", tuple(blocks), key=str(number)))
        elif message["role"] == "assistant":
            calls = [
                ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
                for call in message.get("tool_calls") or ()
            ]
            turns.append(Turn("ai", (*blocks, *calls), key=str(number), origin=ORIGIN))
        else:
            response = ToolResponse(message["tool_call_id"], "", tuple(blocks))  # type: ignore[arg-type]
            held = turns.pop().blocks if turns[-1].speaker == "tool" else ()
            turns.append(Turn("tool", (*held, response), key=str(number)))
    return Conversation(tuple(turns), given.get("system") or "")


def tools_of(given: dict[str, Any]) -> list[ToolSpec]:
    return [ToolSpec(tool["name"], tool["description"], tool["parameters"]) for tool in given.get("tools") or ()]


def compared(body: dict[str, Any]) -> dict[str, Any]:
    """Input and tools in normal form; a list of one text is its text, `detail: auto` is the default."""
    found = normal({"input": body["input"], "tools": body.get("tools")})
    for item in found["input"]:
        output = item.get("output")
        if isinstance(output, list) and len(output) == 1 and output[0]["type"] == "input_text":
            item["output"] = output[0]["text"]
        for part in item.get("content") or ():
            if part.get("detail") == "auto":
                del part["detail"]
    return found


def agrees(vector: dict[str, Any]) -> bool:
    given = vector["input"]
    request = encode_draft(conversation_of(given), DIALECT, "m", tools=tools_of(given))
    return compared(json.loads(request.body)) == compared(vector["expected"])


def test_kosong_vectors() -> None:
    assert len(kosong()) == 9
    assert {name for name, vector in kosong().items() if not agrees(vector)} == set(KOSONG)


def test_the_listed_difference_is_only_the_joining_of_text_parts() -> None:
    vector = kosong()["kosong-openai_responses-parallel_tool_calls"]
    request = encode_draft(conversation_of(vector["input"]), DIALECT, "m", tools=tools_of(vector["input"]))
    ours, theirs = compared(json.loads(request.body)), compared(vector["expected"])
    for item in theirs["input"]:
        if item["type"] == "function_call_output":
            item["output"] = "\n".join(part["text"] for part in item["output"])
    assert ours == theirs


def neutral(history: list[dict[str, Any]]) -> tuple[Turn, ...]:
    turns = []
    for number, turn in enumerate(history):
        blocks: list[Block] = []
        for block in turn["blocks"]:
            if block["type"] == "tool_call":
                blocks.append(ToolCall(block["id"], block["name"], json.dumps(block["parameters"])))
            else:
                blocks.append(ToolResponse(block["callId"], block["toolName"], (Text(str(block["result"])),)))
        turns.append(Turn(turn["speaker"], tuple(blocks), key=str(number)))
    return tuple(turns)


def test_repair_vectors() -> None:
    assert len(repairs()) == 2
    for name, vector in repairs().items():
        turns = (Turn("human", (Text("q"),), key="q"), *neutral(vector["before"]))
        sent = json.loads(encode_draft(Conversation(turns), DIALECT, "m").body)["input"][1:]
        assert (len(sent) == len(vector["after"])) == (name not in REPAIR), name
    sent = json.loads(
        encode_draft(Conversation(neutral(repairs()["history_repair-026"]["before"])), DIALECT, "m").body
    )["input"]
    assert [item["type"] for item in sent] == ["function_call", "function_call_output"]


@pytest.mark.parametrize(
    "file",
    ["streaming/vercel-streams.json", "streaming/vercel-usage.json", "streaming/vercel-convert-messages.json",
     "ids/reasoning_context.json"],
)  # fmt: skip
def test_the_other_files_hold_no_vector_of_this_wire(file: str) -> None:
    """If one is added, it must be covered here."""
    text = {name: json.dumps(vector) for name, vector in vectors(file).items()}
    assert not [name for name, shown in text.items() if any(mark in shown for mark in _MARKS)]
