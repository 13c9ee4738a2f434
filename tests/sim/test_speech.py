"""What a double says, our decoder hears: on every wire, streamed or whole, however the bytes are cut."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.codec import make_decoder
from midstream.core.blocks import Turn
from midstream.core.events import Done
from midstream.sim.answer import Answer, Call, pieces, tokens
from midstream.sim.players import Player, make_players
from midstream.sim.speech import SPEAKERS as SPOKEN
from midstream.sim.speech import speak, speak_whole
from midstream.wires.stream_decoder import decode_chunks, decode_whole
from tests.representatives import dialect_cases

PLAYERS = make_players()
SPEAKERS = {
    "openai-chat": "moonshot-k2.5",
    "anthropic": "claude",
    "openai-responses": "openai-responses-5",
    "gemini": "gemini-3-pro",
    "ollama": "ollama",
    "cohere": "cohere",
    "completion": "deepinfra-kimi-k2.5",
}
# any text but what no JSON can carry, and no opening of a model's own markers, which a completion host cannot quote
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<["), max_size=60)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<["), max_size=20)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=6
)
CALLS = st.builds(
    Call, st.from_regex(r"[a-z][a-z0-9_]{0,15}", fullmatch=True), st.dictionaries(WORDS, VALUES, max_size=3)
)
QUOTING = frozenset("`~>\"'“”„‘‚«»‹「『")
# where calls are written as text, white space alone before one is layout, and a text may not quote it
ANSWERS = st.builds(
    Answer,
    text=WORDS,
    thinking=WORDS,
    calls=st.lists(CALLS, max_size=4).map(tuple),
    input_tokens=st.integers(1, 10**6),
).filter(
    lambda answer: (
        not QUOTING & set(answer.text)
        if answer.calls and answer.text.strip()
        else bool(answer.text.strip() or (answer.calls and not answer.text))
    )
)


def decoder_for(wire: str) -> Any:
    target = PLAYERS[SPEAKERS[wire]].target
    dialect = target.dialect.native if wire == "completion" else target.dialect
    return make_decoder(dialect=dialect, turn_key="key", model=target.model)


def player(wire: str) -> Player:
    return PLAYERS[SPEAKERS[wire]]


def heard(turn: Turn) -> tuple[str, str, list[tuple[str, Any]]]:
    return turn.text, turn.thinking, [(call.name, json.loads(call.arguments)) for call in turn.tool_calls]


def said(answer: Answer) -> tuple[str, str, list[tuple[str, Any]]]:
    return answer.text, answer.thinking, [(call.name, call.arguments) for call in answer.calls]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(bounds)]


def test_every_wire_has_a_speaker() -> None:
    assert set(SPOKEN) == set(SPEAKERS)


@pytest.mark.parametrize("wire", SPEAKERS)
@given(answer=ANSWERS, places=st.lists(st.integers(0, 1 << 20), max_size=12))
@settings(max_examples=100)
def test_streamed_in_any_pieces(wire: str, answer: Answer, places: list[int]) -> None:
    stream = b"".join(speak(wire, answer, player(wire).style()))
    last = list(decode_chunks(decoder_for(wire), cut(stream, places)))[-1]
    assert isinstance(last, Done), last
    assert heard(last.turn) == said(answer)
    assert last.turn.stop_reason == ("tool_use" if answer.calls else "end_turn")
    assert last.turn.usage is not None
    assert (last.turn.usage.input, last.turn.usage.output) == (answer.input_tokens, answer.output_tokens)


@pytest.mark.parametrize("wire", SPEAKERS)
@given(answer=ANSWERS)
@settings(max_examples=60)
def test_whole(wire: str, answer: Answer) -> None:
    turn = decode_whole(decoder_for(wire), speak_whole(wire, answer, player(wire).style()))
    assert heard(turn) == said(answer)
    assert not turn.failure


@pytest.mark.parametrize("wire", SPEAKERS)
def test_a_length_stop_is_told(wire: str) -> None:
    answer = Answer("So far", "Hm.", length_stop=True)
    streamed = list(decode_chunks(decoder_for(wire), speak(wire, answer, player(wire).style())))[-1]
    assert isinstance(streamed, Done) and streamed.turn.stop_reason == "max_tokens"


@pytest.mark.parametrize(
    "name",
    dialect_cases(
        "ids", "template", "leaks", "completion", "reasoning.field", "reasoning.tags", "reasoning.starts_inside"
    ),
)
def test_every_dialect_hears_its_own_double(name: str) -> None:
    answer = Answer("Both.", "Two at once.", (Call("list_files", {"path": "."}), Call("read_file", {"path": "é ☃"})))
    turn = PLAYERS[name].answer(answer, key="k")
    assert heard(turn) == said(answer)
    assert len({call.id for call in turn.tool_calls}) == 2


@given(WORDS)
def test_tokens_and_pieces_join_back(text: str) -> None:
    assert "".join(tokens(text)) == text
    assert "".join(pieces(text)) == text
