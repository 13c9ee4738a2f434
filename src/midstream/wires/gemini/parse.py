"""A generateContent body, ours or a stranger's -> conversation, tools and options.

Read leniently, in camel or snake case: what has a canonical form gets it, what has none is kept (unknown parts as Opaque,
unknown fields in `extra_body`), so that encoding the result for the same model says the same thing again. A user content
becomes a tool turn of its results and a human turn of the rest. Ids become canonical here; the raw ones stay as metadata.
"""

from __future__ import annotations

import re
from typing import Any

from ...core.blocks import Block, Conversation, Opaque, Origin, Text, Thinking, ToolResponse, Turn
from ...core.dialect import EFFORTS, Options
from ...core.errors import InvalidHistory
from ...core.history import CallIdentity, canonicalize
from ...core.json_progress import object_text
from ...core.tools import ToolSpec
from ..lenient_json import decode_leniently, text_of
from ..parsing import (
    OptionFields,
    make_call,
    make_tool,
    numbered,
    objects,
    rest,
    result_parts,
    split_results,
    system_prompt,
    text_field,
)
from ..request import ParsedRequest, RequestedAnswer
from .media import read_media
from .wire import DEFAULT

# The wire is protobuf behind JSON, so both spellings of a field are valid.
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


def parse_request(
    body: bytes,
    *,
    provider: str = "gemini",
    identity: CallIdentity | None = None,
    model: str = "",
    stream: bool = False,
) -> ParsedRequest:
    """`model` and `stream` come from the path, not from the body; `provider` is the owner of the signatures."""
    value = decode_leniently(body)
    if not isinstance(value, dict):
        raise InvalidHistory("expected a JSON object with `contents`")
    value = _camel(value)
    contents = value.get("contents")
    if isinstance(contents, (str, dict)):
        contents = [contents]
    if not isinstance(contents, list):
        raise InvalidHistory("expected a JSON object with a `contents` list")
    # The path wins: it is what the host would obey.
    model = (model or str(value.get("model") or "")).removeprefix("models/")
    origin = Origin(provider, DEFAULT.wire, model)
    spelled = [{"parts": [{"text": content}]} if isinstance(content, str) else content for content in contents]
    turns: list[Turn] = []
    for _, content in numbered(spelled, "content"):
        turns += _turns(content, origin)
    conversation = canonicalize(Conversation(tuple(turns), _system(value.get("systemInstruction"))), provider, identity)
    return ParsedRequest(conversation, model, _tools(value.get("tools")), _options(value, stream), _requested(value))


def _requested(body: dict[str, Any]) -> RequestedAnswer:
    config = body.get("generationConfig")
    config = _camel(config).get("thinkingConfig") if isinstance(config, dict) else None
    shown = isinstance(config, dict) and _camel(config).get("includeThoughts") is True
    return RequestedAnswer(usage=True, thinking=shown)


def _camel(value: dict[str, Any]) -> dict[str, Any]:
    return {_SNAKE.sub(lambda match: match[1].upper(), key): inner for key, inner in value.items()}


def _listed(value: Any) -> list[Any]:
    """A list; one object alone is a list of one."""
    return [value] if isinstance(value, dict) else value if isinstance(value, list) else []


def _turns(content: dict[str, Any], origin: Origin) -> list[Turn]:
    parts = _listed(content.get("parts"))
    blocks = [_part({"text": part} if isinstance(part, str) else _camel(part), origin) for part in parts if part]
    if content.get("role") == "model":
        return [Turn("ai", tuple(blocks), origin=origin)]
    return split_results(blocks)


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
            extra = {"thoughtSignature": signature} if signature else None
            return make_call(
                text_field(call, "id"), text_field(call, "name"), text_of(call.get("args") or {}), origin, extra
            )
        case {"functionResponse": dict(response)}:
            return _response(_camel(response), origin)
        case {"inlineData": dict()} | {"fileData": dict()}:
            spelled = {
                key: _camel(value) if key in ("inlineData", "fileData") else value for key, value in part.items()
            }
            media = read_media(spelled)
            if media is not None:
                return media
    # The key that is neither of these two says what kind of part it is.
    kind = next((key for key in part if key not in ("thought", "thoughtSignature")), "part")
    return Opaque(kind, part, origin)


def _response(response: dict[str, Any], origin: Origin) -> ToolResponse:
    """A result. An object that only wraps a text gives the text, unless writing it again would not wrap it."""
    raw_id = text_field(response, "id")
    said = response.get("response")
    is_error = False
    match said:
        # The way back of ContentsWriter: `result` and `error` are the keys that it wraps a text in.
        case {"result": str(text), **rest} if not rest and object_text(text) is None:
            pass
        case {"error": str(text), **rest} if not rest and object_text(text) is None:
            is_error = True
        case _:
            text = text_of({} if said is None else said)
    media = result_parts([_part(_camel(part), origin) for part in objects(response.get("parts"))])
    content = media if said == {} and media else (Text(text), *media)
    extra = {key: response[key] for key in ("willContinue", "scheduling") if response.get(key) is not None}
    return ToolResponse(raw_id, text_field(response, "name"), content, is_error, raw_id or None, extra or None)


def _system(system: Any) -> str | tuple[Text, ...]:
    if isinstance(system, str):
        return system
    parts = objects(_listed(system.get("parts") if isinstance(system, dict) else None))
    return system_prompt([Text(part["text"]) for part in parts if isinstance(part.get("text"), str)])


def _tools(tools: Any) -> tuple[ToolSpec, ...]:
    specs: list[ToolSpec] = []
    for tool in objects(_listed(tools)):
        for kind, config in _camel(tool).items():
            if kind == "functionDeclarations":
                specs += [_function(_camel(each)) for each in objects(config)]
            elif config is not None:
                specs.append(ToolSpec(kind, builtin=kind, extra={"config": config} if config != {} else None))
    return tuple(specs)


def _function(declared: dict[str, Any]) -> ToolSpec:
    schema = declared.get("parametersJsonSchema")
    if not isinstance(schema, dict):
        schema = json_schema_of(declared.get("parameters"))
    extra = {key: declared[key] for key in ("behavior", "response") if declared.get(key) is not None}
    return make_tool(declared, schema, extra)


def json_schema_of(schema: Any) -> Any:
    """A schema in Gemini's own words as JSON schema: `STRING`, or the number of it, is `string`."""
    if isinstance(schema, list):
        return [json_schema_of(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    # Values are data, even where they look like a schema.
    out = {key: json_schema_of(value) if key not in ("enum", "default") else value for key, value in schema.items()}
    kind = out.get("type")
    if isinstance(kind, str):
        out["type"] = kind.lower()
    elif isinstance(kind, int) and kind in _TYPES:
        out["type"] = _TYPES[kind]
    return out


def _options(body: dict[str, Any], stream: bool) -> Options:
    found = OptionFields()
    for key, value in body.items():
        match key, value:
            case ("model" | "contents" | "tools" | "systemInstruction", _) | (_, None):
                pass
            case "generationConfig", dict():
                _generation(_camel(value), found)
            case "toolConfig", dict():
                _choice(_camel(value), found)
            case _:
                found.extra[key] = value
    return found.options(stream=stream)


def _generation(config: dict[str, Any], found: OptionFields) -> None:
    left: dict[str, Any] = {}
    for key, value in config.items():
        if value is None:
            continue
        if key in _SAMPLING and isinstance(value, (int, float)):
            found.fields[_SAMPLING[key]] = value
        elif key == "stopSequences" and isinstance(value, list):
            found.stop(value)
        # A config that our words cannot repeat is kept whole.
        elif key != "thinkingConfig" or not isinstance(value, dict) or not _thinking(_camel(value), found.fields):
            left[key] = value
    # With the host's own schema beside it, both are kept as they are.
    if left.get("responseMimeType") == "application/json" and "responseSchema" not in left:
        del left["responseMimeType"]
        schema = left.pop("responseJsonSchema", None)
        if isinstance(schema, dict):
            found.schema(schema)
        else:
            found.fields["response_format"] = {"type": "json_object"}
    found.keep("generationConfig", left)


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


def _choice(config: dict[str, Any], found: OptionFields) -> None:
    calling = config.pop("functionCallingConfig", None)
    calling = _camel(calling) if isinstance(calling, dict) else {}
    names = calling.get("allowedFunctionNames")
    mode = calling.get("mode")
    # `ANY` with one name is a named choice; with several there is no word for it.
    if mode == "ANY" and isinstance(names, list) and len(names) == 1:
        found.fields["tool_choice"] = str(names[0])
    elif mode in _CHOICES and not names:
        found.fields["tool_choice"] = _CHOICES[mode]
    elif calling:
        config["functionCallingConfig"] = calling
    found.keep("toolConfig", rest(config))
