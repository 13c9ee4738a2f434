"""One conversation with everything in it, in the words of each family that has no recorded vectors."""

from __future__ import annotations

import pytest

from midstream.core.blocks import Conversation, Media, Text, Thinking, ToolCall, ToolResponse, Turn, human
from midstream.core.tools import ToolSpec
from midstream.templates.registry import get_template

TOOL = ToolSpec("get", "Get it", {"type": "object", "properties": {"k": {"type": "string"}}})
DECLARED = (
    '{"type": "function", "function": {"name": "get", "description": "Get it", '
    '"parameters": {"type": "object", "properties": {"k": {"type": "string"}}}}}'
)
CALLS = (ToolCall("aaaaaaaaa", "get", '{"k":"1"}'), ToolCall("bbbbbbbbb", "get", "oops"))
RESULTS = (ToolResponse("aaaaaaaaa", "get", (Text("one"),)), ToolResponse("bbbbbbbbb", "get", (Text("two"),)))
TALK = Conversation(
    (
        human("q1", Media("image/png", "AA==", name="cat.png")),
        Turn("ai", (Thinking("OLD"), Text("a1"))),
        human("q2"),
        Turn("ai", (Thinking("NEW"), Text("t"), *CALLS)),
        Turn("tool", RESULTS),
    ),
    "sys",
)
Q1 = "q1[image cat.png not shown]"

CHATML_HISTORY = (
    f"<|im_start|>user\n{Q1}<|im_end|>\n<|im_start|>assistant\na1<|im_end|>\n<|im_start|>user\nq2<|im_end|>\n"
    "<|im_start|>assistant\n{}t\n<tool_call>\n"
    '{{"name": "get", "arguments": {{"k":"1"}}}}\n</tool_call>\n<tool_call>\n{{"name": "get", "arguments": "oops"}}\n'
    "</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n"
    "</tool_response><|im_end|>\n<|im_start|>assistant\n"
)
HEAD = "<|start_header_id|>{}<|end_header_id|>\n\n{}<|eot_id|>"
LLAMA = "".join(
    [
        HEAD.format(role, text)
        for role, text in (
            ("system", "sys"),
            ("user", Q1),
            ("assistant", "a1"),
            ("user", "q2"),
            ("assistant", "t"),
            ("assistant", '{"name": "get", "parameters": {"k":"1"}}'),
            ("ipython", "one"),
            ("assistant", '{"name": "get", "parameters": "oops"}'),
            ("ipython", "two"),
        )
    ]
)

EXPECTED = {
    "chatml": "<|im_start|>system\nsys<|im_end|>\n" + CHATML_HISTORY.format(""),
    "qwen": "<|im_start|>system\nsys<|im_end|>\n" + CHATML_HISTORY.format("<think>\nNEW\n</think>\n\n"),
    "llama3": f"<|begin_of_text|>{LLAMA}<|start_header_id|>assistant<|end_header_id|>\n\n",
    "gemma": (
        f"<bos><start_of_turn>user\nsys\n\n{Q1}<end_of_turn>\n<start_of_turn>model\na1<end_of_turn>\n"
        '<start_of_turn>user\nq2<end_of_turn>\n<start_of_turn>model\nt\n[TOOL_REQUEST]{"name": "get", "arguments": '
        '{"k":"1"}}[END_TOOL_REQUEST]\n[TOOL_REQUEST]{"name": "get", "arguments": "oops"}[END_TOOL_REQUEST]<end_of_turn>\n'
        "<start_of_turn>user\n[TOOL_RESULT]one[END_TOOL_RESULT]\n\n[TOOL_RESULT]two[END_TOOL_RESULT]<end_of_turn>\n"
        "<start_of_turn>model\n"
    ),
    "mistral": (
        f"<s>[SYSTEM_PROMPT]sys[/SYSTEM_PROMPT][INST]{Q1}[/INST]a1</s>[INST]q2[/INST]t[TOOL_CALLS]"
        '[{"name": "get", "arguments": {"k":"1"}, "id": "aaaaaaaaa"}, {"name": "get", "arguments": "oops", '
        '"id": "bbbbbbbbb"}]</s>[TOOL_RESULTS]{"content": "one", "call_id": "aaaaaaaaa"}[/TOOL_RESULTS]'
        '[TOOL_RESULTS]{"content": "two", "call_id": "bbbbbbbbb"}[/TOOL_RESULTS]'
    ),
    "deepseek": (
        f"<｜begin▁of▁sentence｜>sys<｜User｜>{Q1}<｜Assistant｜></think>a1<｜end▁of▁sentence｜><｜User｜>q2<｜Assistant｜></think>t"
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>{"k":"1"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>'
        "oops<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜><｜tool▁output▁begin｜>one<｜tool▁output▁end｜>"
        "<｜tool▁output▁begin｜>two<｜tool▁output▁end｜>"
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_whole_prompt(name: str) -> None:
    prompt = get_template(name).render(TALK)
    assert prompt.text == EXPECTED[name]
    assert [(note.action, note.what) for note in prompt.notes] == [("adapted", "media")]


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("qwen", "<|im_start|>system\nsys\n\n# Tools\n\n"),
        ("llama3", "<|begin_of_text|>" + HEAD.format("system", "Environment: ipython\n\nsys")),
        ("gemma", "<bos><start_of_turn>user\nYou can call these functions:\n" + DECLARED),
        ("mistral", f"<s>[SYSTEM_PROMPT]sys[/SYSTEM_PROMPT][INST]{Q1}[/INST]a1</s>[AVAILABLE_TOOLS][{DECLARED}]["),
        (
            "deepseek",
            "<｜begin▁of▁sentence｜>sys\n\n## Tools\nYou have access to the following tools:\n\n### get\nDesc",
        ),
    ],
)
def test_where_tools_are_declared(name: str, start: str) -> None:
    text = get_template(name).render(TALK, tools=[TOOL]).text
    assert text.startswith(start)
    assert text.count("Get it") == 1
    assert get_template(name).render(Conversation(), tools=[TOOL]).text.count("Get it") == 1


def test_qwen_is_told_not_to_think() -> None:
    text = get_template("qwen").render(TALK, thinking=False).text
    assert text.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert "OLD" in get_template("qwen").render(TALK, preserve_thinking=True).text


@pytest.mark.parametrize(("thinking", "tag"), [(None, "</think>"), (False, "</think>"), (True, "<think>")])
def test_deepseek_opens_an_answer_to_a_question_only(thinking: bool | None, tag: str) -> None:
    deepseek = get_template("deepseek")
    prompt = deepseek.render(Conversation((human("q"),)), thinking=thinking)
    assert prompt.text.endswith(f"<｜User｜>q<｜Assistant｜>{tag}")
    assert prompt.starts_inside_thinking is (thinking is True)
    assert not deepseek.render(TALK, thinking=True).starts_inside_thinking
