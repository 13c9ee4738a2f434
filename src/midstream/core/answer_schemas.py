"""The JSON schema of an answer as each host's mode for it accepts one: pure passes, in the manner of core.schemas.

A pass gives the nearest schema that the host takes, which may allow more than the caller's: what was left out is named, and
the answer is checked against the caller's own schema in any case. It gives None where the mode cannot say what was meant (a
host that wants every object closed cannot be asked for a map): then another way has to be found. An answer that is no
object goes inside of one (`{"value": …}`) where the host takes nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .lawful_schemas import tuple_items, types_of
from .refs import DEFINITIONS, Schema, admit, inline_refs, map_children, root_target
from .schemas import (
    ANNOTATIONS,
    COMBINATORS,
    fold_all_of,
    kinds_of,
    schemas_only,
    structural_type,
)

WRAPPED = "value"
"""The property that holds an answer which is no object itself."""


class Adapted(NamedTuple):
    schema: Schema
    lost: tuple[str, ...] = ()
    """The keywords that had to be left out."""


# An exception, because the reason may lie at any depth: one node that cannot be said makes the whole mode unusable.
class _Unsayable(Exception):
    """The mode cannot say this."""


def is_object(schema: Schema) -> bool:
    """Whether every answer that follows the schema is an object, as far as its root shows."""
    root = root_target(schema)
    # A combinator or an enum may allow anything, whatever `type` says beside it.
    if any(keyword in root for keyword in (*COMBINATORS, "enum", "const")):
        return False
    kind = root.get("type")
    return kind == "object" or (kind is None and "properties" in root)


def wrapped(schema: Schema) -> Schema:
    """An object whose one property is the answer; definitions stay where references expect them."""
    # `$schema` belongs to the document and means nothing inside a property.
    inner = {keyword: value for keyword, value in schema.items() if keyword not in DEFINITIONS and keyword != "$schema"}
    definitions = {keyword: value for keyword, value in schema.items() if keyword in DEFINITIONS}
    # The shell meets the strictest host's demands from the start: closed, and its one property required.
    shell = {"type": "object", "properties": {WRAPPED: inner}, "required": [WRAPPED], "additionalProperties": False}
    return {**shell, **definitions}


def object_root(schema: Schema) -> Schema:
    """The schema, inside of an object if it is of anything else."""
    if is_object(schema):
        root = root_target(schema)
        return {**root, **{key: schema[key] for key in DEFINITIONS if key in schema}, "type": "object"}
    # References to places that move with the root are replaced first.
    return wrapped(schema if _refs_are_definitions(schema) else inline_refs(schema, "keep"))


def _refs_are_definitions(schema: Schema) -> bool:
    stack: list[Any] = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            ref = node.get("$ref")
            # `#/properties/a` and `#` would point elsewhere once the root has become a property.
            if isinstance(ref, str) and not ref.startswith(("#/$defs/", "#/definitions/")):
                return False
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return True


# What every host with such a mode takes. A pass names only what its host takes beyond it, so a keyword that nobody has
# checked is left out and named, rather than sent and refused.
_EVERYWHERE = frozenset(
    {"type", "enum", "const", "properties", "required", "items", "anyOf", "$ref", "description", "title"}
)
_ROOT = frozenset({"$defs", "definitions"})
_NOWHERE = frozenset({
    "if", "then", "else", "not", "contains", "propertyNames", "dependentSchemas", "dependencies", "unevaluatedItems",
    "unevaluatedProperties", "contentSchema",
})  # fmt: skip
"""Keywords with schemas inside that no host's mode knows."""


class _Sieve:
    """Keeps some keywords of a schema and remembers the others."""

    def __init__(self, *more: str, formats: frozenset[str] = frozenset()) -> None:
        self.kept = _EVERYWHERE | _ROOT | frozenset(more)
        self.formats = formats
        self.lost: list[str] = []

    def sift(self, schema: Schema) -> Schema:
        out: Schema = {}
        for keyword, value in schema.items():
            if keyword not in self.kept or (keyword == "format" and self.formats and value not in self.formats):
                # A lost `description` or `$comment` changes no answer, so nobody is told.
                if keyword not in ANNOTATIONS and not keyword.startswith("$"):
                    self.lost.append(keyword)
            else:
                out[keyword] = value
        return out

    def adapted(self, schema: Schema) -> Adapted:
        return Adapted(schema, tuple(sorted(set(self.lost))))


def _everywhere(schema: Schema, sieve: _Sieve, change: Callable[[Schema], Schema]) -> Schema:
    """`change` of every schema inside, innermost first, and of the definitions."""

    def child(_: str, inner: Schema) -> Schema:
        return visit(inner)

    def visit(node: Schema) -> Schema:
        # They are taken out before the walk goes on, so that a pass never has to adapt a schema that will not be sent.
        sieve.lost += [keyword for keyword in node if keyword in _NOWHERE]
        known = {keyword: value for keyword, value in node.items() if keyword not in _NOWHERE}
        return change(map_children(known, child))

    out = visit({keyword: value for keyword, value in schema.items() if keyword not in DEFINITIONS})
    for bucket in DEFINITIONS:
        if isinstance(schema.get(bucket), dict):
            out[bucket] = {name: visit(body) for name, body in schema[bucket].items() if isinstance(body, dict)}
    return out


def _tidy(schema: Schema) -> Schema:
    """One way of writing what has two; `oneOf` as the `anyOf` that allows a little more."""
    schema = fold_all_of(schemas_only(tuple_items(schema)))
    # Answers are checked against the caller's schema afterwards, so a host may be told a little less.
    if "oneOf" in schema and "anyOf" not in schema:
        schema = {("anyOf" if keyword == "oneOf" else keyword): value for keyword, value in schema.items()}
    return schema


def _typed(schema: Schema) -> Schema:
    """With its type said, where it can be told."""
    # Nothing is sent beside a reference, since not every mode takes it.
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    if "anyOf" in schema or types_of(schema):
        return schema
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and values:
        kinds = kinds_of(values)
        return {"type": kinds[0] if len(kinds) == 1 else kinds, **schema}
    kind = structural_type(schema)
    # A host that wants a type everywhere would have to be told one, and any would forbid something that was allowed.
    if kind is None:
        raise _Unsayable
    return {"type": kind, **schema}


def _closed(schema: Schema) -> Schema:
    """An object with no other properties than those it names; one that is meant to have others cannot be said."""
    if "object" not in types_of(schema):
        return schema
    rest = schema.get("additionalProperties")
    # A map with keys of any name. Closing it would forbid all of them.
    if isinstance(rest, dict) or rest is True or "patternProperties" in schema:
        raise _Unsayable
    # An object without properties that is not closed means "any object".
    if not schema.get("properties") and rest is not False:
        raise _Unsayable
    return {**schema, "properties": schema.get("properties", {}), "additionalProperties": False}


def _object(schema: Schema) -> Adapted:
    """An object at the root, and nothing else touched."""
    return Adapted(object_root(schema))


# The limits of the strict mode (field-guide/openai-chat.md#structured-output).
# Beyond them the request is refused, so another way to ask is better.
_STRICT_FORMATS = frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split())
_MAX_STRICT = 1000
_MAX_STRICT_DEPTH = 10


def _openai(schema: Schema) -> Adapted:
    """OpenAI's strict subset: every object closed and every property required, null where it may be missing."""
    sieve = _Sieve(
        "additionalProperties", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
        "multipleOf", "minItems", "maxItems", formats=_STRICT_FORMATS,
    )  # fmt: skip
    count = 0

    def strict(node: Schema) -> Schema:
        nonlocal count
        node = _tidy(node)
        # A tuple has no words in it.
        if "prefixItems" in node:
            raise _Unsayable
        node = sieve.sift(_closed(_typed(node)))
        if "properties" not in node:
            return node
        count += len(node["properties"])
        required = node.get("required", [])
        # What need not be there becomes null, since the mode requires every property. `without_nulls` in
        # `midstream.core.schema_check` takes these nulls out of the answer again.
        properties = {
            name: inner if name in required else _nullable(inner) for name, inner in node["properties"].items()
        }
        return {**node, "properties": properties, "required": list(properties)}

    out = _everywhere(object_root(schema), sieve, strict)
    if count > _MAX_STRICT or _depth(out) > _MAX_STRICT_DEPTH:
        raise _Unsayable
    return sieve.adapted(out)


def _nullable(schema: Schema) -> Schema:
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    # Neither can be given a second type.
    if "$ref" in schema or "const" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    kinds = types_of(schema)
    if "null" in kinds:
        return schema
    out = {**schema, "type": [*kinds, "null"]}
    return {**out, "enum": [*schema["enum"], None]} if "enum" in schema else out


def _depth(schema: Any) -> int:
    """How deeply objects are nested."""
    if isinstance(schema, list):
        return max(map(_depth, schema), default=0)
    if not isinstance(schema, dict):
        return 0
    return ("properties" in schema) + max(map(_depth, schema.values()), default=0)


# The mode's limits on optional properties and on unions. Beyond
# them the request is refused, so another way to ask is better.
_MAX_OPTIONAL, _MAX_UNIONS = 24, 16


def _closed_objects(schema: Schema) -> Adapted:
    """Every object closed, no recursion, no limits of numbers and lengths (Anthropic's structured outputs)."""
    sieve = _Sieve("additionalProperties", "format", "minItems", "default", formats=_STRICT_FORMATS | {"uri"})
    optional = unions = 0

    def close(node: Schema) -> Schema:
        nonlocal optional, unions
        node = _tidy(node)
        # References are inlined before; one that is left is a recursion, which the mode does not have
        # (field-guide/anthropic-messages.md#structured-output).
        if "$ref" in node or "prefixItems" in node:
            raise _Unsayable
        node = sieve.sift(_closed(_typed(node)))
        optional += len([name for name in node.get("properties", ()) if name not in node.get("required", ())])
        unions += "anyOf" in node or len(types_of(node)) > 1
        # Of the list bounds only 0 and 1 are known.
        if node.get("minItems", 0) not in (0, 1):
            sieve.lost.append("minItems")
            del node["minItems"]
        return node

    out = _everywhere(object_root(inline_refs(schema, "keep")), sieve, close)
    if optional > _MAX_OPTIONAL or unions > _MAX_UNIONS:
        raise _Unsayable
    # The definitions have been put where they were used; none may be left to be refused.
    return sieve.adapted({keyword: value for keyword, value in out.items() if keyword not in DEFINITIONS})


def _gemini(schema: Schema) -> Adapted:
    """What `responseJsonSchema` knows; nothing may stand beside a reference."""
    sieve = _Sieve("additionalProperties", "prefixItems", "format", "minItems", "maxItems", "minimum", "maximum")

    def known(node: Schema) -> Schema:
        node = _tidy(node)
        if "$ref" in node:
            return {"$ref": node["$ref"]}
        # An enum of one value says the same.
        if "const" in node:
            node = {**{k: v for k, v in node.items() if k != "const"}, "enum": [node["const"]]}
        return sieve.sift(node)

    top = root_target(schema)
    return sieve.adapted(
        _everywhere({**top, **{key: schema[key] for key in DEFINITIONS if key in schema}}, sieve, known)
    )


def _cohere(schema: Schema) -> Adapted:
    """No combinators and no limits, and something required in the object at the root."""
    sieve = _Sieve("format", "pattern", formats=frozenset({"date-time", "uuid", "date", "time"}))
    # Combinators are the one thing of the common set that this host does not have.
    sieve.kept -= {"anyOf"}

    def plain(node: Schema) -> Schema:
        node = _tidy(node)
        if any(keyword in node for keyword in ("anyOf", "$ref", "prefixItems")):
            raise _Unsayable
        node = _typed(node)
        if len(types_of(node)) > 1:
            raise _Unsayable
        if "object" in types_of(node) and not node.get("properties"):
            raise _Unsayable
        return sieve.sift(node)

    out = _everywhere(object_root(inline_refs(schema, "keep")), sieve, plain)
    if not out.get("required"):
        raise _Unsayable
    return sieve.adapted(out)


def _grammar(schema: Schema) -> Adapted:
    """What llama.cpp makes a grammar of; it refuses a pattern without anchors and a schema that says nothing it knows, and an
    unknown format leaves it without any grammar."""
    sieve = _Sieve(
        "additionalProperties", "prefixItems", "pattern", "format", "minItems", "maxItems", "minimum", "maximum",
        "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", formats=_STRICT_FORMATS | {"uri"},
    )  # fmt: skip

    def known(node: Schema) -> Schema:
        node = _tidy(node)
        if "$ref" in node:
            return {"$ref": node["$ref"]}
        pattern = node.get("pattern")
        if pattern is not None and not _simple(pattern):
            sieve.lost.append("pattern")
            node = {keyword: value for keyword, value in node.items() if keyword != "pattern"}
        node = sieve.sift(node)
        if "anyOf" in node or "enum" in node or "const" in node:
            return node
        try:
            return _typed(node)
        # An empty schema is allowed here: a grammar for it takes any value.
        except _Unsayable:
            return {}

    flat = inline_refs(schema, "keep")
    if any("~" in name or "/" in name for bucket in DEFINITIONS for name in flat.get(bucket, ())):
        flat = inline_refs(schema, "cut")  # the engine reads no escapes in a reference
    return sieve.adapted(_everywhere(flat, sieve, known))


def _simple(pattern: object) -> bool:
    """A pattern of the few signs that such grammars read: anchored, without looking ahead or back and without classes by
    letter other than those every reader knows."""
    return (
        isinstance(pattern, str)
        and pattern.startswith("^")
        and pattern.endswith("$")
        and "(?" not in pattern
        and not any(f"\\{sign}" in pattern for sign in "bBpPkuxc")
    )


# By name, for `Dialect`. The names are those of the modes, not of hosts: several hosts share one.
PASSES: dict[str, Callable[[Schema], Adapted]] = {
    "object": _object,
    "openai": _openai,
    "closed": _closed_objects,
    "gemini": _gemini,
    "cohere": _cohere,
    "grammar": _grammar,
}
STRICT_BY_WORD = frozenset({"openai"})
"""Passes of hosts that enforce a schema only if they are told to (`strict`), and take one outside the subset as advice."""


def adapt(name: str, schema: Schema) -> Adapted | None:
    """The schema by this pass; None if the host's mode cannot say it."""
    try:
        found = PASSES[name](admit(schema))
    except _Unsayable:
        return None
    # A pass may grow a schema by unfolding references, so its result is measured too.
    admit(found.schema)
    return found
