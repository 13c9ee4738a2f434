"""Estimates: monotone, additive enough, near real tokenizers, and blind to what is not sent."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.client.tokens import estimate_conversation, estimate_text
from midstream.core.blocks import Conversation, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn, human


def test_nothing_is_nothing_and_known_texts_are_near() -> None:
    assert estimate_text("") == 0
    assert 8 <= estimate_text("The quick brown fox jumps over the lazy dog.") <= 16
    assert 4 <= estimate_text("你好，世界。今天") <= 12


@settings(max_examples=100)
@given(st.text(max_size=200), st.text(max_size=200))
def test_more_text_is_never_fewer_tokens(one: str, two: str) -> None:
    assert estimate_text(one + two) >= max(estimate_text(one), estimate_text(two))


def test_every_kind_of_block_counts_but_thinking_and_failed_turns() -> None:
    def size(*turns: Turn) -> int:
        return estimate_conversation(Conversation(turns))

    empty = size(Turn("ai"))
    assert size(Turn("ai", (Thinking("x" * 4000),))) == empty
    assert size(Turn("ai", (Text("x" * 4000),))) > empty + 900
    assert size(Turn("ai", (ToolCall("i", "n", "x" * 4000),))) > empty + 900
    assert size(Turn("tool", (ToolResponse("i", "n", (Text("x" * 4000),)),))) > empty + 900
    assert size(Turn("tool", (ToolResponse("i", "n", (Media("image/png", "x"),)),))) > empty + 500
    assert size(Turn("human", (Media("image/png", "x" * 1_000_000),))) < empty + 5000
    assert size(Turn("ai", (Text("x" * 4000),), failure="truncated")) == 0
    assert size(Turn("ai", (Opaque("server_tool", {"x": "y" * 4000}),))) >= empty
    assert estimate_conversation(Conversation((human("x"),), system="y" * 4000)) > 900
