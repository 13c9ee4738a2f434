"""Cohere's v2 chat rules: no text beside tool calls, names without hyphens, narrow ranges, no field it does not know."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from .rule import Apart, Assumed, Body, Observed, Problem, Rule, Traits, is_object_text, objects

WIRE = "cohere"
_PARTS = {
    "system": ("text",),
    "user": ("text", "image_url"),
    "assistant": ("text", "thinking"),
    "tool": ("text", "document"),
}
# A field outside this list is a 422, which is how a request made for another wire is found out
# (field-guide/cohere.md#shape).
_FIELDS = frozenset(
    "model messages stream tools strict_tools documents citation_options response_format safety_mode max_tokens"
    " stop_sequences temperature seed frequency_penalty presence_penalty k p logprobs tool_choice thinking priority"
    " raw_prompting".split()
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Narrower than on other wires: a top_p of 1, which others take, is refused here.
_RANGES = {"p": (0.01, 0.99), "frequency_penalty": (0, 1), "presence_penalty": (0, 1), "k": (0, 500)}


def error(problem: Problem, traits: Traits) -> dict[str, Any]:
    return {"id": "00000000-0000-4000-8000-000000000000", "message": problem.message}


def _messages(body: Body) -> list[dict[str, Any]]:
    return objects(body.get("messages"))


def _thinks(body: Body, traits: Traits) -> bool:
    thinking = body.get("thinking")
    return traits.thinks_by_default and not (isinstance(thinking, dict) and thinking.get("type") == "disabled")


def _shape(body: Body, traits: Traits) -> Iterator[str]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "invalid request: model is required"
    if not _messages(body):
        yield "invalid request: messages must not be empty"
    for index, message in enumerate(_messages(body)):
        if str(message.get("role")) not in _PARTS:
            yield f"invalid request: unknown role {message.get('role')!r}: 'messages[{index}].role'"


def _known_fields(body: Body, traits: Traits) -> Iterator[str]:
    for field in body:
        if field not in _FIELDS:
            yield f"unknown field: parameter '{field}' is not a valid field"


def _content_fits(body: Body, traits: Traits) -> Iterator[str]:
    for index, message in enumerate(_messages(body)):
        role, content = message.get("role"), message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)
        if not _is_said(parts) and not message.get("tool_calls") and role != "tool":
            yield Observed(f"invalid request: message must be at least 1 token long: 'messages[{index}].content'")
        if role == "tool" and not isinstance(content, (str, list)):
            yield f"invalid request: a tool message must have content: 'messages[{index}].content'"
        for number, part in enumerate(parts):
            if part.get("type") not in _PARTS.get(str(role), ()):
                yield f"invalid content type {part.get('type')!r}: 'messages[{index}].content[{number}]'"
            elif part.get("type") == "image_url" and not traits.images:
                yield f"image content is not supported with this model: 'messages[{index}].content[{number}]'"


def _is_said(parts: list[dict[str, Any]]) -> bool:
    return any(part.get("type") != "text" or str(part.get("text") or "").strip() for part in parts)


# What the model says before it calls has a field of its own, `tool_plan`, or is thinking
# (field-guide/cohere.md#text-beside-calls).
def _no_text_beside_calls(body: Body, traits: Traits) -> Iterator[str]:
    for index, message in enumerate(_messages(body)):
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)
        if message.get("tool_calls"):
            for number, part in enumerate(parts):
                if part.get("type") == "text" and part.get("text"):
                    yield (
                        "text content is not allowed when tool_calls are provided. If you wish to pass a tool plan, either"
                        " pass thinking content (with thinking enabled) or use 'tool_plan':"
                        f" 'messages[{index}].content[{number}]'"
                    )


def _thinking_fits(body: Body, traits: Traits) -> Iterator[str]:
    thinking = body.get("thinking")
    if thinking is not None:
        if not isinstance(thinking, dict) or thinking.get("type") not in ("enabled", "disabled"):
            yield "invalid request: thinking.type must be one of enabled, disabled"
        elif thinking["type"] == "enabled" and not traits.thinks_by_default:
            yield Assumed("invalid request: thinking is not supported with this model")
        elif "token_budget" in thinking and not (
            type(thinking["token_budget"]) is int and thinking["token_budget"] > 0
        ):
            yield "invalid request: thinking.token_budget must be a positive integer"
    for index, message in enumerate(_messages(body)):
        thought = [part for part in objects(message.get("content")) if part.get("type") == "thinking"]
        if thought and not _thinks(body, traits):
            yield Observed(f"thinking content is only allowed with thinking enabled: 'messages[{index}].content'")
        if thought and message.get("tool_plan"):
            yield Assumed(f"pass either thinking content or 'tool_plan': 'messages[{index}]'")


def _paired(body: Body, traits: Traits) -> Iterator[str]:
    # As on the chat wire: counted, since an id may stand twice.
    waiting: dict[str, int] = {}
    for index, message in enumerate(_messages(body)):
        if message.get("role") == "tool":
            wire_id = str(message.get("tool_call_id"))
            if wire_id in waiting:
                waiting[wire_id] -= 1
                if not waiting[wire_id]:
                    del waiting[wire_id]
            else:
                yield f"tool call id not found in previous tool calls: {wire_id!r}: 'messages[{index}]'"
            continue
        if waiting:
            yield f"tool call ids {[*Counter(waiting).elements()]} have no tool message after them: 'messages[{index}]'"
        waiting = Counter([str(call.get("id")) for call in objects(message.get("tool_calls"))])
        if any(number > 1 for number in waiting.values()):
            yield f"tool call ids must be unique: 'messages[{index}].tool_calls'"
    if waiting:
        yield f"tool call ids {[*Counter(waiting).elements()]} have no tool message after them"


def _calls_are_whole(body: Body, traits: Traits) -> Iterator[str]:
    for index, message in enumerate(_messages(body)):
        for number, call in enumerate(objects(message.get("tool_calls"))):
            where = f"'messages[{index}].tool_calls[{number}]'"
            function = call.get("function")
            if not isinstance(call.get("id"), str) or not call["id"] or call.get("type", "function") != "function":
                yield f"a tool call must have an id and the type function: {where}"
            elif "type" not in call:
                yield Assumed(f"a tool call must have the type function: {where}")  # the SDK has it as a default
            if not isinstance(function, dict) or not is_object_text(function.get("arguments")):
                yield Assumed(f"invalid tool arguments, expected the JSON of an object: {where}")
            elif not _NAME.fullmatch(str(function.get("name"))):
                yield Observed(_bad_name(str(function.get("name"))))


def _tools_fit(body: Body, traits: Traits) -> Iterator[str]:
    names: set[str] = set()
    if "tools" in body and not objects(body["tools"]):
        yield Assumed("invalid request: tools must not be empty")
    for tool in objects(body.get("tools")):
        function = tool.get("function")
        function = function if isinstance(function, dict) else {}
        name, schema = str(function.get("name")), function.get("parameters")
        if not _NAME.fullmatch(name):
            yield Observed(_bad_name(name))
        if name in names:
            yield Assumed(f"invalid request: tool names must be unique (provided name: '{name}')")
        names.add(name)
        if not isinstance(schema, dict) or schema.get("type") != "object":
            words = f"invalid request: the parameters of tool '{name}' must be a JSON schema of type object"
            yield Assumed(words) if isinstance(schema, dict) else words


def _bad_name(name: str) -> str:
    return (
        "invalid request: tool names can only contain certain characters (A-Za-z0-9_) and can't begin with a digit"
        f" (provided name: '{name}')."
    )


# Two words and no names: a single tool cannot be forced (field-guide/cohere.md#tools).
def _choice_fits(body: Body, traits: Traits) -> Iterator[str]:
    choice = body.get("tool_choice")
    if choice is not None and choice not in ("REQUIRED", "NONE"):
        yield f"invalid request: tool_choice must be one of REQUIRED, NONE (provided: {choice!r})"
    if choice is not None and not body.get("tools"):
        yield Assumed("invalid request: tool_choice needs tools")


def _in_range(body: Body, traits: Traits) -> Iterator[str]:
    for field, (least, most) in _RANGES.items():
        value = body.get(field)
        if value is not None and not (isinstance(value, (int, float)) and least <= value <= most):
            yield f"invalid request: {field} must be between {least} and {most}"
    stops = body.get("stop_sequences")
    if isinstance(stops, list) and len(stops) > 5:
        yield "invalid request: at most 5 stop_sequences are allowed"


def _format_stands_alone(body: Body, traits: Traits) -> Iterator[str]:
    asked = body.get("response_format")
    if asked is None:
        return
    if not isinstance(asked, dict) or asked.get("type") not in ("text", "json_object"):
        yield "invalid request: response_format.type must be one of text, json_object"
    elif asked["type"] == "json_object" and (body.get("tools") or body.get("documents")):
        yield "invalid request: response_format is not supported with tools or documents"


_REFERENCE = "Cohere API reference, POST /v2/chat"
RULES = (
    Rule("shape", "documented", f"{_REFERENCE}: model, messages and their roles are required", _shape, guide="cohere.md#shape"),
    Rule(
        "known fields", "observed", "Cohere answers 422 `unknown field: parameter … is not a valid field`", _known_fields, 422,
        guide="cohere.md#shape",
    ),
    Rule(
        "content fits", "documented", f"{_REFERENCE}: content parts by role; its models page: who sees images", _content_fits,
        apart=(Apart("observed", "a message without words", "Cohere's error text"),),
        guide="cohere.md#shape",
    ),
    Rule(
        "no text beside calls", "observed", "Cohere's error text, as reported in vercel/ai 5794", _no_text_beside_calls,
        guide="cohere.md#text-beside-calls",
    ),
    Rule(
        "thinking fits", "documented", f"{_REFERENCE}: thinking", _thinking_fits,
        apart=(
            Apart("observed", "thinking in the history while it is off", "Cohere's error text, as reported in vercel/ai 5794"),
            Apart("assumed", "thinking asked of a model that does not think; thinking beside a plan"),
        ),
        guide="cohere.md#thinking",
    ),
    Rule("paired", "assumed", f"{_REFERENCE}: tool messages name the call they answer (agentdojo 200)", _paired, guide="cohere.md#pairing"),
    Rule(
        "calls are whole", "documented", f"{_REFERENCE}: tool_calls", _calls_are_whole,
        apart=(
            Apart("observed", "a name it does not take", "Cohere's error text, as reported in langflow 5465"),
            Apart("assumed", "a call without its type; arguments that are not JSON"),
        ),
        guide="cohere.md#pairing",
    ),
    Rule(
        "tools fit", "documented", f"{_REFERENCE}: a tool has parameters", _tools_fit,
        apart=(
            Apart("observed", "a name it does not take", "Cohere's error text, as reported in langflow 5465"),
            Apart("assumed", "an empty list, a name declared twice, a schema that is not an object's"),
        ),
        guide="cohere.md#tools",
    ),
    Rule(
        "choice fits", "documented", f"{_REFERENCE}: tool_choice is REQUIRED or NONE", _choice_fits,
        apart=(Apart("assumed", "a choice without tools"),),
        guide="cohere.md#tools",
    ),
    Rule("in range", "documented", f"{_REFERENCE}: ranges of p, k and penalties", _in_range, guide="cohere.md#tools"),
    Rule("format stands alone", "documented", f"{_REFERENCE}: response_format and its limits", _format_stands_alone, guide="cohere.md#tools"),
)  # fmt: skip
