"""Thinking folds and unfolds in place: the answer stays where it is, and nothing is there twice."""

from __future__ import annotations

import pytest

from .terminal import Open, Terminal

THOUGHT = "No tool is needed here."
FOLDED = "▸ thought"
ANSWER = "This is kimi-k2.5. You said: Hello"
CTRL_T = "\x14"


def transcript(screen: str) -> str:
    """What stands above the prompt."""
    return screen.rpartition("›")[0]


def lines_of(terminal: Terminal, *texts: str) -> list[int]:
    """The row of each text, which must be there exactly once."""
    rows = terminal.screen.split("\n")
    found = [[number for number, row in enumerate(rows) if text in row] for text in texts]
    assert all(len(each) == 1 for each in found), terminal.screen
    return [each[0] for each in found]


@pytest.mark.parametrize(("columns", "rows"), [(100, 40), (40, 24)])
def test_the_last_answer_is_folded_where_it_stands(opened: Open, columns: int, rows: int) -> None:
    terminal = opened("chat", "-m", "sim/kimi-k2.5", columns=columns, rows=rows)
    terminal.wait_for("›")
    for number in range(3):  # so that the screen has scrolled
        terminal.enter(f"Before {number}")
        terminal.wait_for("›", count=number + 2)
    terminal.enter("Hello")
    terminal.wait_for("›", count=5)
    before = terminal.screen
    for _ in range(2):
        terminal.type(CTRL_T)
        terminal.wait_for(THOUGHT)
        terminal.wait_for("›", count=5)  # the prompt is back
        (said, thought, answer) = lines_of(terminal, "› Hello", THOUGHT, ANSWER)
        assert said < thought < answer
        assert terminal.screen.count(FOLDED) == before.count(FOLDED) - 1
        terminal.type(CTRL_T)
        terminal.wait_for(FOLDED, count=before.count(FOLDED))
        terminal.wait_for("›", count=5)
        assert transcript(terminal.screen) == transcript(before)


def test_it_unfolds_above_the_answer_while_that_is_streaming(opened: Open) -> None:
    words = " ".join([f"word{number}" for number in range(60)])
    terminal = opened("chat", "-m", "sim/kimi-k2.5", MIDSTREAM_SIM_DELAY="0.1")
    terminal.wait_for("›")
    terminal.enter(words)
    terminal.wait_for("This is kimi-k2.5.")
    assert THOUGHT not in terminal.screen
    terminal.type(CTRL_T)
    terminal.wait_for(THOUGHT)
    terminal.wait_for("This is kimi-k2.5.")
    (thought, answer) = lines_of(terminal, THOUGHT, "This is kimi-k2.5.")
    assert thought < answer and FOLDED not in terminal.screen
    terminal.type(CTRL_T)
    terminal.wait_for(FOLDED)
    assert THOUGHT not in terminal.screen
    terminal.wait_for(" in, ")
    (folded, answer) = lines_of(terminal, FOLDED, "This is kimi-k2.5.")
    assert folded < answer


def test_what_is_no_longer_last_unfolds_below_and_folds_there(opened: Open) -> None:
    terminal = opened("chat", "-m", "sim/kimi-k2.5")
    terminal.wait_for("›")
    terminal.enter("Hello")
    terminal.wait_for("›", count=2)
    terminal.enter("/model")
    terminal.wait_for("›", count=3)
    terminal.type(CTRL_T)
    terminal.wait_for(THOUGHT)
    terminal.wait_for("›", count=3)
    (answer, asked, thought) = lines_of(terminal, ANSWER, "› /model", THOUGHT)
    assert answer < asked < thought
    terminal.type(CTRL_T)
    terminal.wait_for(FOLDED, count=2)
    assert THOUGHT not in terminal.screen


def test_an_answer_that_left_the_screen_is_not_touched(opened: Open) -> None:
    terminal = opened("chat", "-m", "sim/kimi-k2.5", rows=12)
    terminal.wait_for("›")
    terminal.enter("Hello " + " ".join([f"word{number}" for number in range(150)]))
    terminal.wait_for("2 turns")
    terminal.type(CTRL_T)
    terminal.wait_for(THOUGHT)
    screen = terminal.screen
    assert screen.count(FOLDED) == screen.count("You said") == 1
    assert screen.index(FOLDED) < screen.index("You said") < screen.index(" in, ") < screen.index(THOUGHT)
