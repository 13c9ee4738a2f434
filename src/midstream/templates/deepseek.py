"""DeepSeek V3.1: `<｜User｜>…<｜Assistant｜>…<｜end▁of▁sentence｜>`, with all instructions and the tools at the very front.

An answer in the history begins with `</think>`: its reasoning is not shown. A prompt that ends with a question opens `<think>`
if thinking is asked for, else `</think>`; one that ends with tool results opens nothing, since the model just continues.
Results have no ids and follow the order of the calls. Media are named in the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.tools import ToolSpec
from .prompt import PromptWriter, Rendering, Specials, Template
from .transcript import Message, parameters, raw_arguments, spaced_json

_STOP = ("<｜end▁of▁sentence｜>",)
_TOOLS_TAIL = (
    "IMPORTANT: ALWAYS adhere to this exact format for tool use:\n"
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>tool_call_name<｜tool▁sep｜>tool_call_arguments<｜tool▁call▁end｜>"
    "{additional_tool_calls}<｜tool▁calls▁end｜>\n\nWhere:\n"
    "- `tool_call_name` must be an exact match to one of the available tools\n"
    "- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema\n"
    "- For multiple tool calls, chain them directly without separators or spaces\n"
)


def _write(given: Rendering, out: PromptWriter) -> bool:
    # The template has one place for instructions, at the front.
    # Later ones move there and lose their place, but are heard.
    system = "\n\n".join([message.text for message in given.messages if message.role == "system"])
    out.enclose("<｜begin▁of▁sentence｜>", system)
    _write_tools(out, given.tools)
    asked = False
    for message in given.messages:
        if message.role != "system":
            out.begin(message.turn)
            _write_message(out, message, asked)
            asked = message.role == "user"
    # Behind tool results nothing is opened: the assistant's turn has not ended, in the model's eyes.
    opens = given.add_generation_prompt and asked
    if opens:
        out.own("<｜Assistant｜><think>" if given.thinking else "<｜Assistant｜></think>")
    return opens and given.thinking is True


def _write_tools(out: PromptWriter, tools: Sequence[ToolSpec]) -> None:
    if not tools:
        return
    out.own("\n\n## Tools\nYou have access to the following tools:\n")
    for tool in tools:
        out.enclose("\n### ", tool.name)
        out.enclose("\nDescription: ", tool.description)
        out.enclose("\n\nParameters: ", spaced_json(parameters(tool)), "\n")
    out.own(f"\n{_TOOLS_TAIL}")


def _write_message(out: PromptWriter, message: Message, asked: bool) -> None:
    if message.role == "user":
        out.enclose("<｜User｜>", message.text)
    elif message.role == "tool":
        out.enclose("<｜tool▁output▁begin｜>", message.text, "<｜tool▁output▁end｜>")
    else:
        out.enclose("<｜Assistant｜></think>" if asked else "", message.text)
        if message.calls:
            out.own("<｜tool▁calls▁begin｜>")
            for call in message.calls:
                out.enclose("<｜tool▁call▁begin｜>", call.name)
                out.enclose("<｜tool▁sep｜>", raw_arguments(call), "<｜tool▁call▁end｜>")
            out.own("<｜tool▁calls▁end｜>")
        out.own("<｜end▁of▁sentence｜>")


# Anything between full-width bars is reserved in the vocabulary, used or not.
DEEPSEEK = Template(
    "deepseek", Specials("<think>", "</think>", patterns=(r"<｜[^｜<>\s\[\]]{1,64}｜>",)), _STOP, _write
)
