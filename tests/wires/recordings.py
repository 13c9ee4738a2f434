"""Recordings of provider traffic: ours, written by hand in `tests/data/recordings`, and the shared ones where they are; and how an answer
of ours is compared with what was expected of it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from midstream.core.blocks import ToolCall, Turn, Usage
from midstream.core.tools import freeform_input
from tests.shared_data import ROOT, shared

OWN = Path(__file__).resolve().parents[1] / "data" / "recordings"


def recordings(*folders: str) -> Iterator[dict[str, Any]]:
    for folder in folders:
        yield from _own(folder)
        for path in sorted((ROOT / "corpus" / folder).glob("*.json")):
            yield msgspec.json.decode(path.read_bytes())


def shared_only(cases: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The shared ones among these; the test is skipped where they are missing, for it is about them."""
    shared("corpus")
    return {name: case for name, case in cases.items() if not case.get("own")}


def _own(folder: str) -> Iterator[dict[str, Any]]:
    for row in tomllib.loads((OWN / f"{folder}.toml").read_text("utf-8"))["case"]:
        stream, body = row.get("stream", False), row["body"]
        request = {"path": row.get("path", ""), "body": json.loads(row["request"])} if "request" in row else None
        yield {
            **{name: row[name] for name in ("id", "provider", "model")},
            "own": True,
            "wire": folder,
            "features": row.get("features", []),
            "request": request,
            "response": {
                "status": row.get("status", 200),
                "stream": stream,
                "body": body if stream else json.loads(body),
            },
            "expected": {
                "text": "",
                "reasoning": "",
                "tool_calls": [],
                "finish_reason": None,
                "usage": None,
                "id": None,
                **row["expected"],
            },
            "expected_usage_norm": row.get("usage"),
        }


def body_bytes(case: dict[str, Any]) -> bytes:
    body = case["response"]["body"]
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def is_stream(case: dict[str, Any]) -> bool:
    return bool(case["response"]["stream"]) and case["response"]["status"] < 400


def parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _said(call: ToolCall) -> str:
    return freeform_input(call) if call.kind == "freeform" else call.arguments


def _absent_is_empty(arguments: Any) -> Any:
    """No arguments, null and the text `null` are the same nothing."""
    return "" if arguments is None else arguments


def differences(turn: Turn, case: dict[str, Any], *, output_holds_reasoning: bool = True) -> list[str]:
    """What of text, reasoning, calls, finish and usage is not as expected.

    With `output_holds_reasoning` False the recording's own figures leave reasoning out of the output, ours do not.
    """
    expected = case["expected"]
    found: list[str] = []

    def compare(what: str, got: Any, wanted: Any) -> None:
        if got != wanted:
            found.append(f"{what}: got {str(got)[:200]!r}, expected {str(wanted)[:200]!r}")

    compare("text", turn.text, expected["text"])
    compare("reasoning", turn.thinking, expected["reasoning"])
    compare(
        "tool calls",
        [(call.name, _absent_is_empty(parsed(_said(call)))) for call in turn.tool_calls],
        [(call["name"], _absent_is_empty(call["arguments"])) for call in expected["tool_calls"]],
    )
    compare("finish", turn.raw_stop, expected["finish_reason"])
    compare_usage(turn.usage or Usage(), case, compare, output_holds_reasoning)
    return found


def compare_usage(usage: Usage, case: dict[str, Any], compare: Any, output_holds_reasoning: bool) -> None:
    norm = case["expected_usage_norm"] or {}
    output = norm.get("output_tokens") or 0
    if not output_holds_reasoning:
        output += norm.get("reasoning_tokens") or 0
    compare("input tokens", usage.input, norm.get("input_tokens") or 0)
    compare("output tokens", usage.output, output)
    for name in ("cache_read", "cache_write", "reasoning"):
        wanted = norm.get(f"{name}_tokens")
        if wanted is not None:  # null: the recording's reader knew no field for it; ours may
            compare(f"{name} tokens", getattr(usage, name), wanted)
