"""Clients that nobody here wrote, through a gateway to doubles of five hosts: one table of client x target x feature.

The gateway is a process of its own with keys, and the doubles judge what it sends: a request that one of them refuses fails
the test, whatever the client made of it. A client wants of the gateway what it wants of its own host.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from midstream.doctor.matrix import PIXEL
from midstream.gateway.api_key import make_key
from midstream.gateway.state import KeyRecord, open_state
from midstream.testing import SimServer, sim_server
from tests.e2e.clients import CLIENTS, Driver, NotInstalled, Row
from tests.e2e.test_clients import ERRANDS, HELLO, ROUNDS, TOOLS
from tests.gateway.gateway_process import gateway_process

BASES = {"openai": "/v1", "moonshot": "/v1", "openai-responses": "/v1", "anthropic": "", "gemini": ""}
"""What the base URL of a client ends with, by the host that it was made for."""
TARGETS = {
    "kimi": "sim/kimi-k2.5",
    "claude": "sim/claude-sonnet-5",
    "gpt": "sim/gpt-5.2",
    "gemini": "sim/gemini-3-pro-preview",
    "mistral": "sim/mistral-large-latest",
}
TALKS = ("text", "streaming", "tools", "tools streamed", "thinking", "thinking streamed")
ONCE = ("images", "usage", "models", "count tokens", "401", "404", "429", "429 retried")
"""What has little to do with the target is asked at one of them."""
ROWS = [row for row in CLIENTS if row.provider in BASES]
BEGINNINGS = {"anthropic": "claude-sonnet-5-", "openai-responses": "gpt-5.2-"}
"""How the names begin that clients are given, by the host they were made for: some look into a name to see what they may ask."""
WRONG_KEYS = ("sk-of-nobody", "msk_" + "0" * 49)


class Served(NamedTuple):
    """The gateway, the doubles behind it, and keys by what they may do: `good` all, the others one request a minute."""

    url: str
    doubles: SimServer
    keys: dict[str, str]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("gateway")
    config = folder / "gateway.toml"
    names = [(f"{before}{name}", model) for before in ("", *BEGINNINGS.values()) for name, model in TARGETS.items()]
    config.write_text("[aliases]\n" + "".join([f'"{name}" = "{model}"\n' for name, model in names]))
    state = str(folder / "gateway.db")
    keys = asyncio.run(create_keys(state, {"good": None, **{row.name: 1 for row in ROWS}}))
    with sim_server() as doubles, gateway_process(doubles.url, config=config, state=state) as gateway:
        yield Served(gateway.url, doubles, keys)


async def create_keys(url: str, rates: dict[str, int | None]) -> dict[str, str]:
    state = open_state(url)
    await state.open()
    keys = {name: make_key() for name in rates}
    for name, made in keys.items():
        await state.add_key(KeyRecord(made.id, name, made.digest, name, rate=rates[name]))
    await state.close()
    return {name: made.key.reveal() for name, made in keys.items()}


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Driver]]:
    running: dict[str, Driver] = {}
    yield running
    for driver in running.values():
        driver.close()


class Asked:
    """One client, and what the doubles saw since it was made."""

    def __init__(self, row: Row, served: Served, drivers: dict[str, Driver], home: Path) -> None:
        # litellm was seen to lock itself up in a process that had spoken both wires: each row has one of its own.
        key = row.name if row.environment == "litellm" else f"{row.environment} {row.driver}"
        try:
            if key not in drivers:
                drivers[key] = Driver(row, home)
        except NotInstalled as missing:
            pytest.skip(f"DID NOT RUN: {missing}")
        self._row = row
        self._served = served
        self._driver = drivers[key]
        self._before = served.doubles.requests

    def ask(self, feature: str, model: str, key: str | None = None) -> dict[str, Any]:
        answer = self._driver.ask(
            feature=feature,
            url=self._served.url + BASES.get(self._row.provider, "") + self._row.path,
            model=BEGINNINGS.get(self._row.provider, "") + model if model in TARGETS else model,
            key=self._served.keys["good"] if key is None else key,
            prompt=ERRANDS if feature.startswith("tools") else HELLO,
            tools=TOOLS,
            image=PIXEL,
            host=self._row.host,
        )
        assert "outcome" in answer, (
            f"{answer['failure']}\nthe doubles saw {self.statuses}: {self._served.doubles.refused}"
        )
        return dict(answer["outcome"])

    @property
    def seen(self) -> list[Any]:
        count = self._served.doubles.requests - self._before
        return self._served.doubles.seen[-count:] if count else []

    @property
    def statuses(self) -> list[int]:
        return [each.status for each in self.seen]


@pytest.fixture
def asked(row: Row, served: Served, drivers: dict[str, Driver], tmp_path_factory: pytest.TempPathFactory) -> Asked:
    return Asked(row, served, drivers, tmp_path_factory.mktemp("home"))


by_row = pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])


WRAPPERS = ("litellm_chat.py", "pydantic_ai_agent.py")
"""They speak by the SDKs above, so what is simplest is not asked of them again."""
TALKING = [
    pytest.param(row, feature, id=f"{row.name}-{feature}")
    for row in ROWS
    for feature in (*(TALKS[2:] if row.driver in WRAPPERS else TALKS), *row.also)
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("row", "feature"), TALKING)
def test_client(row: Row, feature: str, target: str, asked: Asked) -> None:
    outcome = asked.ask(feature, target)
    assert set(asked.statuses) == {200}, asked.statuses
    match feature:
        case "text" | "streaming":
            assert HELLO in outcome["text"] and outcome["stop"] == row.stop
            assert outcome.get("pieces", 2) > 1, "the answer came in one piece"
        case "tools" | "tools streamed" | "tools threaded":
            rounds = [[(made["name"], made["arguments"]["path"]) for made in calls] for calls in outcome["rounds"]]
            assert rounds == ROUNDS
            assert all(f"{name} says {path}!" in outcome["text"] for calls in ROUNDS for name, path in calls)
            if target == "kimi":
                turns = [each for each in asked.seen[-1].body["messages"] if each["role"] == "assistant"]
                assert [f"Step {number} of 4" in each["reasoning_content"] for number, each in enumerate(turns, 1)] == [
                    True
                ] * 4
        case _:
            assert HELLO in outcome["text"]
            assert bool(outcome["thinking"]) == thinks(row, target), outcome
            assert not outcome["thinking"] or outcome["thinking"] not in outcome["text"]


def thinks(row: Row, target: str) -> bool:
    """Whether the client sees reasoning: Gemini's model shows none, and Mistral's has none, unless it is asked for, which
    OpenAI's two wires have no word for."""
    return target in ("kimi", "claude", "gpt") or (target == "gemini" and row.provider in ("anthropic", "gemini"))


MISTRAL = [row for row in CLIENTS if row.provider == "mistral"]
"""Libraries that know Mistral's host alone. Of an answer they read what it sends, so the gateway writes as it does."""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("feature", ["text", "streaming", "tools", "tools streamed"])
@pytest.mark.parametrize("row", MISTRAL, ids=[row.name for row in MISTRAL])
def test_mistrals_libraries(row: Row, feature: str, target: str, asked: Asked) -> None:
    outcome = asked.ask(feature, target)
    assert set(asked.statuses) == {200}, asked.statuses
    if feature.startswith("tools"):
        rounds = [[(made["name"], made["arguments"]["path"]) for made in calls] for calls in outcome["rounds"]]
        assert rounds == ROUNDS  # two calls at once, one, two, one
        assert all(f"{name} says {path}!" in outcome["text"] for calls in ROUNDS for name, path in calls)
    else:
        assert HELLO in outcome["text"] and outcome["stop"] == row.stop
        assert outcome.get("pieces", 2) > 1, "the answer came in one piece"


@pytest.mark.parametrize("row", MISTRAL, ids=[row.name for row in MISTRAL])
def test_mistrals_libraries_count(row: Row, asked: Asked) -> None:
    outcome = asked.ask("usage", "kimi")
    assert outcome["whole"] == outcome["streamed"] and outcome["whole"][0] > 0, outcome


NPM = [row for row in ROWS if row.driver == "ai.mjs"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("row", NPM, ids=[row.name for row in NPM])
def test_what_was_answered_is_in_the_next_request(row: Row, target: str, asked: Asked) -> None:
    """On Responses this client sends only the ids of items, and means the host to know the rest."""
    outcome = asked.ask("second turn", target)
    assert outcome["first"] in json.dumps(asked.seen[-1].body, ensure_ascii=False)
    assert "And what else?" in outcome["text"] and asked.statuses == [200, 200]


@pytest.mark.parametrize("feature", ONCE)
@by_row
def test_client_of_the_gateway(row: Row, feature: str, served: Served, asked: Asked) -> None:
    if feature in row.lacks:
        pytest.skip(row.lacks[feature])
    match feature:
        case "images":
            assert HELLO in asked.ask(feature, "claude")["text"]
            assert PIXEL in json.dumps(asked.seen[-1].body), "the picture did not arrive"
            assert asked.statuses == [200]
        case "usage":
            outcome = asked.ask(feature, "kimi")
            for counted in (outcome["whole"], outcome["streamed"]):
                read, written, total = counted
                assert read > 0 and written > 0 and total == read + written, counted
            assert outcome["whole"] == outcome["streamed"]
        case "models":
            # The plain name of another host's model is listed for Claude's clients under one that they show.
            name = "anthropic/kimi" if row.provider == "anthropic" else BEGINNINGS.get(row.provider, "") + "kimi"
            outcome = asked.ask(feature, name)
            assert name in outcome["listed"] and outcome["one"] == name
            assert len(outcome["listed"]) >= len(TARGETS)
        case "count tokens":
            assert asked.ask(feature, "kimi")["input"] > 0
            assert not asked.seen, "counting is the gateway's own"
        case "401":
            for key in WRONG_KEYS:
                outcome = asked.ask("401", "kimi", key=key)
                assert outcome["status"] == 401 and "key" in outcome["message"], outcome
            assert not asked.seen
        case "404":
            outcome = asked.ask("401", "no-such-model")
            assert outcome["status"] == 404 and "no-such-model" in outcome["message"], outcome
            assert not asked.seen
        case "429":
            assert HELLO in asked.ask("text", "kimi", key=served.keys[row.name])["text"]
            outcome = asked.ask("429", "kimi", key=served.keys[row.name])
            assert outcome["status"] == 429 and "1 request a minute" in outcome["message"], outcome
            assert asked.statuses == [200], "the refused request went on"
        case _:
            served.doubles.inject("429")
            assert HELLO in asked.ask("429 retried", "kimi")["text"]
            assert asked.statuses == [429, 200]
