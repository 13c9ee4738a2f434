"""A conversation as the flat list of messages that chat templates are written for.

Repaired first, so that any conversation renders. One message is one speaker's text and media, thinking and calls, or one
tool result. Media the template has no placeholder for are named in the text instead of shown; what no prompt can say
(opaque blocks, thinking in a human turn) is left out; both are noted. An Opaque of kind `tools` in an instruction is kept:
a declaration of tools in mid-conversation, which K3 reads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, assert_never

import msgspec

from ..core.blocks import Block, Conversation, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ..core.handoff import Action, Note
from ..core.history import repair
from ..core.tools import ToolSpec

NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def callable_tools(tools: Sequence[ToolSpec], notes: list[Note]) -> list[ToolSpec]:
    """The tools a prompt can declare: what a provider runs itself does not exist behind a completion."""
    why = "is run by its provider and cannot stand in a prompt"
    notes.extend([Note("dropped", "tool", f"{tool.name} {why}") for tool in tools if tool.builtin is not None])
    return [tool for tool in tools if tool.builtin is None]


def function_object(tool: ToolSpec) -> dict[str, Any]:
    """`name`, `description`, `parameters` and, where the caller said so, `strict`."""
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = NO_PARAMETERS if tool.parameters is None else tool.parameters
    if tool.strict is not None:
        function["strict"] = tool.strict
    return function


def tool_object(tool: ToolSpec) -> dict[str, Any]:
    """The tool in OpenAI's wrapper, which nearly all templates keep."""
    return {"type": "function", "function": function_object(tool)}


def spaced_json(value: Any) -> str:
    """As `tojson` of the published templates writes it: a blank behind `,` and `:`, no escapes beyond ASCII's own."""
    return json.dumps(value, ensure_ascii=False)


def compact_json(value: Any) -> str:
    """Sorted and without blanks."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def parsed_arguments(call: ToolCall) -> Any:
    """The arguments as a value; the raw text itself where it is no JSON, an empty object where there is none."""
    raw = call.arguments
    if not raw.strip():
        return {}
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw


def raw_arguments(call: ToolCall) -> str:
    """The arguments exactly as the model wrote them."""
    return call.arguments if call.arguments.strip() else "{}"


def json_arguments(call: ToolCall) -> str:
    """The raw arguments if they are JSON, else that text as a JSON string, to stand inside a larger JSON text."""
    value = parsed_arguments(call)
    return spaced_json(value) if value is call.arguments else raw_arguments(call)


Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
TOOLS = "tools"


class Message(msgspec.Struct, frozen=True):
    """`name` stands for the speaker where the template prints one: `extra["name"]` of the turn, or the tool's name."""

    role: Role
    content: tuple[str | Media, ...] = ()
    name: str = ""
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    response: ToolResponse | None = None
    declared: tuple[Opaque, ...] = ()

    @property
    def text(self) -> str:
        """The textual parts, joined."""
        return "".join([part for part in self.content if isinstance(part, str)])


class Transcript(msgspec.Struct, frozen=True):
    messages: list[Message]
    notes: list[Note]

    @property
    def last_answer(self) -> int:
        """Where the last assistant message without calls stands, or -1: all before it is finished history."""
        for index in range(len(self.messages) - 1, -1, -1):
            message = self.messages[index]
            if message.role == "assistant" and not message.calls:
                return index
        return -1


def transcribe(conversation: Conversation, shown: frozenset[str] = frozenset()) -> Transcript:
    """The messages of a lawful copy of `conversation`; media of the kinds in `shown` stay media."""
    repaired = repair(conversation.turns)
    notes = list(repaired.notes)
    messages: list[Message] = []
    if conversation.system_text:
        messages.append(Message("system", (conversation.system_text,)))
    for index, turn in enumerate(repaired.turns):
        if turn.speaker == "tool":
            messages.extend([_result(response, _Place(turn, index, shown, notes)) for response in turn.tool_responses])
        else:
            messages.append(_said(_Place(turn, index, shown, notes)))
    return Transcript(messages, notes)


class _Place(msgspec.Struct, frozen=True):
    """The turn being read, and where to tell what is changed in it."""

    turn: Turn
    index: int
    shown: frozenset[str]
    notes: list[Note]

    def media(self, media: Media) -> str | Media:
        if media.kind in self.shown:
            return media
        self._note("adapted", "media", f"the prompt cannot show {media.kind}; it is named in its place")
        return f"[{media.kind}{' ' + media.name if media.name else ''} not shown]"

    def left_out(self, block: Block) -> None:
        what = str(block.__struct_config__.tag)
        self._note("dropped", what, f"a prompt has no place for {what} in a {self.turn.speaker} turn")

    def _note(self, action: Action, what: str, why: str) -> None:
        self.notes.append(Note(action, what, why, self.index, self.turn.key))


def _said(place: _Place) -> Message:
    turn = place.turn
    role: Role = "assistant" if turn.speaker == "ai" else "system" if turn.role in ("system", "developer") else "user"
    content: list[str | Media] = []
    thinking: list[str] = []
    calls: list[ToolCall] = []
    declared: list[Opaque] = []
    for block in turn.blocks:
        match block:
            case Text():
                content.append(block.text)
            case Media():
                content.append(place.media(block))
            case Thinking() if role == "assistant":
                thinking.append("" if block.redacted else block.text)
            case ToolCall() if role == "assistant":
                calls.append(block)
            case Opaque() if block.kind == TOOLS and role == "system":
                declared.append(block)
            case Thinking() | Opaque() | ToolCall() | ToolResponse():
                place.left_out(block)
            case _:
                assert_never(block)
    name = (turn.extra or {}).get("name")
    return Message(
        role,
        tuple(content),
        name if isinstance(name, str) else "",
        "".join(thinking),
        tuple(calls),
        declared=tuple(declared),
    )


def _result(response: ToolResponse, place: _Place) -> Message:
    content: list[str | Media] = []
    for part in response.content:
        if isinstance(part, Opaque):
            place.left_out(part)
        else:
            content.append(part.text if isinstance(part, Text) else place.media(part))
    return Message("tool", tuple(content), response.name, response=response)
