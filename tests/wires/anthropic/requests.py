"""When two Messages requests say the same thing."""

from __future__ import annotations

import json
from typing import Any


def normal(body: dict[str, Any]) -> dict[str, Any]:
    """A request with everything that has two spellings in one of them, and ids renamed in order of appearance.

    A result that names no call is taken to mean the last one: so one recording has it, and it was accepted.
    """
    out = {key: value for key, value in body.items() if value is not None and key not in ("model", "messages")}
    for key in ("tools", "system"):
        if out.get(key) in ([], ""):
            del out[key]
    if isinstance(out.get("system"), str):
        out["system"] = [{"type": "text", "text": out["system"]}]
    if "tools" in out:
        out["tools"] = [_tool(tool) for tool in out["tools"]]
    if out.get("stream") is False:
        del out["stream"]
    ids: dict[str, str] = {}
    messages: list[dict[str, Any]] = []
    for message in body["messages"]:
        content = [_block(block, ids) for block in _blocks(message["content"])]
        content = [block for block in content if block.get("text", "x") != ""]
        if messages and messages[-1]["role"] == message["role"]:
            messages[-1]["content"] += content
        elif content:
            messages.append({"role": message["role"], "content": content})
    out["messages"] = messages
    return out


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    out = {key: value for key, value in tool.items() if value is not None and (key, value) != ("description", "")}
    if "input_schema" in out:
        out["input_schema"] = {"properties": {}, **out["input_schema"]}
    return out


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _block(block: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    out = {key: value for key, value in block.items() if value is not None}
    if out["type"] == "tool_use":
        out["id"] = ids.setdefault(out["id"], f"id-{len(ids)}")
    if out["type"] == "tool_result":
        out["tool_use_id"] = ids.get(out["tool_use_id"], next(reversed(ids.values()), "unknown"))
        out["content"] = [_block(part, ids) for part in _blocks(out.get("content") or [])]
        if out.get("is_error") is False:
            del out["is_error"]
    return out


def differences(got: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    got, wanted = normal(got), normal(wanted)
    return [
        f"{key}: got {json.dumps(got.get(key))[:1500]}, wanted {json.dumps(wanted.get(key))[:1500]}"
        for key in sorted({*got, *wanted})
        if got.get(key) != wanted.get(key)
    ]
