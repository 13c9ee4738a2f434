"""ChatML, and Qwen's use of it: `<|im_start|>role` newline text `<|im_end|>` newline.

Tools are declared in the system message and called as `<tool_call>` JSON; the results of one turn share a user message,
each in `<tool_response>`, in call order, for nothing here carries an id. Qwen also shows reasoning, of the turns behind
the last question only, and is told not to think by a prefilled empty pair of tags. Media are named in the text.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..core.tools import ToolSpec
from .prompt import BARS, Prompt, PromptWriter, Rendering, Specials
from .transcript import Message, callable_tools, json_arguments, spaced_json, tool_object, transcribe

_STOP = ("<|im_end|>", "<|endoftext|>")
_TOOLS_HEAD = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
)
_TOOLS_TAIL = (
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
    '<tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n'
    "</tool_call>"
)
_TAGS = ("<tools>", "</tools>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")


class ChatML(msgspec.Struct, frozen=True):
    name: str
    specials: Specials
    thinks: bool = False
    """Reasoning has a place in the prompt, and the model can be told to leave it out."""

    def write(self, given: Rendering) -> Prompt:
        transcript = transcribe(given.conversation)
        messages = transcript.messages
        out = PromptWriter(self.specials)
        first = _write_system(out, messages, callable_tools(given.tools, transcript.notes))
        question = _last_question(messages)
        last = len(messages) - 1
        for index in range(first, len(messages)):
            message = messages[index]
            if message.role == "tool":
                begins = index == 0 or messages[index - 1].role != "tool"
                _write_result(out, message, begins, index == last or messages[index + 1].role != "tool")
                continue
            out.own(f"<|im_start|>{message.role}\n")
            if self.thinks and message.role == "assistant" and (given.preserve_thinking or index > question):
                _write_thinking(out, message, index == last)
            out.foreign(message.text)
            _write_calls(out, message)
            out.own("<|im_end|>\n")
        if given.add_generation_prompt:
            out.own("<|im_start|>assistant\n")
            if self.thinks and given.thinking is False:
                out.own("<think>\n\n</think>\n\n")
        return Prompt(out.text(), _STOP, notes=tuple(transcript.notes))


def _write_system(out: PromptWriter, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
    """Write the tools and the system message they share; say where the other messages begin."""
    if not tools:
        return 0
    out.own("<|im_start|>system\n")
    first = 0
    if messages and messages[0].role == "system":
        first = 1
        out.foreign(messages[0].text)
        out.own("\n\n")
    out.own(_TOOLS_HEAD)
    for tool in tools:
        out.own("\n")
        out.foreign(spaced_json(tool_object(tool)))
    out.own(_TOOLS_TAIL)
    out.own("<|im_end|>\n")
    return first


def _last_question(messages: Sequence[Message]) -> int:
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user":
            return index
    return len(messages) - 1


def _write_thinking(out: PromptWriter, message: Message, last: bool) -> None:
    if last or message.thinking:
        out.own("<think>\n")
        out.foreign(message.thinking.strip("\n"))
        out.own("\n</think>\n\n")


def _write_calls(out: PromptWriter, message: Message) -> None:
    for index, call in enumerate(message.calls):
        out.own("\n<tool_call>\n" if index or message.content else "<tool_call>\n")
        out.foreign(f'{{"name": {spaced_json(call.name)}, "arguments": {json_arguments(call)}}}')
        out.own("\n</tool_call>")


def _write_result(out: PromptWriter, message: Message, begins: bool, ends: bool) -> None:
    if begins:
        out.own("<|im_start|>user")
    out.own("\n<tool_response>\n")
    out.foreign(message.text)
    out.own("\n</tool_response>")
    if ends:
        out.own("<|im_end|>\n")


CHATML = ChatML("chatml", Specials(*_TAGS, patterns=(BARS,)))
QWEN = ChatML("qwen", Specials(*_TAGS, "<think>", "</think>", patterns=(BARS,)), thinks=True)
