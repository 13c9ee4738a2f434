"""Requests that are passed on as they are (embeddings, completions …): sent with the key that they belong to, and they count."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from midstream.client.catalog import Catalog
from midstream.client.config import Config, ModelConfig
from midstream.core.dialect import Endpoint
from midstream.dialects.provider import Provider
from midstream.dialects.registry import resolve
from midstream.gateway.api_key import make_key
from midstream.gateway.assembly import AppOptions, GatewayApp
from midstream.gateway.body import PASSED
from midstream.gateway.config import parse_config
from midstream.gateway.state import KeyRecord, open_state
from midstream.sim.http_server import HTTPRequest, HTTPServer, Responder
from tests.gateway.serving import asynchronous, served

OPERATOR, CLIENT = "sk-of-the-operator", "sk-of-the-client"
PASS_KEYS = "[defaults]\npass_client_keys = true\n"
MADE = make_key()
KEY = MADE.key.reveal()
BODY = {"model": "plain/m", "input": "hello", "prompt": "hello"}
TOLD = {"object": "list", "data": [], "usage": {"prompt_tokens": 1000, "total_tokens": 1000}}


class Host:
    """A host that has every path, and takes these keys."""

    def __init__(self, keys: tuple[str, ...] = (OPERATOR, CLIENT)) -> None:
        self.keys = keys
        self.seen: list[tuple[str, str]] = []  # path and key

    async def __call__(self, asked: HTTPRequest, way: Responder) -> None:
        key = asked.header("authorization").removeprefix("Bearer ")
        self.seen.append((asked.path, key))
        status, body = (
            (200, TOLD) if key in self.keys else (401, {"error": {"message": f"bad key {key}", "code": "bad"}})
        )
        await way.send(status, json.dumps(body).encode(), {"content-type": "application/json"})


@asynccontextmanager
async def passing(
    host: Host, folder: Path, config: str = "", price: float | None = None
) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    """A gateway with a key, before that host; its log and its state are in the folder."""
    server = HTTPServer(host)
    await server.start(port=0)
    dialect = replace(resolve("openai-compatible/x").dialect, provider="plain", native=None)
    row = Provider("plain", Endpoint(f"http://127.0.0.1:{server.port}", key_env=("PLAIN_KEY",)), (("", dialect),))
    known = (
        Config(models={"plain/m": ModelConfig(input_price=price, output_price=price)}) if price is not None else None
    )
    try:
        with (folder / "log").open("wb") as log:
            options = AppOptions(state=str(folder / "state.db"), log_format="json", log_fd=log.fileno())
            catalog = Catalog(known, providers=[row], environ={"PLAIN_KEY": OPERATOR})
            app = GatewayApp(parse_config(config.encode(), "gateway.toml"), options, catalog=catalog)
            async with served(app) as url, aiohttp.ClientSession(headers={"x-api-key": KEY}) as http:
                yield url, http
    finally:
        await server.close()


async def add_key(folder: Path, **limits: Any) -> None:
    state = open_state(str(folder / "state.db"))
    await state.open()
    await state.add_key(KeyRecord(MADE.id, "anna", MADE.digest, "anna", created=time.time(), **limits))
    await state.close()


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log").read_text("ascii").splitlines()]


@pytest.mark.parametrize("allowed", [True, False], ids=["own keys are allowed", "they are not"])
@asynchronous
async def test_a_clients_own_key_is_used_where_it_may_be(allowed: bool, tmp_path: Path) -> None:
    await add_key(tmp_path)
    host = Host()
    async with passing(host, tmp_path, PASS_KEYS if allowed else "") as (url, http):
        for path in PASSED:
            for headers in ({"x-midstream-provider-key": CLIENT}, {}):
                async with http.post(f"{url}/v1{path}", json=BODY, headers=headers) as answer:
                    assert answer.status == 200, await answer.text()
                    assert await answer.json() == TOLD
    own = CLIENT if allowed else OPERATOR
    assert host.seen == [(path, key) for path in PASSED for key in (own, OPERATOR)]


@asynchronous
async def test_the_client_is_told_what_is_wrong_with_its_own_key(tmp_path: Path) -> None:
    await add_key(tmp_path)
    async with passing(Host(keys=(OPERATOR,)), tmp_path, PASS_KEYS) as (url, http):
        headers = {"x-midstream-provider-key": CLIENT}
        async with http.post(f"{url}/v1/embeddings", json=BODY, headers=headers) as answer:
            assert answer.status == 401 and CLIENT not in await answer.text()
    async with (
        passing(Host(keys=()), tmp_path, PASS_KEYS) as (url, http),
        http.post(f"{url}/v1/embeddings", json=BODY) as answer,
    ):  # the operator's key is not the client's matter
        assert answer.status == 502 and OPERATOR not in await answer.text()


@asynchronous
async def test_a_request_has_its_line_and_counts_towards_the_budget(tmp_path: Path) -> None:
    await add_key(tmp_path, spend=0.0015, spend_window="day")
    host = Host()
    async with passing(host, tmp_path, price=1.0) as (url, http):
        for status in (200, 200, 429):  # a dollar for a million tokens, and each request takes a thousand
            async with http.post(f"{url}/v1/embeddings", json={**BODY, "api_base": "http://evil.example"}) as answer:
                assert answer.status == status, await answer.text()
                if status == 200:
                    assert answer.headers["x-midstream-model"] == "plain/m"
                    assert answer.headers["x-midstream-cost"] == "0.00100000"
                    assert answer.headers["x-midstream-notes"] == "unsupported_option: api_base"
                else:
                    assert "$0.002 of its $0.0015 a day" in await answer.text()
        async with http.get(f"{url}/metrics") as answer:
            assert (
                'midstream_requests_total{model="plain/m",status="200",wire="openai-chat"} 2.0' in await answer.text()
            )
    first, second, refused = lines(tmp_path)
    assert len(host.seen) == 2 and refused["error"] == "quota_exceeded"
    wanted = {"path": "/embeddings", "key": MADE.id, "tenant": "anna", "model": "plain/m", "status": 200,
              "input": 1000, "cost": 0.001, "noted": "unsupported_option: api_base"}  # fmt: skip
    assert {name: first.get(name) for name in wanted} == {name: second.get(name) for name in wanted} == wanted
    assert [(each["model"], each["status"]) for each in first["tried"]] == [("plain/m", 200)]
    state = open_state(str(tmp_path / "state.db"))
    await state.open()
    assert [(row.model, row.input, row.cost) for row in await state.usage()] == [("plain/m", 1000, 1000)] * 2
    await state.close()
