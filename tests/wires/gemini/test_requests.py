"""Every recorded Gemini request, read and written again for the same model, says the same thing."""

from __future__ import annotations

import json
import re
from typing import Any

from midstream import decode_response
from midstream.core.blocks import Conversation, human
from midstream.core.errors import InvalidHistory
from midstream.core.schemas import PASSES
from midstream.dialects.registry import resolve
from midstream.wires.gemini.parse import parse_request
from midstream.wires.gemini.wire import BYPASS
from tests.wires.drafts import encode_draft
from tests.wires.gemini.exceptions import REQUESTS
from tests.wires.recordings import recordings, shared_only

CASES = {case["id"]: case for case in recordings("gemini") if case["request"] and case["request"]["body"]}
MULTI_TURN = {name: case for name, case in CASES.items() if len(case["request"]["body"].get("contents", ())) > 1}
TYPES = {1: "string", 2: "number", 3: "integer", 4: "boolean", 5: "array", 6: "object"}


def spelled(value: Any) -> Any:
    """One spelling for what says the same: camel case, nothing for null, no `thought: false`."""
    if isinstance(value, list):
        return [spelled(item) for item in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for key, inner in value.items():
        key = re.sub(r"_([a-z])", lambda match: match[1].upper(), key)
        if inner is None or (key in ("thought", "includeThoughts") and inner is False):
            continue
        out[key] = inner if key in ("args", "response", "parameters", "parametersJsonSchema") else spelled(inner)
    return out


def typed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [typed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: TYPES.get(inner, inner) if key == "type" and type(inner) is int else typed(inner)
            for key, inner in schema.items()}  # fmt: skip


def function(declared: dict[str, Any]) -> dict[str, Any]:
    schema = declared.pop("parametersJsonSchema", None) or declared.pop("parameters", None) or {}
    schema = PASSES["gemini"](typed(schema))
    out = {key: value for key, value in declared.items() if value != ""}
    return {**out, "schema": schema if schema.get("properties") else None}


def normal(body: dict[str, Any]) -> dict[str, Any]:
    body = spelled(body)
    ids: dict[str, str] = {}
    contents: list[dict[str, Any]] = []
    waiting: list[str] = []
    for content in body["contents"]:
        parts = []
        for part in content["parts"]:
            if part == {"text": ""}:
                continue
            if "functionCall" in part:
                part["functionCall"]["id"] = ids.setdefault(
                    part["functionCall"].get("id", f"?{len(ids)}"), f"#{len(ids)}"
                )
                waiting.append(part["functionCall"]["id"])
            if "functionResponse" in part:
                due = waiting.pop(0)  # by position
                part["functionResponse"]["id"] = ids.get(part["functionResponse"].get("id", ""), due)
            for each in (part, *(part.get("functionResponse") or {}).get("parts", ())):
                if "inlineData" in each:  # either alphabet of base64 is the same data
                    data = each["inlineData"]["data"].rstrip("=").replace("-", "+").replace("_", "/")
                    each["inlineData"]["data"] = data
            parts.append(part)
        if contents and contents[-1]["role"] == content.get("role", "user"):
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": content.get("role", "user"), "parts": parts})
    tools = body.get("tools") or []
    tools = [tools] if isinstance(tools, dict) else tools
    config = body.get("generationConfig") or {}
    if "thinkingLevel" in config.get("thinkingConfig", {}):
        config["thinkingConfig"]["thinkingLevel"] = config["thinkingConfig"]["thinkingLevel"].lower()
    rest = {
        k: v
        for k, v in body.items()
        if k not in ("contents", "tools", "systemInstruction", "generationConfig", "model")
    }
    return {
        **{key: value for key, value in rest.items() if value not in ({}, [])},
        "contents": contents,
        "system": [part["text"] for part in (body.get("systemInstruction") or {}).get("parts", [])],
        "functions": [function(each) for tool in tools for each in tool.get("functionDeclarations", ())],
        "builtins": sorted(
            json.dumps({k: v}) for tool in tools for k, v in tool.items() if k != "functionDeclarations"
        ),
        "config": config,
    }


def again(case: dict[str, Any]) -> dict[str, Any]:
    path = case["request"]["path"]
    model = path.rpartition("/")[2].partition(":")[0]
    provider = "vertex" if "/publishers/" in path else "gemini"
    named = model if "gemini" in model else "gemini-2.5-flash"
    parsed = parse_request(
        json.dumps(case["request"]["body"]).encode(), provider=provider, model=named, stream="stream" in path
    )
    dialect = resolve(f"{provider}/{named}").dialect
    request = encode_draft(parsed.conversation, dialect, named, tools=parsed.tools, options=parsed.options)
    assert request.path == f"/models/{named}:" + (
        "streamGenerateContent?alt=sse" if "streamGenerateContent" in path else "generateContent"
    )
    return json.loads(request.body)


def outcome(case: dict[str, Any]) -> list[str]:
    try:
        got, wanted = normal(again(case)), normal(json.loads(json.dumps(case["request"]["body"])))
    except (InvalidHistory, KeyError) as error:
        return [repr(error)]
    return [
        f"{key}: got {json.dumps(got.get(key))[:1500]}, wanted {json.dumps(wanted.get(key))[:1500]}"
        for key in sorted({*got, *wanted})
        if got.get(key) != wanted.get(key)
    ]


def test_requests_are_written_as_they_were_read() -> None:
    wrong = {name: found for name, case in CASES.items() if name not in REQUESTS and (found := outcome(case))}
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


def test_exceptions_are_few_and_none_is_stale() -> None:
    cases = shared_only(CASES)
    assert len(shared_only(MULTI_TURN)) >= 24
    assert len(REQUESTS) <= len(cases) * 0.02
    assert {name for name in REQUESTS if not outcome(cases[name])} == set()


def test_reading_twice_gives_the_same_conversation() -> None:
    for case in MULTI_TURN.values():
        raw = json.dumps(case["request"]["body"]).encode()
        assert parse_request(raw) == parse_request(raw)


def test_an_answer_goes_back_as_it_came() -> None:
    """Every recorded answer, decoded and replayed to its own model: the same parts, signatures and opaque ones included."""
    for case in recordings("gemini"):
        body = case["response"]["body"]
        if case["response"]["status"] >= 400 or not isinstance(body, dict):
            continue
        model = str(body.get("modelVersion") or "gemini-2.5-flash")
        dialect = resolve(f"gemini/{model}").dialect
        raw = json.dumps(body).encode()
        turn = decode_response(raw, dialect=dialect, model=model, turn_key="t")
        wanted = [part for part in body["candidates"][0]["content"].get("parts", []) if part != {"text": ""}]
        if turn.failure or not wanted:
            continue
        written = encode_draft(Conversation((human("hi", key="h"), turn)), dialect, model)
        got = json.loads(written.body)["contents"][1]["parts"]
        for part in [*got, *wanted]:
            part.get("functionCall", {}).pop("id", None)
            if "functionCall" in part:
                part["functionCall"].setdefault("args", {})
                if part.get("thoughtSignature") == BYPASS:
                    del part["thoughtSignature"]
        assert got == wanted, case["id"]
