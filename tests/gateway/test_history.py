"""Whatever a client sends: a request that can be encoded for every kind of host, or the client's mistake."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from typing import Any

import pytest

from midstream import encode_request
from midstream.core.blocks import Opaque, Origin, Thinking, ToolCall
from midstream.core.errors import InvalidHistory, MidstreamError
from midstream.gateway.history import read_request, take_in
from midstream.gateway.sealed_answer import SealedAnswer
from midstream.gateway.vault import Vault
from midstream.sim.players import make_players
from midstream.wires.request import RequestedAnswer
from tests.gateway.clients import CLIENTS, Door, make_sealer
from tests.gateway.test_vault import CLAUDE, KIMI, call, make_turn
from tests.wires.test_client_requests import Work, damaged

PLAYERS = make_players()
TARGETS = ("moonshot-k2.5", "claude-4.6", "openai-responses-5", "gemini-3-pro")
MUTATIONS = 150


def origin_of(name: str) -> Origin:
    dialect = PLAYERS[name].target.dialect
    return Origin(dialect.provider, dialect.wire, PLAYERS[name].target.model)


@pytest.mark.parametrize("wire", CLIENTS)
def test_a_damaged_history_is_read_or_refused_and_no_seal_gets_through(wire: str) -> None:
    async def run() -> None:
        sealer, vault = await make_sealer(), Vault(None)
        client, door = CLIENTS[wire](), Door("acme", sealer, vault)
        client.says("Go.")
        for number in range(4):
            parsed, _ = await door.take_in(client, KIMI)
            await door.answer(client, parsed, make_turn(number), stream=bool(number % 2))
            client.answers(client.calls()[0], "done")
        dice = random.Random(wire)
        read = 0
        for number in range(MUTATIONS):
            data = damaged(client.request(), dice)
            target = TARGETS[number % len(TARGETS)]
            try:
                parsed = read_request(wire, data, model="m")
            except MidstreamError as error:
                assert isinstance(error, InvalidHistory)
                continue
            parsed, _ = await take_in(
                parsed, wire=wire, tenant="acme", vault=vault, sealer=sealer, target=origin_of(target)
            )
            try:
                sent = encode_request(PLAYERS[target].target, parsed.conversation, options=parsed.options).body
            except InvalidHistory:  # nothing is left to be said
                continue
            read += 1
            assert b"midseal" not in _without_texts(sent), (number, sent)
        assert read > MUTATIONS // 3

    asyncio.run(run())


def _without_texts(body: bytes) -> bytes:
    """Damage may put a seal among somebody's words, arguments or results; those are not ours to change."""
    words = {"text", "content", "arguments", "name", "output", "input", "description", "role", "model"}

    def cut(value: Any) -> Any:
        if isinstance(value, dict):
            left = {key: inner for key, inner in value.items() if key not in words or isinstance(inner, (dict, list))}
            kept = {
                key: inner
                for key, inner in left.items()
                if not (key in ("args", "response", "input") and "id" in value)
            }
            return {key: cut(inner) for key, inner in kept.items()}
        return [cut(inner) for inner in value] if isinstance(value, list) else value

    return json.dumps(cut(json.loads(body))).encode()


def test_what_a_client_sends_by_itself_is_the_targets_if_they_speak_one_wire() -> None:
    async def run() -> None:
        content = [
            {"type": "thinking", "thinking": "hm", "signature": "native"},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        ]
        body = {
            "model": "my-alias",
            "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": content}],
        }
        for target, made_by in ((CLAUDE, CLAUDE), (KIMI, Origin("", "anthropic", "my-alias"))):
            parsed, notes = await take_in(
                read_request("anthropic", json.dumps(body).encode()),
                wire="anthropic", tenant="t", vault=None, sealer=None, target=target,
            )  # fmt: skip
            turn = parsed.conversation.turns[1]
            assert turn.origin == made_by and not notes
            assert [block.origin for block in turn.blocks if isinstance(block, (Thinking, Opaque))] == [made_by] * 2
            assert turn.tool_calls[0].provider == made_by.provider

    asyncio.run(run())


def test_items_that_we_named_ourselves_go_up_without_their_names() -> None:
    """A host knows encrypted reasoning by the id of its item; one that we made up would not fit."""

    async def run() -> None:
        target = origin_of("openai-responses-5")
        items = [
            {"role": "user", "content": "hi"},
            {"type": "reasoning", "id": "{}_", "summary": [], "encrypted_content": "native"},
            {"type": "function_call", "id": "{}_", "call_id": "c", "name": "f", "arguments": "{}"},
        ]
        for stem, kept in (("rs_resp0a1", False), ("rs_0a1", True)):
            for item in items[1:]:
                item["id"] = stem if item["type"] == "reasoning" else stem.replace("rs_", "fc_")
            read = read_request("openai-responses", json.dumps({"input": items}).encode())
            parsed, _ = await take_in(read, wire="openai-responses", tenant="t", vault=None, sealer=None, target=target)
            sent = encode_request(PLAYERS["openai-responses-5"].target, parsed.conversation).body
            assert b"native" in sent
            assert (stem.encode() in sent) is kept and (stem.replace("rs_", "fc_").encode() in sent) is kept

    asyncio.run(run())


# Which answers the vault must keep: the client, whether it asked for thinking, who answered, and whether it is so.
KEPT: list[tuple[str, bool, Origin, bool]] = [
    ("openai-chat", True, KIMI, True),
    ("openai-chat", True, CLAUDE, True),
    ("anthropic", True, KIMI, False),
    ("anthropic", False, KIMI, True),
    ("anthropic", True, CLAUDE, True),
    ("openai-responses", True, KIMI, False),
    ("openai-responses", False, KIMI, True),
    ("gemini", True, KIMI, False),
    ("gemini", False, KIMI, True),
]


@pytest.mark.parametrize(("wire", "asked", "origin", "kept"), KEPT)
def test_the_vault_keeps_what_the_client_does_not_bring_back(
    wire: str, asked: bool, origin: Origin, kept: bool
) -> None:
    async def run() -> None:
        sealer = await make_sealer()
        requested = RequestedAnswer(thinking=asked, include=("reasoning.encrypted_content",) if asked else ())
        thought = Thinking("hm", "thinking", "native" if origin is CLAUDE else None, origin=origin)
        turn = make_turn(1, thought, call(1), origin=origin)
        assert SealedAnswer(wire, "t", sealer, requested).for_vault(turn) is kept
        for other in (
            make_turn(1, call(1)),
            make_turn(1, thought),
            make_turn(1, thought, call(1), failure="truncated"),
        ):
            assert not SealedAnswer(wire, "t", sealer, requested).for_vault(other)
        signed = make_turn(1, thought, call(1, extra={"thoughtSignature": "native"}), origin=origin)
        assert SealedAnswer(wire, "t", sealer, requested).for_vault(signed)
        huge = make_turn(
            1, Thinking("".join(map(str, random.Random(1).sample(range(10**6), 10**5))), origin=origin), call(1)
        )
        assert SealedAnswer(wire, "t", sealer, requested).for_vault(huge), "too large for a seal"
        detailed = make_turn(1, thought, call(1), origin=origin, extra={"reasoning_details": [{}]})
        assert SealedAnswer(wire, "t", sealer, requested).for_vault(detailed)

    asyncio.run(run())


@pytest.mark.parametrize("wire", CLIENTS)
def test_a_stream_and_a_whole_answer_bring_back_the_same(wire: str) -> None:
    async def run() -> None:
        sealer = await make_sealer()
        blocks = (Thinking("first", origin=KIMI), call(1), Thinking("second", origin=KIMI), call(1, 1))
        found = []
        for stream in (True, False):
            client, door = CLIENTS[wire](), Door("acme", sealer, Vault(None))
            client.says("Go.")
            parsed, _ = await door.take_in(client, KIMI)
            await door.answer(client, parsed, make_turn(1, *blocks), stream=stream)
            for call_id in client.calls():
                client.answers(call_id, "done")
            parsed, _ = await door.take_in(client, KIMI)
            shown = [block for block in parsed.conversation.turns[1].blocks if isinstance(block, (Thinking, ToolCall))]
            found.append([block.text if isinstance(block, Thinking) else block.id for block in shown])
        assert found[0] == found[1] == ["first", call(1).id, "second", call(1, 1).id]

    asyncio.run(run())


def test_a_client_that_did_not_ask_for_thinking_gets_none() -> None:
    async def run() -> None:
        for wire in ("anthropic", "gemini"):
            for stream in (True, False):
                client, door = CLIENTS[wire](thinking=False), Door("acme", await make_sealer(), Vault(None))
                client.says("Go.")
                parsed, _ = await door.take_in(client, KIMI)
                told = await door.answer(client, parsed, make_turn(1), stream=stream)
                assert b"thought 1" not in told and b"thinking" not in told
                client.answers(client.calls()[0], "done")
                parsed, _ = await door.take_in(client, KIMI)
                assert parsed.conversation.turns[1].thinking == "thought 1"

    asyncio.run(run())


@pytest.mark.parametrize("wire", CLIENTS)
def test_a_deep_history_is_read_or_the_clients_mistake(wire: str) -> None:
    async def run() -> None:
        sealer = await make_sealer()
        read = 0
        for depth in (10, 100, 200, 300, 450, 700, 900, 5000):
            text = "[" * depth + "]" * depth
            client = CLIENTS[wire]()
            client.says("Go.")
            body = client.body()
            key = next(key for key in ("messages", "input", "contents") if key in body)
            odd: dict[str, Any] = {"role": "assistant", "type": "odd", "content": [{"type": "odd", "x": "DEEP"}]}
            odd |= {"role": "model", "parts": [{"odd": "DEEP"}]} if wire == "gemini" else {"data": "DEEP"}
            body[key] = [*body[key], odd]
            data = json.dumps({**body, "odd": "DEEP"}).replace('"DEEP"', text).encode()
            try:
                parsed = read_request(wire, data, model="m")
                await take_in(parsed, wire=wire, tenant="t", vault=None, sealer=sealer, target=KIMI)
                read += 1
            except InvalidHistory:
                pass
        assert read >= 2

    asyncio.run(run())


@pytest.mark.parametrize("wire", CLIENTS)
def test_a_long_history_is_taken_in_in_linear_time(wire: str) -> None:
    """One answer with many thoughts and calls, and many answers of one call each: twice the size is twice the work."""

    async def body_of(size: int, door: Door) -> bytes:
        client = CLIENTS[wire](thinking=wire != "openai-responses")
        client.says("Go.")
        parsed, _ = await door.take_in(client, KIMI)
        many = [block for number in range(size) for block in (Thinking(f"t{number}", origin=KIMI), call(number))]
        await door.answer(client, parsed, make_turn(0, *many), stream=False)
        for call_id in client.calls():
            client.answers(call_id, "done")
        for number in range(size):
            await door.answer(client, parsed, make_turn(size + number), stream=False)
            client.answers(client.calls()[-1], "done")
        return client.request()

    async def run() -> None:
        door = Door("acme", await make_sealer(), Vault(None))
        counts = []
        for size in (50, 100, 200):
            data = await body_of(size, door)
            counted = Work()
            sys.setprofile(counted)
            try:
                parsed = read_request(wire, data, model="m")
                await take_in(parsed, wire=wire, tenant="acme", vault=door.vault, sealer=door.sealer, target=KIMI)
            finally:
                sys.setprofile(None)
            counts.append(counted.done)
        assert counts[2] < 2.3 * counts[1] < 2.3 * 2.3 * counts[0], counts

    asyncio.run(run())
