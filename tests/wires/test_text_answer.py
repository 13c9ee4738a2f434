"""The short way of a whole answer that is one text gives the turn that the decoder gives, or stands aside."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream import ToolSpec
from midstream.core.blocks import Turn
from midstream.core.errors import MidstreamError
from midstream.dialects.registry import REGISTRY
from midstream.wires.decode_context import DecodeContext
from midstream.wires.stream_decoder import decode_whole
from tests.representatives import dialect_cases

DIALECTS = [each for each in REGISTRY.dialects().values() if each.wire in ("anthropic", "openai-chat")]
BODIES: dict[str, dict[str, Any]] = {
    "anthropic": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "Hi."}],
        "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 3},
    },
    "openai-chat": {
        "id": "c-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi.", "refusal": None}, "logprobs": None,
                     "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
    },
}  # fmt: skip
TOOLS = (ToolSpec("look", "Look.", {"type": "object", "properties": {}}),)


def read(context: DecodeContext, body: bytes) -> Turn | str:
    try:
        return decode_whole(context.decoder(), body)
    except MidstreamError as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(
    "name",
    dialect_cases(
        "leaks", "reasoning.tags", "reasoning.fields", "reasoning.details", among=[each.name for each in DIALECTS]
    ),
)
def test_an_everyday_answer_of_every_dialect(name: str) -> None:
    dialect = REGISTRY.dialect(name)
    body = json.dumps(BODIES[dialect.wire]).encode()
    for model in ("m", "other", ""):
        context = DecodeContext(dialect, "key", model)
        found = context.text_answer(body)
        # Where a filter looks for calls or thinking in the text, the decoder reads it.
        assert (found is None) == (context.text_filter() is not None)
        assert found is None or found == read(context, body)


# Words of both wires, so that changes hit what a reader looks at, and values of every JSON type.
_NAMES = sorted({
    "id", "type", "role", "model", "content", "text", "citations", "stop_reason", "stop_sequence", "stop_details", "container", "usage",
    "context_management", "error", "detail", "object", "created", "choices", "index", "message", "delta", "finish_reason", "logprobs",
    "refusal", "tool_calls", "function_call", "annotations", "images", "audio", "reasoning_content", "reasoning", "reasoning_text",
    "thinking", "reasoning_details", "x_groq", "search_results", "signature", "cost",
})  # fmt: skip
_VALUES = st.recursive(
    st.sampled_from([None, True, 0, 1, -1, 2.5, "", " ", "x", "Hi.", "stop", "length", "error", "end_turn", "tool_use", "stop_sequence",
                     "message", "text", "é\ud83d\ude00", "\ud800"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


def _places(value: Any) -> list[Any]:
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [value, *[place for each in inner for place in _places(each)]] if isinstance(value, (dict, list)) else []


@pytest.mark.parametrize("wire", BODIES)
@settings(max_examples=300)
@given(data=st.data())
def test_a_changed_answer_is_read_alike_or_not_at_all(wire: str, data: st.DataObject) -> None:
    body = json.loads(json.dumps(BODIES[wire]))
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.sampled_from(_places(body)))
        if isinstance(place, list):
            place.append(data.draw(_VALUES))
        elif data.draw(st.booleans()) and place:
            del place[data.draw(st.sampled_from(sorted(place)))]
        else:
            place[data.draw(st.sampled_from(_NAMES))] = data.draw(_VALUES)
    written = json.dumps(body, ensure_ascii=data.draw(st.booleans())).encode("utf-8", "surrogatepass")
    dialect = data.draw(st.sampled_from([each for each in DIALECTS if each.wire == wire]))
    context = DecodeContext(
        dialect, "key", data.draw(st.sampled_from(["m", ""])), data.draw(st.sampled_from([(), TOOLS]))
    )
    found = context.text_answer(written)
    assert found is None or found == read(context, written)
