"""Clients that mean harm: no input is a defect of the gateway, and no limit has a way around it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from midstream.gateway.app import Gateway
from tests.gateway.serving import Gate, asynchronous, gate
from tests.gateway.upstream import Upstream, upstream

_SAID = [{"role": "user", "content": "hi"}]


@asynccontextmanager
async def rude_gate(config: str = "", **options: Any) -> AsyncIterator[tuple[Gate, Upstream]]:
    async with upstream() as rude, gate(config, more=[rude.provider()], **options) as gateway:
        yield gateway, rude


def running(gateway: Gate) -> Gateway:
    assert gateway.app.gateway is not None
    return gateway.app.gateway


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
