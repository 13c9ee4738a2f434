"""What other projects' tests say of requests on the chat wire: converted prompts, replayed reasoning, repaired histories.

Ids are compared by who answers whom, never by their letters: every wire of ours writes its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from midstream import Conversation, Options, ToolSpec, encode_request, human, resolve
from midstream.core.blocks import Media, Origin, Text, Thinking, ToolCall, ToolResponse, Turn
from midstream.core.errors import InvalidHistory
from midstream.core.history import INTERRUPTED, canonicalize
from tests.shared_data import vectors
from tests.wires.openai_chat.test_vectors import KOSONG_ANSWERS, KOSONG_KINDS
from tests.wires.openai_chat.vector_exceptions import REQUESTS
from tests.wires.vercel_chat_prompts import conversation, has_reasoning

Vector = dict[str, Any]
Findings = list[str]
Message = dict[str, Any]

_MODELS = {
    "openai-compatible": "openai-compatible/any",
    "moonshotai": "moonshot/kimi-k2.5",
    "mistral": "mistral/mistral-large-latest",
    "deepseek": "deepseek/deepseek-chat",
    "groq": "groq/llama-3.3-70b-versatile",
}
_ALL_MEDIA = ("image", "audio", "video", "file")


def written(told: Conversation, model: str, **kwargs: Any) -> dict[str, Any]:
    target = resolve(model)
    if target.dialect.name == "openai-compatible":  # what such a host reads, nobody knows; the vectors let it read all
        target = replace(target, dialect=replace(target.dialect, media=_ALL_MEDIA))
    body: dict[str, Any] = json.loads(encode_request(target, told, cache=None, **kwargs).body)
    return body


def same(messages: list[Message]) -> list[Message]:
    """Messages in one spelling: parts as lists, nothing said as absent, ids by order of the calls."""
    ids: dict[str, str] = {}
    out: list[Message] = []
    for message in messages:
        spelled = {key: value for key, value in message.items() if key != "content" or value}
        if isinstance(message.get("content"), str) and message["content"]:
            spelled["content"] = [{"type": "text", "text": message["content"]}]
        spelled["content"] = [_same_part(part) for part in spelled.get("content") or ()]
        if message["role"] == "tool":
            texts = [part["text"] for part in spelled["content"] if part["type"] == "text"]
            if len(texts) == len(spelled["content"]):
                spelled["content"] = [{"type": "text", "text": "\n".join(texts)}]
            spelled["tool_call_id"] = ids.get(message["tool_call_id"], "unknown")
        spelled["tool_calls"] = [
            {**call, "id": f"#{len(ids) + n}"} for n, call in enumerate(message.get("tool_calls", ()))
        ]
        ids |= {
            call["id"]: new["id"]
            for call, new in zip(message.get("tool_calls", ()), spelled["tool_calls"], strict=True)
        }
        out.append(spelled)
    return out


def _same_part(part: Message) -> Message:
    image = part.get("image_url")
    if isinstance(image, str):
        return {**part, "image_url": {"url": image}}
    if isinstance(image, dict):
        return {**part, "image_url": {key: value for key, value in image.items() if value is not None}}
    return part


def finding(got: list[Message], wanted: list[Message]) -> Findings:
    got, wanted = same(got), same(wanted)
    return [] if got == wanted else [f"got {got}, wanted {wanted}"]


def without_stand_ins(messages: list[Message], wanted: list[Message]) -> list[Message]:
    """A converter may end with calls; a request of ours may not: made-up results at the end are left out."""
    if wanted and wanted[-1].get("tool_calls"):
        while messages and messages[-1].get("content") == f"Error: {INTERRUPTED}":
            messages = messages[:-1]
    return messages


def prompt(vector: Vector) -> Findings:
    target, (given, *_) = vector["target"], vector["input"]["args"]
    model, wanted = _MODELS[target], vector["expected"]
    if isinstance(given, dict):
        model, given, wanted = f"{target}/{given['modelId']}", given["prompt"], wanted["messages"]
    provider = resolve(model).dialect.provider
    options = Options(thinking="on" if has_reasoning(given) else "off")
    last = given[-1]
    if target == "mistral" and last["role"] == "assistant" and [p["type"] for p in last["content"]] == ["text"]:
        options, given = replace(options, prefill=last["content"][0]["text"]), given[:-1]
    told, added = conversation(given, Origin(provider, "openai-chat"))
    try:
        messages = written(told, model, options=options)["messages"][added:]
    except InvalidHistory as error:
        return [str(error)]
    return finding(without_stand_ins(messages, wanted), wanted)


_KOSONG_MODELS = {"kimi (moonshot)": "moonshot/kimi-k2.5", "openai chat completions": "openai-compatible/any"}


def kosong(vector: Vector) -> Findings:
    """A kosong history as a request: to its own Kimi provider, whose thinking it is, or to OpenAI's wire."""
    given, wanted = vector["input"], vector["expected"]
    model = _KOSONG_MODELS[vector.get("target", "kimi (moonshot)")]
    origin = Origin(resolve(model).dialect.provider, "openai-chat")
    turns = [kosong_turn(message, f"m{n}", origin) for n, message in enumerate(given["history"])]
    thinks = any(isinstance(block, Thinking) for turn in turns for block in turn.blocks)
    tools = [ToolSpec(tool["name"], tool["description"], tool["parameters"]) for tool in given.get("tools", ())]
    told = Conversation(tuple(turns), given.get("system", ""))
    body = written(told, model, tools=tools, options=Options(thinking="on" if thinks else "off"))
    found = finding(body["messages"], wanted["messages"])
    if body.get("tools", []) != wanted["tools"]:
        found.append(f"got {body.get('tools')}, wanted {wanted['tools']}")
    return found


def kosong_turn(message: Message, key: str, origin: Origin) -> Turn:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    blocks: list[Any] = [_kosong_block(part, origin) for part in parts]
    if message["role"] == "tool":
        return Turn("tool", (ToolResponse(message["tool_call_id"], "", tuple(blocks)),), key=key)
    made = [(call["id"], call["function"]) for call in message.get("tool_calls", ())]
    blocks += [ToolCall(call_id, function["name"], function["arguments"]) for call_id, function in made]
    return Turn("ai" if message["role"] == "assistant" else "human", tuple(blocks), key=key)


def _kosong_block(part: Message, origin: Origin) -> Text | Thinking | Media:
    match part:
        case {"text": text}:
            return Text(text)
        case {"think": think}:
            return Thinking(think, "reasoning_content", origin=origin)
        case {"image_url": {"url": url}}:
            return Media("image/*", url=url)
    raise AssertionError(part)


def kosong_parameters(vector: Vector) -> Findings:
    """Settings of a kosong provider as options of ours."""
    given, wanted = vector["input"], dict(vector["expected"])
    level = given.get("with_thinking")
    limit = given.get("overrides", given)
    options = Options(
        thinking=None if level is None else "off" if level == "off" else "on",
        effort=level if level not in (None, "off") else None,
        temperature=given.get("temperature"),
        max_tokens=limit.get("max_tokens", limit.get("max_completion_tokens")),
        extra_body=given.get("extra_body"),
    )
    model = "moonshot/kimi-k2.5" if level else "moonshot/kimi-k2-turbo-preview"
    body = written(Conversation((human("q"),)), model, options=options)
    found = [f"{name} is there" for name in wanted.pop("absent", ()) if name in body]
    return found + [f"{key}: got {body.get(key)!r}" for key in wanted if body.get(key) != wanted[key]]


def kosong_tool(vector: Vector) -> Findings:
    tool, expected = vector["input"]["tool"], vector["expected"]
    spec = ToolSpec(tool["name"], tool["description"], tool["parameters"])
    (found,) = written(Conversation((human("q"),)), "moonshot/kimi-k2.5", tools=(spec,))["tools"]
    for step in expected.get("path", "").split(".") if "path" in expected else ():
        found = found[step]
    return [] if found == expected["value"] else [f"got {found}"]


def kosong_ids(vector: Vector) -> Findings:
    """Ids of any make: ours are valid, distinct, and the same for a call and its result."""
    given, expected = vector["input"], vector["expected"]
    calls = given.get("calls") or [(raw, "f") for raw in given["ids"]]
    results = given.get("results") or given["ids"]
    blocks = [ToolCall(raw, name, raw_id=raw) for raw, name in calls]
    answers = [ToolResponse(raw, "", (Text(raw),), raw_id=raw) for raw in results]
    told = canonicalize(Conversation((human("q"), Turn("ai", tuple(blocks)), Turn("tool", tuple(answers)))))
    kimi = "call_ids" in expected
    messages = written(told, "moonshot/kimi-k2-0905-preview" if kimi else "openai/gpt-4o")["messages"]
    ids = [call["id"] for call in messages[1]["tool_calls"]]
    answered = {message["content"]: message["tool_call_id"] for message in messages[2:]}
    if kimi:
        wanted = dict(zip(results, expected["result_ids"], strict=True))
        return [] if (ids, answered) == (expected["call_ids"], wanted) else [f"got {ids}, {answered}"]
    lawful = all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", each) for each in ids)
    agree = list(answered.values()) == [dict(zip([raw for raw, _ in calls], ids, strict=True))[raw] for raw in answered]
    return [] if lawful and agree and len(set(ids)) == len(calls) else [f"got {ids}, {answered}"]


def kosong_setting(vector: Vector) -> Findings:
    """What kosong's TypeScript client puts into a body for Kimi."""
    given, expected = vector["input"], vector["expected"]
    own = Thinking("hm", "reasoning_content", origin=Origin("moonshot", "openai-chat"))
    told = Conversation((human("q"), Turn("ai", (own, Text("a"))), human("q")))
    if "message" in given:
        calls = [ToolCall(f"hist_tool_{n}", "f") for n in range(given["message"]["tool_calls"])]
        told = Conversation((human("q"), Turn("ai", (Text(given["message"]["content"]), *calls))))
        return [] if expected["no_key"] not in written(told, "moonshot/kimi-k2.6")["messages"][1] else ["it is there"]
    params = given.get("params", {})
    effort = given.get("effort")
    options = Options(
        thinking="off" if effort == "off" else "on",
        effort=effort if effort != "off" else None,
        max_tokens=params.get("max_tokens"),
        extra_body=params.get("extra_body"),
    )
    body = written(told, "moonshot/kimi-k2-turbo-preview" if params else "moonshot/kimi-k2.6", options=options)
    if "preserve_thinking" in expected:
        return (
            [] if body["messages"][1]["reasoning_content"] == "hm" and body["thinking"]["keep"] == "all" else ["lost"]
        )
    wanted = {key: value for key, value in (expected.get("body") or expected["params"]).items() if key != "model"}
    found = ["max_tokens is there"] if "max_tokens" in body else []
    return found + [f"{key}: got {body.get(key)!r}" for key in wanted if body.get(key) != wanted[key]]


_REQUEST_KINDS = {"request-build": kosong, "request-param": kosong_parameters, "tool-convert": kosong_tool}


def kosong_request(vector: Vector) -> Findings:
    if "kind" in vector:
        return _REQUEST_KINDS[vector["kind"]](vector)
    return kosong_ids(vector) if "ids" in vector["input"] or "calls" in vector["input"] else kosong_setting(vector)


Outcome = Callable[[Vector], Findings]

PROMPTS = vectors("streaming/vercel-convert-messages.json")
HISTORIES = vectors("streaming/kosong-convert-messages.json")
PROVIDER = vectors("kimi/kosong-py-kimi-provider.json")
SETTINGS = vectors("streaming/kosong-kimi.json")
SUITES: dict[str, tuple[dict[str, Vector], Outcome, int]] = {
    "prompts": ({k: v for k, v in PROMPTS.items() if v["target"] in _MODELS}, prompt, 75),
    "histories": ({k: v for k, v in HISTORIES.items() if v["target"] in _KOSONG_MODELS}, kosong, 21),
    "provider": ({k: v for k, v in PROVIDER.items() if v["kind"] in _REQUEST_KINDS}, kosong_request, 27),
    "settings": ({k: v for k, v in SETTINGS.items() if k not in KOSONG_ANSWERS}, kosong_request, 8),
}


@pytest.mark.parametrize("suite", SUITES)
def test_vectors_pass_or_are_listed(suite: str) -> None:
    cases, outcome, count = SUITES[suite]
    assert len(cases) == count
    wrong = {name: found for name, vector in cases.items() if name not in REQUESTS and (found := outcome(vector))}
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


def test_no_listed_vector_is_stale() -> None:
    known = {name: (vector, outcome) for cases, outcome, _ in SUITES.values() for name, vector in cases.items()}
    assert set(REQUESTS) <= set(known)
    assert {name for name in REQUESTS if not known[name][1](known[name][0])} == set()


def test_no_vector_falls_between_the_wires() -> None:
    assert {vector["target"] for vector in PROMPTS.values()} == {*_MODELS, "anthropic"}
    others = {"anthropic", "openai responses", "google genai"}
    assert {vector["target"] for vector in HISTORIES.values()} == {*_KOSONG_MODELS, *others}
    assert {vector["kind"] for vector in PROVIDER.values()} == {*_REQUEST_KINDS, *KOSONG_KINDS}
    assert set(KOSONG_ANSWERS) < set(SETTINGS)
