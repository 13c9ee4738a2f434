"""Responses that are kept, for clients that go on with `previous_response_id` or fetch one again.

A record holds the items that the client sent, all of them, and the response. A request that continues one gets those items
before its own, so every model can go on, also one on a host that keeps nothing. An item that a client only refers to, by the id
that it has in a response of ours, is put in the reference's place.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import msgspec

from ..core.blocks import Turn
from ..core.errors import BadRequest, NotFound
from ..wires.answer import AnswerContext, make_writer
from ..wires.lenient_json import json_value
from .body import sent_json

if TYPE_CHECKING:
    from .exchange import Exchange
    from .state import GatewayState

MOST_READ = 1_000
"""Of so many responses a request may name items: each is a look into the store."""
_WIRE = "openai-responses"
_ITEM_OF = re.compile(r"[a-z]{2,4}_resp([0-9a-f]{24})[0-9]+")
"""The id of an item in a response of ours: the response's own is in it."""


class Record(msgspec.Struct):
    input: list[Any]
    response: Any


class KeptResponses:
    """The responses of all tenants, each by its tenant and id."""

    def __init__(self, state: GatewayState, keep: float) -> None:
        self._state = state
        self._keep = keep
        # By exchange, between the request and its answer; `forget` clears what no answer came for.
        self._inputs: dict[str, list[Any]] = {}

    async def completed(self, tenant: str, body: bytes, limit: int) -> tuple[bytes, str | None]:
        """The body with what it continues before its own items and what it refers to in its place, and the id of what it
        continues; None if that is nothing. Together they may have no more than `limit` bytes, as if the client had sent it all: a
        chain has an end, too."""
        value = sent_json(body)
        if not isinstance(value, dict):
            return body, None
        # Kept in full with each response: a chain of references
        # to earlier ones would break at the first that expires.
        items = _items(value.get("input"))
        referring = any(map(_is_reference, items))
        if referring:
            items = await self._resolved(tenant, items)
        former = value.pop("previous_response_id", None)
        if not isinstance(former, str) or not former:
            return _within(json_value({**value, "input": items}), limit) if referring else body, None
        record = await self._record(tenant, former)
        if record is None:
            # The code is OpenAI's own, so that clients that know it send their whole input instead.
            raise BadRequest(
                f"Previous response with id {former[:80]!r} not found: it was never stored here, was deleted or has expired; "
                "send the whole input",
                status=400,
                code="previous_response_not_found",
            )
        # The chain in its order: what was asked then, what was answered, what is asked now.
        output = record.response.get("output") or []
        return _within(json_value({**value, "input": [*record.input, *output, *items]}), limit), former

    async def _resolved(self, tenant: str, items: list[Any]) -> list[Any]:
        known: dict[str, Any] = {}
        read: set[str] = set()
        found: list[Any] = []
        for item in items:
            if not _is_reference(item):
                found.append(item)
                continue
            id = str(item.get("id"))
            match = _ITEM_OF.fullmatch(id)
            if match is not None and match[1] not in read:
                # A request of some megabytes could otherwise name a million items.
                if len(read) == MOST_READ:
                    raise BadRequest(f"the input refers to items of more than {MOST_READ} responses", status=400)
                read.add(match[1])
                record = await self._record(tenant, f"resp_{match[1]}")
                known.update({each["id"]: each for each in (record.response["output"] if record is not None else ())})
            if id not in known:
                raise NotFound(
                    f"Item with id {id[:80]!r} not found: it was never stored here, was deleted or has expired; "
                    "send the item itself",
                    status=404,
                    code="item_not_found",
                )
            found.append(known[id])
        return found

    def remember(self, exchange: Exchange, body: bytes) -> None:
        """Note what was sent, until the answer is there."""
        value = sent_json(body)
        self._inputs[exchange.id] = _items(value.get("input")) if isinstance(value, dict) else []

    async def keep(self, exchange: Exchange, context: AnswerContext, turn: Turn) -> None:
        """Store a whole answer, if its client did not say otherwise."""
        items = self._inputs.pop(exchange.id, None)
        # `store: false`, or an answer that was already kept.
        if items is None:
            return
        response = msgspec.json.decode(make_writer(_WIRE, context).body(turn))
        record = json_value({"input": items, "response": response})
        await self._state.put_response(exchange.tenant.id, context.response_id, record, time.time() + self._keep)

    def forget(self, exchange: Exchange) -> None:
        self._inputs.pop(exchange.id, None)

    async def response(self, tenant: str, id: str) -> dict[str, Any]:
        record = await self._record(tenant, id)
        if record is None:
            raise _unknown(id)
        found: dict[str, Any] = record.response
        return found

    async def items(self, tenant: str, id: str) -> dict[str, Any]:
        """The items that a response was made from, as the client sent them."""
        record = await self._record(tenant, id)
        if record is None:
            raise _unknown(id)
        data = [{"id": f"item_{number}", **item} for number, item in enumerate(record.input) if isinstance(item, dict)]
        ends = {"first_id": data[0]["id"] if data else None, "last_id": data[-1]["id"] if data else None}
        return {"object": "list", "data": data, "has_more": False, **ends}

    async def delete(self, tenant: str, id: str) -> dict[str, Any]:
        if not await self._state.delete_response(tenant, id):
            raise _unknown(id)
        return {"id": id, "object": "response", "deleted": True}

    async def _record(self, tenant: str, id: str) -> Record | None:
        found = await self._state.get_response(tenant, id, time.time())
        return None if found is None else msgspec.json.decode(found, type=Record)


def _items(items: Any) -> list[Any]:
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    return items if isinstance(items, list) else []


def _is_reference(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "item_reference"


def _within(whole: bytes, limit: int) -> bytes:
    if len(whole) > limit:
        raise BadRequest(
            f"the request and what it continues are larger than {limit} bytes together, which is all this gateway takes: "
            "start again with less input",
            status=413,
        )
    return whole


def _unknown(id: str) -> NotFound:
    return NotFound(f"Response with id {id[:80]!r} not found", status=404, code="response_not_found")
