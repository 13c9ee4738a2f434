"""Our chat model in LangChain: its standard tests in an environment of their own, and langchain-core by itself."""

from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from midstream.core.ids import PREFIX as CANONICAL
from midstream.testing import Answer, Call, SimServer, sim_server
from tests.adapters.tour import MODELS, errand, judge, weather

pytest.importorskip("langchain_core", reason="langchain-core is not installed: run `make test-e2e`")

from langchain_core import exceptions
from langchain_core.load import dumpd, load
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
    trim_messages,
)
from langchain_core.tools import tool

from midstream.adapters.backend import Backend
from midstream.adapters.langchain import ChatMidstream
from midstream.errors import LocalError, MidstreamError, RetriesExhausted, UnknownModel

ROOT = Path(__file__).resolve().parents[2]
PYTHON = Path(f"{sys.prefix}-langchain") / "bin" / "python"
KIMI = MODELS[0]


class Joke(BaseModel):
    """The output of LangChain's documentation."""

    setup: str
    punchline: str


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return weather(city)


@pytest.fixture
def sim() -> Iterator[SimServer]:
    with sim_server(strict="paranoid") as server:
        yield server


@pytest.mark.skipif(not PYTHON.exists(), reason="LangChain's tests are not installed: run `make test-e2e`")
def test_the_standard_tests_of_langchain() -> None:
    words = [
        "-m",
        "pytest",
        "-c",
        "/dev/null",
        "--rootdir",
        str(ROOT),
        "-q",
        "-o",
        "asyncio_mode=auto",
        "-p",
        "no:cacheprovider",
        "--benchmark-disable",
    ]
    done = subprocess.run(
        [str(PYTHON), *words, "tests/e2e/drivers/langchain_suite.py"],
        cwd=ROOT, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:]
    assert int(done.stdout.rstrip().rpartition("\n")[2].split(" passed")[0].split()[-1]) > 200


def stored(messages: list[Any], how: str) -> list[Any]:
    """The messages as a program finds them again that has saved them."""
    if how == "messages_to_dict":
        return messages_from_dict(json.loads(json.dumps(messages_to_dict(messages))))
    return [load(json.loads(json.dumps(dumpd(message))), allowed_objects="core") for message in messages]


@pytest.mark.filterwarnings("ignore:The function `load` is in beta")
@pytest.mark.parametrize("how", ["messages_to_dict", "dumpd"])
def test_a_conversation_goes_through_every_model(sim: SimServer, how: str) -> None:
    messages: list[Any] = [SystemMessage("Be brief.")]
    for number, name in enumerate(MODELS):
        model = ChatMidstream(model=name, catalog=sim.catalog(), effort="medium")
        bound = model.bind_tools([get_weather])
        messages.append(HumanMessage(errand(number)))
        for _ in range(2):
            if number % 2:
                answer: Any = None
                for chunk in bound.stream(messages):
                    answer = chunk if answer is None else answer + chunk
            else:
                answer = bound.invoke(messages)
            messages.append(answer)
            messages += [get_weather.invoke(call) for call in answer.tool_calls]
        assert weather(f"Town {number}") in messages[-1].text
        messages = stored(messages, how)
        model.close()
    judge(sim, requests=2 * len(MODELS))
    ids = {call["id"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls}
    assert len(ids) == len(MODELS) and all(each.startswith(CANONICAL) for each in ids)
    assert {message.tool_call_id for message in messages if isinstance(message, ToolMessage)} == ids


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
@pytest.mark.parametrize("name", MODELS[:5])
def test_structured_output(sim: SimServer, name: str, method: Any) -> None:
    model = ChatMidstream(model=name, catalog=sim.catalog())
    asked = "Tell me a joke." if method == "json_schema" else "Call Joke with setup 'Why?' and punchline 'Because.'."
    assert isinstance(model.with_structured_output(Joke, method=method).invoke(asked), Joke)
    raw = model.with_structured_output(Joke.model_json_schema(), method=method, include_raw=True).invoke(asked)
    assert raw["parsed"].keys() == {"setup", "punchline"} and isinstance(raw["raw"], AIMessage)
    model.close()
    assert sim.refused == []


def test_async_and_another_model_for_one_call(sim: SimServer) -> None:
    async def ask() -> None:
        model = ChatMidstream(model=KIMI, catalog=sim.catalog())
        whole = await model.ainvoke("hello")
        text = "".join([chunk.text async for chunk in model.astream("hello")])
        assert whole.text == text and whole.usage_metadata is not None and whole.usage_metadata["total_tokens"] > 0
        other = await model.ainvoke([HumanMessage("hello"), whole, HumanMessage("and you?")], model=MODELS[1])
        assert other.response_metadata["model_name"] == MODELS[1] and "claude" in other.text
        assert [block["type"] for block in whole.content_blocks] == ["reasoning", "text"]
        kinds = {event["event"] async for event in model.astream_events("hello")}
        assert {"on_chat_model_start", "on_chat_model_stream", "on_chat_model_end"} <= kinds
        await model.aclose()

    asyncio.run(ask())
    assert sim.refused == []


def test_images_and_options(sim: SimServer) -> None:
    pixel = {"type": "image", "base64": "iVBORw0KGgoAAAA=", "mime_type": "image/png"}
    model = ChatMidstream(model=MODELS[1], catalog=sim.catalog(), max_tokens=77, temperature=0.5, stop=["END"])
    model.invoke([HumanMessage(content=[{"type": "text", "text": "What is this?"}, pixel])])
    body = sim.seen[-1].body
    assert [part["type"] for part in body["messages"][0]["content"]] == ["text", "image"]
    assert (body["max_tokens"], body["temperature"], body["stop_sequences"]) == (77, 0.5, ["END"])
    model.close()


def test_an_option_that_the_model_does_not_take_is_logged(sim: SimServer, caplog: Any) -> None:
    model = ChatMidstream(model=KIMI, catalog=sim.catalog(), temperature=0.5)
    model.invoke("hello")
    model.invoke("hello", model=MODELS[1], seed=3)
    assert f"not sent to {KIMI}: temperature" in caplog.text and f"not sent to {MODELS[1]}: seed" in caplog.text
    model.close()


def test_options_of_one_call_may_have_openai_s_names(sim: SimServer) -> None:
    model = ChatMidstream(model=MODELS[1], catalog=sim.catalog(), max_tokens=77, extra_body={"service_tier": "auto"})
    more = {"metadata": {"user_id": "ada"}}
    model.invoke("hello", max_completion_tokens=55, stop_sequences=["END"], extra_body=more)
    body = sim.seen[-1].body
    assert (body["max_tokens"], body["stop_sequences"], body["service_tier"]) == (55, ["END"], "auto")
    assert body["metadata"] == {"user_id": "ada"}
    model.invoke("hello", model=MODELS[2], reasoning_effort="low")
    assert sim.seen[-1].body["reasoning"]["effort"] == "low"
    model.close()
    assert sim.refused == []


class Person(BaseModel):
    """A class whose schema is not closed, as pydantic writes it."""

    name: str
    counts: dict[str, int] = {}


@pytest.mark.parametrize("name", MODELS[:5])
def test_a_schema_in_openai_s_words(sim: SimServer, name: str) -> None:
    """What `create_agent(…, response_format=ProviderStrategy(Person))` binds to a model."""
    model = ChatMidstream(model=name, catalog=sim.catalog())
    asked = {"type": "json_schema", "json_schema": {"name": "Person", "schema": Person.model_json_schema()}}
    assert Person.model_validate_json(model.bind(response_format=asked).invoke("Who?").text).name
    model.close()
    assert sim.refused == []


def test_older_forms_of_messages(sim: SimServer) -> None:
    model = ChatMidstream(model=KIMI, catalog=sim.catalog())
    google = {"type": "media", "mime_type": "image/png", "data": "iVBORw0KGgoAAAA="}
    model.invoke([HumanMessage([google])])
    assert sim.seen[-1].body["messages"][0]["content"][0]["type"] == "image_url"
    picture = {"type": "image_url", "image_url": "https://example.com/a.png"}
    model.invoke([HumanMessage("Hi."), ChatMessage("Hello.", role="assistant"), HumanMessage([picture])])
    sent = sim.seen[-1].body["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert sent[-1]["content"] == [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]
    model.close()


def test_messages_are_trimmed_without_a_tokenizer(sim: SimServer) -> None:
    model = ChatMidstream(model=KIMI, catalog=sim.catalog())
    long = [HumanMessage("a" * 4000), AIMessage("b"), HumanMessage("c")]
    assert trim_messages(long, max_tokens=100, token_counter=model) == long[1:]
    assert model.get_num_tokens("hello") < model.get_num_tokens_from_messages(long[1:], [get_weather])


def test_arguments_that_are_no_json_are_an_invalid_call() -> None:
    with sim_server(Answer(calls=(Call("get_weather", '{"city": '),)), Answer("sorry"), strict="paranoid") as scripted:
        model = ChatMidstream(model=KIMI, catalog=scripted.catalog())
        answer = model.bind_tools([get_weather]).invoke("go")
        assert not answer.tool_calls and "city" in answer.invalid_tool_calls[0]["args"]
        result = ToolMessage("not JSON", tool_call_id=answer.invalid_tool_calls[0]["id"], status="error")
        assert model.bind_tools([get_weather]).invoke([HumanMessage("go"), answer, result]).text == "sorry"
        model.close()
        assert scripted.refused == []


def test_errors_and_fallbacks(sim: SimServer) -> None:
    backend = Backend(sim.catalog())
    unknown = ChatMidstream(model="nobody/x", backend=backend)
    with pytest.raises(UnknownModel):
        unknown.invoke("hello")
    assert unknown.with_fallbacks([ChatMidstream(model=KIMI, backend=backend)]).invoke("hello").text
    sim.inject(429, 3)
    with pytest.raises(RetriesExhausted):
        list(ChatMidstream(model=KIMI, backend=backend).stream("hello"))
    backend.close()


def test_errors_are_langchain_s_too(sim: SimServer) -> None:
    """LangChain's middleware retries, and summarises a conversation that is too long, by these classes."""

    def failure(*, stream: bool, served: SimServer = sim, **fields: Any) -> Any:
        model = ChatMidstream(**{"model": KIMI, "catalog": served.catalog(), **fields})
        with pytest.raises(MidstreamError) as caught:
            list(model.stream("word " * 100)) if stream else model.invoke("word " * 100)
        model.close()
        return caught.value

    for stream in (False, True):
        sim.inject(429, 3)
        limited = failure(stream=stream)
        assert isinstance(limited, exceptions.ModelRateLimitError) and limited.is_retryable and limited.attempts
        sim.inject(500, 3)
        assert isinstance(failure(stream=stream), exceptions.ModelAPIError)
        assert isinstance(failure(stream=stream, model="nobody/x"), exceptions.ModelNotFoundError)
        with sim_server(key="right") as guarded:
            refused = failure(stream=stream, served=guarded)
            assert isinstance(refused, exceptions.ModelAuthenticationError) and not refused.is_retryable
            assert refused.status == 401 and str(refused) == str(refused.__cause__)
            # An executor of other processes sends what its workers raise.
            sent = pickle.loads(pickle.dumps(refused))
            assert type(sent) is type(refused) and vars(sent) == vars(refused) and str(sent) == str(refused)
        with sim_server(window=50) as small:
            assert isinstance(failure(stream=stream, served=small), exceptions.ContextOverflowError)
    sim.inject("cut", 9)
    assert isinstance(failure(stream=True), exceptions.ModelConnectionError)


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({"type": "tool", "name": "get_weather"}, {"type": "tool", "name": "get_weather"}),
        ({"type": "function", "function": {"name": "get_weather"}}, {"type": "tool", "name": "get_weather"}),
        ({"type": "any"}, {"type": "any"}),
        ({"type": "auto"}, {"type": "auto"}),
    ],
)
def test_a_tool_choice_in_the_words_of_a_host(sim: SimServer, asked: Any, sent: Any) -> None:
    model = ChatMidstream(model=MODELS[1], catalog=sim.catalog())
    model.bind_tools([get_weather], tool_choice=asked).invoke("hello")
    assert sim.seen[-1].body["tool_choice"] == sent and sim.refused == []
    model.close()


def test_a_host_s_own_tool_is_refused() -> None:
    with pytest.raises(LocalError, match="tools that a host runs itself; got 'web_search_preview'"):
        ChatMidstream(model=KIMI).bind_tools([{"type": "web_search_preview"}])


def test_no_key_is_in_a_repr() -> None:
    model = ChatMidstream(model=KIMI, api_key="sk-canary-123")
    assert "canary" not in repr(model) + str(model.model_dump()) + json.dumps(dumpd(model), default=str)
