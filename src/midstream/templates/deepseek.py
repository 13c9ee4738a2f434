"""DeepSeek V3.1: `<｜User｜>…<｜Assistant｜>…<｜end▁of▁sentence｜>`, with all instructions and the tools at the very front.

An answer opens with `</think>`: history never shows reasoning. A prompt that ends with a question opens `<think>` when
thinking is asked for, else `</think>`; one that ends with tool results opens nothing, for the model goes on by itself.
Results carry no id and stand in call order. Media are named in the text.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..core.tools import ToolSpec
from .prompt import Prompt, PromptWriter, Rendering, Specials
from .transcript import NO_PARAMETERS, Message, callable_tools, raw_arguments, spaced_json, transcribe

_STOP = ("<｜end▁of▁sentence｜>",)
_TOOLS_TAIL = (
    "IMPORTANT: ALWAYS adhere to this exact format for tool use:\n"
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>tool_call_name<｜tool▁sep｜>tool_call_arguments<｜tool▁call▁end｜>"
    "{additional_tool_calls}<｜tool▁calls▁end｜>\n\nWhere:\n"
    "- `tool_call_name` must be an exact match to one of the available tools\n"
    "- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema\n"
    "- For multiple tool calls, chain them directly without separators or spaces\n"
)


class DeepSeek(msgspec.Struct, frozen=True):
    name: str
    specials: Specials

    def write(self, given: Rendering) -> Prompt:
        transcript = transcribe(given.conversation)
        out = PromptWriter(self.specials)
        out.own("<｜begin▁of▁sentence｜>")
        out.foreign("\n\n".join([message.text for message in transcript.messages if message.role == "system"]))
        _write_tools(out, callable_tools(given.tools, transcript.notes))
        asked = False
        for message in transcript.messages:
            if message.role == "system":
                continue
            _write_message(out, message, asked)
            asked = message.role == "user"
        opens = given.add_generation_prompt and asked
        if opens:
            out.own("<｜Assistant｜><think>" if given.thinking else "<｜Assistant｜></think>")
        return Prompt(out.text(), _STOP, opens and given.thinking is True, tuple(transcript.notes))


def _write_tools(out: PromptWriter, tools: Sequence[ToolSpec]) -> None:
    if not tools:
        return
    out.own("\n\n## Tools\nYou have access to the following tools:\n")
    for tool in tools:
        out.own("\n### ")
        out.foreign(tool.name)
        out.own("\nDescription: ")
        out.foreign(tool.description)
        out.own("\n\nParameters: ")
        out.foreign(spaced_json(NO_PARAMETERS if tool.parameters is None else tool.parameters))
        out.own("\n")
    out.own("\n")
    out.own(_TOOLS_TAIL)


def _write_message(out: PromptWriter, message: Message, asked: bool) -> None:
    if message.role == "user":
        out.own("<｜User｜>")
        out.foreign(message.text)
    elif message.role == "tool":
        out.own("<｜tool▁output▁begin｜>")
        out.foreign(message.text)
        out.own("<｜tool▁output▁end｜>")
    else:
        if asked:
            out.own("<｜Assistant｜></think>")
        out.foreign(message.text)
        if message.calls:
            out.own("<｜tool▁calls▁begin｜>")
            for call in message.calls:
                out.own("<｜tool▁call▁begin｜>")
                out.foreign(call.name)
                out.own("<｜tool▁sep｜>")
                out.foreign(raw_arguments(call))
                out.own("<｜tool▁call▁end｜>")
            out.own("<｜tool▁calls▁end｜>")
        out.own("<｜end▁of▁sentence｜>")


DEEPSEEK = DeepSeek("deepseek", Specials("<think>", "</think>", patterns=(r"<｜[^｜<>\s\[\]]{1,64}｜>",)))
