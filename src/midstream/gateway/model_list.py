"""The models that a client may ask for, in the shape of its wire.

Claude Code lists only ids that begin with `claude` or `anthropic`, so a client of that wire gets every model under such an id, with
a name for people; the router knows the way back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .routing import ListedModel

# Clients want a date and show it to nobody; a fixed one keeps the answers comparable.
_CREATED = 1_790_000_000
_DATE = "2026-09-21T00:00:00Z"


def model_list(wire: str, models: Sequence[ListedModel], query: Mapping[str, str]) -> dict[str, Any]:
    if wire == "gemini":
        return {"models": [_gemini(each.id, each.display_name) for each in models]}
    if wire != "anthropic":
        return {"object": "list", "data": [_openai(each.id) for each in models]}
    names = [(each.claude_id, each.display_name) for each in models]
    ids = [name for name, _ in names]
    after = query.get("after_id")
    # An id that is not listed any more begins from the start; an error would stop a client's listing for good.
    start = ids.index(after) + 1 if after in ids else 0
    size = int(query["limit"]) if query.get("limit", "").isdigit() and len(query["limit"]) < 6 else 1000
    page = [_anthropic(*name) for name in names[start : start + max(1, size)]]
    ends = {"first_id": page[0]["id"] if page else None, "last_id": page[-1]["id"] if page else None}
    return {"data": page, "has_more": start + len(page) < len(names), **ends}


def one_model(wire: str, models: Sequence[ListedModel], name: str) -> dict[str, Any] | None:
    """What is told of one model; None if it is not among them."""
    plain = name.removeprefix("models/")
    for each in models:
        if plain in (each.id, each.claude_id):
            if wire == "gemini":
                return _gemini(each.id, each.display_name)
            return _anthropic(plain, each.display_name) if wire == "anthropic" else _openai(each.id)
    return None


def _openai(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": "midstream"}


def _anthropic(name: str, display: str) -> dict[str, Any]:
    shown = {"type": "model", "id": name, "display_name": display or name, "created_at": _DATE}
    return {**shown, "lifecycle": "active", "deprecated_at": None, "retires_at": None}


def _gemini(name: str, display: str) -> dict[str, Any]:
    methods = ["generateContent", "streamGenerateContent", "countTokens"]
    return {
        "name": f"models/{name}", "version": "001", "displayName": display or name, "description": display or name,
        "inputTokenLimit": 131_072, "outputTokenLimit": 65_536, "supportedGenerationMethods": methods,
    }  # fmt: skip
