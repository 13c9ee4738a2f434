from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.core.errors import (
    BadRequest,
    ConnectFailed,
    ContentFiltered,
    ContextTooLong,
    IdleTimeout,
    LimitExceeded,
    MalformedStream,
    MediaRefused,
    MidstreamError,
    NotFound,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    TimedOut,
    TransportError,
    Unauthorized,
)
from midstream.transport.options import RetryPolicy
from midstream.transport.retry import backoff, retried_status, retry_after, retry_delay, wait_for, worth_retrying
from tests.shared_data import ROOT

NOW = 1696004797.0  # Fri, 29 Sep 2023 16:26:37 GMT
MIDDLE = 0.5  # of the dice
_FIRST = {"remaining": 4, "max_retries": 4, "tolerance": 0.45}
OWN: list[dict[str, Any]] = [
    {**_FIRST, "retry_after": "25", "expected_s": 25},
    {**_FIRST, "retry_after": "Fri, 29 Sep 2023 16:27:17 GMT", "expected_s": 40},
    {**_FIRST, "retry_after": "Fri, 29 Sep 2023 16:26:00 GMT", "expected_s": 0.5},  # it is over
    {**_FIRST, "retry_after": "tomorrow", "expected_s": 0.5},
    {**_FIRST, "remaining": 2, "retry_after": "", "expected_s": 2},
    {**_FIRST, "remaining": 0, "retry_after": "", "expected_s": 8},
    {"headers": {"retry-after": "100"}, "should_retry": True},
    {"headers": {"retry-after": "3600"}, "should_retry": False},
    {"headers": {"retry-after-ms": "3600000"}, "should_retry": False},
    {"headers": {}, "should_retry": True},
]


def _vectors() -> list[dict[str, Any]]:
    """Ours, and the shared ones where they are."""
    path = ROOT / "vectors" / "reliability" / "retry_after.json"
    data = msgspec.json.decode(path.read_bytes()) if path.exists() else {"now": NOW, "vectors": []}
    assert data["now"] == NOW
    assert len(data["vectors"]) in (0, 29)
    found: list[dict[str, Any]] = [*OWN, *data["vectors"]]
    assert all(("expected_s" in vector) != ("should_retry" in vector) for vector in found)
    return found


def test_wait_vectors() -> None:
    for vector in _vectors():
        if "expected_s" in vector:
            _check_wait(vector)


def _check_wait(vector: dict[str, Any]) -> None:
    attempt = vector["max_retries"] - vector["remaining"]
    policy = RetryPolicy(max_retries=vector["max_retries"])
    waited = wait_for(attempt, {"retry-after": vector["retry_after"]}, NOW, lambda: MIDDLE, policy)
    assert waited == pytest.approx(vector["expected_s"], rel=vector["tolerance"]), vector
    if vector["expected_s"] >= 20:
        assert waited == vector["expected_s"], "what the peer asks is not left to chance"


def test_verdict_vectors() -> None:
    for vector in _vectors():
        if "should_retry" in vector:
            delay = retry_delay(0, vector["headers"], NOW, lambda: MIDDLE, RetryPolicy())
            assert (delay is not None) is vector["should_retry"], vector["headers"]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after-ms": "nan"}, None),
        ({"retry-after": "-3"}, -3.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Mon, 99 Foo 9999 99:99:99 GMT"}, None),
        ({"retry-after": "Fri, 29 Sep 2023 16:26:57 GMT"}, 20.0),
        ({"retry-after": "Fri, 29 Sep 2023 18:26:57 +0200"}, 20.0),
        ({"retry-after": "Fri, 29 Sep 2023 16:26:57 -0000"}, 20.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 1445412480 - NOW),
    ],
)
def test_retry_after_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


@given(st.text(max_size=60))
def test_retry_after_never_fails(text: str) -> None:
    for name in ("retry-after", "retry-after-ms"):
        delay = wait_for(0, {name: text}, NOW, lambda: MIDDLE, RetryPolicy())
        assert 0 < delay <= 120


@given(st.integers(0, 5000), st.floats(0, 1))
def test_backoff_grows_to_its_maximum_and_chance_only_shortens_it(attempt: int, dice: float) -> None:
    policy = RetryPolicy()
    full = min(0.5 * 2 ** min(attempt, 40), 8.0)
    assert full * 0.75 <= backoff(attempt, lambda: dice, policy) <= full


def test_retries_end() -> None:
    policy = RetryPolicy(max_retries=2)
    delays = [retry_delay(attempt, {}, NOW, lambda: 0.0, policy) for attempt in range(4)]
    assert delays == [0.5, 1.0, None, None]


def test_retried_statuses() -> None:
    assert [status for status in range(100, 500) if retried_status(status)] == [408, 409, 429]
    assert all(retried_status(status) for status in (500, 502, 503, 504, 529))


@pytest.mark.parametrize(
    ("error", "headers", "again"),
    [
        (RateLimited("slow down", status=429), {}, True),
        (Overloaded("busy", status=529), {}, True),
        (BadRequest("conflict", status=409), {}, True),
        (ProviderError("timeout", status=408), {}, True),
        (QuotaExceeded("no credit", status=429), {}, False),
        (QuotaExceeded("no credit", status=429), {"x-should-retry": "true"}, False),
        (Unauthorized("who", status=500), {}, False),
        (NotFound("what", status=404), {}, False),
        (ContextTooLong("long", status=500), {}, False),
        (ContentFiltered("no", status=500), {}, False),
        (BadRequest("no", status=400), {}, False),
        (BadRequest("what it never does", status=500), {}, False),
        (MediaRefused("no images", status=500), {"x-should-retry": "true"}, False),
        (Overloaded("a server error, says the body", status=400), {}, False),
        (BadRequest("no", status=400), {"x-should-retry": "true"}, True),
        (RateLimited("slow down", status=429), {"x-should-retry": "false"}, False),
        (RateLimited("slow down", status=429), {"x-should-retry": "maybe"}, True),
        (ProviderError("in a stream"), {}, False),
        (ConnectFailed("refused"), {}, True),
        (TimedOut("taken, but not answered"), {}, False),
        (IdleTimeout("silent"), {}, False),
        (TransportError("certificate"), {}, False),
        (MalformedStream("no HTTP"), {}, False),
        (LimitExceeded("a bomb"), {}, False),
    ],
)
def test_worth_retrying(error: MidstreamError, headers: dict[str, str], again: bool) -> None:
    assert worth_retrying(error, headers) is again


@pytest.mark.parametrize(
    ("said", "waited"),
    [
        ("0", None),
        ("-5", None),
        ("0.4", 0.4),
        ("90", 90.0),
        ("120", 120.0),
        ("120.5", None),
        ("Fri, 29 Sep 2023 16:27:37 GMT", 60.0),
        ("Fri, 29 Sep 2023 16:26:30 GMT", None),
        ("Fri, 29 Sep 2023 17:26:37 GMT", None),
        ("tomorrow", None),
    ],
)
def test_what_the_peer_asks_is_waited_if_it_is_reasonable(said: str, waited: float | None) -> None:
    policy = RetryPolicy()
    for attempt in range(3):
        wanted = backoff(attempt, lambda: MIDDLE, policy) if waited is None else waited
        assert wait_for(attempt, {"retry-after": said}, NOW, lambda: MIDDLE, policy) == wanted
