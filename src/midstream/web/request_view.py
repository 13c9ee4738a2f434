"""The same turn on two wires: the exact requests, taken apart so that a page can lay them side by side.

A request is cut into parts, each of which belongs to a turn. Where the cuts are is learnt from the encoder itself: the messages
of a request are a prefix of those of the next (law 8), so the items that one more turn brings are that turn's. Ids are told by
the mapper that wrote them, and notes stand at the turn they are about. Where turns were summarised, what is taken apart are the
turns that are sent; the summary stands at the turns that it is sent in place of.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from ..agent.toolbox import BUILTIN, Toolbox
from ..client.catalog import Catalog
from ..codec import encode_request
from ..core.blocks import Conversation, ToolCall, Turn
from ..core.compaction import sent_turns
from ..core.dialect import Dialect, Options
from ..core.errors import InvalidHistory, LocalError
from ..core.handoff import Note
from ..core.history import repair
from ..core.tools import ToolSpec
from ..templates.registry import get_template
from ..wires.encode_context import EncodeContext
from ..wires.history_cache import HistoryCache
from ..wires.request import Request
from .transcript import report_of, report_rows

Part: TypeAlias = dict[str, Any]

# The lists that hold the history, one a wire; a raw prompt is one text.
_LISTS = ("messages", "input", "contents")
_PROMPT = "prompt"
SHOWN = 40
"""Turns of a long history that are taken apart, the last ones; those before them are one part."""
_OPTIONS = Options(stream=True)
_WORD = re.compile(
    r"[^\s\0\"'<>|\uff5c\[\]{},]+"
)  # what an id may be in a text: between blanks, quotes, brackets and bars
_MOST_BODY = 16_000_000  # a photograph or two; of long texts and lists the page draws only the beginning
PICTURE = (
    ("Kimi", "moonshot/kimi-k2.5"),
    ("Claude", "anthropic/claude-sonnet-4-5"),
    ("GPT, Responses", "openai-responses/gpt-5.2"),
    ("Gemini", "gemini/gemini-3-pro-preview"),
    ("Mistral", "mistral/mistral-large-latest"),
    ("Kimi K2, raw prompt", "completions/kimi-k2"),
    ("GPT, Chat", "openai/gpt-4o"),
    ("DeepSeek", "deepseek/deepseek-reasoner"),
    ("Cohere", "cohere/command-a-03-2025"),
    ("Ollama", "ollama/qwen3:4b"),
    ("Llama 3, raw prompt", "completions/llama-3.3-70b"),
)
"""The dialects that are offered first: as different from each other as they come."""


class RequestView:
    """What one model would be sent at one turn."""

    def __init__(self, catalog: Catalog, conversation: Conversation, turn: int, model: str) -> None:
        self._conversation = replace(conversation, turns=_asked(conversation, turn))
        self._sent = sent_turns(self._conversation.turns)
        # Without the mark of a summary: a beginning of what is sent is sent whole.
        self._turns = tuple([replace(each, compacted=None) if each.compacted else each for each in self._sent.turns])
        self._catalog = catalog
        self._target = catalog.resolve(model)
        self._tools = known_tools(conversation)
        self._cache = HistoryCache()
        self._request = self._encode(self._conversation.turns)
        if len(self._request.body) > _MOST_BODY:
            raise LocalError(
                f"this request has {len(self._request.body):,} bytes, too many to lay out: choose an earlier turn"
            )

    def json(self) -> dict[str, Any]:
        request = self._request
        body = msgspec.json.decode(request.body)
        key = next((name for name in (*_LISTS, _PROMPT) if name in body), "")
        history = body.pop(key, None)
        dialect = request.dialect or self._target.dialect
        report = report_of(self._target.name, self._conversation, request.notes)
        return {
            "model": self._target.name,
            "wire": request.wire,
            "dialect": dialect.name,
            "line": f"{request.method} {self._catalog.shown_address(self._target, request.path)}",
            "headers": {**request.headers, **self._catalog.shown_headers(self._target, "YOUR_KEY")},
            "bytes": len(request.body),
            "key": key,
            "around": body,
            "parts": [
                {**part, "turns": [self._place(length) for length in part["turns"]]}
                for part in (
                    self._prompt_parts(history) if isinstance(history, str) else self._list_parts(key, history or [])
                )
            ],
            "ids": self._ids(dialect, key, history),
            "notes": [self._note_row(note) for note in request.notes if note.action != "kept"],
            "report": report_rows(report),
            "tools": [tool.qualified_name for tool in self._tools],
            "raw": request.body.decode("utf-8", "replace"),
        }

    def _place(self, length: int) -> int:
        """Where in the stored turns the first `length` of those that are sent end."""
        places, summary = self._sent.places, self._sent.summary
        if length >= len(places):
            return len(self._conversation.turns)
        # A summary is stored behind the turns that it stands for, and is sent before those that were kept.
        return places[length - 1] + 1 if length and places[length] == summary else places[length] if length else 0

    def _note_row(self, note: Note) -> dict[str, Any]:
        turn = note.turn
        if turn is not None and turn == self._sent.summary:
            turn = self._place(list(self._sent.places).index(turn) + 1) - 1
        return {"action": note.action, "what": note.what, "code": note.code, "why": note.why, "turn": turn}

    def _encode(self, turns: tuple[Turn, ...]) -> Request:
        conversation = replace(self._conversation, turns=turns)
        return encode_request(self._target, conversation, tools=self._tools, options=_OPTIONS, cache=self._cache)

    def _beginnings(self, key: str) -> Iterator[tuple[int, bytes]]:
        """The history's beginnings on the wire, each with its number of turns, from the first turn that is shown. As they are
        written: to decode ten thousand turns forty times takes longer than anybody waits."""
        total = len(self._turns)
        for length in range(max(1, total - SHOWN), total):
            # A history cut between a call and its result would be repaired, and be longer than it is here.
            if self._is_open(length):
                continue
            try:
                body = self._encode(self._turns[:length]).body
            except InvalidHistory:
                continue  # the beginning of a history is not always one of its own
            yield length, bytes(msgspec.json.decode(body, type=dict[str, msgspec.Raw]).get(key, b"null"))

    def _is_open(self, length: int) -> bool:
        turns = self._turns
        return bool(turns[length - 1].tool_calls) or turns[length].speaker == "tool"

    def _list_parts(self, key: str, items: Sequence[Any]) -> list[Part]:
        parts: list[Part] = []
        begun, first = 0, 0
        last: bytes = b""
        whole = (len(self._turns), msgspec.json.encode(items))
        for length, written in itertools.chain(self._beginnings(key), [whole]):
            history = msgspec.json.decode(written, type=list[msgspec.Raw] | None) or []
            count = max(begun, min(len(history), len(items)))
            now = bytes(history[-1]) if history else b""  # a Raw equals nothing else
            if count > begun:
                parts.append({"turns": [first, length], "items": list(items[begun:count])})
                begun, first = count, length
            elif parts and now != last and length < whole[0]:  # joined to the message before it
                parts[-1]["turns"][1] = first = length
            # Turns that are not sent have no items: they go with the next.
            last = now
        if parts and first < len(self._turns):
            parts[-1]["turns"][1] = len(self._turns)
        return [piece for part in parts for piece in self._split(part)]

    def _split(self, part: Part) -> list[Part]:
        """A call and its results are encoded together; told apart by who speaks, where each turn made one item or more."""
        first, end = part["turns"]
        speakers = [turn.speaker for turn in self._turns[first:end]]
        if end - first < 2 or "tool" not in speakers or end - first > SHOWN:
            return [part]
        results = [at for at, item in enumerate(part["items"]) if _is_result(item)]
        if not results or results[0] == 0 or speakers.index("tool") == 0:
            return [part]
        cut, at = results[0], first + speakers.index("tool")
        return [
            {"turns": [first, at], "items": part["items"][:cut]},
            *self._split({"turns": [at, end], "items": part["items"][cut:]}),
        ]

    def _prompt_parts(self, prompt: str) -> list[Part]:
        parts: list[Part] = []
        begun, first = 0, 0
        order = {place: number for number, place in enumerate(self._sent.places)}
        for length, at in sorted([(order[place], at) for place, at in self._request.begins]):
            if at > begun and length >= max(1, len(self._turns) - SHOWN):
                parts.append({"turns": [first, length], "text": prompt[begun:at]})
                begun, first = at, length
        parts.append({"turns": [first, len(self._turns)], "text": prompt[begun:]})
        return parts

    def _ids(self, dialect: Dialect, key: str, history: Any) -> dict[str, str]:
        """What each call is called in this request; those that are not in it have no id on this wire."""
        context = EncodeContext(dialect, _OPTIONS, self._target.model)
        repaired = repair(self._turns)
        turns, _ = context.plain_turns(repaired.turns, 0, repaired.places)
        calls, mapper = calls_of(turns), context.ids
        if key != _PROMPT:
            # Kimi's ids have the tool's name in them, as this wire writes it; in a prompt it is as it is.
            calls = [replace(call, name=context.names.wire(call.name)) for call in calls]
        elif dialect.template is not None and (own := get_template(dialect.template).ids) is not None:
            mapper = own.create_mapper()
        ids = {call.id: mapper.resolve_tool_call_id(call) for call in calls}
        # Looked up in what is said, all at once: to search a long request for each of its calls takes the square of its length.
        texts = list(_texts(history))
        said = {*texts, *_WORD.findall("\0".join(texts))}
        return {call: name for call, name in ids.items() if name in said}


def calls_of(turns: Sequence[Turn]) -> list[ToolCall]:
    return [call for turn in turns for call in turn.tool_calls]


def known_tools(conversation: Conversation) -> tuple[ToolSpec, ...]:
    """The tools of ours that a conversation has called: a store keeps what was said, not what was declared."""
    called = {call.name for call in calls_of(conversation.turns)}
    names = [name for name in BUILTIN if name in called]
    return Toolbox(names).specs() if names else ()


def spine(conversation: Conversation, turn: int) -> list[dict[str, Any]]:
    """The turns as the store has them, short, to stand between the two requests. A call whose id was used before has the one
    that it gets in a request."""
    turns = _asked(conversation, turn)
    calls, results = _told_apart(turns)
    return [
        {
            "index": index,
            "speaker": each.speaker,
            "model": each.origin.name if each.origin is not None else "",
            "text": each.text[:200],
            "thinking": bool(each.thinking),
            "calls": [
                {"id": id_, "name": call.name, "raw_id": call.raw_id}
                for id_, call in zip(calls[index], each.tool_calls, strict=True)
            ],
            "results": [
                {"id": id_, "name": response.name}
                for id_, response in zip(results[index], each.tool_responses, strict=True)
            ],
        }
        for index, each in enumerate(turns)
        if index >= len(turns) - SHOWN
    ]


def _asked(conversation: Conversation, turn: int) -> tuple[Turn, ...]:
    """The turns of the request that an answer was the answer to, or of the one that brought these words or results."""
    turns = conversation.turns
    if not 0 <= turn < len(turns):
        raise LocalError(f"no turn {turn}: the conversation has {len(turns)}")
    return turns[: max(1, turn if turns[turn].speaker == "ai" else turn + 1)]


def _told_apart(turns: tuple[Turn, ...]) -> tuple[list[list[str]], list[list[str]]]:
    """The ids of the calls and of the results of each turn, as requests tell them apart: `repair` gives a new one to a call
    whose id was used before."""
    sent = sent_turns(turns)
    repaired = repair(sent.turns)
    places = range(len(repaired.turns)) if repaired.places is None else repaired.places
    asked = {sent.places[place]: turn for place, turn in zip(places, repaired.turns, strict=True) if turn.tool_calls}
    calls: list[list[str]] = []
    results: list[list[str]] = []
    waiting: dict[str, deque[str]] = {}
    for place, turn in enumerate(turns):
        calls.append([call.id for call in asked.get(place, turn).tool_calls])
        asks: dict[str, deque[str]] = {}
        for call, given in zip(turn.tool_calls, calls[-1], strict=True):
            asks.setdefault(call.id, deque()).append(given)
        waiting |= asks  # a result goes to the newest answer that called so
        found = []
        for response in turn.tool_responses:
            same = waiting.get(response.call_id)
            found.append(response.call_id if not same else same.popleft() if len(same) > 1 else same[0])
        results.append(found)
    return calls, results


def _texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value, wherever it stands."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def _is_result(item: Any) -> bool:
    """Whether an item of a history is results alone: each wire says so in its own way."""
    if not isinstance(item, Mapping):
        return False
    if item.get("role") == "tool" or item.get("type") in ("function_call_output", "custom_tool_call_output"):
        return True
    inner = item.get("content", item.get("parts"))
    return isinstance(inner, list) and any(
        isinstance(part, Mapping) and (part.get("type") == "tool_result" or "functionResponse" in part)
        for part in inner
    )
