from __future__ import annotations

from typing import Any

import pytest

from midstream.core.blocks import Text, ToolCall, ToolResponse
from midstream.core.errors import LimitExceeded
from midstream.toolformats import kimi
from midstream.toolformats.findings import ArgumentsFound, CallEnded, CallFound, TextFound
from midstream.toolformats.registry import get_filter, leak_filter
from tests.shared_data import vector_params, vectors

from .edge_case_table import CASES, PAGE, page, read
from .feeding import feed, outcome, splits, tool
from .kimi_exceptions import KIMI

FILES = ("vllm-kimi-k2-parser", "vllm-old-kimi-k2-parser", "vllm-rust-kimi-k2-parser", "llamacpp-kimi-k2-parser")
EDGES = "kimi/cross-parser-edge-cases.json"
THINK = ("<think>", "</think>")


def _differences(vector: dict[str, Any]) -> list[str]:
    given, expected = vector["input"], vector["expected"]
    fragments = given.get("fragments")
    text = "".join(fragments) if fragments else given["text"]
    starts_inside = vector["kind"].startswith("reasoning")
    ways = splits(text) + ([fragments] if fragments else [])
    outcomes = [outcome(feed(get_filter("kimi", tags=THINK, starts_inside=starts_inside), way)) for way in ways]
    assert all(found == outcomes[0] for found in outcomes)
    found = outcomes[0]
    differences = []

    def compare(what: str, wanted: Any, came: Any) -> None:
        if wanted != came:
            differences.append(f"{what}: expected {wanted!r}, came {came!r}")

    if "content" in expected:
        compare("text", expected["content"] or "", found.text)
    if "reasoning" in expected:
        compare("thinking", expected["reasoning"] or "", found.thinking)
    if "tool_calls" in expected:
        # White space around JSON says nothing, and engines differ in it even between their own two modes.
        wanted = [(call["name"], call["arguments"].strip(), call["id"]) for call in expected["tool_calls"]]
        compare("calls", wanted, found.calls)
    if "rest" in expected and "<|" not in (expected["rest"] or ""):
        compare("text", expected["rest"] or "", found.text)
    if "steps" in expected:
        compare("thinking", "".join([step["reasoning"] or "" for step in expected["steps"]]), found.thinking)
    if "error" in expected or "error_contains" in expected:
        compare("reported", True, bool(found.problems))
    if absent := expected.get("content_must_not_contain"):
        compare("leaked", False, absent in found.text)
    compare("marker in text", False, "<|" in found.text + found.thinking)
    return differences


def _is_a_parsers(vector: dict[str, Any]) -> bool:
    return bool(vector["kind"] != "generation-prompt")  # that is a template's business


@pytest.mark.parametrize("vector", [p for file in FILES for p in vector_params(f"kimi/{file}.json", _is_a_parsers)])
def test_other_engines_vectors(vector: dict[str, Any]) -> None:
    differences = _differences(vector)
    if vector["id"] in KIMI:
        assert differences, f"{vector['id']} agrees: take it off the list of exceptions"
    else:
        assert differences == []


def test_no_exception_is_stale() -> None:
    assert set(KIMI) <= {identity for file in FILES for identity in vectors(f"kimi/{file}.json")}


@pytest.mark.parametrize("vector", vector_params(EDGES))
def test_edge_cases_lose_nothing_and_leak_nothing(vector: dict[str, Any]) -> None:
    found = read(vector["id"].removeprefix("edge-"), vector)
    assert "<|" not in found.text + found.thinking
    begun = vector["input"]["text"].count(kimi.CALL_BEGIN)
    assert len(found.calls) + len(found.problems) == begun


def test_the_page_of_edge_cases_is_true() -> None:
    assert set(CASES) == {identity.removeprefix("edge-") for identity in vectors(EDGES)}
    assert PAGE.read_text(encoding="utf-8") == page()


SECTION = "<|tool_calls_section_begin|>{}<|tool_calls_section_end|>"
READ = "<|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
TOOLS = (tool("read", path="string"), tool("echo", t="string"))


def _read(text: str, **options: Any) -> Any:
    return outcome(feed(get_filter("kimi", TOOLS, **options), [text]))


def test_arguments_stream_as_they_come() -> None:
    filter = get_filter("kimi")
    assert filter.feed("Hi <|tool_calls_section_be") == [TextFound("Hi ")]
    filter.feed("gin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>")
    assert filter.feed('{"path": ') == [CallFound("read", "functions.read:0"), ArgumentsFound('{"path":')]
    assert filter.feed('"/x') == [ArgumentsFound(' "/x')]
    assert filter.feed('"}<|tool_call') == [ArgumentsFound('"}')]
    assert filter.feed("_end|>") == [CallEnded()]


def test_a_transcript_inside_a_string_is_data() -> None:
    inner = SECTION.format(READ.format('{\\"path\\": 1}'))
    found = _read(SECTION.format(READ.format('{"path": "' + inner + '"}')) + "tail")
    assert found.text == "tail"
    assert found.parsed == [("read", {"path": inner.replace("\\", "")})]


def test_an_unescaped_quote_does_not_swallow_the_next_call() -> None:
    broken = READ.format('{"path": "5" screen"}')
    good = READ.replace(":0", ":1").format('{"path": "b"}')
    found = _read(SECTION.format(broken + good) + "tail")
    assert [call[1] for call in found.calls] == ['{"path": "5" screen"}', '{"path": "b"}']
    assert found.text == "tail"


def test_a_forgotten_argument_marker() -> None:
    assert _read('<|tool_call_begin|>functions.read:0{"path": "/x"}<|tool_call_end|>').parsed == [
        ("read", {"path": "/x"})
    ]


def test_a_call_without_arguments_needs_a_tool_that_has_none() -> None:
    assert _read("<|tool_call_begin|>functions.read:0<|tool_call_end|>").problems[0].raw == "functions.read:0"
    found = outcome(feed(get_filter("kimi", [tool("now")]), ["<|tool_call_begin|>functions.now:0<|tool_call_end|>"]))
    assert found.parsed == [("now", {})]


def test_text_that_follows_a_section_without_end_is_the_answer() -> None:
    found = _read("<|tool_calls_section_begin|>" + READ.format('{"path": "/x"}') + "The answer.")
    assert found.text == "The answer."


def test_ids_that_could_mean_two_tools_are_reported() -> None:
    tools = (tool("read", path="string"), tool("read5", path="string"))
    text = READ.replace("functions.read:0", "functionsread5").format('{"path": "/x"}')
    found = outcome(feed(get_filter("kimi", tools), [text]))
    assert found.calls == []
    assert "functionsread5" in found.problems[0].raw


def test_a_stray_marker_is_reported_and_left_out() -> None:
    found = _read("a<|tool_call_end|>b", tags=THINK)
    assert found.text == "ab"
    assert [problem.raw for problem in found.problems] == ["<|tool_call_end|>"]


def test_thinking_goes_on_past_a_stray_marker_and_ends_at_a_section() -> None:
    found = _read("<think>a<|tool_call_end|>b" + SECTION.format(READ.format("{}")) + "c</think>d", tags=THINK)
    assert (found.thinking, found.text) == ("ab", "cd")


def test_an_id_that_never_ends_is_limited() -> None:
    filter = get_filter("kimi")
    filter.feed("<|tool_call_begin|>")
    with pytest.raises(LimitExceeded):
        for _ in range(20):
            filter.feed("x" * 1024 * 1024)


def test_rendering() -> None:
    calls = [ToolCall("a", "read", '{"path": "/x"}'), ToolCall("b", "now", "{}")]
    assert kimi.render_calls(calls, ["functions.read:4", "functions.now:5"]) == (
        "<|tool_calls_section_begin|>"
        '<|tool_call_begin|>functions.read:4<|tool_call_argument_begin|>{"path": "/x"}<|tool_call_end|>'
        "<|tool_call_begin|>functions.now:5<|tool_call_argument_begin|>{}<|tool_call_end|>"
        "<|tool_calls_section_end|>"
    )
    assert (
        kimi.render_result(ToolResponse("a", "read", (Text("ok"),)), "functions.read:4")
        == "## Return of functions.read:4\nok"
    )


def _section(*calls: str) -> str:
    return SECTION.format("".join(calls))


def _call(raw_id: str, arguments: str = '{"path": "/x"}') -> str:
    return f"<|tool_call_begin|>{raw_id}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"


@pytest.mark.parametrize(
    ("raw_id", "name"),
    [
        ("functions.read:0", "read"),
        (" functions.read:0 \n", "read"),
        ("functions.read:812", "read"),
        ("functions.read:-1", "read"),
        ("functions.read", "read"),
        ("read:0", "read"),
        ("read", "read"),
        ("functions.fs.read:0", None),
        ("functions.fs:read:0", None),
        ("functions.fs/read:0", None),
        ("functions.Read:0", None),
        ("os.read:0", None),
        ("delete", None),
        ("functions.delete", None),
        ("read2", None),
        ("functions_read_1", "read"),
        ("functionsread7", "read"),
        ("4", "read"),
        ("call_0a1b", "read"),
        ("toolu_0a1b", "read"),
        ("", "read"),
        ("functions.write:0", None),
        ("functions.read it:0", None),
    ],
)
def test_the_tool_an_id_means(raw_id: str, name: str | None) -> None:
    """By its name where one is told, else by the one tool that takes these arguments."""
    text = _section(_call(raw_id))
    for way in splits(text):
        found = outcome(feed(leak_filter("kimi", TOOLS), way))
        if name is None:
            assert found.calls == []
            assert raw_id in found.problems[0].raw
        else:
            assert [(call[0], call[1]) for call in found.calls] == [(name, '{"path": "/x"}')]
            assert found.problems == []
        assert found.text == ""


MARKERS: dict[str, tuple[str, str, str, int]] = {
    "text around a section": ("a " + _section(_call("functions.read:0")) + " b", "a  b", "", 1),
    "two calls": (_section(_call("functions.read:0"), _call("functions.read:1")), "", "", 2),
    "two sections": (_section(_call("functions.read:0")) + "b" + _section(_call("functions.read:1")), "b", "", 2),
    "an empty section": ("a" + _section() + "b", "ab", "", 0),
    "no section": ("a" + _call("functions.read:0") + "b", "ab", "", 1),
    "no end of the section": ("<|tool_calls_section_begin|>" + _call("functions.read:0"), "", "", 1),
    "no begin of the section": (_call("functions.read:0") + "<|tool_calls_section_end|>b", "b", "", 1),
    "sections in the singular": (
        "<|tool_call_section_begin|>" + _call("functions.read:0") + "<|tool_call_section_end|>b", "b", "", 1,
    ),
    "no end of a call": (_section(_call("functions.read:0").removesuffix("<|tool_call_end|>")), "", "", 1),
    "a section inside unclosed thinking": ("<think>hm" + _section(_call("functions.read:0")), "", "hm", 1),
    "thinking, then a section": ("<think>hm</think>a" + _section(_call("functions.read:0")), "a", "hm", 1),
    "thinking after a section": (_section(_call("functions.read:0")) + "<think>hm</think>b", "b", "hm", 1),
    "fenced arguments": (_section(_call("functions.read:0", '```json\n{"path": "/x"}\n```')), "", "", 1),
    "no arguments between the markers": (_section(_call("functions.read:0", "")), "", "", 1),
}  # fmt: skip


@pytest.mark.parametrize("case", MARKERS)
def test_markers_that_are_missing_or_odd(case: str) -> None:
    text, said, thought, number = MARKERS[case]
    outcomes = [outcome(feed(get_filter("kimi", TOOLS, tags=THINK), way)) for way in splits(text)]
    assert all(found == outcomes[0] for found in outcomes)
    found = outcomes[0]
    assert (found.text, found.thinking, len(found.calls)) == (said, thought, number)
    assert {name for name, _ in found.parsed} <= {"read"}
    if "no arguments" not in case:
        assert all(arguments == {"path": "/x"} for _, arguments in found.parsed)


def test_an_answer_that_starts_inside_thinking() -> None:
    text = "hm</think>a" + _section(_call("functions.read:0"))
    found = outcome(feed(get_filter("kimi", TOOLS, tags=THINK, starts_inside=True), [text]))
    assert (found.thinking, found.text, len(found.calls)) == ("hm", "a", 1)


def test_a_call_cut_off_anywhere_never_looks_whole() -> None:
    text = _section(_call("functions.read:0"))
    for size in range(len(text)):
        found = _read(text[:size], tags=THINK)
        assert "|>" not in found.text
        for _, arguments, _ in found.calls:
            assert arguments == '{"path": "/x"}' or not arguments.endswith("}")


def test_a_bare_call_that_is_cut_off_is_no_call() -> None:
    text = "<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>"
    for size in range(len(text) + 1):
        assert outcome(feed(get_filter("kimi", [tool("now")]), [text[:size]])).calls == []


def test_words_between_the_calls_are_reported() -> None:
    found = _read(_section(_call("functions.read:0"), "and", _call("functions.read:1")))
    assert len(found.calls) == 2
    assert [problem.raw for problem in found.problems] == ["and"]
