"""The conversation of the other families, with a tool, in the words of each Kimi: the whole prompt."""

from __future__ import annotations

import pytest

from midstream.templates.registry import get_template
from tests.templates.test_other_families import DECLARED, TALK, TOOL

CALLS = (
    "<|tool_calls_section_begin|>"
    '<|tool_call_begin|>functions.get:0<|tool_call_argument_begin|>{"k":"1"}<|tool_call_end|>'
    "<|tool_call_begin|>functions.get:1<|tool_call_argument_begin|>oops<|tool_call_end|>"
    "<|tool_calls_section_end|>"
)
TYPESCRIPT = (
    "# Tools\n\n## functions\nnamespace functions {\n// Get it\ntype get = (_: {\n  k?: string\n}) => any;\n}\n"
)
IMAGE = "<|media_{}|>image<|media_content|><|media_pad|><|media_end|>\n"


def system(name: str, text: str) -> str:
    return f"<|im_system|>{name}<|im_middle|>{text}<|im_end|>"


def user(text: str) -> str:
    return f"<|im_user|>user<|im_middle|>{text}<|im_end|>"


def assistant(text: str) -> str:
    return f"<|im_assistant|>assistant<|im_middle|>{text}<|im_end|>"


def prompt(tools: str, image: str, answers: tuple[str, str], result: str, newline: str, prefill: str) -> str:
    first, second = answers
    return "".join(
        [
            system("tool_declare", tools),
            system("system", "sys"),
            user("q1" + IMAGE.format(image)),
            assistant(first),
            user("q2"),
            assistant(second + CALLS),
            system(result, f"## Return of functions.get:0{newline}one"),
            system(result, f"## Return of functions.get:1{newline}two"),
            f"<|im_assistant|>assistant<|im_middle|>{prefill}",
        ]
    )


EXPECTED = {
    # The first template wrote the two characters \n where later ones break the line (field-guide/kimi-formats.md#messages).
    "kimi-k2-0711": prompt(f"[{DECLARED}]", "start", ("a1", "t"), "tool", "\\n", ""),
    "kimi-k2": prompt(f"[{DECLARED}]", "start", ("a1", "t"), "get", "\n", ""),
    "kimi-k2-thinking": prompt(f"[{DECLARED}]", "start", ("<think></think>a1", "<think>NEW</think>t"), "get", "\n", ""),
    "kimi-k2.5": prompt(TYPESCRIPT, "begin", ("<think></think>a1", "<think>NEW</think>t"), "get", "\n", "<think>"),
    "kimi-k2.7-code": prompt(
        TYPESCRIPT, "begin", ("<think>OLD</think>a1", "<think>NEW</think>t"), "get", "\n", "<think>"
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_whole_prompt(name: str) -> None:
    assert get_template(name).render(TALK, tools=[TOOL]).text == EXPECTED[name]


def message(attributes: str, text: str) -> str:
    return f"<|open|>message {attributes}<|sep|>{text}<|close|>message<|sep|><|end_of_msg|>"


def channel(name: str, text: str) -> str:
    return f"<|open|>{name}<|sep|>{text}<|close|>{name}<|sep|>"


def test_the_whole_prompt_of_k3() -> None:
    text = get_template("kimi-k3").render(TALK, tools=[TOOL]).text
    declared, effort, said = text.partition('<|open|>message role="system" type="thinking-effort"<|sep|>')
    assert declared.startswith('<|open|>message role="system" type="tool-declare"<|sep|># Tools\n')
    assert declared.count('"name":"get"') == 1
    assert effort
    calls = (
        '<|open|>call tool="get" index="1"<|sep|><|open|>argument key="k" type="string"<|sep|>1<|close|>argument<|sep|>'
        '<|close|>call<|sep|><|open|>call tool="get" index="2"<|sep|><|open|>json type="object"<|sep|>oops<|close|>json'
        "<|sep|><|close|>call<|sep|>"
    )
    assert said.partition("<|end_of_msg|>")[2] == "".join(
        [
            message('role="system"', "sys"),
            message('role="user"', "q1<|media_pad|>"),
            message('role="assistant"', channel("think", "OLD") + channel("response", "a1")),
            message('role="user"', "q2"),
            message('role="assistant"', channel("think", "NEW") + channel("response", "t") + channel("tools", calls)),
            message('role="tool" tool="get" index="1"', "one"),
            message('role="tool" tool="get" index="2"', "two"),
            '<|open|>message role="assistant"<|sep|><|open|>think<|sep|>',
        ]
    )
