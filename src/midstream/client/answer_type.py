"""What an answer must be, as a caller says it: a type or a JSON schema; and how the model's text becomes a value of it.

Types are those that msgspec knows (Structs, dataclasses, TypedDicts, lists and unions of them), pydantic's models and type
adapters, which are known by their methods: pydantic is not imported here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from ..core.answer_schemas import WRAPPED, is_object
from ..core.blocks import Text, Turn, Value, human
from ..core.errors import InvalidSchema, LocalError, MalformedStream, MidstreamError, SchemaMismatch
from ..core.events import Done, ErrorEvent, ErrorInfo
from ..core.refs import admit, inline_refs
from ..core.schema_check import faults, without_nulls
from ..wires.lenient_json import decode_leniently

T = TypeVar("T")

_FENCE = "```"
# Bounds on the search for JSON in a text: an answer full of brackets (code, say) must not be tried at each of them.
_OPENING = re.compile(r"[{\[]")
_TRIES = 64
"""So many brackets in an answer are tried as the beginning of its JSON, and so many fenced blocks."""
_REF = "#/$defs/{name}"
# How an answer may end without being whole. Asking again would end in the same way, so it is not done.
CUT = {
    "max_tokens": "the answer reached its token limit, so it is not whole; allow more with max_tokens",
    "refusal": "the model declined to answer",
}


class Parsed(Value, Generic[T], frozen=True):
    """A whole answer that follows its schema: the value, and the turn it was read from."""

    value: T
    turn: Turn
    rejected: Turn | None = None
    """The answer before it, which did not follow the schema and was asked for again."""


class AnswerType(Generic[T]):
    """`schema` is the JSON schema; `read` gives the value of an answer, or raises SchemaMismatch."""

    def __init__(self, given: Any) -> None:
        self.given = given
        schema, self._convert = _understood(given)
        self.schema: dict[str, Any] = admit(schema)
        # Many hosts want an object at the root of a schema, so a list or
        # a number is put inside one for the request and taken out here.
        self._wrappable = not is_object(self.schema)

    @classmethod
    def of(cls, given: Any) -> AnswerType[T]:
        """This type, or the one made of it."""
        return given if isinstance(given, AnswerType) else cls(given)

    def read(self, turn: Turn) -> T:
        """The value of an answer; SchemaMismatch says what is wrong with it."""
        first: tuple[str, ...] = ()
        for value in self._candidates(turn):
            try:
                return self._value(value)
            except _NotIt as error:
                # Of several candidates the first is the likeliest to be what
                # the model meant, so its faults are the ones worth telling.
                first = first or error.places
        places = first or ("$: expected JSON, got " + (repr(turn.text[:60]) if turn.text else "nothing"),)
        if turn.stop_reason in CUT:
            places = (CUT[turn.stop_reason], *places)
        raise SchemaMismatch(turn.text, places)

    def last_word(self, turn: Turn) -> T:
        """As `read`, for an answer that may have failed, or call tools."""
        turn.raise_for_failure()
        if turn.tool_calls:
            names = ", ".join([call.name for call in turn.tool_calls])
            raise LocalError(
                f"the answer calls tools ({names}) and has no value yet: add their results and send on, or use an Agent"
            )
        return self.read(turn)

    def checked(self, last: Done | ErrorEvent) -> Done | ErrorEvent:
        """The end of an answer; one that does not follow the schema has failed. With calls, it is not the last word."""
        if isinstance(last, ErrorEvent) or last.turn.tool_calls:
            return last
        try:
            self.read(last.turn)
        except SchemaMismatch as error:
            return ErrorEvent(ErrorInfo.of(error), replace(last.turn, failure=error.kind))
        return last

    @staticmethod
    def asks_again(failed: ErrorEvent) -> bool:
        """Whether an answer is to be asked for again: it is whole, and does not follow its schema."""
        return failed.error.kind == SchemaMismatch.kind and failed.turn.stop_reason not in CUT

    @staticmethod
    def reproach(turn: Turn, error: MidstreamError) -> tuple[Turn, Turn]:
        """What is put behind the conversation to ask again: the answer, and what is wrong with it. Neither is kept."""
        wrong = "\n".join([f"- {place}" for place in getattr(error, "places", ())])
        words = f"This answer does not follow the JSON schema:\n{wrong}\nAnswer again, whole, with nothing but the corrected JSON."
        # A failed turn is never sent; for this one request the model has to see what it wrote.
        return replace(turn, failure=""), human(words)

    def _candidates(self, turn: Turn) -> Iterator[Any]:
        """The JSON values that the answer may mean: all of it, a part of it, a fenced block, what stands between words."""
        texts = [block.text for block in turn.blocks if type(block) is Text]
        # From the likeliest to the least: the whole text, then its last block (a model that explains itself first
        # puts the answer at the end), then fenced blocks and bare brackets, the last ones first for the same reason.
        for text in dict.fromkeys([turn.text, *reversed(texts)]):
            try:
                yield decode_leniently(text.strip())
            except MalformedStream:
                pass
        for block in turn.text.split(_FENCE)[1::2][: -_TRIES - 1 : -1]:
            try:
                yield decode_leniently(block.partition("\n")[2].strip())  # the first line names the language
            except MalformedStream:
                pass
        yield from reversed(list(_embedded(turn.text)))
        if self._wrappable and turn.text.strip():
            yield turn.text.strip()  # a text that was to be in quotes

    def _value(self, value: Any) -> T:
        """The value as the type; one that was put inside an object for its host is taken out."""
        tries = [value]
        if self._wrappable and isinstance(value, dict) and list(value) == [WRAPPED]:
            tries.insert(0, value[WRAPPED])
        wrong: tuple[str, ...] = ()
        for each in tries:
            # Strict schemas have no optional fields: what a type
            # leaves out comes as null, and is tried without those too.
            for shape in (each, without_nulls(each, self.schema)):
                try:
                    found: T = self._convert(shape)
                except _NotIt as error:
                    wrong = wrong or error.places
                else:
                    return found
        raise _NotIt(wrong)


class _NotIt(Exception):
    """A value does not follow the schema."""

    def __init__(self, places: tuple[str, ...]) -> None:
        super().__init__(places)
        self.places = places


def _understood(given: Any) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """The JSON schema of what a caller gave, and what makes a value of it."""
    if isinstance(given, dict):
        return given, _as_it_is(given)
    # By its methods: importing pydantic to ask for its types would cost more than most programs' whole start.
    schema_of, validate = getattr(given, "model_json_schema", None), getattr(given, "model_validate", None)
    if callable(schema_of) and callable(validate):
        return _by_pydantic(schema_of(), validate)
    schema_of, validate = getattr(given, "json_schema", None), getattr(given, "validate_python", None)
    if callable(schema_of) and callable(validate):
        return _by_pydantic(schema_of(), validate)
    try:
        (root,), components = msgspec.json.schema_components([given], ref_template=_REF)
    except (TypeError, NameError, RecursionError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        raise InvalidSchema(
            f"no JSON schema can be made of {given!r}: {reason}; expected a JSON schema (a dict), a msgspec Struct, a dataclass, a "
            "TypedDict, a pydantic model, or a list or union of such types"
        ) from None
    schema = {**root, "$defs": components} if components else dict(root)
    try:
        # Without references where possible: some hosts do not follow them, and models read them badly.
        schema = inline_refs(schema, "keep")
    except InvalidSchema:
        pass  # with its references it is short enough

    def convert(value: Any) -> Any:
        try:
            return msgspec.convert(value, given, strict=True)
        except (msgspec.ValidationError, RecursionError) as error:
            # `faults` lists every fault with its place; the library
            # stops at the first, so its words are only the fallback.
            raise _NotIt(faults(value, schema) or (_placed(error),)) from None

    return schema, convert


def _as_it_is(schema: dict[str, Any]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        wrong = faults(value, schema)
        if wrong:
            raise _NotIt(wrong)
        return value

    return convert


def _by_pydantic(schema: dict[str, Any], validate: Callable[[Any], Any]) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    def convert(value: Any) -> Any:
        try:
            return validate(value)
        except ValueError as error:  # pydantic's ValidationError is one, and so is what a validator raises
            raise _NotIt(faults(value, schema) or _told(error)) from None

    return schema, convert


def _told(error: ValueError) -> tuple[str, ...]:
    listed = getattr(error, "errors", None)
    if not callable(listed):
        return (f"$: {error}",)
    found = []
    for each in listed():
        place = "".join([f"[{part}]" if isinstance(part, int) else f".{part}" for part in each.get("loc", ())])
        found.append(f"${place}: {each.get('msg', 'invalid')}")
    return tuple(found)


def _placed(error: Exception) -> str:
    text, at, place = str(error).rpartition(" - at `")
    return f"{place.rstrip('`')}: {text}" if at else f"$: {error}"


def _embedded(text: str) -> Iterator[Any]:
    """The objects and lists that stand in a text, one after another."""
    decoder = json.JSONDecoder(strict=False, parse_constant=lambda _: None)
    at = tries = 0
    while tries < _TRIES and (found := _OPENING.search(text, at)) is not None:
        tries += 1
        try:
            value, at = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            at = found.end()
            continue
        yield value
