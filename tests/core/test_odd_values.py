"""What a person may hand to a constructor of `core/blocks`: it is taken, or refused by name when it is made, never later."""

from __future__ import annotations

import decimal
import enum
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream import encode_request
from midstream.adapters import to_model_messages
from midstream.core.blocks import (
    Compacted,
    Conversation,
    Grammar,
    Media,
    Opaque,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResponse,
    ToolSpec,
    Turn,
    Usage,
    human,
    system,
    tool_result,
)
from midstream.core.errors import InvalidValue, MidstreamError
from tests.long_run import each_kind

MODELS = (
    "openai/gpt-4o", "openai-responses/gpt-4o", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-pro", "ollama/llama3",
    "cohere/command-a-03-2025", "deepinfra/moonshotai/Kimi-K2.5",
)  # fmt: skip
"""One of each wire."""


class Word(enum.StrEnum):
    LIST = "list"


class Figure(float):
    pass


endless: list[Any] = []
endless.append(endless)
deep: list[Any] = []
for _ in range(100_000):
    deep = [deep]

ODD: dict[str, Any] = {
    "nothing": None, "yes": True, "an integer": 7, "a huge integer": 2**80, "a float": 1.5, "no number": float("nan"),
    "endless": float("inf"), "bytes": b"x", "a bytearray": bytearray(b"x"), "text": "x", "half a character": "\ud800",
    "a list": ["file.ts"], "an empty list": [], "a list of lists": [["a"], 1], "a tuple": ("a",), "a dict": {"a": {"b": [1, None]}},
    "an empty dict": {}, "a dict by numbers": {1: 2}, "a dict by pairs": {(1, 2): 3}, "a set": {1}, "an object": object(),
    "a list of objects": [object()], "a dict of objects": {"a": object()}, "a type": str, "a function": len,
    "a decimal": decimal.Decimal("1.5"), "a subclass of str": Word.LIST, "a subclass of float": Figure(1.5), "a cycle": endless,
    "a cycle in a dict": {"a": endless}, "100,000 deep": deep, "100,000 deep in a dict": {"a": deep}, "a text": Text("a"),
    "a list of texts": [Text("a"), "b"], "a text among values": [Text("a"), {"b": 1}], "a turn": human("a"),
    "a call": ToolCall("hist_tool_a", "f"), "an origin": Origin("a"), "a usage": Usage(1), "a tool": ToolSpec("f"),
    "half a character in a dict": {"a": "\ud800"},
}  # fmt: skip

LEAST: dict[type, dict[str, Any]] = {
    Origin: {}, Text: {"text": "a"}, Thinking: {"text": "a"}, ToolCall: {"id": "hist_tool_a", "name": "f"}, Media: {"mime": "image/png"},
    Opaque: {"kind": "a", "data": {}}, ToolResponse: {"call_id": "hist_tool_a", "name": "f"}, Usage: {},
    Grammar: {"syntax": "lark", "definition": "a"}, ToolSpec: {"name": "f"}, Compacted: {}, Turn: {"speaker": "human"}, Conversation: {},
}  # fmt: skip
FIELDS = [(kind, field.name) for kind in LEAST for field in msgspec.structs.fields(kind)]


def conversation_with(value: Any) -> Conversation:
    """A conversation that holds the value, in the place that it belongs to."""
    call = value if isinstance(value, ToolCall) else ToolCall("hist_tool_a", "f")
    match value:
        case Conversation():
            return value if value.turns else value.add(human("a"))
        case Turn():
            return Conversation((human("a"), value, human("b")))
        case ToolCall() | ToolResponse():
            response = value if isinstance(value, ToolResponse) else tool_result(call, "x")
            return Conversation((human("a"), Turn("ai", (call,), key="a"), Turn("tool", (response,), key="t")))
        case Text() | Media():
            return Conversation((human("a", value), Turn("ai", (value,)), human("b")))
        case Thinking() | Opaque():
            return Conversation((human("a"), Turn("ai", (value, Text("a"))), human("b")))
        case ToolSpec():
            return Conversation((system("a", tools=[value]), human("a")))
        case Usage() | Origin() | Compacted() as part:
            kind = {Usage: "usage", Origin: "origin", Compacted: "compacted"}[type(part)]
            return Conversation((human("a"), Turn("ai", ("a",), **{kind: part}), human("b")))  # type: ignore[arg-type]
        case _:
            return Conversation((human("a"),))


def _declared(kind: type, field: str) -> str:
    """One check reads what a field is declared as; fields that only an origin understands are looked at when they are written."""
    return "opaque" if field in ("extra", "raw") else str(kind.__annotations__.get(field, field))


@each_kind("kind, field", FIELDS, _declared)
def test_an_odd_value_is_refused_when_it_is_made_or_never(kind: type, field: str) -> None:
    for odd in ODD.values():
        try:
            made = kind(**{**LEAST[kind], field: odd})
            conversation = conversation_with(made)
        except InvalidValue:
            continue
        for write in (Conversation.to_json, to_model_messages):
            try:
                write(conversation)
            except InvalidValue:
                # What only its origin understands is looked at when it is written.
                assert field in ("extra", "raw"), odd
        for model in MODELS:
            try:
                encode_request(model, conversation)
            except MidstreamError as error:
                assert not isinstance(error, InvalidValue), (odd, error)


@pytest.mark.parametrize(
    "make", [human, system, lambda odd: Conversation().add(odd), lambda odd: tool_result(odd, "x")]
)
def test_so_do_the_short_ways(make: Any) -> None:
    for odd in ODD.values():
        try:
            made = make(odd)
        except InvalidValue:
            continue
        for model in MODELS:
            encode_request(model, conversation_with(made))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.binary(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=2) | st.integers(), inner, max_size=3)
        | st.frozensets(st.integers(), max_size=2)
    ),
    max_leaves=6,
)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


@given(values)
@settings(max_examples=300)
def test_any_result_is_taken_or_refused_when_it_is_made(value: Any) -> None:
    call = ToolCall("hist_tool_a", "f")
    try:
        conversation = conversation_with(tool_result(call, value))
    except InvalidValue:
        return
    for model in MODELS:
        encode_request(model, conversation)


@given(plain)
@settings(max_examples=300)
def test_plain_json_is_taken_and_reads_as_it_was_given(value: Any) -> None:
    call = ToolCall("hist_tool_a", "f")
    text = tool_result(call, value).text
    assert text == value if isinstance(value, str) else msgspec.json.decode(text) == value
    if isinstance(value, (dict, list)):
        called = ToolCall("hist_tool_a", "f", value)
        assert msgspec.json.decode(called.arguments) == value and type(called.arguments) is str


CALL = ToolCall("hist_tool_abc", "glob")
RESULTS: dict[str, tuple[list[Any], list[str]]] = {
    "the seed's own": ([["file.ts"]], ['["file.ts"]']),
    "a dict": ([{"files": []}], ['{"files":[]}']),
    "nothing": ([None], ["null"]),
    "numbers": ([3, 1.5, True], ["3", "1.5", "true"]),
    "umlauts": ([{"a": "ä"}], ['{"a":"ä"}']),
    "parts": ([[Text("a"), "b"], "c"], ["a", "b", "c"]),
    "parts and values": ([[Text("a"), {"b": 1}]], ["a", '{"b":1}']),
    "no part": ([], []),
    "an empty list": ([[]], ["[]"]),
}


@pytest.mark.parametrize("case", RESULTS)
def test_a_result_is_text_its_json_or_parts(case: str) -> None:
    given, texts = RESULTS[case]
    assert [part.text for part in tool_result(CALL, *given).content if isinstance(part, Text)] == texts


def test_a_response_takes_one_part_or_a_list_of_them() -> None:
    wanted = ToolResponse("hist_tool_abc", "glob", (Text("a"),))
    assert ToolResponse("hist_tool_abc", "glob", "a") == wanted  # type: ignore[arg-type]
    assert ToolResponse("hist_tool_abc", "glob", ["a"]) == wanted  # type: ignore[arg-type]
    assert ToolResponse("hist_tool_abc", "glob", {"a": 1}).text == '{"a":1}'  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: tool_result(CALL, object()), "a tool's result is plain JSON or text, got object"),
        (lambda: tool_result(CALL, {"a": {1}}), "a tool's result is plain JSON or text, got dict"),
        (lambda: ToolCall("a", "f", {"a": float("nan")}), "the arguments of a ToolCall is plain JSON or text"),
        (lambda: ToolCall("a", "f", None), r"ToolCall\(arguments=NoneType None\): Expected `str`, got `null`"),
        (lambda: ToolCall("a", 7), r"ToolCall\(name=int 7\)"),
        (lambda: ToolSpec("f", parameters={"type": object}), r"ToolSpec\(parameters=dict"),
        (lambda: Turn("human", {"a": 1}), "a turn holds blocks in a tuple or a list, got dict"),
        (lambda: Turn("human", 7), "a turn holds blocks in a tuple or a list, got int 7"),
        (lambda: Conversation((human("a"), "b", human("c"))), "a conversation holds Turns, got str 'b'"),
        (lambda: Conversation({human("a")}), "a conversation holds Turns in a tuple or a list, got set"),
        (lambda: Conversation(system=[Media("image/png")]), "media go into a human turn"),
        (lambda: tool_result("hist_tool_a", "x"), "tool_result takes the ToolCall that it answers first, got str"),
    ],
)  # fmt: skip
def test_what_is_refused_says_where_and_what(make: Any, said: str) -> None:
    with pytest.raises(InvalidValue, match=said) as caught:
        make()
    assert isinstance(caught.value, TypeError)


def test_a_subclass_of_str_is_kept_as_plain_text() -> None:
    """msgspec writes no subclass of it."""
    kept = Text(Word.LIST), ToolCall(Word.LIST, Word.LIST), Turn("human", (), key=Word.LIST)
    assert [type(kept[0].text), type(kept[1].id), type(kept[2].key)] == [str] * 3
    assert all(msgspec.json.encode(value) for value in kept)


def test_a_conversation_with_half_a_character_is_written() -> None:
    written = Conversation((human("a\ud800"),)).to_json()
    assert Conversation.from_json(written).turns[0].text == "a\ufffd"
