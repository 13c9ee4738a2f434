"""Three hosts that no row of the registry describes, each with demands of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from midstream.sim.rules import chat
from midstream.sim.rules.hosts import strange_host
from midstream.sim.rules.rule import Body, Check, Rule, Traits
from midstream.sim.stranger import Stranger

# Nine letters or digits or a refusal, and usage inside the choice.
NINE = Stranger(
    "acme",
    strange_host(
        "acme", chat.UNIQUE_IDS, id_pattern="[A-Za-z0-9]{9}", id_message="invalid id {id}: nine characters are due"
    ),
    style={"ids": "nine", "usage": "choice"},
)
# Reasoning in a field of its own name, which must come back with every call, and Kimi's ids, counted through the conversation.
THOUGHTS = Stranger(
    "mulberry",
    strange_host(
        "mulberry",
        replace(chat.OWN_IDS, basis="observed"),
        chat.REASONING,
        id_max=None,
        reasoning_field="thoughts",
        reasoning_message="thoughts are missing in message {index}",
        thinks_by_default=True,
    ),
    style={"ids": "functions", "reasoning_field": "thoughts"},
    thinks=True,
)
# Calls leak as another family's markers; two common fields are unknown to it.
LEAKY = Stranger(
    "juniper",
    strange_host(
        "juniper",
        chat.KNOWN_FIELDS,
        fields=frozenset(
            "model messages tools tool_choice parallel_tool_calls stream max_completion_tokens temperature stop response_format"
            " top_p seed".split()
        ),
    ),
    faults=("leak-xml",),
)
STRANGERS = {stranger.name: stranger for stranger in (NINE, THOUGHTS, LEAKY)}


def _with_calls(body: Body) -> Iterator[dict[str, Any]]:
    return (message for message in body.get("messages") or () if message.get("tool_calls"))


def _no_null(body: Body, traits: Traits) -> Iterator[str]:
    for message in _with_calls(body):
        if "content" in message and message["content"] is None:
            yield "content must not be null"


def _named_results(body: Body, traits: Traits) -> Iterator[str]:
    for message in body.get("messages") or ():
        if message.get("role") == "tool" and not message.get("name"):
            yield "a tool message must name its tool"


def _limited(body: Body, traits: Traits) -> Iterator[str]:
    if not body.get("max_tokens"):
        yield "max_tokens is required"


def _no_stream_options(body: Body, traits: Traits) -> Iterator[str]:
    if "stream_options" in body:
        yield "stream_options is not supported"


def _always_thought(body: Body, traits: Traits) -> Iterator[str]:
    for message in body.get("messages") or ():
        if (
            message.get("role") == "assistant"
            and message.get("tool_calls")
            and not str(message.get("thinking") or "").strip()
        ):
            yield "thinking must be a text that is not blank"


def demanding(name: str, *checks: Check, **more: Any) -> Stranger:
    """A host with demands that are its own."""
    rules = [Rule(check.__name__, "observed", "this double", check) for check in checks]
    return Stranger(name, strange_host(name, *rules, **more.pop("traits", {})), **more)


# One demand each, or two at once: what the search finds has to be exactly this.
DEMANDS: dict[str, tuple[Stranger, dict[str, Any]]] = {
    "null": (demanding("null", _no_null), {"blank_content": "omit"}),
    "names": (demanding("names", _named_results), {"tool_result_name": True}),
    "limit": (demanding("limit", _limited), {"default_max_tokens": 4096}),
    "options": (demanding("options", _no_stream_options), {"stream_usage": False}),
    "pictures": (demanding("pictures", traits={"images": False}), {"media": []}),
    "two": (demanding("two", _named_results, _no_null), {"tool_result_name": True, "blank_content": "omit"}),
    "thinking": (
        demanding("thinking", _always_thought, style={"reasoning_field": "thinking"}, thinks=True),
        {"reasoning": {"field": "thinking", "placeholder": "(not recorded)"}},
    ),
    "anthropic": (
        demanding("anthropic-ids", traits={"id_pattern": "toolu_[A-Za-z0-9_-]+", "id_message": "bad id {id}"}, style={"ids": "toolu"}),
        {"ids": "anthropic"},
    ),
}  # fmt: skip
