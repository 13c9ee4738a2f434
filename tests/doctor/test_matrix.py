"""Any order of models: what one made, every other can read, and comes back as it was."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from midstream import Conversation, Text, encode_request
from midstream.doctor.matrix import (
    _CLOSE,
    _LIST,
    _NOTE,
    _PATCH,
    _READ,
    MORE_TOOLS,
    SCENES,
    TOOLS,
    Scene,
    hand_offs,
)
from midstream.sim.answer import Answer
from midstream.sim.players import Player, make_players
from midstream.sim.rules import judge
from midstream.store import SqliteStore
from midstream.wires.history_cache import HistoryCache

PLAYERS = make_players()
CORE = (
    "moonshot-k2", "moonshot-k2-thinking", "moonshot-k2.5", "moonshot-k3", "vllm-kimi-k2.5", "deepinfra-kimi-k2.5",
    "openrouter-kimi-k2.5", "openai", "mistral", "deepseek-reasoner", "minimax", "qwen", "zai", "claude", "claude-4.6",
    "moonshot-anthropic-k2.5", "openai-responses-5", "gemini-2.5-flash", "gemini-3-pro", "ollama", "cohere", "cohere-reasoning",
)  # fmt: skip


def core() -> dict[str, Player]:
    return {name: PLAYERS[name] for name in CORE if name in PLAYERS}


def refused(found: Any) -> dict[str, str]:
    return {f"{cell.maker} -> {cell.reader}: {cell.scene}": str(cell.problems[0]) for cell in found if cell.problems}


def test_every_pair_of_the_core_hands_over_every_history() -> None:
    found = list(hand_offs(core()))
    assert len(found) == len(core()) ** 2 * len(SCENES)
    assert not refused(found)


ANCHORS = ("moonshot-k2.5", "claude", "openai-responses-5")


@pytest.mark.parametrize("turn", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
def test_every_dialect_of_the_registry_reads_and_is_read(turn: int) -> None:
    """Each against three that differ most, one in each turn, in both directions; a new dialect joins by being registered."""
    wrong: dict[str, str] = {}
    others = [name for name in PLAYERS if name not in CORE]
    for place, anchor in enumerate(ANCHORS):
        met = others[(place - turn) % len(ANCHORS) :: len(ANCHORS)]
        other = {anchor: PLAYERS[anchor]}
        wrong |= refused(hand_offs(other, readers={name: PLAYERS[name] for name in met}))
        for name in met:
            own = {name: PLAYERS[name]}
            wrong |= refused(hand_offs(own, readers={**other, **own} if turn == 1 else other))
    assert not wrong


def back_again(maker: Player, middle: Player, more: bool = False) -> Any:
    """With `more`, freeform calls and namespaces, and the system speaks."""
    newer, also = (_NOTE, _CLOSE, _PATCH) if more else (), ("ok",) * (3 if more else 0)
    scene = Scene().answer(maker, Answer("", "First.", (_LIST, *newer))).results("notes.txt", *also)
    scene = scene.told("Half way.") if more else scene
    scene.answer(middle, Answer("", "Second.", (_READ,))).results("buy milk")
    scene.answer(maker, Answer("", "Third.", (_READ, _LIST, *newer))).results("buy milk", "notes.txt", *also)
    tools = TOOLS + MORE_TOOLS if more else TOOLS
    body = json.loads(encode_request(maker.target, scene.done(), tools=tools, cache=None).body)
    items = body.get("messages") or body.get("input") or body.get("contents")
    return told(items), body


def is_second(item: dict[str, Any]) -> bool:
    """Whether this message is the middle answer: there the reasoning may differ, for it was another's."""
    text = json.dumps(item)
    if item.get("type") == "reasoning":
        return "Second." in text
    calls = item.get("type") in ("function_call",) or any(
        mark in text for mark in ('"tool_calls"', '"tool_use"', '"functionCall"')
    )
    return calls and "read_file" in text and "list_files" not in text


@pytest.mark.parametrize("name", [name for name in CORE if name in PLAYERS])
def test_there_and_back_again_is_the_form_it_would_have_had(name: str) -> None:
    maker = PLAYERS[name]
    for more in (False, True):
        stayed, whole = back_again(maker, maker, more)
        kept = [thought for thought in ("First.", "Third.") if "First." in json.dumps(whole)]
        for other in core().values():
            went, body = back_again(maker, other, more)
            assert went == stayed, other.name
            assert all(thought in json.dumps(body) for thought in kept), other.name


NEW_SCENES = (
    "system turns first", "system turn last", "system turns between", "tools in a system turn", "freeform calls", "namespaces",
)  # fmt: skip


@pytest.mark.parametrize("scene", NEW_SCENES)
def test_what_was_stored_is_there_after_every_dialect_has_read_it(scene: str, tmp_path: Path) -> None:
    conversation = SCENES[scene](PLAYERS["openai-responses-5"], PLAYERS["claude"]).done()
    before = conversation.to_json()
    with closing(SqliteStore(tmp_path / "kept.db")) as store:
        stored = store.load(store.create(conversation))
        assert stored.turns == conversation.turns
        cache = HistoryCache()
        for player in PLAYERS.values():
            request = encode_request(player.target, stored, tools=TOOLS + MORE_TOOLS, cache=cache)
            assert not judge(request.body, player.host, "paranoid"), player.name
            said = [block for turn in stored.turns if turn.speaker != "ai" for block in turn.blocks]
            texts = [block.text for block in said if isinstance(block, Text)]
            assert all(text in request.body.decode() for text in texts), player.name
        assert store.load(stored.id).turns == conversation.turns
    assert conversation.to_json() == before
    assert stored.to_json() == Conversation(conversation.turns, conversation.system, stored.id).to_json()


def told(items: list[dict[str, Any]]) -> Any:
    """The messages with every call id replaced by its order: the middle call has another maker, so another id."""
    seen: dict[str, str] = {}

    def walk(value: Any) -> Any:
        if isinstance(value, list):
            return [walk(item) for item in value]
        if not isinstance(value, dict):
            return value
        labels_call = "function" in value or "custom" in value or value.get("type") == "tool_use"
        kept = {key: item for key, item in value.items() if key != "id" or labels_call}
        for key in ("id", "tool_call_id", "tool_use_id", "call_id"):
            if isinstance(kept.get(key), str):
                kept[key] = seen.setdefault(kept[key], f"#{len(seen)}")
        return {key: walk(item) for key, item in kept.items()}

    return [item for item in walk(items) if not is_second(item)]
