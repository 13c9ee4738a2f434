"""What is kept of an answer, and where it goes in the turn that a client sends back."""

from __future__ import annotations

import pytest

from midstream.core.blocks import Opaque, Origin, Text, Thinking, ToolCall, Turn
from midstream.core.kept_turn import DETAILS, KeptCall, KeptText, KeptTurn, decode_kept, encode_kept, kept_of, restored

ORIGIN = Origin("moonshot", "openai-chat", "kimi-k2.5")
PLAIN, SIGNED = Thinking("hm", "reasoning"), Thinking("hm", "thinking", signature="s")

# name, what is kept, whether it is empty, whether it is more than plain text
KEPT = {
    "nothing": (KeptTurn(), True, False),
    "who made it": (KeptTurn(ORIGIN), True, False),
    "places only": (KeptTurn(ORIGIN, (KeptCall("c"), KeptText(b"d"))), True, False),
    "thinking": (KeptTurn(ORIGIN, (PLAIN,)), False, False),
    "signed thinking": (KeptTurn(ORIGIN, (SIGNED,)), False, True),
    "encrypted thinking": (KeptTurn(ORIGIN, (Thinking("", "reasoning", encrypted="e"),)), False, True),
    "redacted thinking": (KeptTurn(ORIGIN, (Thinking("", "thinking", redacted=True),)), False, True),
    "thinking with an item's id": (KeptTurn(ORIGIN, (Thinking("", "reasoning", extra={"id": "1"}),)), False, True),
    "beside a call": (KeptTurn(ORIGIN, (KeptCall("c", {"signature": "s"}),)), False, True),
    "beside a text": (KeptTurn(ORIGIN, (KeptText(b"d", {"id": "1"}),)), False, True),
    "thinking, then places": (KeptTurn(ORIGIN, (PLAIN, KeptCall("c"))), False, False),
    "beside the turn": (KeptTurn(ORIGIN, (), {DETAILS: []}), False, True),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_it_holds(name: str) -> None:
    kept, empty, opaque = KEPT[name]
    assert (kept.is_empty, kept.is_opaque) == (empty, opaque)
    written = encode_kept(kept)
    assert written is not None and decode_kept(written) == kept


ANSWER = Turn(
    "ai",
    (PLAIN, Text("One.", extra={"id": "t"}), SIGNED, ToolCall("c1", "look", "{}", extra={"sign": "x"}), Text("Two.")),
    origin=ORIGIN,
)


def test_what_was_kept_goes_back_to_its_place() -> None:
    brought = Turn("ai", (Text("One."), ToolCall("c1", "look", "{}"), Text("Two.")))
    found = restored(brought, kept_of(ANSWER), "openai-chat")
    assert found.origin == ORIGIN
    assert [type(block).__name__ for block in found.blocks] == ["Thinking", "Text", "Thinking", "ToolCall", "Text"]
    thinking, one, signed, call, two = found.blocks
    assert (thinking, signed) == (PLAIN, SIGNED)
    assert isinstance(one, Text) and isinstance(call, ToolCall) and isinstance(two, Text)
    assert (one.text, one.extra, two.text, two.extra) == ("One.", {"id": "t"}, "Two.", None)
    assert (call.extra, call.provider) == ({"sign": "x"}, "moonshot")


def test_the_clients_own_gives_way_unless_the_wire_is_the_same() -> None:
    brought = Turn("ai", (Thinking("mine", "reasoning"), ToolCall("c1", "look", "{}", extra={"own": 1})))
    for wire, extra in (("openai-chat", {"own": 1, "sign": "x"}), ("anthropic", {"sign": "x"})):
        found = restored(brought, kept_of(ANSWER), wire)
        assert "mine" not in [block.text for block in found.blocks if isinstance(block, Thinking)]
        assert [block.extra for block in found.blocks if isinstance(block, ToolCall)] == [extra]


def test_other_calls_and_other_blocks_stay_as_they_came() -> None:
    picture = Opaque("anthropic", "odd", {"a": 1})
    brought = Turn("ai", (picture, Text("Else."), ToolCall("c9", "look", "{}")))
    found = restored(brought, kept_of(ANSWER), "openai-chat")
    rest = [block for block in found.blocks if not isinstance(block, Thinking)]
    assert rest[:2] == [picture, Text("Else.")]
    assert isinstance(rest[2], ToolCall) and rest[2].extra is None


def test_reasoning_that_led_to_a_block_of_the_hosts_own_is_not_kept() -> None:
    search = Opaque("anthropic", "server_tool_use", {"name": "search"})
    kept = kept_of(Turn("ai", (PLAIN, search, SIGNED, Text("Found.")), origin=ORIGIN), "me")
    assert kept.thinking == (SIGNED,) and kept.tenant == "me"


def test_details_of_the_turn_are_kept_alone() -> None:
    kept = kept_of(Turn("ai", (Text("x"),), origin=ORIGIN, extra={DETAILS: [1], "other": 2}))
    assert kept.extra == {DETAILS: [1]}
    found = restored(Turn("ai", (Text("x"),), extra={"own": 3}), kept, "openai-chat")
    assert found.extra == {"own": 3, DETAILS: [1]}
    assert kept_of(Turn("ai", (Text("x"),), extra={"other": 2})).extra is None
