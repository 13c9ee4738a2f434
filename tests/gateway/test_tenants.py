"""Whose request it is: every way of sending a key, every way of sending none, and what a lookup costs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from midstream.core.errors import RateLimited, Unauthorized
from midstream.gateway.api_key import digest_of, make_key
from midstream.gateway.config import KeysConfig
from midstream.gateway.state import GatewayState, KeyRecord, open_state
from midstream.gateway.tenants import (
    LOCAL,
    LOOKUPS,
    TTL,
    Authenticator,
    Tenant,
    presented_key,
    provider_key,
    tenant_of,
)

from .clock import Clock

MADE = make_key()
KEY = MADE.key.reveal()
RECORD = KeyRecord(MADE.id, "acme", MADE.digest, "ci", models=("claude-*",), rate=60, concurrency=2, spend=20.0)
OTHER = make_key().key.reveal()
B = KEY.encode()

Headers = list[tuple[bytes, bytes]]
ACCEPTED: list[tuple[str, Headers, bytes]] = [
    ("bearer", [(b"authorization", b"Bearer " + B)], b""),
    ("bearer in lower case, with blanks", [(b"authorization", b" bearer  " + B + b" ")], b""),
    ("x-api-key", [(b"x-api-key", B)], b""),
    ("x-goog-api-key", [(b"x-goog-api-key", B)], b""),
    ("in the query", [], b"alt=sse&key=" + B),
    ("in the query, escaped", [], b"key=%6D" + B[1:] + b"&alt=sse"),
    ("the same in two places", [(b"authorization", b"Bearer " + B), (b"x-api-key", B)], b"key=" + B),
    ("beside other headers", [(b"host", b"x"), (b"x-api-key", B), (b"cookie", b"key=1")], b"monkey=2"),
]
REFUSED: list[tuple[str, Headers, bytes, str]] = [
    ("none", [(b"host", b"x")], b"", "no key"),
    ("empty", [(b"x-api-key", b"")], b"", "empty"),
    ("an empty bearer", [(b"authorization", b"Bearer ")], b"", "empty"),
    ("bearer alone", [(b"authorization", b"Bearer")], b"", "empty"),
    ("nothing for authorization", [(b"authorization", b"")], b"", "Bearer"),
    ("an empty one beside a good one", [(b"x-api-key", b""), (b"authorization", b"Bearer " + B)], b"", "empty"),
    ("an empty one in the query", [], b"key=", "empty"),
    ("another scheme", [(b"authorization", b"Basic " + B)], b"", "Bearer"),
    ("no scheme", [(b"authorization", B)], b"", "Bearer"),
    ("one header twice", [(b"x-api-key", B), (b"x-api-key", B)], b"", "came twice"),
    ("authorization twice", [(b"authorization", b"Bearer " + B)] * 2, b"", "came twice"),
    ("the query twice", [], b"key=" + B + b"&key=" + B, "two keys"),
    ("two that differ", [(b"x-api-key", B), (b"x-goog-api-key", OTHER.encode())], b"", "two different keys"),
    ("two in one header", [(b"authorization", b"Bearer " + B + b", Bearer " + B)], b"", "no key has"),
    ("header and query differ", [(b"x-api-key", B)], b"key=" + OTHER.encode(), "two different keys"),
    ("not ASCII", [(b"x-api-key", "schlüssel".encode())], b"", "no key has"),
    ("not UTF-8", [(b"x-api-key", b"\xff\xfe")], b"", "no key has"),
    ("not ASCII in the query", [], b"key=%C3%BC", "no key has"),
    ("control characters", [(b"x-api-key", B + b"\x00")], b"", "no key has"),
    ("too long", [(b"x-api-key", b"x" * 100_000)], b"", "no key has"),
    ("too long in the query", [], b"key=" + b"%41" * 100_000, "no key has"),
    ("somebody else's form", [(b"x-api-key", b"sk-ant-123")], b"", "begin with msk_"),
    ("cut", [(b"x-api-key", B[:-1])], b"", "cut"),
    ("mistyped", [(b"x-api-key", B[:-1] + (b"a" if B[-1:] != b"a" else b"b"))], b"", "mistyped"),
    ("unknown", [(b"x-api-key", OTHER.encode())], b"", "no such key"),
    ("SQL", [(b"x-api-key", b"'||(select/**/1)--")], b"", "begin with msk_"),
]


class Counted:
    """The state in memory, with a count of the lookups."""

    def __init__(self, state: GatewayState) -> None:
        self._state = state
        self.lookups = 0
        self.listings = 0

    async def key_by_digest(self, digest: bytes) -> KeyRecord | None:
        self.lookups += 1
        return await self._state.key_by_digest(digest)

    async def keys(self) -> list[KeyRecord]:
        self.listings += 1
        return await self._state.keys()


class Door:
    """An authenticator with one key, its state and its clock."""

    def __init__(
        self,
        record: KeyRecord | None = RECORD,
        config: KeysConfig | None = None,
        loopback: bool = True,
        hosts: tuple[str, ...] = (),
    ) -> None:
        self.state = open_state(None)
        self.store = Counted(self.state)
        self.clock = Clock()
        self.auth = Authenticator(self.store, config, loopback=loopback, hosts=hosts, clock=self.clock, now=self.clock)
        self.record = record

    async def __aenter__(self) -> Door:
        await self.state.open()
        if self.record is not None:
            await self.state.add_key(self.record)
        await self.auth.refresh()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.state.close()

    async def asks(self, key: str = KEY) -> Tenant:
        return await self.auth.tenant([(b"x-api-key", key.encode())])

    async def refused(self, key: str = KEY) -> str:
        with pytest.raises(Unauthorized) as caught:
            await self.asks(key)
        assert caught.value.status == 401 and key not in str(caught.value)
        return str(caught.value)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


@pytest.mark.parametrize(("name", "headers", "query"), ACCEPTED, ids=[each[0] for each in ACCEPTED])
def test_a_key_is_taken_from_where_clients_send_it(name: str, headers: Headers, query: bytes) -> None:
    async def work() -> None:
        async with Door() as door:
            tenant = await door.auth.tenant(headers, query)
            assert tenant == Tenant("acme", MADE.id, "ci", ("claude-*",), 60, 2, 20.0)

    run(work())


@pytest.mark.parametrize(("name", "headers", "query", "why"), REFUSED, ids=[each[0] for each in REFUSED])
def test_everything_else_is_a_401(name: str, headers: Headers, query: bytes, why: str) -> None:
    async def work() -> None:
        async with Door() as door:
            for _ in range(2):  # the second time from memory
                with pytest.raises(Unauthorized) as caught:
                    await door.auth.tenant(headers, query)
                assert caught.value.status == 401 and why in str(caught.value)
                assert KEY not in str(caught.value) and OTHER not in str(caught.value)
            assert door.store.lookups == (name == "unknown")

    run(work())


def test_a_key_is_looked_up_once_in_a_while() -> None:
    async def work() -> None:
        async with Door() as door:
            for _ in range(100):
                tenant = await door.asks()
            assert door.store.lookups == 1
            assert door.auth.known(KEY) is tenant
            door.clock.pass_(TTL)
            assert door.auth.known(KEY) is None
            await door.asks()
            assert door.store.lookups == 2

    run(work())


def test_a_revoked_key_stops_within_seconds() -> None:
    async def work() -> None:
        async with Door() as door:
            await door.asks()
            assert await door.state.revoke_key(MADE.id, door.clock())
            await door.asks()  # still remembered
            door.clock.pass_(TTL)
            assert "it was revoked" in await door.refused()

    run(work())


def test_a_key_expires_to_the_second() -> None:
    async def work() -> None:
        async with Door(replace(RECORD, expires=Clock().time + 3)) as door:
            await door.asks()
            door.clock.pass_(2.9)
            await door.asks()
            door.clock.pass_(0.1)
            assert "expired on 2026-11-16" in await door.refused()
            assert door.store.lookups == 1
            door.clock.pass_(TTL)
            assert "expired on 2026-11-16" in await door.refused()

    run(work())


def test_a_new_key_works_at_once() -> None:
    async def work() -> None:
        async with Door() as door:
            made = make_key()
            await door.state.add_key(replace(RECORD, id=made.id, digest=made.digest, tenant="new"))
            assert (await door.asks(made.key.reveal())).id == "new"

    run(work())


def test_a_flood_of_bad_keys_is_cheap_and_does_not_lock_out_who_was_seen() -> None:
    async def work() -> None:
        async with Door() as door:
            await door.asks()
            door.clock.pass_(TTL)  # it must be looked up again in the middle of the flood
            bad = [make_key().key.reveal() for _ in range(2 * LOOKUPS)]
            refused = limited = 0
            for key in bad * 2:
                try:
                    await door.asks(key)
                except Unauthorized:
                    refused += 1
                except RateLimited as error:
                    limited += 1
                    assert error.status == 429 and error.retry_after == 1.0
            assert door.store.lookups == 1 + LOOKUPS and refused == 2 * LOOKUPS and limited == 2 * LOOKUPS
            assert await door.asks()
            door.clock.pass_(1.0)
            await door.refused(make_key().key.reveal())  # and it goes on a second later

    run(work())


def test_what_is_remembered_has_an_end() -> None:
    async def work() -> None:
        async with Door() as door:
            for _ in range(30):
                for _ in range(LOOKUPS):
                    await door.refused(make_key().key.reveal())
                door.clock.pass_(1.0)
            assert len(door.auth._refused) <= 4096

    run(work())


@pytest.mark.parametrize(
    ("record", "required", "loopback", "is_open"),
    [
        (None, None, True, True),
        (RECORD, None, True, False),
        (replace(RECORD, revoked=1.0), None, True, False),  # there was a key once
        (None, True, True, False),
        (RECORD, False, True, True),
        (None, None, False, False),
        (None, False, False, False),  # never open to others
    ],
)
def test_when_no_key_is_needed(record: KeyRecord | None, required: bool | None, loopback: bool, is_open: bool) -> None:
    async def work() -> None:
        async with Door(record, KeysConfig(required=required), loopback) as door:
            assert door.auth.is_open == is_open
            if is_open:
                assert await door.auth.tenant([(b"authorization", b"Basic dummy")]) == LOCAL == door.auth.known("x")
            else:
                with pytest.raises(Unauthorized):
                    await door.auth.tenant([])

    run(work())


@pytest.mark.parametrize(
    ("origin", "admitted"),
    [
        (None, True),
        ("http://localhost:3000", True),
        ("https://LOCALHOST", True),
        ("http://127.0.0.1:4000", True),
        ("http://[::1]:4000", True),
        ("http://[::1]", True),
        ("http://chat.localhost:8080", True),
        ("https://chat.example:8443", True),  # by `hosts`
        ("vscode-webview://1a2b", True),
        ("file://", True),
        ("https://evil.example", False),
        ("http://evil.example:4000", False),
        ("http://localhost.evil.example", False),
        ("http://127.0.0.1.evil.example:4000", False),
        ("http://127.0.0.1@evil.example", False),
        ("http://evil.example/127.0.0.1", False),
        ("http://evillocalhost", False),
        ("http://", False),
        ("null", False),  # a frame that another site confined
    ],
)
def test_an_open_gateway_is_not_open_to_pages_of_other_sites(origin: str | None, admitted: bool) -> None:
    async def work() -> None:
        headers = [(b"host", b"127.0.0.1:4000")] + ([] if origin is None else [(b"origin", origin.encode())])
        async with Door(None, hosts=("Chat.example",)) as door:
            if admitted:
                assert await door.auth.tenant(headers) == LOCAL == door.auth.recognised(headers)
            else:
                with pytest.raises(Unauthorized, match=r"hosts of \[page\]") as caught:
                    await door.auth.tenant(headers)
                assert caught.value.status == 403
                with pytest.raises(Unauthorized):
                    door.auth.recognised(headers)
        async with Door() as door:  # whoever has a key is nobody's page
            assert (await door.auth.tenant([*headers, (b"x-api-key", KEY.encode())])).id == "acme"

    run(work())


def test_before_the_state_was_read_the_door_is_closed() -> None:
    async def work() -> None:
        with pytest.raises(Unauthorized):
            await Authenticator(open_state(None)).tenant([])

    run(work())


def test_the_first_key_closes_an_open_gateway() -> None:
    async def work() -> None:
        async with Door(None) as door:
            assert await door.auth.tenant([]) == LOCAL
            await door.state.add_key(RECORD)
            await door.auth.refresh()
            with pytest.raises(Unauthorized):
                await door.auth.tenant([])
            assert (await door.asks()).id == "acme"
            before = door.store.listings
            await door.auth.refresh()
            assert door.store.listings == before  # once closed it need not look again

    run(work())


def test_limits_of_the_configuration_are_for_keys_without_their_own() -> None:
    config = KeysConfig(rate=5, concurrency=6, spend="7/day")
    plain = KeyRecord("k", "t", b"")
    assert tenant_of(plain, config) == Tenant("t", "k", "", (), 5, 6, 7.0, "day")
    own = tenant_of(replace(RECORD, text_calls="reask"), config)
    assert (own.rate, own.concurrency, own.spend, own.spend_window, own.text_calls) == (60, 2, 20.0, "month", "reask")
    assert tenant_of(plain, KeysConfig()) == Tenant("t", "k")


def test_a_new_configuration_counts_at_once() -> None:
    async def work() -> None:
        async with Door(replace(RECORD, rate=None)) as door:
            assert (await door.asks()).rate is None
            door.auth.reconfigure(KeysConfig(rate=3))
            assert (await door.asks()).rate == 3

    run(work())


def test_a_clients_own_key_passes_only_if_the_operator_says_so() -> None:
    headers = [(b"x-midstream-provider-key", b"sk-mine"), (b"x-api-key", B)]
    assert provider_key(headers, allowed=False) is None and provider_key([], allowed=True) is None
    found = provider_key(headers, allowed=True)
    assert found is not None and found.reveal() == "sk-mine" and "sk-mine" not in repr(found)
    for bad in ([(b"x-midstream-provider-key", b"")], [headers[0]] * 2, [(b"x-midstream-provider-key", b"\xff")]):
        with pytest.raises(Unauthorized):
            provider_key(bad, allowed=True)


names = st.sampled_from([b"authorization", b"x-api-key", b"x-goog-api-key", b"host"])


@given(st.lists(st.tuples(names, st.binary(max_size=20))), st.binary(max_size=30))
def test_any_headers_give_a_key_or_a_401(headers: Headers, query: bytes) -> None:
    try:
        key = presented_key(headers, query)
    except Unauthorized as error:
        assert error.status == 401
    else:
        assert key and key.isascii() and key.isprintable()


def test_a_digest_is_compared_even_if_the_store_gives_another_record() -> None:
    class Wrong:
        async def key_by_digest(self, digest: bytes) -> KeyRecord | None:
            return replace(RECORD, digest=digest_of("something else"))

        async def keys(self) -> list[KeyRecord]:
            return [RECORD]

    async def work() -> None:
        with pytest.raises(Unauthorized):
            await Authenticator(Wrong()).tenant([(b"x-api-key", B)])

    run(work())
