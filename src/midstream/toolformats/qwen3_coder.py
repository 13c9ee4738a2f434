"""Qwen3-Coder: `<function=f>` and `<parameter=k>` inside `<tool_call>`, values bare and typed by the schema."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.blocks import ToolCall, ToolResponse
from ..core.tools import ToolSpec
from .arguments import arguments_of
from .format import TextFormat, plain_lines
from .hermes import render_result_qwen
from .tool_call_tag import BEGIN, CODER_ESCAPE, END, FUNCTION, FUNCTION_END, PARAMETER, PARAMETER_END, script
from .values import bare

_HOW = """To call a tool, name it and give each parameter its own tag. Values are bare: no quotes, JSON only for lists and objects.
<tool_call>
<function=tool_name>
<parameter=parameter_name>
value
</parameter>
</function>
</tool_call>
Write one such block for each call, after anything you have to say."""


def declare(tools: Sequence[ToolSpec]) -> str:
    lines = plain_lines(tools)
    return f"# Tools\n\nThese tools are at hand, one JSON declaration a line:\n<tools>\n{lines}\n</tools>\n\n{_HOW}"


def render_calls(calls: Sequence[ToolCall], ids: Sequence[str] = ()) -> str:
    return "\n".join([_render(call) for call in calls])


def _render(call: ToolCall) -> str:
    parts = [f"{BEGIN}\n{FUNCTION}{call.name}>\n"]
    for key, value in arguments_of(call).items():
        parts.append(f"{PARAMETER}{key}>\n{CODER_ESCAPE.escape(bare(value))}\n{PARAMETER_END}\n")
    parts.append(f"{FUNCTION_END}\n{END}")
    return "".join(parts)


def render_result(response: ToolResponse, call_id: str = "") -> str:
    return render_result_qwen(response)


QWEN3_CODER = TextFormat("qwen3-coder", script, declare, render_calls, render_result)
