"""Messages of another library become a conversation that every host takes, with the answers as they were given."""

from __future__ import annotations

import pytest

from midstream import Media, Origin, Text, Thinking, ToolCall, ToolResponse, Turn, encode_request, resolve
from midstream.adapters.answer_memory import AnswerMemory, packed
from midstream.adapters.history import HistoryBuilder

KIMI = Origin("moonshot", "openai-chat", "kimi-k2.5")
CALL = ToolCall("hist_tool_zfx4O2Q7xIApm_e5-pdtvZkb", "glob", '{"a":1}', provider="moonshot", raw_id="glob:0")
ANSWER = Turn(
    "ai",
    (Thinking("hm", "reasoning_content", origin=KIMI), Text("Look."), CALL),
    key="k1",
    origin=KIMI,
    stop_reason="tool_use",
)


def test_instructions_at_the_beginning_are_the_prompt_and_later_ones_turns() -> None:
    history = HistoryBuilder(AnswerMemory())
    for text in ("Be brief.", "", "Be kind."):
        history.system(text)
    history.human([Text("hi")])
    history.system("Now in French.")
    conversation = history.conversation()
    assert conversation.system_text == "Be brief.\n\nBe kind."
    assert [(turn.speaker, turn.text) for turn in conversation.turns] == [("human", "hi"), ("system", "Now in French.")]


def test_results_of_one_answer_are_one_turn() -> None:
    history = HistoryBuilder(AnswerMemory())
    history.human([Text("go"), Media("image/png", "AAAA")])
    history.answer([ToolCall("a", "f"), ToolCall("b", "g")])
    history.results([ToolResponse("b", "g", (Text("2"),))])
    history.results([ToolResponse("a", "f", (Text("1"),))])
    history.results([])
    history.human([])
    turns = history.conversation().turns
    assert [turn.speaker for turn in turns] == ["human", "ai", "tool"]
    assert {each.call_id: each.text for each in turns[2].tool_responses} == {
        call.id: text for call, text in zip(turns[1].tool_calls, ("1", "2"), strict=True)
    }


@pytest.mark.parametrize("way", ["carried", "remembered"])
def test_an_answer_is_the_one_that_was_given(way: str) -> None:
    memory = AnswerMemory()
    history = HistoryBuilder(memory)
    history.human([Text("go")])
    if way == "remembered":
        memory.add(history.conversation(), ANSWER)
    history.answer([Text("Look."), ToolCall(CALL.id, "glob", '{"a": 1}')], packed(ANSWER) if way == "carried" else None)
    history.results([ToolResponse(CALL.id, "glob", (Text("x"),))])
    conversation = history.conversation()
    assert conversation.turns[1] == ANSWER
    for model in ("moonshot/kimi-k2.5", "anthropic/claude-sonnet-4-5", "mistral/mistral-large-latest"):
        assert encode_request(resolve(model), conversation).body


@pytest.mark.parametrize("data", [{"speaker": "human"}, {"blocks": 1}, "x", 7, {}])
def test_what_is_no_answer_of_ours_is_passed_over(data: object) -> None:
    history = HistoryBuilder(AnswerMemory())
    history.human([Text("go")])
    history.answer([Text("fine")], data)
    assert history.conversation().turns[1].blocks == (Text("fine"),)


def test_reading_twice_gives_the_same_ids() -> None:
    def read() -> object:
        history = HistoryBuilder(AnswerMemory())
        history.human([Text("go")])
        history.answer([ToolCall("toolu_elsewhere", "f")])
        history.results([ToolResponse("toolu_elsewhere", "f", (Text("1"),))])
        return history.conversation()

    assert read() == read()
