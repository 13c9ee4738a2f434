"""Requests by the dialect's own wire, without a registry of providers before it."""

from __future__ import annotations

from typing import Any

from midstream.core.blocks import Conversation
from midstream.core.dialect import Dialect
from midstream.wires.request import Request, RequestDraft


def encode_draft(conversation: Conversation, dialect: Dialect, model: str, **fields: Any) -> Request:
    return RequestDraft(conversation, dialect, model, **fields).encode()
