"""What makes two Responses requests say the same thing: the rules by which recorded bodies and ours are compared.

Ids of calls may be renamed, consistently; a string content is one text part; a null is an absent field; an item id that
lacks its kind's prefix, and an assistant message without text, say nothing. Our own `store` and `include` are not compared
where the recording left them to the host.
"""

from __future__ import annotations

from typing import Any

from midstream.wires.openai_responses.items import is_item_id

_TEXTS = {"assistant": "output_text"}
_CALLS = ("function_call", "custom_tool_call", "function_call_output", "custom_tool_call_output")


def normal(body: dict[str, Any], *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """A request body in its one normal form."""
    out = {key: value for key, value in body.items() if value is not None and key not in without}
    items = body.get("input", [])
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    names: dict[str, str] = {}
    out["input"] = [found for item in items if (found := _item(item, names)) is not None]
    if out.get("instructions") == "":
        del out["instructions"]
    out["tools"] = [_tool(tool) for tool in body.get("tools") or ()]
    out["stream"] = bool(body.get("stream"))
    for key in ("text", "reasoning"):
        if isinstance(out.get(key), dict):
            out[key] = {name: value for name, value in out[key].items() if value is not None}
    if not out["tools"]:
        for key in ("tools", "tool_choice", "parallel_tool_calls"):
            out.pop(key, None)
    return out


def _item(item: dict[str, Any], names: dict[str, str]) -> dict[str, Any] | None:
    kind = item.get("type") or "message"
    out = {key: value for key, value in item.items() if value is not None} | {"type": kind}
    if kind == "message":
        out["content"] = _content(item.get("content"), _TEXTS.get(item.get("role", ""), "input_text"))
        if item.get("role") == "assistant" and not any(
            part.get("text") or part.get("refusal") for part in out["content"]
        ):
            return None
    if kind in _CALLS:
        out["call_id"] = names.setdefault(item["call_id"], f"call {len(names)}")
    if kind == "reasoning":
        out.pop("status", None)
        if not out.get("content"):
            out.pop("content", None)
    if kind in ("message", "reasoning", "function_call", "custom_tool_call") and not is_item_id(kind, item.get("id")):
        out.pop("id", None)
    return out


def _content(content: Any, text_type: str) -> list[dict[str, Any]]:
    if isinstance(content, str):
        content = [{"type": text_type, "text": content}]
    return [{key: value for key, value in part.items() if value not in (None, [])} for part in content]


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    if isinstance(tool.get("function"), dict):
        tool = {"type": "function", **tool["function"], **{k: v for k, v in tool.items() if k != "function"}}
    return {key: value for key, value in tool.items() if value not in (None, "")}
