"""An answer that breaks off is never printed twice: what was written as it came is not requested again, what waits for its end is."""

from __future__ import annotations

import msgspec
import pytest

from midstream.cli.main import OK, RETRY
from midstream.sim.server import Sim

from .conftest import Cli
from .terminal import Open

MODEL = ("-m", "moonshot/kimi-k2.5")
QUESTION = "Say " + " ".join([f"word{number}" for number in range(30)])
WHOLE = f"This is kimi-k2.5. You said: {QUESTION}\n"
AGAIN = "the answer broke off and is requested again"
BEGINNING = "This is kimi-k2.5."


@pytest.fixture
def opened(environ: dict[str, str], doubles: Sim, opened: Open) -> Open:
    """Terminals whose Moonshot is a double."""
    environ["MOONSHOT_API_BASE"] = f"{doubles.url}/moonshot"
    return opened


@pytest.mark.parametrize("flags", [("--no-stream",), ("--no-stream", "--thinking", "off")], ids=str)
def test_an_answer_that_waits_for_its_end_is_whole_and_there_once(
    cli: Cli, doubles: Sim, flags: tuple[str, ...]
) -> None:
    doubles.inject("cut", 1)
    result = cli("ask", *MODEL, *flags, QUESTION)
    assert (result.exit_code, result.stdout) == (OK, WHOLE)
    assert result.stderr.count(AGAIN) == 1


def test_of_an_answer_that_breaks_off_for_good_a_pipe_gets_what_arrived_last(cli: Cli, doubles: Sim) -> None:
    doubles.inject("cut", 9)
    result = cli("ask", *MODEL, "--thinking", "off", QUESTION)
    assert result.exit_code == RETRY and AGAIN not in result.stderr and doubles.requests == 1
    assert result.stdout.count(BEGINNING) == 1 and WHOLE.startswith(result.stdout.rstrip("\n"))
    whole = cli("ask", *MODEL, "--thinking", "off", "--no-stream", QUESTION)
    assert whole.stdout.count(BEGINNING) == 1


def test_json_has_the_answer_that_was_completed(cli: Cli, doubles: Sim) -> None:
    doubles.inject("cut", 1)
    found = msgspec.json.decode(cli("ask", *MODEL, "--json", QUESTION).stdout)
    assert found["text"] + "\n" == WHOLE and "error" not in found


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_what_a_terminal_has_shown_is_not_requested_again(opened: Open, doubles: Sim, term: str) -> None:
    doubles.inject("cut", 1)
    terminal = opened("ask", *MODEL, "--thinking", "off", QUESTION, TERM=term)
    assert terminal.wait_for_end() == RETRY
    assert terminal.screen.count(BEGINNING) == 1
    assert "midstream: " in terminal.screen and AGAIN not in terminal.screen
    assert doubles.requests == 1


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_a_chat_shows_it_once_and_goes_on(opened: Open, doubles: Sim, term: str) -> None:
    doubles.inject("cut", 1)
    terminal = opened("chat", *MODEL, "--thinking", "off", TERM=term)
    terminal.wait_for("›")
    terminal.enter(QUESTION)
    terminal.wait_for("(moonshot/kimi-k2.5 · ")
    assert terminal.screen.count(BEGINNING) == 1 and doubles.requests == 1
    terminal.enter("Hello")
    terminal.wait_for("You said: Hello")


def test_an_answer_of_which_nothing_was_shown_is_requested_again(opened: Open, doubles: Sim) -> None:
    doubles.inject("cut", 1)
    terminal = opened("ask", *MODEL, "-T", "read_file", "Read notes.txt")  # the first answer is a call without text
    assert terminal.wait_for_end() == OK
    assert terminal.screen.count("read_file says: buy milk") == 1
    assert "".join(AGAIN.split()) in "".join(terminal.screen.split())
