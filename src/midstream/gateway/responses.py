"""Responses that are kept, for clients that go on with `previous_response_id` or fetch one again.

A record holds the items that the client sent, all of them, and the response. A request that continues one gets those items
before its own, so every model can go on, also one on a host that keeps nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from ..core.blocks import Turn
from ..core.errors import BadRequest, NotFound
from ..wires.answer import AnswerContext, make_writer
from ..wires.lenient_json import decode_leniently, json_value

if TYPE_CHECKING:
    from .exchange import Exchange
    from .state import GatewayState

_WIRE = "openai-responses"


class Record(msgspec.Struct):
    input: list[Any]
    response: Any


class KeptResponses:
    """The responses of all tenants, each by its tenant and id."""

    def __init__(self, state: GatewayState, keep: float) -> None:
        self._state = state
        self._keep = keep
        self._inputs: dict[str, list[Any]] = {}

    async def continued(self, tenant: str, body: bytes) -> tuple[bytes, str | None]:
        """The body with what it continues before its own items, and the id of that; None if it continues nothing."""
        value = decode_leniently(body)
        former = value.get("previous_response_id") if isinstance(value, dict) else None
        if not isinstance(former, str) or not former:
            return body, None
        record = await self._record(tenant, former)
        if record is None:
            raise BadRequest(
                f"Previous response with id {former[:80]!r} not found: it was never stored here, was deleted or has expired; "
                "send the whole input",
                status=400,
                code="previous_response_not_found",
            )
        del value["previous_response_id"]
        output = record.response.get("output") or []
        value["input"] = [*record.input, *output, *_items(value.get("input"))]
        return json_value(value), former

    def remember(self, exchange: Exchange, body: bytes) -> None:
        """Note what was sent, until the answer is there."""
        value = decode_leniently(body)
        self._inputs[exchange.id] = _items(value.get("input")) if isinstance(value, dict) else []

    async def keep(self, exchange: Exchange, context: AnswerContext, turn: Turn) -> None:
        """Store a whole answer, if its client did not say otherwise."""
        items = self._inputs.pop(exchange.id, None)
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


def _unknown(id: str) -> NotFound:
    return NotFound(f"Response with id {id[:80]!r} not found", status=404)
