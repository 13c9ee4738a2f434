"""A rule: what is demanded, where that is known from, and a check that finds breaches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec

Body: TypeAlias = dict[str, Any]


class Problem(msgspec.Struct, frozen=True):
    """A breach, in the words the provider itself uses."""

    rule: str
    message: str
    status: int = 400
    type: str = "invalid_request_error"
    code: str | None = None


class Traits(msgspec.Struct, frozen=True):
    """What of a host its rules depend on; a field of another wire's rules is simply not read."""

    name: str
    wire: str
    id_max: int | None = 40
    """How long a call's id may be. OpenAI's figure; Kimi's ids hold the tool's name and are as long as it makes them."""
    id_pattern: str = ""
    id_message: str = ""
    id_code: str | None = None
    reasoning_field: str = ""
    """The field every assistant tool-call message must carry while thinking is on; empty for none."""
    reasoning_message: str = ""
    thinks_by_default: bool = False
    blank_content: bool = True
    """Whether empty content beside tool calls is taken."""
    moonshot_schema: bool = False
    forced_choice_thinking: tuple[str, ...] = ("required", "named")
    fixed_sampling: bool = False
    images: bool = True
    fields: frozenset[str] | None = None
    """The body fields it knows; any other is refused. None: unknown fields are read past."""
    max_tools: int | None = None
    name_pattern: str = r"[A-Za-z0-9_-]{1,64}"
    signature_prefix: str = ""
    """How reasoning it made itself is sealed: any other seal is refused."""
    needs_call_signature: bool = False
    mid_system: bool = False
    """Whether an instruction may stand among the messages, behind the first."""
    error_shape: Literal["full", "brief", "flat"] = "full"
    """On the chat wire: OpenAI's error object, one without param and code, or its fields without an object around them."""
    rate_limit_type: str = "rate_limit_error"


Check: TypeAlias = Callable[[Body, Traits], Iterator[str | Problem]]


class Rule(msgspec.Struct, frozen=True):
    """`check` yields the provider's words for each breach (or a whole Problem, where status or code differ)."""

    name: str
    source: str
    check: Check
    status: int = 400
    code: str | None = None

    def problems(self, body: Body, traits: Traits) -> Iterator[Problem]:
        for found in self.check(body, traits):
            yield found if isinstance(found, Problem) else Problem(self.name, found, self.status, code=self.code)


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; a rule about shape complains of the rest."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def is_object_text(text: Any) -> bool:
    """Whether `text` is the JSON text of an object."""
    if not isinstance(text, str):
        return False
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return False
