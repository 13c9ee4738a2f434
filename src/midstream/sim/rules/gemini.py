"""Gemini's generateContent rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .rule import Apart, Assumed, Body, Documented, Observed, Problem, Rule, Traits, objects

WIRE = "gemini"
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
}
# Schema of the SDK google-genai 3, in either spelling: the API takes both of any field.
_SCHEMA_FIELDS = frozenset(
    "type format title description nullable enum properties required pattern example default items minimum maximum ref defs"
    " maxItems minItems minProperties maxProperties minLength maxLength anyOf propertyOrdering additionalProperties"
    " max_items min_items min_properties max_properties min_length max_length any_of property_ordering"
    " additional_properties".split()
)
# Values that stand in place of a signature, for calls that the model did not make; the guide on signatures names the
# first (field-guide/gemini.md#thought-signatures).
_BYPASS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")


def _contents(body: Body) -> list[dict[str, Any]]:
    return objects(body.get("contents"))


def _parts(content: dict[str, Any], key: str) -> list[dict[str, Any]]:
    return [part for part in objects(content.get("parts")) if key in part]


def _values(content: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """What the parts have under a key; anything but an object as an empty one."""
    return [part[key] if isinstance(part[key], dict) else {} for part in _parts(content, key)]


def _shape(body: Body, traits: Traits) -> Iterator[str]:
    if not _contents(body):
        yield Documented("* GenerateContentRequest.contents: contents is not specified")
    for index, content in enumerate(_contents(body)):
        if content.get("role") not in (None, "user", "model", "function"):
            yield "Please use a valid role: user, model."
        if not content.get("parts"):
            yield f"* GenerateContentRequest.contents[{index}].parts: contents.parts must not be empty."
        for part in objects(content.get("parts")):
            # Marks without data: a part needs one field that says something.
            if not set(part) - {"thought", "thoughtSignature"}:
                yield f"* GenerateContentRequest.contents[{index}].parts: contents.parts[0].data: required oneof field 'data' must have one initialized field"


def _images_are_readable(body: Body, traits: Traits) -> Iterator[str]:
    for content in _contents(body):
        for image in _values(content, "inlineData"):
            kind = str(image.get("mimeType"))
            if kind.startswith("image/") and kind not in traits.image_types:
                yield f"Unsupported MIME type: {kind}"


def _model_turns_follow(body: Body, traits: Traits) -> Iterator[str]:
    """A call is the answer to a user or to results; any other answer of the model should be."""
    # As if a model had spoken before the first turn, so that a history
    # that begins with the model is found by the same comparison.
    before = "model"
    for content in _contents(body):
        role = content.get("role") or "user"
        if role == "model" == before:
            if _parts(content, "functionCall"):
                yield "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
            else:
                yield Assumed("Please ensure that multiturn requests alternate between user and model.")
        before = role


# Ids are optional here, so the host counts: as many responses as calls, in the next turn
# (field-guide/gemini.md#pairing).
def _paired(body: Body, traits: Traits) -> Iterator[str]:
    contents = _contents(body)
    for index, content in enumerate(contents):
        calls = _values(content, "functionCall")
        after = contents[index + 1] if index + 1 < len(contents) else {}
        answers = _values(after, "functionResponse")
        if calls and len(answers) != len(calls):
            yield (
                "Please ensure that the number of function response parts is equal to the number of function call parts of"
                " the function call turn."
            )
        # Sorted: parallel results may come in any order.
        elif calls and sorted(str(a.get("name")) for a in answers) != sorted(str(c.get("name")) for c in calls):
            yield Assumed("Please ensure that function response names match the function calls.")
        own = _values(content, "functionResponse")
        before = _parts(contents[index - 1], "functionCall") if index else []
        if own and not before:
            yield "Please ensure that function response turn comes immediately after a function call turn."
        for answer in own:
            if not isinstance(answer.get("response"), dict):
                yield Documented(
                    "Invalid value at 'contents.parts.function_response.response' (type.googleapis.com/google.protobuf.Struct)"
                )
        for call in calls:
            if not re.fullmatch(traits.name_pattern, str(call.get("name"))):
                yield Assumed(f"Invalid function name {call.get('name')!r}.")
            if not isinstance(call.get("args", {}), dict):
                yield Documented(
                    "Invalid value at 'contents.parts.function_call.args' (type.googleapis.com/google.protobuf.Struct)"
                )


def _signatures_are_own(body: Body, traits: Traits) -> Iterator[str]:
    contents = _contents(body)
    # Only the calls of the current turn are checked: those after the last words of the user.
    said = max(
        [number for number, each in enumerate(contents) if each.get("role") != "model" and _parts(each, "text")],
        default=-1,
    )
    for index, content in enumerate(contents):
        for part in objects(content.get("parts")):
            signature = part.get("thoughtSignature")
            if signature is None or signature in _BYPASS:
                continue
            if not str(signature).startswith(traits.signature_prefix):
                yield Observed(f"Corrupted thought signature. (contents[{index}])")
        calls = _parts(content, "functionCall")
        # Only the first call of a step carries one.
        if traits.needs_call_signature and calls and not calls[0].get("thoughtSignature"):
            name = _values(content, "functionCall")[0].get("name")
            words = (
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work"
                f" correctly. Function call `default_api:{name}`, position {index}."
            )
            yield words if index > said else Assumed(words)


def _tools_fit(body: Body, traits: Traits) -> Iterator[str]:
    for tool in objects(body.get("tools")):
        for declaration in objects(tool.get("functionDeclarations")):
            name = str(declaration.get("name"))
            if not re.fullmatch(traits.name_pattern, name):
                yield f"* GenerateContentRequest.tools[0].function_declarations[0].name: Invalid function name {name!r}."
            for where in _outside_subset(declaration.get("parameters"), "parameters"):
                yield Observed(
                    f"Invalid JSON payload received. Unknown name {where} at 'tools[0].function_declarations[0]'"
                )


# `parameters` takes a part of OpenAPI 3.0 and refuses any other keyword by name (field-guide/gemini.md#tools); the
# newer `parametersJsonSchema` is not judged.
def _outside_subset(schema: Any, where: str) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    for key in schema:
        if key not in _SCHEMA_FIELDS:
            yield f'"{key}" ({where})'
    if isinstance(schema.get("type"), list):
        yield f'"type" ({where}): a list'
    for name, child in schema["properties"].items() if isinstance(schema.get("properties"), dict) else ():
        yield from _outside_subset(child, f"{where}.{name}")
    yield from _outside_subset(schema.get("items"), f"{where}.items")
    for key in ("anyOf", "any_of"):
        for child in objects(schema.get(key)):
            yield from _outside_subset(child, f"{where}.{key}")


def error(problem: Problem, traits: Traits) -> dict[str, Any]:
    status = _STATUSES.get(problem.status, "UNKNOWN")
    return {"error": {"code": problem.status, "message": problem.message, "status": status}}


RULES = (
    Rule(
        "shape", "observed", "Gemini error texts `Please use a valid role`, `contents.parts must not be empty`, `required oneof`",
        _shape, apart=(Apart("documented", "a request without contents", "Gemini API reference: GenerateContentRequest"),),
        guide="gemini.md#shape",
    ),
    Rule(
        "images are readable", "observed", "Gemini error text `Unsupported MIME type: image/gif` (MaiBot 1435), which its guide explains",
        _images_are_readable, guide="gemini.md#images",
    ),
    Rule(
        "model turns follow", "observed", "Gemini error text `function call turn comes immediately after a user turn`",
        _model_turns_follow, apart=(Apart("assumed", "words of the model at the beginning or after its own"),),
        guide="gemini.md#shape",
    ),
    Rule(
        "paired", "observed", "Gemini error texts `number of function response parts`, `comes immediately after`",
        _paired,
        apart=(
            Apart("documented", "arguments and responses that are not objects", "Gemini API reference: FunctionCall and FunctionResponse"),
            Apart("assumed", "the names of calls and responses"),
        ),
        guide="gemini.md#pairing",
    ),
    Rule(
        "signatures are own", "documented", "Gemini guide on thought signatures: Gemini 3 requires them in the current turn",
        _signatures_are_own,
        apart=(Apart("observed", "a foreign signature", "error text `Corrupted thought signature`"), Apart("assumed", "a missing signature in an earlier turn")),
        guide="gemini.md#thought-signatures",
    ),
    Rule(
        "tools fit", "documented", "Gemini API reference: FunctionDeclaration, and Schema as a subset of OpenAPI 3.0",
        _tools_fit, apart=(Apart("observed", "a keyword that Schema does not have", "error text `Unknown name`"),),
        guide="gemini.md#tools",
    ),
)  # fmt: skip
