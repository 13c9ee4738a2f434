"""Assistant texts recorded from another client's tests: the calls in them, and the text around the calls."""

from __future__ import annotations

from typing import Any

import pytest

from midstream.toolformats.registry import get_filter
from tests.shared_data import vector_params, vectors

from .feeding import feed, outcome, splits
from .kimi_exceptions import TEXT_EXTRACTION

VECTORS = "ids/text_extraction.json"
FORMATS = {
    "gemma": "gemma", "json": "gemma", "json+end_marker": "gemma", "key_value": "gemma", "hermes": "hermes", "xml_claude": "xml",
    "xml_generic": "xml", "use_tag": "xml", "qwen_glm_xml": "qwen", "qwen3_coder": "qwen3-coder", "glm": "glm", "llama": "llama",
    "deepseek": "deepseek", "kimi": "kimi",
}  # fmt: skip


def _differences(vector: dict[str, Any]) -> list[str]:
    format = FORMATS[vector["format"]]
    outcomes = [outcome(feed(get_filter(format), portions)) for portions in splits(vector["text"])]
    assert all(found == outcomes[0] for found in outcomes)
    found = outcomes[0]
    differences = []
    wanted_calls = [(call["name"], call["arguments"]) for call in vector["expected_calls"]]
    if wanted_calls != found.parsed:
        differences.append(f"calls: expected {wanted_calls}, came {found.parsed}")
    if (cleaned := vector.get("expected_cleaned")) is not None:
        # The recorded client trims what is left around a call; we keep it, and only words are compared (kimi: to the letter).
        same = cleaned == found.text if format == "kimi" else cleaned.split() == found.text.split()
        if not same:
            differences.append(f"text: expected {cleaned!r}, came {found.text!r}")
    missing = [part for part in vector.get("expected_cleaned_contains", ()) if part not in found.text]
    if missing:
        differences.append(f"text: {missing} missing from {found.text!r}")
    ids = [call["raw_id"] for call in vector["expected_calls"] if "raw_id" in call]
    if ids and ids != [call[2] for call in found.calls]:
        differences.append(f"ids: expected {ids}, came {found.calls}")
    return differences


@pytest.mark.parametrize("vector", vector_params(VECTORS))
def test_vector(vector: dict[str, Any]) -> None:
    """Also where it is listed as different, a text that seems to hold a call yields calls, problems, or all of its words."""
    differences = _differences(vector)
    if vector["id"] in TEXT_EXTRACTION:
        assert differences, f"{vector['id']} agrees: take it off the list of exceptions"
    else:
        assert differences == []
    found = outcome(feed(get_filter(FORMATS[vector["format"]]), [vector["text"]]))
    assert found.calls or found.problems or found.text.split() == vector["text"].split()


def test_no_exception_is_stale() -> None:
    assert set(TEXT_EXTRACTION) <= set(vectors(VECTORS))
