"""The short way of everyday turns writes what the general way does, byte for byte and note for note, for every dialect.

The general way: all turns repaired, then put in the reader's terms, then written, each over the whole history.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from midstream import Conversation, Options, Text, Thinking, ToolCall, ToolResponse, ToolSpec, Turn, human
from midstream.core.blocks import Media, Origin, system
from midstream.core.errors import MidstreamError
from midstream.core.history import repair
from midstream.core.ids import canonical_tool_call_id
from midstream.dialects.registry import REGISTRY
from midstream.wires.encode_context import EncodeContext
from midstream.wires.everyday import write_lawful
from midstream.wires.history_cache import HistoryCache
from midstream.wires.request import Request, RequestDraft
from midstream.wires.text_tools import TextToolWriter

DIALECTS = REGISTRY.dialects()
LANES = ["openai/gpt-4o", "anthropic/claude-sonnet-4-5"]


class GeneralDraft(RequestDraft, frozen=True):
    """A draft whose history takes the general way."""

    def history(self, make_writer: Callable[[EncodeContext], Any], *key: Hashable) -> Any:
        inner = make_writer(self.context())
        writer = inner if self.text_tools is None else TextToolWriter(inner, self.text_tools.format)
        notes = writer.context.notes
        repaired = repair(self.conversation.turns)
        turns, places = writer.context.plain_turns(repaired.turns, 0, repaired.places)
        writer.write(turns, 0)
        written = [note if note.turn is None else replace(note, turn=places[note.turn]) for note in notes]
        notes[:] = sorted([*repaired.notes, *written], key=lambda note: -1 if note.turn is None else note.turn)
        return inner


TEXTS = st.sampled_from(["hello", 'so\n"be it"', "é 𝄞 \u2028", "half \ud83d", " ", "", "\x00\x1f\x7f", "</tool_call>"])
PLAIN = st.sampled_from(["hello", 'so\n"be it"', "é 𝄞 \u2028"])
ARGUMENTS = st.sampled_from(
    ['{"a": 1}', '{ "é":"\\ud83d" }', "{}", "", "null", "[1]", '{"a":', '{"a": "\ud83d"}', "{}{}"]
)
NAMES = st.sampled_from(["look", "look", "no name!", "x" * 80])
NUMBERS = itertools.count()
OTHER = Origin("deepseek", "openai-chat", "deepseek-reasoner")


def _id(kind: str) -> str:
    number = next(NUMBERS)
    return canonical_tool_call_id("", str(number), "look", "k", 0) if kind == "own" else f"call|{number}" + "é" * 30


ODD = ("", "", "arguments", "name", "call", "result", "result", "order", "missing", "answer", "id")


@st.composite
def exchanges(draw: st.DrawFn, odd: Sequence[str] = ODD) -> list[Turn]:
    """An answer that calls, and its results, with one thing about them odd."""
    what = draw(st.sampled_from(odd))
    calls, results = [], []
    changes: list[dict[str, Any]]
    for _ in range(draw(st.sampled_from([1, 1, 2, 3]))):
        call = ToolCall(_id("other" if what == "id" else "own"), "look", '{"path": "a.txt"}')
        if what == "arguments":
            call = replace(call, arguments=draw(ARGUMENTS))
        if what == "name":
            call = replace(call, name=draw(NAMES))
        if what == "call":
            changes = [
                {"extra": {}},
                {"extra": {"type": "custom"}},
                {"extra": {"a": 1}, "provider": "openai"},
                {"namespace": "n"},
                {"kind": "freeform"},
                {"id": "same"},
            ]
            call = replace(call, **draw(st.sampled_from(changes)))
        result = ToolResponse(call.id, draw(st.sampled_from(["look", ""])), (Text(draw(PLAIN)),))
        if what == "result":
            contents = [(), (Text(" "),), (Text("a"), Text("b")), (Media("image/png", data="AAAA"),), (Text("a", {"cache_control": {"type": "ephemeral"}}),)]  # fmt: skip
            changes = [{"is_error": True}, {"extra": {"cache_control": {"type": "ephemeral"}}}]
            changes += [{"content": content} for content in contents] + [{"content": (Text("\ud83d"),)}]
            result = replace(result, **draw(st.sampled_from(changes)))
        calls.append(call)
        results.append(result)
    if what == "order":
        results.reverse()
    if what == "missing":
        results.pop()
    before = draw(st.sampled_from([(), (Text("so"),), (Text("so"),)]))
    answer = Turn("ai", (*before, *calls), key=calls[0].id)
    if what == "answer":
        changes = [
            {"blocks": (*calls, Text("behind"))}, {"blocks": (Text("a"), Text("b"), *calls)}, {"failure": "truncated"},
            {"blocks": (Thinking("why", origin=OTHER), *calls)}, {"extra": {"name": "Al"}}, {"blocks": (Text(" "), *calls)},
        ]  # fmt: skip
        answer = replace(answer, **draw(st.sampled_from(changes)))
    return [answer, Turn("tool", tuple(results), key=f"{answer.key}r")] if results else [answer]


TURNS = st.one_of(
    PLAIN.map(lambda text: [human(text)]),
    PLAIN.map(lambda text: [Turn("ai", (Text(text),))]),
    exchanges(),
    exchanges(),
    st.builds(lambda speaker, text: [Turn(speaker, (Text(text),))], st.sampled_from(["human", "ai", "system"]), TEXTS),
    st.sampled_from([
        [Turn("human", (Text("a", {"name": "Al"}),))], [Turn("human", (Text("be brief"),), role="developer")],
        [Turn("ai", (Thinking("why", origin=OTHER), Text("so")))], [Turn("ai", (Text("cut"),), failure="truncated")],
        [Turn("human", ())], [Turn("tool", (ToolResponse("stray", "", (Text("a"),)),))], [Turn("tool", (Text("a"),))],
        [system(tools=[ToolSpec("late")])], [system("more", tools=[ToolSpec("late")])],
        [Turn("ai", (Text("a"), Media("image/png", data="AAAA")))], [Turn("human", (Text("a"), ToolCall("x", "look")))],
        [Turn("tool", (ToolResponse("same", "look", (Text("b"),)),))],
    ]),
)  # fmt: skip
_SAME = [Turn("ai", (ToolCall("same", "look"),)), Turn("tool", (ToolResponse("same", "look", (Text("a"),)),))]
EVERYDAY = st.one_of(
    PLAIN.map(lambda text: [human(text)]),
    PLAIN.map(lambda text: [Turn("ai", (Text(text),))]),
    exchanges(odd=[""]),
    st.just(_SAME),
)
HISTORIES = st.builds(
    lambda before, odd, behind, times, last: tuple(
        itertools.chain(*before, odd, *behind, (human("and"), Turn("ai", (Text("so"),))) * times, *last)
    ),
    st.lists(EVERYDAY, max_size=4),
    TURNS,
    st.lists(TURNS, max_size=8),
    st.sampled_from([0, 0, 5, 70]),  # the short way is taken again some turns behind an odd one
    st.lists(TURNS, max_size=2),
)
OPTIONS = st.sampled_from([Options(), Options(thinking="on"), Options(foreign_thinking="text"), Options(cache=True)])


def encoded(draft: RequestDraft) -> tuple[bytes, Any] | str:
    try:
        request: Request = draft.encode()
    except MidstreamError as error:
        return error.kind
    return request.body, request.notes


@settings(max_examples=25, deadline=None)
@given(HISTORIES, OPTIONS)
def test_every_dialect(turns: tuple[Turn, ...], options: Options) -> None:
    for name, dialect in DIALECTS.items():
        fields = (Conversation(turns, "Be brief."), dialect, "m", (ToolSpec("look"),), options)
        assert encoded(RequestDraft(*fields)) == encoded(GeneralDraft(*fields)), name


@pytest.mark.parametrize("name", LANES)
@settings(max_examples=120, deadline=None)
@given(HISTORIES, HISTORIES, OPTIONS, st.data())
def test_grown_request_by_request(
    name: str, turns: tuple[Turn, ...], more: tuple[Turn, ...], options: Options, data: st.DataObject
) -> None:
    dialect = REGISTRY.resolve(name).dialect
    cache = HistoryCache()
    turns = (*turns, *more)
    for length in sorted(data.draw(st.lists(st.integers(1, len(turns)), max_size=4))):
        encoded(RequestDraft(Conversation(turns[:length]), dialect, "m", (), options, cache))
    grown = encoded(RequestDraft(Conversation(turns), dialect, "m", (), options, cache))
    general = encoded(GeneralDraft(Conversation(turns), dialect, "m", (), options))
    assert grown[0] == general[0]


@pytest.mark.parametrize("name", LANES)
def test_two_calls_of_one_id_go_the_general_way(name: str) -> None:
    calls = (ToolCall("twice", "look", '{"n": 1}'), ToolCall("twice", "look", '{"n": 2}'))
    results = tuple([ToolResponse("twice", "look", (Text(word),)) for word in ("one", "two")])
    turns = (human("go"), Turn("ai", calls), Turn("tool", results), human("on"))
    dialect = REGISTRY.resolve(name).dialect
    fields = (Conversation(turns), dialect, "m", (ToolSpec("look"),), Options())
    assert encoded(RequestDraft(*fields)) == encoded(GeneralDraft(*fields))


@pytest.mark.parametrize("name", LANES)
def test_a_call_whose_name_must_change_goes_the_general_way(name: str) -> None:
    turns = (
        human("go"),
        Turn("ai", (ToolCall("one", "look"), ToolCall("two", "no name!"))),
        Turn("tool", (ToolResponse("one", "look", (Text("a"),)), ToolResponse("two", "no name!", (Text("b"),)))),
        human("on"),
    )
    fields = (Conversation(turns), REGISTRY.resolve(name).dialect, "m", (ToolSpec("look"),), Options())
    assert encoded(RequestDraft(*fields)) == encoded(GeneralDraft(*fields))


class CountedLane:
    """A writer and its lane, which note what each of them is given."""

    def __init__(self) -> None:
        self.context = EncodeContext(REGISTRY.resolve(LANES[0]).dialect, Options(), "m", 0)
        self.taken: list[Any] = []
        self.written: list[Turn] = []

    def lane(self) -> CountedLane:
        return self

    def said(self, speaker: str, text: str) -> bool:
        self.taken.append((speaker, text))
        return True

    def exchanged(self, text: str, calls: Sequence[ToolCall], results: Sequence[str]) -> bool:
        self.taken.append((text, [call.name for call in calls], list(results)))
        return True

    def flush(self) -> bool:
        return True

    def write(self, turns: Sequence[Turn], offset: int) -> None:
        self.written += turns


CALLED = Turn("ai", (Text("Let me look."), ToolCall("one", "look"), ToolCall("two", "look")))
RESULTS = Turn("tool", tuple([ToolResponse(name, "look", (Text(f"seen {name}"),)) for name in ("one", "two")]))


def test_everyday_turns_take_the_short_way_and_only_they() -> None:
    made = CountedLane()
    assert write_lawful(made, (human("go"), CALLED, RESULTS, Turn("ai", (Text("Done."),))), 0, set()) == 4
    assert made.taken == [
        ("human", "go"),
        ("Let me look.", ["look", "look"], ["seen one", "seen two"]),
        ("ai", "Done."),
    ]
    assert made.written == []
    broken = replace(RESULTS, failure="truncated")
    made = CountedLane()
    write_lawful(made, (human("go"), CALLED, broken), 0, set())
    assert made.taken == [("human", "go")]
