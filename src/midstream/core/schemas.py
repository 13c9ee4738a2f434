"""JSON schemas as each host accepts them: pure passes from a tool's schema to the nearest one it takes.

A pass never changes its input, is deterministic and idempotent, and loses as little as the host allows: what cannot be
said in a keyword is left out, never refused. `PASSES` names them for dialects: `plain`, `openai`, `anthropic`, `moonshot`,
`gemini`. Input and output are bounded (InvalidSchema), for schemas come from strangers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from .lawful_schemas import SINGLE, lawful, tuple_items, types_of
from .refs import LISTS, MAPS, Budget, Schema, admit, inline_refs, lookup, map_children, root_target

# Alternatives multiply when they are nested; the result of merging them all would be of no use to a model.
MAX_MERGED = 20_000
"""Branches and properties that may be folded into one object."""

# Which type each keyword speaks of. Hosts that want a `type` everywhere get the one that the
# keywords imply, and where a schema of several types is split, each part keeps only its own
# keywords. Keywords that are not here (`enum`, `$ref`, the annotations) hold for every type.
_OWNERS: dict[str, tuple[str, ...]] = {
    "object": (
        "properties", "required", "patternProperties", "additionalProperties", "propertyNames", "dependentSchemas",
        "dependentRequired", "dependencies", "unevaluatedProperties", "minProperties", "maxProperties",
    ),
    "array": (
        "items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems", "additionalItems",
        "unevaluatedItems", "minContains", "maxContains",
    ),
    "string": (
        "pattern", "minLength", "maxLength", "format", "contentEncoding", "contentMediaType", "contentSchema",
    ),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}  # fmt: skip
_OWNER = {keyword: kind for kind, keywords in _OWNERS.items() for keyword in keywords}
ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
# They name the document or places in it. Once references are resolved nothing points at them.
_META = frozenset({"$schema", "$id", "$comment", "$anchor", "$vocabulary", "$dynamicAnchor", "$recursiveAnchor"})
COMBINATORS = ("allOf", "anyOf", "oneOf")
# What may stand without a type at Moonshot: such a schema says it in its branches or at the end of its reference. A `not` or an
# `if` says nothing (field-guide/kimi.md#tools).
_UNTYPED = frozenset({*COMBINATORS, "$ref"})


def plain(schema: Schema) -> Schema:
    """An object at the root, and nothing else touched."""
    return _object_root(schema)


def openai(schema: Schema) -> Schema:
    """OpenAI refuses a combinator, an enum or a `not` at the root of parameters: they become one object. It checks the schema
    against the draft, and wants `items` of every array (field-guide/openai-chat.md#tools)."""
    schema = lawful(schema, _with_items)
    return _object_root(_without(_merged(root_target(schema), schema, Budget(MAX_MERGED)), ("enum", "const", "not")))


def anthropic(schema: Schema) -> Schema:
    """`input_schema` takes no combinator at its root; deeper ones are kept. It has to be valid (field-guide/anthropic-messages.md#tools)."""
    schema = lawful(schema)
    return _object_root(_merged(root_target(schema), schema, Budget(MAX_MERGED)))


def moonshot(schema: Schema) -> Schema:
    """Moonshot's flavour (field-guide/kimi.md#tools): typed everywhere, no `type` beside `anyOf`, nothing beside `$ref`."""
    flat = inline_refs(lawful(schema), "keep")
    root = _object_root(_without(_merged(flat, flat, Budget(MAX_MERGED)), ("enum", "const", "not")))
    buckets: Schema = {
        bucket: {name: _moonshot_node(body) for name, body in root[bucket].items()}
        for bucket in ("$defs", "definitions")
        if bucket in root
    }
    out = {**_moonshot_node(_without(root, buckets)), **buckets}
    # What is left out may have been the last to want a definition.
    return inline_refs(out, "keep") if buckets else out


def gemini(schema: Schema) -> Schema:
    """The OpenAPI-like subset that functionDeclarations.parameters takes."""
    # References are cut and not kept: this subset of OpenAPI has
    # no way to say a definition (field-guide/gemini.md#tools).
    flat = inline_refs(schema, "cut")
    root = _without(_merged(flat, flat, Budget(MAX_MERGED)), ("enum", "const", "nullable"))
    return _gemini_node({**root, "type": "object"})


def _bounded(change: Callable[[Schema], Schema]) -> Callable[[Schema], Schema]:
    """A pass whose input and output are both within the limits, so that its output is again a lawful input."""

    def bounded(schema: Schema) -> Schema:
        # The limits are checked again at the end: unfolding references makes a small schema large.
        return admit(change(admit(schema)))

    bounded.__name__ = change.__name__
    bounded.__doc__ = change.__doc__
    return bounded


PASSES: dict[str, Callable[[Schema], Schema]] = {
    change.__name__: _bounded(change) for change in (plain, openai, anthropic, moonshot, gemini)
}


def _without(schema: Schema, keywords: Iterable[str]) -> Schema:
    gone = frozenset(keywords)
    return {keyword: value for keyword, value in schema.items() if keyword not in gone}


def _object_root(schema: Schema) -> Schema:
    # Every host wants an object with properties as a tool's parameters, also for a tool that takes none.
    out = schema if schema.get("type") == "object" else {**schema, "type": "object"}
    return out if isinstance(out.get("properties"), dict) else {**out, "properties": {}}


def _merged(schema: Schema, root: Schema, budget: Budget, seen: tuple[str, ...] = ()) -> Schema:
    """An object schema with its combinators folded in.

    All properties of all branches are taken. What every branch of an `anyOf` requires stays required; all that an `allOf`
    requires does; what the alternatives differ in is said in the description.
    """
    budget.spend()
    # Most schemas: nothing to merge, and the very same object is given back.
    if not any(keyword in schema for keyword in COMBINATORS):
        return schema
    out = _without(schema, COMBINATORS)
    properties: dict[str, list[Any]] = {name: [value] for name, value in _map(schema.get("properties")).items()}
    required: list[Any] = _list(schema.get("required"))
    hints: list[str] = []
    # `allOf` first: what it requires holds whatever alternative is taken.
    for keyword in COMBINATORS:
        branches = [
            branch
            for each in _list(schema.get(keyword))
            if isinstance(each, dict) and (branch := _branch(each, root, budget, seen)) is not None
        ]
        for branch in branches:
            for name, value in _map(branch.get("properties")).items():
                budget.spend()
                properties.setdefault(name, [])
                # Alternatives that describe a property in the same words
                # are one description. Different ones stay, under `anyOf`.
                if value not in properties[name]:
                    properties[name].append(value)
            if "description" in branch and "description" not in out:
                out["description"] = branch["description"]
        needs = [[name for name in _list(branch.get("required")) if isinstance(name, str)] for branch in branches]
        if keyword == "allOf":
            required += [name for need in needs for name in need]
            for branch in branches:
                # What the schema says itself wins over a branch. A branch that forbids other properties spoke of itself
                # alone: kept, it would forbid those of its neighbours.
                out = {**_without(branch, ("additionalProperties", "unevaluatedProperties")), **out}
        elif needs:
            # A property that every alternative requires is required. The rest cannot be said in keywords, so it is said
            # in words: a model reads descriptions, and the tool itself still checks.
            common = set(needs[0]).intersection(*needs[1:])
            required += [name for name in needs[0] if name in common]
            choices = [", ".join(name for name in need if name not in common) for need in needs]
            if all(choices) and len(set(choices)) > 1:
                hints.append(f"Give {'; or '.join(dict.fromkeys(choices))}.")
    if properties:
        out["properties"] = {
            name: values[0] if len(values) == 1 else {"anyOf": values} for name, values in properties.items()
        }
    if required:
        out["required"] = list(dict.fromkeys(name for name in required if isinstance(name, str)))
    if hints:
        out["description"] = " ".join([text for text in (out.get("description"), *hints) if isinstance(text, str)])
    return out


def _branch(schema: Schema, root: Schema, budget: Budget, seen: tuple[str, ...]) -> Schema | None:
    """One branch of a combinator as an object to merge; None if it is not an object."""
    while "$ref" in schema:
        ref = schema["$ref"]
        target = lookup(root, ref)
        # A branch that leads back to itself, or nowhere, adds nothing.
        if target is None or ref in seen:
            return None
        seen = (*seen, ref)
        schema = {**target, **_without(schema, ("$ref",))}
    schema = _merged(schema, root, budget, seen)
    # A branch without a type is meant as a part of the object it stands in.
    kind = schema.get("type", "object")
    if kind == "object" or (isinstance(kind, list) and "object" in kind):
        return _without(schema, ("type", "$defs", "definitions"))
    return None


def _map(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list) else []


def _kind(value: object) -> str:
    """The JSON type of a value."""
    match value:
        case None:
            return "null"
        # Before `int`: in Python a bool is one.
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "string"


def kinds_of(values: Iterable[object]) -> list[str]:
    """The types among values, integers being numbers where there are other numbers."""
    kinds = list(dict.fromkeys(map(_kind, values)))
    if "number" in kinds and "integer" in kinds:
        kinds.remove("integer")
    return kinds


def _fits(kind: str, wanted: str) -> bool:
    return kind == wanted or (kind == "integer" and wanted == "number")


def structural_type(schema: Schema) -> str | None:
    """The type a schema's keywords speak of."""
    return next((_OWNER[keyword] for keyword in schema if keyword in _OWNER), None)


def _with_items(schema: Schema) -> Schema:
    """An array that says what it holds, if only that it may be anything."""
    if "array" in types_of(schema) and schema.get("items", True) is True:
        return {**schema, "items": {}}
    return schema


def _only(schema: Schema, kind: str) -> Schema:
    """What a schema says about one of its types."""
    owner = "number" if kind == "integer" else kind
    out = {k: v for k, v in schema.items() if _OWNER.get(k, owner) == owner and k != "type"}
    if "enum" in out:
        out["enum"] = [value for value in out["enum"] if _fits(_kind(value), kind)]
        # `null` needs no enum: it has one value. An enum that lost all its values would allow nothing.
        if kind == "null" or not out["enum"]:
            del out["enum"]
    return {"type": kind, **out}


def _split(schema: Schema, kinds: list[str]) -> Schema:
    """A schema of several types as an `anyOf` of schemas of one type; what describes it stays outside."""
    outside = {k: v for k, v in schema.items() if k in ANNOTATIONS}
    inside = {k: v for k, v in schema.items() if k not in ANNOTATIONS}
    return {"anyOf": [_only(inside, kind) for kind in kinds], **outside}


def schemas_only(schema: Schema) -> Schema:
    """Boolean schemas where only objects are understood: `true` is `{}`, what is `false` goes."""
    out = dict(schema)
    for keyword in ("properties", "patternProperties", "dependentSchemas"):
        if isinstance(out.get(keyword), dict):
            out[keyword] = {k: {} if v is True else v for k, v in out[keyword].items() if v is not False}
    for keyword in LISTS:
        if isinstance(out.get(keyword), list):
            # `dict` and `True` stay, `False` and garbage go: an alternative that allows nothing is no alternative.
            out[keyword] = [{} if v is True else v for v in out[keyword] if isinstance(v, dict) or v is True]
            if not out[keyword]:
                del out[keyword]
    if not isinstance(out.get("enum", []), list) or out.get("enum") == []:
        del out["enum"]
    return out


def _moonshot_node(schema: Schema, inherited: str | None = None) -> Schema:
    schema = _without_conditions_twice(schemas_only(tuple_items(_without(schema, _META))))
    if "$ref" in schema:
        # Nothing may stand beside `$ref` (field-guide/kimi.md#tools); a description is worth an `anyOf` of one.
        rest = {k: v for k, v in schema.items() if k in ANNOTATIONS}
        return {"anyOf": [{"$ref": schema["$ref"]}], **rest} if rest else {"$ref": schema["$ref"]}
    named = types_of(schema)
    own = named[0] if len(named) == 1 else None
    if not named:
        schema = _without(schema, ("type",))
        # An enum says its own type by its values, so it does not take that of the schema around it.
        own = inherited if not ("enum" in schema or "const" in schema) else None

    def child(keyword: str, inner: Schema) -> Any:
        if keyword == "additionalProperties" and not inner:
            return True  # typing it, as Moonshot wants of every schema, would forbid what it allows
        # `own` goes down to the branches because `type` may not stand
        # beside `anyOf`: what was said above must be said in each.
        if keyword in COMBINATORS:
            return _moonshot_node(inner, own)
        return _moonshot_node(inner) if keyword in SINGLE or keyword in MAPS or keyword in LISTS else inner

    guess = inherited or ("" if named else _implied_type(schema))
    return _moonshot_type(map_children(schema, child), named, guess)


def _without_conditions_twice(schema: Schema) -> Schema:
    """Moonshot merges the parts of an `allOf`, and refuses two that have conditions: "Conflict in schema definitions for key 'if'"."""
    conditions = ("if", "then", "else")
    parts, seen = schema.get("allOf"), "if" in schema
    if not isinstance(parts, list) or sum("if" in part for part in parts) + seen < 2:
        return schema
    kept: list[Schema] = []
    for part in parts:
        kept.append(_without(part, conditions) if seen else part)
        seen = seen or "if" in part
    return {**schema, "allOf": kept}


def _implied_type(schema: Schema) -> str:
    """The type of a schema that names none: what its keywords speak of, or its conditions."""
    if kind := structural_type(schema):
        return kind
    for keyword in ("then", "else", "if", "not"):
        inner = schema.get(keyword)
        if not isinstance(inner, dict):
            continue
        kinds = types_of(inner) or kinds_of(inner.get("enum", [inner["const"]] if "const" in inner else []))
        if keyword == "not" and types_of(inner) and not inner.keys() - {"type"} - ANNOTATIONS:
            # Anything but these types: one that is left.
            return next(
                (kind for kind in ("string", "object", "number", "boolean", "array") if kind not in kinds), "null"
            )
        kinds = [kind for kind in kinds if kind != "null"]
        if found := kinds[0] if kinds else structural_type(inner):
            return found
    # A string is the least harmful guess: every value can be written as one.
    return "string"


def _moonshot_type(schema: Schema, named: list[str], guess: str) -> Schema:
    # The type has been handed to the branches by `_moonshot_node`.
    if "anyOf" in schema:
        return _without(schema, ("type",))
    if "const" in schema or "enum" in schema:
        values = [schema["const"]] if "const" in schema else schema["enum"]
        # `type` and `enum` can disagree, since hosts that ignore one of them never told the author.
        fitting = [value for value in values if any(_fits(_kind(value), name) for name in named)]
        kinds = kinds_of(values)
        if len(named) == 1 and len(fitting) == len(values):
            return {**schema, "type": named[0]}
        if len(kinds) == 1:  # a type that contradicts all its values is taken for the mistake
            return {**(_only(schema, kinds[0]) if named else schema), "type": kinds[0]}
        return _split(schema, kinds)
    if len(named) > 1:
        return _split(schema, named)
    if named:
        return {**schema, "type": named[0]}
    if any(keyword in schema for keyword in _UNTYPED):
        return schema  # its branches have it
    return {**schema, "type": guess}


# The formats that the subset has for each type. Any other is left out.
_FORMATS = {"string": ("enum", "date-time"), "integer": ("int32", "int64"), "number": ("float", "double")}


def _gemini_node(schema: Schema, inherited: str | None = None) -> Schema:
    schema = fold_all_of(schemas_only(tuple_items(schema)))
    # The subset has no `const`.
    if "const" in schema:
        schema = {**_without(schema, ("const",)), "enum": [schema["const"]]}
    named = types_of(schema)
    # Only objects can be merged. Alternatives of other types stay alternatives.
    if "properties" in schema or named == ["object"]:
        schema = _merged(schema, schema, Budget(MAX_MERGED))
    # Null is a flag here and not a type.
    values = [value for value in schema.get("enum", ()) if value is not None]
    nullable = schema.get("nullable") is True or "null" in named or len(values) < len(schema.get("enum", ()))
    named = [name for name in named if name != "null"]
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    own = named[0] if len(named) == 1 else inherited
    if not alternatives:
        kinds = kinds_of(values) if values else named
        if len(named) == 1 and all(_fits(_kind(value), named[0]) for value in values):
            kinds = named
        if len(kinds) < 2:
            # A type is required everywhere; "string" as above.
            kind = kinds[0] if kinds else inherited or structural_type(schema) or "string"
            return _gemini_typed(schema, kind, values, nullable)
        inside = _without(schema, ANNOTATIONS)
        alternatives = [_only(inside, kind) for kind in kinds]
    return _gemini_any_of(schema, alternatives, own, nullable)


def _gemini_any_of(schema: Schema, alternatives: list[Schema], own: str | None, nullable: bool) -> Schema:
    """Gemini takes nothing beside `anyOf`: what stood there goes into the branches, and null becomes `nullable`."""
    branches: list[Schema] = []
    for each in alternatives:
        if types_of(each) == ["null"] or each.get("enum") == [None] or ("const" in each and each["const"] is None):
            nullable = True
        else:
            node = _gemini_node(each, own)
            # An `anyOf` inside an `anyOf` is flattened.
            branches.extend(node.get("anyOf", [node]))
    outside = {k: schema[k] for k in ("description",) if isinstance(schema.get(k), str)}
    if nullable:
        outside["nullable"] = True
    if not branches:
        return {"type": own or "string", **outside}
    if len(branches) == 1:
        return {**branches[0], **outside}
    distinct: list[Schema] = []
    # The description goes into every branch, since nothing may stand beside `anyOf`.
    for branch in branches:
        branch = {**outside, **branch}
        if branch not in distinct:
            distinct.append(branch)
    return {"anyOf": distinct} if len(distinct) > 1 else distinct[0]


# Written from nothing instead of filtered: a keyword that this subset does not have is refused with `Unknown name`
# (field-guide/gemini.md#tools), and JSON Schema grows.
def _gemini_typed(schema: Schema, kind: str, values: list[Any], nullable: bool) -> Schema:
    out: Schema = {"type": kind}
    for keyword in ("title", "description"):
        if isinstance(schema.get(keyword), str):
            out[keyword] = schema[keyword]
    if nullable:
        out["nullable"] = True
    if schema.get("default") is not None:
        out["default"] = schema["default"]
    if schema.get("format") in _FORMATS.get(kind, ()):
        out["format"] = schema["format"]
    if kind == "string":
        if texts := [value for value in dict.fromkeys(values) if value]:  # an empty string is refused in an enum
            out["enum"] = texts
    elif values:  # enum is for strings only
        said = f"One of: {', '.join(msgspec.json.encode(value).decode() for value in values)}."
        out["description"] = f"{out['description']} {said}" if "description" in out else said
    if kind == "object":
        out |= _gemini_object(schema)
    elif kind == "array":
        out["items"] = _gemini_items(schema)
        out |= {k: schema[k] for k in ("minItems", "maxItems") if type(schema.get(k)) is int}
    elif kind in ("number", "integer"):
        out |= {k: schema[k] for k in ("minimum", "maximum") if type(schema.get(k)) in (int, float)}
    return out


def _gemini_object(schema: Schema) -> Schema:
    """Properties, and of `required` and `propertyOrdering` only what is a property: other names are refused."""
    properties = {
        name: _gemini_node(value) for name, value in _map(schema.get("properties")).items() if isinstance(value, dict)
    }
    if not properties:
        return {}
    out: Schema = {"properties": properties}
    for keyword in ("required", "propertyOrdering"):
        names = [name for name in _list(schema.get(keyword)) if isinstance(name, str) and name in properties]
        if names:
            out[keyword] = list(dict.fromkeys(names))
    return out


def _gemini_items(schema: Schema) -> Schema:
    """An array must say what it holds."""
    items = schema.get("items")
    if isinstance(items, dict):
        return _gemini_node(items)
    if schema.get("prefixItems"):
        return _gemini_any_of({}, schema["prefixItems"], None, False)
    # `items` is required of an array, so something has to be said.
    return {"type": "string"}


def fold_all_of(schema: Schema) -> Schema:
    """An `allOf` as one schema; the first to say a keyword is heard, properties and required names add up."""
    if "allOf" not in schema:
        return schema
    out = _without(schema, ("allOf",))
    for each in schema["allOf"]:
        branch = fold_all_of(schemas_only(each))
        properties = {**_map(branch.get("properties")), **_map(out.get("properties"))}
        required = [
            name for name in _list(out.get("required")) + _list(branch.get("required")) if isinstance(name, str)
        ]
        # The outer schema and earlier branches have said it first.
        out = {**branch, **out}
        if properties:
            out["properties"] = properties
        if required:
            out["required"] = list(dict.fromkeys(required))
    return out
