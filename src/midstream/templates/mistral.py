"""Mistral's instruct form with the Tekken vocabulary: `[INST]…[/INST]` answer `</s>`, and `[SYSTEM_PROMPT]` before all.

Tools are declared before the last user message, calls are one JSON list behind `[TOOL_CALLS]`, each result is a JSON object
in `[TOOL_RESULTS]`. Both carry the request's id, nine characters by Mistral's own rule. An instruction inside the
conversation is said by the user. Reasoning is not shown; media are named in the text.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..core.ids import ToolIdMapper, mistral_strategy
from ..core.tools import ToolSpec
from .prompt import Prompt, PromptWriter, Rendering, Specials
from .transcript import Message, callable_tools, json_arguments, spaced_json, tool_object, transcribe

_STOP = ("</s>",)


class Mistral(msgspec.Struct, frozen=True):
    name: str
    specials: Specials

    def write(self, given: Rendering) -> Prompt:
        transcript = transcribe(given.conversation)
        messages = transcript.messages
        mapper = mistral_strategy.create_mapper() if given.ids is None else given.ids
        declared = callable_tools(given.tools, transcript.notes)
        asked = _last_question(messages)
        out = PromptWriter(self.specials)
        out.own("<s>")
        for index, message in enumerate(messages):
            if declared and index == asked:
                _write_tools(out, declared)
            _write_message(out, message, mapper, first=index == 0)
        if declared and asked < 0:
            _write_tools(out, declared)
        # The answer follows `[/INST]` or `[/TOOL_RESULTS]` directly: there is nothing to open.
        return Prompt(out.text(), _STOP, notes=tuple(transcript.notes))


def _last_question(messages: Sequence[Message]) -> int:
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user":
            return index
    return -1


def _write_tools(out: PromptWriter, tools: Sequence[ToolSpec]) -> None:
    out.own("[AVAILABLE_TOOLS]")
    out.foreign(spaced_json([tool_object(tool) for tool in tools]))
    out.own("[/AVAILABLE_TOOLS]")


def _write_message(out: PromptWriter, message: Message, ids: ToolIdMapper, *, first: bool) -> None:
    if message.response is not None:
        out.own("[TOOL_RESULTS]")
        call_id = ids.resolve_tool_response_id(message.response)
        out.foreign(spaced_json({"content": message.text, "call_id": call_id}))
        out.own("[/TOOL_RESULTS]")
    elif message.role == "assistant":
        out.foreign(message.text)
        if message.calls:
            out.own("[TOOL_CALLS]")
            out.foreign("[" + ", ".join([_call_json(message, index, ids) for index in range(len(message.calls))]) + "]")
        out.own("</s>")
    else:
        tag = "SYSTEM_PROMPT" if message.role == "system" and first else "INST"
        out.own(f"[{tag}]")
        out.foreign(message.text)
        out.own(f"[/{tag}]")


def _call_json(message: Message, index: int, ids: ToolIdMapper) -> str:
    call = message.calls[index]
    call_id = spaced_json(ids.resolve_tool_call_id(call))
    return f'{{"name": {spaced_json(call.name)}, "arguments": {json_arguments(call)}, "id": {call_id}}}'


MISTRAL = Mistral(
    "mistral",
    Specials(
        "<s>", "</s>", "<unk>", "<pad>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
        "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CONTENT]",
        "[ARGS]", "[CALL_ID]", "[IMG]", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[AUDIO]",
        "[BEGIN_AUDIO]", "[TRANSCRIBE]", "[THINK]", "[/THINK]",
        patterns=(r"<SPECIAL_[0-9]{1,4}>",),
    ),
)  # fmt: skip
