"""The rules of the Gemini encoder, one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

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
from midstream.core.dialect import Options
from midstream.core.errors import InvalidHistory, MissingReasoning
from midstream.core.tools import ToolSpec
from midstream.dialects.gemini import GEMINI_2, GEMINI_3, GEMINI_3_PRO, GEMINI_25_FLASH, GEMINI_25_LITE, GEMINI_25_PRO
from midstream.sim.rules.hosts import judge
from midstream.wires.encode_context import EncodeContext
from midstream.wires.gemini.encode import ContentsWriter
from midstream.wires.gemini.wire import BYPASS, DEFAULT
from midstream.wires.history_cache import HistoryCache
from tests.conversations import ORIGIN, PIXEL, Story, weather_story
from tests.wires.drafts import encode_draft

MODEL = "gemini-3-flash-preview"
OWN = Origin("gemini", "gemini", MODEL)
SIGNED = {"thoughtSignature": "own-signature"}


def encode(conversation: Conversation, dialect: Any = DEFAULT, model: str = MODEL, **fields: Any) -> Any:
    return encode_draft(conversation, dialect, model, **fields)


def body(conversation: Conversation, dialect: Any = DEFAULT, model: str = MODEL, **fields: Any) -> dict[str, Any]:
    written: dict[str, Any] = json.loads(encode(conversation, dialect, model, **fields).body)
    return written


def hello(**fields: Any) -> dict[str, Any]:
    return body(Conversation((human("hi"),)), **fields)


def said(*blocks: Any, origin: Origin = OWN) -> list[dict[str, Any]]:
    """The parts of one answer, written for MODEL."""
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    turns = [human("hi", key="a"), Turn("ai", blocks, key="b", origin=origin)]
    if calls:
        turns.append(Turn("tool", tuple(ToolResponse(call.id, call.name, (Text("r"),)) for call in calls), key="c"))
    contents = body(Conversation(tuple(turns)))["contents"]
    parts: list[dict[str, Any]] = next(content for content in contents if content["role"] == "model")["parts"]
    return parts


def notes(request: Any) -> list[str]:
    return [str(note) for note in request.notes]


def codes(request: Any) -> list[str]:
    return [note.code for note in request.notes]


def call(
    name: str = "f", extra: dict[str, Any] | None = None, arguments: str = "{}", id: str = "hist_tool_1"
) -> ToolCall:
    return ToolCall(id, name, arguments, extra=extra)


def test_roles_alternate_and_all_results_stand_in_one_content() -> None:
    contents = body(weather_story().says("Well?").done())["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user", "model", "user"]
    results = [part["functionResponse"] for part in contents[2]["parts"]]
    calls = [part["functionCall"] for part in contents[1]["parts"] if "functionCall" in part]
    assert [(r["name"], r["response"]) for r in results] == [
        ("get_weather", {"result": "12 C"}),
        ("get_time", {"result": "14:02"}),
    ]
    assert [c["id"] for c in calls] == [r["id"] for r in results] and len({c["id"] for c in calls}) == 2
    assert calls[1]["args"] == {"city": "Oslo"}
    assert contents[4]["parts"] == [{"text": "And in Rome?"}, {"text": "Well?"}]


def test_words_behind_results_join_their_content() -> None:
    story = Story().says("go").answers("", ("f", "{}")).results("ok").says("and?")
    parts = body(story.done())["contents"][-1]["parts"]
    assert "functionResponse" in parts[0] and parts[1] == {"text": "and?"}


def test_the_strict_double_takes_a_foreign_history() -> None:
    assert judge(encode(weather_story(thinking="hm").done()).body, "gemini", "paranoid") == []


def test_the_first_content_is_the_users() -> None:
    request = encode(Conversation((Turn("ai", (Text("Hello."),), key="a"), human("hi", key="b"))))
    assert json.loads(request.body)["contents"][0]["role"] == "user"
    assert "first_turn" in codes(request)


def test_the_model_stands_in_the_path() -> None:
    conversation = Conversation((human("hi"),))
    assert encode(conversation).path == f"/models/{MODEL}:streamGenerateContent?alt=sse"
    assert encode(conversation, options=Options(stream=False)).path == f"/models/{MODEL}:generateContent"
    assert encode(conversation, model="tunedModels/x").path.startswith("/tunedModels/x:")
    assert encode(conversation, model="models/a b?c").path.startswith("/models/a%20b%3Fc:")
    assert "model" not in hello()


def test_own_signatures_go_back_as_they_came() -> None:
    parts = said(
        Thinking("hm", "thought", "sig", origin=OWN),
        Text("a", {"thoughtSignature": "T"}),
        Text("", {"thoughtSignature": "E"}),
        call(extra=SIGNED),
    )
    assert parts[:3] == [
        {"text": "hm", "thought": True, "thoughtSignature": "sig"},
        {"text": "a", "thoughtSignature": "T"},
        {"text": "", "thoughtSignature": "E"},
    ]
    assert parts[3]["thoughtSignature"] == "own-signature"


@pytest.mark.parametrize(
    "origin", [Origin("gemini", "gemini", "gemini-2.5-pro"), ORIGIN, Origin("vertex", "gemini", MODEL)]
)
def test_signatures_of_others_are_dropped_and_the_first_call_gets_the_bypass(origin: Origin) -> None:
    parts = said(
        Thinking("hm", "thought", "sig", origin=origin),
        Text("a", {"thoughtSignature": "T"}),
        call(extra=SIGNED),
        call("g", SIGNED, id="hist_tool_2"),
        origin=origin,
    )
    assert parts[0] == {"text": "a"}
    assert [part.get("thoughtSignature") for part in parts[1:]] == [BYPASS, None]


def test_each_turn_that_calls_gets_its_bypass() -> None:
    story = Story().says("x").answers("", ("f", "{}")).results("1").answers("", ("f", "{}")).results("2")
    request = encode(story.done())
    calls = [p for c in json.loads(request.body)["contents"] for p in c["parts"] if "functionCall" in p]
    assert [part["thoughtSignature"] for part in calls] == [BYPASS, BYPASS]
    assert codes(request).count("missing_reasoning") == 2


def test_older_models_want_no_bypass() -> None:
    story = Story().says("x").answers("", ("f", "{}")).results("1")
    assert "thoughtSignature" not in encode(story.done(), GEMINI_25_PRO, "gemini-2.5-pro").body.decode()


def test_a_missing_signature_may_be_made_to_fail() -> None:
    story = Story().says("x").answers("", ("f", "{}")).results("1")
    with pytest.raises(MissingReasoning):
        encode(story.done(), options=Options(missing_reasoning="fail"))


def test_foreign_thinking_is_dropped_kept_or_told() -> None:
    story = Story().says("x").answers("a", thinking="hm").says("y").done()
    request = encode(story)
    assert json.loads(request.body)["contents"][1]["parts"] == [{"text": "a"}]
    assert any("dropped thinking" in note for note in notes(request))
    told = body(story, options=Options(foreign_thinking="text"))["contents"][1]["parts"]
    assert told == [{"text": "hm"}, {"text": "a"}]
    kept = body(story, options=Options(foreign_thinking="keep"))["contents"][1]["parts"]
    assert kept == [{"text": "hm", "thought": True}, {"text": "a"}]


def test_opaque_parts_go_back_to_their_host_only() -> None:
    data = {"executableCode": {"code": "1"}, "thoughtSignature": "S"}
    assert said(Opaque("executableCode", data, OWN), Text("a")) == [data, {"text": "a"}]
    other = Origin("gemini", "gemini", "gemini-2.5-pro")
    assert said(Opaque("executableCode", data, other), Text("a"), origin=other)[0] == {"executableCode": {"code": "1"}}
    assert said(Opaque("server_tool", data, ORIGIN), Text("a")) == [{"text": "a"}]


def test_blank_text_is_not_sent() -> None:
    assert said(Text(""), Text("a")) == [{"text": "a"}]
    request = encode(Conversation((human("hi", key="a"), Turn("ai", (Text(""),), key="b"), human("yo", key="c"))))
    assert json.loads(request.body)["contents"] == [{"role": "user", "parts": [{"text": "hi"}, {"text": "yo"}]}]


@pytest.mark.parametrize(
    ("text", "error", "wanted"),
    [
        ("fine", False, {"result": "fine"}),
        ("", False, {"result": ""}),
        ("bad", True, {"error": "bad"}),
        ('{"a": 12345678901234567890}', False, {"a": 12345678901234567890}),
        ("[1]", False, {"result": "[1]"}),
        ('{"error": "x"}', True, {"error": "x"}),
        ('{"a": 1}', True, {"error": {"a": 1}}),
    ],
)
def test_results_are_objects(text: str, error: bool, wanted: Any) -> None:
    story = Story().says("x").answers("", ("f", "{}")).results(text, error=error)
    assert body(story.done())["contents"][-1]["parts"][0]["functionResponse"]["response"] == wanted


def test_media_of_results_stand_inside_or_behind() -> None:
    image = Media("image/png", data=PIXEL)
    story = Story().says("x").answers("", ("f", "{}"), ("g", "{}")).results(image, "ok").done()
    inside = body(story)["contents"][-1]["parts"]
    assert inside[0]["functionResponse"]["parts"] == [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}]
    assert len(inside) == 2
    behind = body(story, GEMINI_25_FLASH, "gemini-2.5-flash")["contents"][-1]["parts"]
    assert ["functionResponse" in part for part in behind] == [True, True, False]
    assert behind[2] == {"inlineData": {"mimeType": "image/png", "data": PIXEL}}


@pytest.mark.parametrize(
    ("media", "wanted"),
    [
        (Media("image/*", data=PIXEL), {"inlineData": {"mimeType": "image/png", "data": PIXEL}}),
        (Media("audio/mpeg", data="QUJD"), {"inlineData": {"mimeType": "audio/mpeg", "data": "QUJD"}}),
        (Media("image/*", url="https://a/b"), {"fileData": {"fileUri": "https://a/b"}}),
        (Media("video/mp4", url="files/1"), {"fileData": {"mimeType": "video/mp4", "fileUri": "files/1"}}),
        (Media("", url="data:image/webp;base64,R0lG"), {"inlineData": {"mimeType": "image/webp", "data": "R0lG"}}),
        (Media("", url="data:image/gif;base64,R0lG"), {"text": "[image omitted]"}),
        (Media("image/*", data="????", name="x"), {"text": "[image omitted: x]"}),
    ],
)
def test_media(media: Media, wanted: Any) -> None:
    assert body(Conversation((human(media),)))["contents"][0]["parts"] == [wanted]


def test_a_models_own_media_go_back() -> None:
    image = Media("image/png", data=PIXEL, extra={"thoughtSignature": "S"})
    assert said(image)[0] == {"inlineData": {"mimeType": "image/png", "data": PIXEL}, "thoughtSignature": "S"}
    assert said(image, Text("a"), origin=ORIGIN) == [{"text": "a"}]


FOLDED = "<system-instruction>\nbe brief\n</system-instruction>"


def test_system_and_instructions_inside() -> None:
    conversation = Conversation((human("hi", key="a"), replace(human("be brief", key="b"), role="system")), "You are.")
    written = body(conversation)
    assert written["systemInstruction"] == {"parts": [{"text": "You are."}]}
    assert written["contents"] == [{"role": "user", "parts": [{"text": "hi"}, {"text": FOLDED}]}]


def test_tools_are_declared_in_geminis_subset() -> None:
    tools = [
        ToolSpec("my tool", "Does.", {"type": "object", "properties": {"a": {"type": ["string", "null"], "x-y": 1}}}),
        ToolSpec("bare"),
        ToolSpec("googleSearch", builtin="googleSearch"),
        ToolSpec("$web_search", builtin="$web_search"),
    ]
    request = encode(Conversation((human("hi"),)), tools=tools)
    search, functions = json.loads(request.body)["tools"]
    assert search == {"googleSearch": {}}
    assert functions["functionDeclarations"] == [
        {
            "name": "my_tool_ba077b42",
            "description": "Does.",
            "parameters": {"type": "object", "properties": {"a": {"type": "string", "nullable": True}}},
        },
        {"name": "bare"},
    ]
    assert request.tool_names == {"my_tool_ba077b42": "my tool"}
    assert "foreign_builtin" in codes(request)


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("f", {"mode": "ANY", "allowedFunctionNames": ["f"]}),
    ],
)
def test_tool_choice(choice: str, wanted: Any) -> None:
    tools = [ToolSpec("f")]
    assert hello(tools=tools, options=Options(tool_choice=choice))["toolConfig"] == {"functionCallingConfig": wanted}
    assert "toolConfig" not in hello(options=Options(tool_choice=choice))


def test_generation_config() -> None:
    options = Options(
        max_tokens=9, temperature=0.5, top_p=0.9, stop=("a",), seed=3, presence_penalty=1, frequency_penalty=2,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
        extra_body={"generationConfig": {"topK": 4}, "safetySettings": []},
    )  # fmt: skip
    written = hello(options=options)
    assert written["generationConfig"] == {
        "maxOutputTokens": 9, "temperature": 0.5, "topP": 0.9, "stopSequences": ["a"], "seed": 3, "presencePenalty": 1,
        "frequencyPenalty": 2, "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}, "topK": 4,
    }  # fmt: skip
    assert written["safetySettings"] == []
    assert "generationConfig" not in hello()


ON, OFF = Options(thinking="on"), Options(thinking="off")


@pytest.mark.parametrize(
    ("dialect", "options", "wanted"),
    [
        (GEMINI_3, ON, {"includeThoughts": True}),
        (GEMINI_3, OFF, {"thinkingLevel": "minimal"}),
        (GEMINI_3_PRO, OFF, {"thinkingLevel": "low"}),
        (GEMINI_3, Options(effort="max"), {"includeThoughts": True, "thinkingLevel": "high"}),
        (GEMINI_3, Options(thinking_budget=500), {"includeThoughts": True, "thinkingBudget": 500}),
        (GEMINI_25_FLASH, ON, {"includeThoughts": True}),
        (GEMINI_25_FLASH, OFF, {"thinkingBudget": 0}),
        (GEMINI_25_PRO, OFF, {"thinkingBudget": 128}),
        (GEMINI_25_LITE, ON, {"includeThoughts": True, "thinkingBudget": -1}),
        (GEMINI_25_PRO, Options(effort="low"), {"includeThoughts": True, "thinkingBudget": 1024}),
        (GEMINI_25_PRO, Options(thinking_budget=300), {"includeThoughts": True, "thinkingBudget": 300}),
        (GEMINI_2, ON, None),
        (GEMINI_3, Options(), None),
        (GEMINI_25_PRO, Options(), None),
    ],
)
def test_thinking(dialect: Any, options: Options, wanted: Any) -> None:
    assert hello(dialect=dialect, options=options).get("generationConfig", {}).get("thinkingConfig") == wanted


def test_arguments_that_are_no_object_are_wrapped() -> None:
    assert said(call(arguments="[1]"))[0]["functionCall"]["args"] == {"_raw": "[1]"}


def test_large_integers_stay_exact() -> None:
    conversation = Story().says("x").answers("", ("f", '{"n": 9007199254740993}')).results("1").done()
    assert b'"args":{"n": 9007199254740993}' in encode(conversation).body


def test_a_prefill_is_the_models_beginning() -> None:
    assert hello(options=Options(prefill="Sure"))["contents"][-1] == {"role": "model", "parts": [{"text": "Sure"}]}


def test_an_empty_conversation_is_refused() -> None:
    with pytest.raises(InvalidHistory):
        encode(Conversation())


def test_a_cached_history_is_written_as_a_fresh_one() -> None:
    cache = HistoryCache()
    whole = weather_story(OWN, "hm").answers("", ("f", "{}")).results("1").answers("done").says("more").done()
    for length in range(1, len(whole.turns) + 1):
        part = replace(whole, turns=whole.turns[:length])
        cached, fresh = encode(part, cache=cache), encode(part)
        assert (cached.body, cached.notes) == (fresh.body, fresh.notes), length


def test_a_result_is_named_after_its_call() -> None:
    calls = (ToolCall("hist_tool_1", "f"),)
    for name in ("", "renamed"):
        result = ToolResponse("hist_tool_1", name, (Text("1"),), extra={"scheduling": "SILENT", "other": 1})
        turns = (human("x", key="a"), Turn("ai", calls, key="b"), Turn("tool", (result,), key="c"))
        written = body(Conversation(turns))["contents"][-1]["parts"][0]["functionResponse"]
        assert (written["name"], written["scheduling"]) == ("f", "SILENT") and "other" not in written


def test_a_writer_says_how_much_it_holds() -> None:
    """Or the cache would keep more than it may."""
    turns = weather_story().done().turns
    writer = ContentsWriter(EncodeContext(DEFAULT, Options(), MODEL))
    writer.write(turns, 0)
    assert writer.size > sum(map(len, writer.contents.closed)) * 0.8
