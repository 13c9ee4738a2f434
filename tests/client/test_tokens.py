"""Tokens: estimates that are near, prices that count each token once, windows; unknown is None."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.client.tokens import estimate_conversation, estimate_text, window_of
from midstream.core.blocks import (
    Conversation,
    Media,
    Opaque,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResponse,
    Turn,
    human,
)
from midstream.core.tools import Grammar, ToolSpec


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
    for tool in (ToolSpec("t", "x" * 4000), ToolSpec("t", "", grammar=Grammar("lark", "x" * 4000), kind="freeform")):
        assert size(Turn("system", tools=(tool,))) > empty + 900
        assert size(Turn("system", tools=(tool, tool))) > empty + 1800


def test_a_reader_counts_its_own_thinking_only() -> None:
    kimi, other = Origin("moonshot", "openai-chat", "kimi-k2.5"), Origin("deepseek", "openai-chat", "deepseek-chat")
    said = Conversation((Turn("ai", (Thinking("x" * 4000, origin=kimi), Text("y"))),))
    assert estimate_conversation(said, kimi) > estimate_conversation(said, other) + 900
    assert estimate_conversation(said, other) == estimate_conversation(said)


@pytest.mark.parametrize(
    "model, window",
    [
        ("kimi-k2.5", 262_144),
        ("moonshotai/Kimi-K2.5", 262_144),
        ("kimi-k2-0711-preview", 131_072),
        ("kimi-k2-0905-preview", 262_144),
        ("gpt-5.1", 400_000),
        ("o4-mini", 200_000),
        ("claude-sonnet-4-5", 200_000),
        ("anthropic/claude-sonnet-4.5", 200_000),
        ("gemini-2.5-flash", 1_048_576),
        ("deepseek-reasoner", 131_072),
        ("meta-llama/Llama-3.1-70B-Instruct", 131_072),
        ("somebody/new", None),
        ("solo3", None),
    ],
)
def test_windows_go_by_the_models_own_name(model: str, window: int | None) -> None:
    assert window_of(model) == window
