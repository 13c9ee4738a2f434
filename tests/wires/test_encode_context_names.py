"""Names a host refuses get another, the same one in every request, and never one that is taken."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from midstream import Conversation, ToolSpec, encode_request, human
from midstream.core.dialect import Limits
from midstream.wires.encode_context import ToolNames

KIMI = Limits(tool_name_pattern=r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@given(st.lists(st.text(min_size=1, max_size=90), unique=True, max_size=8))
def test_every_name_fits_keeps_apart_and_leads_back(names: list[str]) -> None:
    table = ToolNames(KIMI)
    spelled = [table.wire(name) for name in names]
    assert all(re.fullmatch(KIMI.tool_name_pattern, name) for name in spelled)
    assert len(set(spelled)) == len(names)
    back = table.changed or {}
    assert [back.get(wire, wire) for wire in spelled] == names
    assert [ToolNames(KIMI).wire(name) for name in reversed(names)] == spelled[::-1]


def test_two_tools_that_differ_in_a_dot_stay_two_tools() -> None:
    tools = (ToolSpec("a.b"), ToolSpec("a_b"))
    for model in (
        "openai/gpt-4o",
        "anthropic/claude-sonnet-4-5",
        "openai-responses/gpt-5.2",
        "ollama/llama3.1",
        "cohere/command-a-03-2025",
    ):
        body = json.loads(encode_request(model, Conversation((human("x"),)), tools=tools).body)
        names = [tool.get("name") or tool["function"]["name"] for tool in body["tools"]]
        assert len(set(names)) == 2, model


def test_a_rewritten_name_has_no_hyphen_where_the_host_takes_none() -> None:
    loose, strict = ToolNames(Limits()), ToolNames(Limits(tool_name_pattern=r"[A-Za-z_][A-Za-z0-9_]{0,63}"))
    assert loose.wire("read-file") == "read-file"
    assert loose.wire("read-file.x").startswith("read-file_x_")
    assert strict.wire("read-file").startswith("read_file_")
    assert strict.wire("read-file") != strict.wire("read_file") == "read_file"
    assert strict.changed == {strict.wire("read-file"): "read-file"}
