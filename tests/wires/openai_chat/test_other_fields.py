"""Reasoning in a field of a host's own name: read, and sent back under that name."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from midstream.codec import decode_response, decode_stream, encode_request
from midstream.core.blocks import Conversation, Turn, human, tool_result
from midstream.core.dialect import Options, Reasoning
from midstream.core.events import Done, ErrorEvent
from midstream.dialects.registry import REGISTRY, Resolved

RULES = Reasoning(
    fields=("thoughts",), field="thoughts", fixed_field=True, echo="calls", required=True, default_on=True
)
DIALECT = replace(REGISTRY.dialect("openai-compatible"), reasoning=RULES)
TARGET = Resolved("acme", "lumen-1", DIALECT, REGISTRY.providers["openai-compatible"].endpoint)
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def stream(*deltas: dict[str, object]) -> bytes:
    chunks = [{"id": "x", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    return b"".join([b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]) + b"data: [DONE]\n\n"


STREAM = stream(
    {"role": "assistant"}, {"thoughts": "Let me "}, {"thoughts": "look."}, {"tool_calls": [{"index": 0, **CALL}]}
)


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_it_is_read_from_a_stream_however_it_is_cut(size: int) -> None:
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    last = list(decode_stream(pieces, dialect=DIALECT, turn_key="k"))[-1]
    assert isinstance(last, Done) and last.turn.thinking == "Let me look." and last.turn.tool_calls


def test_it_is_read_from_a_body_and_sent_back_under_its_name() -> None:
    message = {"role": "assistant", "content": None, "thoughts": "Let me look.", "tool_calls": [CALL]}
    body = json.dumps(
        {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    ).encode()
    turn = decode_response(body, dialect=DIALECT, model="lumen-1", turn_key="k")
    assert turn.thinking == "Let me look."
    history = Conversation(
        (human("look", key="q"), turn, Turn("tool", (tool_result(turn.tool_calls[0], "sea"),), key="r"))
    )
    sent = json.loads(encode_request(TARGET, history, options=Options(), cache=None).body)["messages"][1]
    assert sent["thoughts"] == "Let me look." and "reasoning_content" not in sent


def test_what_is_no_json_is_left_to_the_usual_reading() -> None:
    events = list(decode_stream(b"data: {broken\n\n", dialect=DIALECT, turn_key="k"))
    assert isinstance(events[-1], ErrorEvent)
