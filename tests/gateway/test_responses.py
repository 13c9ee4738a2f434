"""What a client means the host to know: responses and items of before, and conversations that a host would hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midstream.gateway.api_key import make_key
from midstream.gateway.state import KeyRecord
from tests.event_loops import run
from tests.gateway.serving import Gate, gate

MODELS = ("sim/kimi-k2.5", "sim/gpt-5.2", "sim/claude-sonnet-5", "sim/gemini-3-pro-preview", "sim/mistral-large-latest")
_TOOLS = [{"type": "function", "name": "read_file", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}]  # fmt: skip


async def answer(gateway: Gate, body: dict[str, Any], stream: bool, **headers: str) -> dict[str, Any]:
    """The response to a request."""
    if not stream:
        status, _, whole = await gateway.post("/v1/responses", body, **headers)
        assert status == 200, whole
        return dict(whole)
    data = await gateway.stream("/v1/responses", {**body, "stream": True}, **headers)
    last = json.loads(data.decode().rstrip().rpartition("data: ")[2])
    return dict(last["response"])


def references(response: dict[str, Any]) -> list[dict[str, str]]:
    return [{"type": "item_reference", "id": item["id"]} for item in response["output"]]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", MODELS)
def test_items_that_are_referred_to_are_sent(model: str, stream: bool) -> None:
    """A loop in which the client sends back nothing but ids and results."""

    async def check() -> None:
        async with gate() as gateway:
            items: list[Any] = [{"role": "user", "content": "Read a.txt and read b.txt, then read c.txt"}]
            for calls in (2, 1, 0):
                response = await answer(gateway, {"model": model, "input": items, "tools": _TOOLS}, stream)
                items += references(response)
                made = [item for item in response["output"] if item["type"] == "function_call"]
                assert len(made) == calls
                items += [
                    {"type": "function_call_output", "call_id": call["call_id"], "output": f"says {call['arguments']}"}
                    for call in made
                ]
            items.append({"role": "user", "content": "And what else?"})
            await answer(gateway, {"model": model, "input": items, "tools": _TOOLS}, stream)
            sent = json.dumps(gateway.sim.seen[-1].body)
            assert "Here is what I found" in sent and "item_reference" not in sent
            assert gateway.sim.refused == []

    run(check())


def test_an_unknown_item_is_an_error_and_never_left_out() -> None:
    async def check() -> None:
        async with gate() as gateway:
            assert gateway.app.state is not None and gateway.app.gateway is not None
            keys = [make_key(), make_key()]
            for number, made in enumerate(keys):
                await gateway.app.state.add_key(KeyRecord(made.id, f"tenant {number}", made.digest))
            await gateway.app.gateway.authenticator.refresh()
            one, other = [{"authorization": f"Bearer {made.key.reveal()}"} for made in keys]
            body = {"model": "sim/kimi-k2.5", "input": "hi"}
            known = references(await answer(gateway, body, False, **one))
            unstored = references(await answer(gateway, {**body, "store": False}, False, **one))
            wrong = [
                (one, unstored),
                (other, known),
                (one, [{"type": "item_reference", "id": "msg_of_another_host"}]),
                (one, [{"type": "item_reference"}]),
                (one, [{"type": "item_reference", "id": known[0]["id"] + "7"}]),
            ]
            for headers, items in wrong:
                status, _, refused = await gateway.post("/v1/responses", {**body, "input": items}, **headers)
                assert status == 404 and "not found" in refused["error"]["message"], items
            assert len(gateway.sim.seen) == 2

    run(check())


def test_a_request_refers_to_so_many_responses_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midstream.gateway.responses.MOST_READ", 3)

    async def check() -> None:
        async with gate() as gateway:
            body = {"model": "sim/kimi-k2.5", "input": "hi"}
            items = [each for _ in range(4) for each in references(await answer(gateway, body, False))]
            for count, expected in ((6, 200), (8, 400)):  # two items of each
                status, _, told = await gateway.post("/v1/responses", {**body, "input": items[:count]})
                assert status == expected, told

    run(check())


HELD = [
    ("/v1/responses", {"input": "hi", "conversation": "conv_1"}),
    ("/v1/responses", {"input": "hi", "conversation": {"id": "conv_1"}}),
    ("/v1/responses", {"input": "hi", "prompt": {"id": "pmpt_1"}}),
    (
        "/v1beta/models/sim/kimi-k2.5:generateContent",
        {"contents": [{"parts": [{"text": "hi"}]}], "cachedContent": "cachedContents/1"},
    ),
    ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "thread": {"id": "t"}}),
]


@pytest.mark.parametrize(("path", "body"), HELD)
def test_a_conversation_that_only_a_host_would_hold_is_refused(path: str, body: dict[str, Any]) -> None:
    async def check() -> None:
        async with gate() as gateway:
            status, headers, refused = await gateway.post(path, {"model": "sim/kimi-k2.5", **body})
            assert status == 400 and "send the full conversation" in refused["error"]["message"]
            assert headers["x-should-retry"] == "false" and not gateway.sim.seen
            if path == "/v1/messages":  # Anthropic's client reads this, and sends all of it
                assert refused["error"]["details"] == {"error_code": "thread_unsupported_request"}

    run(check())


@pytest.mark.parametrize("model", MODELS)
def test_what_may_be_answered_later_is_answered_at_once(model: str) -> None:
    """OpenAI takes `background` only with `store`, which the gateway does for it."""

    async def check() -> None:
        async with gate() as gateway:
            response = await answer(gateway, {"model": model, "input": "hi", "background": True}, False)
            assert response["status"] == "completed"
            assert "background" not in gateway.sim.seen[-1].body
            status, found = await gateway.get(f"/v1/responses/{response['id']}")
            assert status == 200 and found["output"] == response["output"]

    run(check())
