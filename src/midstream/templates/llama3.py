"""Llama 3.1 to 3.3: `<|start_header_id|>role<|end_header_id|>`, a blank line, the trimmed text, `<|eot_id|>`.

Tools are declared in the first user message and called as one JSON object. The model makes one call per message: parallel calls
become pairs of call and result, in call order, and text beside calls becomes a message of its own. The template writes no date
(codecs have no clock); put one in the system prompt if needed. Reasoning is not shown; media are named in the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from ..core.blocks import ToolCall
from ..core.tools import ToolSpec
from .prompt import BARS, PromptWriter, Rendering, Specials, Template
from .transcript import call_json, tool_object

_STOP = ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>")
_TOOLS = (
    "Given the following functions, please respond with a JSON for a function call with its proper arguments that best "
    'answers the given prompt.\n\nRespond in the format {"name": function name, "parameters": dictionary of argument '
    "name and its value}.Do not use variables.\n\n"
)


def _write(given: Rendering, out: PromptWriter) -> bool:
    messages = list(given.messages)
    undeclared = given.tools
    out.own("<|begin_of_text|>")
    if undeclared:
        # With tools the system message is always written, because it has to name the environment.
        system = messages.pop(0).text.strip() if messages and messages[0].role == "system" else ""
        out.enclose(f"{_header('system')}Environment: ipython\n\n", system, "<|eot_id|>")
    waiting: Iterator[ToolCall] = iter(())
    for message in messages:
        if message.role == "tool":
            # One call a message is all that the model knows. A call is held
            # back until its result comes, and both are written as a pair.
            out.enclose(_header("assistant"), call_json(next(waiting), "parameters"), "<|eot_id|>")
            out.enclose(_header("ipython"), message.text, "<|eot_id|>")
            continue
        # Its results come with its calls, call by call.
        out.begin(message.turn)
        waiting = iter(message.calls)
        # A message that only calls has no text of its own to write; its calls follow with their results.
        if message.calls and not message.text:
            continue
        out.own(_header(message.role))
        if message.role == "user":
            _write_tools(out, undeclared)
            undeclared = ()
        out.enclose("", message.text.strip(), "<|eot_id|>")
    # No user message at all: the tools must still be declared somewhere.
    if undeclared:
        out.own(_header("user"))
        _write_tools(out, undeclared)
        out.own("<|eot_id|>")
    if given.add_generation_prompt:
        out.own(_header("assistant"))
    return False


def _header(role: str) -> str:
    return f"<|start_header_id|>{role}<|end_header_id|>\n\n"


def _write_tools(out: PromptWriter, tools: Sequence[ToolSpec]) -> None:
    if tools:
        out.own(_TOOLS)
    for tool in tools:
        # Indented, as the published template prints it.
        out.enclose("", json.dumps(tool_object(tool), ensure_ascii=False, indent=4), "\n\n")


LLAMA3 = Template("llama3", Specials(patterns=(BARS,)), _STOP, _write)
