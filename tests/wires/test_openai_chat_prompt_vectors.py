"""What other projects' tests say of requests on the chat wire: converted prompts, replayed reasoning, repaired histories.

Ids are compared by who answers whom, never by their letters: every wire of ours writes its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from midstream import Conversation, Options, encode_request, human, resolve
from midstream.core.blocks import Media, Origin, ToolCall, ToolResponse, Turn
from midstream.core.errors import InvalidHistory
from midstream.core.history import INTERRUPTED
from tests.shared_data import vectors
from tests.wires.openai_chat_vector_exceptions import REQUESTS
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
    body: dict[str, Any] = json.loads(encode_request(told, target, cache=None, **kwargs).body)
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


Outcome = Callable[[Vector], Findings]

SUITES: dict[str, tuple[dict[str, Vector], Outcome, int]] = {
    "prompts": (
        {k: v for k, v in vectors("streaming/vercel-convert-messages.json").items() if v["target"] in _MODELS}, prompt, 75,
    ),
}  # fmt: skip


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


def test_a_text_file_of_a_result_is_read_where_it_stands() -> None:
    call = ToolCall("hist_tool_1", "read")
    files = (Media("text/plain", "aGVsbG8="), Media("image/png", "AAAA"), Media("text/plain", "/w=="))
    turns = (human("q"), Turn("ai", (call,)), Turn("tool", (ToolResponse(call.id, "read", files),)))
    messages = written(Conversation(turns), "groq/any")["messages"]
    assert messages[2]["content"] == "hello\n[file omitted]"
    assert [part["type"] for part in messages[3]["content"]] == ["text", "image_url"]


@pytest.mark.parametrize("mime", ["audio/wav", "application/pdf"])
def test_what_is_sent_whole_is_not_sent_by_its_address(mime: str) -> None:
    told = Conversation((human("q", Media(mime, url="https://example.com/x")),))
    assert [part["type"] for part in written(told, "openai/gpt-4o")["messages"][0]["content"]] == ["text", "text"]
    named = Conversation((human(Media("application/pdf", url="file-abc")),))
    assert written(named, "openai/gpt-4o")["messages"][0]["content"][0]["file"] == {"file_id": "file-abc"}
