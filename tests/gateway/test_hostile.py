"""Clients that mean harm: no input is a defect of the gateway, and no limit has a way around it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from midstream.client.config import Config, ModelConfig
from midstream.core.blocks import Usage
from midstream.gateway.api_key import make_key
from midstream.gateway.app import Gateway
from midstream.gateway.state import KeyRecord
from tests.gateway.serving import Gate, asynchronous, gate
from tests.gateway.upstream import Upstream, upstream

_SAID = [{"role": "user", "content": "hi"}]
_BOUND = 10.0


@asynccontextmanager
async def rude_gate(config: str = "", **options: Any) -> AsyncIterator[tuple[Gate, Upstream]]:
    async with upstream() as rude, gate(config, more=[rude.provider()], **options) as gateway:
        yield gateway, rude


def running(gateway: Gate) -> Gateway:
    assert gateway.app.gateway is not None
    return gateway.app.gateway


async def keyed(gateway: Gate, **limits: Any) -> tuple[str, dict[str, str]]:
    """The id of a new key with these limits, and the header that carries the key."""
    made = make_key()
    await running(gateway).state.add_key(KeyRecord(made.id, "mallory", made.digest, **limits))
    await running(gateway).authenticator.refresh()
    return made.id, {"x-api-key": made.key.reveal()}


@pytest.mark.parametrize(
    "path",
    ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/embeddings", "/v1beta/models/x:generateContent"],
)
@asynchronous
async def test_no_page_of_another_site_asks_at_the_operators_cost(path: str) -> None:
    """A browser posts text to any address of this machine for any page; it asks nobody first."""
    async with rude_gate() as (gateway, rude):
        headers = {"origin": "https://evil.example", "content-type": "text/plain"}
        async with gateway.http.post(f"{gateway.url}{path}", data=b'{"model": "rude/x"}', headers=headers) as answer:
            assert answer.status == 403 and "web pages of other sites" in await answer.text()
        assert not rude.asked


@pytest.mark.parametrize("values", [["a", "b"], [""], ["a b"]], ids=["twice", "empty", "space"])
@asynchronous
async def test_a_bad_key_for_the_provider_is_the_clients_mistake(values: list[str]) -> None:
    async with gate("[defaults]\npass_client_keys = true\n") as gateway:
        headers = [("x-midstream-provider-key", value) for value in values]
        body = {"model": "sim/gpt-4o", "messages": _SAID}
        async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers) as answer:
            assert answer.status == 401, await answer.text()
        assert running(gateway).limiter.in_flight == 0


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings"])
@asynchronous
async def test_no_name_of_a_model_breaks_the_head_of_an_answer(path: str) -> None:
    async with rude_gate() as (gateway, rude):
        for name in ("a\0b", "a\x1b[2Jb", "模型", "a\x7f", "é"):
            status, headers, answer = await gateway.post(path, {"model": f"rude/{name}", "messages": _SAID})
            assert status == 200, answer
            assert headers["x-midstream-model"].isprintable() and headers["x-midstream-model"].isascii()
        assert len(rude.asked) == 5


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/responses"])
@asynchronous
async def test_what_is_no_json_is_not_an_upstreams_fault(path: str) -> None:
    async with gate() as gateway:
        deep = b"[" * 5000
        for body in (b'{"previous_response_id": ', b'{"model": "sim/gpt-4o", "previous_response_id":' + deep):
            async with gateway.http.post(gateway.url + path, data=body) as answer:
                assert answer.status == 400, await answer.text()


@asynchronous
async def test_a_chain_of_responses_has_an_end() -> None:
    async with gate() as gateway:
        app = running(gateway)
        app.settings = replace(app.settings, max_body=4000)
        body: dict[str, Any] = {"model": "sim/gpt-4o", "input": "x" * 1000}
        statuses: list[int] = []
        for _ in range(6):
            status, _, answer = await gateway.post("/v1/responses", body)
            statuses.append(status)
            if status != 200:
                assert "continues" in answer["error"]["message"]
                break
            body["previous_response_id"] = answer["id"]
        assert statuses[:2] == [200, 200] and statuses[-1] == 413


@asynchronous
async def test_counting_tokens_counts_for_the_rate() -> None:
    async with gate() as gateway:
        _, key = await keyed(gateway, rate=3, concurrency=1)
        paths = ("/v1/messages/count_tokens", "/v1/responses/input_tokens", "/v1beta/models/m:countTokens")
        body = {"model": "m", "messages": _SAID, "input": "hi", "contents": [{"parts": [{"text": "hi"}]}]}
        assert [(await gateway.post(path, body, **key))[0] for path in (*paths, *paths)] == [200] * 3 + [429] * 3
        assert running(gateway).limiter.in_flight == 0


@asynchronous
async def test_embeddings_are_let_in_before_they_are_read() -> None:
    async with gate() as gateway:
        _, key = await keyed(gateway, rate=1)
        assert [(await gateway.post("/v1/embeddings", {}, **key))[0] for _ in range(2)] == [400, 429]


@asynchronous
async def test_many_names_of_models_make_no_other_model_free() -> None:
    async with rude_gate() as (gateway, _):
        app, catalog = running(gateway), running(gateway).client.catalog
        usage = Usage(1_000_000, 1_000_000)
        for number in range(5000):
            assert app.cost(catalog.resolve(f"rude/{number}"), usage) is None
        assert app.cost(catalog.resolve("moonshot/kimi-k2.5"), usage)


@pytest.mark.parametrize(("model", "least"), [("half-wait", 2), ("late", 1)])
@asynchronous
async def test_who_leaves_before_the_end_pays_for_what_was_read_and_heard(model: str, least: int) -> None:
    prices = Config(models={f"rude/{model}": ModelConfig(input_price=1_000_000.0, output_price=1_000_000.0)})
    async with rude_gate(known=prices) as (gateway, rude):
        app = running(gateway)
        id, key = await keyed(gateway, spend=1.0, spend_window="total")
        body = {"model": f"rude/{model}", "messages": _SAID, "stream": model == "half-wait"}
        asking = asyncio.create_task(gateway.http.post(f"{gateway.url}/v1/chat/completions", json=body, headers=key))
        async with asyncio.timeout(_BOUND):
            await rude.waiting.wait()
            if model == "half-wait":
                answer = await asking
                while b"Good" not in await answer.content.readline():
                    pass
                answer.close()
            else:
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
            while app.limiter.in_flight:  # noqa: ASYNC110 there is no event for it
                await asyncio.sleep(0.01)
        await app.limiter.sync()
        assert await app.state.spend(id, "total") >= least * 1_000_000
        status, _, _ = await gateway.post("/v1/chat/completions", body, **key)
        assert status == 429


@asynchronous
async def test_an_error_is_searched_for_keys_and_not_for_what_is_too_long_for_one() -> None:
    """Everybody waits while one error is searched, so its client must not choose how long that takes."""
    key, long = "msk_0123456789abcdef", "A1b2" * 4000
    async with rude_gate() as (gateway, _):
        body: dict[str, Any] = {"model": "rude/echo", "messages": [{"role": "user", "content": f"{key} {long}"}]}
        status, _, answer = await gateway.post(f"/v1/chat/completions?key={key}", body, **{"x-api-key": long})
        assert status == 400
        said = answer["error"]["message"]
        assert key not in said and long[:40] in said
