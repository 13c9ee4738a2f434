"""Kimi K3: XTML, elements of `<|open|>tag attr="…"<|sep|>` and `<|close|>tag<|sep|>` (field-guide/kimi-formats.md#k3).

A message contains its text; an assistant's contains `think`, `response` and `tools`. A call lists its arguments one by one with
their types; arguments that are not a JSON object go into one `json` element. Calls and results have no ids: they are numbered
from 1 in each message, results in the order of their calls. All reasoning is kept. Effort, tool choice and response format are
written as system messages. The prompt ends inside `think`, or inside `response` if thinking is off.
"""

from __future__ import annotations

from typing import Any

from ..core.blocks import ToolCall
from .kimi_k2 import BRACKETS
from .prompt import BARS, PromptWriter, Rendering, Specials, Template
from .transcript import Message, compact_json, parsed_arguments, spaced_json, tool_object

_STOP = ("<|end_of_msg|>",)
_IMAGE = "<|media_pad|>"
# The model takes low, high and max (field-guide/reasoning.md#efforts);
# other words become the nearest, and none asked for is max.
_EFFORTS = {"none": "low", "minimal": "low", "low": "low", "medium": "high", "high": "high"}
_EFFORT = (
    "`thinking_effort` guides on how much to think in your thinking channel (not including the response channel), "
    "supported values include `low`, `medium`, `high`, and `max`.\nNow the system is invoked with `thinking_effort={}`."
)
_TOOLS = "# Tools\nHere are the available tools, described in JSONSchema.\n\n```json\n"
_NEW_TOOLS = (
    "## New Tools Available\nThe system dynamically extends the toolset via lazy-loading.\n"
    "You have access to all existing and extended tools.\nHere are the specs for the extended tools.\n\n```json\n"
)
_CHOICES = {
    "required": "The system is invoked with `tool_choice=required`.\nYou MUST call tools in the next message.",
    "none": "The system is invoked with `tool_choice=none`.\nYou MUST NOT call any tools in the next message.",
}
# what `json.loads` makes -> the type of the argument
_TYPES = {
    bool: "boolean",
    type(None): "null",
    int: "number",
    float: "number",
    str: "string",
    dict: "object",
    list: "array",
}
_FORMAT = (
    "The system is invoked with `response_format={}`.\nYour response must be raw JSON data without markdown code blocks "
    "(```json) or any additional formatting."
)


def _write(given: Rendering, writer: PromptWriter) -> bool:
    thinks = given.thinking is not False
    asked = given.options
    out = _Xtml(writer)
    if given.tools:
        out.declare(_TOOLS, [tool_object(tool) for tool in given.tools])
    if thinks:
        # The effort is one of three fixed words here, never the caller's text.
        out.system("thinking-effort", _EFFORT.format(_EFFORTS.get(asked.effort or "max", "max")))
    # Results carry no id: the name and number of a result are those of the call in its place.
    calls: tuple[ToolCall, ...] = ()
    index = 0
    for message in given.messages:
        writer.begin(message.turn)
        if message.role == "assistant":
            calls, index = message.calls, 0
            out.assistant(message, thinks)
        elif message.role == "tool":
            index += 1
            out.result(message, calls[index - 1].name, index)
        else:
            out.said(message)
    # These are said last, right before the answer they are about.
    if asked.tool_choice in _CHOICES:
        out.system("tool-choice", _CHOICES[asked.tool_choice])
    out.response_format(asked.response_format or {})
    if given.add_generation_prompt:
        out.open("message", role="assistant")
        out.open("think" if thinks else "response")
    return given.add_generation_prompt and thinks


class _Xtml:
    """Writes elements. Tags and attribute names are ours; attribute values are foreign."""

    __slots__ = ("enclose", "foreign", "own")

    def __init__(self, writer: PromptWriter) -> None:
        self.own, self.foreign, self.enclose = writer.own, writer.foreign, writer.enclose

    def open(self, tag: str, **attributes: str) -> None:
        self.own(f"<|open|>{tag}")
        for key, value in attributes.items():
            # Only quotes and ampersands can break an attribute; angle
            # brackets matter as part of a token, and `enclose` breaks those.
            self.enclose(f' {key}="', value.replace("&", "&amp;").replace('"', "&quot;"), '"')
        self.own("<|sep|>")

    def close(self, tag: str) -> None:
        self.own(f"<|close|>{tag}<|sep|>")

    def end_message(self) -> None:
        self.close("message")
        self.own("<|end_of_msg|>")

    def system(self, kind: str, text: str) -> None:
        """A system message of the template's own."""
        self.open("message", role="system", type=kind)
        self.own(text)
        self.end_message()

    def declare(self, heading: str, tools: Any) -> None:
        self.open("message", role="system", type="tool-declare")
        self.enclose(heading, compact_json(tools), "\n```")
        self.end_message()

    def response_format(self, wanted: dict[str, Any]) -> None:
        kind = wanted.get("type")
        if kind not in ("json_object", "json_schema"):
            return
        self.open("message", role="system", type="response-format")
        self.own(_FORMAT.format(kind))
        if kind == "json_schema":
            wrapper = wanted.get("json_schema")
            # Both shapes are in use: the schema itself, or a wrapper with a name around it.
            inner = wrapper.get("schema", wrapper) if isinstance(wrapper, dict) else wrapper
            self.enclose("\nThe JSON data must match the following schema:\n```json\n", compact_json(inner), "\n```")
        self.end_message()

    def said(self, message: Message) -> None:
        """A user or system message. A system message that only declares tools becomes their declaration."""
        for declared in message.declared:
            self.declare(_NEW_TOOLS, declared.data)
        # A message whose tools were declared and that says nothing else would be an empty message.
        if message.declared and not message.content:
            return
        self._head(message)
        self._content(message)
        self.end_message()

    def assistant(self, message: Message, thinks: bool) -> None:
        self._head(message)
        if thinks:
            self.open("think")
            # While the model thinks, the tags are written even around nothing.
            if message.thinking.strip():
                self.foreign(message.thinking)
            self.close("think")
        self.open("response")
        self._content(message)
        self.close("response")
        if message.calls:
            self.open("tools")
            for index, call in enumerate(message.calls, 1):
                self.open("call", tool=call.name, index=str(index))
                self._arguments(call)
                self.close("call")
            self.close("tools")
        self.end_message()

    def result(self, message: Message, tool: str, index: int) -> None:
        self.open("message", role="tool", tool=tool, index=str(index))
        self._content(message)
        self.end_message()

    def _head(self, message: Message) -> None:
        if message.name:
            self.open("message", role=message.role, name=message.name)
        else:
            self.open("message", role=message.role)

    def _content(self, message: Message) -> None:
        for part in message.content:
            if isinstance(part, str):
                self.foreign(part)
            else:
                self.own(_IMAGE)

    def _arguments(self, call: ToolCall) -> None:
        arguments = parsed_arguments(call)
        if not isinstance(arguments, dict):
            # Arguments that are no object cannot be split into `argument` elements.
            self.open("json", type="object")
            self.foreign(call.arguments)
            self.close("json")
            return
        for key, value in arguments.items():
            self.open("argument", key=key, type=_TYPES[type(value)])
            self.foreign(value if isinstance(value, str) else spaced_json(value))
            self.close("argument")


KIMI_K3 = Template("kimi-k3", Specials(*BRACKETS, patterns=(BARS,)), _STOP, _write, frozenset(["image"]))
