"""Test a program of yours against a double, on a good day and on a bad one. No key, no network."""

from midstream import SyncAgent, SyncSession
from midstream.testing import Answer, Call, sim_server


def word_count(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


with sim_server(Answer(calls=(Call("word_count", {"text": "to be or not"}),)), "Four.", faults=["429"]) as sim:
    with SyncSession("moonshot/kimi-k2.5", client=sim.client()) as session:
        result = SyncAgent(session, [word_count]).run("How many words?").result()
    assert result.text == "Four."
    assert [seen.status for seen in sim.seen] == [429, 200, 200]
    assert not sim.refused
    print("passed")
