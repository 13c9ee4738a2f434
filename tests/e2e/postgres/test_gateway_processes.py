"""Two gateway processes on one PostgreSQL behave as one: for the official SDKs, whichever of them is asked, and when one dies."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import httpx
import openai
import pytest

from midstream.gateway.api_key import make_key
from midstream.gateway.state import KeyRecord, open_state
from midstream.testing import SimServer, sim_server
from tests.e2e.sdk_agents import KIMI, Bringing, Stripping, history, thoughts
from tests.e2e.test_clients import ERRANDS, TOOLS
from tests.gateway.gateway_process import GatewayProcess, gateway_process
from tests.postgres_cluster import Cluster

MODEL = f"sim/{KIMI}"
_BOUND = 60.0


class Pair(NamedTuple):
    gateways: list[GatewayProcess]
    doubles: SimServer
    database: str
    key: str

    @property
    def urls(self) -> list[str]:
        return [f"{each.url}/v1" for each in self.gateways]

    def api(self, number: int, key: str | None = None) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.urls[number], api_key=key or self.key, max_retries=0)


async def create_key(database: str) -> tuple[str, str]:
    """A new key and its id, made beside the gateways."""
    state = open_state(database)
    await state.open()
    made = make_key()
    await state.add_key(KeyRecord(made.id, "tenant", made.digest))
    await state.close()
    return made.key.reveal(), made.id


async def revoke(database: str, id: str) -> None:
    state = open_state(database)
    await state.open()
    assert await state.revoke_key(id, time.time())
    await state.close()


@contextmanager
def two_gateways(database: str, delay: float = 0.0) -> Iterator[Pair]:
    key, _ = asyncio.run(create_key(database))
    with sim_server(delay=delay) as doubles, ExitStack() as stack:
        gateways = [stack.enter_context(gateway_process(doubles.url, state=database, shared=True)) for _ in range(2)]
        yield Pair(gateways, doubles, database, key)


@pytest.fixture
def pair(database: str) -> Iterator[Pair]:
    with two_gateways(database) as made:
        yield made


def steps(pair: Pair) -> list[bool]:
    """Whether Kimi got its own reasoning back in the last request, answer by answer."""
    return [f"Step {number} of 4" in each for number, each in enumerate(thoughts(pair.doubles), 1)]


def test_a_client_bounces_between_them(pair: Pair) -> None:
    for stream in (False, True):
        agent = Stripping(pair.urls, pair.key, MODEL, stream=stream)  # the vault is one
        assert agent.run() == 4 and steps(pair) == [True] * 4
    bringing = Bringing(pair.gateways[0].url, pair.key)  # and so are the keys of seals
    content = bringing.ask([{"role": "user", "content": ERRANDS}])
    (seal,) = [block["signature"] for block in content if block["type"] == "thinking"]
    bringing.url = pair.gateways[1].url
    assert bringing.ask(history(content, seal)) and steps(pair) == [True]
    assert pair.doubles.refused == [] and {seen.status for seen in pair.doubles.seen} == {200}


def test_responses_go_on_in_the_other_process(pair: Pair) -> None:
    said: list[str] = []
    former: Any = openai.NOT_GIVEN
    for number in range(6):
        with pair.api(number % 2) as api:
            answer = api.responses.create(model=MODEL, input=f"word {number}", previous_response_id=former)
        former = answer.id
        said.append(f"word {number}")
        asked = [each["content"] for each in pair.doubles.seen[-1].body["messages"] if each["role"] == "user"]
        assert asked == said
    with pair.api(0) as one, pair.api(1) as other:
        assert other.responses.retrieve(former).output_text == one.responses.retrieve(former).output_text
        one.responses.delete(former)
        with pytest.raises(openai.NotFoundError):
            other.responses.retrieve(former)


def test_a_loop_goes_on_by_the_response_alone(pair: Pair) -> None:
    """The client sends results, and the id of the response that asked for them: the calls and their reasoning are ours to know."""
    tools: Any = [{"type": "function", "name": name, "strict": False, **tool} for name, tool in TOOLS.items()]
    items: Any = ERRANDS
    former: Any = openai.NOT_GIVEN
    for number in range(5):
        with pair.api(number % 2) as api:
            answer = api.responses.create(model=MODEL, input=items, tools=tools, previous_response_id=former)
        former = answer.id
        items = [
            {"type": "function_call_output", "call_id": item.call_id, "output": "fine"}
            for item in answer.output
            if item.type == "function_call"
        ]
        assert bool(items) == (number < 4)
    assert steps(pair) == [True] * 4 and pair.doubles.refused == []


def test_a_key_is_known_and_revoked_in_both(pair: Pair) -> None:
    key, id = asyncio.run(create_key(pair.database))
    with pair.api(0, key) as one, pair.api(1, key) as other:
        for api in (one, other):
            assert api.responses.create(model=MODEL, input="hi", store=False).output_text
        asyncio.run(revoke(pair.database, id))
        for api in (one, other):
            refused_within(api)


def refused_within(api: openai.OpenAI) -> None:
    deadline = time.monotonic() + _BOUND
    while time.monotonic() < deadline:
        try:
            api.responses.create(model=MODEL, input="hi", store=False)
        except openai.AuthenticationError:
            return
        time.sleep(0.1)
    raise AssertionError("a revoked key still works")


def test_one_is_killed_in_the_middle_and_the_other_goes_on(database: str) -> None:
    with two_gateways(database, delay=0.01) as pair:
        agent = Stripping(pair.urls, pair.key, MODEL, stream=True)
        assert agent.ask() and agent.ask()
        asked: Any = {"model": MODEL, "messages": agent.messages, "stream": True}
        with pair.api(0) as api, api.chat.completions.create(**asked) as stream:
            assert next(iter(stream)).choices
            pair.gateways[0].kill()
            with pytest.raises((openai.APIError, httpx.HTTPError)):
                for _ in stream:
                    pass
        with pytest.raises(openai.APIConnectionError):
            agent.ask()  # it is the dead one's turn
        assert agent.ask(), "the next request succeeds on the other"
        assert steps(pair) == [True, True]
        left = Stripping(pair.urls[1:], pair.key, MODEL, stream=True)
        left.messages = agent.messages
        while left.ask():
            pass
        assert steps(pair) == [True] * 4 and pair.doubles.refused == []


class Asking(threading.Thread):
    """A client that asks again and again, and writes down what came of it."""

    def __init__(self, pair: Pair, number: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._pair = pair
        self._number = number
        self._stopping = stop
        self.acknowledged: list[str] = []
        self.refused: list[openai.APIStatusError] = []
        self.failed: list[Exception] = []

    def run(self) -> None:
        with self._pair.api(self._number % 2) as api:
            while not self._stopping.is_set():
                try:
                    answer = api.responses.create(model=MODEL, input="hi")
                    self.acknowledged.append(answer.id)
                except openai.APIStatusError as error:
                    self.refused.append(error)
                    time.sleep(0.05)
                except Exception as error:  # whatever it is, the test must hear of it
                    self.failed.append(error)
                    return


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + _BOUND
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_restart_of_the_database_loses_nothing_acknowledged(pair: Pair, cluster: Cluster) -> None:
    agent = Stripping(pair.urls, pair.key, MODEL)
    assert agent.ask()
    stop = threading.Event()
    clients = [Asking(pair, number, stop) for number in range(4)]
    for client in clients:
        client.start()
    try:
        wait_until(lambda: all(client.acknowledged for client in clients))
        cluster.stop()
        try:
            wait_until(lambda: all(client.refused for client in clients))
        finally:
            cluster.start()
        before = [len(client.acknowledged) for client in clients]
        wait_until(lambda: all(len(client.acknowledged) > count for client, count in zip(clients, before, strict=True)))
    finally:
        stop.set()
        for client in clients:
            client.join(_BOUND)
    assert [client.failed for client in clients] == [[]] * 4
    for refusal in [each for client in clients for each in client.refused]:
        assert refusal.status_code == 503 and int(refusal.response.headers["retry-after"]) >= 1
        assert "database" in str(refusal)
    with pair.api(0) as api:
        for id in [each for client in clients for each in client.acknowledged[-50:]]:
            assert api.responses.retrieve(id).id == id
    assert agent.ask() and steps(pair) == [True]  # what the vault had acknowledged before
