"""A client's request as its target can be asked it: the last steps of the gateway and of the clients inside a process.

The history is complete by now, with whatever was kept of its answers. What follows depends on the models that may answer, and
is the same wherever the request came from.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ..core.blocks import Text
from ..core.dialect import Dialect
from ..core.handoff import Note
from .carry import carried, with_schema, without_marks
from .request import ParsedRequest
from .server_tools import sources_as_text, without_server_tools


def fit_request(
    parsed: ParsedRequest,
    wire: str,
    readers: Sequence[Dialect],
    *,
    allowed: tuple[str, ...] = (),
    has_marks: bool = True,
) -> tuple[ParsedRequest, list[Note]]:
    """The request of a client of `wire` for these readers, a chain, and notes of what was changed or left out.

    The request is read once, and any reader of the chain may answer: the history is fitted to the first, and what one of them
    does not take is sent to none. `allowed` are an operator's own words for fields that go on; `has_marks=False` says that the
    history has no cache marks.
    """
    if has_marks:
        for reader in readers:
            parsed = replace(parsed, conversation=without_marks(parsed.conversation, reader))
    first = readers[0]
    parsed = as_prefill(sources_as_text(parsed, first), first)
    parsed, notes = without_server_tools(parsed, wire, first)
    options = parsed.options
    if options.extra_body:
        for reader in readers:
            options, dropped = carried(options, wire, reader, allowed)
            notes = [*notes, *dropped]
    if options.response_format is not None:
        options = with_schema(options, wire, readers)
    # What it continues is in the history by now.
    options = replace(options, previous_response_id=None, relay_to=wire, betas=parsed.requested.betas)
    return replace(parsed, options=options), notes


def as_prefill(parsed: ParsedRequest, reader: Dialect) -> ParsedRequest:
    """A history that ends with the model's own words asks it to go on with them. Hosts that want to be told so get the words
    as `prefill`; Mistral refuses them otherwise, and Kimi begins a new answer."""
    turns = parsed.conversation.turns
    last = turns[-1] if turns else None
    if not reader.prefill_flag or last is None or last.speaker != "ai" or parsed.options.prefill is not None:
        return parsed
    # Thinking or calls cannot be a prefill, and a request that is nothing but a prefill has no question.
    if not last.text or any(type(block) is not Text for block in last.blocks) or len(turns) == 1:
        return parsed
    conversation = replace(parsed.conversation, turns=turns[:-1])
    return replace(parsed, conversation=conversation, options=replace(parsed.options, prefill=last.text))
