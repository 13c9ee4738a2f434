"""Gemma 2 and 3: turns of `user` and `model` in strict alternation, and no others.

System messages and tool results are part of the user's turns, and neighbours of one role become one turn. Gemma was trained on
no tool format: tools are declared in words, calls are `[TOOL_REQUEST]` JSON `[END_TOOL_REQUEST]` and results `[TOOL_RESULT]`
text `[END_TOOL_RESULT]`, in call order. Reasoning is not shown; media are named in the text.
"""

from __future__ import annotations

from .prompt import PromptWriter, Rendering, Specials, Template
from .transcript import Message, call_json, spaced_json, tool_object

_STOP = ("<end_of_turn>", "<eos>")
_TOOLS_HEAD = "You can call these functions:\n"
_TOOLS_TAIL = (
    '\nTo call one, write [TOOL_REQUEST]{"name": the function\'s name, "arguments": an object of its arguments}'
    "[END_TOOL_REQUEST] and end your turn; the result comes back between [TOOL_RESULT] and [END_TOOL_RESULT]."
)


def _write(given: Rendering, out: PromptWriter) -> bool:
    out.own("<bos>")
    speaker = ""
    if given.tools:
        # Tools are words to this model, and stand where a person would say them.
        speaker = _take_turn(out, "", "user")
        out.own(_TOOLS_HEAD)
        for tool in given.tools:
            out.enclose("", spaced_json(tool_object(tool)), "\n")
        out.own(_TOOLS_TAIL)
    for message in given.messages:
        out.begin(message.turn)
        # Two neighbours of one role would break the alternation that the model was trained on.
        speaker = _take_turn(out, speaker, "model" if message.role == "assistant" else "user")
        _write_message(out, message)
    if speaker:
        out.own("<end_of_turn>\n")
    if given.add_generation_prompt:
        out.own("<start_of_turn>model\n")
    return False


def _take_turn(out: PromptWriter, speaker: str, role: str) -> str:
    """Continue the open turn if it is this role's, else open a new one; returns the role."""
    if speaker == role:
        out.own("\n\n")
    else:
        out.own(f"<end_of_turn>\n<start_of_turn>{role}\n" if speaker else f"<start_of_turn>{role}\n")
    return role


def _write_message(out: PromptWriter, message: Message) -> None:
    text = message.text.strip()
    if message.role == "tool":
        out.enclose("[TOOL_RESULT]", text, "[END_TOOL_RESULT]")
        return
    out.foreign(text)
    for index, call in enumerate(message.calls):
        gap = "\n" if text or index else ""
        out.enclose(f"{gap}[TOOL_REQUEST]", call_json(call), "[END_TOOL_REQUEST]")


GEMMA = Template(
    "gemma",
    # `<unused0>` and its like are real tokens; what one of them does to a model is unknown, which is reason enough.
    Specials(
        "<bos>", "<eos>", "<pad>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>",
        "<start_of_image>", "<end_of_image>", "<image_soft_token>",
        "[TOOL_REQUEST]", "[END_TOOL_REQUEST]", "[TOOL_RESULT]", "[END_TOOL_RESULT]",
        patterns=(r"<unused[0-9]{1,4}>",),
    ),
    _STOP,
    _write,
)  # fmt: skip
