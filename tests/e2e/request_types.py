"""The request types of the providers' own SDKs, as validators of the JSON that midstream sends.

The SDKs declare what a request may say, in TypedDicts and pydantic models, mostly to help an editor: fields they do not know
pass, and the items of an iterable are not looked at. Here the same declarations are strict: no unknown field, no
coercion, every item.
"""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Required, get_type_hints

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator, ValidationError, core_schema
from typing_extensions import TypedDict

_WITH_FIELDS = ("typed-dict", "model-fields", "dataclass-args")


def _openai_chat(streams: bool) -> Any:
    from openai.types.chat import completion_create_params as params

    return params.CompletionCreateParamsStreaming if streams else params.CompletionCreateParamsNonStreaming


def _openai_responses(streams: bool) -> Any:
    from openai.types.responses import response_create_params as params

    return params.ResponseCreateParamsStreaming if streams else params.ResponseCreateParamsNonStreaming


def _open_responses(streams: bool) -> Any:
    from openresponses_types import CreateResponseBody

    return CreateResponseBody


def _anthropic(streams: bool) -> Any:
    from anthropic.types import message_create_params as params

    return params.MessageCreateParamsStreaming if streams else params.MessageCreateParamsNonStreaming


def _mistralai(streams: bool) -> Any:
    from mistralai.client import models

    return models.ChatCompletionStreamRequestTypedDict if streams else models.ChatCompletionRequestTypedDict


def _google_genai(streams: bool) -> Any:
    """The SDK keeps the parts of a body in models of their own, and puts them together by hand."""
    from google.genai import types

    fields: dict[str, Any] = {
        "contents": Required[list[types.Content]],
        "systemInstruction": types.Content,
        "tools": list[types.Tool],
        "toolConfig": types.ToolConfig,
        "generationConfig": types.GenerationConfig,
        "safetySettings": list[types.SafetySetting],
        "cachedContent": str,
    }
    return TypedDict("GenerateContentBody", fields, total=False)  # type: ignore[operator]


def _ollama(streams: bool) -> Any:
    """The SDK's own type takes any mapping for a message and a tool; the models it makes of them are stricter."""
    from ollama import _types as types

    class Message(types.Message):
        images: list[bytes] | None = None  # type: ignore[assignment]  # as its Image is serialized

    class ChatRequest(types.ChatRequest):
        messages: list[Message] | None = None  # type: ignore[assignment]
        tools: list[types.Tool] | None = None  # type: ignore[assignment]

    return ChatRequest


def _cohere(streams: bool) -> Any:
    """The SDK has no type for the whole request: the parameters of its method are its fields."""
    from cohere.v2.raw_client import RawV2Client

    method = RawV2Client.chat_stream if streams else RawV2Client.chat
    hints = get_type_hints(method, include_extras=True)
    fields: dict[str, Any] = {"stream": bool}
    for name, parameter in inspect.signature(method).parameters.items():
        if name not in ("self", "request_options"):
            required = parameter.default is inspect.Parameter.empty
            fields[name] = Required[hints[name]] if required else hints[name]
    return TypedDict("ChatBody", fields, total=False)  # type: ignore[operator]


TYPES: Mapping[str, Callable[[bool], Any]] = {
    "openai chat": _openai_chat,
    "openai responses": _openai_responses,
    "open responses": _open_responses,
    "anthropic": _anthropic,
    "mistralai": _mistralai,
    "google-genai": _google_genai,
    "ollama": _ollama,
    "cohere": _cohere,
}


def complaints(types: str, body: Mapping[str, Any]) -> list[str]:
    """What an SDK's types have against a request; empty if nothing. Each names the place and the reason."""
    try:
        _validator(types, bool(body.get("stream"))).validate_json(json.dumps(body), strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        return [f"{_place(each['loc'])}: {each['msg']}" for each in found]
    except (ValueError, AttributeError) as error:  # in the SDK's own discriminators and enums
        return [str(error)]
    return []


@cache
def _validator(types: str, streams: bool) -> SchemaValidator:
    return SchemaValidator(_closed(TypeAdapter(TYPES[types](streams)).core_schema))


def _closed(schema: Any) -> Any:
    """The schema without room for unknown fields, and with lists where pydantic would look at the items only when asked."""
    if isinstance(schema, list | tuple):
        return type(schema)([_closed(item) for item in schema])
    if not isinstance(schema, dict):
        return schema
    closed = {key: value if key == "metadata" else _closed(value) for key, value in schema.items()}
    closed.pop("serialization", None)
    if closed.get("type") == "bytes":  # which JSON has none of: a strict validator would refuse them all
        return core_schema.no_info_after_validator_function(_decode_base64, core_schema.str_schema())
    if closed.get("type") in _WITH_FIELDS and closed.get("fields"):  # a model without fields stands for any object
        closed["extra_behavior"] = "forbid"
        closed.pop("extras_schema", None)
    if closed.get("type") == "model":
        # pydantic would take the validator that the class was built with, which is open.
        closed |= {"cls": type(closed["cls"].__name__, (), {}), "custom_init": False}
        closed.pop("post_init", None)
    if closed.get("type") == "generator":
        return core_schema.list_schema(closed.get("items_schema"))
    return closed


def _decode_base64(text: str) -> bytes:
    return base64.b64decode(text.translate(str.maketrans("-_", "+/")), validate=True)


def _place(parts: tuple[int | str, ...]) -> str:
    """Without the names of a union's members, which fill a screen each."""
    named = [part for part in parts if isinstance(part, int) or part.isidentifier()]
    return ".".join(["[]" if isinstance(part, int) else part for part in named])
