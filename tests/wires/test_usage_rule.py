"""One rule for the counts of a turn: what the host stated so far, and None, never zeros, where it stated nothing."""

from __future__ import annotations

import msgspec
import pytest

from midstream import Usage, decode_response, make_decoder, reduce
from midstream.sim.answer import Answer
from midstream.sim.players import Player, make_players
from midstream.sim.speech import speak

ANSWER = Answer("One, two.", "Hm.", (), input_tokens=7)


def one_of_each() -> dict[str, Player]:
    found: dict[str, Player] = {}
    for player in make_players().values():
        dialect = player.target.dialect
        found.setdefault(f"{dialect.wire} {dialect.completion if dialect.wire == 'completion' else ''}".strip(), player)
    return found


PLAYERS = one_of_each()


@pytest.mark.parametrize("name", PLAYERS)
def test_a_partial_and_a_failed_turn_have_what_was_stated_or_none(name: str) -> None:
    player = PLAYERS[name]
    dialect = player.target.dialect
    pieces = list(speak(dialect.wire, ANSWER, player.style()))
    for cut in range(len(pieces) + 1):
        decoder = make_decoder(dialect=dialect, turn_key="k", model="m")
        events = [event for piece in pieces[:cut] for event in decoder.feed(piece)]
        for turn in (reduce(events), reduce([*events, *decoder.close()])):
            # Anthropic states the tokens it read at the beginning.
            assert turn.usage is None or turn.usage.read == 7, cut
            assert turn.failure or turn.usage is None or turn.usage.output == ANSWER.output_tokens, cut
        assert cut or reduce(events).usage is None


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("openai/gpt-4o", {"choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}], "usage": {}}),
        ("anthropic/claude-sonnet-4-5", {"type": "message", "content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn", "usage": {}}),
        ("openai-responses/gpt-5.1", {"status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": "a"}]}], "usage": {}}),
        ("gemini/gemini-2.5-flash", {"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}], "usageMetadata": {}}),
        ("ollama/llama3.1", {"message": {"role": "assistant", "content": "a"}, "done": True, "done_reason": "stop"}),
        ("cohere/command-a-03-2025", {"message": {"content": [{"type": "text", "text": "a"}]}, "finish_reason": "COMPLETE", "usage": {}}),
        ("completions/qwen3-32b", {"choices": [{"text": "a", "finish_reason": "stop"}], "usage": {}}),
    ],
)  # fmt: skip
def test_a_host_that_states_no_counts_gives_none(dialect: str, body: dict[str, object]) -> None:
    turn = decode_response(msgspec.json.encode(body), dialect=dialect)
    assert (turn.text, turn.failure, turn.usage) == ("a", "", None)
    assert (turn.usage or Usage()).total == 0


def test_a_native_body_without_counts_has_none() -> None:
    llamacpp = PLAYERS["completion llamacpp"].target.dialect
    assert decode_response(b'{"content":"a","stop":true,"stop_type":"eos"}', dialect=llamacpp).usage is None
    native = PLAYERS["completion deepinfra"].target.dialect
    body = {"results": [{"generated_text": "hm</think>a"}]}
    assert decode_response(msgspec.json.encode(body), dialect=native).usage is None
    counted = decode_response(
        msgspec.json.encode({**body, "num_tokens": 3, "num_input_tokens": 2}), dialect=native
    ).usage
    assert counted is not None and (counted.input, counted.output) == (2, 3)
