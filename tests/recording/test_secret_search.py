"""The quick search sees whatever the careful one would remove, wherever it stands in a stream and however that was cut."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from midstream.recording.secret_search import SecretSearch
from midstream.transport.secrets import Secrets
from tests.client.test_key_echo import KEY, SHAPES, SOME_SHAPES
from tests.long_run import cases

SECRETS = Secrets({"authorization": f"Bearer {KEY}"})
SEARCH = SecretSearch([SECRETS])
EVENTS = 60


def _event(number: int, *, start: str = "chatcmpl-1", content: str = "", end: str = "null") -> bytes:
    said = content or f"word{number * 7919}"
    return (
        f'data: {{"id":"{start}","choices":[{{"index":0,"delta":{{"content":"{said}"}},"end":"{end}"}}]}}\n\n'.encode()
    )


def _suspected(parts: list[bytes]) -> bool:
    return SEARCH.suspects(b"".join(parts))


def _streams(secret: str) -> dict[str, list[bytes]]:
    """A secret in every place that a stream has."""
    plain = [_event(number) for number in range(EVENTS)]
    middle = _event(30, content=f"it is {secret}!")
    half = middle.index(secret.encode()[:4]) + len(secret.encode()) // 2
    found = {
        f"event {at}": [*plain[:at], _event(at, content=secret), *plain[at + 1 :]] for at in (0, 7, 8, 9, 51, 52, 59)
    }
    found["every event"] = [_event(number, content=secret) for number in range(EVENTS)]
    found["the beginning of every event"] = [_event(number, start=secret) for number in range(EVENTS)]
    found["the end of every event"] = [_event(number, end=secret) for number in range(EVENTS)]
    found["an event cut in two"] = [*plain[:30], middle[:half], middle[half:], *plain[31:]]
    found["every event cut in two"] = [piece for _ in range(EVENTS) for piece in (middle[:half], middle[half:])]
    found["one event of all"] = [b"".join([*plain[:30], middle, *plain[31:]])]
    return found


@pytest.mark.parametrize("shape", cases(SHAPES, SOME_SHAPES))
def test_in_every_place_of_a_stream(shape: str) -> None:
    for place, parts in _streams(SHAPES[shape]).items():
        assert _suspected(parts), place


@pytest.mark.parametrize("size", [1, 3, 16, 61, 128, 4096])
def test_however_it_is_cut(size: int) -> None:
    body = b"".join(_streams(KEY)["event 51"])
    assert _suspected([body[at : at + size] for at in range(0, len(body), size)])


def test_other_keys_at_random_places() -> None:
    dice = random.Random(19)
    for _ in range(300):
        key = "".join(
            dice.choices(
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+", k=dice.randrange(14, 80)
            )
        )
        search = SecretSearch([Secrets({"x-api-key": key})])
        events = [_event(number) for number in range(dice.choice((1, 5, 30, 80)))]
        at = dice.randrange(len(events))
        events[at] = _event(at, content=key)
        body = b"".join(events)
        cuts = sorted({0, len(body), *[dice.randrange(len(body)) for _ in range(dice.randrange(60))]})
        parts = dice.choice((events, [body[a:b] for a, b in pairwise(cuts)]))
        assert search.suspects(b"".join(parts)), key


def test_streams_without_a_secret_are_passed_quickly() -> None:
    """The careful search is a thousand times as slow: it must be rare."""
    dice = random.Random(7)
    for _ in range(200):
        parts = [
            _event(number, content="".join(dice.choices("abc 中\\n0123456789%&=", k=20))) for number in range(EVENTS)
        ]
        assert not _suspected(parts)


def _numbered_event(number: int, content: str = "") -> bytes:
    """No two are alike between their braces: nothing can be left out of the search because it was seen before."""
    return (
        f'event: response.output_text.delta\ndata: {{"type":"response.output_text.delta","sequence_number":{number},'
        f'"delta":"{content or "word" + str(number * 7919)}\\n","obfuscation":"{number * 104729 % 99991}"}}\n\n'
    ).encode()


# Whole in the middle of a long stream; in part only at its ends.
WHOLE = [shape for shape in SHAPES if not shape.startswith("cut ")]


@pytest.mark.parametrize("event", [_event, _numbered_event])
@pytest.mark.parametrize("shape", cases(SHAPES, SOME_SHAPES))
def test_in_a_long_stream(shape: str, event: Callable[..., bytes]) -> None:
    before = b"".join([event(number) for number in range(2000)])
    secret = event(1, content=SHAPES[shape])
    assert len(before) > 100_000
    assert SEARCH.suspects(before + secret) and SEARCH.suspects(secret + before)
    assert shape not in WHOLE or SEARCH.suspects(before + secret + before)


def test_nothing_is_known_of_nobody() -> None:
    assert not SecretSearch().suspects(b"sk-anything")
    short = SecretSearch([Secrets({"x-api-key": "abcdef7"})])
    assert short.suspects(b"the key abcdef7 is short") and not short.suspects(b"abcdef8")
