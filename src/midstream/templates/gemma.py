"""Gemma 2 and 3: turns of `user` and `model` in strict alternation, and no others.

Instructions and tool results are said by the user, and neighbours of one role become one turn. Gemma was taught no tool
format: tools are declared in words, calls go as `[TOOL_REQUEST]` JSON `[END_TOOL_REQUEST]` and results as `[TOOL_RESULT]`
likewise, in call order. Reasoning is not shown; media are named in the text.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..core.tools import ToolSpec
from .prompt import Prompt, PromptWriter, Rendering, Specials
from .transcript import Message, callable_tools, json_arguments, spaced_json, tool_object, transcribe

_STOP = ("<end_of_turn>", "<eos>")
_TOOLS_HEAD = "You can call these functions:\n"
_TOOLS_TAIL = (
    '\nTo call one, write [TOOL_REQUEST]{"name": the function\'s name, "arguments": an object of its arguments}'
    "[END_TOOL_REQUEST] and end your turn; the result comes back between [TOOL_RESULT] and [END_TOOL_RESULT]."
)
_GAP = "\n\n"


class Gemma(msgspec.Struct, frozen=True):
    name: str
    specials: Specials

    def write(self, given: Rendering) -> Prompt:
        transcript = transcribe(given.conversation)
        out = PromptWriter(self.specials)
        out.own("<bos>")
        speaker = ""
        declared = callable_tools(given.tools, transcript.notes)
        if declared:
            speaker = _take_turn(out, "", "user")
            _write_tools(out, declared)
        for message in transcript.messages:
            speaker = _take_turn(out, speaker, "model" if message.role == "assistant" else "user")
            _write_message(out, message)
        if speaker:
            out.own("<end_of_turn>\n")
        if given.add_generation_prompt:
            out.own("<start_of_turn>model\n")
        return Prompt(out.text(), _STOP, notes=tuple(transcript.notes))


def _take_turn(out: PromptWriter, speaker: str, role: str) -> str:
    """Go on in the open turn if it is this role's, else open a new one."""
    if speaker == role:
        out.own(_GAP)
    else:
        out.own(f"<end_of_turn>\n<start_of_turn>{role}\n" if speaker else f"<start_of_turn>{role}\n")
    return role


def _write_tools(out: PromptWriter, tools: Sequence[ToolSpec]) -> None:
    out.own(_TOOLS_HEAD)
    for tool in tools:
        out.foreign(spaced_json(tool_object(tool)))
        out.own("\n")
    out.own(_TOOLS_TAIL)


def _write_message(out: PromptWriter, message: Message) -> None:
    text = message.text.strip()
    if message.role == "tool":
        out.own("[TOOL_RESULT]")
        out.foreign(text)
        out.own("[END_TOOL_RESULT]")
        return
    out.foreign(text)
    for index, call in enumerate(message.calls):
        if text or index:
            out.own("\n")
        out.own("[TOOL_REQUEST]")
        out.foreign(f'{{"name": {spaced_json(call.name)}, "arguments": {json_arguments(call)}}}')
        out.own("[END_TOOL_REQUEST]")


GEMMA = Gemma(
    "gemma",
    Specials(
        "<bos>", "<eos>", "<pad>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>",
        "<start_of_image>", "<end_of_image>", "<image_soft_token>",
        "[TOOL_REQUEST]", "[END_TOOL_REQUEST]", "[TOOL_RESULT]", "[END_TOOL_RESULT]",
        patterns=(r"<unused[0-9]{1,4}>",),
    ),
)  # fmt: skip
