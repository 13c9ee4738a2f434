"""The openai package in this process, with any model behind it: its own calls, helpers, types and errors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessage
from openai.types.responses import Response
from pydantic import BaseModel

from midstream.adapters import async_openai_client, openai_client
from midstream.adapters.openai_wires import OpenAIWires
from midstream.testing import Answer, SimServer, sim_server
from tests.adapters.openai_errands import TOOLS, chat_tour, responses_tour
from tests.adapters.tour import MODELS, judge

KIMI = MODELS[0]
HELLO: list[Any] = [{"role": "user", "content": "hello"}]


class Step(BaseModel):
    explanation: str
    output: str


class MathReasoning(BaseModel):
    """The structured output of the package's own documentation."""

    steps: list[Step]
    final_answer: str


@pytest.fixture
def sim() -> Iterator[SimServer]:
    with sim_server(strict="paranoid") as server:
        yield server


@pytest.fixture
def client(sim: SimServer) -> Iterator[openai.OpenAI]:
    with openai_client(catalog=sim.catalog()) as made:
        yield made


@pytest.mark.parametrize("tour", [chat_tour, responses_tour])
def test_a_conversation_goes_through_every_model(sim: SimServer, client: openai.OpenAI, tour: Any) -> None:
    tour(client)
    judge(sim, requests=2 * len(MODELS))


def test_the_types_are_the_package_s(client: openai.OpenAI) -> None:
    assert isinstance(client, openai.OpenAI)
    reply = client.chat.completions.create(model=KIMI, messages=HELLO)
    assert isinstance(reply, ChatCompletion)
    assert isinstance(reply.choices[0].message, ChatCompletionMessage)
    ChatCompletion.model_validate(reply.model_dump(), strict=False)
    stream = client.chat.completions.create(model=KIMI, messages=HELLO, stream=True)
    assert isinstance(stream, openai.Stream)
    assert all(isinstance(chunk, ChatCompletionChunk) for chunk in stream)
    assert isinstance(client.responses.create(model=KIMI, input="hello"), Response)


def test_the_package_s_helpers_work(sim: SimServer, client: openai.OpenAI) -> None:
    for model in MODELS[:5]:
        parsed = client.chat.completions.parse(model=model, messages=HELLO, response_format=MathReasoning)
        assert isinstance(parsed.choices[0].message.parsed, MathReasoning), model
        answered = client.responses.parse(model=model, input="hello", text_format=MathReasoning)
        assert isinstance(answered.output_parsed, MathReasoning), model
    with client.chat.completions.stream(model=KIMI, messages=HELLO) as events:
        kinds = {event.type for event in events}
        final = events.get_final_completion()
    assert "content.delta" in kinds and final.choices[0].message.content
    with client.responses.stream(model=KIMI, input="hello") as stream:
        stream.until_done()
        assert stream.get_final_response().output_text
    assert sim.refused == []


def test_the_models_that_are_known(client: openai.OpenAI) -> None:
    assert KIMI in {model.id for model in client.models.list()}
    assert client.models.retrieve(KIMI).owned_by == "moonshot"
    with pytest.raises(openai.NotFoundError, match="unknown provider"):
        client.models.retrieve("nobody/x")


def test_raw_responses_tell_what_was_changed(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(model=MODELS[1], messages=HELLO, logprobs=True)
    assert "unsupported_option" in raw.headers["x-midstream-notes"]
    assert raw.elapsed.total_seconds() > 0 and raw.parse().choices


def test_errors_are_the_package_s(sim: SimServer, client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="unknown provider"):
        client.chat.completions.create(model="nobody/x", messages=HELLO)
    with pytest.raises(openai.BadRequestError, match="no messages"):
        client.chat.completions.create(model=KIMI, messages=[])
    with pytest.raises(openai.NotFoundError, match="not answered here"):
        client.embeddings.create(model=KIMI, input="x")
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=1e-6).chat.completions.create(model=KIMI, messages=HELLO)
    sim.inject(429, 3)
    with pytest.raises(openai.RateLimitError) as limited:
        client.chat.completions.create(model=KIMI, messages=HELLO, stream=True)
    assert limited.value.response.headers["retry-after"] == "0"
    sim.inject("cut", 9)
    with pytest.raises(openai.APIError):
        list(client.chat.completions.create(model=KIMI, messages=HELLO, stream=True))


def test_a_stream_that_goes_silent(sim: SimServer) -> None:
    """The package's limit is for each read; and a stream may be closed while another task or thread waits for it."""

    def read(stream: Any) -> None:
        for _ in stream:
            pass

    async def closed() -> None:
        async with async_openai_client(catalog=sim.catalog()) as client:
            stream = await client.chat.completions.create(model=KIMI, messages=HELLO, stream=True)
            await anext(stream)

            async def rest() -> None:
                async for _ in stream:
                    pass

            reader = asyncio.create_task(rest())
            await asyncio.sleep(0.1)
            await stream.close()
            await asyncio.wait_for(reader, 10)

    sim.inject("stall", 3)
    asyncio.run(closed())
    with openai_client(catalog=sim.catalog()) as client:
        stream = client.chat.completions.create(model=KIMI, messages=HELLO, stream=True)
        reader = threading.Thread(target=read, args=(stream,), daemon=True)
        reader.start()
        reader.join(0.2)
        stream.close()
        reader.join(10)
        assert not reader.is_alive()
        hasty = client.with_options(timeout=0.2)
        with pytest.raises(openai.APITimeoutError):
            read(hasty.chat.completions.create(model=KIMI, messages=HELLO, stream=True))


def test_a_stream_that_is_closed_unread_ends_its_request(sim: SimServer, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    streamed = OpenAIWires.stream

    async def watched(wires: OpenAIWires, reading: Any) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(streamed(wires, reading)) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            ended.append(reading.model)

    async def unread() -> None:
        async with async_openai_client(catalog=sim.catalog()) as client:
            stream = await client.chat.completions.create(model=MODELS[1], messages=HELLO, stream=True)
            await stream.close()
            assert ended == [KIMI, MODELS[1]]

    monkeypatch.setattr(OpenAIWires, "stream", watched)
    with openai_client(catalog=sim.catalog()) as client:
        stream = client.chat.completions.create(model=KIMI, messages=HELLO, stream=True)
        stream.close()
        assert ended == [KIMI]
    asyncio.run(unread())


def test_async_in_two_event_loops(sim: SimServer) -> None:
    client = async_openai_client(catalog=sim.catalog())

    async def ask() -> str:
        text = ""
        async for chunk in await client.chat.completions.create(model=KIMI, messages=HELLO, stream=True):
            text += chunk.choices[0].delta.content or ""
        whole = await client.chat.completions.create(model=KIMI, messages=HELLO)
        assert whole.choices[0].message.content == text
        return text

    assert asyncio.run(ask()) == asyncio.run(ask())


def test_a_proxy_of_the_environment_is_not_asked(sim: SimServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with openai_client(catalog=sim.catalog()) as client:
        assert client.chat.completions.create(model=KIMI, messages=HELLO).choices


def test_a_client_s_tools_come_back_under_their_names() -> None:
    with sim_server(Answer("done")) as sim, openai_client(catalog=sim.catalog()) as client:
        dotted = [{"type": "function", "function": {**TOOLS[0]["function"], "name": "weather.get"}}]
        assert client.chat.completions.create(model=KIMI, messages=HELLO, tools=dotted).choices
        assert sim.refused == []
