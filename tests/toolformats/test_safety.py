from __future__ import annotations

import pytest

from midstream.core.dialect import TextCalls
from midstream.toolformats.registry import leak_filter

from .feeding import feed, outcome, splits, tool

TOOLS = (tool("read", path="string"),)
TEXT = 'Hm. <tool_call>{{"name": "{}", "arguments": {{"path": "/x"}}}}</tool_call>'


@pytest.mark.parametrize(
    ("name", "safety", "runs", "why"),
    [
        ("read", "execute", True, ""),
        ("rm", "execute", False, "declared"),
        ("read", "reask", False, "ask again"),
        ("rm", "reask", False, "ask again"),
        ("read", "show", False, "shown"),
    ],
)
def test_policy(name: str, safety: TextCalls, runs: bool, why: str) -> None:
    for portions in splits(TEXT.format(name)):
        found = outcome(feed(leak_filter("hermes", TOOLS, safety=safety), portions))
        assert found.text == "Hm. "  # in every case the leaked call stays out of what later requests replay
        assert bool(found.calls) is runs
        assert [why in problem.why for problem in found.problems] == ([] if runs else [True])
        if not runs:
            assert '{"path": "/x"}' in found.problems[0].raw
