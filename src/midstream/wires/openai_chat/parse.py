"""A chat request body, ours or a stranger's -> conversation, tools and options.

Read leniently: what has a canonical form gets it, what has none is kept (unknown content parts as Opaque, unknown body
fields in `extra_body`), so that encoding the result for the same dialect says the same thing again. Ids become canonical
here; the raw ones stay as metadata.
"""

from __future__ import annotations

import re
from typing import Any

from ...core.blocks import Block, Conversation, Media, Opaque, Origin, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.dialect import EFFORTS, Options
from ...core.errors import InvalidHistory
from ...core.history import canonicalize
from ...core.tools import ToolSpec
from ..lenient_json import decode_leniently, encode_json
from ..request import ParsedRequest

_WIRE = "openai-chat"
_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^,]*)?;base64,", re.I)
_OPTION_FIELDS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "random_seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "parallel_tool_calls": "parallel_tool_calls",
    "response_format": "response_format",
    "user": "user",
    "reasoning_effort": "effort",
}
_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")


def parse_request(body: bytes, *, provider: str = "") -> ParsedRequest:
    """`provider` is who the reasoning in the history belongs to, where the reader knows it."""
    value = decode_leniently(body)
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        raise InvalidHistory("expected a JSON object with a `messages` list")
    model = str(value.get("model") or "")
    conversation = read_messages(value["messages"], Origin(provider, _WIRE, model))
    return ParsedRequest(conversation, model, _tools(value.get("tools")), _options(value))


def read_messages(messages: list[Any], origin: Origin) -> Conversation:
    """A list of chat messages as a conversation with canonical ids."""
    system: list[Text] = []
    turns: list[Turn] = []
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            raise InvalidHistory(f"message {number} is not an object")
        role = message.get("role")
        if role in ("system", "developer"):
            if turns or (system and message.get("role") != "system"):
                turns.append(_turn(number, "human", _content(message, origin), role=str(role)))
            else:
                system += [block for block in _content(message, origin) if isinstance(block, Text)]
        elif role == "assistant":
            turns.append(_assistant(number, message, origin))
        elif role in ("tool", "function"):
            response = _response(message, origin)
            if turns and turns[-1].speaker == "tool":
                turns[-1] = _turn(number, "tool", [*turns[-1].blocks, response])
            else:
                turns.append(_turn(number, "tool", [response]))
        else:
            turns.append(_turn(number, "human", _content(message, origin)))
    plain = len(system) == 1 and system[0].extra is None
    conversation = Conversation(tuple(turns), system[0].text if plain else tuple(system) if system else "")
    return canonicalize(conversation, origin.provider)


def _turn(number: int, speaker: Any, blocks: list[Block], **fields: Any) -> Turn:
    return Turn(speaker, tuple(blocks), key=f"m{number}", **fields)


def _content(message: dict[str, Any], origin: Origin) -> list[Block]:
    content = message.get("content")
    named = {"name": message["name"]} if message.get("name") else None
    if isinstance(content, str):
        return [Text(content, named)]
    blocks: list[Block] = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            blocks.append(Text(part))
        elif isinstance(part, dict):
            blocks.append(_part(part, origin))
    return blocks


def _part(part: dict[str, Any], origin: Origin) -> Block:
    kind = part.get("type")
    if kind == "text" and isinstance(part.get("text"), str):
        extra = {key: value for key, value in part.items() if key == "cache_control"}
        return Text(part["text"], extra or None)
    inner = part.get(str(kind))
    if kind in ("image_url", "video_url"):
        inner = {"url": inner} if isinstance(inner, str) else inner
        if isinstance(inner, dict) and isinstance(inner.get("url"), str):
            extra = {key: value for key, value in inner.items() if key != "url"}
            return _media(inner["url"], "image/*" if kind == "image_url" else "video/*", extra or None)
    if kind == "input_audio" and isinstance(inner, dict) and isinstance(inner.get("data"), str):
        return Media(f"audio/{inner.get('format', 'wav')}", data=inner["data"])
    if kind == "file" and isinstance(inner, dict):
        extra = {key: value for key, value in inner.items() if key not in ("file_data", "file_id", "filename")}
        media = _media(
            str(inner.get("file_data") or inner.get("file_id") or ""), "application/octet-stream", extra or None
        )
        return Media(media.mime, media.data, media.url, inner.get("filename"), media.extra)
    return Opaque("part", part, origin)


def _media(url: str, mime: str, extra: dict[str, Any] | None) -> Media:
    match = _DATA_URL.match(url)
    if match:
        return Media(match[1] or mime, data=url[match.end() :], extra=extra)
    return Media(mime, url=url, extra=extra)


def _assistant(number: int, message: dict[str, Any], origin: Origin) -> Turn:
    blocks: list[Block] = []
    for field in _REASONING_FIELDS:
        if isinstance(message.get(field), str):
            blocks.append(Thinking(message[field], field, origin=origin))
            break
    content = message.get("content")
    if isinstance(content, list):
        blocks += [
            Thinking(_thought(part.get("thinking")), "thinking", origin=origin)
            for part in content
            if isinstance(part, dict) and part.get("type") == "thinking"
        ]
        message = {
            **message,
            "content": [p for p in content if not (isinstance(p, dict) and p.get("type") == "thinking")],
        }
    blocks += [block for block in _content({"content": message.get("content")}, origin) if block != Text("")]
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        blocks.append(Text(message["refusal"], {"refusal": True}))
    given = message.get("tool_calls")
    calls = given if isinstance(given, list) else []
    if isinstance(message.get("function_call"), dict):
        calls = [*calls, {"function": message["function_call"]}]
    blocks += [_call(call, origin) for call in calls if isinstance(call, dict)]
    extra = {key: message[key] for key in ("reasoning_details", "name") if message.get(key)}
    return _turn(number, "ai", blocks, origin=origin, extra=extra or None)


def _thought(thinking: Any) -> str:
    if isinstance(thinking, str):
        return thinking
    items = thinking if isinstance(thinking, list) else ()
    return "".join([str(item.get("text", "")) for item in items if isinstance(item, dict)])


def _call(call: dict[str, Any], origin: Origin) -> ToolCall:
    raw_id = str(call.get("id") or "")
    custom = call.get("custom")
    if isinstance(custom, dict):
        text = str(custom.get("input") or "")
        return ToolCall(
            raw_id, str(custom.get("name") or ""), text, raw_id or None, origin.provider, {"type": "custom"}
        )
    function = call.get("function") if isinstance(call.get("function"), dict) else {}
    assert isinstance(function, dict)
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        arguments = encode_json(arguments).decode() if arguments is not None else ""
    extra = call.get("extra_content")
    name = str(function.get("name") or "").strip()
    kept = extra if isinstance(extra, dict) else None
    return ToolCall(raw_id, name, arguments, raw_id or None, origin.provider, kept)


def _response(message: dict[str, Any], origin: Origin) -> ToolResponse:
    raw_id = str(message.get("tool_call_id") or "")
    content = _content({"content": message.get("content")}, origin)
    parts = tuple([block for block in content if isinstance(block, (Text, Media, Opaque))])
    return ToolResponse(raw_id, str(message.get("name") or ""), parts, raw_id=raw_id or None)


def _tools(tools: Any) -> tuple[ToolSpec, ...]:
    specs: list[ToolSpec] = []
    for tool in tools if isinstance(tools, list) else ():
        if not isinstance(tool, dict):
            continue
        function = tool.get("function")
        if tool.get("type") == "function" and isinstance(function, dict):
            known = ("name", "description", "parameters", "strict")
            extra = {key: value for key, value in function.items() if key not in known}
            specs.append(
                ToolSpec(
                    str(function.get("name") or ""),
                    str(function.get("description") or ""),
                    function.get("parameters"),
                    function.get("strict"),
                    extra=extra or None,
                )
            )
        elif tool.get("type") == "builtin_function" and isinstance(function, dict):
            specs.append(ToolSpec(str(function.get("name") or ""), builtin=str(function.get("name") or "")))
        else:
            specs.append(ToolSpec(str(tool.get("name") or tool.get("type") or ""), extra={"tool": tool}))
    return tuple(specs)


def _options(body: dict[str, Any]) -> Options:
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in body.items():
        if key in ("model", "messages", "tools", "stream", "stream_options") or value is None:
            continue
        if key == "reasoning_effort" and value not in EFFORTS:
            extra[key] = value
        elif key in _OPTION_FIELDS:
            fields[_OPTION_FIELDS[key]] = value
        elif key == "stop" and isinstance(value, (str, list)):
            fields["stop"] = (value,) if isinstance(value, str) else tuple(value)
        elif key == "tool_choice":
            fields["tool_choice"] = _choice(value)
        else:
            extra[key] = value
    return Options(stream=bool(body.get("stream")), extra_body=extra or None, **fields)


def _choice(value: Any) -> str | None:
    if isinstance(value, str):
        return "required" if value == "any" else value
    function = value.get("function") if isinstance(value, dict) else None
    return str(function.get("name")) if isinstance(function, dict) else None
