"""A Cohere chat request body, ours or a stranger's -> conversation, tools and options.

Read leniently: what has a canonical form gets it, unknown parts are kept as they are, unknown fields (`documents`,
`citation_options`, `k` …) in `extra_body`. Ids become canonical here.
"""

from __future__ import annotations

from typing import Any

from ...core.blocks import Block, Conversation, Media, Opaque, Origin, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.dialect import Options
from ...core.errors import InvalidHistory
from ...core.history import CallIdentity, canonicalize
from ...core.tools import ToolSpec
from ..lenient_json import decode_leniently, encode_json, text_of
from ..media import opened
from ..parsing import joined_results
from ..request import ParsedRequest, RequestedAnswer
from .wire import DEFAULT, PLAN, THINKING

_OPTIONS = {
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "p": "top_p",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}


def parse_request(body: bytes, *, provider: str = "cohere", identity: CallIdentity | None = None) -> ParsedRequest:
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
        role = message.get("role")
        content = _content(message.get("content"), origin)
        # A first system message is the system prompt; a later one has its place in the conversation.
        if role in ("system", "developer") and not turns:
            system += [block for block in content if isinstance(block, Text)]
        elif role in ("system", "developer"):
            turns.append(Turn("system", tuple(content), role="" if role == "system" else str(role)))
        elif role == "assistant":
            # In the order in which the host shows them: plan, words, calls, citations.
            blocks = (*_thought(message, origin), *content, *_calls(message, origin), *_citations(message, origin))
            turns.append(Turn("ai", blocks, origin=origin))
        elif role == "tool":
            turns.append(Turn("tool", (_response(message, content),)))
        else:
            turns.append(Turn("human", tuple(content)))
    said = system[0].text if len(system) == 1 else tuple(system) or ""
    conversation = canonicalize(Conversation(joined_results(turns), said), provider, identity)
    return ParsedRequest(conversation, model, _tools(value.get("tools")), _options(value), RequestedAnswer(usage=True))


def _content(content: Any, origin: Origin) -> list[Block]:
    """A text is one; so is a part without a type."""
    blocks: list[Block] = []
    for part in content if isinstance(content, list) else (content,):
        if isinstance(part, str):
            blocks += [Text(part)] if part else []
        elif isinstance(part, dict):
            block = _part(part, origin)
            blocks += [block] if block != Text("") else []
    return blocks


def _part(part: dict[str, Any], origin: Origin) -> Block:
    kind = part.get("type")
    if kind == "text" or (kind is None and isinstance(part.get("text"), str)):
        return Text(text_of(part.get("text")))
    if kind == "thinking" and isinstance(part.get("thinking"), str):
        return Thinking(part["thinking"], THINKING, origin=origin)
    if kind == "image_url":
        image = part.get("image_url")
        image = {"url": image} if isinstance(image, str) else image
        if isinstance(image, dict) and isinstance(image.get("url"), str):
            extra = {key: value for key, value in image.items() if key != "url"}
            return opened(Media("image/*", url=image["url"], extra=extra or None))
    return Opaque("part", part, origin)


def _thought(message: dict[str, Any], origin: Origin) -> list[Block]:
    plan = message.get(PLAN)
    return [Thinking(plan, PLAN, origin=origin)] if isinstance(plan, str) and plan else []


def _calls(message: dict[str, Any], origin: Origin) -> list[Block]:
    calls = message.get("tool_calls")
    blocks: list[Block] = []
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            raw_id, arguments = str(call.get("id") or ""), function.get("arguments")
            if not isinstance(arguments, str):
                arguments = "{}" if arguments is None else encode_json(arguments).decode()
            name = str(function.get("name") or "")
            blocks.append(ToolCall(raw_id, name, arguments, raw_id or None, origin.provider))
    return blocks


def _citations(message: dict[str, Any], origin: Origin) -> list[Block]:
    return [Opaque("citations", message["citations"], origin)] if message.get("citations") else []


def _response(message: dict[str, Any], content: list[Block]) -> ToolResponse:
    raw_id = str(message.get("tool_call_id") or "")
    parts = tuple([block for block in content if isinstance(block, (Text, Media, Opaque))])
    return ToolResponse(raw_id, "", parts, raw_id=raw_id or None)


def _tools(tools: Any) -> tuple[ToolSpec, ...]:
    specs: list[ToolSpec] = []
    for tool in tools if isinstance(tools, list) else ():
        function = tool.get("function") if isinstance(tool, dict) else None
        if isinstance(function, dict):
            schema = function.get("parameters")
            name, description = str(function.get("name") or ""), str(function.get("description") or "")
            specs.append(ToolSpec(name, description, schema if isinstance(schema, dict) else None))
    return tuple(specs)


def _options(body: dict[str, Any]) -> Options:
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in body.items():
        match key, value:
            case ("model" | "messages" | "tools" | "stream", _) | (_, None):
                pass
            case str(), int() | float() if key in _OPTIONS and not isinstance(value, bool):
                fields[_OPTIONS[key]] = value
            case "stop_sequences", list():
                fields["stop"] = tuple([str(stop) for stop in value])
            case "tool_choice", "REQUIRED" | "NONE":
                fields["tool_choice"] = value.lower()
            # More than a budget beside the type is not known, so nothing is lost by reading it.
            case "thinking", {"type": "enabled" | "disabled" as mode, **rest}:
                fields["thinking"] = "on" if mode == "enabled" else "off"
                budget = rest.get("token_budget")
                if type(budget) is int:
                    fields["thinking_budget"] = budget
            case "response_format", {"type": "json_object", **rest}:
                fields["response_format"] = _format(rest.get("json_schema") or rest.get("schema"))
            case "response_format", {"type": "text"}:
                pass
            case _:
                extra[key] = value
    return Options(stream=bool(body.get("stream")), extra_body=extra or None, **fields)


def _format(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict):
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
