from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.core.blocks import (
    Block,
    Conversation,
    Media,
    Opaque,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResponse,
    Turn,
    Usage,
    human,
    tool_result,
)
from midstream.core.errors import LocalError
from midstream.core.tools import ToolSpec

words = st.text(max_size=6)
maybe = st.none() | words
numbers = st.integers(0, 2**53)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
extras = st.none() | st.dictionaries(words, json_values, max_size=2)
origins = st.none() | st.builds(Origin, words, words, words)
texts = st.builds(Text, words, extras)
media = st.builds(Media, words, maybe, maybe, maybe, extras)
opaques = st.builds(Opaque, words, json_values, origins)
thoughts = st.builds(Thinking, words, words, maybe, maybe, st.booleans(), origins, extras)
calls = st.builds(ToolCall, words, words, words, maybe, words, extras)
results = st.builds(
    ToolResponse, words, words, st.lists(texts | media | opaques, max_size=2).map(tuple), st.booleans(), maybe, extras
)
blocks = texts | thoughts | calls | results | media | opaques
usages = st.none() | st.builds(
    Usage, numbers, numbers, numbers, numbers, numbers, st.booleans(), st.none() | st.floats(0, 9), extras
)
turns = st.builds(
    Turn,
    st.sampled_from(["human", "ai", "tool"]),
    st.lists(blocks, max_size=3).map(tuple),
    words, words, origins, usages, words, maybe, st.none() | st.floats(0, 9), words, maybe, extras,
)  # fmt: skip
conversations = st.builds(
    Conversation, st.lists(turns, max_size=3).map(tuple), words | st.lists(texts, max_size=2).map(tuple), words, extras
)


@given(conversations)
@settings(max_examples=150, deadline=None)
def test_json_gives_the_conversation_back(conversation: Conversation) -> None:
    data = conversation.to_json()
    assert Conversation.from_json(data) == conversation
    assert Conversation.from_json(data.decode()).to_json() == data


@given(conversations)
@settings(max_examples=50, deadline=None)
def test_fields_of_a_newer_midstream_do_not_break_loading(conversation: Conversation) -> None:
    def widen(value: Any) -> Any:
        if isinstance(value, list):
            return [widen(each) for each in value]
        if isinstance(value, dict):
            grown = {
                key: widen(each) if key in ("turns", "blocks", "content", "origin") else each
                for key, each in value.items()
            }
            return {**grown, "from_the_future": {"a": [1]}}
        return value

    stored = msgspec.json.encode(widen(msgspec.json.decode(conversation.to_json())))
    assert Conversation.from_json(stored) == conversation


def required(kind: type) -> dict[str, Any]:
    fields = msgspec.structs.fields(kind)
    return {field.name: "human" if field.name == "speaker" else "x" for field in fields if field.required}


@pytest.mark.parametrize("kind", [*get_args(Block), Turn, Conversation, Origin, Usage], ids=lambda kind: kind.__name__)
def test_data_that_knows_only_the_first_fields_loads(kind: Any) -> None:
    """The fields without a default are as old as the format; a new one must have a default."""
    stored = required(kind)
    tag = kind.__struct_config__.tag
    value = msgspec.json.decode(msgspec.json.encode({**stored, **({"type": tag} if tag else {})}), type=kind)
    assert {name: getattr(value, name) for name in stored} == stored


FIRST_FIELDS = {
    Text: {"text"}, Thinking: set(), ToolCall: {"id", "name"}, ToolResponse: {"call_id"}, Media: set(),
    Opaque: {"kind", "data"}, Turn: {"speaker"}, Conversation: set(), Origin: set(), Usage: set(),
}  # fmt: skip


@pytest.mark.parametrize("kind", FIRST_FIELDS, ids=lambda kind: kind.__name__)
def test_no_new_field_is_required(kind: type) -> None:
    assert set(required(kind)) == FIRST_FIELDS[kind]


def test_what_holds_its_default_is_not_written() -> None:
    assert (
        Conversation((human("hi"),)).to_json()
        == b'{"turns":[{"speaker":"human","blocks":[{"type":"text","text":"hi"}]}]}'
    )


def test_empty_thinking_is_not_no_thinking() -> None:
    data = Conversation((Turn("ai", (Thinking("", "reasoning_content"),)),)).to_json()
    assert Conversation.from_json(data).turns[0].blocks == (Thinking("", "reasoning_content"),)


@pytest.mark.parametrize("block", [Text("a"), Turn("ai"), Conversation(), Usage(), Origin()])
def test_values_are_frozen(block: Any) -> None:
    name = block.__struct_fields__[0]
    with pytest.raises(AttributeError):
        setattr(block, name, getattr(block, name))


def test_growing_shares_the_old_turns() -> None:
    first = Conversation((human("a"),), system="s", id="c")
    grown = first.add(human("b"), human("c"))
    assert len(first.turns) == 1
    assert grown.turns[0] is first.turns[0]
    assert (grown.system, grown.id, len(grown.turns)) == ("s", "c", 3)


def test_reading_a_turn() -> None:
    call, result = ToolCall("1", "f"), ToolResponse("1", "f", (Text("a"), Media("image/png"), Text("b")))
    turn = Turn("ai", (Thinking("t1"), Text("x"), call, Thinking("t2"), Text("y"), result))
    assert (turn.text, turn.thinking) == ("xy", "t1t2")
    assert (turn.tool_calls, turn.tool_responses, result.text) == ((call,), (result,), "ab")


def test_reading_the_system_prompt() -> None:
    assert Conversation(system="s").system_text == "s"
    assert Conversation(system=(Text("a"), Text("b"))).system_text == "a\n\nb"


@pytest.mark.parametrize(
    ("mime", "kind"),
    [("image/png", "image"), ("audio/wav", "audio"), ("video/mp4", "video"), ("text/plain", "file"), ("", "file")],
)
def test_kinds_of_media(mime: str, kind: str) -> None:
    assert Media(mime).kind == kind


def test_usage_reads_the_same_however_the_host_counts() -> None:
    inside = Usage(input=100, cache_read=60, cache_write=10)
    outside = Usage(input=30, cache_read=60, cache_write=10, cache_in_input=False)
    assert (inside.read, inside.fresh) == (outside.read, outside.fresh) == (100, 30)
    assert Usage(input=5, cache_read=9).fresh == 0


def test_short_ways_to_write_turns() -> None:
    picture = Media("image/png", data="x")
    assert human("a", picture, key="k") == Turn("human", (Text("a"), picture), key="k")
    result = tool_result(ToolCall("1", "f"), "ok", picture, is_error=True)
    assert result == ToolResponse("1", "f", (Text("ok"), picture), is_error=True)


@pytest.mark.parametrize("given", ["hi", ["hi"], ("hi",), [Text("hi")], Text("hi"), (part for part in ["hi"])])
def test_a_turn_takes_what_plainly_is_its_blocks(given: Any) -> None:
    assert Turn("human", given) == human("hi")
    assert type(Turn("human", given).blocks) is tuple


@pytest.mark.parametrize("given", [[1], (b"x",), [Text("a"), None], [human("x")], Usage()])
def test_a_turn_of_something_else_says_what_came(given: Any) -> None:
    with pytest.raises(LocalError, match="a turn holds blocks"):
        Turn("human", given)


def test_a_stranger_cannot_speak() -> None:
    with pytest.raises(LocalError, match="no speaker 'user': expected human, ai, tool or system"):
        Turn("user", (Text("hi"),))  # type: ignore[arg-type]


def test_a_conversation_takes_a_list_of_turns_and_nothing_else() -> None:
    assert Conversation([human("a"), human("b")]) == Conversation((human("a"), human("b")))  # type: ignore[arg-type]
    assert type(Conversation([human("a")]).turns) is tuple  # type: ignore[arg-type]
    for wrong in ("hi", ["hi"], [human("a"), "hi"], [{"role": "user"}]):
        with pytest.raises(LocalError, match="a conversation holds Turns"):
            Conversation(wrong)  # type: ignore[arg-type]
    with pytest.raises(LocalError, match="a conversation holds Turns"):
        Conversation().add("hi")  # type: ignore[arg-type]


ANTHROPIC = Usage(10, 5, cache_read=100, cache_write=20, reasoning=2, cache_in_input=False, cost=0.5)
OTHERS = Usage(130, 7, cache_read=100, cache_write=20, reasoning=3, cost=0.25, raw={"prompt_tokens": 130})


@pytest.mark.parametrize("usages", [(ANTHROPIC, OTHERS), (OTHERS, ANTHROPIC), (ANTHROPIC, ANTHROPIC), (OTHERS,)])
def test_a_sum_of_usages_counts_every_token_once(usages: tuple[Usage, ...]) -> None:
    added = sum(usages, Usage())
    for figure in ("read", "output", "total", "fresh", "cache_read", "cache_write", "reasoning", "cost"):
        assert getattr(added, figure) == sum(getattr(usage, figure) for usage in usages), figure
    assert added.raw is None and added.cache_in_input


def test_a_cost_that_one_host_does_not_state_makes_the_sum_unknown() -> None:
    assert (ANTHROPIC + Usage(1, 1)).cost is None and (Usage(1, 1) + ANTHROPIC).cost is None
    assert sum([Usage(1, 1), ANTHROPIC, OTHERS], Usage()).cost is None
    assert (Usage() + Usage()).cost is None


def test_only_a_system_turn_declares_tools() -> None:
    told = Turn("system", ["x"], tools=[ToolSpec("f")])
    assert told.tools == (ToolSpec("f"),) and told.is_instruction
    assert msgspec.json.decode(msgspec.json.encode(told), type=Turn) == told
    assert Turn("human", ["x"], role="developer").is_instruction and not Turn("human", ["x"]).is_instruction
    with pytest.raises(LocalError, match="only a system turn can"):
        Turn("human", ["x"], tools=(ToolSpec("f"),))
