from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.agent.approval import ALWAYS, NO, ONCE, Approval, Decision
from midstream.agent.approval_request import ApprovalRequest
from midstream.agent.tool import Tool, tool
from midstream.agent.toolbox import BUILTIN, Toolbox, interrupted
from midstream.core.blocks import Media, Text, ToolCall, ToolResponse
from midstream.core.errors import ConfigError, ToolFailed
from midstream.core.tools import Grammar, ToolSpec, freeform_arguments

YOLO = Approval(yolo=True)


def call(name: str, id: str = "hist_tool_1", /, **arguments: Any) -> ToolCall:
    return ToolCall(id, name, msgspec.json.encode(arguments).decode())


def run(box: Toolbox, each: ToolCall) -> ToolResponse:
    response = asyncio.run(box.run(each))
    assert (response.call_id, response.name) == (each.id, each.name)
    assert response.content, "a result says something"
    msgspec.json.encode(response)
    return response


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


async def slow() -> None:
    await asyncio.sleep(999)


def fails() -> None:
    raise ValueError("first line\nsecond line with /secret/path")


def wordless() -> None:
    raise KeyError


def exits() -> None:
    sys.exit(3)


async def exits_async() -> None:
    sys.exit(3)


def stops() -> None:
    raise StopIteration


async def cancels() -> None:
    raise asyncio.CancelledError


async def times_out() -> None:
    raise TimeoutError("its own")


def long_words() -> None:
    raise RuntimeError("x" * 10_000)


def recursive() -> None:
    recursive()


def refuses() -> None:
    raise ToolFailed("two lines\nfor the model")


def picture() -> Media:
    return Media("image/png", "AA==")


FUNCTIONS = [
    add,
    fails,
    wordless,
    exits,
    exits_async,
    stops,
    cancels,
    times_out,
    long_words,
    recursive,
    refuses,
    picture,
]

ERRORS: dict[str, tuple[ToolCall, list[str]]] = {
    "unknown tool": (call("rm_rf"), ["no tool 'rm_rf'", "add, fails"]),
    "nearly a tool": (call("ad"), ["did you mean 'add'"]),
    "no JSON": (ToolCall("i", "add", '{"a": 1'), ["_parse_error", "_raw", '{\\"a\\": 1']),
    "no object": (ToolCall("i", "add", "[1]"), ["_parse_error", "object"]),
    "deep": (ToolCall("i", "add", '{"a":' + "[" * 100_000), ["_parse_error"]),
    "missing": (call("add"), ["missing required argument 'a'"]),
    "wrong": (call("add", a="x"), ["'a'", "`int`"]),
    "unknown argument": (call("add", a=1, c=2), ["unknown argument 'c'"]),
    "an exception": (call("fails"), ["ValueError: first line"]),
    "an exception without words": (call("wordless"), ["KeyError"]),
    "an exit": (call("exits"), ["SystemExit"]),
    "an async exit": (call("exits_async"), ["SystemExit"]),
    "a stop": (call("stops"), ["StopIteration"]),
    "a cancellation from within": (call("cancels"), ["cancelled itself"]),
    "a timeout of its own": (call("times_out"), ["TimeoutError: its own"]),
    "long words": (call("long_words"), ["RuntimeError: xxx", "…"]),
    "no end": (call("recursive"), ["RecursionError"]),
    "a refusal is passed on as it is": (call("refuses"), ["two lines\nfor the model"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_every_failure_is_a_result(case: str) -> None:
    each, words = ERRORS[case]
    response = run(Toolbox(FUNCTIONS), each)
    assert response.is_error
    assert [word for word in words if word not in response.text] == []
    assert "secret" not in response.text
    assert len(response.text) < 3000


def test_a_good_call() -> None:
    response = run(Toolbox(FUNCTIONS), call("add", a=2, b=3))
    assert (response.text, response.is_error) == ("5", False)
    assert run(Toolbox(FUNCTIONS), call("picture")).content == (Media("image/png", "AA=="),)
    assert run(Toolbox([refuses]), ToolCall("i", "refuses", "")).text.startswith("two"), "no text means no arguments"


def test_arguments_that_do_not_parse_run_nothing() -> None:
    ran = []
    box = Toolbox([Tool(ToolSpec("any"), lambda **kwargs: ran.append(kwargs))])
    run(box, ToolCall("i", "any", "{"))
    assert ran == []
    run(box, ToolCall("i", "any", '{"x": 1}'))
    assert ran == [{"x": 1}]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["add", "refuses", "other", ""]), st.text(max_size=30) | st.binary().map(repr))
def test_whatever_a_model_writes_there_is_a_result(name: str, arguments: str) -> None:
    run(Toolbox([add, refuses]), ToolCall("i", name, arguments))


def test_the_specs_are_what_the_model_is_told(tmp_path: Path) -> None:
    box = Toolbox([*BUILTIN, add], workdir=tmp_path)
    assert [spec.name for spec in box.specs()] == [*BUILTIN, "add"]
    for spec in box.specs():
        assert spec.description
        assert spec.parameters is not None
        assert spec.parameters["type"] == "object"
        assert "$ref" not in msgspec.json.encode(spec.parameters).decode()
    flags = {tool.name: (tool.writes, tool.runs, tool.parallel_safe) for tool in box._tools.values()}
    asks, free = (True, False, False), (False, False, True)
    assert flags == {
        "bash": (False, True, False),
        "read_file": free,
        "write_file": asks,
        "edit_file": asks,
        "glob": free,
        "grep": free,
        "add": free,
    }


def test_two_tools_of_one_name_and_unknown_built_in_ones_are_refused() -> None:
    with pytest.raises(ConfigError, match="two tools"):
        Toolbox([add, add])
    with pytest.raises(ConfigError, match="expected one of bash"):
        Toolbox(["sudo"])


def test_the_built_in_tools_work_together(tmp_path: Path) -> None:
    box = Toolbox(approve=YOLO, workdir=tmp_path)
    assert run(box, call("write_file", path="a.txt", content="one\n")).text == "created a.txt: 4 bytes"
    assert run(box, call("edit_file", path="a.txt", old_string="one", new_string="two")).is_error is False
    assert run(box, call("read_file", path="a.txt")).text == "two"
    assert run(box, call("glob", pattern="*.txt")).text == "a.txt"
    assert run(box, call("grep", pattern="tw.")).text == "a.txt:1:two"
    assert run(box, call("bash", command="cat a.txt")).text == "two"
    assert run(box, call("read_file", path="../x")).is_error
    assert run(box, call("read_file", path="a.txt", offset=0)).is_error


def test_without_a_yes_nothing_is_written_or_run(tmp_path: Path) -> None:
    for approve in (None, Approval(), Approval(_answer(NO)), Approval(_answer(Decision(False, reason="because")))):
        box = Toolbox(approve=approve, workdir=tmp_path)
        for each in (call("write_file", path="x", content=""), call("bash", command="touch x")):
            response = run(box, each)
            assert response.is_error
            assert response.text.startswith("not allowed, nothing was run")
    assert "because" in response.text
    assert not (tmp_path / "x").exists()


def test_a_question_that_fails_runs_nothing(tmp_path: Path) -> None:
    async def broken(request: ApprovalRequest) -> Decision:
        raise EOFError

    box = Toolbox(approve=Approval(broken), workdir=tmp_path)
    with pytest.raises(EOFError):
        run(box, call("bash", command="touch x"))
    assert not (tmp_path / "x").exists()


def test_nobody_is_asked_about_a_call_that_cannot_run_or_only_reads(tmp_path: Path) -> None:
    asked: list[str] = []
    box = Toolbox(approve=Approval(_answer(ONCE, asked)), workdir=tmp_path)
    for each in (call("bash"), call("bash", command=1), call("bahs", command="x"), call("glob", pattern="*")):
        run(box, each)
    assert asked == []
    run(box, call("bash", command="true"))
    assert asked == ["bash"]


def _answer(answer: Decision, asked: list[str] | None = None) -> Callable[[ApprovalRequest], Any]:
    async def ask(request: ApprovalRequest) -> Decision:
        if asked is not None:
            asked.append(request.tool)
        return answer

    return ask


def test_a_slow_tool_is_given_up() -> None:
    never = threading.Event()
    box = Toolbox([Tool.from_function(slow, timeout=0.05), Tool.from_function(never.wait, name="wait", timeout=0.05)])
    assert "longer than 0.05 s" in run(box, call("slow")).text
    assert "longer than 0.05 s" in run(box, call("wait")).text, "and the program can end although its thread does not"
    never.set()


def test_a_long_result_is_cut_in_its_middle() -> None:
    box = Toolbox([Tool.from_function(lambda: "a" * 100 + "b" * 100, name="long")], max_result=20)
    assert run(box, call("long")).text == "a" * 10 + "\n[… 180 characters cut …]\n" + "b" * 10


class Recorder:
    """Tools that note when they begin and end."""

    def __init__(self) -> None:
        self.log: list[str] = []

    async def read(self, n: int) -> str:
        self.log.append(f"+r{n}")
        for _ in range(10 - n):
            await asyncio.sleep(0)
        self.log.append(f"-r{n}")
        return f"r{n}"

    async def write(self, n: int) -> str:
        self.log.append(f"+w{n}")
        await asyncio.sleep(0)
        self.log.append(f"-w{n}")
        return f"w{n}"

    def box(self) -> Toolbox:
        return Toolbox([self.read, Tool.from_function(self.write, writes=True)], approve=YOLO)


def test_reads_run_together_and_writes_in_order() -> None:
    recorder = Recorder()
    calls = [
        call(name, str(n), n=n) for n, name in enumerate(["read", "read", "write", "write", "read", "nosuch", "read"])
    ]
    seen: list[str] = []
    responses = asyncio.run(recorder.box().run_all(calls, lambda each, response: seen.append(each.id)))
    assert [response.call_id for response in responses] == [each.id for each in calls]
    assert [response.text for response in responses if not response.is_error] == ["r0", "r1", "w2", "w3", "r4", "r6"]
    assert responses[5].is_error
    log = recorder.log
    assert log[:2] == ["+r0", "+r1"], "both reads are under way before either ends"
    assert log[4:8] == ["+w2", "-w2", "+w3", "-w3"]
    assert log[8:10] == ["+r4", "+r6"]
    assert seen != [each.id for each in calls], "results are reported as they come"
    assert sorted(seen) == [each.id for each in calls]


def test_at_most_eight_run_at_once() -> None:
    now = most = 0

    async def count() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    asyncio.run(Toolbox([count]).run_all([call("count", str(i)) for i in range(30)]))
    assert most == 8


def test_an_interrupt_leaves_a_result_for_every_call(tmp_path: Path) -> None:
    box = Toolbox([*BUILTIN, add], approve=YOLO, workdir=tmp_path)
    mark = f"MARK_{os.urandom(8).hex()}"
    calls = [
        call("add", "1", a=1),
        call("bash", "2", command=f"touch started; export {mark}=1; setsid sleep 999 & sleep 999"),
        call("write_file", "3", path="never", content=""),
        call("add", "4", a=1),
    ]
    results: dict[str, ToolResponse] = {}

    async def main() -> None:
        task = asyncio.ensure_future(box.run_all(calls, lambda each, response: results.update({each.id: response})))
        while not (tmp_path / "started").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not _carrying(mark)

    asyncio.run(main())
    assert list(results) == ["1", "2", "3", "4"]
    assert results["1"].text == "2"
    assert results["2"] == interrupted(calls[1], started=True)
    assert results["3"] == interrupted(calls[2], started=False)
    assert results["4"].is_error
    assert not (tmp_path / "never").exists()


def test_a_collector_that_fails_leaves_nothing_running() -> None:
    ended = []

    async def quick() -> None: ...

    async def endless() -> None:
        try:
            await asyncio.sleep(999)
        finally:
            await asyncio.sleep(0)  # it takes a while to end what it started
            ended.append(True)

    def collect(each: ToolCall, response: ToolResponse) -> None:
        if each.name == "quick":
            raise OSError("disk full")

    async def main() -> None:
        with pytest.raises(OSError, match="disk full"):
            await Toolbox([quick, endless]).run_all([call("endless", "1"), call("quick", "2")], collect)
        assert ended

    asyncio.run(main())


def _carrying(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


def test_an_interrupt_while_the_human_is_asked_runs_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        asked = asyncio.Event()

        async def ask(request: ApprovalRequest) -> Decision:
            asked.set()
            await asyncio.sleep(999)
            return ALWAYS

        box = Toolbox(approve=Approval(ask), workdir=tmp_path)
        results: list[ToolResponse] = []
        task = asyncio.ensure_future(box.run_all([call("bash", command="touch x")], lambda _, r: results.append(r)))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [result.is_error for result in results] == [True]

    asyncio.run(main())
    assert not (tmp_path / "x").exists()


def test_a_decorated_function_is_taken_as_it_is() -> None:
    @tool(name="renamed")
    def original(x: str) -> Text:
        return Text(x)

    assert run(Toolbox([original]), call("renamed", x="y")).text == "y"


def test_a_freeform_tool_gets_the_text_and_a_namespace_keeps_names_apart() -> None:
    def shout(text: str) -> str:
        """Shouts."""
        return text.upper()

    grammar = Grammar("regex", ".+")
    box = Toolbox(
        [
            Tool.freeform(shout, grammar=grammar),
            Tool.from_function(lambda: "mine", name="shout", namespace="a"),
            Tool.freeform(shout, name="shout", namespace="b"),
        ]
    )
    first, second, third = box.specs()
    assert (first.kind, first.grammar, first.description) == ("freeform", grammar, "Shouts.")
    assert (second.namespace, third.namespace, third.kind) == ("a", "b", "freeform")
    assert "shout" in box and "a/shout" in box and "c/shout" not in box
    calls = [
        ToolCall("1", "shout", freeform_arguments("hi {"), kind="freeform"),
        ToolCall("2", "shout", "{}", namespace="a"),
        ToolCall("3", "shout", freeform_arguments("ho"), kind="freeform", namespace="b"),
        ToolCall("4", "shout", "{}", namespace="c"),
    ]
    results = asyncio.run(box.run_all(calls))
    assert [result.text for result in results[:3]] == ["HI {", "mine", "HO"]
    assert results[3].is_error and "c/shout" in results[3].text


@pytest.mark.parametrize("wrong", [lambda: "", lambda a, b: "", lambda n: ""])
def test_a_freeform_tool_takes_one_string(wrong: Callable[..., str]) -> None:
    wrong.__annotations__.update({"n": int} if "n" in wrong.__code__.co_varnames else {})
    with pytest.raises(ConfigError, match="one parameter, a string"):
        Tool.freeform(wrong, name="x")
