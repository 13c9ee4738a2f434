"""The scripted model: which tools a prompt calls, with what, in which rounds; the same every time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.core.blocks import Conversation, Text, ToolCall, ToolResponse, Turn, human
from midstream.core.tools import ToolSpec
from midstream.doctor.matrix import TOOLS
from midstream.sim.answer import Answer
from midstream.sim.scripted_model import next_answer, plan

WEATHER = ToolSpec(
    "get_weather",
    "The weather",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"enum": ["C", "F"]}},
        "required": ["city", "days", "unit"],
    },
)
ALL = (*TOOLS[:2], WEATHER)


def rounds(asked: str) -> list[list[str]]:
    return [[tool.name for tool, _ in calls] for calls in plan(asked, ALL)]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("Hello there", []),
        ("List the files", [["list_files"]]),
        ("list the files and read notes.txt", [["list_files", "read_file"]]),
        ("List the files, read a.txt, read b.txt", [["list_files", "read_file", "read_file"]]),
        ("List the files, then read notes.txt", [["list_files"], ["read_file"]]),
        ("Read a.txt. Then the weather in Oslo, please.", [["read_file"], ["get_weather"]]),
        ("ls, then cat notes.txt", [["list_files"], ["read_file"]]),
    ],
)
def test_a_prompt_is_read_as_rounds_of_calls(asked: str, expected: list[list[str]]) -> None:
    assert rounds(asked) == expected


def say(*turns: Turn, thinks: bool = True) -> Answer:
    return next_answer(Conversation(turns), ALL, model="m", thinks=thinks)


def test_arguments_come_from_the_words_and_the_schema() -> None:
    answer = say(human("What is the weather in Oslo for 3 days"))
    assert [call.arguments for call in answer.calls] == [{"city": "Oslo", "days": 3, "unit": "C"}]
    assert say(human("Read src/a.py")).calls[0].arguments == {"path": "src/a.py"}


STOCK = ToolSpec(
    "stock",
    "Pieces of an article",
    {
        "type": "object",
        "properties": {
            "sku": {"type": "string"},
            "store": {"type": "string", "default": "Oslo"},
            "limit": {"type": "integer"},
            "share": {"type": "number"},
            "fresh": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["sku"],
    },
)
_SAID_EXACTLY: list[tuple[str, list[dict[str, Any]]]] = [
    ("Call stock with sku 'A1'.", [{"sku": "A1"}]),
    ("Call stock with sku 'B 2' and store 'Bergen'.", [{"sku": "B 2", "store": "Bergen"}]),
    ('call stock with store "Bergen", sku `B, and 2`', [{"sku": "B, and 2", "store": "Bergen"}]),
    ("Call stock with sku *.py, limit 3, share 0.5 and fresh false.", [{"sku": "*.py", "limit": 3, "share": 0.5, "fresh": False}]),
    ("Call stock with sku=A1, limit=many", [{"sku": "A1"}]),
    ("Call stock with sku 'A1' and call stock with sku 'B2', limit 2", [{"sku": "A1"}, {"sku": "B2", "limit": 2}]),
    ("Call stock with sku A1 and tags a", [{"sku": "A1"}]),
    ("Call stock with restock 'no' and sku 'A1'", [{"sku": "A1"}]),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "expected"), _SAID_EXACTLY)
def test_arguments_can_be_said_exactly(asked: str, expected: list[dict[str, Any]]) -> None:
    answer = next_answer(Conversation((human(asked),)), (*ALL, STOCK), model="m", thinks=False)
    assert [(call.name, call.arguments) for call in answer.calls] == [("stock", each) for each in expected]


def run(asked: str) -> list[Answer]:
    """The whole loop, every tool answering with its name."""
    turns: list[Turn] = [human(asked)]
    answers = []
    while True:
        answer = say(*turns)
        answers.append(answer)
        if not answer.calls:
            return answers
        calls = [ToolCall(f"hist_tool_{len(turns)}_{n}", call.name, call.json) for n, call in enumerate(answer.calls)]
        turns.append(Turn("ai", tuple(calls)))
        turns.append(Turn("tool", tuple(ToolResponse(c.id, c.name, (Text(f"<{c.name}>"),)) for c in calls)))


def test_after_the_last_round_every_result_is_quoted() -> None:
    answers = run("List the files and read a.txt, then read b.txt")
    assert [len(answer.calls) for answer in answers] == [2, 1, 0]
    assert answers[-1].text.count("<read_file>") == 2 and "<list_files>" in answers[-1].text
    assert answers[0].thinking and not say(human("List the files"), thinks=False).thinking


def test_a_failed_tool_is_said_to_have_failed() -> None:
    call = ToolCall("hist_tool_1", "read_file", "{}")
    response = ToolResponse(call.id, call.name, (Text("no such file"),), is_error=True)
    answer = say(human("Read a.txt"), Turn("ai", (call,)), Turn("tool", (response,)))
    assert "read_file failed: no such file" in answer.text


def test_what_asks_for_no_tool_is_answered_in_words() -> None:
    assert say(human("Good morning")).text == "This is m. You said: Good morning"
    assert say().text == "This is m. You said: nothing"


@given(st.lists(st.sampled_from(["list the files", "read a.txt", "then", "and", "hello", "weather 3"]), max_size=8))
@settings(max_examples=50)
def test_the_same_prompt_is_always_played_the_same_and_ends(words: list[str]) -> None:
    asked = " ".join(words)
    first: Any = run(asked)
    assert first == run(asked)
    assert len(first) == len(plan(asked, ALL)) + 1
