"""Whether a JSON value follows a JSON schema, and what is wrong with it if not.

The keywords of draft 2020-12 are read but for `unevaluatedProperties`, `unevaluatedItems` and references to other documents;
`format` is an annotation, as the draft has it, and a `pattern` that Python cannot read is passed over. The walk is bounded:
what would take longer counts as a fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from math import isfinite
from typing import Any, TypeGuard

import msgspec

from .refs import lookup

# Both the value (from a model) and the schema (from a caller or a stranger's server) can be hostile. A combinator tries
# its branches again at every level, so steps are counted and not only depth.
_DEPTH = 128
_STEPS = 500_000
# Twenty faults tell a model enough to mend its answer; a list of 3,000 items that are all wrong would fill its window.
_MOST = 20
_SHOWN = 60
_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    # 1.0 is an integer in JSON Schema, and `True` is an int in Python but not in JSON.
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def faults(value: Any, schema: Any) -> tuple[str, ...]:
    """What is wrong with a value, place by place (`$.people[0].age: expected integer, got "x"`); nothing if all is well."""
    checker = _Checker(schema)
    found: list[str] = []
    try:
        for place, problem in checker.check(value, schema, "$", 0):
            found.append(f"{place}: {problem}")
            if len(found) == _MOST:
                break
    except _TooLong as error:
        found.append(str(error))
    # `anyOf` and `$ref` can report one place twice.
    return tuple(dict.fromkeys(found))


def without_nulls(value: Any, schema: Any) -> Any:
    """The value without the properties that are null, need not be there, and may not be null: models that must say every
    property say so that there is none."""
    try:
        return _Checker(schema).pruned(value, schema, 0)
    except _TooLong:
        return value


class _TooLong(Exception):
    pass


class _Checker:
    def __init__(self, root: Any) -> None:
        self._root = root if isinstance(root, dict) else {}
        self._left = _STEPS

    def check(self, value: Any, schema: Any, place: str, depth: int) -> Iterator[tuple[str, str]]:
        self._left -= 1
        if depth > _DEPTH or self._left < 0:
            raise _TooLong(f"{place}: too large or too deep to be checked")
        if schema is False:
            yield place, "nothing is allowed here"
        # `true` and everything that is no schema at all: nothing to hold the value to.
        if not isinstance(schema, dict):
            return
        # Since 2019-09 a reference is one keyword among others: what stands beside it is checked as well.
        if "$ref" in schema:
            target = lookup(self._root, schema["$ref"])
            if target is not None:
                yield from self.check(value, target, place, depth + 1)
        # JSON has no infinity, but a parser makes one of 1e999.
        if isinstance(value, float) and not isfinite(value):
            yield place, "the number is larger than a number can be"
            return
        kinds = schema.get("type")
        if kinds is not None:
            named = [str(kind).lower() for kind in (kinds if isinstance(kinds, list) else [kinds])]
            if not any(_TYPES[kind](value) for kind in named if kind in _TYPES):
                yield place, f"expected {' or '.join(named)}, got {_shown(value)}"
                # One fault is enough for a value of the wrong type; its length or its properties would only repeat it.
                return
        if "const" in schema and not _same(value, schema["const"]):
            yield place, f"expected {_shown(schema['const'])}, got {_shown(value)}"
        choices = schema.get("enum")
        if isinstance(choices, list) and not any(_same(value, choice) for choice in choices):
            yield place, f"expected one of {', '.join(map(_shown, choices[:12]))}, got {_shown(value)}"
        yield from self._combined(value, schema, place, depth)
        if isinstance(value, str):
            yield from _text(value, schema, place)
        elif _is_number(value):
            yield from _number(value, schema, place)
        elif isinstance(value, list):
            yield from self._array(value, schema, place, depth)
        elif isinstance(value, dict):
            yield from self._object(value, schema, place, depth)

    def _fits(self, value: Any, schema: Any, depth: int) -> bool:
        # Lazily: the first fault answers the question.
        return next(self.check(value, schema, "$", depth + 1), None) is None

    def _combined(self, value: Any, schema: dict[str, Any], place: str, depth: int) -> Iterator[tuple[str, str]]:
        for each in _list(schema.get("allOf")):
            yield from self.check(value, each, place, depth + 1)
        options = schema.get("anyOf")
        if isinstance(options, list) and options and not any(self._fits(value, each, depth) for each in options):
            yield from self._nearest(value, options, place, depth)
        options = schema.get("oneOf")
        if isinstance(options, list) and options:
            fitting = sum(self._fits(value, each, depth) for each in options)
            if not fitting:
                yield from self._nearest(value, options, place, depth)
            elif fitting > 1:
                yield place, f"fits {fitting} of the alternatives, and may fit only one"
        if "not" in schema and self._fits(value, schema["not"], depth):
            yield place, f"{_shown(value)} is excluded"
        if "if" in schema:
            branch = schema.get("then" if self._fits(value, schema["if"], depth) else "else")
            # A missing branch is None, which is no schema and holds the value to nothing.
            yield from self.check(value, branch, place, depth + 1)

    def _nearest(self, value: Any, options: list[Any], place: str, depth: int) -> Iterator[tuple[str, str]]:
        """The faults of the alternative that gets furthest: the one whose faults lie deepest."""
        # At most so many alternatives: a schema may list thousands, and this is only for the message.
        tried = [list(self.check(value, each, place, depth + 1))[:_MOST] for each in options[:32]]
        # Longer places lie deeper: the alternative that went wrong at `$.a[0].b`
        # is the one that was meant, not the one that was already wrong at `$`.
        deepest = max(tried, key=lambda found: (max([len(at) for at, _ in found], default=0), -len(found)))
        if all(at == place for at, _ in deepest):
            yield place, f"fits none of the {len(options)} alternatives: {deepest[0][1] if deepest else _shown(value)}"
        else:
            yield from deepest

    def _array(self, value: list[Any], schema: dict[str, Any], place: str, depth: int) -> Iterator[tuple[str, str]]:
        yield from _counted(len(value), schema, "minItems", "maxItems", place, "items")
        items = schema.get("items")
        before = _list(schema.get("prefixItems"))
        if isinstance(items, list):  # the old way to write prefixItems
            before, items = items, schema.get("additionalItems")
        for number, item in enumerate(value):
            inner = before[number] if number < len(before) else items
            if inner is not None:
                yield from self.check(item, inner, f"{place}[{number}]", depth + 1)
        if schema.get("uniqueItems") is True:
            # By canonical bytes: comparing every pair would be quadratic.
            keys = [msgspec.json.encode(_sorted(item)) for item in value]
            if len(set(keys)) < len(keys):
                yield place, "an item stands twice in it"
        if "contains" in schema:
            count = sum(self._fits(item, schema["contains"], depth) for item in value)
            least = schema.get("minContains", 1)
            most = schema.get("maxContains")
            if count < least or (most is not None and count > most):
                yield place, f"{count} of its items are what it must contain"

    def _object(
        self, value: dict[str, Any], schema: dict[str, Any], place: str, depth: int
    ) -> Iterator[tuple[str, str]]:
        for name in _list(schema.get("required")):
            if name not in value:
                yield place, f"the property {_shown(name)} is missing"
        yield from _counted(len(value), schema, "minProperties", "maxProperties", place, "properties")
        for name, needed in _map(schema.get("dependentRequired")).items():
            for other in _list(needed) if name in value else ():
                if other not in value:
                    yield place, f"the property {_shown(other)} is missing beside {_shown(name)}"
        for name, inner in _map(schema.get("dependentSchemas")).items():
            if name in value:
                yield from self.check(value, inner, place, depth + 1)
        known = _map(schema.get("properties"))
        patterns = [(_compiled(text), inner) for text, inner in _map(schema.get("patternProperties")).items()]
        rest = schema.get("additionalProperties")
        names = schema.get("propertyNames")
        for name, item in value.items():
            # Written as a person would write the path; a name that is no identifier is quoted.
            at = f"{place}.{name}" if name.isidentifier() else f"{place}[{_shown(name)}]"
            if names is not None:
                yield from self.check(name, names, at, depth + 1)
            if name in known:
                yield from self.check(item, known[name], at, depth + 1)
            # `search`, not `match`: patterns of JSON Schema are not anchored.
            fitting = [inner for pattern, inner in patterns if pattern is not None and pattern.search(name)]
            for inner in fitting:
                yield from self.check(item, inner, at, depth + 1)
            # `additionalProperties` is about those that neither list knows.
            if name in known or fitting or rest is None:
                continue
            if rest is False:
                yield at, "there is no such property"
            else:
                yield from self.check(item, rest, at, depth + 1)

    def pruned(self, value: Any, schema: Any, depth: int) -> Any:
        self._left -= 1
        if depth > _DEPTH or self._left < 0:
            raise _TooLong
        if not isinstance(schema, dict):
            return value
        if "$ref" in schema:
            target = lookup(self._root, schema["$ref"])
            if target is not None:
                value = self.pruned(value, target, depth + 1)
        for each in _list(schema.get("allOf")):
            value = self.pruned(value, each, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            for each in _list(schema.get(keyword)):
                shorter = self.pruned(value, each, depth + 1)
                # The first alternative that fits after pruning. Otherwise a null
                # that one alternative allows would be taken out because of another.
                if self._fits(shorter, each, depth):
                    value = shorter
                    break
        if isinstance(value, list) and isinstance(schema.get("items"), dict):
            return [self.pruned(item, schema["items"], depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        known, required = _map(schema.get("properties")), _list(schema.get("required"))
        rest = schema.get("additionalProperties")
        return {
            name: self.pruned(item, known.get(name, rest), depth + 1)
            for name, item in value.items()
            # Only a property that is known, may be missing and may not be null: everything else null may be meant.
            if item is not None or name in required or name not in known or self._fits(None, known[name], depth)
        }


def _text(value: str, schema: dict[str, Any], place: str) -> Iterator[tuple[str, str]]:
    yield from _counted(len(value), schema, "minLength", "maxLength", place, "characters")
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        compiled = _compiled(pattern)
        if compiled is not None and not compiled.search(value):
            yield place, f"{_shown(value)} does not match {pattern}"


def _number(value: float, schema: dict[str, Any], place: str) -> Iterator[tuple[str, str]]:
    for keyword, words, wrong in _BOUNDS:
        bound = schema.get(keyword)
        if _is_number(bound) and wrong(value, bound):
            yield place, f"{_figure(value)} must be {words} {_figure(bound)}"
    step = schema.get("multipleOf")
    if _is_number(step) and step > 0 and not _is_multiple(value, step):
        yield place, f"{_figure(value)} is no multiple of {_figure(step)}"


def _is_multiple(value: float, step: float) -> bool:
    try:
        parts = value / step
        # 0.3 / 0.1 is not 3 in binary.
        return abs(parts - round(parts)) <= 1e-9
    except OverflowError:  # JSON has integers of any length, and floats end at 1e308
        from fractions import Fraction

        return (Fraction(repr(value)) / Fraction(repr(step))).denominator == 1


def _figure(number: float) -> str:
    try:
        return f"{number:g}"
    except OverflowError:
        return f"{str(number)[:20]}…"


_BOUNDS: tuple[tuple[str, str, Callable[[float, float], bool]], ...] = (
    ("minimum", "at least", lambda value, bound: value < bound),
    ("maximum", "at most", lambda value, bound: value > bound),
    ("exclusiveMinimum", "more than", lambda value, bound: value <= bound),
    ("exclusiveMaximum", "less than", lambda value, bound: value >= bound),
)


def _counted(
    count: int, schema: dict[str, Any], least: str, most: str, place: str, what: str
) -> Iterator[tuple[str, str]]:
    low, high = schema.get(least), schema.get(most)
    if _is_number(low) and count < low:
        yield place, f"expected at least {_figure(low)} {what}, got {count}"
    if _is_number(high) and count > high:
        yield place, f"expected at most {_figure(high)} {what}, got {count}"


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: 1 is 1.0, and true is no number."""
    if _is_number(one) and _is_number(other):
        return bool(one == other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    return type(one) is type(other) and bool(one == other)


def _sorted(value: Any) -> Any:
    """A form in which equal values are written alike."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@lru_cache(256)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        # The dialect of JSON Schema is ECMAScript's. A pattern that Python cannot read says nothing about the value.
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return None


def _shown(value: Any) -> str:
    try:
        text = msgspec.json.encode(value).decode()
    except (ValueError, TypeError, RecursionError, OverflowError, UnicodeError):
        text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
