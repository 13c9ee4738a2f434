"""events -> answer -> decode gives the same events and turn, up to what the wire cannot carry, however the bytes are cut."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from midstream.core.blocks import ToolCall
from midstream.core.events import ErrorEvent, Event, ToolCallStart
from midstream.core.ids import from_own_id
from midstream.core.lifecycle import check
from midstream.wires.answer import AnswerContext, AnswerWriter, make_writer
from midstream.wires.decode_context import DecodeContext
from midstream.wires.registry import WIRES, get_wire
from tests.wires.answers import LOSSES, Answer, answers, bare, carried, last_turn, speak

EXAMPLES = int(os.environ.get("MIDSTREAM_EXAMPLES", "60"))
"""How many examples each wire is tried with; MIDSTREAM_EXAMPLES=1000 for the long run."""
CONTEXT = AnswerContext(
    "m", "resp-1", 1_790_000_000, include=("reasoning.encrypted_content",), input_tokens=7, request_id="req-1"
)
EVENTFUL = [name for name in WIRES if name != "completion"]


def written(writer: AnswerWriter, events: list[Event]) -> list[bytes]:
    return [writer.event(event) for event in events]


def read(wire: str, chunks: list[bytes]) -> list[Event]:
    decoder = DecodeContext(get_wire(wire).default, "read", "m").decoder()
    found: list[Event] = []
    for chunk in chunks:
        found += decoder.feed(chunk)
    return found + decoder.close()


def cuts(data: bytes, places: list[int]) -> list[bytes]:
    inner = sorted({place % len(data) for place in places} - {0}) if data else []
    return [data[start:end] for start, end in zip([0, *inner], [*inner, len(data)], strict=True)]


def wire_ids(events: list[Event]) -> list[str]:
    return [block.raw_id or "" for block in last_turn(events).blocks if isinstance(block, ToolCall)]


@pytest.mark.parametrize("wire", EVENTFUL)
@settings(max_examples=EXAMPLES)
@given(answer=answers(), places=st.lists(st.integers(0, 10**6), max_size=6), array=st.booleans())
def test_what_is_written_is_read(wire: str, answer: Answer, places: list[int], array: bool) -> None:
    context = replace(CONTEXT, array=array)
    events = speak(answer, wire)
    pieces = written(make_writer(wire, context), events)
    data = b"".join(pieces)
    found = read(wire, pieces)
    check(found)
    ids = wire_ids(found)
    assert [from_own_id(each) for each in ids] == [event.id for event in events if isinstance(event, ToolCallStart)]
    assert [bare(event) for event in found] == [bare(event) for event in carried(answer, wire, context, ids)]
    for chunks in ([data], cuts(data, places), [data[at : at + 1] for at in range(len(data))]):
        assert read(wire, chunks) == found
