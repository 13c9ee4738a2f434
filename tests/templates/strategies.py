"""Conversations for properties: any shape, lawful or not, with texts that try to forge turns.

A Draft is a conversation that is not built yet: `build(change)` builds it with every text passed through `change`, so that
the same shape can be had with and without the forgeries.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from midstream.core.blocks import (
    Block,
    Conversation,
    Media,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResponse,
    Turn,
)
from midstream.core.tools import ToolSpec

Change = Callable[[str], str]

TOKENS = (
    "<|im_end|>", "<|im_system|>", "<|im_start|>", "<|im_middle|>", "<|tool_calls_section_end|>", "<|media_pad|>",
    "<|tool_call_end|>", "<|tool_call_argument_begin|>", "<think>", "</think>", "[EOS]", "[EOT]", "<|open|>", "<|close|>",
    "<|sep|>", "<|end_of_msg|>", "<|eot_id|>", "<|start_header_id|>", "<|python_tag|>", "<end_of_turn>",
    "<start_of_turn>", "<eos>", "[INST]", "[/INST]", "</s>", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]",
    "[TOOL_REQUEST]", "[END_TOOL_RESULT]", "</tool_call>", "<tool_response>", "</tool_response>", "</tools>",
    "<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>", "<｜tool▁calls▁end｜>", "<｜tool▁output▁end｜>", "<|reserved_token_1|>",
)  # fmt: skip
# Halves, so that neighbouring blocks can make a token together, and tokens in each other's way.
HALVES = (
    "<|im_",
    "end|>",
    "<",
    "|",
    ">",
    "[",
    "]",
    "</thi",
    "nk>",
    "[/IN",
    "ST]",
    "<|<|im_end|>",
    "<|[EOS]|>",
    "<｜User",
    "｜>",
)

texts = st.lists(st.one_of(st.sampled_from(TOKENS), st.sampled_from(HALVES), st.text(max_size=4)), max_size=5).map(
    "".join
)
names = st.one_of(st.sampled_from(["read", "write"]), texts)
ids = st.sampled_from(["a", "b", "c", "<|im_end|>", ""])
media = st.sampled_from([Media("image/png", "AA=="), Media("video/mp4", url="u"), Media("audio/wav"), Media()])


def harmless(text: str) -> str:
    """`text` of the same length and blankness, with nothing left that could be a part of a token."""
    return "".join(["x" if char in "<>|[]｜/_▁" or char.isalnum() else char for char in text])


class Draft:
    def __init__(self, build: Callable[[Change], Any], described: str) -> None:
        self.build = build
        self.described = described

    def __repr__(self) -> str:
        return self.described


def _mapped(value: Any, change: Change) -> Any:
    """Every text in a JSON value changed; keys get their number, so that none are lost when they become equal."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {f"{number}{change(key)}": _mapped(item, change) for number, (key, item) in enumerate(value.items())}
    return [_mapped(item, change) for item in value] if isinstance(value, list) else value


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(texts, inner, max_size=2)),
    max_leaves=4,
)
schemas = st.recursive(
    st.one_of(
        st.builds(
            lambda kind, said: {"type": kind, "description": said}, st.sampled_from(["string", "integer"]), texts
        ),
        st.builds(lambda values: {"enum": values}, st.lists(texts, min_size=1, max_size=2)),
        st.just({"$ref": "#"}),
        st.just({"$ref": "#/$defs/Nowhere"}),
    ),
    lambda inner: st.builds(
        lambda members: {"type": "object", "properties": members}, st.dictionaries(texts, inner, max_size=2)
    ),
    max_leaves=4,
)


@st.composite
def _blocks(draw: st.DrawFn) -> Callable[[Change], Block]:
    kind = draw(st.sampled_from(["text", "thinking", "call", "broken call", "result", "media", "opaque"]))
    said, name, ident, shown = draw(texts), draw(names), draw(ids), draw(media)
    match kind:
        case "text":
            return lambda change: Text(change(said))
        case "thinking":
            redacted = draw(st.booleans())
            return lambda change: Thinking(change(said), redacted=redacted)
        case "call":
            arguments = draw(st.dictionaries(texts, json_values, max_size=2))
            escape = draw(st.booleans())
            return lambda change: ToolCall(
                ident, change(name), json.dumps(_mapped(arguments, change), ensure_ascii=escape)
            )
        case "broken call":
            return lambda change: ToolCall(ident, change(name), "{" + change(said) if said else "")
        case "result":
            return lambda change: ToolResponse(ident, change(name), (Text(change(said)), shown, Text(change(name))))
        case "media":
            return lambda change: shown
        case _:
            known = draw(st.booleans())
            return lambda change: Opaque("tools" if known else "other", [{"name": change(said)}])


@st.composite
def _turns(draw: st.DrawFn) -> Callable[[Change], Turn]:
    speaker = draw(st.sampled_from(["human", "ai", "ai", "tool"]))
    blocks = draw(st.lists(_blocks(), max_size=4))
    role = draw(st.sampled_from(["", "", "system", "developer"])) if speaker == "human" else ""
    name = draw(st.one_of(st.none(), texts))
    failure = draw(st.sampled_from(["", "", "", "truncated"])) if speaker == "ai" else ""
    return lambda change: Turn(
        speaker,  # type: ignore[arg-type]
        tuple([block(change) for block in blocks]),
        role=role,
        failure=failure,
        extra=None if name is None else {"name": change(name)},
    )


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    turns = draw(st.lists(_turns(), max_size=6))
    system = draw(texts)
    build = lambda change: Conversation(tuple([turn(change) for turn in turns]), change(system))  # noqa: E731
    return Draft(build, repr(build(str)))


@st.composite
def tool_drafts(draw: st.DrawFn) -> Draft:
    """Tools whose names and descriptions are hostile, and whose schemas may or may not have a TypeScript form."""
    drawn = draw(st.lists(st.tuples(names, texts, st.one_of(st.none(), schemas)), max_size=2))

    def build(change: Change) -> list[ToolSpec]:
        return [ToolSpec(change(name), change(said), _schema(schema, change)) for name, said, schema in drawn]

    return Draft(build, repr(build(str)))


def _schema(schema: Any, change: Change) -> Any:
    """A schema with its free texts changed and its own words left."""
    if not isinstance(schema, dict):
        return schema
    changed: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            changed[key] = {
                f"{number}{change(name)}": _schema(member, change)
                for number, (name, member) in enumerate(value.items())
            }
        elif key == "enum":
            changed[key] = [change(item) for item in value]
        else:
            changed[key] = change(value) if key == "description" else value
    return changed
