"""The answer's format: nested under `json_schema` as the chat wire says it (and Options keep it), flat on this wire."""

from __future__ import annotations

from typing import Any


def format_from_chat(response_format: dict[str, Any]) -> dict[str, Any]:
    inner = response_format.get("json_schema")
    if not isinstance(inner, dict):
        return response_format
    rest = {key: value for key, value in response_format.items() if key != "json_schema"}
    return {**rest, **inner}


def format_to_chat(text_format: dict[str, Any]) -> dict[str, Any]:
    if text_format.get("type") != "json_schema" or "schema" not in text_format:
        return text_format
    inner = {key: value for key, value in text_format.items() if key != "type"}
    return {"type": "json_schema", "json_schema": inner}
