"""A model's own thinking that goes back nowhere leaves a note: nothing is dropped unsaid."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midstream import Conversation, encode_request, human
from midstream.core.blocks import Origin, Text, Thinking, ToolCall, ToolResponse, Turn
from midstream.core.dialect import Options
from midstream.dialects.registry import resolve

CALL = ToolCall("hist_tool_" + "a" * 24, "look", "{}")

# model -> is the thinking of an answer without calls, and of one with calls, sent back?
ECHOES = {
    "cerebras/gpt-oss-120b": (False, False),
    "openai-compatible/some-model": (False, False),
    "deepseek/deepseek-reasoner": (False, True),
    "moonshot/kimi-k2.5": (True, True),
    "ollama/qwen3:4b": (True, True),
}


def asked(name: str, *, called: bool) -> Conversation:
    target = resolve(name)
    thought = Thinking("let me see", "", origin=Origin(target.dialect.provider, target.dialect.wire, target.model))
    answer = Turn("ai", (thought, CALL if called else Text("done")), key="t1", origin=thought.origin)
    result = (Turn("tool", (ToolResponse(CALL.id, "look", (Text("x"),)),), key="t2"),) if called else ()
    return Conversation((human("hi", key="t0"), answer, *result, human("go on", key="t3")))


@pytest.mark.parametrize("name", ECHOES)
@pytest.mark.parametrize("called", [False, True])
def test_it_is_sent_back_or_noted(name: str, called: bool) -> None:
    request = encode_request(name, asked(name, called=called))
    sent = b"let me see" in request.body
    noted = [(note.action, note.what, note.turn) for note in request.notes if note.code == "thinking_not_echoed"]
    assert sent is ECHOES[name][called]
    assert noted == ([] if sent else [("dropped", "thinking", 1)])


def test_with_thinking_off_it_is_noted_too() -> None:
    name = "moonshot/kimi-k2.5"
    request = encode_request(name, asked(name, called=False), options=Options(thinking="off"))
    assert b"let me see" not in request.body
    assert [note.code for note in request.notes] == ["thinking_not_echoed"]


@pytest.mark.parametrize("name", ["ollama/qwen3:4b", "gemini/gemini-2.5-flash"])
def test_wires_that_echo_can_be_told_not_to(name: str) -> None:
    target = resolve(name)
    silent = replace(target.dialect, reasoning=replace(target.dialect.reasoning, echo="never"))
    request = encode_request(replace(target, dialect=silent), asked(name, called=False))
    assert b"let me see" not in request.body
    assert [note.code for note in request.notes] == ["thinking_not_echoed"]
