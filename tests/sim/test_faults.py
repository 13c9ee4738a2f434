"""Every fault changes an answer, and none of them changes an answer of a double that does not play it."""

from __future__ import annotations

import pytest

from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import Config
from midstream.core.blocks import Conversation, human
from midstream.core.dialect import Options
from midstream.core.errors import LocalError, MidstreamError
from midstream.core.tools import ToolSpec
from midstream.sim.faults import FAULTS, check_fault
from midstream.sim.server import Sim
from tests.event_loops import run

TOOL = ToolSpec("read_note", "Read a note", {"type": "object", "properties": {"name": {"type": "string"}}})
ASKED = Conversation((human("Call read_note with name 'a' and call read_note with name 'b'.", key="q"),))
# What no single answer shows: it needs a history, an option, a system prompt, or a plain answer.
HIDDEN = {
    "accept-anything", "refuse-own-ids", "tire", "lost-by-ids", "deaf", "false-finish", "plain-differs",
    "ignore-choice", "ignore-limit", "ignore-stop", "ignore-parallel", "ignore-format", "ignore-echo", "ignore-system",
}  # fmt: skip


def _client(sim: Sim) -> Client:
    return Client(Catalog(Config(), environ={}, providers=sim.providers()))


async def _answer(client: Client) -> bytes:
    request = client.encode("openai/gpt-4o", ASKED, (TOOL,), Options())
    async with await client.send("openai/gpt-4o", request) as answer:
        return await answer.read()


def bodies(always: tuple[str, ...] = ()) -> bytes:
    async def main() -> bytes:
        async with Sim(always=always) as sim, _client(sim) as client:
            return await _answer(client)

    return run(main())


@pytest.mark.parametrize("fault", [name for name in FAULTS if name not in {*HIDDEN, "429", "500", "cut", "stall"}])
def test_a_fault_changes_the_answer(fault: str) -> None:
    assert bodies((fault,)) != bodies()


@pytest.mark.parametrize("fault", sorted(HIDDEN))
def test_the_others_leave_a_plain_answer_alone(fault: str) -> None:
    assert bodies((fault,)) == bodies()


def test_faults_of_one_answer_and_of_all() -> None:
    async def main() -> None:
        async with Sim(faults=("wrong-finish",), always=("double-usage",)) as sim, _client(sim) as client:
            said = [await _answer(client) for _ in range(2)]
        assert b'"finish_reason":"stop"' in said[0] and b'"finish_reason":"tool_calls"' in said[1]
        assert [body.count(b'"prompt_tokens"') for body in said] == [2, 2]

    run(main())


def test_an_unknown_fault_lists_the_known_ones() -> None:
    with pytest.raises(LocalError, match="expected one of 429, 500, cut"):
        check_fault("flood")
    with pytest.raises(MidstreamError):
        Sim(always=("flood",))
