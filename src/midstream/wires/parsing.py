"""What the parsers of all wires share: opening a client's body, and making turns, calls, tools and options of its parts.

Parsers are lenient: a field of the wrong type is treated as missing, and what has no canonical form is kept, so that
encoding the result for the same dialect gives the same request again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from ..core.blocks import Block, Media, Opaque, Origin, Text, ToolCall, ToolResponse, Turn
from ..core.dialect import Options
from ..core.errors import InvalidHistory
from ..core.tools import Grammar, ToolKind, ToolSpec, freeform_arguments
from ..core.turn_digest import SaidKeys
from .lenient_json import decode_leniently

# Claude Code puts it before its instructions, and it changes with each request (field-guide/clients.md#claude-code).
BILLING = "x-anthropic-billing-header:"


def open_messages(body: bytes, provider: str, wire: str) -> tuple[dict[str, Any], Origin]:
    """A body with a `messages` list, and who made what the model said in it."""
    value = decode_leniently(body)
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        raise InvalidHistory("expected a JSON object with a `messages` list")
    return value, Origin(provider, wire, text_field(value, "model"))


T = TypeVar("T")


class Said(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message of one text, and nothing else in it."""

    role: Literal["system", "user", "assistant"]
    content: str


def decode_texts(decode: Callable[[bytes], T], body: bytes) -> T | None:
    """A body by the typed decoder of requests that are nothing but texts; None for any other."""
    if b'"tools"' in body:  # a long list of them would only be read to be refused
        return None
    try:
        return decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


def text_turns(messages: Sequence[Said], first: int, origin: Origin) -> tuple[Turn, ...] | None:
    """The turns of messages that are nothing but texts, from the one with the number `first` on; None where a message has rules
    of its own: instructions inside the conversation, and an answer without a word."""
    turns: list[Turn] = []
    key = SaidKeys().of_text
    for said in messages[first:]:
        text = said.content
        if said.role == "user":
            turns.append(Turn("human", (Text(text),), key=key("human", text)))
        elif said.role == "assistant" and text:
            turns.append(Turn("ai", (Text(text),), key=key("ai", text), origin=origin))
        else:
            return None
    return tuple(turns)


def numbered(items: Iterable[Any], what: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a list with their numbers; `what` names one in the error."""
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            raise InvalidHistory(f"{what} {number} is not an object")
        yield number, item


def objects(items: Any) -> list[dict[str, Any]]:
    """The objects of a list; anything else is left out."""
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def text_field(value: dict[str, Any], key: str) -> str:
    # Clients send null, numbers, or nothing; a name is text in any case.
    return str(value.get(key) or "")


def rest(value: dict[str, Any], *known: str) -> dict[str, Any] | None:
    """The fields of an object that were not read, without nulls; None if there are none."""
    # Null counts as absent: keeping it would make two shapes of one message.
    return {key: inner for key, inner in value.items() if key not in known and inner is not None} or None


def make_call(
    raw_id: str,
    name: str,
    arguments: str,
    origin: Origin,
    extra: dict[str, Any] | None = None,
    *,
    freeform: bool = False,
    namespace: str = "",
) -> ToolCall:
    """A call under the id it came with; `canonicalize` gives it its own later. The text of a freeform one is `arguments`."""
    kind: ToolKind = "freeform" if freeform else "function"
    said = freeform_arguments(arguments) if freeform else arguments
    # The id stands in both places for now: `canonicalize` decides which it really is.
    return ToolCall(raw_id, name, said, raw_id or None, origin.provider, extra or None, kind, namespace)


def result_parts(blocks: Iterable[Block]) -> tuple[Text | Media | Opaque, ...]:
    """The blocks that a tool result can hold."""
    return tuple([block for block in blocks if isinstance(block, (Text, Media, Opaque))])


# Messages of two wires put results into the user's turn; the
# conversation keeps them apart, since only results answer calls.
def split_results(blocks: list[Block]) -> list[Turn]:
    """A user message as a tool turn of its results and a human turn of everything else."""
    results = tuple([block for block in blocks if type(block) is ToolResponse])
    if not results:
        return [Turn("human", tuple(blocks))]
    others = tuple([block for block in blocks if type(block) is not ToolResponse])
    return [Turn("tool", results), Turn("human", others)] if others else [Turn("tool", results)]


def joined_results(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    """Results that follow each other are one tool turn. In linear time, however many there are."""
    joined: list[Turn] = []
    # Chat clients send one message for each result.
    for is_result, group in groupby(turns, lambda turn: turn.speaker == "tool"):
        found = list(group)
        if is_result and len(found) > 1:
            found = [Turn("tool", tuple([block for turn in found for block in turn.blocks]))]
        joined += found
    return tuple(joined)


def strings(value: Any) -> tuple[str, ...]:
    """The texts of a list; a text alone is a list of one."""
    if isinstance(value, str):
        return (value,)
    return tuple([item for item in value if isinstance(item, str)]) if isinstance(value, list) else ()


def flag(value: Any) -> bool | None:
    """True, False, or None for anything else."""
    return value if isinstance(value, bool) else None


def system_prompt(texts: Iterable[Text]) -> str | tuple[Text, ...]:
    """A system prompt: plain text if it is a single text without extras."""
    found = tuple(texts)
    # Texts with extras (a cache mark) stay apart, so that they can be sent again with them.
    return found[0].text if len(found) == 1 and found[0].extra is None else found or ""


def make_tool(declared: dict[str, Any], schema: Any, extra: dict[str, Any] | None = None) -> ToolSpec:
    strict = declared.get("strict")
    return ToolSpec(
        text_field(declared, "name"),
        text_field(declared, "description"),
        schema if isinstance(schema, dict) else None,
        strict if isinstance(strict, bool) else None,
        extra=extra or None,
    )


def freeform_tool(declared: dict[str, Any]) -> ToolSpec | None:
    """A freeform tool of either of OpenAI's wires: its fields stand in the tool, or inside of `custom`; the same goes for the
    grammar. None for what is none."""
    # Two shapes of the same thing: Responses has it flat, chat nests it.
    if declared.get("type") != "custom":
        return None
    inner = declared.get("custom")
    tool = inner if isinstance(inner, dict) else declared
    form = tool.get("format")
    form = form if isinstance(form, dict) else {}
    found = form.get("grammar")
    grammar = found if isinstance(found, dict) else form
    spec = Grammar(text_field(grammar, "syntax"), text_field(grammar, "definition"))
    return ToolSpec(
        text_field(tool, "name"),
        text_field(tool, "description"),
        kind="freeform",
        grammar=spec if form.get("type") == "grammar" else None,
        extra=rest(tool, "type", "name", "description", "format"),
    )


def host_tool(tool: dict[str, Any], wire: str) -> ToolSpec:
    """A kind of tool that the core has no word for: it goes back to this wire, and to no other."""
    return ToolSpec(text_field(tool, "name") or text_field(tool, "type"), extra={"tool": tool, "wire": wire})


class OptionFields:
    """The options read from a body: ours in `fields`, everything else in `extra`, to be sent again as it came."""

    __slots__ = ("extra", "fields")

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.extra: dict[str, Any] = {}

    def keep(self, key: str, value: Any) -> None:
        """Keep a field that we have no option for, unless nothing is left of it."""
        if value:
            # `{}` and `[]` say nothing, and some hosts refuse them empty.
            self.extra[key] = value

    def stop(self, value: str | list[Any]) -> None:
        self.fields["stop"] = (value,) if isinstance(value, str) else tuple([str(stop) for stop in value])

    def schema(self, schema: Any) -> None:
        """The answer must follow a JSON schema, which this wire gives no name."""
        self.fields["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}

    def options(self, *, stream: bool) -> Options:
        """A value of a type that its option does not have is treated as missing."""
        # A stranger's `"temperature": "hot"` must not be our TypeError.
        fields = {name: value for name, value in self.fields.items() if _fits(name, value)}
        return Options(stream=stream, extra_body=self.extra or None, **fields)


def _accepts(hint: Any, kind: type) -> bool:
    """Whether every value of a plain type is one of the option's."""
    return hint is kind or (get_origin(hint) in (Union, UnionType) and kind in get_args(hint))


# From the class itself: a new option needs no second list.
_OPTION_TYPES = get_type_hints(Options)


_PLAIN = {
    name: tuple([kind for kind in (bool, int, float, str) if _accepts(hint, kind)])
    for name, hint in _OPTION_TYPES.items()
}
"""The plain types that need no closer look, by option."""


def _fits(name: str, value: Any) -> bool:
    if type(value) in _PLAIN[name]:
        return True
    try:
        msgspec.convert(value, _OPTION_TYPES[name])
    except (msgspec.ValidationError, RecursionError, ValueError):
        return False
    return True
