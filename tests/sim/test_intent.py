"""What people type in a demonstration does what it says, with whichever tools there are; no sentence is run as a command."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream import Agent, Approval, Session, Toolbox
from midstream.sim.intent import command_for
from midstream.sim.scripted_model import arguments_for, plan
from midstream.testing import sim_server

ALL = ("bash", "read_file", "write_file", "edit_file", "glob", "grep")
LS, STAR, READ = ("bash", {"command": "ls"}), ("glob", {"pattern": "*"}), ("read_file", {"path": "notes.txt"})


def bash(command: str) -> tuple[str, dict[str, str]]:
    return "bash", {"command": command}


# The prompt, the tools, and the rounds of calls.
CASES: list[tuple[str, tuple[str, ...], list[list[Any]]]] = [
    # Seed 004's own example, and seed 000's.
    ("List files in the current directory using the bash tool", ("bash",), [[LS]]),
    ("List files in the current directory using the bash tool", ALL, [[LS]]),
    ("List files using bash", ALL, [[LS]]),
    ("list files", ("glob",), [[STAR]]),
    # Our own pages'.
    ("List the files, then read README.md", ("glob", "read_file"), [[STAR], [("read_file", {"path": "README.md"})]]),
    ("What is in this folder?", ("glob", "read_file"), [[STAR]]),
    ("Call glob with pattern '*.py'", ALL, [[("glob", {"pattern": "*.py"})]]),
    # Their like.
    ("list files", ALL, [[STAR]]),
    ("List the files in src", ALL, [[("glob", {"pattern": "src/*"})]]),
    ("List the files in the src folder", ("bash",), [[bash("ls src")]]),
    ("List the *.py files", ("bash",), [[bash("ls *.py")]]),
    ("ls", ("bash",), [[LS]]),
    ("Read notes.txt", ALL, [[READ]]),
    ("Read notes.txt", ("bash",), [[bash("cat notes.txt")]]),
    ('Read "-it\'s odd.txt"', ("bash",), [[bash("cat './-it'\"'\"'s odd.txt'")]]),
    ("Show notes.txt", ALL, [[READ]]),
    ("Read Makefile", ALL, [[("read_file", {"path": "Makefile"})]]),
    ("Open /etc/hosts", ALL, [[("read_file", {"path": "/etc/hosts"})]]),
    ("Run ls -la", ALL, [[bash("ls -la")]]),
    ("Run the command pwd in bash.", ALL, [[bash("pwd")]]),
    ('Run "ls -la /tmp"', ALL, [[bash("ls -la /tmp")]]),
    ("Run `echo a; echo b, c` and read notes.txt", ALL, [[bash("echo a; echo b, c"), READ]]),
    ("Execute git status", ALL, [[bash("git status")]]),
    ("Where am I?", ALL, [[bash("pwd")]]),
    ("Search for TODO", ALL, [[("grep", {"pattern": "TODO"})]]),
    ("Use bash to list the files", ALL, [[LS]]),
    # A sentence is never run.
    ("Run the tests", ALL, [[bash("echo 'Run the tests'")]]),
    ("Tell me about bash", ALL, [[bash("echo 'Tell me about bash'")]]),
    ("Run it; rm -rf notes.txt", ("bash",), [[bash("echo 'Run it'")]]),
    ("Run ls", ("read_file",), []),
    ("Hello", ALL, []),
]  # fmt: skip


@pytest.mark.parametrize(("said", "names", "expected"), CASES)
def test_a_prompt_does_what_it_says(said: str, names: tuple[str, ...], expected: list[list[Any]]) -> None:
    tools = Toolbox(names).specs()
    assert [[(tool.name, arguments_for(tool, part)) for tool, part in calls] for calls in plan(said, tools)] == expected


@given(st.text(alphabet="abcdefg ;|&$()'\"`\n<>", max_size=30))
def test_what_is_not_a_command_is_only_echoed(said: str) -> None:
    command = command_for(f"Please {said}")
    assert command.startswith("echo ") or command in said


def test_the_seeds_example_lists_the_folder(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("buy milk\n")

    async def main() -> str:
        with sim_server() as sim:
            async with sim.client() as client, Session("moonshot/kimi-k2.5", client=client) as session:
                toolbox = Toolbox(("bash",), workdir=tmp_path, approve=Approval(None, yolo=True))
                result = await Agent(session, toolbox).run("List files in the current directory using the bash tool")
                return result.text

    assert "notes.txt" in asyncio.run(main())
