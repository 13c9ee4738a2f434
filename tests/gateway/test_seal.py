"""What does not open is nothing, whatever is wrong with it; what opens is what was sealed, for that tenant alone."""

from __future__ import annotations

import asyncio
import json
import random
from base64 import b64decode, b64encode, urlsafe_b64decode
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream import encode_request
from midstream.core.blocks import Origin, Text, Thinking, ToolCall, Turn
from midstream.core.errors import LocalError
from midstream.core.ids import canonical_tool_call_id
from midstream.core.kept_turn import KeptTurn
from midstream.gateway.history import read_request, take_in
from midstream.gateway.seal import LONGEST, OPENS_FOR, ROTATED_AFTER, Sealer
from midstream.gateway.state import open_state
from midstream.sim.players import make_players
from midstream.sim.rules import judge
from tests.gateway.clients import CLIENTS, Client, Door, make_sealer
from tests.long_run import each_once

KIMI = Origin("moonshot", "openai-chat", "kimi-k2.5")
SEALER = asyncio.run(make_sealer())
OPTIONAL = st.none() | st.text(st.characters(exclude_categories=["Cs"]))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
THOUGHTS = st.builds(
    Thinking,
    TEXTS,
    st.sampled_from(["reasoning_content", "thinking", "summary"]),
    OPTIONAL,
    OPTIONAL,
    st.booleans(),
    st.none() | st.builds(Origin, TEXTS, TEXTS, TEXTS),
    st.none() | st.dictionaries(TEXTS, st.none() | st.booleans() | TEXTS, min_size=1),
)


@given(TEXTS, THOUGHTS)
def test_a_seal_opens_to_what_was_sealed_and_hides_it(tenant: str, thinking: Thinking) -> None:
    sealed = SEALER.seal(tenant, thinking)
    assert Sealer.is_seal(sealed)
    assert SEALER.open(tenant, sealed) == thinking
    assert SEALER.open(tenant + "x", sealed) is None
    assert SEALER.seal(tenant, thinking) != sealed, "the same thought twice must not look the same"


@given(THOUGHTS)
def test_a_seal_survives_clients_that_decode_it_and_write_it_again(thinking: Thinking) -> None:
    sealed = SEALER.seal("t", thinking)
    assert "=" not in sealed and len(sealed) % 4 == 0
    raw = urlsafe_b64decode(sealed)
    assert SEALER.open("t", b64encode(raw).decode()) == thinking
    assert Sealer.is_seal(b64encode(raw).decode())


SECRET = Thinking("the plan is secret", "reasoning_content", origin=KIMI)


def test_nothing_of_the_thought_can_be_read_in_its_seal() -> None:
    raw = urlsafe_b64decode(SEALER.seal("acme", SECRET))
    assert b"secret" not in raw and b"moonshot" not in raw and b"acme" not in raw


def test_no_single_changed_byte_opens() -> None:
    sealed = SEALER.seal("t", SECRET)
    raw = b64decode(sealed.translate(str.maketrans("-_", "+/")))
    for place in range(len(raw)):
        for change in (1, 128):
            forged = bytearray(raw)
            forged[place] ^= change
            assert SEALER.open("t", b64encode(bytes(forged)).decode()) is None, place


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
def test_no_garbage_opens(garbage: bytes) -> None:
    for text in (
        garbage.decode("latin-1"),
        "midseal1" + garbage.decode("latin-1"),
        "midseal1" + b64encode(garbage).decode(),
    ):
        assert SEALER.open("t", text) is None


def test_no_cut_or_longer_seal_opens() -> None:
    sealed = SEALER.seal("t", SECRET)
    assert not [cut for cut in range(len(sealed)) if SEALER.open("t", sealed[:cut]) is not None]
    assert SEALER.open("t", sealed + "AAAA") is None
    assert SEALER.open("t", sealed + sealed) is None


def test_a_long_thought_is_compressed_and_one_too_long_is_not_sealed() -> None:
    words = " ".join(["thinking about the third file again"] * 20_000)
    sealed = SEALER.seal("t", Thinking(words))
    assert len(sealed) < len(words) // 20
    assert SEALER.open("t", sealed) == Thinking(words)
    noise = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=2 * LONGEST))
    assert SEALER.seal_kept("t", KeptTurn(None, (Thinking(noise),))) is None
    with pytest.raises(LocalError, match="too large"):
        SEALER.seal("t", Thinking(noise))
    assert len(SEALER.seal("t", Thinking(noise[: LONGEST // 2]))) <= LONGEST


def test_without_a_key_nothing_is_sealed_and_nothing_opens() -> None:
    with pytest.raises(LocalError, match="refresh"):
        Sealer().seal("t", SECRET)
    assert Sealer().open("t", SEALER.seal("t", SECRET)) is None


def test_keys_rotate_and_retired_ones_open_for_their_time() -> None:
    async def run() -> None:
        state = open_state(None)
        await state.open()
        sealer = Sealer()
        await sealer.refresh(state, 0.0)
        old = sealer.seal("t", SECRET)
        await sealer.refresh(state, ROTATED_AFTER - 1)
        assert len(await state.seal_keys()) == 1
        await sealer.refresh(state, ROTATED_AFTER)
        assert len(await state.seal_keys()) == 2
        new = sealer.seal("t", SECRET)
        assert sealer.open("t", old) == sealer.open("t", new) == SECRET
        retired = ROTATED_AFTER
        other = Sealer()  # another process, or this one after a restart
        await other.refresh(state, retired + OPENS_FOR - 1)
        assert other.open("t", old) == SECRET
        await other.refresh(state, retired + OPENS_FOR + 1)
        assert other.open("t", old) is None
        assert all(key.retired is None or key.retired > retired for key in await state.seal_keys())
        await state.close()

    asyncio.run(run())


def test_a_key_that_another_process_made_is_found() -> None:
    async def run() -> None:
        state = open_state(None)
        await state.open()
        one, two = Sealer(), Sealer()
        await one.refresh(state, 0.0)
        await two.refresh(state, 0.0)
        await two.refresh(state, ROTATED_AFTER)
        sealed = two.seal("t", SECRET)
        assert one.open("t", sealed) is None
        await one.learn(sealed, 0.5)
        assert one.open("t", sealed) is None, "not more often than once a second"
        await one.learn(sealed, ROTATED_AFTER)
        assert one.open("t", sealed) == SECRET
        await state.close()

    asyncio.run(run())


# What may have become of a seal on its way: each gives another, of the seal, another tenant's and one under a lost key.
DAMAGE: dict[str, Callable[[str, str, str], str]] = {
    "forged": lambda seal, foreign, lost: seal[:40] + ("A" if seal[40] != "A" else "B") + seal[41:],
    "cut": lambda seal, foreign, lost: seal[:-9],
    "cut to its name": lambda seal, foreign, lost: "midseal1",
    "of a version to come": lambda seal, foreign, lost: "midseal2" + seal[8:],
    "of another tenant": lambda seal, foreign, lost: foreign,
    "under an expired key": lambda seal, foreign, lost: lost,
}
PLAYERS = make_players()
TARGETS = ("moonshot-k2.5", "claude-4.6", "openai-responses-5", "gemini-3-pro", "mistral")


def make_turn(number: int) -> Turn:
    call = ToolCall(
        canonical_tool_call_id("moonshot", "r", "read_file", f"k{number}", 0), "read_file", "{}", "r", "moonshot"
    )
    thought = Thinking(f"secret {number}", "reasoning_content", origin=KIMI)
    return Turn("ai", (thought, Text("Well."), call), key=f"k{number}", origin=KIMI)


async def talked(client: Client, door: Door, rounds: int = 2) -> None:
    client.says("Go.")
    for number in range(rounds):
        parsed, _ = await door.take_in(client, KIMI)
        await door.answer(client, parsed, make_turn(number), stream=True)
        for call_id in client.calls():
            client.answers(call_id, "done")


def replaced(value: Any, change: Callable[[str], str]) -> Any:
    """The same JSON with every seal in it changed."""
    if isinstance(value, str):
        return change(value) if Sealer.is_seal(value) else value
    if isinstance(value, dict):
        return {key: replaced(inner, change) for key, inner in value.items()}
    return [replaced(inner, change) for inner in value] if isinstance(value, list) else value


SEALING = [wire for wire in CLIENTS if wire != "openai-chat"]


@each_once(("damage", DAMAGE), ("wire", SEALING))
def test_a_damaged_seal_never_opens_and_never_breaks_the_turn(wire: str, damage: str) -> None:
    async def run() -> None:
        client = CLIENTS[wire]()
        await talked(client, Door("acme", SEALER, None))
        foreign = SEALER.seal("other", Thinking("foreign words", origin=KIMI))
        lost = (await make_sealer()).seal("acme", Thinking("foreign words", origin=KIMI))
        client.messages = replaced(client.messages, lambda seal: DAMAGE[damage](seal, foreign, lost))
        for name in TARGETS:
            sent, notes = await sent_to(name, client)
            assert "seal_not_opened" in {note.code for note in notes}
            assert b"secret" not in sent and b"foreign words" not in sent

    asyncio.run(run())


async def sent_to(name: str, client: Client) -> tuple[bytes, list[Any]]:
    player = PLAYERS[name]
    dialect = player.target.dialect
    target = Origin(dialect.provider, dialect.wire, player.target.model)
    parsed, notes = await Door("acme", SEALER, None).take_in(client, target)
    request = encode_request(player.target, parsed.conversation, tools=parsed.tools)
    assert b"midseal" not in request.body
    assert not judge(request.body, player.host, "paranoid")
    return request.body, notes


@pytest.mark.parametrize("wire", SEALING)
def test_a_seal_in_another_turn_never_breaks_it(wire: str) -> None:
    """Every turn with the first one's seals; for hosts that take an item only once, too."""

    async def run() -> None:
        client = CLIENTS[wire]()
        await talked(client, Door("acme", SEALER, None), rounds=3)
        first: list[str] = []
        replaced(client.messages, lambda seal: first.append(seal) or seal)  # type: ignore[func-returns-value]
        client.messages = replaced(client.messages, lambda seal: first[0])
        for name in TARGETS:
            sent, notes = await sent_to(name, client)
            assert b"secret 1" not in sent
            assert wire != "gemini" or notes, "a call's seal is its own"

    asyncio.run(run())


SEALED = SEALER.seal("acme", SECRET)
PLACES: dict[str, tuple[str, dict[str, Any]]] = {
    "redacted_thinking": ("anthropic", {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "SEAL"}, {"type": "text", "text": "Well."}]}]}),
    "an unknown block": ("anthropic", {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "odd", "deep": [{"data": "SEAL"}, "SEAL"]}, {"type": "text", "text": "Well."}]}]}),
    "beside a call": ("anthropic", {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}, "signature": "SEAL"}]}]}),
    "a user's thinking": ("anthropic", {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "thinking", "thinking": "x", "signature": "SEAL"}]}]}),
    "a result": ("anthropic", {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "signature": "SEAL", "content": [{"type": "odd", "x": "SEAL"}]}]}]}),
    "reasoning_details": ("openai-chat", {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Well.", "reasoning_details": [{"type": "reasoning.encrypted", "data": "SEAL"}]}]}),
    "extra_content": ("openai-chat", {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}, "extra_content": {"google": {"thought_signature": "SEAL"}}}]}]}),
    "a chat part": ("openai-chat", {"messages": [{"role": "user", "content": [{"type": "odd", "odd": "SEAL"}, {"type": "text", "text": "hi"}]}]}),
    "a field of the request": ("openai-chat", {"messages": [{"role": "user", "content": "hi"}], "odd": {"x": ["SEAL"]}}),
    "a tool": ("anthropic", {"messages": [{"role": "user", "content": "hi"}], "tools": [{"name": "f", "input_schema": {}, "odd": "SEAL"}]}),
    "an item of a host's": ("openai-responses", {"input": [{"role": "user", "content": "hi"}, {"type": "compaction", "encrypted_content": "SEAL"}, {"role": "assistant", "content": "Well."}]}),
    "a part of a message": ("openai-responses", {"input": [{"role": "user", "content": "hi"}, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Well.", "odd": "SEAL"}], "mark": "SEAL"}]}),
    "a text's signature": ("gemini", {"contents": [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [{"text": "Well.", "thoughtSignature": "SEAL"}]}]}),
    "a call's signature": ("gemini", {"contents": [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "SEAL"}]}]}),
    "a picture's signature": ("gemini", {"contents": [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thoughtSignature": "SEAL"}, {"text": "Well."}]}]}),
    "an unknown part": ("gemini", {"contents": [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [{"executableCode": {"code": "1"}, "thoughtSignature": "SEAL"}, {"text": "Well."}]}]}),
}  # fmt: skip


@pytest.mark.parametrize("where", PLACES)
def test_a_seal_never_goes_upstream_wherever_a_client_puts_it(where: str) -> None:
    async def run() -> None:
        wire, body = PLACES[where]
        for seal in (SEALED, SEALED[:-4]):
            data = json.dumps(body).replace('"SEAL"', json.dumps(seal)).encode()
            for name in (
                "moonshot-k2.5",
                "openrouter-kimi-k2.5",
                "openai",
                "claude-4.6",
                "openai-responses-5",
                "gemini-3-pro",
            ):
                player = PLAYERS[name]
                dialect = player.target.dialect
                target = Origin(dialect.provider, dialect.wire, player.target.model)
                parsed, _ = await take_in(
                    read_request(wire, data, model="m"),
                    wire=wire,
                    tenant="acme",
                    vault=None,
                    sealer=SEALER,
                    target=target,
                )
                request = encode_request(player.target, parsed.conversation, tools=parsed.tools, options=parsed.options)
                assert b"midseal" not in request.body, (name, request.body)

    asyncio.run(run())


def test_a_native_signature_passes_unchanged_both_ways() -> None:
    """What a host of the client's own wire signed is not ours to touch."""

    async def run() -> None:
        for wire, name, field in (
            ("anthropic", "claude-4.6", "signature"),
            ("openai-responses", "openai-responses-5", "encrypted_content"),
        ):
            player = PLAYERS[name]
            dialect = player.target.dialect
            origin = Origin(dialect.provider, dialect.wire, player.target.model)
            native = player.host.traits.signature_prefix + "AAAA"
            thought = Thinking(
                "hm", "thinking", **{"encrypted" if "enc" in field else "signature": native}, origin=origin
            )
            turn = Turn("ai", (thought, make_turn(0).blocks[2]), key="k", origin=origin)
            client, door = CLIENTS[wire](), Door("acme", SEALER, None)
            client.says("Go.")
            parsed, _ = await door.take_in(client, origin)
            given = await door.answer(client, parsed, turn, stream=False)
            assert json.dumps({field: native})[1:-1].replace(" ", "") in given.decode().replace(" ", "")
            client.answers(client.calls()[0], "done")
            parsed, notes = await door.take_in(client, origin)
            sent = encode_request(player.target, parsed.conversation, tools=parsed.tools).body
            assert native.encode() in sent and not notes

    asyncio.run(run())
