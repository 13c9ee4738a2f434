"""What of a client's own fields reaches the model: the cases are in tests/data/gateway/carried_fields.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from midstream.core.blocks import Conversation, Media, Text, human
from midstream.core.dialect import Options
from midstream.dialects.registry import resolve
from midstream.wires.carry import carried, with_schema, without_marks

CASES: list[dict[str, Any]] = json.loads(Path("tests/data/gateway/carried_fields.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_fields(case: dict[str, Any]) -> None:
    asked = Options(extra_body=case["fields"], **case.get("set", {}))
    options, notes = carried(asked, case["wire"], resolve(case["model"]).dialect, tuple(case.get("allowed", ())))
    assert sorted(options.extra_body or {}) == sorted(case.get("kept", []))
    assert {name: getattr(options, name) for name in case.get("options", {})} == case.get("options", {})
    assert len(notes) == case.get("notes", 0)
    assert all(note.code == "unsupported_option" and note.action == "dropped" for note in notes)
    assert all(note.name in case["fields"] for note in notes)


def test_no_fields_cost_nothing() -> None:
    options = Options()
    assert carried(options, "openai-chat", resolve("openai/gpt-4o").dialect) == (options, [])


_MARK = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("model", "stay"),
    [
        ("moonshot/kimi-k2.5", False),
        ("mistral/mistral-large-latest", False),
        ("openai-responses/gpt-5.2", False),
        ("gemini/gemini-3-pro-preview", False),
        ("anthropic/claude-sonnet-5", True),
        ("moonshot-anthropic/kimi-k2.5", True),
        ("openrouter/anthropic/claude-sonnet-5", True),
    ],
)
def test_cache_marks_go_to_those_who_know_them(model: str, stay: bool) -> None:
    marked = Conversation(
        (human(Text("a", {**_MARK, "other": 1}), Media("image/png", "AAAA", extra=_MARK)), human("b")),
        (Text("s"), Text("t", _MARK)),
    )
    plain = Conversation(
        (human(Text("a", {"other": 1}), Media("image/png", "AAAA")), human("b")), (Text("s"), Text("t"))
    )
    assert without_marks(marked, resolve(model).dialect) == (marked if stay else plain)
    assert without_marks(plain, resolve(model).dialect) == plain


_FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}


@pytest.mark.parametrize(
    ("models", "as_said"),
    [
        (["openai/gpt-4o"], True),
        (["openai/gpt-4o", "anthropic/claude-sonnet-5"], False),  # another wire
        (["deepseek/deepseek-chat"], False),  # the same wire, but it takes no schema
        (["openai/gpt-4o", "deepseek/deepseek-chat"], False),
    ],
)
def test_a_clients_schema_stays_as_it_was_said_if_every_reader_takes_it_so(models: list[str], as_said: bool) -> None:
    asked = Options(response_format=_FORMAT)
    found = with_schema(asked, "openai-chat", [resolve(model).dialect for model in models])
    assert found == (asked if as_said else Options(schema={"type": "object"}))
