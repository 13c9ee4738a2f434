"""The checks that hold for every answer, whatever was asked: leaks, ends, ids, indexes, names, arguments, usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.errors import EmptyAnswer, MidstreamError
from ..core.plural import pluralize
from ..core.schema_check import faults
from ..core.tools import ToolSpec
from .checks import ABSENT, FAIL, PASS, UNSURE, Findings
from .interview import Exchange
from .observation import Observation, SeenCall, markers, shown

# What hosts of a wire say behind calls, and only there. A wire that has no word of its own for it is not judged by one.
_CALL_WORDS = {
    "openai-chat": ("tool_calls", "function_call"),
    "anthropic": ("tool_use",),
    "cohere": ("TOOL_CALL", "tool_call"),
}
_NO_IDS = frozenset({"gemini", "ollama", "completion"})
"""Wires whose hosts give no ids to calls, or print them into text."""
_UNASKED_USAGE = "no usage came, and none was asked for: this host does not take stream_options"


def judge_answer(exchange: Exchange, found: Findings) -> None:
    """Judge one answer; a refusal is none."""
    if exchange.refused or (exchange.turn is None and not isinstance(exchange.error, MidstreamError)):
        return
    seen, tools = exchange.seen, {tool.name: tool for tool in exchange.request.tools}
    _judge_words(exchange, seen, found)
    _judge_end(exchange, seen, found)
    if seen.calls:
        _judge_ids(exchange, seen, found)
        _judge_calls(exchange, seen.calls, tools, found)
    if seen.labels and seen.calls:
        _judge_labels(seen, found)
    _judge_usage(exchange, seen, found)


def _judge_words(exchange: Exchange, seen: Observation, found: Findings) -> None:
    if seen.text.strip() or seen.calls or (exchange.turn is not None and exchange.turn.tool_calls):
        found.add(
            "answer.said",
            PASS,
            f"text of {pluralize(len(seen.text), 'character')}, {pluralize(len(seen.calls), 'call')}",
        )
    elif exchange.is_cut:
        found.add("answer.said", UNSURE, "the limit of tokens was reached before any text")
    elif exchange.stop_reason not in ("end_turn", "tool_use", "unknown", ""):
        found.add("answer.said", UNSURE, f"the answer ended with {exchange.stop_reason}")
    elif isinstance(exchange.error, EmptyAnswer) or seen.reasoning or seen.ended:
        found.add("answer.said", FAIL, "the answer stopped normally and has neither text nor a call")
    for check, texts in (
        ("leak.text", [seen.text]),
        ("leak.reasoning", list(seen.reasoning.values())),
        ("leak.arguments", [call.arguments for call in seen.calls]),
    ):
        leaked = markers(texts)
        if any(texts):
            where = next((text for text in texts if leaked and leaked[0] in text), "")
            at = where.find(leaked[0]) if leaked else 0
            found.expect(
                check, not leaked, "no marker", f"{' '.join(leaked[:3])} in {shown(where[max(0, at - 10) :])!r}"
            )


def _judge_end(exchange: Exchange, seen: Observation, found: Findings) -> None:
    dialect = exchange.request.dialect
    if seen.finish:
        found.add("finish.said", PASS, f"finish reason {seen.finish!r}")
    elif dialect is not None and not dialect.sends_finish:
        found.add("finish.said", ABSENT, "this host never says one, and midstream knows it")
    else:
        found.add("finish.said", FAIL, "the answer ended without a finish reason")
    words = _CALL_WORDS.get(exchange.request.wire, ())
    if not words or not seen.finish:
        return
    if seen.calls:
        fits = seen.finish in words or exchange.is_cut
        found.expect(
            "finish.calls",
            fits,
            f"{seen.finish!r} behind calls",
            f"{seen.finish!r} behind {pluralize(len(seen.calls), 'call')}, expected {words[0]!r}",
        )
    else:
        found.expect("finish.without-calls", seen.finish not in words, f"{seen.finish!r} without a call")


def _judge_ids(exchange: Exchange, seen: Observation, found: Findings) -> None:
    if exchange.request.wire in _NO_IDS or exchange.request.text_format is not None:
        found.add("ids.present", ABSENT, f"calls have no ids of their own on the {exchange.request.wire} wire")
        return
    ids = [call.id for call in seen.calls]
    found.expect(
        "ids.present",
        all(ids),
        f"ids {_listed(ids)}",
        f"{ids.count('')} of {pluralize(len(ids), 'call')} without an id",
    )
    given = [wire_id for wire_id in ids if wire_id]
    if len(given) > 1:
        found.expect(
            "ids.unique",
            len(set(given)) == len(given),
            f"ids {_listed(given)}",
            f"one id for several calls: {_listed(given)}",
        )


def _judge_calls(exchange: Exchange, calls: Sequence[SeenCall], tools: Mapping[str, ToolSpec], found: Findings) -> None:
    names = {**(exchange.request.tool_names or {})}
    for call in calls:
        name = names.get(call.name, call.name)
        found.expect(
            "names.declared",
            name in tools,
            f"called {call.name!r}",
            f"called {call.name!r}; declared are {_listed(list(tools))}",
        )
        values = _objects(call.arguments)
        whole = len(values) == 1
        if exchange.is_cut and not whole:
            found.add("arguments.json", UNSURE, "the limit of tokens was reached in the middle of a call")
            continue
        # Two objects in one call are two calls; anything else is no JSON.
        if len(values) > 1:
            found.add(
                "calls.apart", FAIL, f"{len(values)} objects in the arguments of one call: {shown(call.arguments)!r}"
            )
            continue
        found.add("calls.apart", PASS, f"{pluralize(len(calls), 'call')}, each with its own arguments")
        found.expect(
            "arguments.json",
            whole,
            "a JSON object",
            f"the arguments of {call.name} are not a JSON object: {shown(call.arguments)!r}",
        )
        schema = tools[name].parameters if name in tools else None
        if whole and schema is not None:
            wrong = faults(values[0], schema)
            found.expect(
                "arguments.schema",
                not wrong,
                f"the arguments of {call.name} fit",
                f"{call.name}: {'; '.join(wrong[:2])}",
            )


def _judge_labels(seen: Observation, found: Findings) -> None:
    indexes = [call.index for call in seen.calls]
    found.expect(
        "index.dense",
        indexes == list(range(len(indexes))),
        f"indexes {_listed(indexes)}",
        f"indexes {_listed(indexes)}, expected 0 to {len(indexes) - 1}",
    )
    for call in seen.calls:
        if call.ids:
            found.expect(
                "ids.stable",
                len(call.ids) == 1,
                "one id for all pieces",
                f"{len(call.ids)} ids for one call: {_listed(list(call.ids))}",
            )
        once = len(call.names) == 1 and call.named_first
        how = (
            "no name"
            if not call.names
            else f"{len(call.names)} times"
            if len(call.names) > 1
            else "behind the first piece"
        )
        found.expect("names.once", once, "the name comes once, first", f"the name of a call came: {how}")


def _judge_usage(exchange: Exchange, seen: Observation, found: Findings) -> None:
    dialect = exchange.request.dialect
    if not seen.usages:
        asked = not exchange.request.stream or dialect is None or dialect.stream_usage
        if not seen.ended:
            return
        found.add("usage.present", FAIL if asked else ABSENT, "no usage came" if asked else _UNASKED_USAGE)
        return
    found.add("usage.present", PASS, f"usage at {' and '.join(seen.places)}")
    if seen.labels or exchange.request.stream:
        most = max([len([each for each, _ in seen.usages if each == place]) for place in seen.places])
        found.expect(
            "usage.once",
            most == 1,
            f"once, at {' and '.join(seen.places)}",
            f"{most} counts at {seen.places[0]} in one stream",
        )
    wrong = _wrong_counts(seen.usages[-1][1])
    found.expect("usage.sums", not wrong, "the parts and the total agree", wrong)


def _wrong_counts(usage: Mapping[str, Any]) -> str:
    counts = {name: value for name, value in usage.items() if isinstance(value, int) and not isinstance(value, bool)}
    negative = [name for name, value in counts.items() if value < 0]
    if negative:
        return f"{negative[0]} is {counts[negative[0]]}"
    prompt, written, total = (counts.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens"))
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    if isinstance(cached, int) and prompt is not None and cached > prompt:
        return f"{cached} cached tokens in a prompt of {prompt}"
    reasoning = _reasoning(usage)
    # Hosts that count reasoning apart add it to the total (field-guide/streams.md#usage).
    if None not in (prompt, written, total) and total not in (prompt + written, prompt + written + reasoning):  # type: ignore[operator]
        return f"total_tokens is {total}, prompt and completion are {prompt} + {written}"
    return "" if prompt is None or prompt > 0 else "prompt_tokens is 0"


def _reasoning(usage: Mapping[str, Any]) -> int:
    details = usage.get("completion_tokens_details")
    counted = details.get("reasoning_tokens") if isinstance(details, dict) else None
    return counted if isinstance(counted, int) else 0


def _objects(text: str) -> list[dict[str, Any]]:
    """The JSON objects that a text is made of, one behind the other; none if it is anything else."""
    out: list[dict[str, Any]] = []
    rest = text.strip() or "{}"
    while rest:
        value, rest = _first_object(rest)
        if value is None:
            return []
        out.append(value)
    return out


def _first_object(text: str) -> tuple[dict[str, Any] | None, str]:
    import json  # reads a value from the beginning of a text, which msgspec does not

    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None, ""
    return (value, text[end:].strip()) if isinstance(value, dict) else (None, "")


def valid_calls(exchange: Exchange) -> bool:
    """Whether every call of an answer can be run: a declared name, arguments that fit."""
    found = Findings()
    judge_answer(exchange, found)
    wanted = ("names.declared", "arguments.json", "arguments.schema", "calls.apart")
    return bool(exchange.seen.calls) and not any(each.check in wanted and each.verdict == FAIL for each in found.found)


def _listed(values: Sequence[Any]) -> str:
    words = [str(value) for value in values[:4]]
    return shown(", ".join(words) + (" …" if len(values) > 4 else ""), 120)
