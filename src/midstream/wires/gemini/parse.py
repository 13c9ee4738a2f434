"""A generateContent body, ours or a stranger's -> conversation, tools and options.

Read leniently, in camel or snake case: what has a canonical form gets it, what has none is kept (unknown parts as Opaque,
unknown fields in `extra_body`), so that encoding the result for the same model says the same thing again. A user content
becomes a tool turn of its results and a human turn of the rest. Ids become canonical here; the raw ones stay as metadata.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ...core.blocks import Block, Conversation, Media, Opaque, Origin, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.dialect import EFFORTS, Options
from ...core.errors import InvalidHistory
from ...core.history import canonicalize
from ...core.tools import ToolSpec
from ..lenient_json import decode_leniently, object_text
from ..request import ParsedRequest
from .media import read_media
from .wire import DEFAULT

_SNAKE = re.compile(r"_([a-z0-9])")
_TYPES = {1: "string", 2: "number", 3: "integer", 4: "boolean", 5: "array", 6: "object"}  # protobuf's enum
_SAMPLING = {
    "maxOutputTokens": "max_tokens",
    "temperature": "temperature",
    "topP": "top_p",
    "seed": "seed",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}
_CHOICES = {"AUTO": "auto", "NONE": "none", "ANY": "required"}


def parse_request(body: bytes, *, provider: str = "gemini", model: str = "", stream: bool = False) -> ParsedRequest:
    """`model` and `stream` stand in the path, which the body does not know; `provider` is who the signatures belong to."""
    value = decode_leniently(body)
    if not isinstance(value, dict):
        raise InvalidHistory("expected a JSON object with `contents`")
    value = _camel(value)
    contents = value.get("contents")
    if isinstance(contents, (str, dict)):
        contents = [contents]
    if not isinstance(contents, list):
        raise InvalidHistory("expected a JSON object with a `contents` list")
    model = (model or str(value.get("model") or "")).removeprefix("models/")
    origin = Origin(provider, DEFAULT.wire, model)
    turns: list[Turn] = []
    for number, content in enumerate(contents):
        if isinstance(content, str):
            content = {"parts": [{"text": content}]}
        if not isinstance(content, dict):
            raise InvalidHistory(f"content {number} is not an object")
        turns += _turns(number, content, origin)
    conversation = canonicalize(Conversation(tuple(turns), _system(value.get("systemInstruction"))), provider)
    return ParsedRequest(conversation, model, _tools(value.get("tools")), _options(value, stream))


def _camel(value: dict[str, Any]) -> dict[str, Any]:
    return {_SNAKE.sub(lambda match: match[1].upper(), key): inner for key, inner in value.items()}


def _turns(number: int, content: dict[str, Any], origin: Origin) -> list[Turn]:
    key = f"m{number}"
    parts = content.get("parts")
    parts = [parts] if isinstance(parts, dict) else parts if isinstance(parts, list) else []
    blocks = [_part({"text": part} if isinstance(part, str) else _camel(part), origin) for part in parts if part]
    if content.get("role") == "model":
        return [Turn("ai", tuple(blocks), key=key, origin=origin)]
    results = tuple([block for block in blocks if type(block) is ToolResponse])
    if not results:
        return [Turn("human", tuple(blocks), key=key)]
    rest = tuple([block for block in blocks if type(block) is not ToolResponse])
    tool_turn = Turn("tool", results, key=f"{key}:results")
    return [tool_turn, Turn("human", rest, key=key)] if rest else [tool_turn]


def _part(part: dict[str, Any], origin: Origin) -> Block:
    signature = part.get("thoughtSignature")
    signature = signature if isinstance(signature, str) and signature else None
    match part:
        case {"text": str(text)}:
            if part.get("thought") is True:
                return Thinking(text, "thought", signature, origin=origin)
            return Text(text, {"thoughtSignature": signature} if signature else None)
        case {"functionCall": dict(call)}:
            call = _camel(call)
            raw_id = str(call.get("id") or "")
            arguments = json.dumps(call.get("args") or {}, ensure_ascii=False, separators=(",", ":"))
            extra = {"thoughtSignature": signature} if signature else None
            return ToolCall(raw_id, str(call.get("name") or ""), arguments, raw_id or None, origin.provider, extra)
        case {"functionResponse": dict(response)}:
            return _response(_camel(response), origin)
        case {"inlineData": dict()} | {"fileData": dict()}:
            spelled = {
                key: _camel(value) if key in ("inlineData", "fileData") else value for key, value in part.items()
            }
            media = read_media(spelled)
            if media is not None:
                return media
    kind = next((key for key in part if key not in ("thought", "thoughtSignature")), "part")
    return Opaque(kind, part, origin)


def _response(response: dict[str, Any], origin: Origin) -> ToolResponse:
    """A result. An object that only wraps a text gives the text, unless writing it again would not wrap it."""
    raw_id = str(response.get("id") or "")
    said = response.get("response")
    is_error = False
    match said:
        case {"result": str(text), **rest} if not rest and object_text(text) is None:
            pass
        case {"error": str(text), **rest} if not rest and object_text(text) is None:
            is_error = True
        case _:
            text = json.dumps({} if said is None else said, ensure_ascii=False, separators=(",", ":"))
    inside = [_part(_camel(part), origin) for part in response.get("parts") or () if isinstance(part, dict)]
    media = tuple([part for part in inside if isinstance(part, (Text, Media, Opaque))])
    content = media if said == {} and media else (Text(text), *media)
    extra = {key: response[key] for key in ("willContinue", "scheduling") if response.get(key) is not None}
    return ToolResponse(raw_id, str(response.get("name") or ""), content, is_error, raw_id or None, extra or None)


def _system(system: Any) -> str | tuple[Text, ...]:
    if isinstance(system, str):
        return system
    parts = system.get("parts") if isinstance(system, dict) else None
    parts = [parts] if isinstance(parts, dict) else parts if isinstance(parts, list) else []
    texts = tuple(
        [Text(part["text"]) for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    )
    return texts[0].text if len(texts) == 1 else texts or ""


def _tools(tools: Any) -> tuple[ToolSpec, ...]:
    specs: list[ToolSpec] = []
    for tool in [tools] if isinstance(tools, dict) else tools if isinstance(tools, list) else ():
        for kind, config in _camel(tool).items() if isinstance(tool, dict) else ():
            if kind == "functionDeclarations":
                specs += [_function(_camel(each)) for each in config or () if isinstance(each, dict)]
            elif config is not None:
                specs.append(ToolSpec(kind, builtin=kind, extra={"config": config} if config != {} else None))
    return tuple(specs)


def _function(declared: dict[str, Any]) -> ToolSpec:
    schema = declared.get("parametersJsonSchema")
    if not isinstance(schema, dict):
        given = declared.get("parameters")
        schema = _plain_types(given) if isinstance(given, dict) else None
    extra = {key: declared[key] for key in ("behavior", "response") if declared.get(key) is not None}
    return ToolSpec(
        str(declared.get("name") or ""), str(declared.get("description") or ""), schema, extra=extra or None
    )


def _plain_types(schema: Any) -> Any:
    """Gemini's `STRING`, or the number of it, as JSON schema's `string`."""
    if isinstance(schema, list):
        return [_plain_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: _plain_types(value) if key not in ("enum", "default") else value for key, value in schema.items()}
    kind = out.get("type")
    if isinstance(kind, str):
        out["type"] = kind.lower()
    elif isinstance(kind, int) and kind in _TYPES:
        out["type"] = _TYPES[kind]
    return out


def _options(body: dict[str, Any], stream: bool) -> Options:
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in body.items():
        match key, value:
            case ("model" | "contents" | "tools" | "systemInstruction", _) | (_, None):
                pass
            case "generationConfig", dict():
                _generation(_camel(value), fields, extra)
            case "toolConfig", dict():
                _choice(_camel(value), fields, extra)
            case _:
                extra[key] = value
    return Options(stream=stream, extra_body=extra or None, **fields)


def _generation(config: dict[str, Any], fields: dict[str, Any], extra: dict[str, Any]) -> None:
    rest: dict[str, Any] = {}
    for key, value in config.items():
        if value is None:
            continue
        if key in _SAMPLING and isinstance(value, (int, float)):
            fields[_SAMPLING[key]] = value
        elif key == "stopSequences" and isinstance(value, list):
            fields["stop"] = tuple([str(stop) for stop in value])
        elif key == "thinkingConfig" and isinstance(value, dict):
            if not _thinking(_camel(value), fields):
                rest[key] = value
        else:
            rest[key] = value
    if rest.get("responseMimeType") == "application/json" and "responseSchema" not in rest:
        del rest["responseMimeType"]
        schema = rest.pop("responseJsonSchema", None)
        fields["response_format"] = (
            {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
            if isinstance(schema, dict)
            else {"type": "json_object"}
        )
    if rest:
        extra["generationConfig"] = rest


def _thinking(config: dict[str, Any], fields: dict[str, Any]) -> bool:
    """Read what is asked of thinking; False where our words for it would not say the same again."""
    budget, level = config.get("thinkingBudget"), config.get("thinkingLevel")
    shown = config.get("includeThoughts") is True
    if budget == 0:
        fields["thinking"] = "off"
        return not shown and level is None
    fields["thinking"] = "on"
    if isinstance(level, str):
        if level.lower() not in EFFORTS:
            return False
        fields["effort"] = level.lower()
    if isinstance(budget, int) and budget > 0:
        fields["thinking_budget"] = budget
    return shown and not (level and budget) and (budget is None or budget > 0)


def _choice(config: dict[str, Any], fields: dict[str, Any], extra: dict[str, Any]) -> None:
    calling = config.pop("functionCallingConfig", None)
    calling = _camel(calling) if isinstance(calling, dict) else {}
    names = calling.get("allowedFunctionNames")
    mode = calling.get("mode")
    if mode == "ANY" and isinstance(names, list) and len(names) == 1:
        fields["tool_choice"] = str(names[0])
    elif mode in _CHOICES and not names:
        fields["tool_choice"] = _CHOICES[mode]
    elif calling:
        config["functionCallingConfig"] = calling
    rest = {key: value for key, value in config.items() if value is not None}
    if rest:
        extra["toolConfig"] = rest
