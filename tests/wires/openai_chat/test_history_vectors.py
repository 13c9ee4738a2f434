"""What other projects' tests say of ids, repair, replayed reasoning and tool declarations, as our chat requests show it.

Where they name exact ids or texts of their own making, what is checked is what they are for: valid, distinct, agreeing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from midstream import Conversation, Options, ToolSpec, decode_response, encode_request, human
from midstream.core.blocks import Block, Origin, Text, Thinking, ToolCall, ToolResponse, Turn
from midstream.core.dialect import EFFORTS
from midstream.core.errors import InvalidHistory, MidstreamError
from midstream.core.history import INTERRUPTED, canonicalize
from midstream.core.tools import parse_arguments
from midstream.wires.openai_chat.parse import read_messages
from tests.shared_data import vectors
from tests.wires.openai_chat.test_vectors import answer
from tests.wires.openai_chat.vector_exceptions import ELSEWHERE, HISTORY

Vector = dict[str, Any]
Findings = list[str]
Message = dict[str, Any]

KIMI = Origin("moonshot", "openai-chat")
CLAUDE = Origin("anthropic", "anthropic", "claude")
_STAND_IN = f"Error: {INTERRUPTED}"


def written(told: Conversation, model: str = "openai/gpt-4o", **kwargs: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(encode_request(model, told, cache=None, **kwargs).body)
    return body


def spoken(told: Conversation, model: str = "openai/gpt-4o", **options: Any) -> list[Message]:
    messages: list[Message] = written(told, model, options=Options(**options))["messages"]
    return messages


def talk(*turns: Turn) -> Conversation:
    return Conversation((human("q", key="q"), *turns))


def ai(*blocks: Block, key: str = "a", **fields: Any) -> Turn:
    return Turn("ai", blocks, key=key, **fields)


def result(call_id: str, text: str = "ok") -> ToolResponse:
    return ToolResponse(call_id, "", (Text(text),), raw_id=call_id)


def expect(got: Any, wanted: Any) -> Findings:
    return [] if got == wanted else [f"got {got!r}, wanted {wanted!r}"]


# pydantic-ai writes its histories as words; they are few, so each is told here.


def _streamed_text(vector: Vector) -> Findings:
    deltas = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in vector["input"]["text_deltas"]]
    turn, _ = answer([*deltas, {"choices": [{"index": 0, "finish_reason": "stop"}]}], "openai-compatible/any")
    return expect(
        [{"text": block.text} for block in turn.blocks if isinstance(block, Text)], vector["expected"]["parts"]
    )


def _late_name(vector: Vector) -> Findings:
    pieces = [
        {"id": delta["id"], "function": {"name": delta.get("name"), "arguments": delta["args"]}}
        for delta in vector["input"]["tool_deltas"]
    ]
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces]
    turn, _ = answer([*chunks, {"choices": [{"index": 0, "finish_reason": "tool_calls"}]}], "openai-compatible/any")
    part = vector["expected"]["events"][1]["part"]
    return expect([(c.name, c.arguments) for c in turn.tool_calls], [(part["tool_name"], part["args"])])


def _mixed_arguments(vector: Vector) -> Findings:
    given = vector["input"]
    pieces = [
        {"index": 0, "function": {"name": "f", "arguments": given["args"]}},
        {"index": 0, "function": {"arguments": given["delta"]}},
    ]
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces]
    turn, _ = answer([*chunks, {"choices": [{"index": 0, "finish_reason": "tool_calls"}]}], "openai-compatible/any")
    return [] if "_parse_error" in parse_arguments(turn.tool_calls[0]) else ["it would run"]


def _replayed_arguments(vector: Vector) -> Findings:
    messages = spoken(talk(ai(ToolCall("hist_tool_1", "f", vector["input"]["args"]))))
    text = messages[1]["tool_calls"][0]["function"]["arguments"]
    expected = vector["expected"]
    if "args_as_dict" in expected:
        return expect(list(json.loads(text).values()), list(expected["args_as_dict"].values()))
    return expect(text, expected["args_as_json_str"])


def _roles(messages: list[Message]) -> list[str]:
    return [
        f"{message['role']}:{'made up' if message.get('content') == _STAND_IN else message.get('content') or 'calls'}"
        for message in messages
    ]


def _orphan(vector: Vector) -> Findings:
    told = Conversation((Turn("tool", (result("ghost"),)), ai(Text("hi")), human("next")))
    return expect(_roles(spoken(told)), ["assistant:hi", "user:next"])


def _dangling(vector: Vector) -> Findings:
    calls = (ToolCall("A", "f"), ToolCall("B", "f"))
    told = talk(ai(*calls), Turn("human", (result("B", "b"), Text("next"))))
    return expect(_roles(spoken(told)), ["user:q", "assistant:calls", "tool:b", "tool:made up", "user:next"])


def _reused_id(vector: Vector) -> Findings:
    told = talk(ai(ToolCall("X", "f")), ai(ToolCall("X", "f"), key="b"), Turn("tool", (result("X", "x"),)))
    messages = spoken(told)
    calls = [message["tool_calls"][0]["id"] for message in messages if message["role"] == "assistant"]
    answers = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    wanted = ["user:q", "assistant:calls", "tool:made up", "assistant:calls", "tool:x"]
    return expect(_roles(messages), wanted) + expect(answers, calls) + expect(len(set(calls)), 2)


def _own_thinking(vector: Vector) -> Findings:
    told = talk(ai(Thinking("r", "reasoning_content", origin=KIMI), Text("Hi")))
    return expect(spoken(told, "moonshot/kimi-k2.5")[1]["reasoning_content"], "r")


def _foreign_tags(vector: Vector) -> Findings:
    told = talk(ai(Thinking("r", origin=CLAUDE), Text("Hi")))
    return expect(spoken(told, foreign_thinking="text")[1]["content"], vector["expected"]["content"])


def _foreign_field(vector: Vector) -> Findings:
    message = spoken(talk(ai(Thinking("r", origin=CLAUDE), Text("Hi"))), "moonshot/kimi-k2.5", foreign_thinking="keep")[
        1
    ]
    return expect({key: message.get(key) for key in vector["expected"]["message"]}, vector["expected"]["message"])


def _backfill(vector: Vector) -> Findings:
    own = Thinking("r", "reasoning_content", origin=KIMI)
    told = talk(ai(own, ToolCall("1", "f")), Turn("tool", (result("1"),)), ai(ToolCall("2", "f"), key="b"))
    second = [message for message in spoken(told, "moonshot/kimi-k2.5") if message["role"] == "assistant"][1]
    return expect(second.get("reasoning_content"), vector["expected"]["second"]["reasoning_content"])


_PYDANTIC: dict[str, Callable[[Vector], Findings]] = {
    "pydantic-parts-text": _streamed_text,
    "pydantic-tool-no-name": _late_name,
    "pydantic-args-mix": _mixed_arguments,
    "pydantic-invalid-args": _replayed_arguments,
    "pydantic-valid-args-verbatim": _replayed_arguments,
    "pydantic-orphan-result": _orphan,
    "pydantic-dangling": _dangling,
    "pydantic-dangling-reused-id": _reused_id,
    "pydantic-thinking-same-field": _own_thinking,
    "pydantic-thinking-foreign-tags": _foreign_tags,
    "pydantic-thinking-field-mode": _foreign_field,
    "pydantic-backfill": _backfill,
}


def pydantic(vector: Vector) -> Findings:
    return _PYDANTIC[vector["id"]](vector)


def paired(vector: Vector) -> Findings:
    """OpenClaw's repair of a transcript, seen in the messages of a request."""
    expected = vector["expected"]
    turns: list[Turn] = []
    for number, message in enumerate(vector["input"]["messages"]):
        content, key = message["content"], f"m{number}"
        if message["role"] == "user":
            turns.append(human(content, key=key))
        elif message["role"] == "toolResult":
            parts = tuple([Text(part["text"]) for part in content])
            turns.append(Turn("tool", (ToolResponse(message["toolCallId"], message["toolName"], parts),), key=key))
        else:
            stopped = message.get("stopReason", "")
            failure = stopped if stopped in ("error", "aborted") else ""
            turns.append(ai(*[claw_block(part) for part in content], key=key, failure=failure))
    messages = spoken(Conversation(tuple(turns)))
    roles = [{"tool": "toolResult"}.get(message["role"], message["role"]) for message in messages]
    calls = {call.id: n for n, call in enumerate(call for turn in turns for call in turn.tool_calls)}
    ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    answered = [ids.index(message["tool_call_id"]) for message in messages if message["role"] == "tool"]
    found: Findings = expect(roles, expected["roles"]) if "roles" in expected else []
    if "tool_result_ids" in expected:
        found += expect(answered, [calls[call_id] for call_id in expected["tool_result_ids"]])
    if "synthetic_is_error" in expected:
        found += expect([m["content"] for m in messages if m["role"] == "tool"], [_STAND_IN, "ok"])
    return found


def claw_block(part: dict[str, Any]) -> Block:
    if part["type"] == "text":
        return Text(part["text"])
    arguments = part.get("arguments", part.get("input"))
    return ToolCall(part["id"], part["name"], "" if arguments is None else json.dumps(arguments))


def sanitized(vector: Vector) -> Findings:
    """What OpenClaw leaves of the calls of a turn."""
    calls = [block for part in vector["input"]["assistant_content"] if isinstance(block := claw_block(part), ToolCall)]
    allowed = [ToolSpec(name) for name in vector["input"].get("allowed", ())]
    given = [{"id": call.id, "function": {"name": call.name, "arguments": call.arguments}} for call in calls]
    told = read_messages([{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": given}], KIMI)
    messages = written(told, tools=allowed)["messages"]
    names = [call["function"]["name"] for message in messages for call in message.get("tool_calls", ())]
    expected = vector["expected"]
    if "names" in expected:
        return expect(names, expected["names"])
    return expect(len(names), len(expected.get("kept_ids", ())))


_ID_MODES = {
    "strict": ("openai/gpt-4o", r"[A-Za-z0-9_-]{1,40}"),
    "strict9": ("mistral/mistral-large-latest", r"[A-Za-z0-9]{9}"),
}


def claw_ids(vector: Vector) -> Findings:
    """Ids for a strict reader; Kimi's own for Kimi. Each in a turn of its own, as raw ids repeat."""
    raw_ids = vector["input"]["ids"]
    turns: list[Turn] = []
    for number, raw in enumerate(raw_ids):
        turns += [
            ai(ToolCall(raw, "exec", raw_id=raw), key=f"a{number}"), Turn("tool", (result(raw, f"{number}"),), key=f"t{number}"),
        ]  # fmt: skip
    model, pattern = _ID_MODES[vector["input"]["mode"]]
    wanted = vector["expected"].get("ids")
    native = wanted == ["functions.exec:0"]
    messages = spoken(canonicalize(talk(*turns)), "moonshot/kimi-k2-0905-preview" if native else model)
    ids = [message["tool_calls"][0]["id"] for message in messages if message["role"] == "assistant"]
    answers = {m["content"]: m["tool_call_id"] for m in messages if m["role"] == "tool"}
    found = expect(answers, {f"{number}": each for number, each in enumerate(ids)})
    if native:
        return found + expect(ids, wanted)
    lawful = len(set(ids)) == len(raw_ids) and all(re.fullmatch(pattern, each) for each in ids)
    return found if lawful else [*found, f"got {ids}"]


def deepinfra(vector: Vector) -> Findings:
    level, payload = vector["input"]["thinking_level"], vector["input"]["payload"]
    if level not in ("off", *EFFORTS):
        return [f"{level} is refused"]
    extra = {key: value for key, value in payload.items() if key != "messages"}
    options = Options(
        thinking="off" if level == "off" else "on",
        effort=None if level == "off" else level,
        extra_body=extra or None,
        path="chat",
    )
    body = written(Conversation((human("q"),)), "deepinfra/moonshotai/Kimi-K2.5", options=options)
    got = {key: body[key] for key in ("reasoning", "reasoning_effort") if key in body}
    return expect(got, {key: value for key, value in vector["expected"]["payload"].items() if key != "messages"})


_CLAW = {
    "tool_pairing_repair": paired,
    "tool_call_input_sanitize": sanitized,
    "tool_call_id": claw_ids,
    "deepinfra_openai_compat_payload": deepinfra,
}


def openclaw(vector: Vector) -> Findings:
    return _CLAW[vector["kind"]](vector)


def neutral_block(block: dict[str, Any], origin: Origin) -> Block:
    match block["type"]:
        case "text":
            return Text(block["text"])
        case "thinking":
            return Thinking(block["thought"], block["sourceField"], origin=origin)
        case "tool_call":
            return ToolCall(block["id"], block["name"], json.dumps(block["parameters"]))
        case "tool_response":
            given = block["result"]
            text = given if isinstance(given, str) else json.dumps(given)
            return ToolResponse(block["callId"], block["toolName"], (Text(text),), raw_id=block["callId"])
    raise AssertionError(block)


def neutral_turns(history: list[dict[str, Any]], origin: Origin) -> tuple[Turn, ...]:
    return tuple(
        [
            Turn(turn["speaker"], tuple([neutral_block(each, origin) for each in turn["blocks"]]), key=f"m{number}")
            for number, turn in enumerate(history)
        ]
    )


def reasoning(vector: Vector) -> Findings:
    """Reasoning goes back to a host that asks for it; the other project's settings are the host's ways here."""
    settings = vector["settings"]
    wants = settings.get("reasoning.includeInContext") and vector.get("format") != "openai"
    model, origin = ("moonshot/kimi-k2.5", KIMI) if wants else ("openai/gpt-4o", Origin("openai", "openai-chat"))
    if vector.get("format") == "deepseek":
        model, origin = "deepseek/deepseek-reasoner", Origin("deepseek", "openai-chat")
    thinking = "off" if settings.get("reasoning.stripFromContext") == "all" else None
    messages = spoken(talk(*neutral_turns(vector["history"], origin)), model, thinking=thinking)
    said = [message.get("reasoning_content") for message in messages if message["role"] == "assistant"]
    if "expected_messages" in vector:
        return expect(said, [None] * vector["expected_messages"])
    return expect(said, vector["expected_reasoning_content"])


def repaired(vector: Vector) -> Findings:
    model = "mistral/mistral-large-latest" if vector.get("format") == "mistral" else "openai/gpt-4o"
    before = vector["before"]
    if "expected_fields" in vector:
        (block,) = before[0]["blocks"]
        call = ToolCall(block["callId"], block["toolName"])
        messages = spoken(canonicalize(talk(ai(call), *neutral_turns(before, KIMI))), model)
        message, fields = messages[-1], dict(vector["expected_fields"])
        ids = messages[1]["tool_calls"][0]["id"]
        found = expect(message["tool_call_id"], ids) + expect(
            len(ids), 9 if model == "mistral/mistral-large-latest" else 29
        )
        fields.pop("tool_call_id")
        found += [f"{key} is there" for key in vector.get("expected_absent", ()) if key in message]
        return found + expect({key: message.get(key) for key in fields}, fields)
    told = read_messages(before, KIMI) if "role" in before[0] else Conversation(neutral_turns(before, KIMI))
    try:
        messages = spoken(told)
    except InvalidHistory as error:
        return [str(error)]
    while vector["after"][-1].get("tool_calls") and messages[-1].get("content") == _STAND_IN:
        messages.pop()  # they leave the call unanswered here; no request of ours does
    return expect(plain_messages(messages), plain_messages(vector["after"]))


def plain_messages(messages: list[Message]) -> list[Any]:
    calls = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    return [
        (
            message["role"],
            message.get("content"),
            [call["function"] for call in message.get("tool_calls", ())],
            calls.index(message["tool_call_id"]) if message.get("tool_call_id") in calls else None,
        )
        for message in messages
    ]


_FORMAT_MODELS = {
    "openai": "openai/gpt-4o",
    "qwen": "qwen/qwen3-max",
    "deepseek": "deepseek/deepseek-chat",
    "kimi": "moonshot/kimi-k2.5",
    "mistral": "mistral/mistral-large-latest",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "openai-responses": "openai-responses/gpt-5.2",
}


def declared(vector: Vector) -> Findings:
    specs = []
    for given in vector["input"]:
        inner = given.get("function", given)
        schema = inner.get("parametersJsonSchema", inner.get("parameters"))
        specs.append(ToolSpec(inner["name"], inner["description"], schema))
    if "expected_error" in vector:
        tools = written(talk(), _FORMAT_MODELS.get(vector.get("format", ""), "openai/gpt-4o"), tools=specs)["tools"]
        return [f"no error came: {tools}"] if len(tools) == len(specs) else []
    tools = written(talk(), _FORMAT_MODELS[vector["format"]], tools=specs)["tools"]
    return expect(bare(tools), bare(vector["expected"]))


def bare(value: Any) -> Any:
    """Without what says nothing: an empty `required`, a null `strict`."""
    if isinstance(value, list):
        return [bare(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {k: bare(v) for k, v in value.items() if not (k == "required" and v == []) and not (k == "strict" and not v)}


def schema(vector: Vector) -> Findings:
    wrapped = {"type": "object", "properties": {"x": vector["input"]}}
    (tool,) = written(talk(), tools=[ToolSpec("f", "", wrapped)])["tools"]
    return expect(bare(tool["function"]["parameters"]["properties"]["x"]), bare(vector["expected"]))


def read_call(vector: Vector) -> Findings:
    message = {"role": "assistant", "tool_calls": [vector["input"]]}
    body: dict[str, Any] = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    if vector["format"] == "anthropic":
        body = {"type": "message", "content": [vector["input"]], "stop_reason": "tool_use"}
    wire = "anthropic" if vector["format"] == "anthropic" else "openai-chat"
    try:
        turn = decode_response(json.dumps(body).encode(), wire=wire)
    except MidstreamError:
        return [] if "expected_error" in vector else ["an error came"]
    got = [
        {"type": "tool_call", "id": call.raw_id, "name": call.name, "parameters": parse_arguments(call)}
        for call in turn.tool_calls
    ]
    return expect(got, vector.get("expected", "an error"))


def sent_arguments(vector: Vector) -> Findings:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": vector["input"]}}
    told = read_messages([{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [call]}], KIMI)
    sent = spoken(told)[1]["tool_calls"][0]["function"]["arguments"]
    return expect(json.loads(sent), json.loads(vector["expected_json_string"]))


def run_arguments(vector: Vector) -> Findings:
    return expect(parse_arguments(ToolCall("c", "f", vector["input"] or "")), vector["expected_parsed"])


_FORMAT_OPS = {
    "convertToolDeclarationsToFormat": declared,
    "convertToolDeclarationsToOpenAI": declared,
    "toProviderFormat": declared,
    "toResponsesTool": declared,
    "convertSchemaToStandard": schema,
    "fromProviderFormat": read_call,
    "normalizeToolCallArguments": sent_arguments,
    "sanitizeToolArgumentsString": run_arguments,
}


def tool_format(vector: Vector) -> Findings:
    return _FORMAT_OPS[vector["op"]](vector)


Outcome = Callable[[Vector], Findings]
FILES = {
    "pydantic": vectors("streaming/pydantic-ai.json"),
    "openclaw": vectors("streaming/openclaw.json"),
    "reasoning": vectors("ids/reasoning_context.json"),
    "repair": vectors("ids/history_repair.json"),
    "formats": vectors("ids/tool_formats.json"),
}
_LAYERS = ("openai chat messages (validateToolMessageSequence)", "neutral -> openai chat message")
_TEXT = ("hermes", "xml", "gemma", "llama")
SUITES: dict[str, tuple[dict[str, Vector], Outcome, int]] = {
    "pydantic": ({k: v for k, v in FILES["pydantic"].items() if k in _PYDANTIC}, pydantic, 12),
    "openclaw": ({k: v for k, v in FILES["openclaw"].items() if v["kind"] in _CLAW}, openclaw, 33),
    "reasoning": ({k: v for k, v in FILES["reasoning"].items() if v["api"] != "anthropic"}, reasoning, 8),
    "repair": ({k: v for k, v in FILES["repair"].items() if v["layer"] in _LAYERS}, repaired, 7),
    "formats": (
        {k: v for k, v in FILES["formats"].items() if v["op"] in _FORMAT_OPS and v.get("format") not in _TEXT}, tool_format, 35,
    ),
}  # fmt: skip


@pytest.mark.parametrize("suite", SUITES)
def test_vectors_pass_or_are_listed(suite: str) -> None:
    cases, outcome, count = SUITES[suite]
    assert len(cases) == count
    wrong = {name: found for name, vector in cases.items() if name not in HISTORY and (found := outcome(vector))}
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


def test_no_listed_vector_is_stale() -> None:
    known = {name: (vector, outcome) for cases, outcome, _ in SUITES.values() for name, vector in cases.items()}
    assert set(HISTORY) <= set(known)
    assert {name for name in HISTORY if not known[name][1](known[name][0])} == set()


def test_every_vector_is_here_or_at_home_elsewhere() -> None:
    for name, found in FILES.items():
        here = set(SUITES[name][0])
        away = {key for key, vector in found.items() if home(vector) in ELSEWHERE}
        assert here | away == set(found), name
        assert not here & away, name
    assert {home(vector) for found in FILES.values() for vector in found.values()} >= set(ELSEWHERE)


def home(vector: Vector) -> str:
    """What says where a vector is tested: its layer, api, kind or tool format, else its own id."""
    if vector.get("format") in _TEXT:
        return "text format"
    names = [vector.get(key) for key in ("layer", "api", "kind", "op")]
    return next((name for name in names if name), str(vector["id"]))
