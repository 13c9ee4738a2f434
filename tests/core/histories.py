"""Conversations for tests: the shared vectors' histories read into ours, and random ones."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from midstream.core.blocks import Block, Media, Text, ToolCall, ToolResponse, Turn
from midstream.core.ids import canonical_tool_call_id

NAMES = ("read_file", "glob", "get_weather", "bash", "mcp__x-y", "")


def from_vector(history: list[dict[str, Any]]) -> tuple[Turn, ...]:
    """A history in the vectors' words as turns."""
    return tuple([_turn(number, content) for number, content in enumerate(history)])


def _turn(number: int, content: dict[str, Any]) -> Turn:
    return Turn(content["speaker"], tuple([_block(block) for block in content["blocks"]]), key=f"t{number}")


def _block(block: dict[str, Any]) -> Block:
    match block["type"]:
        case "text":
            return Text(block["text"])
        case "tool_call":
            return ToolCall(block["id"], block["name"], msgspec.json.encode(block["parameters"]).decode())
        case "tool_response":
            result, error = block.get("result"), block.get("error")
            content = error or (result if isinstance(result, str) else msgspec.json.encode(result).decode())
            return ToolResponse(block["callId"], block.get("toolName", ""), (Text(content),), is_error=bool(error))
        case "media":
            return Media(block["mimeType"], data=block["data"])
        case kind:
            raise AssertionError(f"no block {kind!r}")


def lawful(rng: random.Random, prefix: str = "") -> list[Turn]:
    """A random history in which every call has its result, from hosts that repeat and misuse raw ids."""
    turns: list[Turn] = []
    for number in range(rng.randrange(1, 6)):
        key = f"{prefix}k{number}"
        calls = []
        for index in range(rng.randrange(0, 4)):
            name = rng.choice(NAMES)
            raw = rng.choice(
                [None, "0", f"functions.{name}:{index}", f"call_{rng.randrange(9)}", "abc123XYZ", "toolu_01|x"]
            )
            provider = rng.choice(["moonshot", "openai", ""])
            kept = rng.random() < 0.15 and raw is not None  # a legacy history whose ids were never canonical
            own = f"{raw}-{number}-{index}" if kept else canonical_tool_call_id(provider, raw, name, key, index)
            calls.append(ToolCall(own, name, raw_id=raw, provider=provider))
        turns.append(Turn("human", (Text("go"),), key=f"{key}h"))
        turns.append(Turn("ai", (Text("so"), *calls), key=key))
        if calls:
            rng.shuffle(answered := list(calls))
            turns.append(Turn("tool", tuple([ToolResponse(c.id, c.name) for c in answered]), key=f"{key}t"))
    return turns
