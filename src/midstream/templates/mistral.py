"""Mistral's instruct format with the Tekken vocabulary: `[INST]…[/INST]` answer `</s>`, and `[SYSTEM_PROMPT]` first of all.

Tools are declared before the last user message, calls are one JSON list after `[TOOL_CALLS]`, each result is a JSON object in
`[TOOL_RESULTS]`. Calls and results have the request's ids, nine characters by Mistral's rule. A system message inside the
conversation is written as a user message. Reasoning is not shown; media are named in the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.ids import ToolIdMapper, mistral_strategy
from ..core.tools import ToolSpec
from .prompt import PromptWriter, Rendering, Specials, Template
from .transcript import Message, call_json, last_index, spaced_json, tool_object

_STOP = ("</s>",)


def _write(given: Rendering, out: PromptWriter) -> bool:
    # The declaration moves with the last question, as in the
    # published template. Earlier bytes of the prompt change by it.
    question = last_index(given.messages, "user")
    out.own("<s>")
    for index, message in enumerate(given.messages):
        out.begin(message.turn)
        if index == question:
            _write_tools(out, given.tools)
        _write_message(out, message, given.ids, first=index == 0)
    # A conversation without a question: at the end, where it is nearest to the answer.
    if question < 0:
        _write_tools(out, given.tools)
    # The answer follows `[/INST]` or `[/TOOL_RESULTS]` directly: there is nothing to open.
    return False


def _write_tools(out: PromptWriter, tools: Sequence[ToolSpec]) -> None:
    if tools:
        declared = spaced_json([tool_object(tool) for tool in tools])
        out.enclose("[AVAILABLE_TOOLS]", declared, "[/AVAILABLE_TOOLS]")


def _write_message(out: PromptWriter, message: Message, ids: ToolIdMapper, *, first: bool) -> None:
    if message.response is not None:
        result = {"content": message.text, "call_id": ids.resolve_tool_response_id(message.response)}
        out.enclose("[TOOL_RESULTS]", spaced_json(result), "[/TOOL_RESULTS]")
    elif message.role == "assistant":
        out.foreign(message.text)
        if message.calls:
            calls = [call_json(call, id=ids.resolve_tool_call_id(call)) for call in message.calls]
            out.enclose("[TOOL_CALLS]", f"[{', '.join(calls)}]")
        out.own("</s>")
    else:
        # Only the first instruction has a place of its own.
        tag = "SYSTEM_PROMPT" if message.role == "system" and first else "INST"
        out.enclose(f"[{tag}]", message.text, f"[/{tag}]")


MISTRAL = Template(
    "mistral",
    Specials(
        "<s>", "</s>", "<unk>", "<pad>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
        "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CONTENT]",
        "[ARGS]", "[CALL_ID]", "[IMG]", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[AUDIO]",
        "[BEGIN_AUDIO]", "[TRANSCRIBE]", "[THINK]", "[/THINK]",
        patterns=(r"<SPECIAL_[0-9]{1,4}>",),
    ),
    _STOP,
    _write,
    ids=mistral_strategy,
)  # fmt: skip
