from __future__ import annotations

from typing import Any

import pytest

from midstream.core.blocks import Conversation, Media, Text, Thinking, ToolCall, ToolResponse, Turn, human
from midstream.core.tools import ToolSpec
from midstream.templates.registry import get_template
from tests.shared_data import vector_params, vectors
from tests.templates.openai_messages import VerbatimIds, conversation_of, tools_of
from tests.templates.render_exceptions import DIFFERENT

VECTORS = "kimi/chat-template-renders.json"
# llama.cpp's copies renumber ids over the conversation, which is what our own mapper does; the others print them verbatim.
NAMES = {
    "llama.cpp/Kimi-K2-Instruct": ("kimi-k2", None),
    "llama.cpp/Kimi-K2-Thinking": ("kimi-k2-thinking", None),
    "llama.cpp/moonshotai-Kimi-K2": ("kimi-k2-0711", VerbatimIds()),
    "K2.5(K2.6)": ("kimi-k2.6", VerbatimIds()),
}


def rendered(vector: dict[str, Any], name: str = "") -> str:
    given = vector["input"]
    own, ids = NAMES[given["template"]]
    return (
        get_template(name or own)
        .render(
            conversation_of(given["messages"]),
            tools=tools_of(given["tools"]),
            ids=ids,
            add_generation_prompt=given["add_generation_prompt"],
            **given["kwargs"],
        )
        .text
    )


def wanted(vector: dict[str, Any]) -> str:
    prompt: str = vector["expected"]["prompt"]
    for theirs, ours in DIFFERENT.get(vector["id"], ("", ()))[1]:
        assert theirs in prompt, f"stale: {vector['id']} does not hold {theirs!r}"
        prompt = prompt.replace(theirs, ours)
    return prompt


@pytest.mark.parametrize("vector", vector_params(VECTORS))
def test_the_recorded_prompts(vector: dict[str, Any]) -> None:
    assert rendered(vector) == wanted(vector)


@pytest.mark.parametrize("name", DIFFERENT)
def test_no_stale_exceptions(name: str) -> None:
    vector = vectors(VECTORS)[name]
    assert rendered(vector) != vector["expected"]["prompt"]


def test_k25_is_k26() -> None:
    for vector in vectors(VECTORS).values():
        if vector["input"]["template"] == "K2.5(K2.6)":
            assert rendered(vector, "kimi-k2.5") == rendered(vector, "kimi-k2.6")


def loop() -> Conversation:
    """A finished turn with reasoning, then a running loop of two calls."""
    calls = (ToolCall("a", "read", '{"p":1}'), ToolCall("b", "read", '{"p":2}'))
    return Conversation(
        (
            human("one"),
            Turn("ai", (Thinking("OLD"), Text("answer"))),
            human("two"),
            Turn("ai", (Thinking("NEW"), Text("on it"), *calls)),
            Turn("tool", (ToolResponse("a", "read", (Text("A"),)), ToolResponse("b", "read", (Text("B"),)))),
            Turn("ai", (Thinking(""), ToolCall("c", "write", ""))),
            Turn("tool", (ToolResponse("c", "write", (Text("C"),)),)),
        )
    )


def test_ids_count_over_the_whole_request() -> None:
    text = get_template("kimi-k2").render(loop()).text
    for printed in ("functions.read:0", "functions.read:1", "functions.write:2"):
        assert f"<|tool_call_begin|>{printed}<|tool_call_argument_begin|>" in text
        assert f"## Return of {printed}\n" in text
    assert "<|tool_call_argument_begin|>{}<|tool_call_end|>" in text


@pytest.mark.parametrize(
    ("name", "options", "shown"),
    [
        ("kimi-k2", {}, []),
        ("kimi-k2-thinking", {}, ["", "NEW", ""]),
        ("kimi-k2-thinking", {"thinking": False, "preserve_thinking": True}, ["", "NEW", ""]),
        ("kimi-k2.5", {}, ["", "NEW", ""]),
        ("kimi-k2.6", {"preserve_thinking": True}, ["OLD", "NEW", ""]),
        ("kimi-k2.6", {"thinking": False, "preserve_thinking": True}, ["", "", ""]),
        ("kimi-k2.7-code", {}, ["OLD", "NEW", ""]),
        ("kimi-k2.7-code", {"thinking": False}, ["OLD", "NEW", ""]),
    ],
)
def test_which_reasoning_is_kept(name: str, options: dict[str, bool], shown: list[str]) -> None:
    text = get_template(name).render(loop(), add_generation_prompt=False, **options).text  # type: ignore[arg-type]
    assert [piece.partition("</think>")[0] for piece in text.split("<think>")[1:]] == shown


@pytest.mark.parametrize(
    ("name", "thinking", "prefill", "inside"),
    [
        ("kimi-k2", None, "", False),
        ("kimi-k2-thinking", None, "", False),
        ("kimi-k2.5", None, "<think>", True),
        ("kimi-k2.5", True, "<think>", True),
        ("kimi-k2.5", False, "<think></think>", False),
        ("kimi-k2.7-code", False, "<think>", True),
    ],
)
def test_where_the_answer_begins(name: str, thinking: bool | None, prefill: str, inside: bool) -> None:
    prompt = get_template(name).render(Conversation((human("q"),)), thinking=thinking)
    assert prompt.text.endswith(f"<|im_assistant|>assistant<|im_middle|>{prefill}")
    assert prompt.starts_inside_thinking is inside
    closed = get_template(name).render(Conversation((human("q"),)), thinking=thinking, add_generation_prompt=False)
    assert closed.text.endswith("q<|im_end|>")
    assert not closed.starts_inside_thinking


def test_redacted_thinking_is_not_text() -> None:
    turns = (human("q"), Turn("ai", (Thinking("blob", redacted=True), ToolCall("a", "f"))))
    assert "<think></think>" in get_template("kimi-k2.5").render(Conversation(turns)).text


def test_media() -> None:
    shown = (Media("image/png", "AA=="), Media("video/mp4", "AA=="), Media("audio/wav", "AA==", name="hum.wav"))
    prompt = get_template("kimi-k2.5").render(Conversation((human("see", *shown, "end"),)))
    assert prompt.text.startswith(
        "<|im_user|>user<|im_middle|>see<|media_begin|>image<|media_content|><|media_pad|><|media_end|>\n"
        "<|kimi_k25_video_placeholder|>\n[audio hum.wav not shown]end<|im_end|>"
    )
    assert [(note.action, note.what, note.turn) for note in prompt.notes] == [("adapted", "media", 0)]


def test_an_instruction_in_the_conversation() -> None:
    text = get_template("kimi-k2").render(Conversation((Turn("human", (Text("be kind"),), role="developer"),))).text
    assert text.startswith("<|im_system|>system<|im_middle|>be kind<|im_end|>")


def test_tools_a_provider_runs_are_left_out_and_noted() -> None:
    prompt = get_template("kimi-k2").render(Conversation((human("q"),)), tools=[ToolSpec("w", builtin="$web_search")])
    assert "tool_declare" not in prompt.text
    assert [note.what for note in prompt.notes] == ["tool"]


def test_what_cannot_be_typescript_is_json() -> None:
    tools = [ToolSpec("f", "d", {"type": "object", "properties": {"x": {"$ref": "elsewhere.json"}}}), ToolSpec("g")]
    text = get_template("kimi-k2.5").render(Conversation((human("q"),)), tools=tools).text
    assert text.startswith(
        '<|im_system|>tool_declare<|im_middle|>[{"function":{"description":"d","name":"f","parameters":{"properties":'
        '{"x":{"$ref":"elsewhere.json"}},"type":"object"}},"type":"function"},{"function":{"name":"g",'
    )
