"""What a host really sent, before anyone repaired it: pieces of calls with their labels, words of the end, places of usage.

On a chat wire it is read from the bytes. On the other wires, whose labels are part of the protocol, it is what the decoder
told, without the filters that read leaked calls back out of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from ..core.blocks import Thinking, Turn, Value
from ..toolformats.prose import KNOWN_TAGS
from ..toolformats.registry import FORMATS, text_format
from ..wires.sse import DONE, SSEParser

_SHOWN = 80
# A message's own fields. Any other text field may be reasoning under a name that nobody knows yet.
_FIELDS = frozenset(
    {"role", "content", "refusal", "tool_calls", "function_call", "annotations", "audio", "images", "name"}
)
_DETAILS = "reasoning_details"


class SeenCall(Value, frozen=True):
    """One call as its pieces told it."""

    index: int | None = None
    ids: tuple[str, ...] = ()
    """The ids of its pieces, without repetitions."""
    names: tuple[str, ...] = ()
    """The name of each piece that had one."""
    named_first: bool = True
    arguments: str = ""

    @property
    def id(self) -> str:
        return self.ids[0] if self.ids else ""

    @property
    def name(self) -> str:
        return self.names[0] if self.names else ""


class Observation(msgspec.Struct, frozen=True):
    """One answer as it was sent."""

    text: str = ""
    reasoning: dict[str, str] = {}
    """By the field it came in."""
    calls: tuple[SeenCall, ...] = ()
    finish: str | None = None
    usages: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Each count of tokens that came, with its place: `top`, `choice` or `x_groq`."""
    ended: bool = True
    """Whether the protocol's own end came."""
    labels: bool = False
    """Whether pieces and their labels were seen: on a chat wire, in a stream."""

    @property
    def places(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([place for place, _ in self.usages]))


def observe(wire: str, chunks: Sequence[bytes], *, stream: bool, turn: Turn | None, ended: bool) -> Observation:
    """What was sent; `turn` is what a decoder without filters made of it."""
    if wire == "openai-chat":
        return _observe_stream(chunks) if stream else _observe_body(b"".join(chunks))
    if turn is None:
        return Observation(ended=ended)
    usage = () if turn.usage is None else (("top", _counts(turn)),)
    thinking = [block for block in turn.blocks if isinstance(block, Thinking)]
    return Observation(
        turn.text,
        {block.field or "thinking": turn.thinking for block in thinking[:1] if turn.thinking},
        tuple(
            [
                SeenCall(number, (call.raw_id,) if call.raw_id else (), (call.name,), True, call.arguments)
                for number, call in enumerate(turn.tool_calls)
            ]
        ),
        turn.raw_stop,
        usage,
        ended,
    )


def _counts(turn: Turn) -> dict[str, Any]:
    """The counts in the words of a chat wire, so that one check reads them all."""
    usage = turn.usage
    assert usage is not None
    counts = {"prompt_tokens": usage.read, "completion_tokens": usage.output, "total_tokens": usage.total}
    return {**counts, "prompt_tokens_details": {"cached_tokens": usage.cache_read}}


def _observe_body(body: bytes) -> Observation:
    value = _json(body)
    return _Gathered().take(value).made(ended=bool(value), labels=False)


def _observe_stream(chunks: Sequence[bytes]) -> Observation:
    parser, gathered, ended = SSEParser(), _Gathered(), False
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    events += parser.close()
    for event in events:
        if event.data.strip() == DONE:
            ended = True
        else:
            gathered.take(_json(event.data))
    return gathered.made(ended=ended, labels=True)


def _json(data: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


class _Piece(msgspec.Struct):
    index: int | None
    ids: list[str] = []
    names: list[str] = []
    pieces: int = 0
    late: bool = False
    arguments: str = ""


class _Gathered:
    """The chunks of one answer."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: dict[str, list[str]] = {}
        self._calls: list[_Piece] = []
        self._finish: str | None = None
        self._usages: list[tuple[str, dict[str, Any]]] = []

    def take(self, chunk: dict[str, Any]) -> _Gathered:
        self._count("top", chunk.get("usage"))
        # Groq counts in up to three places: docs/field-guide/hosts.md#kimi-host-by-host
        groq = chunk.get("x_groq")
        self._count("x_groq", groq.get("usage") if isinstance(groq, dict) else None)
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            # A second choice was never asked for, and its words would mix with the first's.
            if not isinstance(choice, dict) or choice.get("index"):
                continue
            self._count("choice", choice.get("usage"))
            if isinstance(choice.get("finish_reason"), str):
                self._finish = choice["finish_reason"]
            message = choice.get("delta") or choice.get("message")
            if isinstance(message, dict):
                self._message(message)
        return self

    def _count(self, place: str, usage: Any) -> None:
        # A count of nothing but zeros is a placeholder.
        if isinstance(usage, dict) and any(usage.values()):
            self._usages.append((place, usage))

    def _message(self, message: dict[str, Any]) -> None:
        content = message.get("content")
        if isinstance(content, str):
            self._text.append(content)
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and part.get("type") == "thinking":
                self._reasoning.setdefault("thinking", []).append(_words(part.get("thinking")))
            elif isinstance(part, dict):
                self._text.append(_words(part.get("text")))
        for name, value in message.items():
            if name not in _FIELDS and isinstance(value, str) and value:
                self._reasoning.setdefault(name, []).append(value)
            # OpenRouter's list beside the text field: docs/field-guide/reasoning.md#fields
            elif name == _DETAILS and isinstance(value, list):
                self._reasoning.setdefault(name, []).append(_words(value))
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                self._call(call)

    def _call(self, call: dict[str, Any]) -> None:
        """By the index alone, as most clients do; only a new id with a name behind a whole call opens another under it."""
        index, wire_id = call.get("index"), call.get("id")
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        name, arguments = function.get("name"), function.get("arguments")
        if isinstance(index, int):
            piece = next((each for each in reversed(self._calls) if each.index == index), None)
        else:
            # Without an index, a piece with a label begins a call.
            piece = self._calls[-1] if self._calls and not name and not wire_id else None
        if piece is None or (
            name and wire_id and wire_id not in piece.ids and piece.names and _is_whole(piece.arguments)
        ):
            piece = _Piece(index if isinstance(index, int) else None)
            self._calls.append(piece)
        if isinstance(wire_id, str) and wire_id and wire_id not in piece.ids:
            piece.ids.append(wire_id)
        if isinstance(name, str) and name:
            # Only if an earlier piece had none: the first piece of a call may well be its name alone.
            piece.late = piece.late or (not piece.names and piece.pieces > 0)
            piece.names.append(name)
        piece.pieces += 1
        piece.arguments += arguments if isinstance(arguments, str) else "" if arguments is None else _dump(arguments)

    def made(self, *, ended: bool, labels: bool) -> Observation:
        calls = [
            SeenCall(each.index, tuple(each.ids), tuple(each.names), not each.late, each.arguments)
            for each in self._calls
        ]
        reasoning = {name: text for name, parts in self._reasoning.items() if (text := "".join(parts))}
        return Observation(
            "".join(self._text), reasoning, tuple(calls), self._finish, tuple(self._usages), ended, labels
        )


def _is_whole(arguments: str) -> bool:
    return bool(_json(arguments.encode("utf-8", "replace"))) or arguments.strip() == "{}"


def _dump(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join([_words(each) for each in value])
    return _words(value.get("text") or value.get("summary")) if isinstance(value, dict) else ""


@cache
def _marker_pattern() -> re.Pattern[str]:
    tags = [tag for pair in KNOWN_TAGS for tag in pair]
    # Only markers that no prose has: a format may also begin with a plain word or a brace.
    words = {marker for name in FORMATS for marker in text_format(name).markers if marker[0] in "<[◁"} | set(tags)
    # The longest first, so that the evidence names the whole marker.
    known = "|".join([re.escape(word) for word in sorted(words, key=len, reverse=True)])
    return re.compile(rf"{known}|<[|｜](?:tool|im_|channel|start|end)[\w▁]*[|｜]>")


def markers(texts: Iterable[str]) -> list[str]:
    """The markers of calls and thinking in these texts, each once."""
    pattern = _marker_pattern()
    return list(dict.fromkeys([found for text in texts for found in pattern.findall(text)]))


def shown(text: str, limit: int = _SHOWN) -> str:
    """A text as evidence: on one line, and not more of it than shows what it is about."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit] + "…"
