"""A rule: its name, its source, how it is known, and a check that finds what breaks it.

| basis | means |
|---|---|
| `documented` | the provider's reference or guide says so, or its SDK's types require it |
| `observed` | an error text of the host or a recording shows it |
| `assumed` | we think so: for our own encoders, which keep to the stricter reading |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

Body: TypeAlias = dict[str, Any]
Basis: TypeAlias = Literal["documented", "observed", "assumed"]


class Problem(msgspec.Struct, frozen=True):
    """A request that breaks a rule, with the provider's own error message."""

    rule: str
    message: str
    status: int = 400
    type: str = "invalid_request_error"
    code: str | None = None
    basis: Basis = "documented"


# A str, so that a check can yield its words and nothing else in the common case.
class Labelled(str):
    """The message of a problem that is known in another way than the rest of its rule."""

    basis: ClassVar[Basis]


class Documented(Labelled):
    basis = "documented"


class Observed(Labelled):
    basis = "observed"


class Assumed(Labelled):
    basis = "assumed"


# Rules read traits, never a host's name: the same check serves every host of a wire, and what differs is data.
class Traits(msgspec.Struct, frozen=True):
    """What the rules need to know about a host. Each wire's rules read only the fields that concern them."""

    name: str
    wire: str
    id_max: int | None = 40
    """The longest call id it accepts, by default OpenAI's limit; None for hosts whose ids contain the tool's name."""
    id_pattern: str = ""
    id_message: str = ""
    id_code: str | None = None
    reasoning_field: str = ""
    """The field every assistant tool-call message must carry while thinking is on; empty for none."""
    reasoning_message: str = ""
    preserves: Literal["", "asked", "always"] = ""
    """Whether it keeps the reasoning of all turns, and then refuses any assistant message without: never, with `thinking.keep`, or
    by itself."""
    thinks_by_default: bool = False
    blank_content: bool = True
    """Whether empty content beside tool calls is accepted."""
    blank_text: bool = False
    """Whether a message may be an empty text."""
    allowed_tools: bool = False
    """On the chat wire: whether tool_choice may be a list of allowed tools."""
    moonshot_schema: bool = False
    checks_schemas: bool = False
    """Whether the schemas of tools must be valid JSON Schema."""
    forced_choice_thinking: tuple[str, ...] = ("required", "named")
    fixed_sampling: bool = False
    images: bool = True
    image_types: tuple[str, ...] = ("image/jpeg", "image/png", "image/gif", "image/webp")
    fields: frozenset[str] | None = None
    """The body fields it knows; any other is refused. None: unknown fields are ignored."""
    max_tools: int | None = None
    name_pattern: str = r"[A-Za-z0-9_-]{1,64}"
    signature_prefix: str = ""
    """The beginning of the signatures it gives: reasoning with any other signature is refused. Empty: accepts any."""
    needs_call_signature: bool = False
    mid_system: bool = False
    """On the chat and the Messages wire: whether a system message may follow the first message."""
    mid_tools: bool = False
    """Whether a system message may declare tools."""
    developer_role: bool = False
    freeform: bool = False
    """Whether it has freeform tools."""
    namespaces: bool = False
    error_shape: Literal["full", "brief", "flat"] = "full"
    """On the chat wire: OpenAI's error object, the same without param and code, or its fields at the top level."""
    rate_limit_type: str = "rate_limit_error"
    bad_key_status: int | None = 401
    """How a wrong key is refused; None for hosts that look at none."""
    bad_key_message: str = "Incorrect API key provided."


Check: TypeAlias = Callable[[Body, Traits], Iterator[str | Problem]]


class Apart(msgspec.Struct, frozen=True):
    """What a rule refuses that is known in another way than the rest of it, for people; what is assumed has no source."""

    basis: Basis
    words: str
    source: str = ""


class Rule(msgspec.Struct, frozen=True):
    """`check` yields the provider's message for each problem: a plain text has the basis of the rule, a Labelled one its own.

    It yields a Problem where status or code differ from the rule's.
    """

    name: str
    basis: Basis
    source: str
    check: Check
    status: int = 400
    code: str | None = None
    hosts: tuple[str, ...] = ()
    """How the names of the hosts begin that the source speaks of; at every other host the rule is assumed. Empty: at all."""
    apart: tuple[Apart, ...] = ()
    """What its Labelled messages are about."""
    guide: str = ""
    """Where the field guide explains it: a page of docs/field-guide and a heading of it."""

    def basis_at(self, host: str, basis: Basis | None = None) -> Basis:
        """How this rule, or what in it has another `basis`, is known of one host."""
        known = not self.hosts or host.startswith(self.hosts)
        # A source about one host proves nothing about another of the same wire.
        return (basis or self.basis) if known else "assumed"

    def problems(self, body: Body, traits: Traits) -> Iterator[Problem]:
        for found in self.check(body, traits):
            if isinstance(found, Problem):
                yield replace(found, basis=self.basis_at(traits.name, found.basis))
            else:
                basis = self.basis_at(traits.name, found.basis if isinstance(found, Labelled) else None)
                yield Problem(self.name, str(found), self.status, code=self.code, basis=basis)


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list. Anything else in it is for the rule `shape` to refuse."""
    if not isinstance(value, list):
        return []
    # Every rule asks this of every message, and nearly always all of them are objects.
    return value if _OBJECTS.issuperset(map(type, value)) else [item for item in value if isinstance(item, dict)]


_OBJECTS = frozenset((dict,))


def is_object_text(text: Any) -> bool:
    """Whether `text` is the JSON text of an object."""
    if not isinstance(text, str):
        return False
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return False
