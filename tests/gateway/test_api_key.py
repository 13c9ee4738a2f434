"""The form of a key: random, checked, and never shown by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from midstream.gateway.api_key import LENGTH, PREFIX, digest_of, fault_of, last_four, make_key


def test_a_key() -> None:
    made = make_key()
    key = made.key.reveal()
    assert key.startswith(PREFIX) and len(key) == LENGTH and key.isascii() and fault_of(key) is None
    assert made.digest == digest_of(key) and len(made.digest) == 32
    assert last_four(made.id) == key[-4:]
    assert key not in f"{made} {made.key}"
    assert key.removeprefix(PREFIX).isalnum()  # safe in headers, addresses and shells


def test_keys_differ() -> None:
    assert len({make_key().key.reveal() for _ in range(200)}) == 200


@given(st.integers(len(PREFIX), LENGTH - 1))
def test_a_typo_is_told_from_an_unknown_key(where: int) -> None:
    key = make_key().key.reveal()
    wrong = "a" if key[where] != "a" else "b"
    assert "mistyped" in (fault_of(key[:where] + wrong + key[where + 1 :]) or "")
    assert "cut" in (fault_of(key[:where]) or "") and "cut" in (fault_of(key + key) or "")


@given(st.text(max_size=60))
def test_any_text_is_judged(text: str) -> None:
    assert fault_of(text) is not None
