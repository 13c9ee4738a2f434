"""When the events of a call come, told by a host that sends one chunk at a time: no clock, no sleeps.

After each chunk the table says which events must be out. A call streams while it arrives; its end comes with the next block
or the finish reason, never with usage, [DONE] or the end of the bytes.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from midstream import ToolSpec, make_decoder
from midstream.core.events import Done, ErrorEvent, Event, TextDelta, ToolCallDelta, ToolCallEnd, ToolCallStart

TOOLS = [ToolSpec(name, "", {"type": "object", "properties": {"a": {"type": "integer"}}}) for name in ("f", "g")]


def chat(**delta: Any) -> dict[str, Any]:
    return {"id": "x", "choices": [{"index": 0, "delta": delta}]}


def call(index: int, arguments: str | None = None, name: str | None = None, id: str | None = None) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return chat(tool_calls=[{"index": index, **({"id": id} if id else {}), "function": function}])


def finish(reason: str) -> dict[str, Any]:
    return {"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


USAGE = {"id": "x", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}


def item(index: int, name: str, arguments: str = "") -> dict[str, Any]:
    return {"type": "function_call", "id": f"fc_{index}", "call_id": f"c{index}", "name": name, "arguments": arguments}


def arguments(index: int, delta: str) -> dict[str, Any]:
    return {
        "type": "response.function_call_arguments.delta",
        "output_index": index,
        "item_id": f"fc_{index}",
        "delta": delta,
    }


def added(index: int, name: str) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item(index, name)}


def done(index: int, name: str, arguments: str) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item(index, name, arguments)}


def tool_use(index: int, name: str) -> dict[str, Any]:
    block = {"type": "tool_use", "id": f"t{index}", "name": name, "input": {}}
    return {"type": "content_block_start", "index": index, "content_block": block}


def json_piece(index: int, text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": text}}


STOPPED = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}}


def part(**fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [fields]}}]}


def completion(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"id": "x", "choices": [{"text": text, **({"finish_reason": finish} if finish else {})}]}


# wire (and dialect) -> cases -> (chunk, the events it brings: S0 start, D0 delta, E0 end of call 0, T text, ! error, . done)
CASES: dict[str, tuple[str, list[tuple[Any, str]]]] = {
    "chat, one after the other": ("openai-chat", [
        (call(0, "", "f", "c0"), "S0"), (call(0, '{"a":'), "D0"), (call(0, "1}"), "D0"), (call(1, "", "g", "c1"), "E0 S1"),
        (call(1, '{"a"'), "D1"), (call(1, ":2}"), "D1"), (finish("tool_calls"), "E1"), (USAGE, ""), ("[DONE]", "."),
    ]),
    "chat, interleaved": ("openai-chat", [
        (call(0, '{"a":', "f", "c0"), "S0 D0"), (call(1, '{"a":', "g", "c1"), ""), (call(1, "2"), ""),
        (call(0, "1}"), "D0 E0 S1 D1 D1"), (call(1, "}"), "D1"), (finish("tool_calls"), "E1"), (USAGE, ""), ("[DONE]", "."),
    ]),
    "chat, three of which the middle one is complete before the first": ("openai-chat", [
        (call(0, '{"a":', "f", "c0"), "S0 D0"), (call(1, "{}", "g", "c1"), ""), (call(2, "{", "f", "c2"), ""),
        (call(0, "1}"), "D0 E0 S1 D1 E1 S2 D2"), (call(2, "}"), "D2"), (finish("tool_calls"), "E2"), ("[DONE]", "."),
    ]),
    "chat, a late name": ("openai-chat", [
        (call(0, "{}", None, "c0"), ""), (call(1, "{}", "g", "c1"), ""), (call(0, "", "f"), "S0 D0 E0 S1 D1"),
        (finish("tool_calls"), "E1"), ("[DONE]", "."),
    ]),
    "chat, text behind a call": ("openai-chat", [
        (call(0, "{}", "f", "c0"), "S0 D0"), (chat(content="so"), "E0 T"), (finish("stop"), ""), ("[DONE]", "."),
    ]),
    "chat, text in the middle of a call": ("openai-chat", [
        (call(0, "{", "f", "c0"), "S0 D0"), (chat(content="so"), ""), (call(0, "}"), "D0 E0 T"), (finish("stop"), ""),
        ("[DONE]", "."),
    ]),
    "chat, no arguments at all": ("openai-chat", [
        (call(0, "", "f", "c0"), "S0"), (call(1, "", "g", "c1"), ""), (finish("tool_calls"), "E0 S1 E1"), (USAGE, ""),
        ("[DONE]", "."),
    ]),
    "chat, arguments after the end": ("openai-chat", [
        (call(0, "{}", "f", "c0"), "S0 D0"), (call(1, "{", "g", "c1"), "E0 S1 D1"), (call(0, " "), ""), (call(0, "x"), "E1 !"),
    ]),
    "chat, arguments after the finish reason": ("openai-chat", [
        (call(0, "{", "f", "c0"), "S0 D0"), (finish("tool_calls"), "E0"), (call(0, "}"), "!"),
    ]),
    "responses, one after the other": ("openai-responses", [
        (added(0, "f"), "S0"), (arguments(0, '{"a":1}'), "D0"), (done(0, "f", '{"a":1}'), "E0"), (added(1, "g"), "S1"),
        (arguments(1, "{"), "D1"), (arguments(1, "}"), "D1"), (done(1, "g", "{}"), "E1"),
        ({"type": "response.completed", "response": {"id": "x", "status": "completed", "output": []}}, "."),
    ]),
    "responses, the first one's item is done last": ("openai-responses", [
        (added(0, "f"), "S0"), (arguments(0, "{}"), "D0"), (added(1, "g"), "E0 S1"), (arguments(1, "{}"), "D1"),
        (done(1, "g", "{}"), "E1"), (done(0, "f", "{}"), ""),
        ({"type": "response.completed", "response": {"id": "x", "status": "completed", "output": []}}, "."),
    ]),
    "anthropic, one after the other": ("anthropic", [
        ({"type": "message_start", "message": {"id": "m"}}, ""), (tool_use(0, "f"), "S0"), (json_piece(0, "{"), "D0"),
        (json_piece(0, "}"), "D0"), ({"type": "content_block_stop", "index": 0}, "E0"), (tool_use(1, "g"), "S1"),
        (json_piece(1, "{}"), "D1"), ({"type": "content_block_stop", "index": 1}, "E1"), (STOPPED, ""),
        ({"type": "message_stop"}, "."),
    ]),
    "anthropic, blocks that are never stopped": ("anthropic", [
        (tool_use(0, "f"), "S0"), (json_piece(0, "{}"), "D0"), (tool_use(1, "g"), "E0 S1"), (json_piece(1, "{}"), "D1"),
        (STOPPED, "E1"), ({"type": "message_stop"}, "."),
    ]),
    "gemini": ("gemini", [
        (part(functionCall={"name": "f", "args": {"a": 1}}), "S0 D0 E0"), (part(functionCall={"name": "g"}), "S1 D1 E1"),
        ({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 1}}, ""), (None, "."),
    ]),
    "gemini, arguments in parts": ("gemini", [
        (part(functionCall={"name": "f", "willContinue": True}), "S0"),
        (part(functionCall={"partialArgs": [{"jsonPath": "$.a", "numberValue": 1}], "willContinue": True}), ""),
        ({"candidates": [{"finishReason": "STOP"}]}, "D0 E0"), ({"usageMetadata": {"promptTokenCount": 1}}, ""), (None, "."),
    ]),
    "ollama": ("ollama", [
        ({"message": {"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}}, "S0 D0 E0"),
        ({"message": {"tool_calls": [{"function": {"name": "g", "arguments": {}}}]}}, "S1 D1 E1"), ({"done": True}, "."),
    ]),
    "a raw completion": ("completions-kimi-k2", [
        (completion("<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"), "S0 D0"),
        (completion('"a":'), "D0"), (completion("1}<|tool_call_end|>"), "D0 E0"),
        (completion("<|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{"), "S1 D1"), (completion("}"), "D1"),
        (completion("", "stop"), "E1"), ({**USAGE, "choices": []}, ""), ("[DONE]", "."),
    ]),
    "a leaked call without its end": ("deepinfra-kimi-k2", [
        (chat(content="<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"), "S0 D0"),
        (chat(content="}"), "D0"), (finish("stop"), "E0"), (USAGE, ""), ("[DONE]", "."),
    ]),
}  # fmt: skip


def said(events: list[Event]) -> str:
    told: list[str] = []
    for event in events:
        match event:
            case ToolCallStart():
                told.append(f"S{event.index}")
            case ToolCallDelta():
                told.append(f"D{event.index}")
            case ToolCallEnd():
                told.append(f"E{event.index}")
            case TextDelta():
                told.append("T")
            case Done():
                told.append(".")
            case ErrorEvent():
                assert event.error.kind == "malformed"
                told.append("!")
            case _:
                pass
    return " ".join(told)


@pytest.mark.parametrize("name", CASES)
def test_each_chunk_brings_its_events(name: str) -> None:
    spoken, chunks = CASES[name]
    named = {"wire": spoken} if "-k" not in spoken else {"dialect": spoken}
    decoder = make_decoder(turn_key="turn", tools=TOOLS, **named)
    for number, (chunk, due) in enumerate(chunks):
        if chunk is None:
            events = decoder.close()
        elif spoken == "ollama":
            events = decoder.feed(json.dumps(chunk).encode() + b"\n")
        else:
            data = chunk if isinstance(chunk, str) else json.dumps(chunk)
            events = decoder.feed(f"data: {data}\n\n".encode())
        assert said(events) == due, (number, chunk)
    assert decoder.ended
