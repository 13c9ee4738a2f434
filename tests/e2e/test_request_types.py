"""Every hand-off as the next provider's own SDK types it: 0 complaints, except fields that are listed with their reason."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from midstream.codec import encode_request
from midstream.core.blocks import Conversation, human
from midstream.core.dialect import HostPath, Options
from midstream.core.tools import ToolSpec
from midstream.dialects.registry import REGISTRY
from midstream.doctor.matrix import SCENES, TOOLS
from midstream.sim.players import Player, make_players
from tests.e2e.request_types import TYPES, complaints

_DATA = Path(__file__).parents[1] / "data" / "e2e"
_BY_WIRE = {
    "openai-chat": ("openai chat",),
    "openai-responses": ("openai responses", "open responses"),
    "anthropic": ("anthropic",),
    "gemini": ("google-genai",),
    "ollama": ("ollama",),
    "cohere": ("cohere",),
}
_BY_PROVIDER = {"mistral": ("mistralai",)}
# How many hand-offs are judged, at least: 8,000 in all, and some by each.
_AT_LEAST = {
    "openai chat": 8000, "openai responses": 1500, "open responses": 1500, "anthropic": 1500, "mistralai": 150,
    "google-genai": 1500, "ollama": 1500, "cohere": 500,
}  # fmt: skip

# One of each kind of history: every wire, every scheme of ids, signed and open reasoning.
MAKERS = (
    "moonshot-k2.5", "moonshot-k3", "vllm-kimi-k2.5", "deepinfra-kimi-k2.5", "deepinfra-kimi-k2.5-native", "openai",
    "mistral", "deepseek-reasoner", "claude", "openai-responses-5", "responses-compatible", "gemini-3-pro", "ollama",
    "cohere-reasoning",
)  # fmt: skip
_SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
# What a caller may ask for beside the history, one thing at a time.
ASKED: Mapping[str, Options] = {
    "a whole answer": Options(stream=False),
    "sampling": Options(max_tokens=2000, temperature=0.5, stop=("x", "y"), seed=3),
    "top_p": Options(top_p=0.9),
    "penalties": Options(presence_penalty=0.5, frequency_penalty=0.5),
    "thinking on": Options(thinking="on"),
    "thinking off": Options(thinking="off"),
    "minimal effort": Options(effort="minimal"),
    "low effort": Options(effort="low"),
    "highest effort": Options(effort="max"),
    "a budget": Options(thinking_budget=2048, max_tokens=8000),
    "no tools": Options(tool_choice="none"),
    "some tool": Options(tool_choice="required"),
    "one tool": Options(tool_choice="read_file"),
    "one call": Options(parallel_tool_calls=False),
    "JSON": Options(response_format={"type": "json_object"}),
    "a schema": Options(
        response_format={"type": "json_schema", "json_schema": {"name": "answer", "schema": _SCHEMA, "strict": True}}
    ),
    "a schema, the host's way": Options(schema=_SCHEMA),
    "reasoning as text": Options(foreign_thinking="text"),
    "reasoning kept": Options(foreign_thinking="keep"),
    "caching": Options(cache=True),
    "a beginning": Options(prefill="Well"),
    "a user": Options(user="u1"),
    "no placeholder": Options(missing_reasoning="disable-thinking"),
}


class Listed(msgspec.Struct, frozen=True):
    """A field that the types do not know and the host takes. `value`: only this value is meant."""

    types: str
    providers: tuple[str, ...]
    field: str
    why: str
    source: str
    value: Any = msgspec.UNSET


LISTED = msgspec.json.decode((_DATA / "listed_fields.json").read_bytes(), type=list[Listed])


def without(value: Any, path: list[str], listed: Listed) -> bool:
    """Take a listed field out of a body; whether it was there. `*` stands for every item, `*key=word` for those
    with that word, `*key` for those with that field."""
    step, *rest = path
    if step.startswith("*"):
        key, equals, word = step[1:].partition("=")
        items = value if isinstance(value, list) else []
        chosen = [
            item
            for item in items
            if isinstance(item, dict) and (item.get(key) == word if equals else not key or key in item)
        ]
        if rest:
            return sum([without(item, rest, listed) for item in chosen]) > 0
        items[:] = [item for item in items if item not in chosen]
        return bool(chosen)
    if not isinstance(value, dict) or step not in value:
        return False
    if rest:
        return without(value[step], rest, listed)
    if listed.value is not msgspec.UNSET and value[step] != listed.value:
        return False
    del value[step]
    return True


@cache
def players() -> dict[str, Player]:
    return make_players()


def readers_of(types: str) -> list[Player]:
    """Every dialect whose requests an SDK has types for. Raw completions have none: their request is one text."""
    return [
        as_resolved(player)
        for player in players().values()
        if types in (_BY_PROVIDER.get(player.target.provider) or _BY_WIRE.get(player.target.dialect.wire, ()))
    ]


def as_resolved(player: Player) -> Player:
    """With what the registry knows of this very model, such as the efforts it takes."""
    target = player.target
    found = REGISTRY.providers[target.provider].dialect_for(target.model)
    if found is None or found.name != player.name:  # a path beside the model's first one
        return player
    return replace(player, target=replace(target, dialect=found))


@cache
def own_history(scene: str, maker: str) -> Conversation:
    return SCENES[scene](players()[maker], players()[maker]).done()


def makers_for(number: int, readers: int) -> Sequence[str]:
    """Every maker for each reader; where there are very many readers, three in rotation."""
    if readers < 50:
        return MAKERS
    return [MAKERS[(number + step * 5) % len(MAKERS)] for step in range(3)]


def bodies(reader: Player, makers: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The requests made of the makers' histories for one reader, and of two histories with every option."""
    for maker in makers:
        for scene in SCENES:
            if scene == "there and back":
                history = SCENES[scene](players()[maker], reader).done()
            else:
                history = own_history(scene, maker)
            yield f"{maker}, {scene}", encoded(reader, history)
    back = SCENES["there and back"](players()["claude"], reader).done()
    for words, options in ASKED.items():
        yield f"claude, there and back, {words}", encoded(reader, back, options)
        yield (
            f"gemini-3-pro, images, {words}",
            encoded(reader, own_history("images in results", "gemini-3-pro"), options),
        )


def encoded(
    reader: Player, history: Conversation, options: Options = Options(), tools: Sequence[ToolSpec] = TOOLS
) -> dict[str, Any]:
    request = encode_request(reader.target, history, tools=tools, options=options, cache=None)
    return dict(json.loads(request.body))


@pytest.mark.parametrize("types", TYPES)
def test_no_hand_off_is_refused_by_the_types_of_the_next_providers_sdk(types: str) -> None:
    count = 0
    needed: set[str] = set()
    refused: list[str] = []
    listed = [each for each in LISTED if each.types == types]
    readers = readers_of(types)
    for number, reader in enumerate(readers):
        mine = [each for each in listed if reader.target.provider in each.providers]
        for where, body in bodies(reader, makers_for(number, len(readers))):
            count += 1
            found = complaints(types, body)
            if found and mine:
                used = {each.field for each in mine if without(body, each.field.split("."), each)}
                found = complaints(types, body)
                needed |= set() if found else used
            if found:
                refused.append(f"{where} for {reader.name}: {found[:2]}")
    assert not refused, f"{len(refused)} of {count} hand-offs are refused, the first: {refused[:3]}"
    assert count >= _AT_LEAST[types], f"only {count} hand-offs were judged"
    stale = [each.field for each in listed if each.field not in needed]
    assert not stale, f"nothing needs these fields any more; take them out of listed_fields.json: {stale}"


_SCHEMAS = {
    path.stem: json.loads(path.read_text("utf-8"))["schema"]
    for path in sorted((_DATA.parent / "schemas").glob("*.json"))
}


@pytest.mark.parametrize("types", TYPES)
def test_no_schema_of_an_answer_is_refused_by_the_types_of_the_providers_sdk(types: str) -> None:
    refused: list[str] = []
    said = Conversation((human("Invent one."),))
    for number, reader in enumerate(readers_of(types)):
        mine = [each for each in LISTED if each.types == types and reader.target.provider in each.providers]
        for place, (name, schema) in enumerate(_SCHEMAS.items()):
            if number > 20 and place % 5 != number % 5:
                continue
            path: HostPath | None = "chat" if reader.target.dialect.native is not None else None
            body = encoded(reader, said, Options(schema=schema, path=path), ())
            for each in mine:
                without(body, each.field.split("."), each)
            found = complaints(types, body)
            if found:
                refused.append(f"{name} for {reader.name}: {found[:2]}")
    assert not refused, f"{len(refused)} are refused, the first: {refused[:3]}"


# JSON that the types leave open: schemas, and what goes into a tool and comes out of it.
_OPEN = frozenset({"parameters", "input_schema", "parametersJsonSchema", "args", "response", "arguments"})


def broken(value: Any) -> Iterator[tuple[str, Any]]:
    """The same JSON with one thing wrong, for every object in it: a field too many, one of another type, one missing."""
    if isinstance(value, dict):
        yield "unknown field", {**value, "x_unknown_field": 1}
        for key, inside in value.items():
            yield "missing field", {name: kept for name, kept in value.items() if name != key}
            if key in _OPEN or (key == "input" and isinstance(inside, dict)):
                continue
            yield "wrong type", {**value, key: [[1]]}
            for what, damaged in broken(inside):
                yield what, {**value, key: damaged}
    elif isinstance(value, list):
        for at, item in enumerate(value):
            for what, damaged in broken(item):
                yield what, [*value[:at], damaged, *value[at + 1 :]]


# Readers whose requests the types take as they are, without a listed field.
_CONTROLS = {
    "openai chat": "openai",
    "openai responses": "openai-responses-5",
    "open responses": "openai-responses-5",
    "anthropic": "claude",
    "mistralai": "mistral",
    "google-genai": "gemini-3-pro",
    "ollama": "ollama",
    "cohere": "cohere",
}


@pytest.mark.parametrize("types", TYPES)
def test_the_types_catch_damage(types: str) -> None:
    """A validator that lets everything pass would look like a perfect score."""
    reader = players()[_CONTROLS[types]]
    body = encoded(reader, SCENES["parallel calls"](players()["claude"], reader).done(), tools=TOOLS[:1])
    assert not complaints(types, body)
    caught = [(what, bool(complaints(types, damaged)), damaged) for what, damaged in broken(body)]
    missed = [(what, damaged) for what, found, damaged in caught if not found and what != "missing field"]
    assert not missed, f"{len(missed)} of {len(caught)} breaches were missed, the first: {missed[0]}"
    assert sum([found for what, found, _ in caught if what == "missing field"]) > 0
