"""`midstream verify` on a terminal: the question before money is spent, and the bar while it runs."""

from __future__ import annotations

import re
from pathlib import Path

from midstream.testing import sim_server

from .terminal import Open


def test_a_bar_shows_how_far_it_is(opened: Open) -> None:
    terminal = opened("verify", "sim/gpt-4o", "--suite", "loop")
    assert terminal.wait_for_end() == 0
    assert re.search(rb"Asking  \[[#-]+\] .*100%", terminal.raw), terminal.raw
    assert "sim/gpt-4o: " in terminal.screen and "0 fail" in terminal.screen


def test_nothing_is_sent_before_the_user_has_agreed(opened: Open, home: Path) -> None:
    """To an address that is not of this machine: a name of loopback would be free, so nobody would be asked."""
    terminal = opened(
        "verify", "moonshot/kimi-k2.5", MOONSHOT_API_KEY="sk-x", MOONSHOT_BASE_URL="http://192.0.2.1:9/v1"
    )
    terminal.wait_for("Send them?")
    assert re.search(r"15 requests, about \$0\.0\d+", terminal.screen)
    terminal.enter("n")
    assert terminal.wait_for_end() == 130
    assert "Asking" not in terminal.screen and not list((home / "verify").glob("*"))


def test_a_host_on_this_machine_is_asked_at_once(opened: Open) -> None:
    with sim_server() as sim:
        terminal = opened(
            "verify", "moonshot/kimi-k2.5", MOONSHOT_API_KEY="sk-x", MOONSHOT_BASE_URL=sim.base_url("moonshot")
        )
        assert terminal.wait_for_end() == 0
        assert sim.requests == 15
    assert "Send them?" not in terminal.screen
