"""ChatML, and Qwen's use of it: `<|im_start|>role` newline text `<|im_end|>` newline.

Tools are declared in the system message and called as `<tool_call>` JSON. The results of one turn share a user message, each in
`<tool_response>`, in call order, since there are no ids. Qwen also shows reasoning, only of the turns after the last question;
an empty pair of tags tells it not to think. Media are named in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..core.tools import ToolSpec
from .prompt import BARS, PromptWriter, Rendering, Specials, Template
from .transcript import Message, call_json, last_index, spaced_json, tool_object

# The second ends a document in the vocabulary, and some models end their message with it.
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


def _write(given: Rendering, out: PromptWriter, *, thinks: bool) -> bool:
    """`thinks`: reasoning has a place in the prompt, and the model can be told not to think."""
    messages = given.messages
    first = _write_system(out, messages, given.tools)
    # Reasoning belongs to the turns that work on the last question. What a person asked for earlier is settled.
    question = last_index(messages, "user")
    last = len(messages) - 1
    for index in range(first, len(messages)):
        message = messages[index]
        out.begin(message.turn)
        if message.role == "tool":
            # The results of one turn share a message: the header is written by the first, the end by the last.
            begins = index == 0 or messages[index - 1].role != "tool"
            ends = index == last or messages[index + 1].role != "tool"
            out.own("<|im_start|>user" if begins else "")
            out.enclose("\n<tool_response>\n", message.text, "\n</tool_response>")
            out.own("<|im_end|>\n" if ends else "")
            continue
        out.own(f"<|im_start|>{message.role}\n")
        if thinks and message.role == "assistant" and (given.preserve_thinking or index > question >= 0):
            _write_thinking(out, message, index == last)
        out.foreign(message.text)
        _write_calls(out, message)
        out.own("<|im_end|>\n")
    if given.add_generation_prompt:
        out.own("<|im_start|>assistant\n")
        if thinks and given.thinking is False:
            # An empty pair of tags is how the model was taught to skip
            # thinking; leaving it out would leave the choice to it.
            out.own("<think>\n\n</think>\n\n")
    return False


def _write_system(out: PromptWriter, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
    """Write the tools into the system message; returns the index of the first message after it."""
    if not tools:
        return 0
    out.own("<|im_start|>system\n")
    first = 0
    # Only the very first message can be joined with the tools: a later instruction stays where it was said.
    if messages and messages[0].role == "system":
        first = 1
        out.enclose("", messages[0].text, "\n\n")
    out.own(_TOOLS_HEAD)
    for tool in tools:
        out.enclose("\n", spaced_json(tool_object(tool)))
    out.own(f"{_TOOLS_TAIL}<|im_end|>\n")
    return first


def _write_thinking(out: PromptWriter, message: Message, last: bool) -> None:
    # As in Qwen's template: the last message has the tags even around nothing.
    if last or message.thinking:
        out.enclose("<think>\n", message.thinking.strip("\n"), "\n</think>\n\n")


def _write_calls(out: PromptWriter, message: Message) -> None:
    for index, call in enumerate(message.calls):
        gap = "\n" if index or message.content else ""
        out.enclose(f"{gap}<tool_call>\n", call_json(call), "\n</tool_call>")


CHATML = Template("chatml", Specials(*_TAGS, patterns=(BARS,)), _STOP, partial(_write, thinks=False))
QWEN = Template("qwen", Specials(*_TAGS, "<think>", "</think>", patterns=(BARS,)), _STOP, partial(_write, thinks=True))
