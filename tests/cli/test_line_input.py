"""Lines from a descriptor: none is lost, whatever happens to those who wait for one."""

from __future__ import annotations

import asyncio
import io
import os

import pytest

from midstream.agent.approval import ALWAYS, NO, ONCE, Decision
from midstream.agent.approval_request import ApprovalRequest
from midstream.cli import commands  # noqa: F401  (registers the slash commands)
from midstream.cli.line_input import LineInput, decision_of
from midstream.cli.slash import names_command


async def read_soon(lines: LineInput) -> str:
    async with asyncio.timeout(20):
        return await lines.read()


def test_a_line_typed_after_an_interrupted_wait_is_not_lost() -> None:
    source, sink = os.pipe()

    async def main() -> list[str]:
        lines = LineInput(source, io.StringIO(), interactive=True)
        for _ in range(3):
            waiting = asyncio.ensure_future(lines.read())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        os.write(sink, b"first\nsecond\nlast")
        os.close(sink)
        found = [await read_soon(lines) for _ in range(3)]
        with pytest.raises(EOFError):
            await read_soon(lines)
        return found

    try:
        assert asyncio.run(main()) == ["first", "second", "last"]
    finally:
        os.close(source)


def test_what_was_typed_before_a_question_is_not_its_answer() -> None:
    source, sink = os.pipe()
    request = ApprovalRequest("bash", {"command": "ls"}, runs=True)

    async def main() -> tuple[str, Decision, str]:
        lines = LineInput(source, out, interactive=True)
        os.write(sink, b"hello\ny\n")
        said = await read_soon(lines)
        asking = asyncio.ensure_future(lines.approve(request))
        await asyncio.sleep(0)
        os.write(sink, b"n\n")
        async with asyncio.timeout(20):
            return said, await asking, await lines.read()

    out = io.StringIO()
    try:
        assert asyncio.run(main()) == ("hello", NO, "y")
    finally:
        os.close(source)
        os.close(sink)
    assert "command: ls" in out.getvalue() and "Allow this?" in out.getvalue()


def test_a_command_is_asked_about_again_and_the_end_is_a_no() -> None:
    source, sink = os.pipe()
    request = ApprovalRequest("bash", {"command": "ls"}, runs=True)

    async def main() -> Decision:
        asking = asyncio.ensure_future(LineInput(source, out, interactive=True).approve(request, names_command))
        await asyncio.sleep(0)
        os.write(sink, b"/model x\n")
        os.close(sink)
        async with asyncio.timeout(20):
            return await asking

    out = io.StringIO()
    try:
        assert asyncio.run(main()) == NO
    finally:
        os.close(source)
    assert out.getvalue().count("Allow this?") == 2 and "a command is not an answer" in out.getvalue()


@pytest.mark.parametrize(
    ("line", "names"),
    [("/model x", True), (" /m x", True), ("/und", True), ("/tmp is full", False), ("/etc/hosts", False), ("/", False),
     ("no /model", False), ("", False)],
)  # fmt: skip
def test_which_lines_name_a_command(line: str, names: bool) -> None:
    assert names_command(line) is names


@pytest.mark.parametrize(
    ("text", "decision"),
    [("y", ONCE), (" YES ", ONCE), ("a", ALWAYS), ("always", ALWAYS), ("", NO), ("n", NO), ("No", NO),
     ("use git mv", Decision(False, reason="the user said: use git mv"))],
)  # fmt: skip
def test_what_an_answer_means(text: str, decision: Decision) -> None:
    assert decision_of(text) == decision
