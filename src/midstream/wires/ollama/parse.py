"""An Ollama chat request body, ours or a stranger's -> conversation, tools and options.

Read leniently: what has a canonical form gets it, unknown fields are kept in `extra_body`. Results find their calls by id
where there is one, else by position and the tool's name. Ids become canonical here.
"""

from __future__ import annotations

from typing import Any

from ...core.blocks import Block, Conversation, Media, Origin, Text, Thinking, ToolResponse, Turn
from ...core.dialect import EFFORTS, Options
from ...core.history import CallIdentity, canonicalize
from ..lenient_json import text_of
from ..parsing import (
    OptionFields,
    joined_results,
    make_call,
    make_tool,
    numbered,
    objects,
    open_messages,
    system_prompt,
    text_field,
)
from ..request import ParsedRequest, RequestedAnswer
from .wire import DEFAULT

_SETTINGS = {
    "num_predict": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}


def parse_request(body: bytes, *, provider: str = "ollama", identity: CallIdentity | None = None) -> ParsedRequest:
    """`provider` is the owner of the thinking in the history."""
    value, origin = open_messages(body, provider, DEFAULT.wire)
    system: list[Text] = []
    turns: list[Turn] = []
    for _, message in numbered(value["messages"], "message"):
        role = message.get("role")
        if role == "system" and not turns:
            system.append(Text(text_field(message, "content")))
        elif role == "assistant":
            turns.append(Turn("ai", tuple(_assistant(message, origin)), origin=origin))
        elif role == "tool":
            turns.append(Turn("tool", (_response(message),)))
        else:
            turns.append(Turn("system" if role == "system" else "human", tuple(_content(message))))
    conversation = canonicalize(Conversation(joined_results(turns), system_prompt(system)), provider, identity)
    # With or without OpenAI's frame around the function.
    tools = [tool.get("function") or tool for tool in objects(value.get("tools"))]
    specs = tuple([make_tool(tool, tool.get("parameters")) for tool in objects(tools)])
    # Not asked is not "no": the model decides.
    requested = RequestedAnswer(usage=True, thinking=False if value.get("think") is False else None)
    return ParsedRequest(conversation, origin.model, specs, _options(value), requested)


def _content(message: dict[str, Any]) -> list[Text | Media]:
    content = message.get("content")
    blocks: list[Text | Media] = [Text(content)] if isinstance(content, str) and content else []
    images = message.get("images")
    blocks += [Media("image/*", data=image) for image in images or () if isinstance(image, str)]
    return blocks


def _assistant(message: dict[str, Any], origin: Origin) -> list[Block]:
    blocks: list[Block] = []
    if isinstance(message.get("thinking"), str) and message["thinking"]:
        blocks.append(Thinking(message["thinking"], "thinking", origin=origin))
    blocks += _content(message)
    for call in objects(message.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, dict):
            given = function.get("arguments")
            arguments = text_of({} if given is None else given)
            blocks.append(make_call(text_field(call, "id"), text_field(function, "name"), arguments, origin))
    return blocks


def _response(message: dict[str, Any]) -> ToolResponse:
    raw_id = text_field(message, "tool_call_id")
    # `name` is what clients of other wires write.
    name = text_field(message, "tool_name") or text_field(message, "name")
    return ToolResponse(raw_id, name, tuple(_content(message)), raw_id=raw_id or None)


def _options(body: dict[str, Any]) -> Options:
    found = OptionFields()
    fields = found.fields
    for key, value in body.items():
        match key, value:
            case ("model" | "messages" | "tools" | "stream", _) | (_, None) | ("format", ""):
                pass
            case "think", bool():
                fields["thinking"] = "on" if value else "off"
            case "think", str() if value in EFFORTS:
                fields["effort"] = value
            case "format", "json":
                fields["response_format"] = {"type": "json_object"}
            case "format", dict():
                found.schema(value)
            case "options", dict():
                _settings(value, found)
            case _:
                found.extra[key] = value
    # Missing means yes on this wire.
    return found.options(stream=body.get("stream") is not False)


def _settings(settings: dict[str, Any], found: OptionFields) -> None:
    left: dict[str, Any] = {}
    for key, value in settings.items():
        # Zero and less are not a number of tokens here.
        if key in _SETTINGS and type(value) in (int, float) and not (key == "num_predict" and value <= 0):
            found.fields[_SETTINGS[key]] = value
        elif key == "stop" and isinstance(value, (str, list)):
            found.stop(value)
        elif value is not None:
            left[key] = value
    found.keep("options", left)
