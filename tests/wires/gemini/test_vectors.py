"""Other projects' cases for Gemini: ours are the same, or the exception is listed with its reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from midstream.core.blocks import Conversation, Origin, ToolCall
from midstream.core.schemas import PASSES
from midstream.core.tools import ToolSpec
from midstream.dialects.gemini import GEMINI_25_FLASH
from midstream.wires.gemini.parse import parse_request
from midstream.wires.gemini.wire import DEFAULT
from midstream.wires.openai_chat.parse import read_messages
from tests.shared_data import vectors
from tests.wires.drafts import encode_draft
from tests.wires.gemini.exceptions import VECTORS

MODEL = "gemini-2.5-flash"
KOSONG = {
    key: vector
    for key, vector in vectors("streaming/kosong-convert-messages.json").items()
    if vector["target"] == "google genai"
}
BYPASS = vectors("ids/history_repair.json")["history_repair-028"]
NEVER_RUN = {
    key for key, vector in vectors("streaming/openclaw.json").items() if vector["input"].get("provider") == "google"
}  # a table of another project's settings: there is nothing to run


def conversation(given: dict[str, Any]) -> Conversation:
    messages = [{"role": "system", "content": given["system"]}] if given.get("system") else []
    signatures: dict[str, str] = {}
    for message in given["history"]:
        content = message["content"]
        if isinstance(content, list):
            content = [{"type": "text", "text": part["text"]} for part in content]
        messages.append({**message, "content": content})
        for call in message.get("tool_calls", ()):
            if call.get("extras"):
                signatures[call["id"]] = call["extras"]["thought_signature_b64"]
    read = read_messages(messages, Origin("gemini", "gemini", MODEL))
    turns = [
        replace(
            turn,
            blocks=tuple(
                replace(block, extra={"thoughtSignature": signatures[block.raw_id]})
                if isinstance(block, ToolCall) and block.raw_id in signatures
                else block
                for block in turn.blocks
            ),
        )
        for turn in read.turns
    ]
    return replace(read, turns=tuple(turns))


def plain(body: dict[str, Any]) -> dict[str, Any]:
    contents = json.loads(json.dumps(body["contents"]))
    for content in contents:
        for part in content["parts"]:
            for key in ("functionCall", "functionResponse"):
                part.get(key, {}).pop("id", None)
            if part.get("functionResponse", {}).get("parts") == []:
                del part["functionResponse"]["parts"]
    functions = [each for tool in body.get("tools", ()) for each in tool["functionDeclarations"]]
    return {
        "model": [content for content in contents if content["role"] == "model"],
        "user": [content for content in contents if content["role"] == "user"],
        "system": [part["text"] for part in body.get("systemInstruction", {"parts": []})["parts"] if part["text"]],
        "tools": [
            (f["name"], f["description"], PASSES["gemini"](f.get("parameters") or f["parameters_json_schema"]))
            for f in functions
        ],
    }


def outcome(vector: dict[str, Any]) -> dict[str, Any]:
    given = vector["input"]
    tools = [ToolSpec(tool["name"], tool["description"], tool["parameters"]) for tool in given.get("tools", ())]
    request = encode_draft(conversation(given), GEMINI_25_FLASH, MODEL, tools=tools)
    got, wanted = plain(json.loads(request.body)), plain(vector["expected"])
    return {key: (got[key], wanted[key]) for key in got if got[key] != wanted[key]}


@pytest.mark.parametrize("name", KOSONG)
def test_kosong(name: str) -> None:
    wrong = outcome(KOSONG[name])
    if name in VECTORS:
        assert set(wrong) == {"user"}, "the exception is about the result, or is none any more"
    else:
        assert not wrong


def test_only_the_first_call_of_a_turn_gets_the_bypass() -> None:
    parsed = parse_request(json.dumps({"contents": BYPASS["before"]}).encode())
    contents = json.loads(encode_draft(parsed.conversation, DEFAULT, "gemini-3-pro-preview").body)["contents"]
    for part in contents[1]["parts"]:
        del part["functionCall"]["id"]
    assert contents[:2] == BYPASS["after"]  # behind it stand the results that Gemini demands


def test_every_vector_of_this_wire_is_run_or_listed() -> None:
    assert set(KOSONG) | NEVER_RUN >= set(VECTORS)
    assert set(VECTORS) >= NEVER_RUN
    assert len(KOSONG) == 7
