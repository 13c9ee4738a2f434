"""Every recorded Cohere request, read and written again for the same model, says the same thing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midstream.dialects.registry import resolve
from midstream.sim.rules.hosts import host_for, judge
from midstream.wires.cohere.parse import parse_request
from tests.wires.drafts import encode_draft
from tests.wires.recordings import recordings

CASES = {case["id"]: case["request"]["body"] for case in recordings("cohere-chat") if case["request"]}


def normal(body: dict[str, Any]) -> dict[str, Any]:
    """One text is the same as a list of it, an empty one as none; ids are numbered in their order."""
    seen: dict[str, int] = {}
    out = {key: value for key, value in body.items() if value not in (None, [])}
    out.setdefault("stream", False)
    out["messages"] = [_message(message, seen) for message in body["messages"]]
    return out


def _message(message: dict[str, Any], seen: dict[str, int]) -> dict[str, Any]:
    out = {key: value for key, value in message.items() if value not in (None, [])}
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    out["content"] = [part for part in content or () if part.get("text", True)]
    if "tool_call_id" in out:
        out["tool_call_id"] = seen.setdefault(out["tool_call_id"], len(seen))
    if "tool_calls" in out:
        calls = out["tool_calls"]
        out["tool_calls"] = [{**call, "id": seen.setdefault(call["id"], len(seen))} for call in calls]
    return out


@pytest.mark.parametrize("name", CASES)
def test_requests_are_written_as_they_were_read(name: str) -> None:
    body = CASES[name]
    parsed = parse_request(json.dumps(body).encode())
    dialect = resolve(f"cohere/{parsed.model}").dialect
    request = encode_draft(parsed.conversation, dialect, parsed.model, tools=parsed.tools, options=parsed.options)
    assert request.path == "/v2/chat"
    assert normal(json.loads(request.body)) == normal(body)
    assert judge(request.body, host_for(dialect), "paranoid") == []
