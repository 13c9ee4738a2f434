"""The rules of the Gemini decoder, one by one, and that no bytes can break it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream import MidstreamError, decode_response, make_decoder
from midstream.core.blocks import Media, Opaque, Text, Thinking, ToolCall
from midstream.core.events import Done, ErrorEvent, ErrorInfo
from midstream.core.lifecycle import check
from midstream.wires.decode_context import DecodeContext
from midstream.wires.gemini.wire import DEFAULT
from midstream.wires.stream_decoder import StreamDecoder
from tests.wires.feeding import by_byte, events_of


def chunk(*parts: Any, finish: Any = None, **fields: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], **fields}


def sse(*chunks: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(each).encode() + b"\r\n\r\n" for each in chunks)


def decoder(**fields: Any) -> StreamDecoder:
    return DecodeContext(DEFAULT, "t", **fields).decoder()


def last(*chunks: Any, **fields: Any) -> Any:
    raw = sse(*chunks)
    events = events_of(decoder(**fields), [raw])
    assert events_of(decoder(**fields), by_byte(raw)) == events
    array = json.dumps(list(chunks), indent=1).encode()
    assert events_of(decoder(**fields), [array]) == events_of(decoder(**fields), by_byte(array))
    assert events_of(decoder(**fields), [array])[-1] == events[-1]
    return events[-1]


def turn(*chunks: Any, **fields: Any) -> Any:
    end = last(*chunks, **fields)
    assert isinstance(end, Done), end
    return end.turn


def test_text_thoughts_and_calls_keep_their_order() -> None:
    got = turn(
        chunk({"text": "hm", "thought": True}, modelVersion="gemini-x", responseId="r1"),
        chunk({"text": "m", "thought": True}),
        chunk({"text": "I "}),
        chunk({"text": "see"}),
        chunk({"functionCall": {"name": "f", "args": {"a": 1}, "id": "x1"}}, {"functionCall": {"name": "g"}}),
        chunk({"text": ""}, finish="STOP"),
    )
    assert [type(block) for block in got.blocks] == [Thinking, Text, ToolCall, ToolCall]
    assert (got.thinking, got.text, got.stop_reason, got.raw_stop) == ("hmm", "I see", "tool_use", "STOP")
    assert [(call.name, call.arguments, call.raw_id) for call in got.tool_calls] == [
        ("f", '{"a":1}', "x1"),
        ("g", "{}", None),
    ]
    assert got.response_id == "r1" and got.origin.model == "gemini-x"


def test_calls_without_ids_get_distinct_ones() -> None:
    call = {"functionCall": {"name": "f", "args": {}}}
    got = turn(chunk(call, call), chunk(call, finish="STOP"))
    assert len({each.id for each in got.tool_calls}) == 3


def test_large_integers_stay_exact() -> None:
    raw = b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{ "n" : 9007199254740993123 }}}]},"finishReason":"STOP"}]}\n\n'
    end = events_of(decoder(), [raw])[-1]
    assert end.turn.tool_calls[0].arguments == '{"n":9007199254740993123}'


def test_names_that_were_changed_come_back() -> None:
    got = turn(chunk({"functionCall": {"name": "a_b"}}, finish="STOP"), tool_names={"a_b": "a/b"})
    assert got.tool_calls[0].name == "a/b"


def test_a_signed_part_is_a_block_of_its_own() -> None:
    got = turn(
        chunk({"text": "a"}),
        chunk({"text": "b", "thoughtSignature": "S1"}),
        chunk({"text": "c"}),
        chunk({"text": "", "thoughtSignature": "S2"}, finish="STOP"),
    )
    assert got.blocks == (
        Text("a"),
        Text("b", {"thoughtSignature": "S1"}),
        Text("c"),
        Text("", {"thoughtSignature": "S2"}),
    )


def test_a_signature_alone_is_kept() -> None:
    got = turn(chunk({"text": "a"}), chunk({"thoughtSignature": "S"}, finish="STOP"))
    assert got.blocks[-1] == Text("", {"thoughtSignature": "S"})


def test_signatures_of_thoughts_calls_and_media_are_kept() -> None:
    got = turn(
        chunk({"text": "hm", "thought": True, "thoughtSignature": "S1"}),
        chunk({"functionCall": {"name": "f"}, "thoughtSignature": "S2"}),
        chunk({"inlineData": {"mimeType": "image/png", "data": "QUJD"}, "thoughtSignature": "S3"}, finish="STOP"),
    )
    assert got.blocks[0].signature == "S1" and got.blocks[0].field == "thought"
    assert got.blocks[1].extra == {"thoughtSignature": "S2"}
    assert got.blocks[2] == Media("image/png", data="QUJD", extra={"thoughtSignature": "S3"})


def test_a_file_is_kept_by_its_address() -> None:
    got = turn(chunk({"fileData": {"mimeType": "video/mp4", "fileUri": "files/1"}}, finish="STOP"))
    assert got.blocks == (Media("video/mp4", url="files/1"),)


def test_what_the_core_has_no_word_for_is_kept_whole() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "print(1)"}, "thoughtSignature": "S"}
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
    got = turn(chunk({"text": "run"}, code, result), chunk({"text": "1"}, finish="STOP"))
    origin = got.origin
    assert got.blocks[1:3] == (Opaque("executableCode", code, origin), Opaque("codeExecutionResult", result, origin))


def test_grounding_is_kept_with_the_turn() -> None:
    first, second = chunk({"text": "a"}), chunk({"text": "b"}, finish="STOP")
    first["candidates"][0]["groundingMetadata"] = {"webSearchQueries": ["q"]}
    second["candidates"][0]["groundingMetadata"] = {"groundingChunks": [{"web": {"uri": "u"}}]}
    assert turn(first, second).extra == {
        "groundingMetadata": {"webSearchQueries": ["q"], "groundingChunks": [{"web": {"uri": "u"}}]}
    }


def test_only_the_first_candidate_is_read() -> None:
    both = {
        "candidates": [
            {"index": 1, "content": {"parts": [{"text": "no"}]}, "finishReason": "STOP"},
            {"index": 0, "content": {"parts": [{"text": "yes"}]}, "finishReason": "STOP"},
        ]
    }
    assert turn(both).text == "yes"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("STOP", "end_turn"), ("MAX_TOKENS", "max_tokens"), ("SAFETY", "refusal"), ("RECITATION", "refusal"),
        ("PROHIBITED_CONTENT", "refusal"), ("OTHER", "OTHER"), (1, "end_turn"), (2, "max_tokens"), (3, "refusal"),
    ],
)  # fmt: skip
def test_finish_reasons(raw: Any, reason: str) -> None:
    got = turn(chunk({"text": "a"}, finish=raw))
    assert (got.stop_reason, got.raw_stop) == (reason, str(raw))


@pytest.mark.parametrize("raw", ["MALFORMED_FUNCTION_CALL", 9])
def test_an_unusable_call_is_an_error(raw: Any) -> None:
    end = last(chunk({"text": "a"}, finish=raw))
    assert isinstance(end, ErrorEvent) and end.error.kind == "provider" and end.error.retryable
    assert end.error.code == "MALFORMED_FUNCTION_CALL" and end.turn.text == "a"


def test_a_refusal_without_words_is_done() -> None:
    assert turn({"candidates": [{"finishReason": "SAFETY"}]}).stop_reason == "refusal"


def test_a_blocked_prompt_is_a_refusal() -> None:
    got = turn({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}})
    assert (got.stop_reason, got.raw_stop, got.usage.input) == ("refusal", "SAFETY", 4)
    assert got.extra == {"promptFeedback": {"blockReason": "SAFETY"}}


@pytest.mark.parametrize("unsaid", [None, "FINISH_REASON_UNSPECIFIED", 0])
def test_no_finish_reason_is_truncated(unsaid: Any) -> None:
    end = last(chunk({"text": "a"}, finish=unsaid))
    assert isinstance(end, ErrorEvent) and end.error.kind == "truncated" and end.turn.text == "a"
    assert end.error.retryable


def test_a_finish_reason_on_every_chunk_ends_nothing_early() -> None:
    assert turn(chunk({"text": "a"}, finish="STOP"), chunk({"text": "b"}, finish="STOP")).text == "ab"


@pytest.mark.parametrize("raw", [sse(chunk({"text": "a"}, finish="STOP")) + b"data: [DONE]\n\n", b"[]"])
def test_an_end_that_is_said_is_not_waited_for(raw: bytes) -> None:
    open_decoder = decoder()
    check(open_decoder.feed(raw))
    assert open_decoder.ended


def test_many_unknown_parts_are_read_in_one_go() -> None:
    parts = [{"novelty": number} for number in range(3000)]
    assert turn(chunk(*parts, finish="STOP")).blocks[-1].data == {"novelty": 2999}


def test_thoughts_alone_are_an_empty_answer() -> None:
    end = last(chunk({"text": "hm", "thought": True}, finish="STOP"))
    assert isinstance(end, ErrorEvent) and end.error.kind == "empty"


def test_an_error_in_the_stream_ends_it() -> None:
    end = last(chunk({"text": "a"}), {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}})
    assert isinstance(end, ErrorEvent) and end.error.retryable and end.error.status == 503
    assert end.turn.text == "a"


def test_errors_of_a_whole_answer_are_raised() -> None:
    body = json.dumps([{"error": {"code": 400, "message": "API key not valid", "status": "INVALID_ARGUMENT"}}])
    with pytest.raises(MidstreamError, match="API key not valid"):
        decode_response(body.encode(), wire="gemini", status=400)
    with pytest.raises(MidstreamError, match="API key not valid"):
        decode_response(body.encode(), wire="gemini")


def test_usage_is_merged_and_output_holds_the_thoughts() -> None:
    got = turn(
        chunk({"text": "a"}, usageMetadata={"promptTokenCount": 9, "cachedContentTokenCount": 4, "totalTokenCount": 9}),
        chunk({"text": "b"}, usageMetadata={"promptTokenCount": 9, "candidatesTokenCount": 1}),
        chunk(
            {"text": "c"},
            finish="STOP",
            usageMetadata={"promptTokenCount": 9, "candidatesTokenCount": 5, "thoughtsTokenCount": 3},
        ),
    )
    usage = got.usage
    assert (usage.input, usage.output, usage.reasoning, usage.cache_read) == (9, 8, 3, 4)


@pytest.mark.parametrize("count", ["9", -1, True, 1e300, None])
def test_a_count_that_is_none_is_nothing(count: Any) -> None:
    assert turn(chunk({"text": "a"}, finish="STOP", usageMetadata={"promptTokenCount": count, "x": 1})).usage.input == 0


def test_usage_of_a_long_stream_is_the_last() -> None:
    many = [chunk({"text": "x"}, usageMetadata={"candidatesTokenCount": n}) for n in range(200)]
    first = chunk({"text": "x"}, usageMetadata={"promptTokenCount": 7})
    got = turn(first, *many, chunk(finish="STOP"))
    assert (got.usage.input, got.usage.output) == (7, 199)


def test_arguments_streamed_by_path_become_one_object() -> None:
    def piece(*values: Any, more: bool = True, **call: Any) -> dict[str, Any]:
        fields = {"partialArgs": list(values)} if values else {}
        return chunk({"functionCall": {**call, **fields, **({"willContinue": True} if more else {})}})

    got = turn(
        piece(name="f", id="i1"),
        piece({"jsonPath": "$.city", "stringValue": "New ", "willContinue": True}),
        piece({"jsonPath": "$.city", "stringValue": "York"}),
        piece({"jsonPath": "$.days", "numberValue": 2}, {"jsonPath": "$.ok", "boolValue": True}),
        piece({"jsonPath": "$.stops[0].name", "stringValue": "a"}, {"jsonPath": "$.stops[1].name", "stringValue": "b"}),
        piece({"jsonPath": "$.none", "nullValue": "NULL_VALUE"}),
        piece(more=False),
        piece(name="g", more=False),
        chunk(finish="STOP"),
    )
    wanted = {"city": "New York", "days": 2, "ok": True, "stops": [{"name": "a"}, {"name": "b"}], "none": None}
    assert [(call.name, json.loads(call.arguments)) for call in got.tool_calls] == [("f", wanted), ("g", {})]


@pytest.mark.parametrize("path", ["$.a[999999]", "$", "a", "$.a" + ".a" * 80, "$[0]"])
def test_a_path_that_leads_nowhere_is_malformed(path: str) -> None:
    value = {"jsonPath": path, "stringValue": "x"}
    end = last(chunk({"functionCall": {"name": "f", "partialArgs": [value], "willContinue": True}}))
    assert isinstance(end, ErrorEvent) and end.error.kind == "malformed"


def test_a_call_without_a_name_is_malformed() -> None:
    end = last(chunk({"functionCall": {"args": {"a": 1}}}, finish="STOP"))
    assert isinstance(end, ErrorEvent) and end.error.kind == "malformed"


@pytest.mark.parametrize("raw", [b"<html>no</html>", b"[1,2]", b'{"candidates": 3', b"data: nonsense\n\n"])
def test_what_is_no_answer_is_malformed(raw: bytes) -> None:
    for chunks in ([raw], by_byte(raw)):
        end = events_of(decoder(), chunks)[-1]
        assert isinstance(end, ErrorEvent) and end.error.kind == "malformed"


@pytest.mark.parametrize("raw", [b"data: " + b"x" * 200, b'[{"a":"' + b"x" * 200, b'{"a":"' + b"x" * 200])
def test_what_is_too_long_is_refused(raw: bytes) -> None:
    for chunks in ([raw], by_byte(raw)):
        end = events_of(decoder(limit=100), chunks)[-1]
        assert isinstance(end, ErrorEvent) and end.error.kind == "limit"


def test_signatures_and_media_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midstream.wires.gemini.decode.MAX_TURN_CHARS", 100)
    for part in ({"text": "", "thoughtSignature": "x" * 30}, {"inlineData": {"data": "x" * 30}}, {"novelty": "x" * 30}):
        end = last(*[chunk(part)] * 4)
        assert isinstance(end, ErrorEvent) and end.error.kind == "limit"
        assert isinstance(last(chunk(part), chunk({"text": "a"}, finish="STOP")), Done)


def test_surprising_types_cost_only_their_field() -> None:
    got = turn(
        {"candidates": [7, {"content": {"parts": [7, {"text": "a", "thought": "no"}]}, "index": 0}], "modelVersion": 3},
        chunk({"functionCall": {"name": "f", "id": 7, "partialArgs": [7, {"jsonPath": "$.a", "numberValue": 1}]}}),
        chunk({"text": 7}, {"inlineData": {"mimeType": 7, "data": "QUJD"}}),
        {
            "candidates": [{"content": "no", "finishReason": "STOP", "index": "0"}],
            "usageMetadata": [],
            "responseId": {},
        },
    )
    assert (got.text, got.tool_calls[0].arguments, got.tool_calls[0].raw_id) == ("a7", '{"a":1}', None)
    assert got.blocks[-1] == Media("", data="QUJD")


def test_a_lost_connection_keeps_what_came() -> None:
    open_decoder = decoder()
    events = open_decoder.feed(sse(chunk({"text": "a"})))
    events += open_decoder.fail(ErrorInfo("transport", "reset"))
    check(events)
    assert events[-1].turn.text == "a" and events[-1].error.kind == "transport"


def test_a_connection_lost_after_the_end_was_said_is_done() -> None:
    open_decoder = decoder()
    events = open_decoder.feed(sse(chunk({"text": "a"}, finish="STOP")))
    events += open_decoder.fail(ErrorInfo("transport", "reset"))
    check(events)
    assert isinstance(events[-1], Done)


_KEYS = [
    "candidates", "content", "parts", "text", "thought", "thoughtSignature", "functionCall", "name", "args", "index",
    "finishReason", "usageMetadata", "promptFeedback", "blockReason", "error", "inlineData", "data", "partialArgs",
    "jsonPath", "stringValue", "willContinue", "executableCode", "groundingMetadata", "promptTokenCount",
]  # fmt: skip
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "STOP", "x", "$.a", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
    max_leaves=10,
)
_PARTS = st.lists(st.dictionaries(st.sampled_from(_KEYS[3:]), _JSON, max_size=4) | _JSON, max_size=3)
_CHUNKS = (
    st.builds(lambda parts, finish: chunk(*parts, finish=finish), _PARTS, st.sampled_from([None, "STOP", 1, [1]]))
    | _JSON
)


def _cut(raw: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(place, len(raw)) for place in cuts})
    return [raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True)]


@settings(max_examples=300, deadline=None)
@given(chunks=st.lists(_CHUNKS, max_size=4), array=st.booleans(), cuts=st.lists(st.integers(0, 600), max_size=8))
def test_any_chunks_in_any_cut_give_the_same_lawful_events(chunks: list[Any], array: bool, cuts: list[int]) -> None:
    raw = json.dumps(chunks).encode() if array else sse(*chunks)
    whole = events_of(make_decoder(wire="gemini", turn_key="t"), [raw])
    assert events_of(make_decoder(wire="gemini", turn_key="t"), _cut(raw, cuts)) == whole


@settings(max_examples=300, deadline=None)
@given(head=st.sampled_from([b"", b"[", b"{", b"data: ", b"data: {"]), raw=st.binary(max_size=60))
def test_any_bytes_give_events_and_one_end(head: bytes, raw: bytes) -> None:
    events_of(make_decoder(wire="gemini", turn_key="t"), [head + raw])
    check(make_decoder(wire="gemini", turn_key="t").read_body(head + raw))
