"""The short way of a request that is nothing but texts gives what the wire's parser gives, or stands aside."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.core.errors import MidstreamError
from midstream.gateway.issued_ids import ClientCalls
from midstream.wires.registry import get_wire
from midstream.wires.request import ParsedRequest

WIRES = ("openai-chat", "anthropic")
BODY = {
    "model": "m", "stream": True, "max_tokens": 400, "temperature": 1, "stream_options": {"include_usage": True},
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                 {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Bye"}],
}  # fmt: skip


# The same for both wires, but for what Anthropic's has elsewhere.
ANTHROPIC = {
    "model": "m",
    "stream": True,
    "max_tokens": 400,
    "temperature": 1,
    "system": "Be brief.",
    "messages": BODY["messages"][1:],
}  # type: ignore[index]


def text_request(wire: str, body: bytes, provider: str) -> ParsedRequest | None:
    found: ParsedRequest | None = get_wire(wire).room("parse").text_request(body, provider)
    return found


def in_full(wire: str, body: bytes, provider: str, identity: Any) -> ParsedRequest | str:
    try:
        parsed = get_wire(wire).room("parse").parse_request(body, provider=provider, identity=identity)
        return msgspec.convert(msgspec.to_builtins(parsed), ParsedRequest)
    except (MidstreamError, ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(("wire", "request_"), [("openai-chat", BODY), ("anthropic", ANTHROPIC)])
def test_the_short_way_is_taken(wire: str, request_: Any) -> None:
    body = json.dumps(request_).encode()
    assert text_request(wire, body, "") == in_full(wire, body, "", ClientCalls(wire))


_NAMES = ["role", "content", "name", "model", "stream", "stream_options", "include_usage", "max_tokens", "max_completion_tokens",
          "temperature", "top_p", "messages", "system", "tools", "user", "stop", "n", "tool_calls", "refusal", "type", "text"]  # fmt: skip
_VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 5.0, 2.5, 10**25, "", " ", "x", "user", "system", "assistant", "developer", "tool", "é", "\ud800"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


@pytest.mark.parametrize("identity", [lambda _: None, ClientCalls], ids=["placed", "client"])
@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=200)
@given(data=st.data())
def test_a_changed_request_is_read_alike_or_not_at_all(wire: str, identity: Any, data: st.DataObject) -> None:
    body = json.loads(json.dumps(BODY if wire == "openai-chat" else ANTHROPIC))
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(
            st.sampled_from([body, *[each for each in body.get("messages") or () if isinstance(each, dict)]])
        )
        name = data.draw(st.sampled_from(_NAMES))
        if data.draw(st.booleans()):
            place.pop(name, None)
        else:
            place[name] = data.draw(_VALUES)
        if not isinstance(body.get("messages"), list):
            body["messages"] = []
    order = data.draw(st.permutations(sorted(body)))
    written = json.dumps({name: body[name] for name in order}, ensure_ascii=data.draw(st.booleans())).encode(
        "utf-8", "surrogatepass"
    )
    found = None if b"\\u" in written else text_request(wire, written, "p")
    assert found is None or found == in_full(wire, written, "p", identity(wire))
