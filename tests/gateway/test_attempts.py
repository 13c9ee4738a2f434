"""What became of each request to a host, told alike in the log, in a metric, on the span, in the header and on the page; and how
long a host may take."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import Config, TimeoutConfig
from midstream.core.blocks import Turn
from midstream.core.dialect import Options
from midstream.core.errors import ConfigError, IdleTimeout, TimedOut
from midstream.gateway.access_log import AccessLog
from midstream.gateway.tracing import Tracing
from midstream.sim.providers import sim_providers
from midstream.sim.server import Sim
from tests.gateway.serving import Gate, asynchronous, gate
from tests.gateway.test_page import SESSION, enter, listed
from tests.gateway.upstream import upstream

CHAT = {"messages": [{"role": "user", "content": "hi"}]}
CHAIN = '[aliases.x]\nmodels = ["rude/{first}", "sim/gpt-4o"]\n{more}\n'
TRUNCATED, OVERLOADED, TIMED_OUT = "truncated", "overloaded", "timed_out"


class Book:
    """Where the operator looks: the log and the span of the last request."""

    def __init__(self, gateway: Gate, path: Path) -> None:
        self.gateway = gateway
        self._path = path
        self._fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self._log = gateway.app._log = AccessLog(self._fd)
        self._spans = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._spans))
        gateway.app._tracing = Tracing(provider.get_tracer("test"))

    def line(self) -> Any:
        self._log.close()
        return msgspec.json.decode(self._path.read_bytes().splitlines()[-1])

    def events(self) -> list[dict[str, Any]]:
        return [dict(event.attributes or {}) for event in self._spans.get_finished_spans()[-1].events]

    def counted(self) -> dict[tuple[str, str, str], float]:
        """By model, status and error."""
        text = self.gateway.app.metrics.exposition().decode()
        return {
            (sample.labels["model"], sample.labels["status"], sample.labels["error"]): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "midstream_attempt_seconds_count"
        }


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(
    ("first", "more", "failed"),
    [
        ("500", "", [(500, OVERLOADED), (500, OVERLOADED)]),
        ("cut", "", [(200, TRUNCATED), (200, TRUNCATED)]),
        ("late", "first_byte = 0.2", [(0, TIMED_OUT)]),
        ("mute", "first_byte = 0.2", [(200, TIMED_OUT)]),
    ],
    ids=["refused", "cut", "silent", "accepted and silent"],
)
@asynchronous
async def test_a_fallback_is_explained_everywhere(
    tmp_path: Path, first: str, more: str, failed: list[tuple[int, str]], stream: bool
) -> None:
    if not stream and first == "cut":
        failed = failed[:1]  # a whole answer that broke off may have been paid for: it is not asked for again
    config = CHAIN.format(first=first, more=more)
    async with upstream() as rude, gate(config, retries=1, more=[rude.provider()]) as gateway:
        book = Book(gateway, tmp_path / "log")
        async with gateway.http.post(
            f"{gateway.url}/v1/chat/completions", json={"model": "x", **CHAT, "stream": stream}
        ) as answer:
            assert answer.status == 200 and b"Good" not in await answer.read()
        expected = [(f"rude/{first}", *each) for each in failed] + [("sim/gpt-4o", 200, "")]
        line = book.line()
        tried = line["tried"]
        assert [(each["model"], each.get("status", 0), each.get("error", "")) for each in tried] == expected
        assert {each["host"] for each in tried[:-1]} == {rude.url.removeprefix("http://")}
        assert all(each["ms"] > (190 if more else 0) for each in tried[: len(failed)])
        # The same count wherever one looks.
        (row,) = await listed(gateway, session := await enter(gateway))
        assert line["attempts"] == row["attempts"] == len(expected)
        if not (stream and failed[-1][0] == 200):  # else the head had to go out before it was known
            assert answer.headers["x-midstream-attempts"] == str(len(expected))
        _, detail = await gateway.get(f"/web/api/live/{row['number']}", **{SESSION: session})
        assert [(each["model"], each["status"], each["error"]) for each in detail["earlier"]] == expected[:-1]
        events = book.events()
        assert [(each["midstream.model"], each.get("http.response.status_code", 0), each.get("error.type", "")) for each in events] == expected  # fmt: skip
        counts = book.counted()
        assert sum(counts.values()) == len(expected) and counts["sim/gpt-4o", "200", ""] == 1
        assert counts[f"rude/{first}", str(failed[0][0] or ""), failed[0][1]] == len(failed)


@asynchronous
async def test_a_model_that_could_not_be_asked_is_an_attempt_too(tmp_path: Path) -> None:
    config = CHAIN.format(first="503", more="")
    async with upstream() as rude, gate(config, retries=0, more=[rude.provider()]) as gateway:
        book = Book(gateway, tmp_path / "log")
        for _ in range(6):
            status, headers, _ = await gateway.post("/v1/chat/completions", {"model": "x", **CHAT})
            assert (status, headers["x-midstream-attempts"]) == (200, "2")
        line = book.line()
        assert len(rude.asked) == 5  # then its breaker opened
        assert line["attempts"] == 2
        assert line["tried"][0].items() >= {"model": "rude/503", "error": OVERLOADED}.items()
        assert "status" not in line["tried"][0]


@pytest.mark.parametrize("model", ["late", "half-wait"])
@asynchronous
async def test_a_client_that_leaves_is_told_with_the_host_it_waited_for(tmp_path: Path, model: str) -> None:
    async with upstream() as rude, gate(more=[rude.provider()]) as gateway:
        book = Book(gateway, tmp_path / "log")
        body = {"model": f"rude/{model}", **CHAT, "stream": True}
        asking = asyncio.create_task(_read(gateway, body))
        await rude.waiting.wait()
        asking.cancel()
        await rude.left.wait()
        while gateway.app.gateway is not None and gateway.app.gateway.limiter.in_flight:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        line = book.line()
        assert line["error"] == "client_gone"
        (tried,) = line["tried"]
        assert (tried["model"], tried["error"]) == (f"rude/{model}", "aborted")


async def _read(gateway: Gate, body: dict[str, Any]) -> None:
    async with aiohttp.ClientSession() as http, http.post(f"{gateway.url}/v1/chat/completions", json=body) as answer:
        await answer.read()


WAITS = {"first_byte": 0.2, "idle": 0.2}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("where", ["config", "call"])
@asynchronous
async def test_a_program_sets_how_long_a_host_may_take(where: str, stream: bool) -> None:
    config = Config(timeouts=TimeoutConfig(**WAITS)) if where == "config" else Config()
    options = Options(**WAITS) if where == "call" else None

    async def ask(*models: str) -> Turn:
        async with upstream() as rude:  # it answers everybody once a client has left
            catalog = Catalog(config, providers=[*sim_providers(sim.url), rude.provider()], environ={})
            async with Client(catalog) as client:
                if stream:
                    return await client.stream(models, "hi", options=options)
                return await client.complete(models, "hi", options=options)

    async with Sim(port=0) as sim:
        assert "You said: hi" in (await ask("rude/late", "sim/gpt-4o")).text
        if stream:
            assert (await ask("rude/half-wait")).failure == IdleTimeout.kind
        else:
            with pytest.raises(TimedOut, match=r"0\.2 s"):
                await ask("rude/late")


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ("[defaults]\nidle = 0.2", "idle_timeout"),
        ("[defaults]\nidle = 60\n[aliases.x]\nmodels = ['rude/half-wait']\nidle = 0.2", "idle_timeout"),
        ("[defaults]\ntotal = 0.3", "timed_out"),
    ],
    ids=["defaults", "alias", "total"],
)
@asynchronous
async def test_an_operator_sets_how_long_a_host_may_take(tmp_path: Path, config: str, error: str) -> None:
    async with upstream() as rude, gate(config, more=[rude.provider()]) as gateway:
        book = Book(gateway, tmp_path / "log")
        model = "x" if "aliases" in config else "rude/half-wait"
        await gateway.stream("/v1/chat/completions", {"model": model, **CHAT, "stream": True})
        (tried,) = book.line()["tried"]
        assert tried["error"] == error and 190 < tried["ms"] < 20_000


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_a_wait_is_more_than_nothing(value: float) -> None:
    with pytest.raises(ConfigError, match=r"invalid idle .*; expected seconds, more than 0"):
        Options(idle=value)
