"""The completion wire as the registry knows it, with its default dialect: a host that follows it to the letter."""

from __future__ import annotations

from ...core.dialect import Dialect
from ..wire import Wire

# ChatML is a template that many open models know.
DEFAULT = Dialect("completion", "completion", template="chatml", leaks="hermes", stop=("<|im_end|>", "<|endoftext|>"))

WIRE = Wire(__package__, DEFAULT)
