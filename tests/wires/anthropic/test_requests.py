"""Every recorded Messages request, read and written again for the same model, says the same thing."""

from __future__ import annotations

import json
from typing import Any

from midstream.core.errors import InvalidHistory
from midstream.dialects.registry import resolve
from midstream.wires.anthropic.parse import parse_request
from tests.wires.anthropic.exceptions import REQUESTS
from tests.wires.anthropic.requests import differences
from tests.wires.drafts import encode_draft
from tests.wires.recordings import recordings, shared_only

CASES = {
    case["id"]: case
    for case in recordings("anthropic-messages")
    if case["request"] and isinstance(case["request"]["body"]["messages"][0], dict)
}
MULTI_TURN = {name: case for name, case in CASES.items() if len(case["request"]["body"]["messages"]) > 1}


def outcome(case: dict[str, Any]) -> list[str]:
    body = case["request"]["body"]
    parsed = parse_request(json.dumps(body).encode())
    model = parsed.model if parsed.model.startswith("claude") else "claude-haiku-4-5"
    dialect = resolve(f"anthropic/{case['model'] if 'claude' in case['model'] else model}").dialect
    try:
        request = encode_draft(parsed.conversation, dialect, parsed.model, tools=parsed.tools, options=parsed.options)
    except InvalidHistory as error:
        return [str(error)]
    return differences(json.loads(request.body), body)


def test_requests_are_written_as_they_were_read() -> None:
    wrong = {name: found for name, case in CASES.items() if name not in REQUESTS and (found := outcome(case))}
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


def test_exceptions_are_few_and_none_is_stale() -> None:
    cases, multi_turn = shared_only(CASES), shared_only(MULTI_TURN)
    assert len(multi_turn) == 46
    assert len(REQUESTS) <= len(cases) * 0.02
    accepted = [name for name, case in multi_turn.items() if case["response"]["status"] == 200]
    assert len(set(accepted) & set(REQUESTS)) <= len(accepted) * 0.02
    assert {name for name in REQUESTS if not outcome(cases[name])} == set()
