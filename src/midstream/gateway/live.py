"""The gateway's traffic for the page: each exchange as it happens, if the operator allows it to be recorded.

Turned off, it costs one attribute lookup per request. Turned on, it keeps references to bytes that exist anyway (`web/traffic.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..web.traffic import Exchange as Record
from ..web.traffic import Traffic, secrets_in, serving
from ..web.veil import without_key

if TYPE_CHECKING:
    from ..web.guard import Message
    from .exchange import Exchange
    from .refusals import Refusal
    from .tenants import Authenticator


class LiveTraffic:
    """Records exchanges. `enabled` is the operator's choice; None means only while no request needs a key, because then there
    are no tenants who could see each other's words."""

    def __init__(self, traffic: Traffic, authenticator: Authenticator, enabled: bool | None = None) -> None:
        self.traffic = traffic
        self._authenticator = authenticator
        self._enabled = enabled
        self._refused_at = 0

    @property
    def is_on(self) -> bool:
        return self._authenticator.is_open if self._enabled is None else self._enabled

    def begin(self, exchange: Exchange) -> None:
        """A request has come. What is read and written of it is kept from now on, unless too many come."""
        exchange.live = record = self._open(exchange.tenant.id, exchange.wire, exchange.scope)
        if record.kept:
            exchange.record = record
            # The upstream's side is told by the transport's tap, in this task.
            serving.set(record.itself)

    def end(self, record: Record, exchange: Exchange) -> None:
        """Its answer is over."""
        if record.kept:
            serving.set(None)
            record.request, record.turn = exchange.request, exchange.turn
            # Of a request that was too large to be kept, this would be all of it.
            record.conversation = None if record.client.cut else exchange.conversation
        record.notes = exchange.all_notes()
        record.id, record.asked, record.status = exchange.id, exchange.asked, exchange.status
        record.stream, record.error = exchange.stream, exchange.error
        # As the log has it: a model that could not be asked at all counts as well. While it goes on, the tap counts.
        record.attempts = len(exchange.tried)
        if record.kept:
            record.earlier = [(each.model, each.status, each.error) for each in exchange.tried[:-1]]
        record.first, record.cost = exchange.first, exchange.cost
        if exchange.target is not None:
            record.model = exchange.target.name
        if exchange.usage is not None:
            record.input, record.output = exchange.usage.read, exchange.usage.output
        if exchange.status >= 400:
            _hide_keys(record, exchange.scope)
        self.traffic.close(record)

    def refuse(self, refusal: Refusal, scope: Message, body: bytes) -> None:
        """A request that never became an exchange: a wrong key, a path that is not there, too many at once. `body` is what the
        client was told."""
        tenant = refusal.tenant
        if tenant is None:
            # Nobody needs a key to be refused: without a bound, whoever has none could push everybody's traffic out.
            second = int(self.traffic.clock())
            if second == self._refused_at:
                return
            self._refused_at = second
        record = self._open("" if tenant is None else tenant.id, refusal.wire, scope)
        if record.kept:
            record.sent.add(self.traffic.clock(), body)
        record.status, record.error = refusal.status, refusal.error
        _hide_keys(record, scope)
        self.traffic.close(record)

    def _open(self, tenant: str, wire: str, scope: Message) -> Record:
        # As it came: what was escaped in it is part of what the client asked.
        path = scope.get("raw_path", b"").decode("latin-1") or scope["path"]
        record = self.traffic.open(tenant, wire, scope["method"], path)
        if record.kept:
            record.headers, record.query = scope["headers"], scope["query_string"]
        return record


def _hide_keys(record: Record, scope: Message) -> None:
    """In a row of the list: who mixes up two variables asks for a model by the name of a key, which fails."""
    for secret in secrets_in(scope["headers"], scope["query_string"]):
        record.asked, record.model, record.path = (
            without_key(text.encode("utf-8", "replace"), secret).decode("utf-8", "replace")
            for text in (record.asked, record.model, record.path)
        )
