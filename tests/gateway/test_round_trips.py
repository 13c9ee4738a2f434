"""Reasoning goes through every client and back: to the model that made it, and to no other; and no host refuses what it is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from midstream import encode_request
from midstream.core.blocks import Origin, Text, Thinking, ToolCall, Turn
from midstream.core.errors import MissingReasoning
from midstream.gateway.state import open_state
from midstream.gateway.vault import Vault
from midstream.sim.answer import Answer, Call
from midstream.sim.players import Player, make_players
from midstream.sim.rules import judge
from tests.gateway.clients import CLIENTS, MANNERS, Client, Door, make_sealer
from tests.long_run import each_once

PLAYERS = make_players()
THINKERS = ("moonshot-k2.5", "claude-4.6", "openai-responses-5", "gemini-3-pro")
MIXED = ("moonshot-k2.5", "claude-4.6", "openai-responses-5", "gemini-3-pro", "mistral", "moonshot-k2.5", "claude-4.6", "moonshot-k2.5")  # fmt: skip


def origin_of(player: Player) -> Origin:
    dialect = player.target.dialect
    return Origin(dialect.provider, dialect.wire, player.target.model)


async def make_door(*, seals: bool = True, vault: bool = True) -> Door:
    state = open_state(None)
    await state.open()
    return Door("acme", await make_sealer(state) if seals else None, Vault(state) if vault else None)


async def rounds(
    client: Client, door: Door, players: list[Player], manner: str, *, stream: bool, missing: str = "placeholder"
) -> tuple[list[bytes], list[Turn]]:
    """One conversation with these models, one after the other; the bodies that they were sent, and their answers."""
    sent: list[bytes] = []
    turns: list[Turn] = []
    client.says("Tidy up.")
    for number, player in enumerate(players):
        MANNERS[manner](client)
        parsed, notes = await door.take_in(client, origin_of(player))
        assert not notes, notes
        options = replace(parsed.options, extra_body=None, missing_reasoning=missing, thinking="on", effort=None)
        request = encode_request(player.target, parsed.conversation, tools=parsed.tools, options=options)
        assert b"midseal" not in request.body
        problems = judge(request.body, player.host, "paranoid")
        assert not problems, (client.wire, manner, player.name, number, problems[0])
        sent.append(request.body)
        calls = (Call("read_file", {"path": f"b{number}", "a": 1}), Call("list_files"))[: 1 + number % 2]
        answer = Answer(
            "" if number % 2 else f"Step {number}.", thinking=f"thought number {number}" + "." * number, calls=calls
        )
        turn = player.answer(answer, key=f"t{number}", number=number)
        turns.append(turn)
        await door.answer(client, parsed, turn, stream=stream)
        for call_id in client.calls():
            client.answers(call_id, f"result {number}")
    return sent, turns


@each_once(("stream", [True, False]), ("manner", MANNERS), ("wire", CLIENTS))
def test_one_conversation_through_all_models_is_never_refused(wire: str, manner: str, stream: bool) -> None:
    async def run() -> None:
        for thinking in (True, False):
            door = await make_door()
            await rounds(
                CLIENTS[wire](thinking=thinking), door, [PLAYERS[name] for name in MIXED], manner, stream=stream
            )

    asyncio.run(run())


@each_once(("stream", [True, False]), ("manner", MANNERS), ("name", THINKERS), ("wire", CLIENTS))
def test_a_model_gets_its_own_reasoning_back_through_every_client(
    wire: str, name: str, manner: str, stream: bool
) -> None:
    """Four rounds; `fail` says that no placeholder was needed. A client that asks for sealed reasoning and then drops it has
    said what it wants: the vault is for those that get none, or have no place for it."""
    dropped = manner == "strips reasoning" and wire != "openai-chat"

    async def run() -> None:
        for thinking in (False,) if dropped else (True, False):
            client, player = CLIENTS[wire](thinking=thinking), PLAYERS[name]
            door = await make_door()
            sent, turns = await rounds(client, door, [player] * 4, manner, stream=stream, missing="fail")
            told = json.loads(sent[-1])
            for before, after in pairwise([history(json.loads(body)) for body in sent]):
                assert after[: len(before)] == before, "no prompt cache would hold"
            for turn in turns[:-1]:
                assert proofs(turn) and set(proofs(turn)) <= set(texts_in(told)), (thinking, proofs(turn), told)

    asyncio.run(run())


def history(body: dict[str, Any]) -> list[Any]:
    found: list[Any] = body.get("messages") or body.get("input") or body["contents"]
    return found


def proofs(turn: Turn) -> list[str]:
    """What a host wants to see again of its answer: signatures where it gives them, else the thought itself."""
    thoughts = [block for block in turn.blocks if isinstance(block, Thinking)]
    signed = [proof for block in thoughts if (proof := block.signature or block.encrypted)]
    extras = [block.extra for block in turn.blocks if isinstance(block, (Text, ToolCall)) and block.extra]
    signed += [extra["thoughtSignature"] for extra in extras if "thoughtSignature" in extra]
    return signed or [block.text for block in thoughts]


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts_in(inner)


@each_once(("wire", [wire for wire in CLIENTS if wire != "openai-chat"]), ("name", THINKERS))
def test_seals_alone_carry_reasoning_where_a_client_returns_them(wire: str, name: str) -> None:
    """Only what a host signed on its calls has no place in a Messages or Responses client."""
    if name == "gemini-3-pro" and wire != "gemini":
        return

    async def run() -> None:
        player = PLAYERS[name]
        for thinking in (True, False) if wire == "gemini" else (True,):
            door = await make_door(vault=False)
            client = CLIENTS[wire](thinking=thinking)
            sent, turns = await rounds(client, door, [player] * 4, "echoes verbatim", stream=True, missing="fail")
            told = set(texts_in(json.loads(sent[-1])))
            assert all(set(proofs(turn)) <= told for turn in turns[:-1])

    asyncio.run(run())


def test_without_seal_and_vault_a_client_that_strips_is_told_so_before_anything_is_sent() -> None:
    async def run() -> None:
        player = PLAYERS["moonshot-k2.5"]
        door = await make_door(seals=False, vault=False)
        client = CLIENTS["openai-chat"]()
        with pytest.raises(MissingReasoning):
            await rounds(client, door, [player] * 4, "strips reasoning", stream=True, missing="fail")

    asyncio.run(run())
