"""Keys never reach the page: not in one piece, and not in several."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.core.secret import VEIL, Secret
from midstream.web.veil import StreamVeil, in_pieces, json_without_keys, without_key

KEYS = ("sk-0123456789", "sk-01234sk-01", "aaaaaaaa1")


@pytest.mark.parametrize("key", ["sk-0123456789", 'a"quote\\and-a-slash', "käy-with-an-umlaut", "tab\tand more of it"])
def test_a_key_is_found_however_it_is_written(key: str) -> None:
    inner = msgspec.json.encode({"said": key}).decode()  # a body, shown as text
    shown = without_key(msgspec.json.encode({"said": key, "body": inner}), Secret(key))
    assert msgspec.json.decode(shown) == {
        "said": VEIL,
        "body": inner.replace(msgspec.json.encode(key)[1:-1].decode(), VEIL),
    }
    assert without_key(f"A {key}.".encode(), Secret(key)) == b"A ***."


@pytest.mark.parametrize(
    "word", ["dummy", "sk-test", "anything", "not-needed", "lm-studio", "your_api_key", "no.key.required"]
)
def test_a_word_in_the_place_of_a_key_is_left_where_it_is(word: str) -> None:
    body = msgspec.json.encode({"model": f"local/{word}-model", "said": f"It is {word}."})
    secrets = [Secret(word)]
    assert json_without_keys(body, secrets) == without_key(body, secrets[0]) == body
    assert not in_pieces(body.decode() * 2, secrets)
    assert StreamVeil(secrets).pass_on({"type": "text", "text": word}) == [{"type": "text", "text": word}]


def test_of_a_longer_one_no_word_is_hidden_alone() -> None:
    secret = Secret("sk-no-key-required")
    assert (
        without_key(b"402 payment-required, sk-no-key-required, sk-no-key", secret)
        == b"402 payment-required, ***, sk-no-key"
    )


@pytest.mark.parametrize("key", ["1763499772", "-1.25e+100", "nABCDEFG1", 'a","created":1'])
def test_json_stays_json(key: str) -> None:
    """A key that looks like a number is in numbers, and one that begins with n behind the sign for a new line."""
    value = {
        "created": 1763499772,
        "at": 1763499772.5,
        "low": -1.25e100,
        "said": ["\nABCDEFG1", "a", key],
        "a": "a",
        key: 1,
    }
    shown = json_without_keys(msgspec.json.encode(value), [Secret(key)])
    left = {name: each for name, each in value.items() if name not in (key, "said")}
    assert msgspec.json.decode(shown) == {**left, "said": ["\nABCDEFG1", "a", VEIL], VEIL: 1}
    event = b"id: 1763499772\ndata: " + msgspec.json.encode(value) + b"\n\n"
    assert json_without_keys(event, [Secret(key)]) == b"id: 1763499772\ndata: " + shown + b"\n\n"


def test_a_key_that_one_piece_holds_does_not_hide_the_others() -> None:
    key = "sk-0123456789"
    assert not in_pieces(_WIRES["chat"].replace("PIECE", key) * 2, [Secret(key)])


def test_half_of_a_key_said_without_end_stops_nobody() -> None:
    """Copying the rest for each of them would take hours."""
    key = "sk-0123456789abcdefg"
    shown = without_key(f"{key[:10]} {key[10:]} ".encode() * 200_000, Secret(key))
    assert shown == b"*** *** " * 200_000


@pytest.mark.parametrize("cut", [slice(0, 30), slice(20, 40), slice(10, None), slice(0, 20)])
def test_neither_is_half_of_one_that_was_cut_off(cut: slice) -> None:
    key = "sk-0123456789abcdefghijklmnopqrstuvwxyz0"
    shown = without_key(msgspec.json.encode({"title": f"a {key[cut]}", "more": f"{key[cut]} b"}), Secret(key))
    left = msgspec.json.decode(shown)
    if len(key[cut]) >= 20 and (cut.start == 0 or cut.stop in (None, 40)):
        assert left == {"title": f"a {VEIL}", "more": f"{VEIL} b"}
    # What many keys have in common is no secret.
    assert without_key(b"sk-0123456 begins so", Secret(key)) == b"sk-0123456 begins so"


def test_a_password_is_found_as_an_address_and_a_header_have_it() -> None:
    for written in (b"p%40ss%2Fword%2B1", b"cEBzcy93b3JkKzE="):
        assert b"p%40ss" not in (shown := without_key(b"x " + written + b" y", Secret("p@ss/word+1")))
        assert b"cEBzcy93" not in shown and shown.startswith(b"x ***")


_WIRES = {
    "chat": 'data: {"choices":[{"delta":{"content":"PIECE"}}]}\n\n',
    "anthropic": 'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"type":"text_delta","text": "PIECE"}}\n\n',
    "arguments": 'data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"PIECE"}}]}}]}\n\n',
    "gemini": ',\n{"candidates": [{"content": {"parts": [{"text": "PIECE"}], "role": "model"}}]}',
    "ollama": '{"model":"x","message":{"role":"assistant","content":"PIECE"}}\n',
}


@pytest.mark.parametrize("wire", _WIRES)
@given(st.data())
def test_pieces_of_a_key_are_seen_together(wire: str, data: st.DataObject) -> None:
    key = 'sk-0/12"34567\\89'
    cuts = sorted(data.draw(st.lists(st.integers(0, len(key)), max_size=6)))
    pieces = ["I say ", *[key[a:b] for a, b in zip([0, *cuts], [*cuts, len(key)], strict=True)], ""]
    stream = "".join([_WIRES[wire].replace("PIECE", msgspec.json.encode(each)[1:-1].decode()) for each in pieces])
    found = key not in pieces  # what is whole in one of them is found there, and hides nothing else
    assert in_pieces(stream, [Secret(key)]) == in_pieces(stream + 'data: {"choices":[{"del', [Secret(key)]) == found
    assert not in_pieces(stream.replace("sk-0", "sk-1").replace('"s', '"x'), [Secret(key + "x")])


# Words, keys, and beginnings of keys that turn out to be something else.
_PARTS = st.sampled_from(
    ["a word ", "s", "sk-", "aaaa", *KEYS, *[key[:-1] for key in KEYS], *[key[4:] for key in KEYS]]
)


@given(st.lists(_PARTS), st.data())
def test_however_a_stream_is_cut_no_key_is_in_it_and_nothing_else_is_lost(
    parts: list[str], data: st.DataObject
) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    veil = StreamVeil([Secret(key) for key in KEYS])
    told = [each for piece in pieces for each in veil.pass_on({"type": "text", "text": piece})]
    told += veil.pass_on({"type": "done"})
    assert told[-1] == {"type": "done"}
    shown = "".join([each["text"] for each in told[:-1]])
    assert not any(key in shown for key in KEYS)
    if not any(key in text for key in KEYS):
        assert shown == text


def test_what_waits_is_told_before_what_follows_and_ordinary_words_do_not_wait() -> None:
    veil = StreamVeil([Secret("sk-0123456789"), Secret("short")])
    for happening, told in (
        ({"type": "text", "text": "short and plain"}, [{"type": "text", "text": "short and plain"}]),
        ({"type": "text", "text": "ask-"}, [{"type": "text", "text": "a"}]),
        ({"type": "thinking", "text": "hm"}, [{"type": "text", "text": "sk-"}, {"type": "thinking", "text": "hm"}]),
        ({"type": "arguments", "text": '{"k": "sk-01234'}, [{"type": "arguments", "text": '{"k": "'}]),
        ({"type": "arguments", "text": '56789"}'}, [{"type": "arguments", "text": '***"}'}]),
        ({"type": "done"}, [{"type": "done"}]),
    ):
        assert veil.pass_on(happening) == told, happening
