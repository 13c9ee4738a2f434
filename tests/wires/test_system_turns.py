"""A system turn stands where it was said, for every dialect: natively, or in the user's name and marked; never at the front."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.core.blocks import Conversation, Media, Text, ToolCall, Turn, human, system, tool_result
from midstream.core.tools import ToolSpec
from midstream.dialects.registry import resolve
from midstream.sim.players import Player, make_players
from midstream.sim.rules.hosts import judge
from midstream.wires.history_cache import HistoryCache
from midstream.wires.request import Request, RequestDraft, parse_request
from tests.long_run import each_once
from tests.representatives import dialect_cases

PLAYERS = make_players()
PLACED_BY = ("mid_system", "first_speaker_user", "developer_role", "merge_turns", "template")
"""Fields that decide where a system turn goes."""
TAG = "<system-instruction>"
CALL = ToolCall("hist_tool_" + "a" * 24, "ls", "{}")
LATE = ToolSpec("late", "Comes late.", {"type": "object", "properties": {"x": {"type": "string"}}})


def asked(player: Player, *turns: Turn, cache: HistoryCache | None = None, told: str = "Front.") -> Request:
    target = player.target
    return RequestDraft(Conversation(turns, told), target.dialect, target.model, cache=cache).encode()


def ai(*blocks: Any, key: str = "a") -> Turn:
    return Turn("ai", blocks, key=key)


@pytest.mark.parametrize("name", dialect_cases(*PLACED_BY))
def test_it_stays_between_what_was_said_before_and_after(name: str) -> None:
    player = PLAYERS[name]
    turns = (human("first", key="q"), ai("second"), system("MIDDLE", key="s"), human("third", key="r"))
    request = asked(player, *turns)
    body = request.body.decode()
    places = [body.index(word) for word in ("first", "second", "MIDDLE", "third")]
    assert places == sorted(places)
    folds = TAG in body
    native = player.target.dialect.mid_system and not player.target.dialect.first_speaker_user
    assert folds == (not native)
    assert ("system_folded" in [note.code for note in request.notes]) == folds
    assert [note.turn for note in request.notes if note.code == "system_folded"] == [2] * folds
    assert not judge(request.body, player.host, "paranoid")


@pytest.mark.parametrize("name", dialect_cases(*PLACED_BY, "system_role"))
def test_those_before_the_first_word_are_in_the_system_prompt_or_in_their_place(name: str) -> None:
    player = PLAYERS[name]
    request = asked(player, system("ONE", key="s"), system("TWO", key="t"), human("question", key="q"))
    body = request.body.decode()
    assert TAG not in body and not request.notes
    assert body.count("ONE") == body.count("TWO") == 1
    parsed = {} if player.target.dialect.wire == "completion" else json.loads(body)
    front = parsed.get("system") or parsed.get("systemInstruction") or parsed.get("instructions")
    if front is not None and not player.target.dialect.mid_system:
        assert "ONE" in json.dumps(front) and "TWO" in json.dumps(front)
    assert not judge(request.body, player.host, "paranoid")


def test_an_orphan_between_two_at_the_beginning_loses_neither() -> None:
    """What repair leaves out must not make the second one a leading one, which it was not."""
    orphan = Turn("tool", (tool_result(CALL, "x"),), key="o")
    request = asked(PLAYERS["claude"], system("ONE", key="s"), orphan, system("TWO", key="t"), human("q", key="q"))
    body = json.loads(request.body)
    assert "ONE" in json.dumps(body["system"]) and "TWO" in json.dumps(body["messages"])


CLAUDE = PLAYERS["claude-4.8"]
SHAPES: dict[str, tuple[list[Turn], list[str]]] = {
    # on a Claude that takes system messages: only after the user and before the assistant, or last
    "last": ([human("q"), system("s")], ["user", "system"]),
    "before an answer": ([human("q"), system("s"), ai("a"), human("x")], ["user", "system", "assistant", "user"]),
    "two in a row": ([human("q"), system("s"), system("t")], ["user", "system"]),
    "before a question": ([human("q"), system("s"), human("x")], ["user"]),
    "after an answer": ([human("q"), ai("a"), system("s")], ["user", "assistant", "user"]),
    "after a result": (
        [human("q"), ai(CALL), Turn("tool", (tool_result(CALL, "r"),)), system("s")],
        ["user", "assistant", "user", "system"],
    ),
    "between call and result": (
        [human("q"), ai(CALL), system("s"), Turn("tool", (tool_result(CALL, "r"),))],
        ["user", "assistant", "user", "system"],
    ),
}


@each_once(("cached", [False, True]), ("shape", SHAPES))
def test_where_anthropic_takes_one(shape: str, cached: bool) -> None:
    turns, roles = SHAPES[shape]
    turns = [Turn(turn.speaker, turn.blocks, key=f"k{at}") for at, turn in enumerate(turns)]
    cache = HistoryCache() if cached else None
    for end in range(1, len(turns) + 1 if cached else 1):
        asked(CLAUDE, *turns[:end], cache=cache)
    request = asked(CLAUDE, *turns, cache=cache)
    assert [message["role"] for message in json.loads(request.body)["messages"]] == roles
    assert request.body == asked(CLAUDE, *turns).body
    assert not judge(request.body, CLAUDE.host, "paranoid")


_turn = st.sampled_from(["human", "ai", "call", "system", "system", "tools"])


@settings(max_examples=60, deadline=None)
@given(st.lists(_turn, min_size=1, max_size=9), st.data())
def test_any_order_of_turns_is_accepted_and_the_cache_changes_nothing(kinds: list[str], data: st.DataObject) -> None:
    player = data.draw(st.sampled_from(list(PLAYERS.values())))
    turns = [human("begin", key="h")]
    for at, kind in enumerate(kinds):
        if kind == "human":
            turns.append(human(f"say {at}", key=f"k{at}"))
        elif kind == "ai":
            turns.append(Turn("ai", (Text(f"answer {at}"),), key=f"k{at}"))
        elif kind == "call":
            call = ToolCall(f"hist_tool_{at:024d}", "ls", "{}")
            turns.append(Turn("ai", (call,), key=f"k{at}"))
            if data.draw(st.booleans()):
                turns.append(system(f"between {at}", key=f"s{at}"))
            turns.append(Turn("tool", (tool_result(call, "r"),), key=f"r{at}"))
        else:
            turns.append(system(f"told {at}", tools=(LATE,) if kind == "tools" else (), key=f"k{at}"))
    turns.append(human("end", key="e"))
    cache = HistoryCache()
    for end in range(1, len(turns)):
        asked(player, *turns[:end], cache=cache)
    request = asked(player, *turns)
    assert asked(player, *turns, cache=cache).body == request.body
    assert not judge(request.body, player.host, "paranoid")
    body = request.body.decode()
    assert all(block.text in body for turn in turns for block in turn.blocks if isinstance(block, Text))


@pytest.mark.parametrize("name", dialect_cases("mid_tools", "native_tools", "schema"))
def test_tools_of_a_system_turn_can_be_called(name: str) -> None:
    player = PLAYERS[name]
    request = asked(player, human("q", key="q"), ai("a"), system("Now.", tools=(LATE,), key="s"), human("x", key="x"))
    assert [tool.name for tool in request.tools] == ["late"]
    assert "Comes late." in request.body.decode()
    declared = [note.turn for note in request.notes if note.code == "tool_declared"]
    assert declared == ([] if player.target.dialect.mid_tools else [2])
    assert not judge(request.body, player.host, "paranoid")


def test_the_last_declaration_of_a_name_counts() -> None:
    newer = ToolSpec("late", "Newer.")
    target = PLAYERS["claude"].target
    turns = (human("q", key="q"), system("a", tools=(LATE,), key="s"), system("b", tools=(newer,), key="t"))
    request = RequestDraft(Conversation(turns), target.dialect, target.model, (ToolSpec("late", "Old."),)).encode()
    assert [tool["description"] for tool in json.loads(request.body)["tools"]] == ["Newer."]
    assert len([note for note in request.notes if note.code == "tool_declared"]) == 2


def test_k3_declares_them_in_the_message() -> None:
    only_tools = system(tools=(LATE,), key="s")
    body = json.loads(asked(PLAYERS["moonshot-k3"], human("q", key="q"), only_tools, human("x", key="x")).body)
    message = body["messages"][2]
    assert message["role"] == "system" and message["tools"][0]["function"]["name"] == "late" and "tools" not in body
    read = parse_request("openai-chat", json.dumps(body).encode()).conversation
    assert [tool.name for tool in read.turns[1].tools] == ["late"]


def test_media_in_a_folded_turn_stay_inside_the_tag() -> None:
    pixel = Media("image/png", data="aaaa")
    turn = Turn("system", (pixel, Text("see")), key="s")
    (message,) = json.loads(asked(PLAYERS["claude"], human("q", key="q"), turn).body)["messages"]
    kinds = [part["text"] if part["type"] == "text" else part["type"] for part in message["content"]]
    assert kinds == ["q", TAG, "image", "see\n</system-instruction>"]


READ = {
    "openai-chat": ("messages", {"role": "user", "content": "q"}, {"role": "system", "content": "s"}),
    "anthropic": ("messages", {"role": "user", "content": "q"}, {"role": "system", "content": "s"}),
    "ollama": ("messages", {"role": "user", "content": "q"}, {"role": "system", "content": "s"}),
    "cohere": ("messages", {"role": "user", "content": "q"}, {"role": "system", "content": "s"}),
    "openai-responses": ("input", {"role": "user", "content": "q"}, {"role": "system", "content": "s"}),
}


@pytest.mark.parametrize("wire", READ)
def test_every_wire_with_a_role_for_it_reads_a_system_turn(wire: str) -> None:
    field, *messages = READ[wire]
    body = json.dumps({"model": "m", "max_tokens": 9, field: messages}).encode()
    turns = parse_request(wire, body).conversation.turns
    assert [(turn.speaker, turn.role, turn.text) for turn in turns] == [("human", "", "q"), ("system", "", "s")]


def test_what_claude_code_says_beside_a_system_message_goes_back() -> None:
    message = {"role": "system", "content": [{"type": "text", "text": "s"}], "output_config": {"effort": "low"}}
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}, message]}
    read = parse_request("anthropic", json.dumps(body).encode())
    target = resolve("anthropic/claude-opus-4-8")
    sent = json.loads(RequestDraft(read.conversation, target.dialect, target.model).encode().body)
    assert sent["messages"][1] == message
