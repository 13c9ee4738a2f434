"""What is sent in place of what a wire cannot say: lines of text that a model understands."""

from __future__ import annotations

from collections.abc import Callable

from ..core.blocks import Media, ToolCall, ToolResponse
from ..core.handoff import Action
from .lenient_json import arguments_text, json_value

MEDIA_FOLLOWS = "Attached media from the tool results:"
SEE_MEDIA = "(see the attached media)"


def omitted(media: Media) -> str:
    """The line that says what could not be shown."""
    return f"[{media.kind} omitted{': ' + media.name if media.name else ''}]"


def error_text(response: ToolResponse, text: str) -> str:
    """For wires without an error flag: a failed result says so in its text, unless it does already."""
    return f"Error: {text}" if response.is_error and "error" not in text[:40].lower() else text


def call_arguments(call: ToolCall, note: Callable[[Action, str, str], None]) -> str:
    """The text of a JSON object, which every wire demands: what is none goes inside of one."""
    arguments = arguments_text(call.arguments)
    if arguments is None:
        note("adapted", "tool_call", f"the arguments of {call.name} are no JSON object; sent as {{_raw}}")
        return json_value({"_raw": call.arguments}).decode()
    return arguments
