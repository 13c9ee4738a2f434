"""Every recorded Ollama request, read and written again for the same model, says the same thing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midstream.dialects.registry import resolve
from midstream.wires.ollama.parse import parse_request
from tests.wires.drafts import encode_draft
from tests.wires.recordings import recordings

CASES = {case["id"]: case for case in recordings("ollama-chat")}
ORPHANS = {
    "own-ollama-result-without-a-name": "get_weather",
    "ollama-llama3-1-json-mt-b5e73b": "get_current_weather",
}
"""Their results lack the tool's name, which we add; all else is equal."""


def normal(body: dict[str, Any]) -> dict[str, Any]:
    out = {key: value for key, value in body.items() if value not in (None, "", [], {})}
    out["messages"] = [
        {
            **{key: value for key, value in message.items() if value not in ("", [])},
            **(
                {"tool_calls": [{"function": call["function"]} for call in message["tool_calls"]]}
                if message.get("tool_calls")
                else {}
            ),
        }
        for message in body["messages"]
    ]
    out.setdefault("stream", True)
    return out


def again(body: dict[str, Any]) -> dict[str, Any]:
    parsed = parse_request(json.dumps(body).encode())
    dialect = resolve(f"ollama/{parsed.model}").dialect
    request = encode_draft(parsed.conversation, dialect, parsed.model, tools=parsed.tools, options=parsed.options)
    assert request.path == "/api/chat"
    return json.loads(request.body)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ORPHANS])
def test_requests_are_written_as_they_were_read(name: str) -> None:
    body = CASES[name]["request"]["body"]
    assert normal(again(body)) == normal(body)


@pytest.mark.parametrize("name", [name for name in ORPHANS if name in CASES])
def test_a_result_without_a_name_finds_its_call_by_position(name: str) -> None:
    body = CASES[name]["request"]["body"]
    written = again(body)
    assert written["messages"][-1].pop("tool_name") == ORPHANS[name]
    assert normal(written) == normal(body)
