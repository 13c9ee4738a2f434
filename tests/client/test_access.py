"""The key and the address that a program gives: who gets them, read at the hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from midstream.client.catalog import Catalog
from midstream.client.client import Client, complete
from midstream.client.config import Config, ProviderConfig
from midstream.client.session import Session
from midstream.client.sync import SyncSession
from midstream.core.errors import ConfigError, LocalError, MissingKey, Unauthorized
from midstream.core.secret import Secret
from midstream.sim.answer import Answer
from midstream.transport import RetryPolicy, TransportOptions
from tests.client.scripted import Host, Refusal, served

OWN, CLIENTS = "sk-own", "sk-clients"
ENVIRON = {"A_API_KEY": "sk-a", "B_API_KEY": "sk-b", "C_API_KEY": "sk-c"}
LONG = "words " * 2000


class World:
    """Three hosts with a key each in the environment, and a fourth that only an address leads to."""

    def __init__(self) -> None:
        busy = Refusal(503, "busy")
        # Where the program's first model is, the first request fails, so that the chain goes on.
        self.hosts = {
            "a": Host([busy, Answer("one")]),
            "b": Host([Answer("two")]),
            "c": Host([Answer("three")]),
            "own": Host([busy, Answer("four")]),
        }

    def client(self, *, base_url: bool = False, api_key: str | None = None) -> Client:
        # A secret in a header that the user configured for the provider's own address.
        providers = {
            name: ProviderConfig(base_url=self.hosts[name].base, headers={"x-team-token": f"team-{name}"})
            for name in "abc"
        }
        catalog = Catalog(Config(providers=providers), environ=ENVIRON)
        options = TransportOptions(retry=RetryPolicy(max_retries=0))
        return Client(catalog, transport=options, api_key=api_key, base_url=self.own if base_url else None)

    @property
    def own(self) -> str:
        return self.hosts["own"].base

    def keys(self) -> dict[str, set[tuple[str, str]]]:
        """What each host that was asked received: the key, and the user's own header."""
        return {
            name: {
                (seen.headers.get("authorization", ""), seen.headers.get("x-team-token", ""))
                for seen in host.server.seen
            }
            for name, host in self.hosts.items()
            if host.server.seen
        }


def bearer(key: str, name: str) -> set[tuple[str, str]]:
    return {(f"Bearer {key}" if key else "", f"team-{name}" if name else "")}


SESSIONS: dict[str, tuple[Callable[[World], dict[str, Any]], dict[str, set[tuple[str, str]]]]] = {
    "a key": (lambda world: {"client": world.client(), "api_key": OWN}, {"a": bearer(OWN, "a")}),
    "a key and an address": (
        lambda world: {"client": world.client(), "api_key": OWN, "base_url": world.own},
        {"own": bearer(OWN, "")},
    ),
    "an address": (lambda world: {"client": world.client(), "base_url": world.own}, {"own": bearer("", "")}),
    "a client's key": (lambda world: {"client": world.client(api_key=CLIENTS)}, {"a": bearer(CLIENTS, "a")}),
    "a client's key and address": (
        lambda world: {"client": world.client(api_key=CLIENTS, base_url=True)},
        {"own": bearer(CLIENTS, "")},
    ),
    "a key beside a client's": (
        lambda world: {"client": world.client(api_key=CLIENTS, base_url=True), "api_key": OWN},
        {"a": bearer(OWN, "a")},
    ),
    "nothing": (lambda world: {"client": world.client()}, {"a": bearer("sk-a", "a")}),
}


@pytest.mark.parametrize("case", SESSIONS)
def test_only_the_first_provider_of_a_session_gets_its_key(case: str) -> None:
    """Through a chain, switches and summaries by each of the models."""
    options, expected = SESSIONS[case]

    async def main() -> World:
        world = World()
        async with AsyncExitStack() as stack:
            for host in world.hosts.values():
                await stack.enter_async_context(host)
            given = options(world)
            session = await stack.enter_async_context(Session(["a/m", "b/m"], **given))
            assert (await session.send(LONG)).text == "two", "the first model is busy, so the next one answers"
            for models in ("c/m", ["c/m", "a/m"], ["b/m", "a/m"], "a/m"):
                session.switch_model(models)
                assert (await session.send(LONG)).failure == ""
                for writer in ("a/m", "b/m", "c/m"):
                    await session.compact(model=writer)
                    await session.undo_compaction()
            await given["client"].aclose()
        return world

    assert asyncio.run(main()).keys() == {**expected, "b": bearer("sk-b", "b"), "c": bearer("sk-c", "c")}


@pytest.mark.parametrize("whole", [False, True])
def test_a_clients_key_and_address_are_for_the_first_model_of_a_request(whole: bool) -> None:
    async def main() -> World:
        world = World()
        async with AsyncExitStack() as stack:
            for host in world.hosts.values():
                await stack.enter_async_context(host)
            client = await stack.enter_async_context(world.client(api_key=CLIENTS, base_url=True))
            ask: Any = client.complete if whole else client.stream
            assert (await ask(["a/m", "b/m"], "hi")).text == "two"
            # A request with a key of its own goes where that key belongs.
            batches = client.batches(["c/m", "b/m"], "hi", api_key=Secret(OWN))
            assert [batch async for batch in batches]
        return world

    assert asyncio.run(main()).keys() == {
        "own": bearer(CLIENTS, ""),
        "b": bearer("sk-b", "b"),
        "c": bearer(OWN, "c"),
    }


def test_the_first_lines_that_people_type_work() -> None:
    with served(Answer("hello you")) as catalog:
        base = catalog.registry.providers["a"].endpoint.base_url
        with SyncSession("openai/gpt-5.2", api_key="sk-own", base_url=base) as session:
            assert session.send("hi").text == "hello you"
            assert session.conversation.turns[-1].text == "hello you"
        assert asyncio.run(complete("openai/gpt-5.2", "hi", api_key="sk-own", base_url=base)).text == "hello you"


def test_the_text_of_an_answer_that_failed_is_an_error() -> None:
    with (
        served(Refusal(401, "wrong key")) as catalog,
        SyncSession("a/m", client=Client(catalog)) as session,
        pytest.raises(Unauthorized),
    ):
        _ = session.send("hi").text


def test_an_async_reply_says_how_its_text_is_had() -> None:
    async def main() -> None:
        async with Session("openai/gpt-5.2", api_key="k", base_url="http://127.0.0.1:9/v1") as session:
            reply = session.send("hi")
            with pytest.raises(AttributeError, match=r"\(await reply\)\.text"):
                _ = reply.text  # type: ignore[attr-defined]
            await reply.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("base_url", ["localhost:8000", "ftp://host", "http://"])
def test_an_address_that_cannot_be_one_is_refused_at_once(base_url: str) -> None:
    for make in (lambda: Client(base_url=base_url), lambda: Session("openai/gpt-5.2", base_url=base_url)):
        with pytest.raises((LocalError, ConfigError), match="http"):
            make()


def test_advice_about_keys_is_true() -> None:
    async def main() -> None:
        client = Client(Catalog(Config(), environ={}))
        with pytest.raises(MissingKey, match="api_key="):
            await client.complete("openai/gpt-5.2", "hi")
        async with Session("openai/gpt-5.2", api_key="k", client=client) as session:
            session.switch_model("mistral/mistral-large-latest")
            with pytest.raises(MissingKey, match="what was given here is for openai"):
                await session.send("hi")
        host = Host([Refusal(401, "who are you")])
        async with host, Session("openai/gpt-5.2", client=client, base_url=host.base) as session:
            with pytest.raises(Unauthorized, match="only a key given as api_key"):
                await session.send("hi")
        await client.aclose()

    asyncio.run(main())
