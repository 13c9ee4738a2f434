"""References inside a JSON schema: looked up, and replaced by what they point at.

`inline_refs` leaves a schema without references, but for definitions that contain themselves: `keep` leaves those as bare
`$ref`s with the definitions they need, `cut` puts a plain object where they would go round again. Keywords beside a
`$ref` win over the same keywords of its target. A reference that points nowhere becomes a plain object.
Schemas come from strangers (MCP servers), so every walk is bounded and ends in InvalidSchema, never in a blow-up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

from .errors import InvalidSchema
from .patterns import late_pattern

Schema: TypeAlias = dict[str, Any]

# The limits protect the walk, not the host: a few definitions that refer to each other several times unfold
# exponentially, and a tool's schema comes from whatever server the user connected.
MAX_DEPTH = 96
"""Nesting of objects and lists, after references are followed."""
MAX_SIZE = 1_000_000
"""Characters and values, after references are followed: no provider takes a request of such tools."""
# Definitions that contain each other unfold along every path through them until each has met itself, which is
# exponential in their number.
MAX_UNROLL = 3
"""How many self-containing definitions may be nested before `cut` cuts."""

# Where schemas are found inside a schema: under every name of MAPS, in every item of LISTS, and directly under any
# other keyword with an object. DATA is what must never be entered: a `default` or an `enum` may hold an object that
# looks like a schema, even with a `$ref` in it, and is a value all the same.
MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
DEFINITIONS = frozenset({"$defs", "definitions"})
DATA = frozenset({"enum", "const", "default", "examples", "example", "required", "dependentRequired", "type"})

_PERCENT = late_pattern(r"(?:%[0-9A-Fa-f]{2})+")
_DEFINITION = late_pattern(r"#/(\$defs|definitions)/([^/]+)\Z")
_MISSING = object()


class Budget:
    """What one pass may still visit."""

    __slots__ = ("left",)

    def __init__(self, size: int = MAX_SIZE) -> None:
        self.left = size

    def spend(self, cost: int = 1) -> None:
        self.left -= cost
        if self.left < 0:
            raise InvalidSchema("the schema is too large, itself or once its references are followed")


def admit(schema: object) -> Schema:
    """`schema` itself, if it is an object within the limits; InvalidSchema if not. Never recurses."""
    # With a stack of its own: this is what makes the recursive walks after it safe from a schema nested 10,000 deep.
    if not isinstance(schema, dict):
        raise InvalidSchema(f"a schema must be an object, got {type(schema).__name__}")
    budget = Budget()
    stack: list[tuple[Any, int]] = [(schema, 1)]
    while stack:
        value, depth = stack.pop()
        budget.spend(1 + len(value) if isinstance(value, str) else 1)
        if isinstance(value, (dict, list)) and depth > MAX_DEPTH:
            raise InvalidSchema(f"the schema is nested deeper than {MAX_DEPTH}")
        if isinstance(value, dict):
            for key, child in value.items():
                if not isinstance(key, str):
                    raise InvalidSchema(f"a key of the schema must be a string, got {type(key).__name__}")
                budget.spend(len(key))
                stack.append((child, depth + 1))
        elif isinstance(value, list):
            stack.extend([(child, depth + 1) for child in value])
    return schema


def map_children(schema: Schema, change: Callable[[str, Schema], Any]) -> Schema:
    """A copy in which every schema directly inside `schema` is replaced by `change(keyword, child)`."""
    out: Schema = {}
    for keyword, value in schema.items():
        if keyword in DATA:
            out[keyword] = value
        elif keyword in MAPS and isinstance(value, dict):
            out[keyword] = {k: change(keyword, v) if isinstance(v, dict) else v for k, v in value.items()}
        elif isinstance(value, list) and (keyword in LISTS or keyword == "items"):
            out[keyword] = [change(keyword, v) if isinstance(v, dict) else v for v in value]
        elif isinstance(value, dict) and keyword not in DEFINITIONS:
            out[keyword] = change(keyword, value)
        else:
            out[keyword] = value
    return out


def lookup(root: Schema, ref: object) -> Schema | None:
    """The schema a local reference points at; None if there is none."""
    found = _target(root, ref)
    return found if isinstance(found, dict) else None


def resolves(root: Schema, ref: object) -> bool:
    """Whether a local reference points at a schema, `true` and `false` among them."""
    return isinstance(_target(root, ref), (dict, bool))


def _target(root: Schema, ref: object) -> Any:
    if not isinstance(ref, str) or not ref.startswith("#"):
        return None
    found = _walk(root, ref[1:])
    # As written first: a name may contain a percent sign. JSON pointers in a
    # URI fragment are percent-encoded, though not every generator does it.
    if found is _MISSING and "%" in ref:
        found = _walk(root, _PERCENT.sub(_decode, ref[1:]))
    return found


def _decode(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace")


def _walk(root: Schema, pointer: str) -> Any:
    node: Any = root
    if not pointer:
        return node
    head, *steps = pointer.split("/")
    if head:
        return _MISSING
    for step in steps:
        # In this order, or `~01` would become a slash (RFC 6901).
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and step in node:
            node = node[step]
        # `isdigit` alone takes digits of other scripts, and `int` of a long run of them takes quadratic time.
        elif isinstance(node, list) and step.isascii() and step.isdigit() and len(step) < 7 and int(step) < len(node):
            node = node[int(step)]
        else:
            return _MISSING
    return node


def root_target(root: Schema) -> Schema:
    """The root with a reference at the root itself followed: no provider takes a `$ref` there."""
    seen: set[str] = set()
    schema = root
    while "$ref" in schema:
        ref = schema["$ref"]
        rest = {k: v for k, v in schema.items() if k != "$ref"}
        target = lookup(root, ref)
        if target is None or ref in seen:
            return rest
        seen.add(ref)
        # What stands beside a reference wins, here and in `_follow`: generators put a better description there.
        schema = {**target, **rest}
    return schema


def inline_refs(schema: Schema, recursive: Literal["keep", "cut"] = "keep") -> Schema:
    """`schema` with its local references replaced by their targets."""
    return _Inliner(admit(schema), recursive == "keep").run()


class _Inliner:
    def __init__(self, root: Schema, keep: bool) -> None:
        # With `keep`, a recursive definition stays as it is and is listed at the end. Definitions that do not contain
        # themselves are put where they are used in either mode, because hosts differ most in how they read references.
        self.root = root
        self.keep = keep
        self.budget = Budget()
        self.endless = _endless(root, self.budget)
        self.wanted: set[str] = set()  # definitions that stay
        self.todo: list[tuple[str, re.Match[str]]] = []

    def run(self) -> Schema:
        top = root_target(self.root)
        # Definitions are left out here and everywhere below; those still needed come back as `buckets`.
        out = self._visit({k: v for k, v in top.items() if k not in DEFINITIONS}, (), 1)
        buckets: dict[str, Schema] = {}
        while self.todo:  # a definition that stays may want others
            ref, match = self.todo.pop()
            target = lookup(self.root, ref)
            assert target is not None
            name = match[2].replace("~1", "/").replace("~0", "~")
            # Depth 3: a definition lies inside its bucket, which lies inside the root.
            buckets.setdefault(match[1], {})[name] = self._visit(target, (), 3)
        # Sorted, so that the same schema always gives the same bytes, whichever reference was met first.
        return {**out, **{bucket: dict(sorted(names.items())) for bucket, names in sorted(buckets.items())}}

    def _visit(self, schema: Schema, open_refs: tuple[str, ...], depth: int) -> Schema:
        if depth > MAX_DEPTH:
            raise InvalidSchema(f"the schema is nested deeper than {MAX_DEPTH} once its references are followed")
        self.budget.spend(_own_size(schema))
        if "$ref" in schema:
            return self._follow(schema, open_refs, depth)
        inner = {k: v for k, v in schema.items() if k not in DEFINITIONS}
        return map_children(inner, lambda _, child: self._visit(child, open_refs, depth + 1))

    def _follow(self, schema: Schema, open_refs: tuple[str, ...], depth: int) -> Schema:
        ref = schema["$ref"]
        # `rest` may itself hold schemas.
        rest = self._visit({k: v for k, v in schema.items() if k != "$ref"}, open_refs, depth)
        target = lookup(self.root, ref)
        # A dangling reference is a defect of the generator. An object is what it
        # most likely stood for, and refusing the tool for it would help nobody.
        if target is None:
            return {"type": "object", **rest}
        if ref in self.endless:
            named = _DEFINITION.match(ref)
            if self.keep and named:
                if ref not in self.wanted:
                    self.wanted.add(ref)
                    self.todo.append((ref, named))
                return {"$ref": ref, **rest}
            # By how many recursive definitions are open, not by this one alone: see MAX_UNROLL.
            if ref in open_refs or len([r for r in open_refs if r in self.endless]) >= MAX_UNROLL:
                return {"type": "object", **rest}
        return {**self._visit(target, (*open_refs, ref), depth + 1), **rest}


def _own_size(schema: Schema) -> int:
    """The cost of what a schema holds besides its inner schemas."""
    cost = 1
    for keyword, value in schema.items():
        cost += len(keyword)
        if isinstance(value, str):
            cost += len(value)
        elif keyword in DATA and isinstance(value, (list, dict)):
            # Data is never entered, so it has to be paid for as a whole.
            cost += len(repr(value))
        elif keyword in MAPS and isinstance(value, dict):
            cost += sum(map(len, value))
    return cost


def _refs_in(schema: Schema, budget: Budget) -> set[str]:
    """The references that stand in a schema, outside its definitions."""
    found: set[str] = set()
    stack = [schema]
    while stack:
        node = stack.pop()
        budget.spend()
        ref = node.get("$ref")
        if isinstance(ref, str):
            found.add(ref)
        stack.extend(_inner(node))
    return found


def _inner(schema: Schema) -> Iterator[Schema]:
    children: list[Schema] = []
    # `map_children` is the one place that knows where schemas lie. Its copy is thrown away here.
    map_children(schema, lambda _, child: children.append(child))
    return iter(children)


def _endless(root: Schema, budget: Budget) -> frozenset[str]:
    """The references that lead into a cycle, found by taking away, again and again, those that lead nowhere further."""
    # Not a depth-first search for cycles: this takes time linear in the references, without recursion, and also finds
    # those that merely lead into a cycle, which can no more be unfolded than the cycle itself.
    leads_to: dict[str, set[str]] = {}
    todo = ["#"]
    while todo:
        ref = todo.pop()
        if ref in leads_to:
            continue
        target = lookup(root, ref)
        leads_to[ref] = _refs_in(target, budget) if target is not None else set()
        todo.extend(leads_to[ref])
    comes_from: dict[str, list[str]] = {ref: [] for ref in leads_to}
    for ref, targets in leads_to.items():
        for target_ref in targets:
            comes_from[target_ref].append(ref)
    open_count = {ref: len(targets) for ref, targets in leads_to.items()}
    ends = [ref for ref, count in open_count.items() if not count]
    finite: set[str] = set()
    while ends:
        ref = ends.pop()
        finite.add(ref)
        for source in comes_from[ref]:
            open_count[source] -= 1
            if not open_count[source]:
                ends.append(source)
    return frozenset(set(leads_to) - finite)
