"""Options are held to the words that models know when they are made, not when they are sent."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from midstream.core.dialect import EFFORTS, Options
from midstream.core.errors import ConfigError


@pytest.mark.parametrize(
    "field, said, known",
    [
        ("thinking", "yes", "on, off, None"),
        ("thinking", 1, "on, off, None"),
        ("effort", "hi", "none, minimal, low, medium, high, xhigh, max, None"),
        ("effort", ["low"], "low"),
        ("missing_reasoning", "skip", "placeholder, disable-thinking, fail"),
        ("foreign_thinking", None, "drop, text, keep"),
        ("text_calls", "run", "execute, reask, show"),
        ("path", "raw", "auto, native, chat, None"),
    ],
)
def test_a_word_nobody_knows_is_refused_with_those_that_are(field: str, said: Any, known: str) -> None:
    for make in (lambda: Options(**{field: said}), lambda: replace(Options(), **{field: said})):
        with pytest.raises(ConfigError) as caught:
            make()
        assert f"{field}={said!r}" in str(caught.value) and known in str(caught.value)


@pytest.mark.parametrize("effort", [None, *EFFORTS])
def test_every_effort_may_be_asked_for(effort: str | None) -> None:
    assert Options(effort=effort).effort == effort


def test_thinking_may_be_said_as_yes_or_no() -> None:
    assert Options(thinking=True) == Options(thinking="on")  # type: ignore[arg-type]
    assert Options(thinking=False) == Options(thinking="off")  # type: ignore[arg-type]
