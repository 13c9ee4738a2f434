"""GLM 4.5 and later: a name and `<arg_key>/<arg_value>` pairs inside `<tool_call>`, values bare and typed by the schema."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.blocks import ToolCall, ToolResponse
from ..core.tools import ToolSpec
from .arguments import arguments_of
from .format import TextFormat, wrapped_lines
from .hermes import render_result_qwen
from .tool_call_tag import BEGIN, END, GLM_ESCAPE, KEY, KEY_END, VALUE, VALUE_END, script
from .values import bare

_HOW = """To call a tool, write its name and then a key and a value for each argument; strings bare, everything else as JSON:
<tool_call>tool_name
<arg_key>parameter_name</arg_key>
<arg_value>value</arg_value>
</tool_call>"""


def declare(tools: Sequence[ToolSpec]) -> str:
    lines = wrapped_lines(tools)
    return f"# Tools\n\nThese tools are at hand, one JSON declaration a line:\n<tools>\n{lines}\n</tools>\n\n{_HOW}"


def render_calls(calls: Sequence[ToolCall], ids: Sequence[str] = ()) -> str:
    return "\n".join([_render(call) for call in calls])


def _render(call: ToolCall) -> str:
    parts = [f"{BEGIN}{call.name}\n"]
    for key, value in arguments_of(call).items():
        parts.append(f"{KEY}{key}{KEY_END}\n{VALUE}{GLM_ESCAPE.escape(bare(value))}{VALUE_END}\n")
    parts.append(END)
    return "".join(parts)


def render_result(response: ToolResponse, call_id: str = "") -> str:
    return render_result_qwen(response)


GLM = TextFormat("glm", script, declare, render_calls, render_result)
