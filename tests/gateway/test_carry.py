"""What of a client's own fields reaches the model: the cases are in tests/data/gateway/carried_fields.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from midstream.core.dialect import Options
from midstream.dialects.registry import resolve
from midstream.gateway.carry import carried

CASES: list[dict[str, Any]] = json.loads(Path("tests/data/gateway/carried_fields.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_fields(case: dict[str, Any]) -> None:
    asked = Options(extra_body=case["fields"], **case.get("set", {}))
    options, notes = carried(asked, case["wire"], resolve(case["model"]).dialect, tuple(case.get("allowed", ())))
    assert sorted(options.extra_body or {}) == sorted(case.get("kept", []))
    assert {name: getattr(options, name) for name in case.get("options", {})} == case.get("options", {})
    assert len(notes) == case.get("notes", 0)
    assert all(note.code == "unsupported_option" and note.action == "dropped" for note in notes)


def test_no_fields_cost_nothing() -> None:
    options = Options()
    assert carried(options, "openai-chat", resolve("openai/gpt-4o").dialect) == (options, [])
