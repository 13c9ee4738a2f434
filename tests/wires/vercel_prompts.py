"""The prompts of the vercel/ai converter vectors as conversations of ours."""

from __future__ import annotations

import base64
import json
from typing import Any

from midstream.core.blocks import (
    Block,
    Conversation,
    Media,
    Opaque,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResponse,
    Turn,
    human,
)

ORIGIN = Origin("anthropic", "anthropic", "claude-sonnet-4-5")


def conversation(prompt: list[dict[str, Any]]) -> tuple[Conversation, int]:
    """The conversation, and how many turns had to be put before it so that its results have calls."""
    system: list[Text] = []
    turns: list[Turn] = []
    added = 0
    for number, message in enumerate(prompt):
        role, key = message["role"], f"m{number}"
        if role == "system":
            system.append(Text(message["content"], _mark(message)))
            continue
        parts = message["content"]
        blocks = [_part(part, _mark(message) if part is parts[-1] else None) for part in parts]
        if role == "tool" and not turns:
            calls = [ToolCall(part["toolCallId"], part["toolName"]) for part in parts]
            turns += [human("q", key="q"), Turn("ai", tuple(calls), key="calls")]
            added = 2
        speaker: Any = {"user": "human", "assistant": "ai", "tool": "tool"}[role]
        turns.append(Turn(speaker, tuple(blocks), key=key, origin=ORIGIN if speaker == "ai" else None))
    if not turns:
        turns, added = [human("q", key="q")], 1
    return Conversation(tuple(turns), tuple(system)), added


def _mark(owner: dict[str, Any]) -> dict[str, Any] | None:
    options = owner.get("providerOptions", {}).get("anthropic", {})
    return {"cache_control": options["cacheControl"]} if "cacheControl" in options else None


def _part(part: dict[str, Any], mark: dict[str, Any] | None) -> Block:
    mark = _mark(part) or mark
    options = part.get("providerOptions", {}).get("anthropic", {})
    match part["type"]:
        case "text":
            return Text(part["text"], mark)
        case "reasoning":
            return Thinking(part["text"], "thinking", options.get("signature"), origin=ORIGIN, extra=mark)
        case "file":
            return _file(part, options, mark)
        case "tool-call":
            given = part["input"]
            text = given if isinstance(given, str) else json.dumps(given)
            return ToolCall(part["toolCallId"], part["toolName"], text, provider="anthropic", extra=mark)
        case "tool-result":
            return _result(part, mark)
        case "custom":
            return Opaque("tool_reference", {"type": "tool_reference", "tool_name": options["toolName"]}, ORIGIN)
    raise AssertionError(part["type"])


def _file(part: dict[str, Any], options: dict[str, Any], mark: dict[str, Any] | None) -> Media | Opaque:
    data, mime, name = part["data"], part["mediaType"], part.get("filename")
    match data["type"]:
        case "url":
            return Media(mime, url=data["url"]["$url"], name=name, extra=mark)
        case "text":
            return Media(mime, base64.b64encode(data["text"].encode()).decode(), name=name, extra=mark)
        case "reference":
            if options.get("containerUpload"):
                block = {"type": "container_upload", "file_id": data["reference"]["anthropic"]}
                return Opaque("container_upload", block, ORIGIN)
            return Media(mime, url=data["reference"]["anthropic"], name=name, extra=mark)
    return Media(mime, data["data"], name=name, extra=mark)


def _result(part: dict[str, Any], mark: dict[str, Any] | None) -> ToolResponse:
    output = part["output"]
    content: list[Any]
    if output["type"] == "content":
        content = [_part(inner, None) for inner in output["value"]]
    elif isinstance(output["value"], str):
        content = [Text(output["value"])]
    else:
        content = [Text(json.dumps(output["value"], separators=(",", ":")))]
    error = output["type"].startswith("error")
    return ToolResponse(part["toolCallId"], part["toolName"], tuple(content), error, extra=mark or _mark(output))
