"""OpenAI-style messages, as the vectors hold them, as a Conversation whose canonical ids are the raw ones."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from midstream.core.blocks import (
    Block,
    Conversation,
    Media,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResponse,
    Turn,
)
from midstream.core.tools import ToolSpec


class VerbatimIds:
    """A mapper that prints every id as the history has it."""

    def extend(self, turns: Iterable[Turn]) -> None:
        pass

    def resolve_tool_call_id(self, call: ToolCall) -> str:
        return call.id

    def resolve_tool_response_id(self, response: ToolResponse) -> str:
        return response.call_id

    def clone(self) -> VerbatimIds:
        return self


def conversation_of(messages: list[dict[str, Any]]) -> Conversation:
    system = ""
    turns: list[Turn] = []
    for message in messages:
        role = message["role"]
        if role == "system" and not turns and not system:
            system = message["content"]
        elif role == "tool":
            content = tuple(part for part in _content(message) if isinstance(part, Text | Media))
            response = ToolResponse(message["tool_call_id"], message.get("name", ""), content)
            if turns and turns[-1].speaker == "tool":
                turns[-1] = Turn("tool", (*turns[-1].blocks, response))
            else:
                turns.append(Turn("tool", (response,)))
        elif role == "assistant":
            turns.append(Turn("ai", (*_thinking(message), *_content(message), *_calls(message))))
        else:
            extra = {"name": message["name"]} if "name" in message else None
            turns.append(Turn("human", tuple(_content(message)), role="" if role == "user" else role, extra=extra))
    return Conversation(tuple(turns), system)


def tools_of(tools: list[dict[str, Any]] | None) -> list[ToolSpec]:
    functions = [tool["function"] for tool in tools or []]
    return [
        ToolSpec(f["name"], f.get("description", ""), f.get("parameters"), strict=f.get("strict")) for f in functions
    ]


def _content(message: dict[str, Any]) -> list[Block]:
    content = message.get("content")
    parts: list[Block] = [Opaque("tools", message["tools"])] if message.get("tools") else []
    if isinstance(content, str):
        parts.append(Text(content))
    if isinstance(content, list):
        parts += [Text(part["text"]) if part["type"] == "text" else Media("image/png", url="x") for part in content]
    return parts


def _thinking(message: dict[str, Any]) -> list[Block]:
    return [Thinking(message["reasoning_content"])] if "reasoning_content" in message else []


def _calls(message: dict[str, Any]) -> list[Block]:
    calls = message.get("tool_calls") or []
    return [ToolCall(call["id"], call["function"]["name"], _text(call["function"]["arguments"])) for call in calls]


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
