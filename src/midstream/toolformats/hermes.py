"""Hermes and Qwen (2.5, 3): JSON inside `<tool_call>`, declarations inside `<tools>`, results inside `<tool_response>`."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.blocks import ToolCall, ToolResponse
from ..core.tools import ToolSpec
from .arguments import json_arguments
from .format import TextFormat, dump, plain_lines, wrapped_lines
from .tool_call_tag import BEGIN, END, script

_HOW = """To call a tool, write one JSON object with its name and arguments between tags, and nothing else between them:
<tool_call>
{"name": "the tool's name", "arguments": {"parameter": "value"}}
</tool_call>
Write one such block for each call. Results come back between <tool_response> and </tool_response>."""


def _declare(lines: str) -> str:
    return f"# Tools\n\nThese tools are at hand, one JSON declaration a line:\n<tools>\n{lines}\n</tools>\n\n{_HOW}"


def declare_hermes(tools: Sequence[ToolSpec]) -> str:
    return _declare(plain_lines(tools))


def declare_qwen(tools: Sequence[ToolSpec]) -> str:
    return _declare(wrapped_lines(tools))


def render_calls(calls: Sequence[ToolCall], ids: Sequence[str] = ()) -> str:
    return "\n".join(
        [f'{BEGIN}\n{{"name": {dump(call.name)}, "arguments": {json_arguments(call)}}}\n{END}' for call in calls]
    )


def render_result_hermes(response: ToolResponse, call_id: str = "") -> str:
    return f"<tool_response>\n{dump({'name': response.name, 'content': response.text})}\n</tool_response>"


def render_result_qwen(response: ToolResponse, call_id: str = "") -> str:
    return f"<tool_response>\n{response.text}\n</tool_response>"


HERMES = TextFormat("hermes", script, declare_hermes, render_calls, render_result_hermes)
QWEN = TextFormat("qwen", script, declare_qwen, render_calls, render_result_qwen)
