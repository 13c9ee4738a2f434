"""A conversation as the flat list of messages that chat templates are written for, and JSON text as they write it.

The conversation is repaired first, so that any conversation can be rendered. A message is one speaker's text, media, thinking
and calls, or one tool result. Media the template cannot show are named in the text; what a prompt cannot contain (opaque
blocks, thinking in a human turn) is left out; both are noted. The tools of a system turn, and an Opaque block of kind `tools`
in one, are kept: they are declared in mid-conversation, which K3 can read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, assert_never

import msgspec

from ..core.blocks import Block, Conversation, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ..core.handoff import Action, Note, NoteCode
from ..core.history import repair
from ..core.tools import ToolSpec

_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def parameters(tool: ToolSpec) -> dict[str, Any]:
    """The schema of the tool's parameters."""
    return _NO_PARAMETERS if tool.parameters is None else tool.parameters


def tool_object(tool: ToolSpec) -> dict[str, Any]:
    """The tool in OpenAI's format, which nearly all templates use."""
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = parameters(tool)
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


# Training prompts were made with Jinja's `tojson` as the
# published templates configure it. Other spacing is other tokens.
def spaced_json(value: Any) -> str:
    """JSON as `tojson` of the published templates writes it: a space after `,` and `:`, letters not escaped."""
    return json.dumps(value, ensure_ascii=False)


def compact_json(value: Any) -> str:
    """JSON with sorted keys and no spaces."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def call_json(call: ToolCall, arguments: str = "arguments", **more: str) -> str:
    """The call as a JSON object with its name, its arguments under the key `arguments`, and `more`."""
    fields = {"name": spaced_json(call.name), arguments: _json_arguments(call)}
    fields |= {key: spaced_json(value) for key, value in more.items()}
    return "{" + ", ".join([f'"{key}": {value}' for key, value in fields.items()]) + "}"


def parsed_arguments(call: ToolCall) -> Any:
    """The arguments as a value: the raw text if it is not JSON, an empty object if there are none."""
    # As text where it is no JSON: broken arguments are shown to the model that wrote them, not lost.
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


def _json_arguments(call: ToolCall) -> str:
    """The raw arguments if they are JSON, else a JSON string of them."""
    value = parsed_arguments(call)
    # `is`: the very same text came back, so it did not parse.
    return spaced_json(value) if value is call.arguments else raw_arguments(call)


Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
TOOLS = "tools"


class Message(msgspec.Struct, frozen=True):
    """`name` is the speaker's name, for templates that print one: `extra["name"]` of the turn, or the tool's name. `turn` is
    the place of its turn in the conversation, -1 for the system prompt."""

    role: Role
    content: tuple[str | Media, ...] = ()
    name: str = ""
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    response: ToolResponse | None = None
    declared: tuple[Opaque, ...] = ()
    turn: int = -1

    @property
    def text(self) -> str:
        """The textual parts, joined."""
        return "".join([part for part in self.content if isinstance(part, str)])


class Transcript(msgspec.Struct, frozen=True):
    messages: list[Message]
    tools: list[ToolSpec]
    notes: list[Note]


def last_index(messages: Sequence[Message], role: Role) -> int:
    """The index of the last message of this role that calls no tool, or -1."""
    for index in range(len(messages) - 1, -1, -1):
        # An answer that calls is in the middle of a tool loop. What templates ask for is where the last loop ended.
        if messages[index].role == role and not messages[index].calls:
            return index
    return -1


def transcribe(conversation: Conversation, tools: Sequence[ToolSpec], shown: frozenset[str]) -> Transcript:
    """The messages of a repaired copy of `conversation` and the tools a prompt can declare.

    Media of the kinds in `shown` stay media. A tool that its provider runs does not exist behind a completion.
    """
    # A prompt has no host that would refuse it, but a model that reads a call without its result answers oddly.
    repaired = repair(conversation.turns)
    notes = list(repaired.notes)
    messages: list[Message] = []
    if conversation.system_text:
        messages.append(Message("system", (conversation.system_text,)))
    # Of turns that were moved, added or left out, the places are those before: notes are about what the caller knows.
    places = range(len(repaired.turns)) if repaired.places is None else repaired.places
    for index, turn in zip(places, repaired.turns, strict=True):
        if turn.speaker == "tool":
            messages.extend([_result(response, _Place(turn, index, shown, notes)) for response in turn.tool_responses])
        else:
            messages.append(_said(_Place(turn, index, shown, notes)))
    why = "is run by its provider; a raw prompt cannot declare it"
    notes += [
        Note("dropped", "tool", "foreign_builtin", f"{tool.name} {why}") for tool in tools if tool.builtin is not None
    ]
    return Transcript(messages, [tool for tool in tools if tool.builtin is None], notes)


class _Place(msgspec.Struct, frozen=True):
    """The turn being read, and the notes on what is changed in it."""

    turn: Turn
    index: int
    shown: frozenset[str]
    notes: list[Note]

    def media(self, media: Media) -> str | Media:
        if media.kind in self.shown:
            return media
        self._note("adapted", "media", "unsupported_media", f"a prompt cannot show {media.kind}; sent its name instead")
        # In words, so that the model can say that it did not see it.
        return f"[{media.kind}{' ' + media.name if media.name else ''} not shown]"

    def left_out(self, block: Block) -> None:
        what = str(block.__struct_config__.tag)
        self._note("dropped", what, "misplaced_block", f"a prompt cannot contain {what} in a {self.turn.speaker} turn")

    def _note(self, action: Action, what: str, code: NoteCode, why: str) -> None:
        self.notes.append(Note(action, what, code, why, self.index, self.turn.key))


def _said(place: _Place) -> Message:
    turn = place.turn
    role: Role = "assistant" if turn.speaker == "ai" else "system" if turn.is_instruction else "user"
    content: list[str | Media] = []
    thinking: list[str] = []
    calls: list[ToolCall] = []
    declared = [Opaque(TOOLS, [tool_object(tool) for tool in turn.tools if tool.builtin is None])] if turn.tools else []
    for block in turn.blocks:
        match block:
            case Text():
                content.append(block.text)
            case Media():
                content.append(place.media(block))
            case Thinking() if role == "assistant":
                # Redacted reasoning is data for its maker, not words.
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
        turn=place.index,
    )


def _result(response: ToolResponse, place: _Place) -> Message:
    content: list[str | Media] = []
    for part in response.content:
        if isinstance(part, Opaque):
            place.left_out(part)
        else:
            content.append(part.text if isinstance(part, Text) else place.media(part))
    return Message("tool", tuple(content), response.name, response=response, turn=place.index)
