"""A Kimi prompt read back into a conversation, as far as the scripted model needs it."""

from __future__ import annotations

import re

from ..core.blocks import Conversation, Text, ToolCall, ToolResponse, Turn, human
from ..core.tools import ToolSpec
from ..wires.wire import ParsedRequest

_MESSAGE = re.compile(r"<\|im_(system|user|assistant)\|>(.*?)<\|im_middle\|>(.*?)(?:<\|im_end\|>|\Z)", re.S)
_CALL = re.compile(
    r"<\|tool_call_begin\|>functions\.(.+?):(\d+)<\|tool_call_argument_begin\|>(.*?)<\|tool_call_end\|>", re.S
)
_RESULT = re.compile(r"## Return of functions\.(.+?):(\d+)\n(.*)", re.S)
_TYPESCRIPT_TOOL = re.compile(r"^type (\S+) = \(_: \{(.*?)\}\) => any;", re.S | re.M)
_TYPESCRIPT_FIELD = re.compile(r"^\s*(\w+)(\?)?: ", re.M)


def read_prompt(prompt: str) -> ParsedRequest:
    turns: list[Turn] = []
    tools: list[ToolSpec] = []
    system = ""
    for kind, role, text in _MESSAGE.findall(prompt):
        if role == "tool_declare":
            tools = [_tool(name, fields) for name, fields in _TYPESCRIPT_TOOL.findall(text)]
        elif kind == "user":
            turns.append(human(text))
        elif kind == "assistant":
            calls = tuple([ToolCall(f"hist_tool_{number}", name, raw) for name, number, raw in _CALL.findall(text)])
            said = re.sub(r"<think>.*?</think>|<\|tool_calls_section_begin\|>.*", "", text, flags=re.S)
            if calls or said.replace("<think>", "").strip():
                turns.append(Turn("ai", (Text(said), *calls)))
        elif result := _RESULT.search(text):
            name, number, content = result.groups()
            turns.append(Turn("tool", (ToolResponse(f"hist_tool_{number}", name, (Text(content),)),)))
        else:
            system = text
    return ParsedRequest(Conversation(tuple(turns), system), tools=tuple(tools))


def _tool(name: str, fields: str) -> ToolSpec:
    found = _TYPESCRIPT_FIELD.findall(fields)
    properties = {field: {"type": "string"} for field, _ in found}
    required = [field for field, optional in found if not optional]
    return ToolSpec(name, parameters={"type": "object", "properties": properties, "required": required})
