"""What other projects' tests say of Anthropic's wire: streams, prompts, histories. Differences are listed with reasons."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from midstream import decode_stream
from midstream.core.blocks import Conversation, Media, Opaque, Origin, Text, Thinking, ToolCall, ToolResponse, Turn
from midstream.core.dialect import Options
from midstream.core.errors import InvalidHistory
from midstream.core.events import ErrorEvent
from midstream.core.history import INTERRUPTED
from midstream.core.tools import ToolSpec
from midstream.dialects.anthropic import CLAUDE
from midstream.wires.anthropic.encode import FIRST_WORDS
from midstream.wires.anthropic.parse import parse_request
from tests.shared_data import vectors
from tests.wires.anthropic.exceptions import VECTORS
from tests.wires.anthropic.requests import normal
from tests.wires.drafts import encode_draft
from tests.wires.vercel_prompts import ORIGIN, conversation

MODEL = "claude-sonnet-4-5"
STREAMS = {k: v for k, v in vectors("streaming/vercel-streams.json").items() if k.startswith("vercel-anthropic")}
PROMPTS = {k: v for k, v in vectors("streaming/vercel-convert-messages.json").items() if v.get("target") == "anthropic"}
KOSONG = {k: v for k, v in vectors("streaming/kosong-convert-messages.json").items() if v.get("target") == "anthropic"}
REPAIRS = {k: v for k, v in vectors("ids/history_repair.json").items() if v["layer"] == "anthropic messages"}
REASONING = {k: v for k, v in vectors("ids/reasoning_context.json").items() if v.get("api") == "anthropic"}


def encoded(told: Conversation, **kwargs: Any) -> dict[str, Any]:
    dialect = kwargs.pop("dialect", CLAUDE)
    request = encode_draft(told, dialect, kwargs.pop("model", MODEL), **kwargs)
    body: dict[str, Any] = json.loads(request.body)
    return body


def said(body: dict[str, Any]) -> Any:
    """Messages and system in one spelling, ids left out."""
    plain = normal({"messages": body.get("messages", []), "system": body.get("system")})
    for message in plain["messages"]:
        for block in message["content"]:
            block.pop("id" if block["type"] == "tool_use" else "tool_use_id", None)
    return plain


def stream_outcome(vector: dict[str, Any]) -> list[str]:
    chunks = [chunk.encode() for chunk in vector["input"]["sse_chunks"]]
    last = list(decode_stream(chunks, wire="anthropic", turn_key="t"))[-1]
    turn = last.turn  # type: ignore[union-attr]
    parts = vector["expected"]["parts"]
    got: dict[str, Any] = {
        "text": turn.text,
        "reasoning": turn.thinking,
        "calls": [(call.name, json.loads(call.arguments)) for call in turn.tool_calls],
        "server calls": sum(isinstance(b, Opaque) and b.kind.endswith("_tool_use") for b in turn.blocks),
    }
    calls = [part for part in parts if part["type"] == "tool-call"]
    wanted: dict[str, Any] = {
        "text": "".join(part["delta"] for part in parts if part["type"] == "text-delta"),
        "reasoning": "".join(part["delta"] for part in parts if part["type"] == "reasoning-delta"),
        "calls": [(c["toolName"], json.loads(c["input"])) for c in calls if not c.get("providerExecuted")],
        "server calls": sum(1 for c in calls if c.get("providerExecuted")),
    }
    finish = next((part for part in parts if part["type"] == "finish"), None)
    error = next((part["error"] for part in parts if part["type"] == "error"), None)
    if error is not None:
        got["error"] = last.error.message if isinstance(last, ErrorEvent) else None
        wanted["error"] = error["message"]
    elif finish is not None:
        usage = turn.usage
        assert usage is not None
        got |= {"stop": turn.raw_stop, "usage": (usage.input, usage.read, usage.output, usage.cache_read)}
        tokens = finish["usage"]["inputTokens"]
        counted = (
            tokens["noCache"], tokens["total"], finish["usage"]["outputTokens"]["total"], tokens["cacheRead"],
        )  # fmt: skip
        wanted |= {"stop": finish["finishReason"]["raw"], "usage": counted}
    return [f"{key}: got {got[key]!r}, wanted {wanted[key]!r}" for key in wanted if got[key] != wanted[key]]


def prompt_outcome(vector: dict[str, Any]) -> list[str]:
    given, wanted = vector["input"]["args"][0], vector["expected"]["prompt"]
    if any(part.get("providerExecuted") for m in given["prompt"] if m["role"] != "system" for part in m["content"]):
        # Their own shape of server-side tools has no meaning here: what they send is what we read, keep and send.
        told = parse_request(json.dumps({"model": MODEL, **wanted}).encode()).conversation
        added = 0
    else:
        told, added = conversation(given["prompt"])
    if not given["sendReasoning"]:
        told = replace(told, turns=tuple([_without_thinking(turn) for turn in told.turns]))
    body = encoded(told)
    messages = body["messages"][added:]
    first = {"role": "user", "content": [{"type": "text", "text": FIRST_WORDS}]}
    body["messages"] = messages[1:] if messages[:1] == [first] else messages
    if wanted["messages"] and wanted["messages"][-1]["role"] == "assistant":
        body["messages"] = _without_stand_in_results(body["messages"])
    return [] if said(body) == said(wanted) else [f"got {said(body)}, wanted {said(wanted)}"]


def _without_thinking(turn: Turn) -> Turn:
    return replace(turn, blocks=tuple([block for block in turn.blocks if not isinstance(block, Thinking)]))


def _without_stand_in_results(messages: list[Any]) -> list[Any]:
    """A converter may end with a call; a request of ours may not."""
    last = messages[-1]
    stand_in = last["role"] == "user" and all(block.get("content") == INTERRUPTED for block in last["content"])
    return messages[:-1] if stand_in else messages


def kosong_outcome(vector: dict[str, Any]) -> list[str]:
    given = vector["input"]
    turns: list[Turn] = []
    for number, message in enumerate(given["history"]):
        blocks: list[Any] = _kosong_parts(message["content"])
        if message["role"] == "tool":
            response = ToolResponse(message["tool_call_id"], "", tuple(blocks))
            if turns[-1].speaker == "tool":
                turns[-1] = replace(turns[-1], blocks=(*turns[-1].blocks, response))
            else:
                turns.append(Turn("tool", (response,), key=f"m{number}"))
            continue
        calls = message.get("tool_calls", ())
        blocks += [ToolCall(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in calls]
        speaker: Any = "ai" if message["role"] == "assistant" else "human"
        turns.append(Turn(speaker, tuple(blocks), key=f"m{number}"))
    tools = [ToolSpec(tool["name"], tool["description"], tool["parameters"]) for tool in given.get("tools", ())]
    told = Conversation(tuple(turns), given.get("system", ""))
    body = encoded(told, tools=tools, options=Options(cache=True))
    wanted = vector["expected"]
    got, due = (said(body), body.get("tools", [])), (said(wanted), wanted["tools"])
    return [] if got == due else [f"got {got}, wanted {due}"]


def _kosong_parts(content: Any) -> list[Any]:
    parts: list[Any] = []
    for part in [{"$": "TextPart", "text": content}] if isinstance(content, str) else content:
        match part["$"]:
            case "TextPart":
                parts.append(Text(part["text"]))
            case "ThinkPart":
                parts.append(Thinking(part["think"], "thinking", part.get("encrypted"), origin=ORIGIN))
            case "ImageURLPart":
                parts.append(Media("image/*", url=part["image_url"]["url"]))
    return parts


_WORDS = {"[tool execution interrupted]": INTERRUPTED, "Continue the conversation": FIRST_WORDS}


def repair_outcome(vector: dict[str, Any]) -> list[str]:
    before = vector["before"]
    if before and before[0]["role"] == "user" and isinstance(before[0]["content"], list) and "024" in vector["id"]:
        call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
        before = [{"role": "user", "content": "q"}, {"role": "assistant", "content": [call]}, *before]
    told = parse_request(json.dumps({"model": MODEL, "messages": before}).encode()).conversation
    try:
        body = encoded(told)
    except InvalidHistory as error:
        return [str(error)]
    after = json.loads(json.dumps(vector["after"]))
    for theirs, ours in _WORDS.items():
        after = json.loads(json.dumps(after).replace(theirs, ours))
    body["messages"] = body["messages"][len(before) - len(vector["before"]) :]
    return [] if said(body) == said({"messages": after}) else [f"got {said(body)}, wanted {after}"]


def _host(url: str | None) -> str:
    """The provider behind a base URL, however it is spelled."""
    if url is None:
        return "anthropic"
    parts = urlsplit(url.lower())
    return "anthropic" if parts.hostname == "api.anthropic.com" else f"{parts.hostname}{parts.path.rstrip('/')}"


def reasoning_outcome(vector: dict[str, Any]) -> list[str]:
    host = _host(vector["currentBaseURL"])
    turns: list[Turn] = []
    for number, turn in enumerate(vector["history"]):
        meta = turn.get("metadata", {})
        maker = Origin(_host(meta.get("providerBaseURL")), "anthropic", meta.get("model", ""))
        blocks: list[Any] = []
        for block in turn["blocks"]:
            if block["type"] == "text":
                blocks.append(Text(block["text"]))
            else:
                blocks.append(Thinking(block["thought"], block["sourceField"], block.get("signature"), origin=maker))
        turns.append(Turn(turn["speaker"], tuple(blocks), key=f"m{number}"))
    expected = vector["expected"]
    options = Options(foreign_thinking="text" if "TEXT" in expected else "drop")
    dialect = replace(CLAUDE, provider=host)
    body = encoded(
        Conversation(tuple(turns)), dialect=dialect, model=vector["currentModel"] or "unknown", options=options
    )
    blocks = [block for message in body["messages"] for block in message["content"]]
    kinds = [block["type"] for block in blocks]
    kept = "kept" in expected and "no thinking" not in expected
    if kept != ("thinking" in kinds):
        return [f"{expected!r}, got {kinds}"]
    if not kept and "sig-A" in json.dumps(body):
        return ["the signature leaked"]
    if "TEXT" in expected and "reasoning content from elsewhere" not in [block.get("text") for block in blocks]:
        return ["the foreign thinking is not there as text"]
    if "removed entirely" in expected and [message["role"] for message in body["messages"]] != ["user"]:
        return [f"got {body['messages']}"]
    return []


SUITES = {
    "streams": (STREAMS, stream_outcome, 22),
    "prompts": (PROMPTS, prompt_outcome, 53),
    "kosong": (KOSONG, kosong_outcome, 12),
    "repairs": (REPAIRS, repair_outcome, 6),
    "reasoning": (REASONING, reasoning_outcome, 12),
}


@pytest.mark.parametrize("suite", SUITES)
def test_vectors_pass_or_are_listed(suite: str) -> None:
    cases, outcome, count = SUITES[suite]
    assert len(cases) == count
    wrong = {name: found for name, vector in cases.items() if name not in VECTORS and (found := outcome(vector))}
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


def test_no_listed_vector_is_stale() -> None:
    known = {name: (vector, outcome) for cases, outcome, _ in SUITES.values() for name, vector in cases.items()}
    assert set(VECTORS) <= set(known)
    assert {name for name in VECTORS if not known[name][1](known[name][0])} == set()
