"""The prompts of the vercel/ai converter vectors for chat hosts as conversations of ours."""

from __future__ import annotations

import json
from typing import Any

from midstream.core.blocks import (
    Block,
    Conversation,
    Media,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResponse,
    Turn,
    human,
)

_FIELDS = {"groq": "reasoning", "mistral": "thinking"}


def conversation(prompt: list[dict[str, Any]], origin: Origin) -> tuple[Conversation, int]:
    """The conversation, and how many messages had to be put before it so that its results have calls."""
    system: list[str] = []
    turns: list[Turn] = []
    for number, message in enumerate(prompt):
        role, key = message["role"], f"m{number}"
        if role == "system":
            system.append(message["content"])
            continue
        blocks = [_part(part, origin) for part in message["content"]]
        if role == "tool" and not turns:
            wanted = dict.fromkeys([(part["toolCallId"], part["toolName"]) for part in message["content"]])
            calls = tuple([ToolCall(call_id, name) for call_id, name in wanted])
            turns += [human("q", key="q"), Turn("ai", calls, key="calls")]
        speaker: Any = {"user": "human", "assistant": "ai", "tool": "tool"}[role]
        turns.append(Turn(speaker, tuple(blocks), key=key, origin=origin if speaker == "ai" else None))
    return Conversation(tuple(turns), "\n".join(system)), 2 if turns and turns[0].key == "q" else 0


def has_reasoning(prompt: list[dict[str, Any]]) -> bool:
    parts = [part for message in prompt if message["role"] == "assistant" for part in message["content"]]
    return any(part["type"] == "reasoning" for part in parts)


def _part(part: dict[str, Any], origin: Origin) -> Block:
    match part["type"]:
        case "text":
            return Text(part["text"])
        case "reasoning":
            return Thinking(part["text"], _FIELDS.get(origin.provider, "reasoning_content"), origin=origin)
        case "file":
            return _file(part, origin)
        case "tool-call":
            signature = part.get("providerOptions", {}).get("google", {}).get("thoughtSignature")
            extra = {"google": {"thought_signature": signature}} if signature else None
            given = json.dumps(part["input"], separators=(",", ":"))
            return ToolCall(part["toolCallId"], part["toolName"], given, provider=origin.provider, extra=extra)
        case "tool-result":
            return _result(part, origin)
    raise AssertionError(part["type"])


def _file(part: dict[str, Any], origin: Origin) -> Media:
    data, mime, name = part["data"], part["mediaType"], part.get("filename")
    match data["type"]:
        case "url":
            return Media(mime, url=data["url"]["$url"], name=name)
        case "reference":
            return Media(mime, url=data["reference"][origin.provider], name=name)
    inner = data["data"]
    return Media(mime, inner if isinstance(inner, str) else inner["$bytes_base64"], name=name)


def _result(part: dict[str, Any], origin: Origin) -> ToolResponse:
    output = part["output"]
    content: list[Any]
    if output["type"] == "content":
        content = [_part(inner, origin) for inner in output["value"]]
    else:
        value = output["value"]
        content = [Text(value if isinstance(value, str) else json.dumps(value, separators=(",", ":")))]
    return ToolResponse(part["toolCallId"], part["toolName"], tuple(content), output["type"].startswith("error"))
