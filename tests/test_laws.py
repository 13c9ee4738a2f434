"""The laws: history is never rewritten; and each law's tests, listed in CONTRIBUTING.md, are there and need nothing outside the repository."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import msgspec
import pytest

from midstream.core.blocks import (
    Conversation,
    Media,
    Opaque,
    Origin,
    Text,
    Thinking,
    ToolCall,
    Turn,
    human,
    system,
    tool_result,
)
from midstream.core.errors import LocalError
from midstream.core.tools import ToolSpec
from midstream.sim.answer import Answer, Call
from midstream.sim.players import make_players
from midstream.store import MemoryStore
from midstream.wires.history_cache import HistoryCache
from midstream.wires.request import RequestDraft

ROOT = Path(__file__).resolve().parents[1]
PLAYERS = make_players()
TOOLS = (ToolSpec("read_file", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}}),)


def everything() -> Conversation:
    """What an edge has most to do with: some doubles' own answers with calls, answered, cut off or open, and what few take."""
    turns: list[Turn] = [
        system("Be brief.", key="s"),
        human("Look at this.", Media("image/png", "iVBORw0KGgo="), key="q"),
    ]
    for number, (name, player) in enumerate(list(PLAYERS.items())[::9]):
        said = Answer("Let me look.", "It must be read.", (Call("read_file", {"path": name}),) * 2)
        turn = player.answer(said, key=f"a{number}", number=number)
        turns.append(turn)
        if number % 3:  # a third of the answers lack a result, and those in between have it twice
            turns.append(Turn("tool", (tool_result(turn.tool_calls[0], "ok"),) * (number % 3), key=f"r{number}"))
    origin = Origin("elsewhere", "anthropic", "some-model")
    turns += [
        Turn(
            "ai",
            (Thinking("hm", signature="c2ln", origin=origin), Opaque("seal", {"x": 1}, origin)),
            key="o",
            origin=origin,
        ),
        Turn("ai", (Text("Cut o"), ToolCall("hist_tool_x", "read_file", '{"path"')), key="f", failure="truncated"),
        human("Go on.", key="end"),
    ]
    return Conversation(tuple(turns), "Be brief.")


def test_no_request_changes_the_history_it_is_made_of() -> None:
    store = MemoryStore()
    kept = store.create(everything())
    conversation = store.load(kept)
    before = msgspec.msgpack.encode(conversation)
    cache = HistoryCache()
    adapted = 0
    for player in PLAYERS.values():
        target = player.target
        for _ in range(2):  # the second time from the cache
            try:
                request = RequestDraft(conversation, target.dialect, target.model, TOOLS, cache=cache).encode()
            except LocalError:
                continue
            adapted += bool(request.notes)
        assert msgspec.msgpack.encode(conversation) == before, target.model
    assert adapted > len(PLAYERS)
    assert msgspec.msgpack.encode(store.load(kept)) == before
    store.close()


FROZEN = ("core", "dialects", "store", "transport", "client", "agent")
"""Packages whose structs are all values; the wires' shapes and the gateway's counters are not."""


def structs() -> dict[str, type[msgspec.Struct]]:
    found = {}
    for package in FROZEN:
        at = importlib.import_module(f"midstream.{package}")
        for each in pkgutil.walk_packages(at.__path__, f"{at.__name__}."):
            module = importlib.import_module(each.name)
            for name, value in vars(module).items():
                if (
                    isinstance(value, type)
                    and issubclass(value, msgspec.Struct)
                    and value.__module__ == module.__name__
                ):
                    found[f"{module.__name__}.{name}"] = value
    return found


def test_values_are_frozen() -> None:
    found = structs()
    assert len(found) > 80
    assert [name for name, value in found.items() if not value.__struct_config__.frozen] == []


def listed() -> dict[str, list[str]]:
    """The tests of each law, from the table in CONTRIBUTING.md."""
    text = (
        (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## The laws and their tests")[2].partition("\n## ")[0]
    )
    rows = re.findall(r"^\| (\d)\. (.+?) \| (.+) \|$", text, re.MULTILINE)
    return {number: re.findall(r"`(tests/\S+?)`", tests) for number, _, tests in rows}


def test_every_law_has_its_tests() -> None:
    assert list(listed()) == [str(number) for number in range(1, 10)]
    assert all(listed().values())


@pytest.mark.parametrize("name", [name for names in listed().values() for name in names])
def test_a_listed_test_is_there_and_reads_no_shared_data_of_its_own(name: str) -> None:
    path, _, function = name.partition("::")
    source = (ROOT / path).read_text("utf-8")
    found = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == function]
    assert len(found) == 1, f"{name} is not there"
    written = "\n".join([ast.unparse(each) for each in (*found[0].decorator_list, *found[0].body)])
    assert not re.search(r"\b(shared|shared_only|vectors|vector_params)\(", written)
