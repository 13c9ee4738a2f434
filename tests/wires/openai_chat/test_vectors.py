"""What other projects' tests say of answers on the chat wire: streams, tool deltas, usage, error bodies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from midstream import make_decoder, resolve
from midstream.core import errors
from midstream.core.blocks import Block, Media, Opaque, Text, Thinking, ToolCall, Turn
from midstream.core.events import Done, ErrorEvent, ToolCallStart
from midstream.wires.openai_chat.decode import read_usage
from midstream.wires.provider_errors import provider_error
from tests.shared_data import vectors
from tests.wires.feeding import by_byte, events_of
from tests.wires.openai_chat.vector_exceptions import ANSWERS, TRACKER_WITHOUT_INPUT

Vector = dict[str, Any]
Findings = list[str]

_MODELS = {
    "openai-compatible": "openai-compatible/any",
    "openai": "openai/gpt-4o",
    "mistral": "mistral/mistral-large-latest",
    "deepseek": "deepseek/deepseek-reasoner",
    "groq": "groq/llama-3.3-70b-versatile",
    "xai": "xai/grok-3-mini",
}
KIMI = "moonshot/kimi-k2-thinking"
_STOPS = {"stop": "end_turn", "tool-calls": "tool_use", "length": "max_tokens", "content-filter": "refusal"}


def answer(chunks: Iterable[Any], model: str) -> tuple[Turn, list[Any]]:
    """The turn and the events of a stream of chunks, or of one written as its SSE bytes."""
    raw = "".join([part if isinstance(part, str) else f"data: {json.dumps(part)}\n\n" for part in chunks]).encode()
    events = events_of(make_decoder(dialect=resolve(model).dialect, turn_key="t"), [raw])
    assert events_of(make_decoder(dialect=resolve(model).dialect, turn_key="t"), by_byte(raw)) == events
    last = events[-1]
    assert isinstance(last, (Done, ErrorEvent))
    return last.turn, events


def differences(got: dict[str, Any], wanted: dict[str, Any]) -> Findings:
    return [f"{key}: got {got[key]!r}, wanted {wanted[key]!r}" for key in wanted if got[key] != wanted[key]]


def package(vector: Vector) -> str:
    """The package of the recorded project that the vector is from."""
    return str(vector["source"].partition("packages/")[2].partition("/")[0])


def kinds(blocks: Iterable[Block]) -> list[str]:
    names = {Thinking: "reasoning", Text: "text", ToolCall: "tool"}
    return [names[type(block)] for block in blocks if type(block) in names]


def part_kinds(parts: list[dict[str, Any]]) -> list[str]:
    """Blocks in order; one that never gets a word is none to us."""
    names = {"reasoning-start": "reasoning", "text-start": "text", "tool-call": "tool"}
    worded = {part["id"] for part in parts if part["type"].endswith("-delta") and part["delta"]}
    return [names[p["type"]] for p in parts if p["type"] in names and (p["type"] == "tool-call" or p["id"] in worded)]


def spoken_calls(turn: Turn) -> list[tuple[str | None, str, str]]:
    return [(call.raw_id, call.name, call.arguments) for call in turn.tool_calls]


def part_calls(parts: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(part["toolCallId"], part["toolName"], part["input"]) for part in parts if part["type"] == "tool-call"]


def plain(value: Any) -> Any:
    """The recorded matchers `…Containing` as what they contain."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    inner = value.get("$arrayContaining", value.get("$objectContaining"))
    return {key: plain(item) for key, item in value.items()} if inner is None else plain(inner)


def stream(vector: Vector) -> Findings:
    turn, events = answer(vector["input"]["sse_chunks"], _MODELS[package(vector)])
    last = events[-1]
    parts = plain(vector["expected"]["parts"])
    told = {part["type"]: part for part in parts}
    got: dict[str, Any] = {
        "text": turn.text,
        "reasoning": turn.thinking,
        "calls": spoken_calls(turn),
        "kinds": kinds(turn.blocks),
        "sources": any(isinstance(block, Opaque) for block in turn.blocks),
    }
    wanted: dict[str, Any] = {
        "text": "".join([part["delta"] for part in parts if part["type"] == "text-delta"]),
        "reasoning": "".join([part["delta"] for part in parts if part["type"] == "reasoning-delta"]),
        "calls": part_calls(parts),
        "kinds": part_kinds(parts),
        "sources": "source" in told,
    }
    if "response-metadata" in told:
        metadata = told["response-metadata"]
        got |= {"id": turn.response_id, "model": events[0].model}
        wanted |= {key: metadata[name] for key, name in (("id", "id"), ("model", "modelId")) if name in metadata}
    if "error" in told:
        got["error"] = last.error.message if isinstance(last, ErrorEvent) else None
        said = told["error"]["error"]
        wanted["error"] = said["message"] if isinstance(said, dict) and "message" in said else said
    elif "finish" in told:
        finish = told["finish"]
        got |= {"stop": turn.stop_reason, "raw stop": turn.raw_stop, "usage": counted(turn)}
        unified = finish["finishReason"]["unified"]
        wanted |= {"stop": _STOPS.get(unified, unified), "raw stop": finish["finishReason"].get("raw")}
        if "usage" in finish:
            wanted["usage"] = part_counts(finish["usage"])
    return differences(got, wanted)


def counted(turn: Turn) -> tuple[int, int, int, int, int] | None:
    usage = turn.usage
    if usage is None:
        return None
    return usage.read, usage.fresh, usage.cache_read, usage.output, usage.reasoning


def part_counts(usage: dict[str, Any]) -> tuple[int, int, int, int, int] | None:
    """Their figures; one that they leave undefined is nothing to us."""
    into, out = usage["inputTokens"], usage["outputTokens"]
    if not into and not out:
        return None
    counts = [into.get("total"), into.get("noCache"), into.get("cacheRead"), out.get("total"), out.get("reasoning")]
    a, b, c, d, e = [count or 0 for count in counts]
    return a, b, c, d, e


def tracked(vector: Vector) -> Findings:
    """Tool deltas as a stream of chunks: what stands after the end of the recorded tracker stands after ours."""
    chunks: list[Any] = []
    for piece in [*vector["input"]["tool_call_deltas"], "flush"]:
        if piece == "flush":
            chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
            chunks.append("data: [DONE]\n\n")
        else:
            chunks.append({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]})
    turn, events = answer(chunks, "openai-compatible/any")
    expected = vector["expected"]
    if "error" in expected:
        last = events[-1]
        return [] if isinstance(last, ErrorEvent) and last.error.kind == "malformed" else ["no error came"]
    parts = (
        expected.get("parts") or expected.get("tool_calls") or [expected["last"]] if "prefix" not in expected else []
    )
    if "prefix" in expected:
        started = [(event.name,) for event in events if isinstance(event, ToolCallStart)]
        return differences({"names": started}, {"names": [(part["toolName"],) for part in expected["prefix"]]})
    got = {"calls": spoken_calls(turn), "signatures": [signature(call.extra) for call in turn.tool_calls]}
    metadata = [part.get("providerMetadata", {}) for part in parts if part["type"] == "tool-call"]
    wanted = {
        "calls": part_calls(parts),
        "signatures": [found.get("google", {}).get("thoughtSignature") for found in metadata],
    }
    return differences(got, wanted)


def signature(extra: dict[str, Any] | None) -> str | None:
    return extra["google"]["thought_signature"] if extra else None


def usage(vector: Vector) -> Findings:
    (raw,) = vector["input"]["args"]
    if raw is None:  # a null usage is no usage
        chunk = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}], "usage": None}
        turn, _ = answer([chunk], "openai-compatible/any")
        return differences({"usage": turn.usage}, {"usage": None})
    turn = Turn("ai", usage=read_usage(raw))
    assert turn.usage is not None
    got = {"counts": counted(turn), "raw": turn.usage.raw}
    return differences(got, {"counts": part_counts(vector["expected"]), "raw": raw})


def kosong_chunks(given: dict[str, Any]) -> list[Any]:
    """What a kosong provider was fed, as chunks of the wire; parts of its own model as the deltas that make them."""
    if "chunk" in given:
        return [given["chunk"]]
    if "chunks" in given:
        return list(given["chunks"])
    deltas = given.get("deltas") or [_kosong_delta(part) for part in given["parts"]]
    index = -1
    for part, delta in zip(given.get("parts", ()), deltas, strict=False):
        index += "tool_call" in part
        for call in delta.get("tool_calls", ()):
            call["index"] = part.get("index", index)
    return [*[{"choices": [{"index": 0, "delta": delta}]} for delta in deltas], _END]


_END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def _kosong_delta(part: dict[str, Any]) -> dict[str, Any]:
    match part:
        case {"text": text}:
            return {"content": text}
        case {"think": think}:
            return {"reasoning_content": think}
        case {"image_url": url}:
            return {"content": [{"type": "image_url", "image_url": {"url": url}}]}
        case {"tool_call": {"id": call_id, "name": name, "arguments": arguments}}:
            return {"tool_calls": [{"id": call_id, "function": {"name": name, "arguments": arguments}}]}
        case {"arguments_part": arguments}:
            return {"tool_calls": [{"function": {"arguments": arguments}}]}
    raise AssertionError(part)


def kosong_answer(vector: Vector) -> Findings:
    given, expected = vector["input"], vector["expected"]
    body = given.get("response") or (
        {"choices": [{"message": given["message"], "finish_reason": "stop"}]} if "message" in given else None
    )
    turn, events = answer([json.dumps(body)] if body else kosong_chunks(given), KIMI)
    if "error" in expected:
        last = events[-1]
        return [] if isinstance(last, ErrorEvent) and last.error.kind == "empty" else [f"got {last}"]
    if vector.get("kind") == "stream-usage" or "usage" in expected:
        assert turn.usage is not None
        counts = expected.get("usage", expected)
        got = {"prompt_tokens": turn.usage.input, "completion_tokens": turn.usage.output}
        got["cached"], got["fresh"] = turn.usage.cache_read, turn.usage.fresh
        wanted = {name: counts[name] for name in ("prompt_tokens", "completion_tokens")}
        if "normalized" in expected:
            wanted |= {
                "cached": expected["normalized"]["input_cache_read"],
                "fresh": expected["normalized"]["input_other"],
            }
        return differences(got, wanted)
    if "ok" in expected:
        return [] if isinstance(events[-1], Done) else [f"got {events[-1]}"]
    said = [_kosong_part(block) for block in turn.blocks]
    if "kimi_code_ts" in expected:
        wanted_parts = [(call["id"], call["arguments"]) for call in expected["kimi_code_ts"]]
        return differences({"calls": [(c.raw_id, c.arguments) for c in turn.tool_calls]}, {"calls": wanted_parts})
    parts = expected.get("parts") or expected["content"] + expected["tool_calls"]
    return differences({"parts": said}, {"parts": [_plain_part(part) for part in parts]})


def _kosong_part(block: Block) -> tuple[str, ...]:
    match block:
        case Text():
            return ("text", block.text)
        case Thinking():
            return ("think", block.text)
        case ToolCall():
            return ("call", str(block.raw_id), block.name, block.arguments)
        case Media():
            return ("image", str(block.url))
    raise AssertionError(block)


def _plain_part(part: dict[str, Any]) -> tuple[str, ...]:
    for key, kind in (("text", "text"), ("think", "think"), ("image_url", "image")):
        if key in part:
            return (kind, part[key])
    call = part.get("tool_call", part)
    return ("call", call["id"], call["name"], call.get("arguments", "{}"))


_ERROR_KINDS: dict[str, type[errors.ProviderError]] = {
    "moonshot-error-bodies-010": errors.ContentFiltered,
    "moonshot-error-bodies-011": errors.ContextTooLong,
    "moonshot-error-bodies-012": errors.Unauthorized,
    "moonshot-error-bodies-013": errors.Unauthorized,
    "moonshot-error-bodies-014": errors.QuotaExceeded,
}


def error_body(vector: Vector) -> Findings:
    given = vector["input"]
    wanted = _ERROR_KINDS.get(vector["id"], errors.BadRequest)
    plain = given["body"]
    wrapped = {**plain, "type": "error"}  # as api.kimi.com/coding sends it
    found = []
    for body in (plain, wrapped):
        error = provider_error(given["status"], json.dumps(body).encode(), provider="moonshot")
        if type(error) is not wanted or error.retryable or error.message != plain["error"]["message"]:
            found.append(f"got {error!r}, wanted {wanted.__name__}")
    _, events = answer([{"error": plain["error"]}], KIMI)
    if events[-1].error.retryable:
        found.append("retryable when it comes inside a stream")
    return found


Outcome = Callable[[Vector], Findings]


def _with_deltas(found: dict[str, Vector]) -> dict[str, Vector]:
    return {key: vector for key, vector in found.items() if "tool_call_deltas" in vector["input"]}


KOSONG_ANSWERS = (
    "kosong-merge", "kosong-think-only", "kosong-think-blank-text", "kosong-think-text", "kosong-think-tool",
    "kosong-choice-usage", "kosong-empty-reasoning-delta", "kosong-absent-reasoning", "kosong-empty-reasoning-nonstream",
    "kosong-interleaved-args-bug",
)  # fmt: skip
"""The vectors of kosong's stream file that are answers; the others are requests."""
KOSONG_KINDS = ("stream-usage", "stream-parse", "response-parse")
SUITES: dict[str, tuple[dict[str, Vector], Outcome, int]] = {
    "streams": (
        {k: v for k, v in vectors("streaming/vercel-streams.json").items() if package(v) != "anthropic"}, stream, 40,
    ),
    "tracker": (_with_deltas(vectors("streaming/vercel-tool-call-tracker.json")), tracked, 16),
    "usage": (vectors("streaming/vercel-usage.json"), usage, 31),
    "kosong": (
        {k: v for k, v in vectors("streaming/kosong-kimi.json").items() if k in KOSONG_ANSWERS}, kosong_answer, 10,
    ),
    "kosong provider": (
        {k: v for k, v in vectors("kimi/kosong-py-kimi-provider.json").items() if v["kind"] in KOSONG_KINDS},
        kosong_answer,
        4,
    ),
    "errors": (vectors("kimi/moonshot-error-bodies.json"), error_body, 15),
}  # fmt: skip


@pytest.mark.parametrize("suite", SUITES)
def test_vectors_pass_or_are_listed(suite: str) -> None:
    cases, outcome, count = SUITES[suite]
    assert len(cases) == count
    wrong = {name: found for name, vector in cases.items() if name not in ANSWERS and (found := outcome(vector))}
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


def test_no_listed_vector_is_stale() -> None:
    known = {name: (vector, outcome) for cases, outcome, _ in SUITES.values() for name, vector in cases.items()}
    assert set(ANSWERS) <= set(known)
    assert {name for name in ANSWERS if not known[name][1](known[name][0])} == set()


def test_no_vector_falls_between_the_wires() -> None:
    streams = vectors("streaming/vercel-streams.json")
    assert {package(vector) for vector in streams.values()} == {*_MODELS, "anthropic"}
    tracker = vectors("streaming/vercel-tool-call-tracker.json")
    assert set(tracker) - set(_with_deltas(tracker)) == set(TRACKER_WITHOUT_INPUT)
