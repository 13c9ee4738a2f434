"""OpenAI's Responses rules: items, their ids and their pairing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from .answer_format import openai_format
from .chat import error
from .images import is_unread
from .rule import Apart, Assumed, Body, Documented, Rule, Traits, is_object_text, objects
from .tool_schema import arrays_without_items, malformed

__all__ = ["RULES", "WIRE", "error"]

WIRE = "openai-responses"
# An item's `id` says its kind; leaving it out is always right (field-guide/tool-ids.md#item-ids-of-responses).
_PREFIX = {"function_call": "fc", "message": "msg", "reasoning": "rs", "custom_tool_call": "ctc"}


def _items(body: Body) -> list[dict[str, Any]]:
    return objects(body.get("input"))


def _kind(item: dict[str, Any]) -> str:
    return str(item.get("type") or ("message" if "role" in item else ""))


def _continues(body: Body) -> bool:
    """Whether the host has the items before these."""
    return bool(body.get("previous_response_id") or body.get("conversation"))


# A client that was moved here from chat sends `messages`; the host answers with where they have gone
# (field-guide/openai-responses.md#shape).
def _shape(body: Body, traits: Traits) -> Iterator[str]:
    if not body.get("model") and not body.get("prompt"):  # a stored prompt may name the model, and be the input
        yield "Missing required parameter: 'model'."
    if not body.get("input") and not _continues(body) and not body.get("prompt"):
        yield "Missing required parameter: 'input'."
    if "messages" in body:
        yield "Unsupported parameter: 'messages'. In the Responses API, this parameter has moved to 'input'."
    for index, item in enumerate(_items(body)):
        if not _kind(item):
            yield Documented(f"Missing required parameter: 'input[{index}].type'.")
        if _kind(item) == "message" and item.get("role") not in ("user", "assistant", "system", "developer"):
            yield f"Invalid value: '{item.get('role')}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."


def _ids_fit(body: Body, traits: Traits) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(_items(body)):
        kind = _kind(item)
        if "call_id" in item and (not item["call_id"] or len(str(item["call_id"])) > 64):
            yield f"Invalid 'input[{index}].call_id': string too long. Expected a string with maximum length 64."
        if kind in ("function_call", "custom_tool_call"):
            if str(item.get("call_id")) in seen:
                yield Assumed(f"Duplicate item found with call_id {item.get('call_id')}.")
            seen.add(str(item.get("call_id")))
        wire_id = item.get("id")
        prefix = _PREFIX.get(kind)
        if wire_id is not None and prefix and not re.fullmatch(rf"{prefix}[A-Za-z0-9_-]*", str(wire_id)):
            yield f"Invalid 'input[{index}].id': '{wire_id}'. Expected an ID that begins with '{prefix}'."


# Unlike chat, the order between them is free: an output need not follow directly
# (field-guide/openai-responses.md#pairing).
def _paired(body: Body, traits: Traits) -> Iterator[str]:
    """Every call has an output somewhere after it, and every output a call before it."""
    calls: dict[str, int] = {}
    outputs: set[str] = set()
    for item in _items(body):
        kind = _kind(item)
        call_id = str(item.get("call_id"))
        if kind in ("function_call", "custom_tool_call"):
            calls[call_id] = calls.get(call_id, 0) + 1
        elif kind in ("function_call_output", "custom_tool_call_output"):
            # With `previous_response_id` the host has the call; it need not be in this request.
            if call_id not in calls and not _continues(body):
                yield f"No tool call found for function call output with call_id {call_id}."
            if call_id in outputs:
                yield Assumed(f"Duplicate function call output with call_id {call_id}.")
            outputs.add(call_id)
    for call_id in Counter(calls).elements():
        if call_id not in outputs:
            yield f"No tool output found for function call {call_id}."


def _outputs_are_text(body: Body, traits: Traits) -> Iterator[str]:
    for index, item in enumerate(_items(body)):
        if _kind(item) == "function_call_output":
            output = item.get("output")
            if not isinstance(output, (str, list)):
                yield f"Invalid type for 'input[{index}].output': expected one of an array of objects or string."
            for part in objects(output):
                if part.get("type") not in ("input_text", "input_image", "input_file"):
                    yield f"Invalid value: '{part.get('type')}'. (input[{index}].output)"
        if _kind(item) == "custom_tool_call" and not (traits.freeform and isinstance(item.get("input"), str)):
            yield f"Invalid 'input[{index}]': expected a custom tool call with a string as its input."
        if "namespace" in item and not traits.namespaces:
            yield Assumed(f"Unknown parameter: 'input[{index}].namespace'.")
        if _kind(item) == "function_call" and not is_object_text(item.get("arguments")):
            words = f"Invalid 'input[{index}].arguments': expected a JSON object as a string."
            yield Assumed(words) if isinstance(item.get("arguments"), str) else words


def _reasoning_is_own_and_followed(body: Body, traits: Traits) -> Iterator[str]:
    items = _items(body)
    for index, item in enumerate(items):
        if _kind(item) != "reasoning":
            continue
        encrypted = item.get("encrypted_content")
        if encrypted is not None and not str(encrypted).startswith(traits.signature_prefix):
            yield f"The encrypted content for item {item.get('id')} could not be verified."
        # Without storage an item is only what the request holds of it; an id alone leads nowhere.
        if encrypted is None and body.get("store") is False:
            yield f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false."
        after = items[index + 1] if index + 1 < len(items) else {}
        # Reasoning belongs to what it led to. A user's message behind it means that the answer was lost
        # (field-guide/openai-responses.md#reasoning).
        own = (
            _kind(after) in ("reasoning", "function_call", "custom_tool_call")
            or (_kind(after) == "message" and after.get("role") == "assistant")
            or _kind(after).endswith("_call")
        )
        if not own:
            yield f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."


# The kind of a text part depends on who speaks: what goes in is `input_text`, what came out `output_text`.
def _content_fits(body: Body, traits: Traits) -> Iterator[str]:
    for index, item in enumerate(_items(body)):
        if _kind(item) != "message":
            continue
        content = item.get("content")
        if content is None:
            yield Documented(f"Missing required parameter: 'input[{index}].content'.")
        elif content == [] or (content == "" and not traits.blank_text):
            yield Assumed(f"Invalid 'input[{index}].content': empty.")
        wanted = (
            ("output_text", "refusal")
            if item.get("role") == "assistant"
            else ("input_text", "input_image", "input_file")
        )
        for part in objects(content):
            if part.get("type") not in wanted:
                yield f"Invalid value: '{part.get('type')}'. Supported values are: {', '.join(wanted)}. (input[{index}].content)"


def _images_are_readable(body: Body, traits: Traits) -> Iterator[str]:
    for item in _items(body):
        for part in (*objects(item.get("content")), *objects(item.get("output"))):
            if part.get("type") == "input_image" and is_unread(part.get("image_url"), traits.image_types):
                yield (
                    "The image data you provided does not represent a valid image. Please check your input and try again"
                    f" with one of the supported image formats: {[*traits.image_types]}."
                )


def _tools_fit(body: Body, traits: Traits) -> Iterator[str]:
    tools = [*objects(body.get("tools"))]
    for index, tool in enumerate(tools):
        kind = tool.get("type")
        if kind == "namespace" and traits.namespaces:
            if not objects(tool.get("tools")):
                yield Assumed(f"Invalid 'tools[{index}].tools': empty array.")
            tools += objects(tool.get("tools"))  # judged like any other
        elif (kind == "namespace" and not traits.namespaces) or (kind == "custom" and not traits.freeform):
            yield Assumed(f"Invalid value: '{kind}'. (tools[{index}].type)")
        if kind not in ("function", "custom"):
            continue
        if "function" in tool:
            yield f"Missing required parameter: 'tools[{index}].name'."
        elif not re.fullmatch(traits.name_pattern, str(tool.get("name"))):
            yield f"Invalid 'tools[{index}].name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        schema = tool.get("parameters")
        if schema is not None and (not isinstance(schema, dict) or schema.get("type") != "object"):
            yield f"Invalid schema for function '{tool.get('name')}': schema must be a JSON Schema of 'type: \"object\"'."
        elif traits.checks_schemas and schema is not None:
            for words in (*malformed(schema), *arrays_without_items(schema)):
                yield f"Invalid schema for function '{tool.get('name')}': {words}."
    if "tools" in body and not body["tools"]:
        yield Assumed("Invalid 'tools': empty array.")


_OWN = ("openai",)


def _format_fits(body: Body, traits: Traits) -> Iterator[str]:
    text = body.get("text")
    asked = text.get("format") if isinstance(text, dict) else None
    if isinstance(asked, dict) and asked.get("type") == "json_schema":
        yield from openai_format(asked)


RULES = (
    Rule(
        "shape", "observed", "OpenAI error texts `Missing required parameter`, `has moved to 'input'`, `Supported values are`",
        _shape, hosts=_OWN, apart=(Apart("documented", "an item without a type", "OpenAI API reference, responses.create: items"),),
        guide="openai-responses.md#shape",
    ),
    Rule(
        "ids fit", "observed", "OpenAI error texts `string too long` (Roo-Code 10763), `Expected an ID that begins with` (eca 465)",
        _ids_fit, hosts=_OWN, apart=(Apart("assumed", "two calls with one call_id"),),
        guide="openai-responses.md#ids",
    ),
    Rule(
        "paired", "observed", "OpenAI error texts `No tool output found for function call`, `No tool call found`",
        _paired, hosts=_OWN, apart=(Apart("assumed", "a second output of one call"),),
        guide="openai-responses.md#pairing",
    ),
    Rule(
        "outputs are text", "documented", "OpenAI API reference, responses.create: items; error of llxprt-code 1683",
        _outputs_are_text, hosts=_OWN,
        apart=(Apart("assumed", "arguments that are not JSON, a namespace where only OpenAI has them"),),
        guide="openai-responses.md#outputs",
    ),
    Rule(
        "reasoning is own and followed", "observed",
        "OpenAI error texts `could not be verified`, `not found`, `without its required following item`",
        _reasoning_is_own_and_followed, hosts=_OWN,
        guide="openai-responses.md#reasoning",
    ),
    Rule(
        "content fits", "observed", "OpenAI error text `Supported values are` for the content parts of a role",
        _content_fits, hosts=_OWN,
        apart=(Apart("documented", "a message without content", "OpenAI API reference, responses.create: items"), Apart("assumed", "empty content")),
        guide="openai-responses.md#shape",
    ),
    Rule(
        "images are readable", "observed", "OpenAI error text `does not represent a valid image` (codex 7459, codex 4946)",
        _images_are_readable, hosts=_OWN, code="invalid_value",
        guide="openai-chat.md#images",
    ),
    Rule(
        "tools fit", "observed", "OpenAI error texts `Missing required parameter: 'tools[0].name'`, `Invalid schema for function`",
        _tools_fit, hosts=_OWN,
        apart=(Apart("assumed", "no tools in a list of them, kinds of tools that only OpenAI has"),),
        guide="openai-responses.md#tools",
    ),
    Rule(
        "format fits", "documented", "OpenAI's guide on structured outputs: supported schemas, and what strict requires",
        _format_fits, hosts=_OWN, guide="openai-responses.md#structured-output",
    ),
)  # fmt: skip
