"""The chat in a real terminal: a pty, keys, and the screen a human sees."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from midstream.core.blocks import Conversation, Thinking
from midstream.store import SqliteStore

from .conftest import Cli
from .terminal import Open

HOSTILE = "A\x1b]0;PWNED\x07B \x1b[2JC\x9b31mD \u202egnp.exe E\rF &#13; &#x1b;[5m &rlm; &#x202e; &#x9b;6n end"
ALLOW = "Allow this?"


def stored() -> Conversation:
    store = SqliteStore()
    try:
        return store.load(store.list(1)[0].id)
    finally:
        store.close()


def test_a_conversation_across_models_with_tools_and_a_resume(opened: Open) -> None:
    terminal = opened("chat", "-m", "sim/kimi-k2.5", MIDSTREAM_SIM_DELAY="0.03")
    terminal.wait_for("›")
    terminal.enter('Run bash "ls -1"')

    # Tokens show before the answer ends: the thinking is there, its last words are not.
    early = terminal.wait_for("Step 1 of 1")
    assert "ls -1" not in early.partition('Run bash "ls -1"')[2]
    assert "Esc stops" in terminal.wait_for("Esc stops")
    asked = terminal.wait_for(ALLOW)
    assert "command: ls -1" in asked
    assert "✓ notes.txt" not in asked
    terminal.enter("y")
    terminal.wait_for("✓ notes.txt")
    terminal.wait_for("Here is what I found. bash says: notes.txt")
    terminal.wait_for("(sim/kimi-k2.5 · ")

    terminal.enter("/toolformat kimi")
    terminal.wait_for("tool format: kimi (set by you")
    terminal.enter("/model sim/claude-sonnet-4-5")
    report = terminal.wait_for("to be read again")
    assert "dropped: thinking" in report and "1 tool_call" in report

    terminal.enter("Read notes.txt")
    terminal.wait_for("✓ buy milk")
    terminal.wait_for("read_file says: buy milk")
    terminal.wait_for("(sim/claude-sonnet-4-5 · ")
    terminal.enter("/exit")
    assert terminal.wait_for_end() == 0

    before = stored()
    assert [turn.speaker for turn in before.turns] == ["human", "ai", "tool", "ai", "human", "ai", "tool", "ai"]

    again = opened("chat", "--continue")
    screen = again.wait_for("read_file says: buy milk")
    for line in ('› Run bash "ls -1"', '⚙ bash(command="ls -1")', "✓ notes.txt", "› Read notes.txt", "✓ buy milk"):
        assert line in screen
    assert "sim/claude-sonnet-4-5 · tool format anthropic" in screen
    again.enter("Hello again")
    again.wait_for("You said: Hello again")
    again.wait_for("›", count=4)  # the prompt is back: between two prompts the terminal itself would take the key
    again.type("\x04")
    assert again.wait_for_end() == 0
    after = stored()
    assert after.turns[: len(before.turns)] == before.turns
    assert [turn.speaker for turn in after.turns[len(before.turns) :]] == ["human", "ai"]


@pytest.mark.parametrize("key", ["\x1b", "\x03", ""], ids=["esc", "ctrl-c", "sigint"])
def test_a_key_stops_the_answer_and_the_next_turn_works(opened: Open, key: str) -> None:
    terminal = opened("chat", "-m", "sim/kimi-k2.5", MIDSTREAM_SIM_DELAY="0.12")
    terminal.wait_for("›")
    terminal.enter("Tell me " + "one two three " * 6)
    terminal.wait_for("No tool")
    terminal.type(key) if key else terminal.process.kill(signal.SIGINT)
    terminal.wait_for("(stopped; what has arrived is kept)")
    turns = stored().turns
    assert [turn.speaker for turn in turns] == ["human", "ai"]
    assert turns[1].failure == "aborted"
    assert isinstance(turns[1].blocks[0], Thinking)

    terminal.enter("Hi")
    terminal.wait_for("You said: Hi")
    terminal.wait_for("out ·")
    terminal.enter("/exit")
    assert terminal.wait_for_end() == 0


def test_ctrl_c_twice_quits_and_once_does_not(opened: Open) -> None:
    terminal = opened("chat", "-m", "sim/kimi-k2.5")
    terminal.wait_for("›")
    terminal.type("half a thought\x03")
    terminal.wait_for("Ctrl-C again to quit")
    terminal.enter("/toolformat")
    terminal.wait_for("tool format: kimi (automatic")
    terminal.process.kill(signal.SIGINT)
    terminal.wait_for("Ctrl-C again to quit", count=2)
    terminal.type("\x03")
    assert terminal.wait_for_end() == 0


def test_typing_after_ctrl_c_means_to_stay(opened: Open) -> None:
    terminal = opened("chat", "-m", "sim/kimi-k2.5")
    terminal.wait_for("›")
    terminal.type("\x03")
    terminal.wait_for("Ctrl-C again to quit")
    terminal.wait_for("›", count=2)  # what is typed before the next prompt is also echoed by the terminal
    terminal.type("never mind")
    terminal.wait_for("› never mind")
    terminal.type("\x03")
    terminal.wait_for("Ctrl-C again to quit", count=2)
    terminal.enter("Hello")
    terminal.wait_for("You said: Hello")


def test_a_no_runs_nothing_and_an_always_is_remembered(opened: Open) -> None:
    terminal = opened("chat", "-m", "sim/gpt-4o")
    terminal.wait_for("›")
    terminal.enter('Run bash "touch made"')
    terminal.wait_for(ALLOW)
    terminal.enter("use another folder")
    terminal.wait_for("the user said: use another folder")
    terminal.wait_for("bash says: Error: not allowed")
    assert not Path("made").exists()
    terminal.enter('Run bash "echo $((40+2))"')
    terminal.wait_for(ALLOW, count=2)
    terminal.enter("a")
    terminal.wait_for("bash says: 42")
    terminal.enter('Run bash "echo $((40+2))"')
    terminal.wait_for("bash says: 42", count=2)
    assert terminal.screen.count(ALLOW) == 2


def test_a_command_is_no_answer_to_a_question_and_works_once_the_answer_is_stopped(opened: Open) -> None:
    terminal = opened("chat", "-m", "sim/kimi-k2.5")
    terminal.wait_for("›")
    terminal.enter('Run bash "touch made"')
    terminal.wait_for(ALLOW)
    terminal.type("/model sim/claude-sonnet-4-5\r")
    terminal.wait_for("a command is not an answer")
    terminal.wait_for(ALLOW, count=2)
    assert "the user said" not in terminal.screen and not Path("made").exists()
    terminal.type("\x1b")
    terminal.wait_for("(stopped; what has arrived is kept)")
    terminal.enter("/model sim/claude-sonnet-4-5")
    terminal.wait_for("model: sim/claude-sonnet-4-5")
    terminal.enter('Run bash "touch made"')
    terminal.wait_for(ALLOW, count=3)
    terminal.type("/tmp is where it belongs\r")
    terminal.wait_for("the user said: /tmp is where it belongs")
    terminal.wait_for("(sim/claude-sonnet-4-5 · ")


def test_esc_stops_a_question_and_a_running_tool_and_every_call_has_a_result(opened: Open) -> None:
    terminal = opened("chat", "-m", "sim/gpt-4o")
    terminal.wait_for("›")
    terminal.enter('Run bash "touch made"')
    terminal.wait_for(ALLOW)
    terminal.type("\x1b")
    terminal.wait_for("(stopped; what has arrived is kept)")
    assert not Path("made").exists()
    terminal.enter('Run bash "sleep 60"')
    terminal.wait_for(ALLOW, count=2)
    terminal.enter("y")
    terminal.wait_for("running bash")
    terminal.type("\x1b")
    terminal.wait_for("(stopped; what has arrived is kept)", count=2)
    turns = stored().turns
    calls = [call.id for turn in turns for call in turn.tool_calls]
    responses = [response for turn in turns for response in turn.tool_responses]
    assert calls == [response.call_id for response in responses] and len(calls) == 2
    assert "interrupted" in responses[1].text
    terminal.enter("Hello")
    terminal.wait_for("You said: Hello")


def test_a_dumb_terminal_gets_lines_and_is_asked_in_lines(opened: Open) -> None:
    terminal = opened("chat", "-m", "sim/kimi-k2.5", TERM="dumb")
    terminal.wait_for("›")
    terminal.enter('Run bash "touch made"')
    terminal.wait_for(ALLOW)
    terminal.enter("y")
    terminal.wait_for("out ·")
    assert Path("made").exists()
    terminal.type("\x03")
    terminal.wait_for("Ctrl-C again to quit")
    terminal.type("\x03")
    assert terminal.wait_for_end() == 0
    assert b"\x1b" not in terminal.raw

    one_shot = opened("ask", "-m", "sim/kimi-k2.5", "-T", "bash", 'Run bash "echo $((40+2))"')
    one_shot.wait_for(ALLOW)
    one_shot.enter("y")
    assert one_shot.wait_for_end() == 0
    assert "bash says: 42" in one_shot.screen


def test_the_prompt_completes_takes_several_lines_and_unfolds_thinking(opened: Open) -> None:
    terminal = opened("chat", "-m", "sim/kimi-k2.5")
    terminal.wait_for("›")
    terminal.type("/toolf")
    terminal.wait_for("/toolformat")
    terminal.type("\t")
    terminal.wait_for("› /toolformat")
    terminal.type(" her")
    terminal.wait_for("hermes")
    terminal.type("\t")
    terminal.wait_for("› /toolformat hermes")
    terminal.type("\r")
    terminal.wait_for("tool format: hermes")
    terminal.type("/model claude-sonnet-5")
    terminal.wait_for("sim/claude-sonnet-5")
    terminal.type("\x15")  # Ctrl-U

    terminal.type("alpha\x1b\rbeta\\\r")
    terminal.enter("delta")
    folded = terminal.wait_for("You said:")
    assert "▸ thought for" in folded
    terminal.wait_for("out ·")
    assert stored().turns[0].text == "alpha\nbeta\ndelta"

    assert "No tool is needed here." not in terminal.screen
    terminal.type("\x14")
    terminal.wait_for("No tool is needed here.")


def test_nothing_a_model_or_a_tool_says_steers_the_terminal(opened: Open) -> None:
    Path("evil.txt").write_text(HOSTILE, "utf-8", newline="")
    terminal = opened("chat", "-m", "sim/kimi-k2.5")
    terminal.wait_for("›")
    terminal.enter("Read evil.txt")
    screen = terminal.wait_for("read_file says: A")
    terminal.wait_for("out ·")
    assert "␛]0;PWNED␇" in screen and "E␍F" in screen
    _assert_harmless(terminal.raw)
    resumed = opened("chat", "--continue")
    resumed.wait_for("read_file says: A")
    _assert_harmless(resumed.raw)
    dumb = opened("ask", "-m", "sim/kimi-k2.5", HOSTILE.replace("\x00", ""), TERM="dumb")
    assert dumb.wait_for_end() == 0
    assert "PWNED" in dumb.screen
    assert b"\x1b" not in dumb.raw
    _assert_harmless(dumb.raw)


def _assert_harmless(raw: bytes) -> None:
    text = raw.decode()
    assert "\x07" not in text
    assert not re.search("[\x80-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", text)
    for sequence in ("\x1b]", "\x1b[2JC", "\x1b[5m", "E\rF"):
        assert sequence not in text


def test_a_terminated_chat_keeps_what_came(opened: Open) -> None:
    terminal = opened("chat", "-m", "sim/kimi-k2.5", MIDSTREAM_SIM_DELAY="0.12")
    terminal.wait_for("›")
    terminal.enter("Tell me a lot")
    terminal.wait_for("No tool")
    terminal.process.kill(signal.SIGTERM)
    assert terminal.wait_for_end() == 143
    turns = stored().turns
    assert [turn.speaker for turn in turns] == ["human", "ai"] and turns[1].failure == "aborted"


def test_a_killed_chat_can_be_continued(opened: Open) -> None:
    terminal = opened("chat", "-m", "sim/gpt-4o")
    terminal.wait_for("›")
    terminal.enter('Run bash "touch made"')
    terminal.wait_for(ALLOW)
    terminal.process.kill(signal.SIGKILL)
    terminal.wait_for_end()
    assert [turn.speaker for turn in stored().turns] == ["human", "ai"]
    result = Cli()("ask", "--continue", "-m", "sim/claude-sonnet-4-5", "Hello")
    assert result.stdout == "This is claude-sonnet-4-5. You said: Hello\n", result.stderr


def test_no_color_and_columns_are_respected(opened: Open) -> None:
    terminal = opened("chat", "-m", "sim/kimi-k2.5", NO_COLOR="1", COLUMNS="40")
    terminal.wait_for("›")
    terminal.enter("word " * 30)
    terminal.wait_for("You said")
    screen = terminal.wait_for("out ·")
    answer = screen.partition("This is kimi-k2.5.")[2]
    assert all(len(line) <= 40 for line in answer.split("\n")[1:4])
    terminal.enter("Read notes.txt")
    terminal.wait_for("read_file says")
    assert not re.search(rb"\x1b\[[0-9;]*(?:3[0-7]|9[0-7]|38;|48;)[0-9;]*m", terminal.raw)
