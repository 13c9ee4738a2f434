"""Requests on OpenAI's two wires, answered in this process: bytes in, bytes out, by the server half of each wire.

It is what the gateway does for one client, without HTTP, keys, limits or a store. The calls of an answer have their canonical
ids, and what a message has no place for is remembered (`answer_memory`). `previous_response_id` goes on from an answer that
was given here.
"""

from __future__ import annotations

import re
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
from msgspec.structs import replace

from ..codec import mint_turn_key
from ..core.blocks import Conversation, Origin, Thinking, Turn
from ..core.dialect import Options
from ..core.errors import BadRequest, NotFound
from ..core.events import Done, ErrorEvent, Event, ThinkingEnd
from ..core.handoff import Note
from ..dialects.registry import Resolved
from ..wires.answer import AnswerContext, Habits, answer_notes, answer_to, make_writer, write_events
from ..wires.door import fit_request
from ..wires.lenient_json import decode_object, encode_json
from ..wires.openai_responses.answer import ENCRYPTED
from ..wires.openai_responses.stored_response import CONTINUES
from ..wires.parsing import strings
from ..wires.request import ParsedRequest, Request, parse_request
from .backend import Backend

CHAT, RESPONSES = "openai-chat", "openai-responses"
_ID_PREFIXES = {CHAT: "chatcmpl-", RESPONSES: "resp_"}
_HABITS = Habits(ids="own")
_CARRIED = "midstream1."
"""How reasoning begins that was packed here."""
_STORED = 1024
"""So many responses can be gone on from."""
_MINTED = re.compile(r"[a-z]{2,4}_resp")
"""How the ids begin that our own answers give to items. Their host would look for them in vain."""


class Reading(msgspec.Struct, frozen=True):
    """A request that was read: what to ask of which model, and how to answer."""

    wire: str
    model: str
    parsed: ParsedRequest
    context: AnswerContext
    notes: list[Note]
    """What was changed or left out on the way to the model; more of it once the request is made."""
    recalled: Conversation
    """The history with the answers that are remembered, before it was fitted to the model."""

    def sending(self, _: Resolved, request: Request) -> None:
        self.notes.extend(request.notes)


class OpenAIWires:
    """Answers requests of one caller. With `carry`, the items of a response hold what belongs to another wire, so that a
    history which a library has stored gives it back in another process."""

    def __init__(self, backend: Backend, *, carry: bool = False) -> None:
        self.backend = backend
        self._carry = carry
        self._stored: OrderedDict[str, Conversation] = OrderedDict()

    def read(self, wire: str, body: bytes) -> Reading:
        """A request, as a conversation that any model can be asked to continue."""
        request = decode_object(body, f"a {wire} request")
        model = request.get("model")
        if not isinstance(model, str) or not model:
            raise BadRequest("the request names no model: expected model='provider/name'", status=400)
        target = self.backend.resolve(model)
        dialect = target.dialect
        # What the caller kept elsewhere is the target's own if they speak one wire, as with a client that talks to it
        # directly; otherwise nobody knows whose it is.
        provider = dialect.provider if dialect.wire == wire else ""
        # What the caller wants included is between it and us; the host is asked for all that has to go back to it.
        asked = {name: value for name, value in request.items() if name != "include"}
        parsed = parse_request(
            wire, encode_json(_without_minted_ids({**asked, "model": target.model})), provider=provider
        )
        conversation = self._continued(_unpacked(parsed.conversation) if self._carry else parsed.conversation)
        if not conversation.turns and not conversation.system:
            raise BadRequest("the request has no messages", status=400)
        notes: list[Note] = []
        recalled = self.backend.memory.recall(conversation, wire, notes=notes)
        parsed, told = fit_request(replace(parsed, conversation=recalled), wire, (dialect,))
        context = answer_to(
            parsed,
            model=model,
            response_id=_ID_PREFIXES[wire] + mint_turn_key()[:24],
            created=int(time.time()),
            habits=_HABITS,
            include=(ENCRYPTED,) if self._carry else strings(request.get("include")),
        )
        self.backend.log_dropped(target, told)
        return Reading(wire, model, parsed, context, [*notes, *told], recalled)

    def models(self) -> bytes:
        """The models that are known by name, as `GET /v1/models` lists them; others work, too."""
        return encode_json({"object": "list", "data": [_listed(name) for name in self.backend.catalog.names()]})

    def model(self, name: str) -> bytes:
        """One model, also one that is in no list, as `GET /v1/models/NAME` gives it; UnknownModel says what is there instead."""
        self.backend.resolve(name)
        return encode_json(_listed(name))

    async def whole(self, reading: Reading) -> bytes:
        """The body of the whole answer. What keeps it from being one is raised."""
        parsed = reading.parsed
        options = replace(parsed.options, stream=False)
        turn = await self.backend.complete(
            reading.model, parsed.conversation, parsed.tools, options, reading.sending, recalled=reading.recalled
        )
        self._store(reading, turn)
        writer = make_writer(reading.wire, reading.context)
        body = writer.body(self._carrying(turn) if self._carry else turn)
        reading.notes.extend([*answer_notes(turn), *writer.notes])
        return body

    async def stream(self, reading: Reading) -> AsyncGenerator[bytes, None]:
        """The answer as its wire streams it. What keeps it from starting is raised; what fails later is told in the stream."""
        parsed = reading.parsed
        writer = make_writer(reading.wire, reading.context)
        options: Options = replace(parsed.options, stream=True)
        batches = self.backend.batches(
            reading.model, parsed.conversation, parsed.tools, options, reading.sending, recalled=reading.recalled
        )
        async with aclosing(batches):
            async for batch in batches:
                last = batch[-1]
                if type(last) is Done:
                    self._store(reading, last.turn)
                if self._carry:
                    batch = [self._carrying_event(event) for event in batch]
                yield write_events(writer, batch)
                if type(last) is ErrorEvent:
                    return

    def _carrying(self, turn: Turn) -> Turn:
        blocks = [_packed(block) if type(block) is Thinking else block for block in turn.blocks]
        return replace(turn, blocks=tuple(blocks))

    def _carrying_event(self, event: Event) -> Event:
        if type(event) is ThinkingEnd:
            return replace(event, block=_packed(event.block))
        return replace(event, turn=self._carrying(event.turn)) if type(event) is Done else event

    def _store(self, reading: Reading, turn: Turn) -> None:
        if reading.wire == RESPONSES:
            self._stored[reading.context.response_id] = reading.recalled.add(turn)
            while len(self._stored) > _STORED:
                self._stored.popitem(last=False)

    def _continued(self, conversation: Conversation) -> Conversation:
        """The conversation behind the response that it names, if it names one."""
        previous = (conversation.extra or {}).get(CONTINUES)
        if previous is None:
            return conversation
        stored = self._stored.get(previous)
        if stored is None:
            raise NotFound(
                f"previous_response_id: no response {previous!r} was given here lately; send the whole conversation",
                status=404,
                code="previous_response_not_found",
            )
        # Instructions are not inherited: the caller says them anew with each request, as on OpenAI's own wire.
        return replace(stored.add(*conversation.turns), system=conversation.system)


def _listed(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": name.partition("/")[0]}


def _packed(block: Thinking) -> Thinking:
    """Reasoning in the place where this wire's clients bring back what they cannot read."""
    if block.origin is None or (block.encrypted and block.origin.wire == RESPONSES):
        return block
    data = urlsafe_b64encode(msgspec.json.encode(block)).decode()
    return replace(block, encrypted=_CARRIED + data, signature=None, redacted=False)


def _unpacked(conversation: Conversation) -> Conversation:
    """The conversation with the reasoning that `_packed` wrote as it was, and its maker known again."""
    turns: list[Turn] = []
    for turn in conversation.turns:
        blocks = tuple([_opened(block) if type(block) is Thinking else block for block in turn.blocks])
        makers = [new.origin for new, old in zip(blocks, turn.blocks, strict=True) if new is not old]  # type: ignore[union-attr]
        turns.append(replace(turn, blocks=blocks, origin=makers[0]) if makers else turn)
    return replace(conversation, turns=tuple(turns))


def _opened(block: Thinking) -> Thinking:
    if not block.encrypted or not block.encrypted.startswith(_CARRIED):
        return block
    try:
        return msgspec.json.decode(urlsafe_b64decode(block.encrypted.removeprefix(_CARRIED)), type=Thinking)
    except (msgspec.MsgspecError, ValueError):
        # Somebody changed it. What can be read of it is nobody's.
        return replace(block, encrypted=None, origin=Origin())


def _without_minted_ids(request: dict[str, Any]) -> dict[str, Any]:
    items = request.get("input")
    if not isinstance(items, list):
        return request
    kept = [
        {key: value for key, value in item.items() if key != "id"}
        if isinstance(item, dict) and isinstance(item.get("id"), str) and _MINTED.match(item["id"])
        else item
        for item in items
    ]
    return {**request, "input": kept}
