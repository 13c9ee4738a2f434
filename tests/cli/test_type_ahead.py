"""What is typed or pasted while there is no prompt: it waits for one, and runs nothing without an Enter of its own."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from .terminal import Open, Terminal
from .test_chat_terminal import stored

STORY = "Tell me a story " * 8
HINT = "Enter runs it"
LINE_EDITOR = "import sys; open(sys.argv[1], 'a').write('- ' + input('new note: ') + '\\n')"


def streaming(opened: Open, **changes: str) -> Terminal:
    """A chat in the middle of an answer."""
    terminal = opened("chat", "-m", "sim/kimi-k2.5", "--no-tools", MIDSTREAM_SIM_DELAY="0.05", **changes)
    terminal.wait_for("›")
    terminal.enter(STORY)
    terminal.wait_for("No tool")
    return terminal


def test_what_is_pasted_while_an_answer_streams_waits_in_the_prompt(opened: Open) -> None:
    terminal = streaming(opened)
    terminal.paste("A script I found:\n!touch pwned\nbye")
    terminal.wait_for("out ·")
    terminal.wait_for("… bye")
    assert not Path("pwned").exists()
    assert [turn.speaker for turn in stored().turns] == ["human", "ai"]
    terminal.type("\r")
    terminal.wait_for_words("You said: A script I found: !touch pwned bye")
    assert not Path("pwned").exists()


def test_pastes_are_marked_from_the_beginning_to_the_end(opened: Open) -> None:
    terminal = streaming(opened)
    terminal.enter("/tools")  # each of these ends one prompt and begins another
    terminal.enter("!echo $((40+2))")
    terminal.wait_for("42")
    terminal.wait_for_prompt()
    assert terminal.brackets_pastes and b"\x1b[?2004l" not in terminal.raw
    terminal.enter("/exit")
    assert terminal.wait_for_end() == 0
    assert not terminal.brackets_pastes


@pytest.mark.parametrize(
    ("changes", "typed", "ran"),
    [
        ({}, "!touch ran\r", "exit code 0"),
        ({}, "!touch ran\x0f", "exit code 0"),  # Ctrl-O sends, too
        ({}, " /model sim/gpt-4o\r", "model: sim/gpt-4o"),
        # The message goes by itself, as it always did, and the command behind it does not.
        ({}, "Hello\r!touch ran\r", "exit code 0"),
        ({"TERM": "dumb"}, "!touch ran\n", "exit code 0"),
        ({"TERM": "dumb"}, "/model sim/gpt-4o\n", "model: sim/gpt-4o"),
    ],
    ids=["shell", "ctrl-o", "slash", "behind a message", "dumb shell", "dumb slash"],
)
def test_a_command_that_was_typed_ahead_waits_for_its_own_enter(
    opened: Open, changes: dict[str, str], typed: str, ran: str
) -> None:
    terminal = streaming(opened, **changes)
    terminal.type(typed)
    terminal.wait_for(HINT)
    assert not Path("ran").exists() and ran not in terminal.screen
    assert ("You said: Hello" in terminal.screen) is typed.startswith("Hello")
    terminal.type("\r")
    terminal.wait_for(ran)


def test_what_was_typed_ahead_can_be_dropped(opened: Open) -> None:
    terminal = streaming(opened)
    terminal.type("!touch ran\r!touch too\r")
    screen = terminal.wait_for(HINT)
    assert "› !touch ran\n… !touch too" in screen  # all of it, before anything of it runs
    terminal.type("\x03")
    terminal.wait_for("Ctrl-C again to quit")
    terminal.enter("!echo $((40+2))")
    terminal.wait_for("42")
    assert not Path("ran").exists() and not Path("too").exists()


def test_an_editor_has_the_terminal_to_itself(opened: Open) -> None:
    Path("edit.py").write_text(LINE_EDITOR)
    terminal = opened("chat", "-m", "sim/kimi-k2.5", "--memory", EDITOR=shlex.join([sys.executable, "edit.py"]))
    terminal.wait_for("›")
    terminal.enter("/memory edit user")
    terminal.wait_for("new note:")
    assert not terminal.brackets_pastes
    terminal.enter("the river is wide")
    terminal.wait_for("1. the river is wide")
    terminal.wait_for_prompt()
    assert terminal.brackets_pastes
