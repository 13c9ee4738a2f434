"""An Ollama chat request body, ours or a stranger's -> conversation, tools and options.

Read leniently: what has a canonical form gets it, unknown fields are kept in `extra_body`. Results find their calls by id
where there is one, else by position and the tool's name. Ids become canonical here.
"""

from __future__ import annotations

import json
from typing import Any

from ...core.blocks import Block, Conversation, Media, Origin, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.dialect import EFFORTS, Options
from ...core.errors import InvalidHistory
from ...core.history import canonicalize
from ...core.tools import ToolSpec
from ..lenient_json import decode_leniently
from ..request import ParsedRequest
from .wire import DEFAULT

_SETTINGS = {
    "num_predict": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}


def parse_request(body: bytes, *, provider: str = "ollama") -> ParsedRequest:
    """`provider` is who the thinking of the history belongs to."""
    value = decode_leniently(body)
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        raise InvalidHistory("expected a JSON object with a `messages` list")
    model = str(value.get("model") or "")
    origin = Origin(provider, DEFAULT.wire, model)
    system: list[Text] = []
    turns: list[Turn] = []
    for number, message in enumerate(value["messages"]):
        if not isinstance(message, dict):
            raise InvalidHistory(f"message {number} is not an object")
        role, key = message.get("role"), f"m{number}"
        if role == "system" and not turns:
            system.append(Text(str(message.get("content") or "")))
        elif role == "system":
            turns.append(Turn("human", tuple(_content(message)), key=key, role="system"))
        elif role == "assistant":
            turns.append(Turn("ai", tuple(_assistant(message, origin)), key=key, origin=origin))
        elif role == "tool":
            before = turns.pop().blocks if turns and turns[-1].speaker == "tool" else ()
            turns.append(Turn("tool", (*before, _response(message)), key=key))
        else:
            turns.append(Turn("human", tuple(_content(message)), key=key))
    said = system[0].text if len(system) == 1 else tuple(system) or ""
    conversation = canonicalize(Conversation(tuple(turns), said), provider)
    return ParsedRequest(conversation, model, _tools(value.get("tools")), _options(value))


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
    for call in message.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            blocks.append(_call(call, function, origin))
    return blocks


def _call(call: dict[str, Any], function: dict[str, Any], origin: Origin) -> ToolCall:
    raw_id = str(call.get("id") or "")
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False, separators=(",", ":"))
    return ToolCall(raw_id, str(function.get("name") or ""), arguments, raw_id or None, origin.provider)


def _response(message: dict[str, Any]) -> ToolResponse:
    raw_id = str(message.get("tool_call_id") or "")
    name = str(message.get("tool_name") or message.get("name") or "")
    return ToolResponse(raw_id, name, tuple(_content(message)), raw_id=raw_id or None)


def _tools(tools: Any) -> tuple[ToolSpec, ...]:
    specs: list[ToolSpec] = []
    for tool in tools if isinstance(tools, list) else ():
        function = tool.get("function") if isinstance(tool, dict) else None
        if isinstance(function, dict):
            schema = function.get("parameters")
            specs.append(
                ToolSpec(
                    str(function.get("name") or ""),
                    str(function.get("description") or ""),
                    schema if isinstance(schema, dict) else None,
                )
            )
    return tuple(specs)


def _options(body: dict[str, Any]) -> Options:
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
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
                schema = {"name": "answer", "schema": value}
                fields["response_format"] = {"type": "json_schema", "json_schema": schema}
            case "options", dict():
                _settings(value, fields, extra)
            case _:
                extra[key] = value
    return Options(stream=body.get("stream") is not False, extra_body=extra or None, **fields)


def _settings(settings: dict[str, Any], fields: dict[str, Any], extra: dict[str, Any]) -> None:
    rest: dict[str, Any] = {}
    for key, value in settings.items():
        if key in _SETTINGS and type(value) in (int, float) and not (key == "num_predict" and value <= 0):
            fields[_SETTINGS[key]] = value
        elif key == "stop" and isinstance(value, (str, list)):
            fields["stop"] = (value,) if isinstance(value, str) else tuple([str(stop) for stop in value])
        elif value is not None:
            rest[key] = value
    if rest:
        extra["options"] = rest
