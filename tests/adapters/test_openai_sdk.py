"""The client of OpenAI's shape without the openai package: tests/e2e/test_adapter_openai.py tries it with the package."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from midstream.adapters import async_openai_client, openai_client
from midstream.adapters.openai_objects import OpenAIObject
from midstream.client.catalog import Catalog
from midstream.client.config import Config
from midstream.core.ids import PREFIX
from midstream.errors import LocalError, NotFound, ProviderError, RetriesExhausted, TimedOut, UnknownModel
from midstream.testing import Answer, Call, SimServer, sim_server
from tests.long_run import each_once

from .openai_errands import TOOLS, as_dict, chat_tour, gathered, responses_tour
from .tour import MODELS, judge

KIMI = MODELS[0]
HELLO: list[Any] = [{"role": "user", "content": "hello"}]


@pytest.fixture(autouse=True)
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)


@pytest.fixture
def sim() -> Iterator[SimServer]:
    with sim_server(strict="paranoid") as server:
        yield server


@pytest.fixture
def client(sim: SimServer) -> Iterator[Any]:
    with openai_client(catalog=sim.catalog()) as made:
        yield made


@pytest.mark.parametrize("tour", [chat_tour, responses_tour])
def test_a_conversation_goes_through_every_model(sim: SimServer, client: Any, tour: Any) -> None:
    said = json.dumps([each if isinstance(each, dict) else each.model_dump() for each in tour(client)])
    judge(sim, requests=2 * len(MODELS))
    assert said.count(PREFIX) == 2 * len(MODELS), "a call and its result, under one canonical id"


TWO = Answer("Let me see.", calls=(Call("get_weather", {"city": "Oslo"}), Call("get_weather", {"city": "Rome"})))


@each_once(("first", MODELS[:5]), ("second", MODELS[:5]))
def test_two_calls_at_once_are_answered_to_another_model(first: str, second: str) -> None:
    """The results come in the other order, and the third request has no tools any more."""
    with sim_server(TWO, "Done.", "Again.", strict="paranoid") as sim, openai_client(catalog=sim.catalog()) as client:
        said: Any = [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
        ]
        said.append(gathered(client.chat.completions.create(model=first, messages=said, tools=TOOLS, stream=True)))
        calls = said[-1]["tool_calls"]
        assert len({call["id"] for call in calls}) == 2
        said += [
            {"role": "tool", "tool_call_id": call["id"], "content": call["function"]["arguments"]}
            for call in reversed(calls)
        ]
        said.append(client.chat.completions.create(model=second, messages=said, tools=TOOLS).choices[0].message)
        said.append({"role": "user", "content": "and?"})
        assert client.chat.completions.create(model=first, messages=said).choices[0].message.content == "Again."
        assert sim.refused == []


def test_an_answer_has_the_fields_of_the_package(client: Any) -> None:
    reply = client.chat.completions.create(model=KIMI, messages=HELLO)
    assert reply.object == "chat.completion"
    assert reply.model == KIMI
    message = reply.choices[0].message
    assert (message.role, message.tool_calls, message.refusal) == ("assistant", None, None)
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert json.loads(reply.model_dump_json()) == reply.model_dump()
    assert reply == OpenAIObject(reply.model_dump())
    assert "choices" in dir(reply) and "choices" in repr(reply)
    with pytest.raises(AttributeError, match="no field 'nonsense'; it has id, object"):
        _ = reply.nonsense


def test_usage_comes_last_where_it_was_asked_for(client: Any) -> None:
    chunks = list(
        client.chat.completions.create(model=KIMI, messages=HELLO, stream=True, stream_options={"include_usage": True})
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens
    assert chunks[-2].choices[0].finish_reason == "stop"


def test_a_stream_can_be_left(sim: SimServer, client: Any) -> None:
    with client.chat.completions.create(model=KIMI, messages=HELLO, stream=True) as stream:
        assert next(stream).choices
    assert client.chat.completions.create(model=KIMI, messages=HELLO).choices
    assert sim.refused == []


def test_a_response_goes_on_from_another(sim: SimServer, client: Any) -> None:
    first = client.responses.create(model=MODELS[1], input="my name is Ada", instructions="Be brief.")
    assert first.output_text
    client.responses.create(model=KIMI, input="what is my name?", previous_response_id=first.id)
    assert [message["role"] for message in sim.seen[-1].body["messages"]] == ["user", "assistant", "user"]
    with pytest.raises(NotFound, match="send the whole conversation"):
        client.responses.create(model=KIMI, input="x", previous_response_id="resp_unknown")


def test_a_schema_reaches_a_host_that_has_no_such_field(client: Any) -> None:
    schema = {
        "name": "answer",
        "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    }
    for model in MODELS[:5]:
        reply = client.chat.completions.create(
            model=model, messages=HELLO, response_format={"type": "json_schema", "json_schema": schema}
        )
        assert isinstance(json.loads(reply.choices[0].message.content)["n"], int), model


def test_fields_that_only_openai_knows_are_left_out_elsewhere(sim: SimServer, client: Any) -> None:
    client.chat.completions.create(
        model=MODELS[1], messages=HELLO, n=1, logprobs=True, service_tier="auto", extra_body={"made_up": 1},
        extra_headers={"x-title": "t"}, user="ada",
    )  # fmt: skip
    assert not {"n", "logprobs", "service_tier", "made_up", "extra_body", "extra_headers"} & set(sim.seen[-1].body)


def test_the_models_that_are_known(client: Any) -> None:
    listed = client.models.list()
    assert KIMI in {each.id for each in listed.data} and listed.object == "list"
    assert client.models.retrieve(KIMI) in listed.data
    with pytest.raises(UnknownModel):
        client.models.retrieve("nobody/x")


def test_errors_are_ours(sim: SimServer, client: Any) -> None:
    with pytest.raises(UnknownModel):
        client.chat.completions.create(model="nobody/x", messages=HELLO)
    with pytest.raises(ProviderError, match="names no model"):
        client.chat.completions.create(messages=HELLO)
    with pytest.raises(ProviderError, match="no messages"):
        client.chat.completions.create(model=KIMI, messages=[])
    with pytest.raises(LocalError, match=r"not 'embeddings'"):
        _ = client.embeddings
    sim.inject(429, 3)
    with pytest.raises(RetriesExhausted):
        client.chat.completions.create(model=KIMI, messages=HELLO, stream=True)


def test_an_answer_that_breaks_off_is_raised_where_it_breaks(sim: SimServer, client: Any) -> None:
    sim.inject("cut", 9)
    stream = client.chat.completions.create(model=KIMI, messages=HELLO, stream=True)
    assert next(stream).choices
    with pytest.raises(ProviderError):
        list(stream)


def test_time_that_is_up_is_an_error(client: Any) -> None:
    with pytest.raises(TimedOut, match="within 0 s"):
        client.chat.completions.create(model=KIMI, messages=HELLO, timeout=0)


def test_one_async_client_serves_several_event_loops(sim: SimServer) -> None:
    client: Any = async_openai_client(catalog=sim.catalog())

    async def ask() -> str:
        text = ""
        async for chunk in await client.chat.completions.create(model=KIMI, messages=HELLO, stream=True):
            text += chunk.choices[0].delta.content or ""
        whole = await client.chat.completions.create(model=KIMI, messages=HELLO)
        assert whole.choices[0].message.content == text
        assert (await client.models.list()).data and (await client.models.retrieve(KIMI)).id == KIMI
        reply = await client.responses.create(model=KIMI, input="hello")
        assert reply.output_text == text
        await client.close()
        return text

    assert asyncio.run(ask()) == asyncio.run(ask())


def test_reasoning_that_was_kept_elsewhere_goes_back_on_its_own_wire(sim: SimServer, client: Any) -> None:
    """A history of another process: nothing of it is remembered, and its `reasoning_content` is the host's own."""
    first = (
        client.chat.completions.create(
            model=KIMI, messages=[{"role": "user", "content": "Call get_weather with city 'Oslo'."}], tools=TOOLS
        )
        .choices[0]
        .message
    )
    thought = first.reasoning_content
    messages: list[Any] = [{"role": "user", "content": "Call get_weather with city 'Oslo'."}, first]
    messages.append({"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "rain"})
    with openai_client(catalog=sim.catalog()) as another:
        another.chat.completions.create(model=KIMI, messages=messages, tools=TOOLS)
    assert thought.strip() and sim.seen[-1].body["messages"][1]["reasoning_content"] == thought
    assert sim.refused == []


def test_no_key_is_in_a_repr() -> None:
    with sim_server(Answer("hi"), key="sk-canary-123") as sim:
        catalog = Catalog(Config(), environ={"MOONSHOT_BASE_URL": sim.base_url("moonshot")})
        client: Any = openai_client(catalog=catalog, api_key="sk-canary-123")
        reply = client.chat.completions.create(model=KIMI, messages=HELLO)
        assert "sk-canary" not in repr((client, vars(client), reply))
        client.close()


def test_helpers_agree() -> None:
    """Both ways of sending an answer back say the same."""
    with sim_server() as sim, openai_client(catalog=sim.catalog()) as client:
        asked: dict[str, Any] = {"model": KIMI, "messages": HELLO}
        whole = as_dict(client.chat.completions.create(**asked).choices[0].message)
        assert whole == gathered(client.chat.completions.create(**asked, stream=True))


@pytest.mark.parametrize("stream", [False, True])
def test_options_that_a_model_does_not_take_are_logged_once(client: Any, caplog: Any, stream: bool) -> None:
    for _ in range(2):
        said = client.chat.completions.create(
            model=KIMI, messages=HELLO, temperature=0.2, frobnicate=1, logprobs=None, store=True, stream=stream
        )
        if stream:
            list(said)
    assert [record.getMessage() for record in caplog.records if record.name == "midstream.adapters"] == [
        f"not sent to {KIMI}: 'frobnicate': moonshot-k2.5 is not known to take it",
        f"not sent to {KIMI}: 'store': moonshot-k2.5 is not known to take it",
        f"not sent to {KIMI}: temperature cannot be set for this model",
    ]
