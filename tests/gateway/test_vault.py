"""The vault keeps reasoning by tenant and call, for a while, in bounded memory; and what a client sends is weighed against it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from midstream import encode_request
from midstream.core.blocks import Opaque, Origin, Text, Thinking, ToolCall, Turn
from midstream.core.ids import canonical_tool_call_id
from midstream.core.kept_turn import KeptTurn, encode_kept, kept_of, restored
from midstream.gateway.seal import Sealer
from midstream.gateway.state import GatewayState, VaultEntry, open_state
from midstream.gateway.vault import Vault
from midstream.sim.players import make_players
from tests.gateway.clients import CLIENTS, ChatClient, Door, make_sealer
from tests.gateway.conftest import OpenState
from tests.long_run import examples

KIMI = Origin("moonshot", "openai-chat", "kimi-k2.5")
CLAUDE = Origin("anthropic", "anthropic", "claude-opus-4-6")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def call(number: int, index: int = 0, **fields: object) -> ToolCall:
    name = ("read_file", "list_files")[index]
    return ToolCall(canonical_tool_call_id("p", "r", name, f"k{number}", index), name, "{}", "r", "moonshot", **fields)  # type: ignore[arg-type]


def make_turn(number: int, *blocks: object, origin: Origin = KIMI, **fields: object) -> Turn:
    return Turn("ai", blocks or (Thinking(f"thought {number}", "reasoning_content", origin=origin), call(number)), key=f"k{number}", origin=origin, **fields)  # type: ignore[arg-type]  # fmt: skip


def run_with(new_state: OpenState, work: object) -> None:
    async def run() -> None:
        state = new_state()
        await state.open()
        try:
            await work(state)  # type: ignore[operator]
        finally:
            await state.close()

    asyncio.run(run())


def test_what_was_put_is_found_by_each_of_its_calls_and_by_its_tenant_alone(new_state: OpenState) -> None:
    async def work(state: GatewayState) -> None:
        turn = make_turn(1, Thinking("hm", origin=KIMI), call(1), call(1, 1))
        for vault in (Vault(state), Vault(None)):
            await vault.put("acme", turn)
            found = await vault.get("acme", [call(1).id, call(1, 1).id, call(2).id])
            assert found == dict.fromkeys([call(1).id, call(1, 1).id], kept_of(turn, "acme"))
            assert await vault.get("other", [call(1).id]) == {}

    run_with(new_state, work)


def test_another_process_finds_it_as_soon_as_put_has_returned(tmp_path: Path) -> None:
    async def run() -> None:
        one, two = [open_state(str(tmp_path / "gateway.db")) for _ in range(2)]
        await one.open()
        await two.open()
        await Vault(one).put("acme", make_turn(1))
        assert await Vault(two).get("acme", [call(1).id])
        await one.close()
        await two.close()

    asyncio.run(run())


def test_entries_expire_in_memory_and_in_the_state(new_state: OpenState) -> None:
    async def work(state: GatewayState) -> None:
        for place in (state, None):
            clock = Clock()
            vault = Vault(place, keep=100.0, clock=clock)
            await vault.put("acme", make_turn(1))
            clock.now += 99
            assert await vault.get("acme", [call(1).id])
            clock.now += 2
            assert not await vault.get("acme", [call(1).id])
            assert not await Vault(place, clock=clock).get("acme", [call(1).id])

    run_with(new_state, work)


def test_an_absence_is_asked_once_and_believed_for_a_minute_at_most() -> None:
    async def run() -> None:
        state = open_state(None)
        await state.open()
        asked: list[list[str]] = []
        look_up = state.get_vault

        async def counted(tenant: str, call_ids: list[str], now: float) -> dict[str, bytes]:
            asked.append(list(call_ids))
            return await look_up(tenant, call_ids, now)

        state.get_vault = counted  # type: ignore[method-assign, assignment]
        clock = Clock()
        vault = Vault(state, clock=clock)
        ids = [call(number).id for number in range(3)]
        assert not await vault.get("acme", ids) and not await vault.get("acme", ids)
        assert asked == [ids]
        await Vault(state, clock=clock).put("acme", make_turn(1))  # another process
        clock.now += 61
        assert list(await vault.get("acme", ids)) == [call(1).id]
        assert list(await vault.get("acme", ids[1:2])) == [call(1).id]
        assert len(asked) == 2
        await state.close()

    asyncio.run(run())


def test_memory_is_bounded_for_each_tenant_and_for_all(new_state: OpenState) -> None:
    """One busy tenant does not drive out another's; what is no longer in memory is in the state."""

    async def work(state: GatewayState) -> None:
        size = 80_000
        vault = Vault(state, size=size)
        await vault.put("quiet", make_turn(0))
        for number in range(300):
            await vault.put("busy", make_turn(number, Thinking("x" * 1000), call(number)))
            assert vault.size <= size // 8 + 1000
        alone = Vault(None, size=size)
        for number in range(300):
            await alone.put("busy", make_turn(number, Thinking("x" * 1000), call(number)))
        assert not await alone.get("busy", [call(0).id]) and await alone.get("busy", [call(299).id])
        assert await vault.get("busy", [call(0).id]) and await vault.get("quiet", [call(0).id])
        for tenant in range(40):
            for number in range(10):
                await vault.put(f"t{tenant}", make_turn(number, Thinking("x" * 1000), call(number)))
                assert vault.size <= size
        await vault.put("large", make_turn(1, Thinking("x" * size), call(1)))
        assert vault.size <= size and await vault.get("large", [call(1).id])

    run_with(new_state, work)


def test_an_entry_that_names_another_tenant_or_cannot_be_read_is_none() -> None:
    async def run() -> None:
        state = open_state(None)
        await state.open()
        foreign = encode_kept(kept_of(make_turn(1), "other"))
        assert foreign is not None
        entries = [VaultEntry(call(1).id, foreign), VaultEntry(call(2).id, b"garbage"), VaultEntry(call(3).id, b"")]
        await state.put_vault("acme", entries, 1e12)
        assert await Vault(state).get("acme", [entry.call_id for entry in entries]) == {}
        await state.close()

    asyncio.run(run())


def test_what_has_no_reasoning_or_no_calls_is_not_kept() -> None:
    async def run() -> None:
        vault = Vault(None)
        await vault.put("acme", make_turn(1, Text("hi"), call(1)))
        await vault.put("acme", make_turn(2, Thinking("hm"), Text("hi")))
        await vault.put("acme", make_turn(3, Thinking("\ud800"), call(3)))  # cannot be written
        assert vault.size == 0

    asyncio.run(run())


# What a chat client sent as reasoning, what the vault has, and whose text counts.
SIGNED = (Thinking("kept", "thinking", "signed", origin=CLAUDE),)
PLAIN = (Thinking("kept", "reasoning_content", origin=KIMI),)
WEIGHED: dict[str, tuple[str | None, tuple[Thinking, ...], tuple[Thinking, ...]]] = {
    "nothing came": (None, PLAIN, PLAIN),
    "a blank came": (" ", PLAIN, PLAIN),
    "the same came": ("kept", PLAIN, PLAIN),
    "another came": ("said", PLAIN, (Thinking("said", "reasoning_content", origin=KIMI),)),
    "the same came, and a signature is kept": ("kept", SIGNED, SIGNED),
    "another came, and a signature is kept": ("said", SIGNED, SIGNED),
    "nothing is kept": ("said", (), (Thinking("said", "reasoning_content", origin=KIMI),)),
}


@pytest.mark.parametrize("case", WEIGHED)
def test_whose_reasoning_counts_where_a_chat_client_sends_some(case: str) -> None:
    async def run() -> None:
        said, kept, expected = WEIGHED[case]
        door = Door("acme", None, Vault(None))
        client = ChatClient()
        client.says("Go.")
        parsed, _ = await door.take_in(client, KIMI)
        origin = kept[0].origin if kept else KIMI
        await door.answer(client, parsed, make_turn(1, *kept, call(1), origin=origin or KIMI), stream=False)
        client.strip()
        if said is not None:
            client.messages[-1]["reasoning_content"] = said
        client.answers(client.calls()[0], "done")
        parsed, notes = await door.take_in(client, KIMI)
        turn = parsed.conversation.turns[1]
        assert tuple([block for block in turn.blocks if isinstance(block, Thinking)]) == expected
        assert not notes

    asyncio.run(run())


def test_a_call_of_another_client_is_not_looked_up() -> None:
    """Only ids that we issued can be in the vault."""

    async def run() -> None:
        vault = Vault(None)
        body = {"messages": [{"role": "user", "content": "hi"}]}
        calls = [
            {"id": call(1).id.replace("hist_tool_", "call_"), "function": {"name": "read_file", "arguments": "{}"}}
        ]
        body["messages"].append({"role": "assistant", "tool_calls": calls})  # type: ignore[dict-item]
        client = ChatClient()
        client.messages = body["messages"]
        await vault.put("acme", make_turn(1))
        parsed, _ = await Door("acme", None, vault).take_in(client, KIMI)
        assert not parsed.conversation.turns[1].thinking

    asyncio.run(run())


# Where thinking stood, what the client sent back of the turn, and what it becomes: t thinking, x text, c and d calls.
PLACES = {
    "first": ("txc", "xc", "txc"),
    "before the call": ("xtc", "xc", "xtc"),
    "before each call": ("tctd", "cd", "tctd"),
    "before text and before the call": ("txtc", "xc", "txtc"),
    "the text is gone": ("txc", "c", "tc"),
    "a call is gone": ("tctd", "d", "ttd"),
    "another text came": ("tc", "xc", "xtc"),
    "the calls came in another order": ("tctd", "dc", "dtct"),
    "the client's own gives way": ("txc", "txc", "txc"),
    "behind the calls": ("ctx", "cx", "ctx"),
}


@pytest.mark.parametrize("case", PLACES)
def test_thinking_goes_back_to_where_it_stood(case: str) -> None:
    stood, came, expected = PLACES[case]
    thoughts = iter([Thinking(f"thought {number}", origin=KIMI) for number in range(9)])
    blocks = {"x": Text("Well."), "c": call(1, extra={"mark": 1}), "d": call(1, 1)}
    kept = kept_of(make_turn(1, *[next(thoughts) if each == "t" else blocks[each] for each in stood]))
    sent = {"x": Text("Well."), "c": call(1), "d": call(1, 1), "t": Thinking("of the client")}
    turn = restored(Turn("ai", tuple([sent[each] for each in came]), key="m1"), kept, "openai-chat")
    names = {Text: "x", Thinking: "t"}
    shape = "".join([names.get(type(block)) or ("c" if block.id == call(1).id else "d") for block in turn.blocks])  # type: ignore[union-attr]
    assert shape == expected
    assert turn.origin == KIMI and "of the client" not in turn.thinking
    assert [block.extra for block in turn.tool_calls if block.id == call(1).id] in ([{"mark": 1}], [])


def test_reasoning_that_led_to_a_block_of_its_host_is_not_kept_without_it() -> None:
    turn = make_turn(1, Thinking("to search"), Opaque("web_search_call", {}), Thinking("to read"), call(1))
    assert kept_of(turn).thinking == (Thinking("to read"),)


def test_a_cache_mark_of_the_client_stays_on_a_call_that_comes_back_to_its_host() -> None:
    kept = kept_of(make_turn(1, Thinking("hm", signature="s", origin=CLAUDE), call(1), origin=CLAUDE))
    mark = {"cache_control": {"type": "ephemeral"}}
    sent = Turn("ai", (call(1, extra=mark),), key="m1")
    assert restored(sent, kept, "anthropic").tool_calls[0].extra == mark
    assert restored(sent, kept, "openai-chat").tool_calls[0].extra is None


TURNS = examples(10_000)


# Long enough that no sealed text, which is random, holds one of them by chance.
ALPHA, BETA = "the tenant alpha", "the tenant beta"


def test_two_tenants_with_the_same_raw_ids_never_see_a_byte_of_each_other() -> None:
    """10,000 interleaved turns (in the long run) over one state, one vault and one sealer, in histories of every wire. The memory is so small that
    most entries are read from the state."""

    async def run() -> None:
        state = open_state(None)
        await state.open()
        sealer = await make_sealer(state)
        vault = Vault(state, size=40_000)
        player = make_players()["moonshot-k2.5"]
        wires = list(CLIENTS)
        talks = {}
        for tenant in (ALPHA, BETA):
            for wire in wires:
                talks[tenant, wire] = (CLIENTS[wire](thinking=wire != "anthropic"), Door(tenant, sealer, vault))
                talks[tenant, wire][0].says(f"{tenant} asks")
        foreign = restored_own = 0
        for number in range(TURNS):
            tenant, other = (ALPHA, BETA) if number % 2 else (BETA, ALPHA)
            wire = wires[number // 2 % len(wires)]
            client, door = talks[tenant, wire]
            parsed, _ = await door.take_in(client, KIMI)
            thoughts = [turn.thinking for turn in parsed.conversation.turns if turn.tool_calls]
            restored_own += sum(thought.startswith(tenant) for thought in thoughts)
            assert all(thoughts), (number, wire)
            seen = msgspec.json.encode(parsed.conversation)
            # Both tenants' answers have the same canonical ids: the same wire, turn and raw id.
            turn = make_turn(
                number // 8, Thinking(f"{tenant} thinks {number}", "reasoning_content", origin=KIMI), call(number // 8)
            )
            told = await door.answer(client, parsed, turn, stream=False)
            foreign += (other.encode() in seen) + (other.encode() in told)
            if number % 100 < 8:
                sent = encode_request(player.target, parsed.conversation, tools=parsed.tools).body
                foreign += other.encode() in sent
            client.answers(client.calls()[0], f"{tenant} result")
            if number // 8 % 3 == 2:  # it compacts
                client.messages.clear()
                client.says(f"{tenant} goes on")
        await state.close()
        assert foreign == 0
        assert restored_own > TURNS // 2, "or this test tests nothing"

    asyncio.run(run())


def test_another_tenants_history_brings_nothing_of_it() -> None:
    """A history with all its ids and seals, sent under another key: nothing opens, nothing is found."""

    async def run() -> None:
        sealer, vault = await make_sealer(), Vault(None)
        for wire in CLIENTS:
            for thinking in (True, False):
                client = CLIENTS[wire](thinking=thinking)
                client.says("Go.")
                mine, theirs = Door("alpha", sealer, vault), Door("beta", sealer, vault)
                parsed, _ = await mine.take_in(client, KIMI)
                await mine.answer(client, parsed, make_turn(1, Thinking("secret", origin=KIMI), call(1)), stream=False)
                client.answers(client.calls()[0], "done")
                # What the client was shown anybody who has its history has read; the rest is behind ids and seals.
                client.messages = json.loads(json.dumps(client.messages).replace("secret", "shown"))
                parsed, _ = await theirs.take_in(client, KIMI)
                assert "secret" not in msgspec.json.encode(parsed.conversation).decode()
                parsed, _ = await mine.take_in(client, KIMI)
                assert "secret" in msgspec.json.encode(parsed.conversation).decode() or wire == "openai-chat"

    asyncio.run(run())


def test_without_seals_a_proof_is_given_only_to_clients_of_its_own_wire() -> None:
    """Else it would come back as if a host of the client's wire had made it."""
    proofs = {
        "anthropic": Thinking("hm", "thinking", "c2lnbmVk", origin=CLAUDE),
        "openai-responses": Thinking(
            "hm", "summary", encrypted="c2lnbmVk", origin=Origin("openai", "openai-responses", "gpt-5")
        ),
        "gemini": Thinking("hm", "thought", "c2lnbmVk", origin=Origin("gemini", "gemini", "gemini-3-pro")),
    }

    async def run() -> None:
        for wire in CLIENTS:
            for made, thought in proofs.items():
                client, door = CLIENTS[wire](), Door("acme", None, None)
                client.says("Go.")
                parsed, _ = await door.take_in(client, KIMI)
                assert thought.origin is not None
                told = await door.answer(
                    client, parsed, make_turn(1, thought, call(1), origin=thought.origin), stream=False
                )
                assert (b"c2lnbmVk" in told) is (wire == made), (wire, made)
                client.answers(client.calls()[0], "done")
                parsed, notes = await door.take_in(client, KIMI)
                assert parsed.conversation.turns[1].tool_calls and not notes

    asyncio.run(run())


GPT = make_players()["openai-responses-5"]


def test_a_clients_two_messages_for_one_answer_send_its_encrypted_reasoning_once() -> None:
    """A host refuses an item that comes twice; plain reasoning goes with both, for some hosts want it with each call."""

    async def run() -> None:
        dialect = GPT.target.dialect
        origin = Origin(dialect.provider, dialect.wire, GPT.target.model)
        encrypted = Thinking("", "summary", encrypted="c2VjcmV0", origin=origin, extra={"item": {"id": "rs_1"}})
        for thought, target, times in ((encrypted, origin, 1), (Thinking("c2VjcmV0", origin=KIMI), KIMI, 2)):
            client, door = ChatClient(), Door("acme", None, Vault(None))
            client.says("Go.")
            parsed, _ = await door.take_in(client, target)
            turn = make_turn(1, thought, call(1), call(1, 1), origin=target)
            await door.answer(client, parsed, turn, stream=False)
            first, second = client.messages[-1]["tool_calls"]
            client.messages[-1] = {"role": "assistant", "tool_calls": [first]}
            client.answers(first["id"], "done")
            client.messages.append({"role": "assistant", "tool_calls": [second]})
            client.answers(second["id"], "done")
            parsed, _ = await door.take_in(client, target)
            assert msgspec.json.encode(parsed.conversation).count(b"c2VjcmV0") == times

    asyncio.run(run())


def test_a_seal_that_comes_twice_sends_encrypted_reasoning_once() -> None:
    async def run() -> None:
        dialect = GPT.target.dialect
        origin = Origin(dialect.provider, dialect.wire, GPT.target.model)
        client, door = CLIENTS["anthropic"](), Door("acme", await make_sealer(), None)
        client.says("Go.")
        for number in range(2):
            parsed, _ = await door.take_in(client, origin)
            thought = Thinking(
                "", "summary", encrypted=f"c2VjcmV0{number}", origin=origin, extra={"item": {"id": f"rs_{number}"}}
            )
            await door.answer(client, parsed, make_turn(number, thought, call(number), origin=origin), stream=False)
            client.answers(client.calls()[0], "done")
        answers = [message for message in client.messages if message["role"] == "assistant"]
        answers[1]["content"][0] = answers[0]["content"][0]
        parsed, notes = await door.take_in(client, origin)
        sent = encode_request(GPT.target, parsed.conversation, tools=parsed.tools).body
        assert sent.count(b"c2VjcmV0") == 1 and [note.code for note in notes] == ["seal_not_opened"]

    asyncio.run(run())


def test_a_kept_turn_is_what_it_was_after_a_seal() -> None:
    async def run() -> None:
        sealer: Sealer = await make_sealer()
        kept = kept_of(
            make_turn(1, *SIGNED, Text("x", {"a": 1}), call(1, extra={"b": [1]}), extra={"reasoning_details": [1]})
        )
        sealed = sealer.seal_kept("t", kept)
        assert sealed is not None and sealer.open_kept("t", sealed) == kept
        assert KeptTurn().is_empty and not kept.is_empty and kept.is_opaque

    asyncio.run(run())
