"""A chat request body, ours or a stranger's -> conversation, tools and options.

Read leniently: what has a canonical form gets it, what has none is kept (unknown content parts as Opaque, unknown body
fields in `extra_body`), so that encoding the result for the same dialect says the same thing again. Ids become canonical
here; the raw ones stay as metadata.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...core.blocks import Block, Conversation, Media, Opaque, Origin, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.dialect import EFFORTS, Options
from ...core.history import CallIdentity, canonicalize
from ...core.tools import ToolSpec
from ..lenient_json import text_of
from ..media import opened
from ..parsing import (
    OptionFields,
    Said,
    decode_texts,
    flag,
    freeform_tool,
    host_tool,
    joined_results,
    make_call,
    make_tool,
    numbered,
    objects,
    open_messages,
    result_parts,
    system_prompt,
    text_field,
    text_turns,
)
from ..request import ParsedRequest, RequestedAnswer
from .wire import DEFAULT

# Two spellings of one option mean the same here; Mistral says `random_seed`, OpenAI renamed the limit.
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


def parse_request(body: bytes, *, provider: str = "", identity: CallIdentity | None = None) -> ParsedRequest:
    """`provider` is the owner of the reasoning in the history, where the caller knows it."""
    value, origin = open_messages(body, provider, DEFAULT.wire)
    conversation = read_messages(value["messages"], origin, identity)
    tools = _tools(value.get("tools")) + _tools([{"function": each} for each in objects(value.get("functions"))])
    return ParsedRequest(conversation, origin.model, tools, _options(value), _requested(value))


class _StreamOptions(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    include_usage: bool = False


class _TextRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A request that holds only texts and plain options; one with any other field or type is not decoded as this."""

    messages: list[Said]
    model: str = ""
    stream: bool = False
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None


_decode_text_request = msgspec.json.Decoder(_TextRequest).decode


def text_request(body: bytes, provider: str) -> ParsedRequest | None:
    """What `parse_request` gives for a request that holds only texts, which have no ids to map; None for any other."""
    value = decode_texts(_decode_text_request, body)
    if value is None:
        return None
    if value.max_completion_tokens is not None and value.max_tokens is not None:
        return None
    messages = value.messages
    first = 1 if messages and messages[0].role == "system" else 0
    turns = text_turns(messages, first, Origin(provider, DEFAULT.wire, value.model))
    if turns is None:
        return None
    options = Options(
        value.max_tokens if value.max_completion_tokens is None else value.max_completion_tokens,
        value.temperature,
        value.top_p,
        stream=value.stream,
    )
    counted = value.stream_options is not None and value.stream_options.include_usage
    conversation = Conversation(turns, messages[0].content if first else "")
    return ParsedRequest(conversation, value.model, (), options, RequestedAnswer(usage=counted))


def _requested(body: dict[str, Any]) -> RequestedAnswer:
    options = body.get("stream_options")
    counted = isinstance(options, dict) and options.get("include_usage") is True
    return RequestedAnswer(usage=counted, store=flag(body.get("store")))


def read_messages(messages: list[Any], origin: Origin, identity: CallIdentity | None = None) -> Conversation:
    """A list of chat messages as a conversation with canonical ids."""
    system: list[Text] = []
    turns: list[Turn] = []
    for _, message in numbered(messages, "message"):
        role = message.get("role")
        if role in ("system", "developer"):
            tools = _tools(message.get("tools"))
            # The first system message is the system prompt. A later one,
            # or one that brings tools, has a place in the conversation.
            if turns or tools or (system and role != "system"):
                word = "" if role == "system" else str(role)
                turns.append(_turn("system", _content(message, origin), role=word, tools=tools))
            else:
                system += [block for block in _content(message, origin) if isinstance(block, Text)]
        elif role == "assistant":
            turns.append(_assistant(message, origin))
        elif role in ("tool", "function"):
            turns.append(_turn("tool", [_response(message, origin)]))
        else:
            turns.append(_turn("human", _content(message, origin)))
    return canonicalize(Conversation(joined_results(turns), system_prompt(system)), origin.provider, identity)


def _turn(speaker: Any, blocks: list[Block], **fields: Any) -> Turn:
    return Turn(speaker, tuple(blocks), **fields)


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
    if kind == "text":
        extra = {key: value for key, value in part.items() if key == "cache_control"}
        return Text(text_of(part.get("text")), extra or None)
    # The part's own key is its type's name.
    inner = part.get(str(kind))
    if kind in ("image_url", "video_url"):
        inner = {"url": inner} if isinstance(inner, str) else inner
        if isinstance(inner, dict) and isinstance(inner.get("url"), str):
            extra = {key: value for key, value in inner.items() if key != "url"}
            mime = "image/*" if kind == "image_url" else "video/*"
            return opened(Media(mime, url=inner["url"], extra=extra or None))
    if kind == "input_audio" and isinstance(inner, dict) and isinstance(inner.get("data"), str):
        return Media(f"audio/{inner.get('format', 'wav')}", data=inner["data"])
    if kind == "file" and isinstance(inner, dict):
        extra = {key: value for key, value in inner.items() if key not in ("file_data", "file_id", "filename")}
        where = text_field(inner, "file_data") or text_field(inner, "file_id")
        return opened(Media("application/octet-stream", None, where, inner.get("filename"), extra or None))
    return Opaque("part", part, origin)


def _assistant(message: dict[str, Any], origin: Origin) -> Turn:
    blocks: list[Block] = []
    # The first one: hosts and clients that write two repeat themselves.
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
        # Thinking has been taken out of the content, which is then read like any other.
        message = {
            **message,
            "content": [p for p in content if not (isinstance(p, dict) and p.get("type") == "thinking")],
        }
    # An empty text beside calls is how clients spell "no content".
    blocks += [block for block in _content({"content": message.get("content")}, origin) if block != Text("")]
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        blocks.append(Text(message["refusal"], {"refusal": True}))
    blocks += [_call(call, origin) for call in objects(message.get("tool_calls"))]
    if isinstance(message.get("function_call"), dict):
        blocks.append(_call({"function": message["function_call"]}, origin))
    extra = {key: message[key] for key in ("reasoning_details", "name") if message.get(key)}
    return _turn("ai", blocks, origin=origin, extra=extra or None)


def _thought(thinking: Any) -> str:
    if isinstance(thinking, str):
        return thinking
    return "".join([str(item.get("text", "")) for item in objects(thinking)])


def _call(call: dict[str, Any], origin: Origin) -> ToolCall:
    raw_id, custom, function = text_field(call, "id"), call.get("custom"), call.get("function")
    if isinstance(custom, dict):
        return make_call(raw_id, text_field(custom, "name"), text_field(custom, "input"), origin, freeform=True)
    function = function if isinstance(function, dict) else {}
    extra = call.get("extra_content")
    kept = extra if isinstance(extra, dict) else None
    arguments = text_of(function.get("arguments"))
    return make_call(raw_id, text_field(function, "name").strip(), arguments, origin, kept)


def _response(message: dict[str, Any], origin: Origin) -> ToolResponse:
    raw_id = text_field(message, "tool_call_id")
    parts = result_parts(_content({"content": message.get("content")}, origin))
    return ToolResponse(raw_id, text_field(message, "name"), parts, raw_id=raw_id or None)


def _tools(tools: Any) -> tuple[ToolSpec, ...]:
    return tuple([_tool(tool) for tool in objects(tools)])


def _tool(tool: dict[str, Any]) -> ToolSpec:
    kind, function = tool.get("type"), tool.get("function")
    if kind in (None, "function") and not isinstance(function, dict) and isinstance(tool.get("name"), str):
        function = tool  # as the Responses wire spells it; clients send it here too
    if kind in (None, "function") and isinstance(function, dict):
        known = ("name", "description", "parameters", "strict", "type", "function")
        extra = {key: value for key, value in function.items() if key not in known}
        return make_tool(function, function.get("parameters"), extra)
    if kind == "builtin_function" and isinstance(function, dict):
        name = text_field(function, "name")
        return ToolSpec(name, builtin=name)
    return freeform_tool(tool) or host_tool(tool, DEFAULT.wire)


def _options(body: dict[str, Any]) -> Options:
    found = OptionFields()
    for key, value in body.items():
        if key in ("model", "messages", "tools", "functions", "stream", "stream_options") or value is None:
            continue
        # A level that we do not know is passed on to a host that may.
        if key == "reasoning_effort" and value not in EFFORTS:
            found.extra[key] = value
        elif key in _OPTION_FIELDS:
            found.fields[_OPTION_FIELDS[key]] = value
        elif key == "stop" and isinstance(value, (str, list)):
            found.stop(value)
        elif key == "tool_choice" and (choice := _choice(value)) is not None:
            found.fields["tool_choice"] = choice
        else:
            found.extra[key] = value
    return found.options(stream=bool(body.get("stream")))


def _choice(value: Any) -> str | None:
    if isinstance(value, str):
        # Mistral's word.
        return "required" if value == "any" else value
    function = value.get("function") or value.get("custom") if isinstance(value, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None
