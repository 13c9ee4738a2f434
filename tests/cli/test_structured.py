"""`ask --schema` and `ask --jsonl`: what a script reads, in which form, and how it ends."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from midstream.cli.ask import JSONL_VERSION, EventLines, _Outcome, _show_value
from midstream.cli.main import FAILED, OK, USAGE
from midstream.cli.schema_option import schema_given, short_schema
from midstream.core.blocks import Media, Turn
from midstream.core.errors import TimedOut
from midstream.core.events import BlockEvent, Done, ErrorInfo, Stopped, TextDelta

from .conftest import Cli

GPT = ("-m", "sim/gpt-4o")
S, N = {"type": "string"}, {"type": "integer"}

SHORT: tuple[tuple[str, dict[str, Any], list[str]], ...] = (
    ("name", {"name": S}, ["name"]),
    ("name, age int", {"name": S, "age": N}, ["name", "age"]),
    ("name str, ok bool, x float", {"name": S, "ok": {"type": "boolean"}, "x": {"type": "number"}}, ["name", "ok", "x"]),
    ("tags list[str], ids list[int]", {"tags": {"type": "array", "items": S}, "ids": {"type": "array", "items": N}}, ["tags", "ids"]),
    ("m list[list[int]]", {"m": {"type": "array", "items": {"type": "array", "items": N}}}, ["m"]),
    ("name, email str?", {"name": S, "email": S}, ["name"]),
    ("age int?", {"age": N}, []),
    ("when date", {"when": {"type": "string", "format": "date"}}, ["when"]),
    ("name: the full name, age int: in years", {"name": {**S, "description": "the full name"}, "age": {**N, "description": "in years"}}, ["name", "age"]),
    ("name: first, then last\nage int\n", {"name": {**S, "description": "first, then last"}, "age": N}, ["name", "age"]),
    ("größe float, 名前", {"größe": {"type": "number"}, "名前": S}, ["größe", "名前"]),
    ("site: a URL such as https://example.com", {"site": {**S, "description": "a URL such as https://example.com"}}, ["site"]),
)  # fmt: skip


@pytest.mark.parametrize(("text", "properties", "required"), SHORT)
def test_a_schema_in_short(text: str, properties: dict[str, Any], required: list[str]) -> None:
    wanted = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    assert short_schema(text) == wanted
    assert schema_given(text, many=True) == {"type": "array", "items": wanted}


WRONG = (
    ("", "is empty"),
    (",,", "is empty"),
    ("3d int", "no name of a field"),
    ("name, name int", "twice"),
    ("age integr", "unknown type 'integr'"),
    ("age list[integr]", "unknown type 'integr'"),
    ("person.json", "there is no file person.json"),
    ("./schemas/person", "there is no file"),
    ('{"type": ', "not JSON"),
    ("{}x", "not JSON"),
)


@pytest.mark.parametrize(("text", "why"), WRONG)
def test_what_is_no_schema_is_wrong_usage(text: str, why: str) -> None:
    with pytest.raises(click.UsageError, match=why):
        schema_given(text, many=False)


def test_a_schema_from_a_file_or_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "person.json"
    file.write_text('{"type": "object", "properties": {"größe": {"type": "number"}}}', "utf-8")
    assert schema_given(str(file), many=False)["properties"] == {"größe": {"type": "number"}}
    assert schema_given('{"type": "integer"}', many=False) == {"type": "integer"}
    file.write_text("[1]")
    with pytest.raises(click.UsageError, match="must be an object"):
        schema_given(str(file), many=False)


@pytest.mark.parametrize(
    "model", ["gpt-4o", "kimi-k2.5", "claude-sonnet-4-5", "qwen3:4b", "gemini-2.5-flash", "command-a-03-2025"]
)
def test_the_value_alone_is_on_stdout(cli: Cli, model: str) -> None:
    result = cli("ask", "-m", f"sim/{model}", "--schema", "name, age int, tags list[str]", "Invent a dog")
    assert result.exit_code == OK, result.stderr
    value = json.loads(result.stdout)
    assert list(value) == ["name", "age", "tags"] and isinstance(value["age"], int) and value["tags"]
    assert result.stdout == json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_it_indented_and_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = _Outcome()
    outcome.value = {"größe": [1], "text": "a\x9b31mb"}
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    _show_value(outcome, ())
    assert out.getvalue().startswith('{\n  "größe": [\n    1\n  ],\n') and "\x9b" not in out.getvalue()


def test_many_values_are_a_list(cli: Cli) -> None:
    result = cli("ask", *GPT, "--schema-multi", "name, age int", "Invent dogs")
    assert isinstance(json.loads(result.stdout), list) and result.exit_code == OK


def test_a_mismatch_is_a_failure_with_the_text_on_stderr(cli: Cli) -> None:
    result = cli("ask", *GPT, "--schema", '{"type": "string", "pattern": "^[0-9]{3}$"}', "Hello")
    assert result.exit_code == FAILED and result.stdout == ""
    assert "the answer does not follow its schema" in result.stderr and '{"value":"This is gpt-4o.' in result.stderr


def test_what_was_asked_and_answered_is_stored_and_goes_on(cli: Cli) -> None:
    found = json.loads(cli("ask", *GPT, "--schema", "name", "--json", "Invent a dog").stdout)
    assert found["value"] == json.loads(found["text"]) and found["stopped"] == "text"
    result = cli("ask", "--session", found["session"], "-m", "sim/claude-sonnet-4-5", "And its owner?")
    assert result.exit_code == OK


@pytest.mark.parametrize("flags", [("--json", "--jsonl"), ("--schema", "a", "--schema-multi", "b")])
def test_flags_that_exclude_each_other(cli: Cli, flags: tuple[str, ...]) -> None:
    result = cli("ask", *GPT, *flags, "Hello")
    assert result.exit_code == USAGE and "exclude each other" in result.stderr


def test_events_are_lines(cli: Cli) -> None:
    result = cli("ask", *GPT, "--jsonl", "-T", "glob", 'Glob "*.txt" and say grüß dich')
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == OK
    assert lines[0] == {"type": "midstream", "version": JSONL_VERSION, "model": "sim/gpt-4o", "session": None}
    types = [line["type"] for line in lines]
    assert types[1] == "start" and types[-2:] == ["stopped", "result"]
    assert {"toolcall_start", "toolcall_end", "tool_started", "tool_finished", "text_delta", "text_end", "done"} <= set(
        types
    )
    text = "".join([line["delta"] for line in lines if line["type"] == "text_delta"])
    assert lines[-1]["text"] in text and lines[-1]["session"] and lines[-1]["usage"]["output"] > 0
    assert "turns" not in lines[-1]


def test_errors_are_lines_too(cli: Cli) -> None:
    result = cli("ask", "-m", "nobody/model", "--jsonl", "Hello")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == USAGE and [line["type"] for line in lines] == ["midstream", "error"]
    assert lines[1]["error"]["kind"] == "unknown_model" and result.stderr == ""
    result = cli("ask", *GPT, "--jsonl", "--schema", '{"type": "string", "pattern": "^[0-9]{3}$"}', "Hello")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    errors = [line for line in lines if line["type"] == "error"]
    assert result.exit_code == FAILED and [line["error"]["kind"] for line in errors] == ["schema_mismatch"] * 2
    assert (
        lines[-1]["type"] == "result" and lines[-1]["value"] is None and lines[-1]["error"]["kind"] == "schema_mismatch"
    )


class Flushed(io.StringIO):
    """A pipe that knows what has reached its other end."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding
        self.arrived = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def flush(self) -> None:
        self.arrived = self.getvalue()


@pytest.mark.parametrize(("encoding", "plain"), [("utf-8", False), ("UTF8", False), ("ascii", True), ("latin-1", True)])
def test_a_line_is_whole_and_there_at_once(encoding: str, plain: bool) -> None:
    out = Flushed(encoding)
    lines = EventLines(out)
    events = (
        TextDelta(0, "größe \U0001f30d\u2028\x85\n"),
        TextDelta(0, "half \ud83c"),
        BlockEvent(1, Media.from_bytes(b"\x00\xff\n", "image/png")),
        Done(Turn("ai", (Media.from_bytes(b"\x00", "image/png"),))),
        Stopped("text"),
    )
    for number, event in enumerate(events, 1):
        lines.event(event)
        assert out.arrived.count("\n") == number
    lines.error(ErrorInfo.of(TimedOut("zu spät")))
    lines.result({"text": "größe"})
    written = out.arrived.split("\n")
    assert len(written) == len(events) + 3 and written[-1] == ""
    found = [json.loads(line) for line in written[:-1]]
    assert found[0]["delta"] == "größe \U0001f30d\u2028\x85\n" and found[1]["delta"] == "half \ufffd"
    assert out.arrived.isascii() is plain
    assert found[-2] == {"type": "error", "error": {"kind": "timed_out", "message": "zu spät", "retryable": True}}
