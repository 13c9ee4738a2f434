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


FAILED = Overloaded("x", status=503)


def is_shut(breaker: Breaker, host: str = "h") -> bool:
    """Whether a request of a chain would be refused now."""
    try:
        breaker.admit(host).leave()
    except Overloaded:
        return True
    return False


def fail(breaker: Breaker, times: int, error: MidstreamError = FAILED) -> None:
    for _ in range(times):
        breaker.admit("h", has_next=False).judge(error)


def opened(clock: Clock) -> Breaker:
    breaker = Breaker(failures=3, rest=30.0, clock=clock)
    fail(breaker, 2)
    assert not is_shut(breaker)
    fail(breaker, 1)
    return breaker


def test_it_opens_after_so_many_failures_in_a_row_and_says_how_long() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 10.0
    with pytest.raises(Overloaded, match="3 times in a row") as caught:
        breaker.admit("h")
    assert caught.value.retryable and caught.value.retry_after == 20.0
    assert not is_shut(breaker, "another host")


def test_a_request_without_a_next_model_is_never_refused_and_counts() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 29.0
    fail(breaker, 1)
    clock.now = 31.0
    assert is_shut(breaker), "it failed again two seconds ago"
    breaker.admit("h", has_next=False).succeeded()
    assert not is_shut(breaker)


def test_a_success_in_between_starts_the_count_anew() -> None:
    breaker = Breaker(failures=2)
    for _ in range(5):
        fail(breaker, 1)
        breaker.admit("h").succeeded()
    assert not is_shut(breaker)


def test_failures_that_were_under_way_at_once_count_once() -> None:
    breaker = Breaker(failures=2)
    burst = [breaker.admit("h") for _ in range(50)]
    for each in burst:
        each.judge(FAILED)
    assert not is_shut(breaker)
    late = breaker.admit("h")
    fail(breaker, 1)
    assert is_shut(breaker)
    late.judge(FAILED)  # it was under way, too


def test_after_its_rest_one_trial_goes_through_and_decides() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 30.0
    trial = breaker.admit("h")
    assert is_shut(breaker)  # the others still wait
    trial.succeeded()
    assert not is_shut(breaker)
    breaker = opened(clock)
    clock.now += 30.0
    breaker.admit("h").judge(FAILED)
    assert is_shut(breaker)


@pytest.mark.parametrize("error", [None, RateLimited("x", status=429, retry_after=1.0), MissingKey("x")])
def test_a_trial_without_a_verdict_leaves_its_place_to_the_next(error: MidstreamError | None) -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 30.0
    trial = breaker.admit("h")
    trial.leave() if error is None else trial.judge(error)
    second = breaker.admit("h")
    assert is_shut(breaker), "one at a time"
    trial.leave()
    assert is_shut(breaker), "it is not the first one's place any more"
    second.succeeded()
    assert not is_shut(breaker)


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
    fail(breaker, 1, error)
    assert is_shut(breaker) == opens


def test_a_refusal_shows_a_host_that_works() -> None:
    breaker = Breaker(failures=2)
    fail(breaker, 1)
    fail(breaker, 1, BadRequest("x", status=400))
    fail(breaker, 1)
    assert not is_shut(breaker)
    fail(breaker, 1, RateLimited("x", status=429))  # says nothing of its health
    fail(breaker, 1)
    assert is_shut(breaker)


def test_the_paths_and_wires_of_a_host_share_a_breaker() -> None:
    assert host_of("https://API.moonshot.ai/v1") == host_of("https://api.moonshot.ai/anthropic") == "api.moonshot.ai"
    assert host_of("http://127.0.0.1:8080/v1") != host_of("http://127.0.0.1:8081/v1")
    assert "secret" not in host_of("https://user:secret@host/v1")
