"""A request that is written by a stencil is the one that the encoder gives, for every dialect and wire."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream import Conversation, Options, Text, ToolSpec, Turn
from midstream.codec import encode_request
from midstream.core.blocks import Origin
from midstream.core.dialect import Endpoint
from midstream.core.errors import MidstreamError
from midstream.dialects.registry import REGISTRY, Resolved
from midstream.wires.request import Request
from midstream.wires.request_stencil import RequestStencils
from tests.representatives import dialect_cases

DIALECTS = REGISTRY.dialects()
TOOLS = (ToolSpec("look", "Look.", {"type": "object", "properties": {}}),)


def encoded(name: str, conversation: Conversation, tools: Any, options: Options) -> Request | str:
    target = Resolved("p", "m", DIALECTS[name], Endpoint("http://127.0.0.1"))
    try:
        return encode_request(target, conversation, tools=tools, options=options, cache=None)
    except MidstreamError as error:
        return f"{type(error).__name__}: {error}"


class Stenciled:
    """Encodes by stencils, and counts how often the encoder was asked."""

    def __init__(self) -> None:
        self.stencils = RequestStencils()
        self.asked = 0

    def encoded(self, name: str, conversation: Conversation, tools: Any, options: Options) -> Request | str:
        target = Resolved("p", "m", DIALECTS[name], Endpoint("http://127.0.0.1"))

        def encode(anew: Conversation) -> Request:
            self.asked += 1
            return encode_request(target, anew, tools=tools, options=options, cache=None)

        try:
            return self.stencils.encode(DIALECTS[name], "m", conversation, tools, options, encode)
        except MidstreamError as error:
            return f"{type(error).__name__}: {error}"


_TEXTS = (
    st.sampled_from(
        ["Hi.", "", " ", "\n", "stencil probe 0.", "stencil probe 1.", '"quoted\\', "é水\U0001f600", "\ud800", " x "]
    )
    | st.text()
)
_BLOCKS = st.builds(Text, _TEXTS) | st.builds(Text, _TEXTS, st.just({"cache_control": {"type": "ephemeral"}}))
_TURNS = st.builds(
    Turn,
    st.sampled_from(["human", "human", "ai", "system"]),
    st.lists(_BLOCKS, min_size=1, max_size=2).map(tuple) | st.tuples(st.builds(Text, _TEXTS)),
    key=st.sampled_from(["a", "b", ""]),
    origin=st.sampled_from([None, Origin("p", "openai-chat", "m")]),
    failure=st.sampled_from(["", "", "", "truncated"]),
)
_CONVERSATIONS = st.builds(
    Conversation,
    st.lists(_TURNS, min_size=1, max_size=4).map(tuple),
    st.sampled_from(["", "Be brief.", " ", (Text("x"),)]),
)
_OPTIONS = st.builds(
    Options,
    max_tokens=st.sampled_from([None, 5, 5000]),
    temperature=st.sampled_from([None, 0.5, 2.0]),
    stream=st.booleans(),
    thinking=st.sampled_from([None, "on", "off"]),
    cache=st.booleans(),
    prefill=st.sampled_from([None, "So"]),
    stop=st.sampled_from([(), ("x",)]),
    extra_body=st.sampled_from([None, {"k": 1}]),
    schema=st.sampled_from([None, {"type": "object", "properties": {}}]),
)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(DIALECTS)),
    calls=st.lists(st.tuples(_CONVERSATIONS, st.sampled_from([(), (), TOOLS]), _OPTIONS), min_size=1, max_size=4),
    again=st.lists(_TEXTS, min_size=4, max_size=4),
)
def test_every_request_is_the_encoders(name: str, calls: list[Any], again: list[str]) -> None:
    made = Stenciled()
    for conversation, tools, options in calls:
        assert made.encoded(name, conversation, tools, options) == encoded(name, conversation, tools, options)
        # The same speakers with other texts.
        others = [Turn(turn.speaker, (Text(text),)) for turn, text in zip(conversation.turns, again, strict=False)]
        conversation = Conversation(tuple(others), conversation.system)
        for _ in range(2):
            assert made.encoded(name, conversation, tools, options) == encoded(name, conversation, tools, options)


# Where there is another path for texts, a raw prompt is written, and no stencil fits one.
STRUCTURED = [name for name, each in DIALECTS.items() if each.wire in ("anthropic", "openai-chat") and not each.native]


@pytest.mark.parametrize(
    "name",
    dialect_cases("system_role", "merge_turns", "mid_system", "limits.max_output", "extra_body", among=STRUCTURED),
)
def test_the_encoder_of_a_structured_wire_is_asked_once_for_each_frame(name: str) -> None:
    made, options = Stenciled(), Options(max_tokens=400, stream=False)
    for number in range(4):
        turns = (Turn("human", (Text(f"{number}?"),)), Turn("ai", (Text(f"{number}."),)), Turn("human", (Text("So?"),)))
        conversation = Conversation(turns, "Be brief.")
        assert made.encoded(name, conversation, (), options) == encoded(name, conversation, (), options)
    # For the first, and once with probes in it; where an answer without reasoning leaves a note at its turn, each time.
    assert made.asked == (4 if DIALECTS[name].reasoning.required_kept else 2)


def test_what_is_kept_has_an_end() -> None:
    made = Stenciled()
    for number in range(600):
        made.encoded("openai", Conversation((Turn("human", (Text("Hi."),)),), f"{number}"), (), Options())
        assert len(made.stencils._frames) <= 256
    made.encoded("openai", Conversation((Turn("human", (Text("Hi."),)),), "long" * 20_000), (), Options())
    assert max([len(b"".join(each.segments)) for each in made.stencils._frames.values() if each]) < 20_000
