"""OpenAI's chat wire as the registry knows it, with its default dialect: a host that follows it to the letter."""

from __future__ import annotations

from ...core.dialect import Dialect
from ..wire import Wire

# OpenAI's own behaviour. Every other host is this value with fields replaced.
DEFAULT = Dialect("openai-chat", "openai-chat", mid_system=True, developer_role=True, freeform=True)

WIRE = Wire(__package__, DEFAULT)
