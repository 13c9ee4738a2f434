"""The same turn on every wire: the parts are the request, every id is found, and every note has its place."""

from __future__ import annotations

import itertools
import json
import re

import msgspec
import pytest

from midstream.client.catalog import Catalog
from midstream.client.config import Config
from midstream.codec import encode_request
from midstream.core.blocks import (
    Compacted,
    Conversation,
    Opaque,
    Origin,
    Text,
    Thinking,
    ToolCall,
    Turn,
    human,
    tool_result,
)
from midstream.core.compaction import sent_turns
from midstream.core.errors import LocalError
from midstream.web.request_view import PICTURE, RequestView, calls_of, known_tools, spine
from tests.long_run import each_kind, each_once

CATALOG = Catalog(Config(), environ={})
PROMPTS = [f"completions/{name}" for name in ("kimi-k2.5", "kimi-k3", "mistral", "deepseek", "gemma", "qwen3")]
MODELS = [*[model for _, model in PICTURE], *PROMPTS]


def work(rounds: int = 3) -> Conversation:
    """An agent's work: two calls a round, by a model that thinks."""
    turns: list[Turn] = [human("Read them.")]
    origin = Origin("moonshot", "openai-chat", "kimi-k2.5")
    for number in range(rounds):
        calls = [
            ToolCall(f"hist_tool_{number:012d}{which:012d}", "read_file", json.dumps({"path": f"{number}.{which}"}))
            for which in range(2)
        ]
        said = (Thinking("Hm.", field="reasoning_content", origin=origin), Text(f"Round {number}."), *calls)
        turns.append(Turn("ai", said, key=f"k{number}", origin=origin))
        turns.append(Turn("tool", tuple([tool_result(call, f"words of {call.id}") for call in calls])))
    turns.append(Turn("ai", (Text("Done."),), key="last", origin=origin))
    return Conversation(tuple(turns), system="Be brief.")


def summarised() -> Conversation:
    """The same, with a summary of its first round, an instruction before it that stays, and two messages in a row."""
    turns = list(work().turns)
    turns[1:1] = [Turn("system", (Text("Read slowly."),), role="developer")]
    turns[6:6] = [Turn("human", (Text("In short: one was read."),), compacted=Compacted("summary", until=4))]
    turns[7:7] = [human("Go on."), human("And be quick.")]
    return Conversation(tuple(turns), system="Be brief.")


@each_once(("model", MODELS), ("conversation", [work(), summarised()]))
def test_the_parts_are_the_request(model: str, conversation: Conversation) -> None:
    for turn in range(len(conversation.turns)):
        view = RequestView(CATALOG, conversation, turn, model).json()
        body = msgspec.json.decode(view["raw"])
        history = body.pop(view["key"])
        assert view["around"] == body
        if isinstance(history, str):
            assert "".join([part["text"] for part in view["parts"]]) == history
        else:
            assert [item for part in view["parts"] for item in part["items"]] == history
        # The parts follow each other from the first turn to the last that is sent.
        sent = turn if conversation.turns[turn].speaker == "ai" else turn + 1
        places = [part["turns"] for part in view["parts"]]
        assert places[0][0] == 0 and places[-1][1] == max(1, sent)
        assert all(one[1] == other[0] for one, other in itertools.pairwise(places))


@each_once(("model", MODELS), ("conversation", [work(), summarised()]))
def test_what_a_turn_says_stands_in_its_part(model: str, conversation: Conversation) -> None:
    last = len(conversation.turns) - 1
    sent = sent_turns(conversation.turns)
    view = RequestView(CATALOG, conversation, last, model).json()
    for part in view["parts"]:
        first, end = part["turns"]
        told = part.get("text") or json.dumps(part["items"], ensure_ascii=False)
        for number in range(first, end):
            turn = conversation.turns[number]
            if number not in sent.places or number == sent.summary or turn.is_instruction:
                continue  # not sent, or sent elsewhere: the summary where the turns were, instructions where the wire has them
            if turn.text:
                assert turn.text in told
            for call in turn.tool_calls:
                if call.id in view["ids"]:
                    assert view["ids"][call.id] in told
    assert all(0 <= note["turn"] < last for note in view["notes"] if note["turn"] is not None)
    if sent.summary >= 0:
        summary = conversation.turns[sent.summary]
        note = next(each for each in view["notes"] if each["code"] == "compacted")
        at = next(part for part in view["parts"] if part["turns"][0] <= note["turn"] < part["turns"][1])
        assert note["turn"] == 3 and summary.text in json.dumps(at, ensure_ascii=False)


@pytest.mark.parametrize("model", [model for model in MODELS if model.startswith("completions/")])
def test_a_prompt_is_cut_where_a_turn_begins(model: str) -> None:
    conversation = Conversation((human("One"), *work().turns[-1:], human("Two"), *work().turns[-1:], human("Three")))
    *parts, _ = RequestView(CATALOG, conversation, 4, model).json()["parts"]
    assert len(parts) == 4
    for part, following in itertools.pairwise(parts):
        # Neither in the middle of a mark nor behind the one that opens the next turn.
        assert part["text"].count("<|") == part["text"].count("|>")
        assert not part["text"].endswith("<|start_header_id|>")
        assert following["text"].count("<|") == following["text"].count("|>")


@pytest.mark.parametrize("model", ["moonshot/kimi-k2.5", "anthropic/claude-sonnet-4-5"])
def test_a_turn_that_is_not_sent_goes_with_the_next(model: str) -> None:
    said = [human("One."), Turn("ai", (Text("Two."),)), Turn("ai", (Text(" "),)), human("Four."), human("Five.")]
    parts = RequestView(CATALOG, Conversation(tuple(said)), 3, model).json()["parts"]
    assert [part["turns"] for part in parts] == [[0, 1], [1, 2], [2, 4]]


def test_the_ids_are_those_of_the_wire() -> None:
    conversation = work()
    ids = {
        model: RequestView(CATALOG, conversation, 7, model).json()["ids"]
        for model in ("moonshot/kimi-k2.5", "anthropic/claude-sonnet-4-5", "mistral/mistral-large-latest")
    }
    kimi, claude, mistral = ids.values()
    assert list(kimi.values()) == [f"functions.read_file:{number}" for number in range(6)]
    assert all(name.startswith("toolu_") for name in claude.values())
    assert all(len(name) == 9 for name in mistral.values())
    assert set(kimi) == set(claude) == set(mistral) == {call.id for call in calls_of(conversation.turns)}


def odd_calls() -> Conversation:
    """Calls whose names no wire takes as they are, of a namespace and with plain text, and an id that was used before."""
    calls = [
        ToolCall("one", "читать_файл"),
        ToolCall("two", "read", namespace="files"),
        ToolCall("three", "apply_patch", '{"input": "x"}', kind="freeform"),
        ToolCall("one", "read_file"),
    ]
    turns = [human("Go.")]
    for number, call in enumerate(calls):
        turns += [Turn("ai", (call,), key=f"k{number}"), Turn("tool", (tool_result(call, "r"),))]
    return Conversation((*turns, Turn("ai", (Text("Done."),), key="last")))


def names_on_the_wire(body: dict[str, object]) -> set[str]:
    """The ids that pair calls with results in a request, found without the encoder."""
    if isinstance(prompt := body.get("prompt"), str):
        patterns = [r"<\|tool_call_begin\|>(.*?)<\|tool_call_argument_begin", r'"id": "(\w{9})"']
        return {found for pattern in patterns for found in re.findall(pattern, prompt)}
    keys = r'"(?:tool_call_id|tool_use_id|call_id)":"(.*?)"', r'"functionResponse":{"id":"(.*?)"'
    return {
        found
        for pattern in keys
        for found in re.findall(pattern, json.dumps(body, separators=(",", ":"), ensure_ascii=False))
    }


@each_kind("model", MODELS, lambda model: CATALOG.resolve(model).dialect.wire)
def test_every_id_of_a_request_is_traced(model: str) -> None:
    conversation = odd_calls()
    view = RequestView(CATALOG, conversation, 9, model).json()
    assert set(view["ids"].values()) == names_on_the_wire(json.loads(view["raw"]))
    # The spine has the same calls, so that all three light up; each result that of its own call.
    stops = spine(conversation, 9)
    calls = [call["id"] for stop in stops for call in stop["calls"]]
    assert set(view["ids"]) in (set(calls), set())
    assert len(set(calls)) == 4 and calls == [result["id"] for stop in stops for result in stop["results"]]


@pytest.mark.parametrize("model", [model for model in MODELS if model.startswith("completions/")])
def test_a_note_of_a_prompt_stands_at_its_turn(model: str) -> None:
    # The result that is missing gets a turn of its own in the prompt.
    turns = [
        human("One."),
        Turn("ai", (ToolCall("lost", "read_file"),), key="k"),
        human("Two."),
        Turn("ai", (Opaque("card", {}), Text("Three.")), key="l"),
        human("Four."),
    ]
    notes = RequestView(CATALOG, Conversation(tuple(turns)), 4, model).json()["notes"]
    assert {note["code"]: note["turn"] for note in notes} == {"unanswered_call": 1, "misplaced_block": 3}


def test_a_long_history_shows_its_end() -> None:
    conversation = work(200)
    view = RequestView(CATALOG, conversation, 400, "anthropic/claude-sonnet-4-5").json()
    assert len(view["parts"]) < 60
    assert view["parts"][0]["turns"][1] > 300
    assert len(spine(conversation, 400)) <= 40


def test_the_request_is_that_of_the_encoder() -> None:
    conversation = work()
    view = RequestView(CATALOG, conversation, 7, "gemini/gemini-3-pro-preview").json()
    before = msgspec.structs.replace(conversation, turns=conversation.turns[:7])
    expected = encode_request("gemini/gemini-3-pro-preview", before, tools=known_tools(conversation), cache=None)
    assert json.loads(view["raw"])["contents"] == json.loads(expected.body)["contents"]


def test_a_turn_that_is_not_there_is_told() -> None:
    with pytest.raises(LocalError, match="no turn 99"):
        RequestView(CATALOG, work(), 99, MODELS[0])


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        ("moonshot/kimi-k2.5", "authorization", "Bearer YOUR_KEY"),
        ("anthropic/claude-sonnet-4-5", "x-api-key", "YOUR_KEY"),
        ("gemini/gemini-3-pro-preview", "x-goog-api-key", "YOUR_KEY"),
        ("ollama/qwen3:4b", "", ""),
    ],
)
def test_the_headers_say_where_a_key_goes_and_not_which(model: str, name: str, value: str) -> None:
    catalog = Catalog(Config(), environ={"MOONSHOT_API_KEY": "sk-own", "ANTHROPIC_API_KEY": "sk-own"})
    headers = RequestView(catalog, work(), 7, model).json()["headers"]
    assert {key: each for key, each in headers.items() if "YOUR_KEY" in each} == ({name: value} if name else {})
    assert headers["content-type"] == "application/json" and "sk-own" not in str(headers)
    if name == "x-api-key":
        assert headers["anthropic-version"] == "2023-06-01"


def test_a_header_that_the_user_configured_is_hidden() -> None:
    config = msgspec.convert({"providers": {"moonshot": {"headers": {"x-team": "a-secret"}}}}, Config)
    headers = RequestView(Catalog(config, environ={}), work(), 7, "moonshot/kimi-k2.5").json()["headers"]
    assert headers["x-team"] == "‹hidden›"


def test_a_query_that_the_user_configured_is_hidden() -> None:
    query = {"sig": "a-secret", "api-version": "2026-01-01"}
    config = msgspec.convert({"providers": {"moonshot": {"query": query}}}, Config)
    line = RequestView(Catalog(config, environ={}), work(), 7, "moonshot/kimi-k2.5").json()["line"]
    assert line.endswith("?sig=‹hidden›&api-version=2026-01-01")
