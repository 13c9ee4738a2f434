"""What the terminal says of models and money: the doubles are called sim and are free, and what was spent stays spent."""

from __future__ import annotations

import re

import msgspec
import pytest

from midstream.sim.providers import MODELS
from midstream.sim.server import Sim
from midstream.store import SqliteStore
from tests.long_run import cases

from .conftest import Cli
from .test_commands import Script

TOTAL = re.compile(r"^total: (\S+)", re.MULTILINE)


@pytest.fixture
def script(environ: dict[str, str]) -> Script:
    return Script(environ)


@pytest.mark.parametrize("model", cases(MODELS, {"kimi-k2.5", "claude-sonnet-4-5"}))
def test_a_double_is_called_sim_and_costs_nothing(cli: Cli, model: str) -> None:
    found = msgspec.json.decode(cli("ask", "-m", f"sim/{model}", "--json", "Hello").stdout)
    assert found["cost"] == 0
    assert found["turns"][-1]["origin"]["provider"].startswith("sim:")
    assert f"[sim/{model}]" in cli("sessions").stdout
    assert f"## sim/{model}" in cli("sessions", "show", found["session"]).stdout


def test_the_doubles_hand_over_to_each_other_as_their_hosts_do(script: Script) -> None:
    """They share a name, and still nobody gets another's reasoning or signatures: no double refuses anything."""
    steps = [line for model in MODELS for line in (f"/model sim/{model}", 'Glob "*.txt"')]
    out, err = script(*steps, "/usage", "/sessions")
    assert script.code == 0, err
    assert out.count("glob says: notes.txt") == len(MODELS)
    assert all(f"  sim/{model}: 2 answers" in err for model in MODELS)
    assert TOTAL.findall(err) == ["$0"]


def test_a_sim_conversation_is_free_with_another_model_too(script: Script, environ: dict[str, str]) -> None:
    script("Hello")
    environ["MOONSHOT_API_KEY"] = "k"
    _, err = script("/usage", args=("--continue", "-m", "moonshot/kimi-k2.5"))
    assert "sim/kimi-k2.5: 1 answer, " in err and TOTAL.findall(err) == ["$0"]


def test_what_was_spent_stays_spent(script: Script, doubles: Sim, environ: dict[str, str]) -> None:
    environ["MOONSHOT_API_BASE"] = f"{doubles.url}/moonshot"
    paid = ("-m", "moonshot/kimi-k2.5")
    said = "word " * 3000
    _, err = script(
        "First " + said, "/usage", "Second " + said, "/usage", "/undo", "/usage", "/fork", "/usage", args=paid
    )
    one, two, undone, forked = TOTAL.findall(err)
    assert one != two == undone == forked
    assert "answers that were undone: $" in err
    _, err = script("/usage", "/undo", "/usage", "Third " + said, "/usage", args=("--continue",))
    resumed, nothing_left, third = TOTAL.findall(err)
    assert resumed == nothing_left == two != "$0"
    assert float(third[1:]) > float(two[1:])
    with_none = script("First " + said, "/usage", "/undo", "/usage", "/new", "/usage", args=(*paid, "--no-store"))[1]
    assert TOTAL.findall(with_none) == [one, one, "unknown"]


def test_the_whole_conversation_is_still_stored(script: Script) -> None:
    script("First", "Second", "/undo")
    store = SqliteStore()
    copy, whole = store.list()
    assert (copy.parent, copy.forked_at, copy.turns, whole.turns) == (whole.id, 2, 2, 4)
    assert store.get_meta(copy.id, "model") == "sim/kimi-k2.5"
    store.close()


@pytest.mark.parametrize("kept", ["1", "2"])
def test_both_answers_of_a_comparison_are_paid_for(
    script: Script, doubles: Sim, environ: dict[str, str], kept: str
) -> None:
    environ["MOONSHOT_API_BASE"] = f"{doubles.url}/moonshot"
    lines = ("First " + "word " * 3000, "/usage", "/compare moonshot/kimi-k2.5", kept, "/usage", "/retry", "/usage")
    _, err = script(*lines, args=("-m", "moonshot/kimi-k2.5", "--no-tools"))
    one, two, three = [float(total[1:]) for total in TOTAL.findall(err)]
    assert f"kept {kept}; the other answer is stored as" in err
    assert two == pytest.approx(2 * one, rel=0.05) and three == pytest.approx(3 * one, rel=0.05)
