"""Which options each model takes and how they are said there, as tables; what is not sent as asked leaves a note.

The tables are in tests/data/dialects/: `efforts.json` (what each effort is sent as), `keep.json` (how a host is asked to keep
all reasoning), `options.json` (where an option goes, null where the host does not take it), `budgets.json` (thinking within
the caller's limit of tokens).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from midstream import Conversation, encode_request, human
from midstream.core.blocks import Origin, Text, Thinking, ToolCall, ToolResponse, Turn
from midstream.core.dialect import EFFORTS, KEEPS, Options
from midstream.core.tools import ToolSpec
from midstream.dialects.efforts import EFFORTS as TABLE
from midstream.dialects.families import search
from midstream.dialects.registry import REGISTRY, resolve
from midstream.wires.history_cache import HistoryCache
from midstream.wires.openai_chat.thinking import KEEPS as CHAT_KEEPS
from midstream.wires.request import Request
from tests.long_run import each_kind

DATA = Path(__file__).parents[1] / "data" / "dialects"
HISTORY = ("messages", "input", "contents", "prompt")
CALL = ToolCall("hist_tool_" + "a" * 24, "look", "{}")
TOOL = ToolSpec("look", "Look", {"type": "object", "properties": {}})


def table(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = msgspec.json.decode((DATA / f"{name}.json").read_bytes())
    return rows


def label(row: dict[str, Any]) -> str:
    return row["model"] + "".join([f" {key}={value}" for key, value in row.get("options", {}).items()])


def control(row: dict[str, Any]) -> tuple[str, ...]:
    """How the model of a row is asked to think, and to keep what it thought."""
    dialect = resolve(row["model"]).dialect
    return dialect.wire, dialect.reasoning.control, dialect.reasoning.keep


def body_of(request: Request) -> dict[str, Any]:
    """The body without the history."""
    body: dict[str, Any] = msgspec.json.decode(request.body)
    return {key: value for key, value in body.items() if key not in HISTORY}


def find(body: Any, place: str) -> Any:
    for key in place.split("."):
        body = body.get(key) if isinstance(body, dict) else None
    return body


def codes(request: Request) -> list[str]:
    return [note.code for note in request.notes]


@each_kind("row", table("efforts"), lambda row: repr((control(row), row["sent"], row["field"])), ids=label)
def test_an_effort_is_sent_as_the_model_takes_it_and_another_is_told(row: dict[str, Any]) -> None:
    assert set(row["sent"]) == set(EFFORTS), "every effort has its line"
    for asked, sent in row["sent"].items():
        request = encode_request(row["model"], "hi", tools=(TOOL,), options=Options(effort=asked))
        assert find(body_of(request), row["field"]) == sent, asked
        told = {"thinking_changed", "unsupported_option"} & set(codes(request))
        off = asked == "none" and "thinking_changed" not in told  # thinking is off: that is what was asked for
        assert bool(told) == (sent != asked and not off), (asked, request.notes)


def test_every_row_of_the_efforts_is_met_by_a_model() -> None:
    models = [row["model"].partition("/")[2].lower() for row in table("efforts")]
    met = {next((pattern for pattern, *_ in TABLE if search(pattern, model)), "") for model in models}
    assert {pattern for pattern, *_ in TABLE} <= met


def thought_of(name: str) -> Conversation:
    """Two finished questions, one answered with a call and one without, and a third."""
    target = resolve(name)
    origin = Origin(target.dialect.provider, target.dialect.wire, target.model)
    said = Thinking("thought one", "", origin=origin)
    again = Thinking("thought two", "", origin=origin)
    return Conversation(
        (
            human("hi", key="t0"),
            Turn("ai", (said, CALL), key="t1", origin=origin),
            Turn("tool", (ToolResponse(CALL.id, "look", (Text("x"),)),), key="t2"),
            Turn("ai", (again, Text("done")), key="t3", origin=origin),
            human("go on", key="t4"),
        )
    )


@each_kind(
    "row", table("keep"), lambda row: repr((control(row), row["options"], row["echoed"], row["told"])), ids=label
)
def test_a_host_is_asked_to_keep_all_reasoning_in_its_own_words(row: dict[str, Any]) -> None:
    options = Options(**row["options"])
    request = encode_request(row["model"], thought_of(row["model"]), tools=(TOOL,), options=options)
    body = body_of(request)
    plain = body_of(encode_request(row["model"], thought_of(row["model"]), tools=(TOOL,), options=Options(
        **{**row["options"], "keep_thinking": None}
    )))  # fmt: skip
    assert {field: body.get(field) for field in row["fields"]} == row["fields"]
    if row["told"]:
        assert body == plain
    assert [text in request.body.decode() for text in ("thought one", "thought two")] == row["echoed"]
    asked = options.keep_thinking is not None
    assert ("unsupported_option" in codes(request)) == (asked and row["told"]), request.notes


def test_every_word_for_keeping_is_one_that_a_wire_can_say_and_some_host_wants() -> None:
    assert set(CHAT_KEEPS) | {"", "always"} == set(KEEPS["openai-chat"])
    used = {dialect.reasoning.keep for dialect in REGISTRY.dialects().values()}
    assert used == {word for words in KEEPS.values() for word in words}


@each_kind("row", table("options"), lambda row: repr((control(row), row["places"])), ids=label)
def test_an_option_goes_where_the_host_takes_it_or_leaves_a_note(row: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "user": "someone", "temperature": 0.5, "top_p": 0.75, "stop": ("END",), "seed": 7, "presence_penalty": 0.25,
        "frequency_penalty": 0.125, "parallel_tool_calls": False,
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}},
    }  # fmt: skip
    assert set(row["places"]) == set(given), "every option has its line"
    base = body_of(encode_request(row["model"], "hi", tools=(TOOL,), options=Options(**row.get("options", {}))))
    for option, place in row["places"].items():
        tools = () if option == "response_format" else (TOOL,)
        options = Options(**{option: given[option]}, **row.get("options", {}))
        request = encode_request(row["model"], "hi", tools=tools, options=options)
        body = body_of(request)
        if place is None:
            assert "unsupported_option" in codes(request), option
            assert {key: value for key, value in body.items() if key != "tools"} == {
                key: value for key, value in base.items() if key != "tools"
            }, option
        else:
            assert find(body, place) is not None, option
            assert "unsupported_option" not in codes(request), option


@each_kind("row", table("budgets"), lambda row: repr((control(row), row["options"], row["notes"])), ids=label)
def test_max_tokens_is_the_callers_limit_with_a_thinking_budget_too(row: dict[str, Any]) -> None:
    request = encode_request(row["model"], "hi", options=Options(**row["options"]))
    body = body_of(request)
    assert {place: find(body, place) for place in row["wanted"]} == row["wanted"]
    assert codes(request) == row["notes"]


def test_a_history_that_was_kept_encoded_is_not_sent_to_who_wants_less_of_it() -> None:
    name, conversation, cache = "qwen/qwen3.6-plus", thought_of("qwen/qwen3.6-plus"), HistoryCache()
    for keep in (True, False, True):
        options = Options(thinking="on", keep_thinking=keep)
        request = encode_request(name, conversation, options=options, cache=cache)
        assert (b"thought two" in request.body) is keep
