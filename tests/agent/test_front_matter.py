from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.agent.front_matter import MAX_LINES, split_front_matter
from midstream.core.errors import ToolFailed

CASES = json.loads((Path(__file__).parents[1] / "data" / "guidance" / "front_matter.json").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES)
def test_what_is_read(case: str) -> None:
    text, expected, body = CASES[case]
    if isinstance(expected, str):
        with pytest.raises(ToolFailed, match=expected.replace("`", ".").replace("(", ".")):
            split_front_matter(text)
    else:
        assert split_front_matter(text) == (expected, body)


def test_an_end_that_is_far_away_is_not_looked_for() -> None:
    lines = [f"key{number}: x" for number in range(MAX_LINES)]
    assert len(split_front_matter("\n".join(["---", *lines, "---"]))[0]) == MAX_LINES
    with pytest.raises(ToolFailed, match="no second ---"):
        split_front_matter("\n".join(["---", *lines, "one: more", "---"]))


@given(st.text(alphabet="-:|>\"'\\#ab &*!\n\t{}[]xu0é", max_size=200))
def test_any_text_gives_values_or_says_what_is_wrong(text: str) -> None:
    with suppress(ToolFailed):
        values, body = split_front_matter(f"---\n{text}\n---\nbody")
        assert all(len(value) <= len(text) for value in values.values())
        assert body.endswith("body")
