"""The naive request is no straw man: a history that stays with its maker is taken; handed over, it is refused."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midstream.core.blocks import Conversation, Media, Text, Thinking, ToolCall, ToolResponse, Turn, human
from midstream.doctor import naive_body, with_raw_ids
from midstream.doctor.matrix import PIXEL, SCENES
from midstream.sim.players import make_players
from midstream.sim.rules import judge
from tests.long_run import each_once

PLAYERS = make_players()
AT_HOME = ("openai", "claude", "moonshot-k2.5", "deepseek-reasoner", "mistral")


@each_once(("name", AT_HOME), ("scene", ["plain", "one call", "parallel calls", "error result"]))
def test_a_history_that_stays_with_its_maker_is_taken(name: str, scene: str) -> None:
    player = PLAYERS[name]
    conversation = SCENES[scene](player, player).done()
    if not player.target.dialect.reasoning.default_on:  # such a model was not asked to think
        turns = [
            replace(turn, blocks=tuple(b for b in turn.blocks if type(b) is not Thinking))
            for turn in conversation.turns
        ]
        conversation = replace(conversation, turns=tuple(turns))
    body = naive_body(with_raw_ids(conversation), player.target.dialect.wire, player.target.model)
    assert body is not None
    assert judge(body, player.host, "paranoid") == []


@pytest.mark.parametrize("reader", ["claude", "mistral", "openai-responses-5", "vllm-kimi-k2.5"])
def test_kimis_history_handed_over_is_refused(reader: str) -> None:
    maker, other = PLAYERS["moonshot-k2.5"], PLAYERS[reader]
    conversation = with_raw_ids(SCENES["parallel calls"](maker, maker).done())
    body = naive_body(conversation, other.target.dialect.wire, other.target.model)
    assert body is not None
    assert judge(body, other.host, "paranoid")


def test_wires_without_ids_have_no_naive_form() -> None:
    assert naive_body(Conversation((human("hi"),)), "gemini") is None
    assert naive_body(Conversation((human("hi"),)), "ollama") is None


def test_what_stands_in_the_history_stands_in_the_body() -> None:
    call = ToolCall("hist_tool_x", "look", '{"at":1}', raw_id="raw:0")
    turns = (
        human("see", Media("image/png", data=PIXEL)),
        Turn("ai", (Thinking("hm", "reasoning_content", "sig"), Text("so"), call)),
        Turn("tool", (ToolResponse("hist_tool_x", "look", (Text("seen"),)),)),
        Turn("human", (Text("be brief"),), role="system"),
    )
    conversation = Conversation(turns, system="Be kind.")
    chat = naive_body(with_raw_ids(conversation), "openai-chat")
    assert chat is not None
    assert [message["role"] for message in chat["messages"]] == ["system", "user", "assistant", "tool", "system"]
    assert chat["messages"][2]["tool_calls"][0]["id"] == chat["messages"][3]["tool_call_id"] == "raw:0"
    assert chat["messages"][2]["reasoning_content"] == "hm"
    assert chat["messages"][1]["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")
    blocks = naive_body(conversation, "anthropic")
    assert blocks is not None and blocks["system"] == "Be kind."
    assert [block["type"] for block in blocks["messages"][1]["content"]] == ["thinking", "text", "tool_use"]
    assert blocks["messages"][1]["content"][2]["id"] == "hist_tool_x"
    items = naive_body(conversation, "openai-responses")
    assert items is not None
    kinds = [item.get("type") or item["role"] for item in items["input"]]
    assert kinds == ["system", "message", "reasoning", "message", "function_call", "function_call_output", "message"]
