from __future__ import annotations

import pytest

from midstream.codec import encode_request
from midstream.core.dialect import Options
from midstream.core.errors import MalformedStream
from midstream.sim.rules.hosts import judge
from midstream.wires.lenient_json import arguments_text, decode_leniently, object_text
from tests.conversations import Story
from tests.representatives import PLAYERS, dialect_cases


@pytest.mark.parametrize("raw", ["", " \n", "null", " null\n"])
def test_nothing_and_null_are_no_arguments(raw: str) -> None:
    assert arguments_text(raw) == "{}"
    assert object_text(raw) is None


@pytest.mark.parametrize("raw", ["{}", ' {"a": 1}'])
def test_an_object_is_left_as_it_is_written(raw: str) -> None:
    assert arguments_text(raw) == object_text(raw) == raw


@pytest.mark.parametrize("raw", ["[]", "1", '"null"', "{", '{"a": "\ud800"}', '{"a":' * 100_000])
def test_anything_else_is_no_object(raw: str) -> None:
    assert arguments_text(raw) is object_text(raw) is None


@pytest.mark.parametrize("name", dialect_cases("arguments_object", "reasoning.required", "native"))
def test_a_call_with_null_for_arguments_goes_to_every_host_without_any(name: str) -> None:
    player = PLAYERS[name]
    story = Story().says("go").answers("", ("look", "null")).results("seen").done()
    request = encode_request(player.target, story, options=Options(path="chat"), cache=None)
    assert b"_raw" not in request.body
    assert judge(request.body, player.host, "paranoid") == []


@pytest.mark.parametrize(("data", "why"), [(b"[" * 100_000, "nested too deeply"), (b"{x}", "Expecting property name")])
def test_what_is_no_json_is_told_with_its_reason(data: bytes, why: str) -> None:
    with pytest.raises(MalformedStream, match=why):
        decode_leniently(data)


@pytest.mark.parametrize(("text", "shown"), [("x" * 120, "x" * 120), ("x" * 121, "x" * 120 + "…")])
def test_of_a_long_text_that_is_no_json_the_beginning_is_shown(text: str, shown: str) -> None:
    with pytest.raises(MalformedStream) as caught:
        decode_leniently(text.encode())
    assert f"got '{shown}':" in str(caught.value)
