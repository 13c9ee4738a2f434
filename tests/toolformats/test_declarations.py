from __future__ import annotations

import json
from typing import Any

import pytest

from midstream.core.tools import ToolSpec
from midstream.toolformats import format as declarations
from midstream.toolformats.kimi import recover_name
from midstream.toolformats.registry import text_format
from tests.shared_data import vector_params, vectors

from .feeding import tool
from .kimi_exceptions import TOOL_NAMES

VECTORS = "ids/tool_formats.json"


def _declares(vector: dict[str, Any]) -> bool:
    structured = ("openai", "anthropic")  # a wire's business
    return (
        vector["op"] in ("convertToolDeclarationsToFormat", "toProviderFormat") and vector["format"] not in structured
    )


def _names(vector: dict[str, Any]) -> bool:
    return bool(vector["op"] == "normalizeToolName")


def _spec(declared: dict[str, Any]) -> ToolSpec:
    inner = declared.get("function", declared)
    return ToolSpec(inner["name"], inner["description"], inner.get("parametersJsonSchema") or inner.get("parameters"))


@pytest.mark.parametrize("vector", vector_params(VECTORS, _declares))
def test_declarations_carry_the_recorded_shape(vector: dict[str, Any]) -> None:
    """The shape stands in the declaration text; where the recorded client refuses a format, we have one."""
    text = text_format(vector["format"]).declare([_spec(tool) for tool in vector["input"]])
    for number, given in enumerate(vector["input"]):
        spec = _spec(given)
        wanted = [declarations.plain(spec), declarations.wrapped(spec)]
        if "expected" in vector:
            expected = vector["expected"][number]
            inner = expected.get("function", expected)
            # The recorded client adds `required: []`: it says nothing, and schemas pass through here as they are.
            inner["parameters"] = {k: v for k, v in inner["parameters"].items() if k != "required" or v}
            assert inner == declarations.plain(spec)
        assert any(json.dumps(shape, ensure_ascii=False) in text for shape in wanted)


@pytest.mark.parametrize("vector", vector_params(VECTORS, _names))
def test_mangled_names_are_recovered(vector: dict[str, Any]) -> None:
    wanted = vector["expected"]
    spelled = vector["input"].strip()
    declared = wanted if vector["id"] not in TOOL_NAMES else spelled.removeprefix("functions").removeprefix("_")
    found = recover_name(spelled, [tool(declared or "other"), tool("unrelated")])
    if vector["id"] in TOOL_NAMES:
        assert found != wanted
        assert found == (declared or None)
    else:
        assert found == wanted


def test_no_exception_is_stale() -> None:
    assert set(TOOL_NAMES) <= {identity for identity, vector in vectors(VECTORS).items() if _names(vector)}
