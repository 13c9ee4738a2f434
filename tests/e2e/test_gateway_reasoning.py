"""Reasoning survives the official SDKs: one that knows nothing of it, and one that brings back what it does not understand.

Kimi's double refuses a history whose calls have lost their reasoning, as its host does.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from midstream.gateway.seal import OPENS_FOR, PREFIX
from midstream.gateway.state import SealKey, open_state
from midstream.testing import SimServer, sim_server
from tests.e2e.sdk_agents import KIMI, Bringing, Stripping, history, thoughts
from tests.e2e.test_clients import ERRANDS
from tests.e2e.test_gateway_clients import create_keys
from tests.gateway.gateway_process import GatewayProcess, gateway_process

OFF = '[vault]\nenabled = false\nseal = false\n[defaults]\nmissing_reasoning = "{missing}"\n'
TENANTS = ("one", "two")


class Place:
    """A folder with a gateway's configuration and state, which outlives the gateway."""

    def __init__(self, folder: Path, doubles: SimServer) -> None:
        self._config = folder / "gateway.toml"
        self._config.write_text("")
        self.state = str(folder / "gateway.db")
        self.doubles = doubles
        self.keys = asyncio.run(create_keys(self.state, dict.fromkeys(TENANTS)))

    @contextmanager
    def served(self, config: str = "") -> Iterator[GatewayProcess]:
        self._config.write_text(config)
        with gateway_process(self.doubles.url, config=self._config, state=self.state) as gateway:
            yield gateway

    def rotate(self, *, expire: bool) -> None:
        """Let another key seal from now on; with `expire`, the former one does not open any more."""

        async def work() -> None:
            state = open_state(self.state)
            await state.open()
            now = time.time()
            await state.add_seal_key(SealKey("another", b"\x01" * 32, now - 2 * OPENS_FOR if expire else now))
            if expire:
                await state.add_seal_key(SealKey("the next", b"\x02" * 32, now))
            await state.close()

        asyncio.run(work())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with sim_server() as doubles:
        yield Place(tmp_path, doubles)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_client_that_strips_reasoning_runs_a_loop_of_four_rounds(place: Place, stream: bool) -> None:
    with place.served() as gateway:
        agent = Stripping([f"{gateway.url}/v1"], place.keys["one"], f"sim/{KIMI}", stream=stream)
        assert agent.run() == 4
    assert [f"Step {number} of 4" in each for number, each in enumerate(thoughts(place.doubles), 1)] == [True] * 4
    assert place.doubles.refused == [] and {seen.status for seen in place.doubles.seen} == {200}
    assert "reasoning" not in json.dumps(agent.messages)


def test_without_vault_and_seal_it_fails_typed_and_before_sending(place: Place) -> None:
    with place.served(OFF.format(missing="fail")) as gateway:
        agent = Stripping([f"{gateway.url}/v1"], place.keys["one"], f"sim/{KIMI}")
        assert agent.ask()
        with pytest.raises(openai.BadRequestError, match="reasoning") as caught:
            agent.ask()
        assert caught.value.response.headers["x-should-retry"] == "false"
        assert place.doubles.requests == 1


def test_without_vault_and_seal_a_placeholder_is_sent_and_told(place: Place) -> None:
    with place.served(OFF.format(missing="placeholder")) as gateway:
        agent = Stripping([f"{gateway.url}/v1"], place.keys["one"], f"sim/{KIMI}")
        assert agent.run() == 4
    assert place.doubles.refused == [] and "missing_reasoning" in agent.notes
    assert not any("Step" in each for each in thoughts(place.doubles))


def test_the_naive_request_is_refused_as_it_is_documented(place: Place) -> None:
    agent = Stripping([place.doubles.base_url("moonshot")], "any", KIMI)
    assert agent.ask()
    with pytest.raises(openai.BadRequestError, match="reasoning_content is missing in assistant tool call message"):
        agent.ask()


def seal_in(content: list[Any]) -> str:
    (signature,) = [block["signature"] for block in content if block["type"] == "thinking"]
    assert signature.startswith(PREFIX) and "Step" not in signature
    return str(signature)


def flipped(text: str) -> str:
    return text[:-20] + ("A" if text[-20] != "A" else "B") + text[-19:]


SPOILT = {
    "forged": lambda seal: PREFIX + "1" + "A" * (len(seal) - len(PREFIX) - 1),
    "cut": lambda seal: seal[:-8],
    "cut to its name": lambda seal: PREFIX,
    "another character": flipped,
    "of another version": lambda seal: PREFIX + "9" + seal[len(PREFIX) + 1 :],
    "not base64": lambda seal: seal[:40] + "é " + seal[40:],
}


def opened(place: Place) -> bool:
    """Whether the last request upstream had the reasoning of the seal. A seal itself never goes there."""
    assert PREFIX not in json.dumps([seen.body for seen in place.doubles.seen])
    assert place.doubles.refused == [] and place.doubles.seen[-1].status == 200
    return any("Step 1 of 4" in each for each in thoughts(place.doubles))


def test_a_seal_opens_only_as_it_is_and_for_its_tenant(place: Place) -> None:
    with place.served() as gateway:
        own = Bringing(gateway.url, place.keys["one"])
        content = own.ask([{"role": "user", "content": ERRANDS}])
        seal = seal_in(content)
        assert own.ask(history(content, seal)) and opened(place)
        assert "seal_not_opened" not in own.notes
        for name, spoil in SPOILT.items():
            agent = Bringing(gateway.url, place.keys["one"])
            answer = agent.ask(history(content, spoil(seal)))
            assert any(block["type"] == "tool_use" for block in answer), name
            assert not opened(place) and "seal_not_opened" in agent.notes, name
        stranger = Bringing(gateway.url, place.keys["two"])
        assert stranger.ask(history(content, seal))
        assert not opened(place) and "seal_not_opened" in stranger.notes


def test_a_retired_key_still_opens_in_another_process(place: Place) -> None:
    with place.served() as gateway:
        content = Bringing(gateway.url, place.keys["one"]).ask([{"role": "user", "content": ERRANDS}])
        seal = seal_in(content)
        place.rotate(expire=False)
    with place.served() as gateway:  # another process, with another key
        agent = Bringing(gateway.url, place.keys["one"])
        fresh = seal_in(agent.ask([{"role": "user", "content": ERRANDS}]))
        assert fresh[:14] != seal[:14], "the new key seals"
        assert agent.ask(history(content, seal)) and opened(place)


def test_under_an_expired_key_nothing_opens_and_nothing_breaks(place: Place) -> None:
    with place.served() as gateway:
        content = Bringing(gateway.url, place.keys["one"]).ask([{"role": "user", "content": ERRANDS}])
        seal = seal_in(content)
        place.rotate(expire=True)
    with place.served() as gateway:
        agent = Bringing(gateway.url, place.keys["one"])
        assert agent.ask(history(content, seal))
        assert not opened(place) and "seal_not_opened" in agent.notes
