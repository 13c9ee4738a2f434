"""An OpenAI-compatible double of a host that is not in the registry, with habits of its own.

    Stranger("acme", strange_host("acme", id_pattern="[a-z0-9]{9}", id_message="bad id {id}"), style={"ids": "nine"})

A Sim that has it serves it under its name, `/acme/chat/completions`, beside the hosts that are known. A client reaches it as any
host of a user's own: by its address, `like = "openai-compatible"`, and what the user finds out about it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from ..core.dialect import Endpoint
from ..dialects.provider import Provider
from ..dialects.registry import REGISTRY
from .rules.hosts import Host

_LIKE = "openai-compatible"
_READ = ("reasoning_content", "reasoning", "reasoning_text")
"""The fields from which the chat wire reads reasoning in a history."""


class Stranger(msgspec.Struct, frozen=True):
    """`style` has the fields of its Style that differ, `faults` what it does wrong all the time."""

    name: str
    host: Host
    style: dict[str, Any] = {}
    faults: tuple[str, ...] = ()
    thinks: bool = False

    @property
    def reasoning_field(self) -> str:
        return str(self.style.get("reasoning_field", "reasoning_content"))

    def provider(self, url: str) -> Provider:
        """Its row in the registry of the doubles; clients have none."""
        plain = REGISTRY.providers[_LIKE].dialects[-1][1]
        reasoning = replace(plain.reasoning, field=self.reasoning_field, default_on=self.thinks)
        dialect = replace(plain, name=self.name, provider=self.name, reasoning=reasoning)
        return Provider(self.name, Endpoint(f"{url}/{self.name}", auth="none"), (("", dialect),))

    def read(self, body: bytes) -> bytes:
        """A request as the chat wire reads it: reasoning under the host's own name is under the usual one."""
        if self.reasoning_field in _READ:
            return body
        request = msgspec.json.decode(body)
        for message in request.get("messages") or () if isinstance(request, dict) else ():
            if isinstance(message, dict) and self.reasoning_field in message:
                message[_READ[0]] = message.pop(self.reasoning_field)
        return msgspec.json.encode(request)
