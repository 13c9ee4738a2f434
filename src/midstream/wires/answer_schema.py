"""How an answer is made to follow a JSON schema: the best way that the dialect has for this request.

The host's own mode, if it takes the schema beside what else is asked; a tool that must be called, whose call is told as the
answer's text (wires/decode_context.py); or words. Words stand in a message of their own behind the conversation and belong to
this one request: what is before them is what the next request begins with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ..core.answer_schemas import STRICT_BY_WORD, Adapted, adapt, object_root
from ..core.blocks import Text, Turn
from ..core.dialect import Dialect, Options
from ..core.errors import MalformedStream
from ..core.handoff import Note
from ..core.tools import ToolSpec
from .lenient_json import decode_leniently, json_value
from .reasoning import thinking_on
from .registry import get_wire

ANSWER = "answer"
"""The name of the tool, and of the schema where a host wants one."""
_TOOL = "Give the answer, in the form that the parameters describe. Call it exactly once."


class AnswerPlan(msgspec.Struct, frozen=True):
    """What a request with a schema is sent as."""

    options: Options
    tools: tuple[ToolSpec, ...] = ()
    words: tuple[Turn, ...] = ()
    """What is said behind the conversation, in this request alone."""
    tool: str = ""
    """The tool whose call is the answer."""
    notes: tuple[Note, ...] = ()


def plan_answer(dialect: Dialect, options: Options, tools: Sequence[ToolSpec]) -> AnswerPlan:
    """How `options.schema` is asked for."""
    assert options.schema is not None
    schema = options.schema
    # The two would contradict each other: the schema is said by one way only.
    bare = replace(options, schema=None, response_format=None)
    # Best first. A way that the schema or the request does not fit gives None, and the next one is asked.
    for way in dialect.answer_ways:
        plan = _PLANS[way](dialect, bare, tools, schema)
        if plan is not None:
            return plan
    note = Note(
        "adapted",
        "option",
        "schema_in_words",
        "the schema of the answer is told in words: this host has no mode that fits",
    )
    return AnswerPlan(bare, tuple(tools), _words(schema, bool(tools)), notes=(note,))


def plan_json(dialect: Dialect, options: Options, tools: Sequence[ToolSpec]) -> AnswerPlan | None:
    """How JSON without a schema is asked for where the host has no mode for it; None where it has one."""
    if get_wire(dialect.wire).json_mode and _has_format(dialect, options, tools):
        return None
    words = (Turn("human", (Text(f"{_when(tools)} {_SAID_JSON}"),)),)
    note = Note("adapted", "option", "schema_in_words", "JSON is asked for in words: this host has no mode that fits")
    return AnswerPlan(replace(options, response_format=None), tuple(tools), words, notes=(note,))


def _has_format(dialect: Dialect, options: Options, tools: Sequence[ToolSpec]) -> bool:
    allowed = dialect.sampling
    if dialect.sampling_thinking is not None and thinking_on(dialect, options):
        allowed = dialect.sampling_thinking
    return "response_format" in allowed and (dialect.answer_beside_tools or not tools)


def _takes_format(dialect: Dialect, options: Options, tools: Sequence[ToolSpec]) -> bool:
    # A prefill has begun the answer in the caller's own words, which need not be how the schema's answer begins.
    return _has_format(dialect, options, tools) and not options.prefill


def _by_schema(
    dialect: Dialect, options: Options, tools: Sequence[ToolSpec], schema: dict[str, Any]
) -> AnswerPlan | None:
    if not _takes_format(dialect, options, tools):
        return None
    adapted, strict = adapt(dialect.answer_pass, schema), True
    # Outside the strict subset this host still takes a schema as
    # advice. Better than none, since the answer is checked anyway.
    by_word = dialect.answer_pass in STRICT_BY_WORD
    if adapted is None and by_word:
        adapted, strict = Adapted(object_root(schema)), False  # told to the model, and not enforced
    if adapted is None:
        return None
    named: dict[str, Any] = {"name": ANSWER, "schema": adapted.schema}
    if dialect.strict_tools and by_word:
        named["strict"] = strict
    wanted = replace(options, response_format={"type": "json_schema", "json_schema": named})
    return AnswerPlan(wanted, tuple(tools), notes=_left_out(adapted))


def _by_grammar(
    dialect: Dialect, options: Options, tools: Sequence[ToolSpec], schema: dict[str, Any]
) -> AnswerPlan | None:
    plan = _by_schema(dialect, options, tools, schema)
    # A grammar binds what may be written, and tells the model nothing about what the fields mean
    # (field-guide/openai-chat.md#structured-output): so the words are said besides.
    return None if plan is None else replace(plan, words=_words(schema, bool(tools)))


def _by_json(
    dialect: Dialect, options: Options, tools: Sequence[ToolSpec], schema: dict[str, Any]
) -> AnswerPlan | None:
    if not _takes_format(dialect, options, tools) or tools:  # any JSON: a model may then write its calls as the answer
        return None
    note = Note("adapted", "option", "schema_in_words", "the host is asked for JSON, and told the schema in words")
    wanted = replace(options, response_format={"type": "json_object"})
    return AnswerPlan(wanted, words=_words(object_root(schema), False), notes=(note,))


def _by_tool(
    dialect: Dialect, options: Options, tools: Sequence[ToolSpec], schema: dict[str, Any]
) -> AnswerPlan | None:
    """A tool that must be called; not beside other tools, which would be forced with it."""
    # Some models refuse a forced choice while they think (field-guide/kimi.md#tool-choice).
    forced = dialect.forced_choice_thinking if thinking_on(dialect, options) else dialect.forced_choice
    if tools or not dialect.native_tools or not forced or options.tool_format is not None or options.prefill:
        return None
    tool = ToolSpec(ANSWER, _TOOL, object_root(schema))
    # By name where the host takes one. With a single tool, `required` leaves no choice either.
    wanted = replace(options, tool_choice=ANSWER if "named" in forced else "required", parallel_tool_calls=None)
    note = Note("adapted", "option", "schema_adapted", "the answer is asked for as the call of a tool with this schema")
    return AnswerPlan(wanted, (tool,), tool=ANSWER, notes=(note,))


_PLANS = {"schema": _by_schema, "grammar": _by_grammar, "json": _by_json, "tool": _by_tool}
"""What each of a dialect's `answer_ways` is; a plan that does not fit the request is None."""


def _left_out(adapted: Adapted) -> tuple[Note, ...]:
    if not adapted.lost:
        return ()
    why = f"the schema of the answer is sent without {', '.join(adapted.lost)}, which this host does not take"
    return (Note("adapted", "option", "schema_adapted", why),)


# One sentence each, in one place: the doubles find what is asked for by it.
_SAID = "with one JSON value that follows this JSON schema, and nothing else:\n"
_SAID_JSON = "with one JSON object, and nothing else."


def _when(tools: Sequence[ToolSpec] | bool) -> str:
    return "Once you need no more tools, answer" if tools else "Answer"


def _words(schema: dict[str, Any], tools: bool) -> tuple[Turn, ...]:
    return (Turn("human", (Text(f"{_when(tools)} {_SAID}{json_value(schema).decode()}"),)),)


def is_json_in_words(text: str) -> bool:
    """Whether such words ask for JSON without a schema."""
    return text.endswith(_SAID_JSON)


def schema_in_words(text: str) -> dict[str, Any] | None:
    """The schema that such words tell, for a double that obeys them."""
    _, said, written = text.rpartition(_SAID)
    try:
        found = decode_leniently(written) if said else None
    except MalformedStream:
        return None
    return found if isinstance(found, dict) else None
