"""Freeform tools and namespaces: native where a host has them, plain functions elsewhere, and always read back as themselves."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from midstream import encode_request, make_decoder
from midstream.core.blocks import Conversation, ToolCall, Turn, human, tool_result
from midstream.core.dialect import Options
from midstream.core.events import ToolCallDelta
from midstream.core.tools import Grammar, ToolSpec, freeform_arguments, freeform_input, parse_arguments
from midstream.sim.answer import Answer, Call
from midstream.sim.players import make_players
from midstream.sim.rules.hosts import judge
from midstream.sim.speech import speak
from midstream.wires.plain_tools import plain_name, plain_tool
from midstream.wires.request import parse_request
from midstream.wires.stream_decoder import StreamDecoder
from tests.representatives import dialect_cases
from tests.wires.feeding import at_random, by_byte, events_of

PLAYERS = make_players()
GRAMMAR = Grammar("lark", "start: /.+/")
TOOLS = (
    ToolSpec("patch", "Patches files.", kind="freeform", grammar=GRAMMAR),
    ToolSpec("close", "Closes an agent.", {"type": "object", "properties": {"id": {"type": "string"}}}, namespace="a"),
    ToolSpec("close", "Closes a file.", {"type": "object", "properties": {"id": {"type": "string"}}}, namespace="f"),
    ToolSpec("note", "Notes.", kind="freeform", namespace="f"),
)
TEXT = '*** "quoted" \\ é\n\t{"input": 1}\n'
CALLS = (
    Call("patch", {"input": TEXT}, kind="freeform"),
    Call("close", {"id": "1"}, namespace="a"),
    Call("close", {"id": "2"}, namespace="f"),
    Call("note", {"input": "n"}, kind="freeform", namespace="f"),
)
SAID = [("freeform", "", "patch", TEXT), ("function", "a", "close", "1"), ("function", "f", "close", "2"), ("freeform", "f", "note", "n")]  # fmt: skip


def said(turn: Turn) -> list[tuple[str, str, str, str]]:
    return [
        (call.kind, call.namespace, call.name, next(iter(parse_arguments(call).values()))) for call in turn.tool_calls
    ]


@pytest.mark.parametrize(
    "name",
    dialect_cases(
        "freeform",
        "namespaces",
        "tool_format",
        "leaks",
        "arguments_object",
        "ids",
        "limits.tool_name_pattern",
    ),
)
def test_a_call_is_read_as_what_it_is_and_goes_to_every_other_host(name: str) -> None:
    player = PLAYERS[name]
    turn = player.answer(Answer("", "Hm.", CALLS), key="a", tools=TOOLS)
    assert said(turn) == SAID
    results = Turn("tool", tuple([tool_result(call, "ok") for call in turn.tool_calls]), key="r")
    conversation = Conversation((human("q", key="q"), turn, results))
    for reader in (
        player,
        PLAYERS["openai"],
        PLAYERS["openai-responses-5"],
        PLAYERS["claude"],
        PLAYERS["gemini-3-pro"],
    ):
        request = encode_request(reader.target, conversation, tools=TOOLS, cache=None)
        assert not judge(request.body, reader.host, "paranoid"), reader.name
        assert request.tools == TOOLS
    assert conversation.turns[1] is turn


@pytest.mark.parametrize("name", ["openai", "openai-responses-5"])
def test_a_host_that_has_them_is_told_and_asked_in_its_own_words(name: str) -> None:
    player = PLAYERS[name]
    turn = player.answer(Answer("", "Hm.", CALLS), key="a", tools=TOOLS)
    results = Turn("tool", tuple([tool_result(call, "ok") for call in turn.tool_calls]), key="r")
    request = encode_request(player.target, Conversation((human("q", key="q"), turn, results)), tools=TOOLS, cache=None)
    wire = player.target.dialect.wire
    read = parse_request(wire, request.body, provider="openai")
    if wire == "openai-responses":  # which has both
        # A namespace must have a description there; it comes back beside the tool.
        assert tuple(replace(tool, extra=None) for tool in read.tools) == tuple(
            ToolSpec(
                **{**{f: getattr(t, f) for f in t.__struct_fields__}, "strict": False if t.kind == "function" else None}
            )
            for t in TOOLS
        )
        assert said(read.conversation.turns[1]) == SAID
        assert "freeform_as_function" not in [note.code for note in request.notes]
    else:
        assert (read.tools[0].kind, read.tools[0].grammar) == ("freeform", GRAMMAR)
        assert said(read.conversation.turns[1])[0] == SAID[0]


def test_a_host_without_them_gets_a_function_with_the_grammar_in_its_description() -> None:
    request = encode_request("anthropic/claude-sonnet-4-5", "q", tools=TOOLS, cache=None)
    tools = json.loads(request.body)["tools"]
    assert list(tools[0]["input_schema"]["properties"]) == ["input"] and GRAMMAR.definition in tools[0]["description"]
    names = [tool["name"] for tool in tools]
    assert len(set(names)) == 4 and all(len(name) <= 64 for name in names)
    codes = [note.code for note in request.notes]
    assert codes.count("freeform_as_function") == 2 and codes.count("tool_renamed") == 3


@pytest.mark.parametrize("name", ["mistral", "ollama", "gemini-3-pro"])
def test_a_result_is_named_like_its_call(name: str) -> None:
    player = PLAYERS[name]
    turn = player.answer(Answer("", "", CALLS[1:2]), key="a", tools=TOOLS)
    results = Turn("tool", (tool_result(turn.tool_calls[0], "ok"),), key="r")
    request = encode_request(player.target, Conversation((human("q", key="q"), turn, results)), tools=TOOLS, cache=None)
    assert request.body.decode().count(f'"{plain_name("a", "close", player.target.dialect)}"') == 3


CHOICES = {
    ("openai", "patch"): {"type": "custom", "custom": {"name": "patch"}},
    ("openai-responses-5", "patch"): {"type": "custom", "name": "patch"},
    ("claude-3", "patch"): {"type": "tool", "name": "patch"},
}


@pytest.mark.parametrize(("name", "choice"), CHOICES)
def test_a_named_choice(name: str, choice: str) -> None:
    player = PLAYERS[name]
    request = encode_request(player.target, "q", tools=TOOLS, options=Options(tool_choice=choice), cache=None)
    assert json.loads(request.body)["tool_choice"] == CHOICES[name, choice]


def test_a_choice_in_a_namespace_is_spelled_like_its_tool() -> None:
    target = PLAYERS["claude-3"].target
    request = encode_request(target, "q", tools=TOOLS, options=Options(tool_choice="f/close"), cache=None)
    assert json.loads(request.body)["tool_choice"]["name"] == plain_name("f", "close", target.dialect)


_words = st.text("ab_-.é", min_size=1, max_size=70)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.one_of(st.just(""), _words), _words), unique=True, max_size=8), st.sampled_from(list(PLAYERS))
)
@example([("a", "b__c"), ("a__b", "c"), ("", "a__b__c")], "openai")
@example([("n" * 60, "a" * 60), ("n" * 60, "b" * 60)], "openai")
def test_names_are_within_the_limits_and_never_shared(tools: list[tuple[str, str]], name: str) -> None:
    dialect = PLAYERS[name].target.dialect
    if dialect.namespaces:
        return
    spaced = [(space, tool) for space, tool in tools if space]
    names = [plain_name(space, tool, dialect) for space, tool in spaced]
    assert len(set(names)) == len(names)
    assert all(len(each) <= dialect.limits.tool_name_max for each in names)
    assert not {tool for space, tool in tools if not space} & set(names)
    assert names == [plain_name(space, tool, dialect) for space, tool in spaced]


@settings(max_examples=60, deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    st.sampled_from(["openai", "openai-responses-5"]),
    st.integers(0, 99),
)
def test_any_text_and_any_cut_of_a_native_call(text: str, name: str, seed: int) -> None:
    player = PLAYERS[name]
    answer = Answer("", "", (Call("patch", {"input": text}, kind="freeform"), Call("read", {"a": 1})))
    raw = b"".join(speak(player.target.dialect.wire, answer, player.style()))

    def decoder() -> StreamDecoder:
        return make_decoder(dialect=player.target.dialect, turn_key="t", tools=TOOLS)

    whole = events_of(decoder(), [raw])
    call = whole[-1].turn.tool_calls[0]
    assert freeform_input(call) == text and call.kind == "freeform"
    assert json.loads(call.arguments) == {"input": text}
    streamed = "".join([event.delta for event in whole if isinstance(event, ToolCallDelta) and event.index == 0])
    assert streamed == call.arguments
    for cut in (by_byte(raw), at_random(raw, seed)):
        assert events_of(decoder(), cut) == whole


INPUTS = {
    '{"input":"a"}': "a",
    '{"patch":"a"}': "a",
    '"a"': "a",
    "plain": "plain",
    '{"input":1}': '{"input":1}',
    '{"a":"x","b":"y"}': '{"a":"x","b":"y"}',
    "": "",
}


@pytest.mark.parametrize("arguments", INPUTS)
def test_the_text_of_a_call_whatever_the_model_wrote(arguments: str) -> None:
    call = ToolCall("x", "patch", arguments, kind="freeform")
    assert freeform_input(call) == INPUTS[arguments]
    assert parse_arguments(call) == {"input": INPUTS[arguments]}
    assert freeform_input(ToolCall("x", "p", freeform_arguments(arguments), kind="freeform")) == arguments


HOST_TOOLS = {
    "openai-responses": {"type": "tool_search", "execution": "client"},
    "openai-chat": {"type": "odd", "a": 1},
}


@pytest.mark.parametrize("wire", HOST_TOOLS)
@pytest.mark.parametrize("name", dialect_cases("wire"))
def test_a_tool_of_one_wire_goes_to_no_other(name: str, wire: str) -> None:
    dialect = PLAYERS[name].target.dialect
    field = "input" if wire == "openai-responses" else "messages"
    body = {"model": "m", field: [{"role": "user", "content": "q"}], "tools": [HOST_TOOLS[wire]]}
    read = parse_request(wire, json.dumps(body).encode())
    request = encode_request(PLAYERS[name].target, read.conversation, tools=read.tools, cache=None)
    sent = json.loads(request.body).get("tools")
    if dialect.wire == wire:
        assert sent == [HOST_TOOLS[wire]] and not request.notes
    else:
        assert sent is None and [note.code for note in request.notes] == ["foreign_builtin"]


def test_items_that_bring_tools_declare_them_and_go_back_whole() -> None:
    inner = [{"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}]
    items = [
        {"type": "additional_tools", "role": "developer", "tools": inner},
        {"role": "user", "content": "q"},
    ]
    read = parse_request("openai-responses", json.dumps({"model": "m", "input": items}).encode(), provider="openai")
    (tool,) = read.conversation.turns[0].tools
    assert (tool.namespace, tool.name, tool.kind) == ("functions", "exec", "freeform")
    own = json.loads(encode_request("openai-responses/gpt-5.2", read.conversation, cache=None).body)
    assert own["input"][0] == items[0] and "tools" not in own
    other = encode_request("anthropic/claude-sonnet-4-5", read.conversation, cache=None)
    assert json.loads(other.body)["tools"][0]["name"].startswith("functions__exec_")


def test_a_plain_tool_is_left_alone() -> None:
    tool = ToolSpec("f", "F.", {"type": "object"})
    assert all(plain_tool(tool, player.target.dialect) is tool for player in PLAYERS.values())
