"""What models are sent of a conversation that was summarised: places, undo, and where a summary may end."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from midstream import Conversation, encode_request
from midstream.adapters import from_model_messages, to_model_messages
from midstream.core.blocks import Compacted, Text, ToolCall, ToolResponse, ToolSpec, Turn, human, system
from midstream.core.compaction import cuts, said_last, sent_turns, without_summaries
from midstream.core.dialect import Options
from midstream.core.history import repair
from midstream.doctor.diagnosis import examine
from midstream.sim.players import make_players
from midstream.sim.rules.hosts import judge
from midstream.wires.history_cache import HistoryCache
from tests.representatives import dialect_cases

PLAYERS = make_players()


def summary(until: int, text: str = "What was said.") -> Turn:
    return Turn("human", (Text(text),), key=f"summary-{until}", compacted=Compacted("summary", until))


UNDO = Turn("system", compacted=Compacted("undo"))
FAILURE = Turn("system", compacted=Compacted("failure"))


def call(*ids: str) -> Turn:
    return Turn("ai", tuple([ToolCall(each, "look") for each in ids]))


def result(*ids: str) -> Turn:
    return Turn("tool", tuple([ToolResponse(each, "look", (Text("seen"),)) for each in ids]))


A, B, C, D = human("a"), Turn("ai", ("b",)), human("c"), Turn("ai", ("d",))
RULE = system("Be brief.", tools=(ToolSpec("late"),))

# name, the turns, the places of what is sent
SENT = [
    ("nothing was summarised", (A, B, C), [0, 1, 2]),
    ("the last turns stay", (A, B, C, D, summary(2)), [4, 2, 3]),
    ("what was said since follows", (A, B, C, D, summary(2), A, B), [4, 2, 3, 5, 6]),
    ("everything is summarised", (A, B, summary(2)), [2]),
    ("the second summary stands for the first", (A, B, summary(2), C, D, A, summary(5)), [6, 5]),
    ("a second one that keeps more", (A, B, summary(1), C, D, summary(3)), [5, 3, 4]),
    ("taken back", (A, B, C, summary(2), UNDO), [0, 1, 2]),
    ("taken back later", (A, B, summary(2), C, D, UNDO, A), [0, 1, 3, 4, 6]),
    ("the second taken back", (A, B, summary(2), C, D, summary(4), UNDO), [2, 3, 4]),
    ("both taken back", (A, B, summary(2), C, summary(3), UNDO, UNDO), [0, 1, 3]),
    ("nothing left to take back", (A, UNDO, B), [0, 2]),
    ("an attempt that failed", (A, FAILURE, B), [0, 2]),
    ("system turns stay what they are", (A, RULE, B, C, summary(3)), [1, 4, 3]),
    ("a summary that claims what comes after it", (A, summary(9), B), [1, 2]),
]


@pytest.mark.parametrize(
    ("turns", "place", "since"),
    [
        ((A, B), -1, -1),
        ((A, B, summary(2)), 2, 2),
        ((A, B, summary(2), C, summary(3)), 4, 4),
        ((A, B, summary(2), C, summary(3), UNDO), 2, 5),
        ((A, B, summary(2), UNDO), -1, 3),
        ((A, B, FAILURE), -1, 2),
    ],
)
def test_the_summary_in_force_and_the_last_mark_are_known(turns: tuple[Turn, ...], place: int, since: int) -> None:
    sent = sent_turns(turns)
    assert (sent.summary, sent.since) == (place, since)


@pytest.mark.parametrize(("turns", "places"), [row[1:] for row in SENT], ids=[row[0] for row in SENT])
def test_what_is_sent(turns: tuple[Turn, ...], places: list[int]) -> None:
    sent = sent_turns(turns)
    assert list(sent.places) == places
    assert sent.turns == tuple([turns[place] for place in places])
    # A conversation that grows is read on from where it was known, and comes out the same.
    for known in range(len(turns)):
        assert sent_turns(turns[:known]).grown(turns, known) == sent
    cache = HistoryCache()
    for length in range(1, len(turns) + 1):
        assert list(cache.sent_turns(turns[:length]).places) == list(sent_turns(turns[:length]).places)


def test_the_last_message_of_the_user_is_no_summary() -> None:
    assert said_last((A, B, C, D, summary(2))) == 2
    assert said_last((B, summary(1))) is None


CUTS = [
    ("a call and its result stay together", (A, call("1"), result("1"), B), [0, 1, 3, 4]),
    ("two calls at once", (A, call("1", "2"), result("1", "2"), B), [0, 1, 3, 4]),
    ("a result that comes late", (call("1"), A, result("1"), B), [0, 3, 4]),
    ("one that comes early", (result("1"), A, call("1"), B), [0, 3, 4]),
    ("a second result", (call("1"), result("1"), A, result("1"), B), [0, 4, 5]),
    ("a call that nothing answers", (A, call("1"), B), [0, 1, 2, 3]),
    ("a result without a call", (A, result("1"), B), [0, 1, 2, 3]),
    ("an id that is used twice", (call("1"), result("1"), call("1"), result("1")), [0, 2, 4]),
    ("nothing", (), [0]),
]


@pytest.mark.parametrize(("turns", "places"), [row[1:] for row in CUTS], ids=[row[0] for row in CUTS])
def test_where_a_summary_may_end(turns: tuple[Turn, ...], places: list[int]) -> None:
    assert cuts(turns) == places


ids = st.sampled_from("123")
anything = st.one_of(
    st.just(A),
    st.just(B),
    st.lists(ids, min_size=1, max_size=3).map(lambda named: call(*named)),
    st.lists(ids, min_size=1, max_size=3).map(lambda named: result(*named)),
)


@given(st.lists(anything, max_size=12))
def test_a_cut_parts_no_pair_whatever_the_history(turns: list[Turn]) -> None:
    """Repaired in two halves, a history has the calls and results that it has as a whole."""
    turns = [_numbered(turn, number) for number, turn in enumerate(turns)]
    whole = _pairs(turns)
    for place in cuts(turns):
        parts = sorted(_pairs(turns[:place]) + _pairs(turns[place:]))
        assert parts == sorted(whole), place


def _numbered(turn: Turn, number: int) -> Turn:
    """Every result tells from any other."""
    said = [replace(block, content=(Text(f"seen {number}"),)) for block in turn.tool_responses]
    return replace(turn, blocks=tuple(said)) if said else turn


def _pairs(turns: list[Turn]) -> list[tuple[str, str]]:
    """The calls in their order, each with what it gets as its result."""
    repaired = repair(turns).turns
    texts = [response.text for turn in repaired for response in turn.tool_responses]
    names = [each.name for turn in repaired for each in turn.tool_calls]
    return list(zip(names, texts, strict=True))


@pytest.mark.parametrize(
    "name",
    dialect_cases("mid_system", "first_speaker_user", "merge_turns", "reasoning.required", "native_tools"),
)
def test_every_dialect_accepts_what_is_sent(name: str) -> None:
    """Whether the last turns begin with an answer that calls, a message, or nothing at all."""
    player = PLAYERS[name]
    exchange = (human("look", key="h"), call("hist_tool_" + "a" * 24), result("hist_tool_" + "a" * 24), B)
    second = (human("again", key="i"), call("hist_tool_" + "b" * 24), result("hist_tool_" + "b" * 24), D)
    tools = (ToolSpec("look", "Look.", {"type": "object", "properties": {}}),)
    for until in (1, 3, 4, 5, 7, 8):
        turns = (*exchange, *second, summary(until), human("go on", key="j"))
        request = encode_request(player.target, Conversation(turns), tools=tools, cache=None)
        assert judge(request.body, player.host, "paranoid") == [], until
        assert b"What was said." in request.body
        (note,) = [note for note in request.notes if note.code == "compacted"]
        assert (note.turn, note.key) == (8, f"summary-{until}")


def test_notes_say_where_a_turn_stands_in_the_conversation() -> None:
    failed = replace(B, failure="truncated")
    turns = (A, B, C, D, summary(2), human("on"), failed, human("on"))
    request = encode_request("moonshot/kimi-k2.5", Conversation(turns), cache=None)
    assert [(note.code, note.turn) for note in request.notes] == [("compacted", 4), ("failed_turn", 6)]


def test_tools_that_a_summarised_system_turn_declared_are_still_there() -> None:
    turns = (A, RULE, B, C, summary(3))
    for model in ("moonshot/kimi-k2.5", "anthropic/claude-sonnet-4-5", "openai-responses/gpt-5.2"):
        body = encode_request(model, Conversation(turns), cache=None).body
        assert b'"late"' in body and b"Be brief." in body and b'"a"' not in body


def test_messages_are_a_prefix_of_the_next_request_from_the_summary_on() -> None:
    turns = (A, B, C, D, summary(2), human("one"))
    cache = HistoryCache()
    first = encode_request("moonshot/kimi-k2.5", Conversation(turns), cache=cache).body
    more = (*turns, Turn("ai", ("two",)), human("three"))
    second = encode_request("moonshot/kimi-k2.5", Conversation(more), cache=cache).body
    messages = first[first.index(b'"messages":[') : first.index(b'{"role":"user","content":"one"}') + 30]
    assert messages in second
    assert second == encode_request("moonshot/kimi-k2.5", Conversation(more), cache=None).body


def test_a_stored_response_is_not_continued_across_a_summary() -> None:
    answer = replace(B, response_id="resp_1")
    model, options = "openai-responses/gpt-5.2", Options(previous_response_id="resp_1")
    before = encode_request(model, Conversation((A, answer, C)), options=options, cache=None).body
    assert b"resp_1" in before
    after = encode_request(model, Conversation((A, answer, summary(1), C)), options=options, cache=None).body
    assert b"resp_1" not in after and b"What was said." in after
    since = (A, B, summary(2), C, answer, human("on"))
    assert b"resp_1" in encode_request(model, Conversation(since), options=options, cache=None).body


def test_the_doctor_and_other_programs_see_no_summary_beside_what_it_stands_for() -> None:
    said = (A, call("hist_tool_" + "a" * 24), result("hist_tool_" + "a" * 24), B)
    whole, marked = Conversation(said), Conversation((*said, summary(3), UNDO, summary(1), FAILURE))
    assert without_summaries(marked) == whole and without_summaries(whole) is whole
    assert examine(marked) == examine(whole)
    assert from_model_messages(to_model_messages(marked)).turns[4].compacted == Compacted("summary", 3)
    texts = json.dumps(to_model_messages(marked, private=False))
    assert "What was said." in texts and '"a"' not in texts
