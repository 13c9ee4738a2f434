"""Each rule of Anthropic's requests, and the laws every request keeps whatever the history."""

from __future__ import annotations

import json
import re
from typing import Any

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
    human,
    tool_result,
)
from midstream.core.dialect import Options
from midstream.core.errors import InvalidHistory, MissingReasoning
from midstream.core.tools import ToolSpec
from midstream.dialects.registry import resolve
from midstream.wires.anthropic.parse import parse_request
from midstream.wires.history_cache import HistoryCache
from midstream.wires.request import Request
from tests.wires.anthropic.requests import normal
from tests.wires.drafts import encode_draft

MODEL = "claude-sonnet-4-5"
OWN = Origin("anthropic", "anthropic", MODEL)
CALL = ToolCall("hist_tool_" + "a" * 24, "ls", '{"path":"."}')
LS = ToolSpec("ls", "List files.", {"type": "object", "properties": {"path": {"type": "string"}}})
SIGNED = Thinking("hm", "thinking", "sig", origin=OWN)


def ai(*blocks: Block, key: str = "a", origin: Origin | None = None) -> Turn:
    return Turn("ai", blocks, key=key, origin=origin)


def tool(*blocks: Block, key: str = "t") -> Turn:
    return Turn("tool", blocks, key=key)


def request(*turns: Turn, model: str = f"anthropic/{MODEL}", system: Any = "", **kwargs: Any) -> Request:
    target = resolve(model)
    return encode_draft(Conversation(turns, system), target.dialect, target.model, **kwargs)


def body(*turns: Turn, **kwargs: Any) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(request(*turns, **kwargs).body)
    return read


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def loop(*said: Block) -> tuple[Turn, ...]:
    return human("q", key="h"), ai(*said, CALL), tool(tool_result(CALL, "ok"))


def whys(made: Request, what: str) -> list[str]:
    return [note.why for note in made.notes if note.what == what]


def test_the_envelope() -> None:
    made = request(human("hi"), system="Be brief.")
    assert (made.method, made.path, made.headers["anthropic-version"]) == ("POST", "/v1/messages", "2023-06-01")
    sent = json.loads(made.body)
    assert sent == {
        "model": MODEL,
        "max_tokens": 8192,
        "system": "Be brief.",
        "stream": True,
        "messages": [{"role": "user", "content": [text("hi")]}],
    }


def test_results_of_a_turn_stand_first_in_one_user_message_under_toolu_ids() -> None:
    other = ToolCall("hist_tool_" + "b" * 24, "cat", "")
    turns = (
        human("q"),
        ai(CALL, other),
        tool(tool_result(CALL, "files"), ToolResponse(other.id, "cat", (), is_error=True)),
        human("and now?", key="h2"),
    )
    messages = body(*turns)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    ids = [block["id"] for block in messages[1]["content"]]
    assert ids == ["toolu_" + "a" * 24, "toolu_" + "b" * 24]
    assert messages[1]["content"][1]["input"] == {}
    assert messages[2]["content"] == [
        {"type": "tool_result", "tool_use_id": ids[0], "content": "files"},
        {"type": "tool_result", "tool_use_id": ids[1], "is_error": True},
        text("and now?"),
    ]


def test_turns_of_one_role_are_one_message() -> None:
    messages = body(
        human("a", key="1"), human("b", key="2"), ai(Text("c"), key="3"), ai(Text("d"), key="4"), human("e")
    )
    assert [(m["role"], [b["text"] for b in m["content"]]) for m in messages["messages"]] == [
        ("user", ["a", "b"]), ("assistant", ["c", "d"]), ("user", ["e"]),
    ]  # fmt: skip


def test_blank_text_is_never_sent() -> None:
    made = request(human("a", " \n", ""), ai(Text("\n\n"), Text("b")), Turn("human", (Text(" "),), key="x"))
    sent = json.loads(made.body)["messages"]
    assert sent == [{"role": "user", "content": [text("a")]}, {"role": "assistant", "content": [text("b")]}]
    assert whys(made, "text") and whys(made, "turn")
    with pytest.raises(InvalidHistory):
        request(human(" "))


def test_a_last_answer_loses_its_trailing_space_and_only_there() -> None:
    assert body(human("q"), ai(Text("so  ")))["messages"][1]["content"] == [text("so")]
    assert body(human("q"), ai(Text("so  ")), human("x"))["messages"][1]["content"] == [text("so  ")]
    assert body(human("q"), options=Options(prefill="{ "))["messages"][1]["content"] == [text("{")]


def test_what_stands_behind_a_call_moves_before_it() -> None:
    made = request(human("q"), ai(Text("a"), CALL, Text("b")), tool(tool_result(CALL, "ok")))
    kinds = [block["type"] for block in json.loads(made.body)["messages"][1]["content"]]
    assert kinds == ["text", "text", "tool_use"]
    assert whys(made, "turn")


def test_a_history_that_starts_with_the_assistant_gets_a_first_line() -> None:
    made = request(ai(Text("hello")), human("hi"))
    assert [m["role"] for m in json.loads(made.body)["messages"]] == ["user", "assistant", "user"]
    assert whys(made, "turn")


def test_signed_and_redacted_thinking_go_back_to_their_model_only() -> None:
    redacted = Thinking("", "thinking", encrypted="xyz", redacted=True, origin=OWN)
    turns = (human("q"), ai(SIGNED, redacted, Text("a")), human("x"))
    kept = body(*turns)["messages"][1]["content"]
    assert kept == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xyz"},
        text("a"),
    ]
    for elsewhere in ("anthropic/claude-opus-4-5", "moonshot-anthropic/kimi-k2.5"):
        made = request(*turns, model=elsewhere)
        assert json.loads(made.body)["messages"][1]["content"] == [text("a")]
        assert len(whys(made, "thinking")) == 2


def test_unsigned_thinking_is_dropped_or_told() -> None:
    unsigned = Thinking("hm", "thinking", origin=OWN)
    made = request(human("q"), ai(unsigned, Text("a")), human("x"))
    assert json.loads(made.body)["messages"][1]["content"] == [text("a")]
    assert whys(made, "thinking") == ["the reasoning has no signature"]
    told = body(human("q"), ai(unsigned, Text("a")), human("x"), options=Options(foreign_thinking="text"))
    assert told["messages"][1]["content"] == [text("hm"), text("a")]


@pytest.mark.parametrize(
    "model", ["moonshot-anthropic/kimi-k2.5", "deepseek-anthropic/deepseek-chat", "minimax-anthropic/MiniMax-M2"]
)
def test_look_alikes_get_their_unsigned_thinking_back(model: str) -> None:
    origin = Origin(model.partition("/")[0], "anthropic", "an older model")
    sent = body(*loop(Thinking("hm", "thinking", origin=origin)), model=model)
    assert sent["messages"][1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": ""}


def test_kimi_demands_thinking_on_every_call() -> None:
    model = "moonshot-anthropic/kimi-k2.5"
    made = request(*loop(Text("a")), model=model)
    assert json.loads(made.body)["messages"][1]["content"][0] == {"type": "thinking", "thinking": " ", "signature": ""}
    assert whys(made, "thinking")
    off = body(*loop(Text("a")), model=model, options=Options(missing_reasoning="disable-thinking"))
    assert off["thinking"] == {"type": "disabled"}
    with pytest.raises(MissingReasoning):
        request(*loop(Text("a")), model=model, options=Options(missing_reasoning="fail"))
    calm = body(*loop(Text("a")), model=model, options=Options(thinking="off"))
    assert calm["messages"][1]["content"][0] == text("a") and calm["thinking"] == {"type": "disabled"}


def test_a_kimi_that_keeps_all_reasoning_demands_thinking_on_every_answer() -> None:
    talk = (human("Hi"), ai(Text("Hello.")), human("Go on", key="h1"))
    blank = {"type": "thinking", "thinking": " ", "signature": ""}
    assert body(*talk, model="moonshot-anthropic/kimi-k3")["messages"][1]["content"] == [blank, text("Hello.")]
    assert blank not in body(*talk, model="moonshot-anthropic/kimi-k2.5")["messages"][1]["content"]
    with pytest.raises(MissingReasoning):
        request(*talk, model="moonshot-anthropic/kimi-k3", options=Options(missing_reasoning="fail"))


def test_thinking_goes_off_where_a_tool_loop_does_not_open_with_it() -> None:
    on = Options(thinking="on", thinking_budget=2000)
    assert body(*loop(SIGNED), options=on)["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    made = request(*loop(Text("a")), options=on)
    assert "thinking" not in json.loads(made.body)
    assert "thinking_disabled" in [note.code for note in made.notes]
    with pytest.raises(MissingReasoning):
        request(*loop(), options=Options(thinking="on", missing_reasoning="fail"))
    later = (*loop(), ai(Text("done"), key="b"), human("next", key="h9"))
    assert "thinking" in body(*later, options=on)
    adaptive = body(*loop(), model="anthropic/claude-opus-4-7", options=Options(thinking="on"))
    assert adaptive["thinking"] == {"type": "adaptive"}


@pytest.mark.parametrize(
    ("model", "options", "wanted"),
    [
        (MODEL, Options(), {}),
        (MODEL, Options(thinking="off"), {}),
        (MODEL, Options(thinking="on"), {"thinking": {"type": "enabled", "budget_tokens": 8192}, "max_tokens": 16384}),
        (
            MODEL,
            Options(thinking="on", thinking_budget=100, max_tokens=2000),
            {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000},
        ),
        (
            MODEL,
            Options(thinking="on", thinking_budget=90_000),
            {"thinking": {"type": "enabled", "budget_tokens": 48_000}, "max_tokens": 64_000},
        ),
        (MODEL, Options(effort="low"), {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 10240}),
        ("claude-opus-4-6", Options(thinking="on"), {"thinking": {"type": "adaptive"}, "max_tokens": 16384}),
        (
            "claude-opus-4-6",
            Options(thinking="on", thinking_budget=2000),
            {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 18384},
        ),
        (
            "claude-opus-4-7",
            Options(effort="minimal", thinking_budget=2000),
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}, "max_tokens": 16384},
        ),
        ("claude-opus-4-6", Options(effort="max", thinking="off"), {"output_config": {"effort": "max"}}),
        ("claude-3-5-haiku-latest", Options(thinking="on"), {}),
    ],
)
def test_thinking_as_each_generation_takes_it(model: str, options: Options, wanted: dict[str, Any]) -> None:
    sent = body(human("q"), model=f"anthropic/{model}", options=options)
    got = {key: sent[key] for key in ("thinking", "output_config") if key in sent}
    if "max_tokens" in wanted:
        got["max_tokens"] = sent["max_tokens"]
    assert got == wanted


def test_sampling_while_thinking_and_beside_it() -> None:
    both = Options(temperature=0.2, top_p=0.5, stop=("x", " "), seed=3)
    sent = body(human("q"), options=both)
    assert (sent["temperature"], sent["stop_sequences"]) == (0.2, ["x"])
    assert "top_p" not in sent and "seed" not in sent
    thinking = body(human("q"), options=Options(temperature=0.2, top_p=0.5, thinking="on"))
    assert "temperature" not in thinking and "top_p" not in thinking
    assert body(human("q"), options=Options(temperature=1.7))["temperature"] == 1
    assert "temperature" not in body(human("q"), model="anthropic/claude-opus-4-7", options=Options(temperature=0.2))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (Options(tool_choice="required"), {"type": "any"}),
        (Options(tool_choice="ls"), {"type": "tool", "name": "ls"}),
        (Options(tool_choice="none"), {"type": "none"}),
        (Options(tool_choice="required", thinking="on"), {"type": "auto"}),
        (Options(tool_choice="ls", thinking="on"), {"type": "auto"}),
        (Options(parallel_tool_calls=False), {"type": "auto", "disable_parallel_tool_use": True}),
        (Options(parallel_tool_calls=True), None),
    ],
)
def test_tool_choice(options: Options, wanted: Any) -> None:
    made = request(human("q"), tools=[LS], options=options)
    assert json.loads(made.body).get("tool_choice") == wanted
    forced_while_thinking = options.thinking == "on"
    assert bool(whys(made, "option")) == forced_while_thinking
    assert "tool_choice" not in body(human("q"), options=options)


def test_thinking_nobody_asked_for_gives_way_to_a_forced_choice() -> None:
    forced = Options(tool_choice="required")
    sent = body(human("q"), model="moonshot-anthropic/kimi-k2.5", tools=[LS], options=forced)
    assert (sent["tool_choice"], sent["thinking"]) == ({"type": "any"}, {"type": "disabled"})
    always = body(human("q"), model="anthropic/claude-fable-5", tools=[LS], options=forced)
    assert always["tool_choice"] == {"type": "auto"} and "thinking" not in always


def test_tools_their_names_and_builtins() -> None:
    odd = ToolSpec("files.list all", parameters={"anyOf": [{"type": "object", "properties": {"a": {}}}]})
    search = ToolSpec("web_search", builtin="web_search_20250305", extra={"max_uses": 2})
    kimi = ToolSpec("$web_search", builtin="$web_search")
    made = request(human("q"), tools=[LS, odd, search, kimi])
    tools = json.loads(made.body)["tools"]
    assert tools[0] == {"name": "ls", "description": "List files.", "input_schema": LS.parameters}
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tools[1]["name"])
    assert made.tool_names == {tools[1]["name"]: "files.list all"}
    assert "anyOf" not in tools[1]["input_schema"] and tools[1]["input_schema"]["type"] == "object"
    assert tools[2] == {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
    assert len(tools) == 3 and whys(made, "tool")


def test_cache_marks_on_tools_system_and_the_last_user_message() -> None:
    mark = {"type": "ephemeral"}
    sent = body(human("a"), ai(Text("b")), human("c"), system="s", tools=[LS, LS], options=Options(cache=True))
    assert sent["system"] == [{"type": "text", "text": "s", "cache_control": mark}]
    assert [tool.get("cache_control") for tool in sent["tools"]] == [None, mark]
    assert sent["messages"][-1]["content"] == [{"type": "text", "text": "c", "cache_control": mark}]
    assert json.dumps(sent).count("cache_control") == 3
    later = ToolSpec("rm", extra={"defer_loading": True})
    deferred = body(human("a"), tools=[LS, later], options=Options(cache=True))["tools"]
    assert [tool.get("cache_control") for tool in deferred] == [mark, None]


def test_cache_marks_never_exceed_four_nor_double() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    marked = [human(Text("a", mark), key=str(n)) for n in range(3)]
    sent = body(*marked, system="s", tools=[LS], options=Options(cache=True))
    assert json.dumps(sent).count("cache_control") == 4
    one = request(human(Text("a", mark)), options=Options(cache=True)).body
    assert one.count(b"cache_control") == 1


def test_media_in_messages_and_results() -> None:
    png = Media("image/png", "iVBORw0KGgo=")
    pdf = Media("application/pdf", url="https://x.test/a.pdf", name="a.pdf")
    note = Media("text/markdown", "aGk=", name="n.md")
    vague = Media("image/*", "/9j/AAAA")
    sent = body(human("look", png, pdf, note, vague))["messages"][0]["content"]
    assert [block["type"] for block in sent] == ["text", "image", "document", "document", "image"]
    assert sent[1]["source"] == {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    assert sent[2] == {"type": "document", "source": {"type": "url", "url": "https://x.test/a.pdf"}, "title": "a.pdf"}
    assert sent[3]["source"] == {"type": "text", "media_type": "text/plain", "data": "hi"}
    assert sent[4]["source"]["media_type"] == "image/jpeg"
    result = body(human("q"), ai(CALL), tool(tool_result(CALL, "see", png)))["messages"][2]["content"][0]
    assert [part["type"] for part in result["content"]] == ["text", "image"]


def test_an_error_result_holds_text_only() -> None:
    png = Media("image/png", "iVBORw0KGgo=")
    made = request(human("q"), ai(CALL), tool(tool_result(CALL, "bad", png, is_error=True)))
    content = json.loads(made.body)["messages"][2]["content"]
    assert [part["type"] for part in content] == ["tool_result", "image"]
    assert content[0]["content"] == [text("bad")] and content[0]["is_error"] is True
    assert whys(made, "media")


def test_media_a_model_cannot_read_leaves_a_line() -> None:
    for medium, model in (
        (Media("audio/wav", "AAAA"), f"anthropic/{MODEL}"),
        (Media("image/svg+xml", "PHN2Zz4="), f"anthropic/{MODEL}"),
        (Media("image/png", "iVBORw0KGgo="), "deepseek-anthropic/deepseek-chat"),
    ):
        made = request(human(medium), model=model)
        assert json.loads(made.body)["messages"][0]["content"][0]["text"].endswith("omitted]")
        assert whys(made, "media")


def test_opaque_blocks_and_citations_go_back_in_order_to_their_host_only() -> None:
    use = Opaque("server_tool_use", {"type": "server_tool_use", "id": "s", "name": "w", "input": {}}, OWN)
    cited = Text("so", {"citations": [{"type": "x"}]})
    turns = (human("q"), ai(Text("let me"), use, cited, origin=OWN), human("x"))
    kept = body(*turns, model="anthropic/claude-opus-4-7")["messages"][1]["content"]
    assert kept == [text("let me"), use.data, {**text("so"), "citations": [{"type": "x"}]}]
    made = request(*turns, model="minimax-anthropic/MiniMax-M2")
    assert json.loads(made.body)["messages"][1]["content"] == [text("let me"), text("so")]
    assert whys(made, "opaque") and whys(made, "citations")


FOLDED = "<system-instruction>\nbe kind\n</system-instruction>"


def test_an_instruction_inside_the_conversation() -> None:
    turns = (human("q"), Turn("human", (Text("be kind"),), key="s", role="system"), ai(Text("ok")), human("x"))
    made = request(*turns)
    assert json.loads(made.body)["messages"][0]["content"] == [text("q"), text(FOLDED)]
    assert whys(made, "turn")
    native = body(*turns, model="anthropic/claude-opus-4-8")["messages"]
    assert [message["role"] for message in native] == ["user", "system", "assistant", "user"]


def test_arguments_that_are_no_object_are_wrapped() -> None:
    made = request(human("q"), ai(ToolCall(CALL.id, "ls", "[1,")), tool(tool_result(CALL, "ok")))
    assert json.loads(made.body)["messages"][1]["content"][0]["input"] == {"_raw": "[1,"}
    assert whys(made, "tool_call")


def test_a_schema_for_the_answer() -> None:
    asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    sent = body(human("q"), options=Options(response_format=asked))
    assert sent["output_config"] == {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    for model, shape in ((f"anthropic/{MODEL}", {"type": "json_object"}), ("anthropic/claude-3-5-haiku", asked)):
        made = request(human("q"), model=model, options=Options(response_format=shape))
        assert b"output_config" not in made.body and whys(made, "option")
        assert (b"one JSON object" in made.body) == (shape["type"] == "json_object")


def test_prefill_and_thinking_do_not_go_together() -> None:
    sent = body(human("q"), options=Options(thinking="on", prefill="{"))
    assert "thinking" not in sent and sent["messages"][-1] == {"role": "assistant", "content": [text("{")]}


_WORDS = st.sampled_from(["hi", " ", "", "a\nb", "\ud800", "end "])
_THOUGHT = st.builds(
    Thinking,
    _WORDS,
    st.just("thinking"),
    st.sampled_from([None, "sig"]),
    origin=st.sampled_from([None, OWN, Origin("moonshot", "openai-chat", "kimi-k2.5")]),
)
_IMAGE = st.sampled_from([Media("image/png", "AAAA"), Media("audio/wav", "AAAA"), Media("", url="file_1")])
_OPAQUE = st.builds(Opaque, st.just("x"), st.just({"type": "x"}), st.sampled_from([None, OWN]))
_TEXT = st.builds(Text, _WORDS, st.sampled_from([None, {"cache_control": {"type": "ephemeral"}}]))
_IDS = st.sampled_from(["hist_tool_" + letter * 24 for letter in "abc"] + ["0", "functions.f:0"])
_CALL = st.builds(ToolCall, _IDS, st.sampled_from(["f", "g.h", "x" * 80]), st.sampled_from(["{}", "", "[", '{"a":1}']))
_RESULT = st.builds(
    lambda name, content, error: ToolResponse(name, "", tuple(content), error),
    _IDS, st.lists(_TEXT | _IMAGE, max_size=2), st.booleans(),
)  # fmt: skip


@st.composite
def _turns(draw: Any) -> tuple[Turn, ...]:
    out: list[Turn] = []
    for number in range(draw(st.integers(1, 7))):
        speaker = draw(st.sampled_from(["human", "ai", "ai", "tool"]))
        block = {"human": _TEXT | _IMAGE, "ai": _TEXT | _THOUGHT | _CALL | _OPAQUE, "tool": _RESULT}[speaker]
        role = draw(st.sampled_from(["", "", "system"])) if speaker == "human" else ""
        failure = draw(st.sampled_from(["", "", "", "truncated"])) if speaker == "ai" else ""
        blocks = tuple(draw(st.lists(block, max_size=4)))
        out.append(Turn(speaker, blocks, key=f"k{number}", role=role, failure=failure, origin=OWN))
    return tuple(out)


_OPTIONS = st.builds(
    Options,
    thinking=st.sampled_from([None, "on", "off"]),
    foreign_thinking=st.sampled_from(["drop", "text", "keep"]),
    cache=st.booleans(),
)
_MODELS = st.sampled_from(
    [f"anthropic/{MODEL}", "anthropic/claude-opus-4-7", "moonshot-anthropic/kimi-k2.5", "minimax-anthropic/MiniMax-M2"]
)


def judge(sent: dict[str, Any], model: str) -> None:
    """What a strict Anthropic would refuse."""
    messages = sent["messages"]
    assert sent["max_tokens"] > sent.get("thinking", {}).get("budget_tokens", 0)
    assert [message["role"] for message in messages] == [("user", "assistant")[n % 2] for n in range(len(messages))]
    due: list[str] = []
    seen: set[str] = set()
    for message in messages:
        assert message["content"]
        kinds = [block["type"] for block in message["content"]]
        results = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
        assert results == due and kinds[: len(due)] == ["tool_result"] * len(due)
        due = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
        assert kinds[len(kinds) - len(due) :] == ["tool_use"] * len(due)
        assert not seen & set(due) and len(set(due)) == len(due)
        seen |= set(due)
        for block in message["content"]:
            if block["type"] == "text":
                assert block["text"].strip()
            elif block["type"] == "tool_use":
                assert re.fullmatch(r"toolu_[A-Za-z0-9_-]{1,58}", block["id"]) and isinstance(block["input"], dict)
                assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", block["name"])
            elif block["type"] == "thinking" and "anthropic/claude" in model:
                assert block["signature"]
    assert not due
    last = messages[-1]["content"][-1]
    if messages[-1]["role"] == "assistant" and last["type"] == "text":
        assert last["text"] == last["text"].rstrip()
    if sent.get("thinking", {}).get("type") == "enabled" and "anthropic/claude" in model and len(messages) > 1:
        in_loop = any(block["type"] == "tool_result" for block in messages[-1]["content"])
        assert not in_loop or messages[-2]["content"][0]["type"] in ("thinking", "redacted_thinking")


@settings(max_examples=300, deadline=None)
@given(turns=_turns(), options=_OPTIONS, model=_MODELS)
def test_whatever_the_history_the_request_is_lawful(turns: tuple[Turn, ...], options: Options, model: str) -> None:
    try:
        sent = body(*turns, model=model, options=options)
    except InvalidHistory:
        return
    judge(sent, model)


@settings(max_examples=150, deadline=None)
@given(turns=_turns(), options=_OPTIONS, model=_MODELS)
def test_a_grown_conversation_is_encoded_as_if_it_were_new(
    turns: tuple[Turn, ...], options: Options, model: str
) -> None:
    cache = HistoryCache()
    for length in range(1, len(turns) + 1):
        try:
            fresh = request(*turns[:length], model=model, options=options)
        except InvalidHistory:
            continue
        grown = request(*turns[:length], model=model, options=options, cache=cache)
        assert (grown.body, grown.notes) == (fresh.body, fresh.notes)


@settings(max_examples=150, deadline=None)
@given(turns=_turns(), options=_OPTIONS)
def test_a_request_of_ours_is_read_as_what_it_says(turns: tuple[Turn, ...], options: Options) -> None:
    try:
        made = request(*turns, options=options)
    except InvalidHistory:
        return
    parsed = parse_request(made.body)
    again = encode_draft(
        parsed.conversation,
        resolve(f"anthropic/{MODEL}").dialect,
        parsed.model,
        tools=parsed.tools,
        options=parsed.options,
    )
    assert normal(json.loads(again.body)) == normal(json.loads(made.body))


@settings(max_examples=200, deadline=None)
@given(
    content=st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["type", "role", "content", "text", "id", "input", "name", "tool_use_id", "source", "data"]
                ),
                inner
                | st.sampled_from(["text", "tool_use", "tool_result", "image", "document", "thinking", "assistant"]),
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_is_read_or_refused_as_invalid(content: Any) -> None:
    for value in (
        content,
        {"messages": content},
        {"messages": [{"role": "user", "content": content}], "tools": content},
    ):
        try:
            parse_request(json.dumps(value).encode())
        except InvalidHistory:
            pass


def test_a_plain_chat_leaves_no_notes() -> None:
    plain = (human("hi"), ai(Text("hello")), human("and?"))
    assert not request(*plain).notes
    called = (
        human("hi"),
        ai(Text("I look"), CALL),
        tool(tool_result(CALL, "a.txt")),
        ai(Text("a.txt"), key="b"),
        human("ok"),
    )
    assert not request(*called, tools=[LS]).notes


def test_what_stood_behind_a_call_moves_before_it_with_a_note() -> None:
    made = request(human("hi"), ai(CALL, Text("I look")), tool(tool_result(CALL, "a.txt")), tools=[LS])
    assert [(note.action, note.what) for note in made.notes] == [("adapted", "turn")]
