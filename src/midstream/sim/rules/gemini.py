"""Gemini's generateContent rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .rule import Body, Problem, Rule, Traits, objects

WIRE = "gemini"
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
}
_SCHEMA_FIELDS = frozenset(
    "type format title description nullable enum maxItems minItems properties required minProperties maxProperties"
    " minLength maxLength pattern example anyOf propertyOrdering default items minimum maximum".split()
)
_BYPASS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")


def _contents(body: Body) -> list[dict[str, Any]]:
    return objects(body.get("contents"))


def _parts(content: dict[str, Any], key: str) -> list[dict[str, Any]]:
    return [part for part in objects(content.get("parts")) if key in part]


def _shape(body: Body, traits: Traits) -> Iterator[str]:
    if not _contents(body):
        yield "* GenerateContentRequest.contents: contents is not specified"
    for index, content in enumerate(_contents(body)):
        if content.get("role") not in ("user", "model", "function"):
            yield "Please use a valid role: user, model."
        if not content.get("parts"):
            yield f"* GenerateContentRequest.contents[{index}].parts: contents.parts must not be empty."
        for part in objects(content.get("parts")):
            if not set(part) - {"thought", "thoughtSignature"}:
                yield f"* GenerateContentRequest.contents[{index}].parts: contents.parts[0].data: required oneof field 'data' must have one initialized field"


def _alternates(body: Body, traits: Traits) -> Iterator[str]:
    before = None
    for content in _contents(body):
        role = "user" if content.get("role") == "function" else content.get("role")
        if role == before:
            yield "Please ensure that multiturn requests alternate between user and model."
        before = role
    contents = _contents(body)
    if contents and contents[0].get("role") == "model":
        yield "Please ensure that multiturn requests begin with a user turn."


def _paired(body: Body, traits: Traits) -> Iterator[str]:
    contents = _contents(body)
    for index, content in enumerate(contents):
        calls = [part["functionCall"] for part in _parts(content, "functionCall")]
        after = contents[index + 1] if index + 1 < len(contents) else {}
        answers = [part["functionResponse"] for part in _parts(after, "functionResponse")]
        if calls and len(answers) != len(calls):
            yield (
                "Please ensure that the number of function response parts is equal to the number of function call parts of"
                " the function call turn."
            )
        elif calls and sorted(str(a.get("name")) for a in answers) != sorted(str(c.get("name")) for c in calls):
            yield "Please ensure that function response names match the function calls."
        own = _parts(content, "functionResponse")
        before = _parts(contents[index - 1], "functionCall") if index else []
        if own and not before:
            yield "Please ensure that function response turn comes immediately after a function call turn."
        for part in own:
            if not isinstance(part["functionResponse"].get("response"), dict):
                yield "Invalid value at 'contents.parts.function_response.response' (type.googleapis.com/google.protobuf.Struct)"
        for call in calls:
            if not re.fullmatch(traits.name_pattern, str(call.get("name"))):
                yield f"Invalid function name {call.get('name')!r}."
            if not isinstance(call.get("args", {}), dict):
                yield "Invalid value at 'contents.parts.function_call.args' (type.googleapis.com/google.protobuf.Struct)"


def _signatures_are_own(body: Body, traits: Traits) -> Iterator[str]:
    for index, content in enumerate(_contents(body)):
        for part in objects(content.get("parts")):
            signature = part.get("thoughtSignature")
            if signature is None or signature in _BYPASS:
                continue
            if not str(signature).startswith(traits.signature_prefix):
                yield f"Corrupted thought signature. (contents[{index}])"
        calls = _parts(content, "functionCall")
        if traits.needs_call_signature and calls and not calls[0].get("thoughtSignature"):
            name = calls[0]["functionCall"].get("name")
            yield (
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work"
                f" correctly. Function call `default_api:{name}`, position {index}."
            )


def _tools_fit(body: Body, traits: Traits) -> Iterator[str]:
    for tool in objects(body.get("tools")):
        for declaration in objects(tool.get("functionDeclarations")):
            name = str(declaration.get("name"))
            if not re.fullmatch(traits.name_pattern, name):
                yield f"* GenerateContentRequest.tools[0].function_declarations[0].name: Invalid function name {name!r}."
            for where in _outside_subset(declaration.get("parameters"), "parameters"):
                yield f"Invalid JSON payload received. Unknown name {where} at 'tools[0].function_declarations[0]'"


def _outside_subset(schema: Any, where: str) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    for key in schema:
        if key not in _SCHEMA_FIELDS:
            yield f'"{key}" ({where})'
    if isinstance(schema.get("type"), list):
        yield f'"type" ({where}): a list'
    for name, child in (schema.get("properties") or {}).items():
        yield from _outside_subset(child, f"{where}.{name}")
    yield from _outside_subset(schema.get("items"), f"{where}.items")
    for child in objects(schema.get("anyOf")):
        yield from _outside_subset(child, f"{where}.anyOf")


def error(problem: Problem, traits: Traits) -> dict[str, Any]:
    status = _STATUSES.get(problem.status, "UNKNOWN")
    return {"error": {"code": problem.status, "message": problem.message, "status": status}}


RULES = (
    Rule("shape", "Gemini API reference: GenerateContentRequest", _shape),
    Rule("alternates", "Gemini error text `multiturn requests alternate between user and model`", _alternates),
    Rule("paired", "Gemini error text `number of function response parts`", _paired),
    Rule("signatures are own", "facts/tool-ids-and-formats.md §3: thought signatures of Gemini 3", _signatures_are_own),
    Rule("tools fit", "Gemini API reference: Schema is a subset of OpenAPI 3.0", _tools_fit),
)
