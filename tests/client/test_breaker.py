"""The breaker: closed, open after failures in a row, one trial after its rest."""

from __future__ import annotations

import pytest

from midstream.client.breaker import Breaker, host_of
from midstream.core.errors import (
    BadRequest,
    ConnectFailed,
    MidstreamError,
    MissingKey,
    Overloaded,
    RateLimited,
    RetriesExhausted,
    TimedOut,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def opened(clock: Clock) -> Breaker:
    breaker = Breaker(failures=3, rest=30.0, clock=clock)
    for _ in range(3):
        breaker.check("h")
        breaker.failed("h")
    return breaker


def test_it_opens_after_so_many_failures_in_a_row_and_says_how_long() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 10.0
    with pytest.raises(Overloaded, match="3 times in a row") as caught:
        breaker.check("h")
    assert caught.value.retryable and caught.value.retry_after == 20.0
    breaker.check("another host")


def test_a_success_in_between_starts_the_count_anew() -> None:
    breaker = Breaker(failures=2)
    for _ in range(5):
        breaker.failed("h")
        breaker.succeeded("h")
    breaker.check("h")


def test_after_its_rest_one_trial_goes_through_and_decides() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 30.0
    breaker.check("h")
    with pytest.raises(Overloaded):
        breaker.check("h")  # the others still wait
    breaker.succeeded("h")
    breaker.check("h")
    breaker = opened(clock)
    clock.now += 30.0
    breaker.check("h")
    breaker.failed("h")
    with pytest.raises(Overloaded):
        breaker.check("h")


@pytest.mark.parametrize(
    "error, opens",
    [
        (Overloaded("x", status=503), True),
        (ConnectFailed("x"), True),
        (TimedOut("x"), True),
        (RetriesExhausted("x"), True),
        (RateLimited("x", status=429), False),
        (RetriesExhausted("x", [Overloaded("x", status=503), RateLimited("x", status=429)]), False),
        (RetriesExhausted("x", [RateLimited("x", status=429), Overloaded("x", status=503)]), True),
        (BadRequest("x", status=400), False),
        (MissingKey("x"), False),
    ],
)
def test_only_no_answer_and_a_broken_host_count(error: MidstreamError, opens: bool) -> None:
    breaker = Breaker(failures=1)
    breaker.judge("h", error)
    if opens:
        with pytest.raises(Overloaded):
            breaker.check("h")
    else:
        breaker.check("h")


def test_a_refusal_shows_a_host_that_works() -> None:
    breaker = Breaker(failures=2)
    breaker.failed("h")
    breaker.judge("h", BadRequest("x", status=400))
    breaker.failed("h")
    breaker.check("h")
    breaker.judge("h", RateLimited("x", status=429))  # says nothing of its health
    breaker.failed("h")
    with pytest.raises(Overloaded):
        breaker.check("h")


def test_the_paths_and_wires_of_a_host_share_a_breaker() -> None:
    assert host_of("https://API.moonshot.ai/v1") == host_of("https://api.moonshot.ai/anthropic") == "api.moonshot.ai"
    assert host_of("http://127.0.0.1:8080/v1") != host_of("http://127.0.0.1:8081/v1")
    assert "secret" not in host_of("https://user:secret@host/v1")
