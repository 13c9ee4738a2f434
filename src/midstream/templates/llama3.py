"""Llama 3.1 to 3.3: `<|start_header_id|>role<|end_header_id|>`, a blank line, the trimmed text, `<|eot_id|>`.

Tools are declared in the first user message and called as one JSON object. The model knows one call a message: parallel
calls become pairs of call and result, in call order, and text beside calls a message of its own. No date is written, for
a codec has no clock: who wants one says it in the system prompt. Reasoning is not shown; media are named in the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import msgspec

from ..core.blocks import ToolCall
from ..core.tools import ToolSpec
from .prompt import BARS, Prompt, PromptWriter, Rendering, Specials
from .transcript import callable_tools, json_arguments, spaced_json, tool_object, transcribe

_STOP = ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>")
_TOOLS = (
    "Given the following functions, please respond with a JSON for a function call with its proper arguments that best "
    'answers the given prompt.\n\nRespond in the format {"name": function name, "parameters": dictionary of argument '
    "name and its value}.Do not use variables.\n\n"
)


class Llama3(msgspec.Struct, frozen=True):
    name: str
    specials: Specials

    def write(self, given: Rendering) -> Prompt:
        transcript = transcribe(given.conversation)
        messages = list(transcript.messages)
        undeclared = callable_tools(given.tools, transcript.notes)
        out = PromptWriter(self.specials)
        out.own("<|begin_of_text|>")
        if undeclared:
            _write_header(out, "system")
            out.own("Environment: ipython\n\n")
            if messages and messages[0].role == "system":
                out.foreign(messages.pop(0).text.strip())
            out.own("<|eot_id|>")
        waiting: Iterator[ToolCall] = iter(())
        for message in messages:
            if message.role == "tool":
                _write_call(out, next(waiting))
                _write_header(out, "ipython")
                out.foreign(message.text)
                out.own("<|eot_id|>")
                continue
            waiting = iter(message.calls)
            if message.calls and not message.text:
                continue
            _write_header(out, message.role)
            if undeclared and message.role == "user":
                _write_tools(out, undeclared)
                undeclared = []
            out.foreign(message.text.strip())
            out.own("<|eot_id|>")
        if undeclared:
            _write_header(out, "user")
            _write_tools(out, undeclared)
            out.own("<|eot_id|>")
        if given.add_generation_prompt:
            _write_header(out, "assistant")
        return Prompt(out.text(), _STOP, notes=tuple(transcript.notes))


def _write_header(out: PromptWriter, role: str) -> None:
    out.own(f"<|start_header_id|>{role}<|end_header_id|>\n\n")


def _write_tools(out: PromptWriter, tools: Sequence[ToolSpec]) -> None:
    out.own(_TOOLS)
    for tool in tools:
        out.foreign(json.dumps(tool_object(tool), ensure_ascii=False, indent=4))
        out.own("\n\n")


def _write_call(out: PromptWriter, call: ToolCall) -> None:
    _write_header(out, "assistant")
    out.foreign(f'{{"name": {spaced_json(call.name)}, "parameters": {json_arguments(call)}}}')
    out.own("<|eot_id|>")


LLAMA3 = Llama3("llama3", Specials(patterns=(BARS,)))
