"""A decoder that reads by stencil gives the events that reading every event in full gives; and where it can, it does."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream import ToolSpec, make_decoder
from midstream.core.events import Event
from midstream.wires import stencil
from midstream.wires.sse import ServerSentEvent, SSEParser
from midstream.wires.stencil import StencilMemory, Template, _hosts
from midstream.wires.stream_decoder import StreamDecoder
from tests.long_run import each_once
from tests.wires.feeding import at_random, events_of
from tests.wires.recordings import body_bytes, is_stream, recordings

TOOLS = [ToolSpec("look", "", {"type": "object", "properties": {"path": {"type": "string"}}})]
FOLDERS = {
    "openai-chat": "openai-chat",
    "kimi": "openai-chat",
    "mistral-chat": "openai-chat",
    "anthropic-messages": "anthropic",
    "openai-responses": "openai-responses",
    "gemini": "gemini",
    "ollama-chat": "ollama",
    "cohere-chat": "cohere",
}
LEAKS = {
    "openai-chat": "openai-compatible/kimi-k2.5",
    "ollama": "ollama/kimi-k2.5",
    "anthropic": "moonshot-anthropic/kimi-k2.5",
    "openai-responses": "responses-compatible/kimi-k2.5",
}
"""Models whose text is looked through for calls, by wire."""


def decoder(wire: str, *, full: bool = False, leaks: bool = False, limit: int | None = None) -> StreamDecoder:
    options: dict[str, Any] = {"tools": TOOLS, "turn_key": "t"}
    made = make_decoder(dialect=LEAKS[wire], **options) if leaks else make_decoder(wire=wire, **options)
    if full:
        made.stencils = None
    if limit is not None:
        made._builder._limit = limit
    return made


def told(made: StreamDecoder, chunks: Iterable[bytes]) -> tuple[list[Event], int]:
    return events_of(made, chunks), made.progress


def by_event(raw: bytes) -> list[bytes]:
    """Cut behind every blank line; behind every line where there is none."""
    end = next((each for each in (b"\r\n\r\n", b"\n\n") if each in raw), b"\n")
    *parts, rest = raw.split(end)
    return [*[part + end for part in parts], rest]


@each_once(("short", [0, stencil._SHORT]), ("folder", FOLDERS))
def test_every_recording_reads_the_same(folder: str, short: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stencil, "_SHORT", short)
    wire = FOLDERS[folder]
    for case in recordings(folder):
        if not is_stream(case):
            continue
        raw = body_bytes(case)
        for leaks in (False, True) if wire in LEAKS else (False,):
            wanted = told(decoder(wire, full=True, leaks=leaks), [raw])
            for cut in ([raw], by_event(raw), at_random(raw, seed=len(raw))):
                assert told(decoder(wire, leaks=leaks), cut) == wanted, case["id"]


LITERALS = (
    '"a"', '" river"', '"\\n"', '"\\"so\\""', '"\\u00fc\\ud83c\\udf0a"', '"水"', '""', '"\\ud83d"', '"\\ude00"', '"a\\ud83d"',
    '"<"', '"<|tool_calls_section_begin|>"', '"<think>"', '"x\\\\"', '"\\""', '"{\\"path\\": 1"', '"}"', '"[DONE]"',
    '"\\"},\\"finish_reason\\":null}]}\\n\\ndata: {"', '"a","b"', '"a"}', '"bad\\x"', '"line\nbreak"', '"a', 'null', '["a"]', '7', ' "a" ',
    '"\u2028"', '"\\u0000"',
)  # fmt: skip
RAW = (b'"\xff\xfe"', b'"\xed\xa0\xbd"', b'"cut \xe6\xb0"')
literals = st.one_of(
    st.sampled_from([*[each.encode() for each in LITERALS], *RAW]),
    st.text(max_size=6).map(lambda text: json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass")),
    st.sampled_from([b'" and"', b'" so"', b'" on"']),
)
values = st.sampled_from([b"1", b"2", b"30", b"0", b"007", b"-1", b"1.5", b"1e400", b"9" * 400, b'"x7Kq"', b'"aB3"', b'""', b'"\\u0041"',
    b'"\xff"', b'"a\\"b"', b"null", b"{}", b"[1]", b'"stop"', b'"error"', b"true"])  # fmt: skip

# What a wire's event looks like around `T`, the text, and `V`, a value that may differ from event to event.
EVENTS: dict[str, tuple[bytes, ...]] = {
    "openai-chat": (
        b'data: {"id":"c","choices":[{"index":0,"delta":{"content":T},"finish_reason":null}]}',
        b'data: {"id":"c","created":V,"choices":[{"index":0,"delta":{"content":T}}],"obfuscation":V}',
        b'data: {"id":V,"choices":[{"index":0,"delta":{"reasoning_content":T,"content":""}}]}',
        b'data: {"choices":[{"index":0,"delta":{"content":null,"reasoning":T},"finish_reason":V}]}',
        b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":T}}]}}],"p":V}',
        b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":V,"id":V,"function":{"name":"look","arguments":T}}]}}]}',
        b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":V,"function":{"arguments":T}}]}}]}',
        b'data: {"choices":[{"index":0,"delta":{"content":V,"content":T}}],"usage":V}',
        b'data: {"choices":[{"index":0,"delta":{"content":T,"content":V}}],"error":V}',
        b'data: {"choices":[{"index":V,"delta":{"content":T},"logprobs":{"content":[{"token":T}]}}]}',
        b'data:{"choices" : [ {"delta": {"content": T} } ] }',
    ),
    "anthropic": (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":T}}',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":V,"delta":{"type":"text_delta","text":T},"p":V}',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":T}}',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":T}}',
        b'event: content_block_start\ndata: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"u","name":"look","input":{}}}',
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":T}}',
        b'event: content_block_stop\ndata: {"type":"content_block_stop","index":V}',
        b'event: ping\ndata: {"type":"ping"}',
    ),
    "openai-responses": (
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":V,"item_id":V,"output_index":0,"content_index":0,"delta":T,"obfuscation":V}',
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","output_index":V,"content_index":0,"delta":T}',
        b'data: {"type":"response.reasoning_summary_text.delta","sequence_number":V,"output_index":0,"summary_index":V,"delta":T}',
        b'data: {"type":"response.function_call_arguments.delta","sequence_number":V,"item_id":"i","output_index":1,"delta":T}',
        b'data: {"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"i","call_id":"c","name":"look","arguments":""}}',
        b'data: {"type":"response.refusal.delta","output_index":0,"content_index":0,"delta":T}',
    ),
    "ollama": (
        b'{"model":"m","created_at":V,"message":{"role":"assistant","content":T},"done":false}',
        b'{"model":"m","message":{"role":"assistant","content":"","thinking":T},"done":false}',
        b'{"message":{"content":T},"done":V}',
    ),
    "cohere": (
        b'event: content-delta\ndata: {"type":"content-delta","index":0,"delta":{"message":{"content":{"text":T}}}}',
        b'event: content-delta\ndata: {"type":"content-delta","index":V,"delta":{"message":{"content":{"thinking":T}}}}',
        b'data: {"type":"tool-plan-delta","delta":{"message":{"tool_plan":T}}}',
        b'data: {"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":{"id":"c","function":{"name":"look","arguments":""}}}}}',
        b'data: {"type":"tool-call-delta","index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":T}}}}}',
    ),
}  # fmt: skip
STRAY = (b": keep-alive", b"", b"id: 7", b"retry: 3", b"data: [DONE]", b"data:", b"data: {", b"event: error")


@st.composite
def streams(draw: st.DrawFn, wire: str) -> bytes:
    """Runs of events of one kind, now and then something else between them."""
    out: list[bytes] = []
    end = draw(st.sampled_from([b"\n", b"\r\n"]))
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(EVENTS[wire]))
        usual = draw(st.lists(values, min_size=3, max_size=3))
        for _ in range(draw(st.integers(1, 7))):
            event = kind.replace(b"T", b"\0").replace(b"V", b"\1").replace(b"\n", end)
            while b"\0" in event:
                event = event.replace(b"\0", draw(literals), 1)
            place = 0
            while b"\1" in event:
                changed = draw(st.integers(0, 4)) == 0
                event = event.replace(b"\1", draw(values) if changed else usual[place % 3], 1)
                place += 1
            out.append(event + (end if wire == "ollama" else 2 * end))
        if draw(st.integers(0, 3)) == 0:
            out.append(draw(st.sampled_from(STRAY)) + end * draw(st.integers(1, 2)))
    return b"".join(out)


@pytest.mark.parametrize("wire", EVENTS)
@given(data=st.data())
@settings(max_examples=100)
def test_any_stream_at_any_cut_reads_the_same(wire: str, data: st.DataObject) -> None:
    raw = data.draw(streams(wire))
    limit = data.draw(st.sampled_from([None, None, 3, 10]))
    leaks = data.draw(st.booleans()) and wire in LEAKS
    options: dict[str, Any] = {"leaks": leaks, "limit": limit}
    # Events that come alone are read by a pattern in a long answer only; here at once, or never.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stencil, "_SHORT", data.draw(st.sampled_from([0, stencil._SHORT])))
        _reads_the_same(wire, raw, options, data)


def _reads_the_same(wire: str, raw: bytes, options: dict[str, Any], data: st.DataObject) -> None:
    wanted = told(decoder(wire, full=True, **options), [raw])
    assert told(decoder(wire, **options), [raw]) == wanted
    assert told(decoder(wire, **options), by_event(raw)) == wanted
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=8).map(sorted))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert told(decoder(wire, **options), pieces) == wanted


CHAT = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":T},"finish_reason":null}],"usage":null}\n\n'
PADDED = b'data: {"id":"c","created":V,"choices":[{"index":0,"delta":{"content":T}}],"obfuscation":"S"}\n\n'


def filled(event: bytes, text: bytes, value: bytes = b"1", padding: bytes = b"x7") -> bytes:
    return event.replace(b"V", value).replace(b"S", padding).replace(b"T", text)


def learned(event: bytes) -> StreamDecoder:
    """A chat decoder that has seen two such events."""
    made = decoder("openai-chat")
    made.feed(b'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n')
    made.feed(filled(event, b'"a"') + filled(event, b'"b"', b"2", b"y"))
    return made


def fit(made: StreamDecoder, data: bytes) -> tuple[list[str], int]:
    """What is read of the data by stencil, and how many bytes of it are left."""
    assert made.stencils is not None
    runs, size = made.stencils.read(data, 0, len(data))
    return [text for _, texts in runs for text in texts], len(data) - size


@pytest.mark.parametrize("event", [CHAT, PADDED])
def test_what_is_repeated_fits(event: bytes) -> None:
    made = learned(event)
    assert fit(made, filled(event, b'"x"', b"3", b"")) == (["x"], 0)
    assert fit(made, filled(event, b'"\\u00fc\\n"', b"123456789012345")) == (["\u00fc\n"], 0)
    assert fit(made, filled(event, b' "x" ')) == (["x"], 0)
    assert fit(made, filled(event, b'""')) == ([""], 0)
    burst = b"".join([filled(event, b'"%d"' % n, b"%d" % n) for n in range(300)])
    read = []
    while burst:
        texts, left = fit(made, burst)
        assert texts
        read += texts
        burst = burst[len(burst) - left :]
    assert read == [str(n) for n in range(300)]


@each_once(
    (
        "text",
        [
            b"",
            b'"',
            b"a",
            b'"a',
            b'"a","b"',
            b'"a"}',
            b"null",
            b"7",
            b'"\\x"',
            b'"\\ud83d"',
            b'"\xff"',
            b'"\n"',
            b'"a",\n"b"',
            b'"a","content":"b"',
        ],
    ),
    ("event", [CHAT, PADDED]),
)
def test_what_is_no_single_text_does_not_fit(event: bytes, text: bytes) -> None:
    good, bad = filled(event, b'"g"'), filled(event, text)
    assert fit(learned(event), bad) == ([], len(bad))
    assert fit(learned(event), bad + good) == ([], len(bad + good))
    texts, left = fit(learned(event), good + bad)
    assert (texts, left) in ((["g"], len(bad)), ([], len(good + bad)))


def test_halves_of_two_texts_make_no_text() -> None:
    """Two events whose texts are broken in a way that joins to two texts."""
    for first, second in ((b'"a', b'b","c"'), (b'"a","b', b'c"'), (b'"a","b"', b"")):
        data = filled(CHAT, first) + filled(CHAT, second)
        assert fit(learned(CHAT), data) == ([], len(data))


@pytest.mark.parametrize(
    "value", [b"", b"01", b"-1", b"1.5", b"1e3", b"1234567890123456", b"null", b'"1"', b"1,2", b'1,"choices":[]']
)
def test_what_is_no_plain_number_does_not_fit(value: bytes) -> None:
    data = filled(PADDED, b'"x"', value)
    assert fit(learned(PADDED), data) == ([], len(data))
    burst = filled(PADDED, b'"x"', b"3") + data + filled(PADDED, b'"x"', b"4")
    assert fit(learned(PADDED), burst)[1] in (len(burst), len(burst) - len(filled(PADDED, b'"x"', b"3")))


@pytest.mark.parametrize("padding", [b'"', b"\\", b"\xff", b"\n", b'a","error":"b', b"\xc3\xbc"])
def test_what_is_no_plain_padding_does_not_fit(padding: bytes) -> None:
    data = filled(PADDED, b'"x"', b"3", padding)
    assert fit(learned(PADDED), data) == ([], len(data))


@pytest.mark.parametrize("change", [(b'"index":0', b'"index":1'), (b"null}]", b'"stop"}]'), (b'"usage":null', b'"usage":{}'),
    (b'"content"', b'"refusal"'), (b"data: ", b"data:  "), (b"data: ", b": data: "), (b"\n\n", b"\n"), (b"data: ", b"event: error\ndata: ")])  # fmt: skip
def test_what_differs_outside_of_the_text_does_not_fit(change: tuple[bytes, bytes]) -> None:
    event = filled(CHAT, b'"x"')
    data = event.replace(*change)
    assert data != event and fit(learned(CHAT), data) == ([], len(data))


@pytest.mark.parametrize(
    "part", [b'}}],"obfuscation":"', b',"choices":[{"index":0,"delta":{"content":', b',"obfuscation":"x7']
)
def test_an_event_that_lacks_a_part_does_not_fit(part: bytes) -> None:
    data = filled(PADDED, b'"x"', b"3").replace(part, b"")
    assert fit(learned(PADDED), data) == ([], len(data))
    assert fit(learned(PADDED), data + data) == ([], 2 * len(data))


def test_what_stands_between_two_events_is_not_passed_over() -> None:
    for event in (CHAT, PADDED):
        first, second = filled(event, b'"a"', b"3"), filled(event, b'"b"', b"4")
        for stray in (b": hello\n\n", b"\n", b"data: [DONE]\n\n", b"x"):
            assert fit(learned(event), first + stray + second) == (["a"], len(stray + second))


def test_a_comment_that_repeats_the_event_is_not_taken_for_it() -> None:
    event, other = filled(CHAT, b'"a"')[6:-2], filled(CHAT, b'"b"')[6:-2]
    for layout in (b"data: %s\n: %s\n\n", b": %s\ndata: %s\n\n", b"data: %s\nevent: %s\n\n", b"id: %s\ndata: %s\n\n"):
        blocks = [layout % (event, event)] * 4 + [layout % (event, other), layout % (other, event)]
        wanted = told(decoder("openai-chat", full=True), blocks)
        assert told(decoder("openai-chat"), blocks) == told(decoder("openai-chat"), [b"".join(blocks)]) == wanted


def test_an_event_with_fields_behind_its_data_is_not_learned() -> None:
    event = CHAT[:-1] + b"id: 7\n\n"
    assert fit(learned(event), filled(event, b'"x"')) == ([], len(filled(event, b'"x"')))


def test_a_field_that_matters_never_becomes_one_that_may_differ() -> None:
    """The index of a choice, a finish reason and the index of a call differ: none of these is learned away."""
    for event, others in (
        (CHAT.replace(b'"index":0', b'"index":V'), (b"0", b"1")),
        (CHAT.replace(b"null}]", b'"V"}]'), (b"", b"stop")),
        (
            b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":V,"function":{"arguments":T}}]}}]}\n\n',
            (b"0", b"1"),
        ),
    ):
        made = decoder("openai-chat")
        for number in range(6):
            made.feed(filled(event, b'"a"', others[number % 2]))
        data = filled(event, b'"a"', b"5")
        assert fit(made, data) == ([], len(data)), event


CALL = b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":V,"function":{"arguments":T}}]}}]}\n\n'


def interleaved() -> StreamDecoder:
    """A chat decoder that has seen three calls take turns."""
    made = decoder("openai-chat")
    for number in (b"0", b"1", b"2"):
        made.feed(
            CALL.replace(b'"function":{', b'"id":"c%s","function":{"name":"look",' % number)
            .replace(b"V", number)
            .replace(b"T", b'""')
        )
    for text in (b'"{"', b'" "', b'"\\n"'):
        made.feed(b"".join([filled(CALL, text, number) for number in (b"0", b"1", b"2")]))
    return made


def test_calls_that_take_turns_are_read_together() -> None:
    pieces = [(b"%d" % (n % 3 if n < 12 else 1), f"{n} ") for n in range(20)]
    burst = b"".join([filled(CALL, json.dumps(text).encode(), number) for number, text in pieces])
    made = interleaved()
    assert made.stencils is not None
    read: list[str] = []
    left = burst
    while left:
        runs, size = made.stencils.read(left, 0, len(left))
        assert size and (len(runs) > 1 or len(runs[0][1]) > 1)
        read += [text for _, texts in runs for text in texts]
        left = left[size:]
    assert read == [text for _, text in pieces]


def test_a_call_that_was_not_seen_ends_what_is_read_together() -> None:
    known = filled(CALL, b'"a"', b"1") + filled(CALL, b'"b"', b"0")
    for number in (b"3", b"10", b"-1", b"null", b'"0"', b"00"):
        other = filled(CALL, b'"c"', number)
        assert fit(interleaved(), known + other + known) == (["a", "b"], len(other + known))
        assert fit(interleaved(), other) == ([], len(other))


def test_interleaved_arguments_reach_their_calls() -> None:
    made, full = interleaved(), interleaved()
    full.stencils = None
    rows = [filled(CALL, b'"\\"%d\\": 1, "' % n, b"%d" % (n % 3)) for n in range(60)]
    rows += [filled(CALL, b'"\\"z\\": 2}"', b"%d" % n) for n in (0, 1, 2)]
    end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'
    wanted = full.feed(b"".join(rows) + end)
    assert made.feed(b"".join(rows) + end) == wanted and made.progress == full.progress


RESPONSES = (
    b'event: E\ndata: {"type":"E","sequence_number":V,"item_id":"i","output_index":1,"delta":T,"obfuscation":"S"}\n\n'
)
LEARNED = [
    ("openai-chat", b"", CHAT),
    ("openai-chat", b"", CHAT.replace(b"\n", b"\r\n")),
    ("openai-chat", b"", PADDED),
    ("openai-chat", b"", CHAT.replace(b'"id":"c"', b'"id":"S"').replace(b"null}]", b'""}]')),
    ("openai-chat", b"", CHAT.replace(b'"content":T', b'"content":"","reasoning_content":T')),
    ("openai-chat", b"", CHAT.replace(b'"content":T', b'"role":"assistant","reasoning":T,"content":null')),
    ("openai-chat", b"", EVENTS["openai-chat"][4].replace(b'V', b'"S"') + b"\n\n"),
    *[("anthropic", b"", each + b"\n\n") for each in EVENTS["anthropic"][:3:2]],
    ("anthropic", EVENTS["anthropic"][4] + b"\n\n", EVENTS["anthropic"][3] + b"\n\n"),
    *[
        ("openai-responses", EVENTS["openai-responses"][4] + b"\n\n", RESPONSES.replace(b"E", kind))
        for kind in (b"response.output_text.delta", b"response.reasoning_text.delta", b"response.reasoning_summary_text.delta",
            b"response.function_call_arguments.delta", b"response.custom_tool_call_input.delta")
    ],
    *[("ollama", b"", each.replace(b"V", b'"S"') + b"\n") for each in EVENTS["ollama"][:2]],
    *[("cohere", EVENTS["cohere"][3] + b"\n\n", EVENTS["cohere"][n].replace(b"V", b"0") + b"\n\n") for n in (0, 1, 2, 4)],
]  # fmt: skip


@pytest.mark.parametrize(("wire", "opening", "event"), LEARNED)
def test_the_everyday_deltas_of_every_wire_are_learned(wire: str, opening: bytes, event: bytes) -> None:
    made = decoder(wire)
    if opening:
        made.feed(opening)
    for number in (0, 1, 2):  # the first may begin with a byte order mark: it is not learned from
        made.feed(filled(event, b'"a"', b"%d" % number, b"s%d" % number))
    assert fit(made, filled(event, b'"z"', b"3", b"s3")) == (["z"], 0)


def test_events_that_are_never_alike_are_not_learned_from_for_ever() -> None:
    made = decoder("openai-chat")
    assert made.stencils is not None
    asked = []
    read = made.stencils._read_template
    made.stencils._read_template = lambda data, name: asked.append(data) or read(data, name)  # type: ignore[func-returns-value]
    for number in range(1000):
        made.feed(CHAT.replace(b'"usage"', b'"k%d"' % number).replace(b"T", b'"a"'))
    assert 0 < len(asked) < 100


class CountingParser(SSEParser):
    times = 0

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        self.times += 1
        return super().feed(data)


@pytest.mark.parametrize(
    "stray", [b": hello\n\n", b"data: {}\n\n", filled(CHAT, b'"a"') + filled(PADDED, b'"a"'), b"\n"]
)
def test_what_fits_nothing_is_not_copied_again_and_again(stray: bytes) -> None:
    """Of many events in one read, a few are tried one by one, and the rest is read at once."""
    made = decoder("openai-chat")
    framing = CountingParser()
    made._framing = framing
    made.feed(filled(CHAT, b'"a"') * 3)
    framing.times = 0
    made.feed(stray * 300)
    assert framing.times < 20


def test_the_text_of_a_freeform_call_is_escaped_in_a_burst_too() -> None:
    def event(kind: str, **fields: Any) -> bytes:
        return b"data: " + json.dumps({"type": f"response.{kind}", **fields}).encode() + b"\n\n"

    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "patch", "input": ""}
    pieces = ['say "', "hi\n", 'there" ', "\\o/"] * 5
    stream = [
        event("created", response={"id": "r", "model": "m"}),
        event("output_item.added", output_index=0, item=item),
        *[event("custom_tool_call_input.delta", output_index=0, item_id="ctc_1", delta=piece) for piece in pieces],
        event("output_item.done", output_index=0, item={**item, "input": "".join(pieces)}),
        event("completed", response={"id": "r", "model": "m", "status": "completed", "output": []}),
    ]
    burst = told(decoder("openai-responses"), [b"".join(stream)])
    assert burst == told(decoder("openai-responses", full=True), stream)
    (call,) = burst[0][-1].turn.tool_calls  # type: ignore[union-attr]
    assert json.loads(call.arguments) == {"input": "".join(pieces)}


MESSAGE = b'event: message_start\ndata: {"type":"message_start","message":{"model":"m","id":"i"}}\n\n'
DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%s_delta","%s":%s}%s}\n\n'
ENDING = b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\ndata: {"type":"message_stop"}\n\n'


def _answer(block: int, kind: str, texts: list[str], more: bytes) -> bytes:
    start = json.dumps({"type": "content_block_start", "index": block, "content_block": {"type": kind, kind: ""}})
    deltas = [DELTA % (block, kind.encode(), kind.encode(), json.dumps(text).encode(), more) for text in texts]
    stop = b'data: {"type":"content_block_stop","index":%d}\n\n' % block
    return b"".join([MESSAGE, b"data: " + start.encode() + b"\n\n", *deltas, stop, ENDING])


_answers = st.builds(
    _answer,
    st.integers(0, 1),
    st.sampled_from(["text", "thinking"]),
    st.lists(st.text(max_size=3) | st.just("said"), max_size=12),
    st.sampled_from([b"", b' ,"p":"abc"', b' ,"n":1', b',"index":0']),
)


@settings(max_examples=60)
@given(answers=st.lists(_answers, min_size=1, max_size=6), seed=st.integers(0, 999))
def test_what_earlier_answers_taught_changes_no_event(answers: list[bytes], seed: int) -> None:
    for raw in answers:
        wanted = told(decoder("anthropic", full=True), [raw])
        assert told(decoder("anthropic"), [raw]) == wanted
        assert told(decoder("anthropic"), at_random(raw, seed)) == wanted


def test_the_next_answer_of_a_host_need_not_be_asked_what_matters_in_it() -> None:
    asked: list[bytes] = []
    reader = make_decoder(wire="anthropic", turn_key="t")._reader

    def read_template(data: bytes, name: str) -> Template | None:
        asked.append(data)
        return reader.template(data, name)  # type: ignore[attr-defined, no-any-return]

    for answer, wanted in enumerate([2, 1, 1]):
        memory = StencilMemory(read_template)
        raw = DELTA % (0, b"text", b"text", b'"said in %d"' % answer, b"")
        asked.clear()
        memory.learn(raw, raw.partition(b"data: ")[2].strip(), "content_block_delta")
        assert len(asked) == wanted  # the first one is asked with another text in it, too
        assert memory.last is not None
        assert memory.last.read_one(raw) == f"said in {answer}"
    kept = _hosts._known[read_template]
    assert [stencil._templates for stencil in kept] == [{}]
    assert b"said" not in b"".join(kept[0]._layout.parts)
