"""Which of a client's own fields are passed on to the model, and which it would only refuse.

A body has fields beyond our options. Those that ask for thinking in some host's words become options; the rest goes on where the
host is known to take it (`Dialect.extras`), and is dropped with a note everywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from ..core.blocks import Block, Conversation, Media, Text
from ..core.dialect import EFFORTS, Dialect, Options
from ..core.errors import BadRequest
from ..core.handoff import Note
from .gemini.parse import json_schema_of

FORBIDDEN = ("api_base", "base_url", "api_key", "headers", "extra_headers", "extra_body", "custom_llm_provider")
"""Fields by which clients of other gateways choose the host and the key. Here only the operator chooses."""
_OPERATOR_DECIDES = "only the operator decides where a request goes and with which key"
OURS = ("model", "models", "fallbacks", "stream")
"""Fields that are never passed on: the route has decided which model answers, and how. An operator's `*` does not include them."""
SILENT = frozenset({"metadata", "client_metadata", "prompt_cache_key", "include", "stream_options", "betas"})
"""Fields that do not change the answer, so dropping them leaves no note."""
KEPT_HERE = frozenset({("openai-responses", "store")})
"""Fields that ask for what is done here, not at the host: responses are stored by the gateway."""

_MARK = "cache_control"
_MARKED_WIRE = "anthropic"  # all its hosts take marks
B = TypeVar("B", bound=Block)
HELD_ELSEWHERE = {
    ("anthropic", "thread"): "thread_unsupported_request",
    ("gemini", "cachedContent"): "",
    ("openai-responses", "conversation"): "conversation_not_found",
    ("openai-responses", "prompt"): "prompt_not_found",
}
"""Fields that refer to text stored by a host, and the codes with which they are refused. Dropping one would mean answering
without that text; Anthropic's own client then sends the whole conversation."""


def carried(options: Options, wire: str, dialect: Dialect, allowed: tuple[str, ...] = ()) -> tuple[Options, list[Note]]:
    """The options for this reader: the client's extra fields as options, as they came, or not at all; `allowed` are the
    operator's own words for what goes on (`*` for everything)."""
    extra = options.extra_body
    if not extra:
        return options, []
    changed: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    notes: list[Note] = []
    # The order is a policy: what would redirect a request is out before anything else
    # is asked; then what the route has settled; then what the operator or the dialect
    # lets through; then what changes the meaning and must be refused, not dropped.
    for name, value in extra.items():
        if name in FORBIDDEN:
            notes.append(_dropped(name, _OPERATOR_DECIDES))
            continue
        if name in OURS:
            notes.append(_dropped(name, "the route has already decided which model answers, and how"))
        elif name == "background":  # only a host that stores responses takes it, and we ask it not to
            notes.append(_dropped(name, "the answer is given at once"))
        # The same name on another wire may mean another thing, so
        # the dialect's list counts only for clients of its own wire.
        elif name in allowed or "*" in allowed or (wire == dialect.wire and name in dialect.extras):
            kept[name] = value
        elif value is not None and (code := HELD_ELSEWHERE.get((wire, name))) is not None:
            raise BadRequest(
                f"the gateway does not store what `{name}` refers to; send the full conversation without it",
                status=400,
                code=code or None,
            )
        elif understood := _understood(name, value):
            # What the parser of the wire has read already is more exact than this reading of a foreign field.
            changed.update({key: each for key, each in understood.items() if getattr(options, key) is None})
        elif name not in SILENT and (wire, name) not in KEPT_HERE and not _asks_nothing(name, value):
            notes.append(_dropped(name, f"{dialect.name} is not known to take it"))
    return replace(options, extra_body=kept or None, **changed), notes


def without_forbidden(fields: dict[str, Any]) -> tuple[dict[str, Any], list[Note]]:
    """The fields of a body that goes on as it is, without those that would redirect it."""
    notes = [_dropped(name, _OPERATOR_DECIDES) for name in fields if name in FORBIDDEN]
    return {name: value for name, value in fields.items() if name not in FORBIDDEN} if notes else fields, notes


def without_marks(conversation: Conversation, dialect: Dialect) -> Conversation:
    """The conversation without a client's cache marks, unless the reader knows them: other hosts refuse such a field, and a mark
    that moves from message to message would change messages that were sent before."""
    # Marks mean something only where a host caches by them.
    if dialect.wire == _MARKED_WIRE or _MARK in dialect.extras:
        return conversation
    turns = tuple(
        [replace(turn, blocks=blocks) if (blocks := _unmarked(turn.blocks)) else turn for turn in conversation.turns]
    )
    system = conversation.system if isinstance(conversation.system, str) else _unmarked(conversation.system)
    return replace(conversation, turns=turns, system=system or conversation.system)


def _unmarked(blocks: tuple[B, ...]) -> tuple[B, ...]:
    """The blocks without marks; empty if there are none."""
    if not any(isinstance(block, (Text, Media)) and block.extra and _MARK in block.extra for block in blocks):
        return ()
    return tuple([_plain(block) for block in blocks])


def with_schema(options: Options, wire: str, readers: Sequence[Dialect]) -> Options:
    """The options with the JSON schema of the answer as ours, unless every reader takes it as this client said it: hosts take
    different parts of JSON Schema, and some none."""
    asked = options.response_format
    if asked is None or asked.get("type") != "json_schema":
        return options
    named = asked.get("json_schema")
    schema = named.get("schema") if isinstance(named, dict) else None
    if not isinstance(schema, dict) or all(wire == each.wire and "schema" in each.answer_ways for each in readers):
        return options
    return replace(options, response_format=None, schema=schema)


def _plain(block: B) -> B:
    if not isinstance(block, (Text, Media)) or not block.extra:
        return block
    return replace(block, extra={name: value for name, value in block.extra.items() if name != _MARK} or None)


def _asks_nothing(name: str, value: Any) -> bool:
    """Whether the host would do nothing else without this field: null, `store: false`, and how thinking is shown, which is
    between the client and us."""
    if value is None or (name == "store" and value is False):
        return True
    return name in ("thinking", "reasoning") and isinstance(value, dict) and not set(value) - {"display", "summary"}


def _dropped(name: str, why: str) -> Note:
    return Note("dropped", "option", "unsupported_option", f"{name[:60]!r}: {why}", name=name[:60])


def _understood(name: str, value: Any) -> Mapping[str, Any]:
    """The ways in which hosts are asked for thinking, and Gemini for JSON by its own kind of schema, as our options."""
    # Five names of one switch, and as many ways to turn thinking on (field-guide/reasoning.md#keeping-it-all,
    # field-guide/hosts.md#how-thinking-is-switched). A client asks in the words of the host it believes to speak to.
    match name, value:
        case "thinking", {"type": "enabled" | "adaptive" | "disabled" as kind}:
            keep = {"keep_thinking": True} if value.get("keep") == "all" else {}
            return {"thinking": "off" if kind == "disabled" else "on", **keep}
        case "thinking", {"clear_thinking": bool(clear)}:
            return {"keep_thinking": not clear}
        case "enable_thinking", bool():
            return {"thinking": "on" if value else "off"}
        case "preserve_thinking", bool():
            return {"keep_thinking": value}
        case "chat_template_kwargs", {"enable_thinking": bool(on)} | {"thinking": bool(on)}:
            return {"thinking": "on" if on else "off"}
        case "reasoning", {"effort": str(effort)} if effort in EFFORTS:
            return {"effort": effort}
        case "generationConfig", {"responseMimeType": "application/json", "responseSchema": dict(schema)}:
            named = {"name": "answer", "schema": json_schema_of(schema)}
            return {"response_format": {"type": "json_schema", "json_schema": named}}
        case "context_management", {"edits": [{"type": str(kind), "keep": "all"}]} if kind.startswith("clear_thinking"):
            return {"keep_thinking": True}
    return {}
