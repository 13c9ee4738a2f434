"""Keys taken out of what a peer echoes, whole and cut short."""

from __future__ import annotations

import pytest

from midstream.transport.secrets import Secrets

KEY = "sk-canary-4a9f0c77d1"
SECRETS = Secrets({"authorization": f"Bearer {KEY}"})


@pytest.mark.parametrize("size", range(12, len(KEY) + 1))
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("bad key ", ""),
        ("bad key ", "…"),
        ("", " is bad"),
        ("<", ">"),
        (KEY, ""),
        ("sk-canary-4a", " x"),
        ("", KEY),
    ],
)
def test_a_beginning_of_a_key_is_taken_out_and_nothing_beside_it(size: int, before: str, after: str) -> None:
    """A message that was cut may end anywhere within a key, and an echo may be cut and go on."""
    veiled = [part.replace(KEY, "***").replace("sk-canary-4a", "***") for part in (before, after)]
    assert SECRETS.scrub_text(f"{before}{KEY[:size]}{after}") == f"{veiled[0]}***{veiled[1]}"


@pytest.mark.parametrize("other", ["0", "-", "é", "\x00"])
def test_a_beginning_ends_where_the_letters_differ(other: str) -> None:
    for size in range(12, len(KEY)):
        if not KEY[size:].startswith(other):
            assert SECRETS.scrub_text(f"{KEY[:size]}{other}{KEY[size + 1 :]}.") == f"***{other}{KEY[size + 1 :]}."


def test_several_beginnings_in_one_message() -> None:
    said = " ".join([KEY[:size] for size in range(12, len(KEY) + 1)])
    assert SECRETS.scrub_text(said) == " ".join(["***"] * (len(KEY) - 11))


@pytest.mark.parametrize("size", range(1, 12))
def test_what_is_too_short_to_tell_stays(size: int) -> None:
    assert SECRETS.scrub_text(KEY[:size]) == KEY[:size]
