"""What the official SDKs can ask for beside talk and tools, through the gateway to doubles of five hosts: none refuses any of it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import anthropic
import openai
import pytest
from google import genai
from google.genai import types
from pydantic import BaseModel

from midstream.testing import SimServer, sim_server
from tests.e2e.test_gateway_clients import TARGETS
from tests.gateway.gateway_process import gateway_process


class Person(BaseModel):
    name: str
    age: int


class Served(NamedTuple):
    doubles: SimServer
    openai: openai.OpenAI
    anthropic: anthropic.Anthropic
    google: genai.Client


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with sim_server() as doubles, gateway_process(doubles.url) as gateway:
        options = types.HttpOptions(base_url=gateway.url)
        with (
            openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as chat,
            anthropic.Anthropic(base_url=gateway.url, api_key="none", max_retries=0) as messages,
            genai.Client(api_key="none", http_options=options) as google,
        ):
            yield Served(doubles, chat, messages, google)


ASK: Any = [{"role": "user", "content": "Ann is 3."}]
MARK: Any = {"type": "ephemeral"}
TOOL: Any = {"name": "greet", "input_schema": {"type": "object"}, "cache_control": MARK, "type": "custom"}


def get_weather(city: str) -> str:
    """Get the weather.

    Args:
        city: The place.
    """
    return f"sunny in {city}"


def chat_schema(sdk: Served, model: str) -> bool:
    answer = sdk.openai.chat.completions.parse(model=model, messages=ASK, response_format=Person)
    return isinstance(answer.choices[0].message.parsed, Person)


def responses_schema(sdk: Served, model: str) -> bool:
    return isinstance(sdk.openai.responses.parse(model=model, input=ASK, text_format=Person).output_parsed, Person)


def messages_schema(sdk: Served, model: str) -> bool:
    answer = sdk.anthropic.messages.parse(model=model, max_tokens=2000, messages=ASK, output_format=Person)
    return isinstance(answer.parsed_output, Person)


def google_schema(sdk: Served, model: str) -> bool:
    config = types.GenerateContentConfig(response_mime_type="application/json", response_schema=Person, top_k=3)
    answer = sdk.google.models.generate_content(model=model, contents="Ann is 3.", config=config)
    return isinstance(answer.parsed, Person)


def chat_settings(sdk: Served, model: str) -> bool:
    said: Any = [{"role": "developer", "content": "Be brief."}, *ASK]
    answer = sdk.openai.chat.completions.create(
        model=model, messages=said, max_completion_tokens=500, stop=["zz"], temperature=0.5, seed=1, user="u",
        metadata={"a": "b"}, store=True, reasoning_effort="high",
    )  # fmt: skip
    return "Ann is 3" in (answer.choices[0].message.content or "")


def responses_settings(sdk: Served, model: str) -> bool:
    answer = sdk.openai.responses.create(
        model=model, input=ASK, instructions="Be brief.", reasoning={"effort": "low"}, truncation="auto",
        prompt_cache_key="k", service_tier="auto", max_output_tokens=500, background=True,
    )  # fmt: skip
    return "Ann is 3" in answer.output_text


def messages_marks(sdk: Served, model: str) -> bool:
    said: Any = [{"role": "user", "content": [{"type": "text", "text": "Ann is 3.", "cache_control": MARK}]}]
    system: Any = [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    answer = sdk.anthropic.messages.create(
        model=model, max_tokens=2000, system=system, messages=said, stop_sequences=["zz"], metadata={"user_id": "u"}
    )
    return answer.stop_reason == "end_turn"


def messages_prefill(sdk: Served, model: str) -> bool:
    said: Any = [*ASK, {"role": "assistant", "content": "So"}]
    return bool(sdk.anthropic.messages.create(model=model, max_tokens=2000, messages=said).content)


def messages_document(sdk: Served, model: str) -> bool:
    source = {"type": "text", "media_type": "text/plain", "data": "Ann is 3."}
    document = {"type": "document", "source": source, "citations": {"enabled": True}}
    said: Any = [{"role": "user", "content": [document, {"type": "text", "text": "How old is she?"}]}]
    answer: Any = sdk.anthropic.messages.create(model=model, max_tokens=2000, messages=said)
    sent = str(sdk.doubles.seen[-1].body)
    arrived = "Ann is 3." in sent or b64encode(b"Ann is 3.").decode() in sent  # as text, or as a file
    return arrived and "How old is she?" in answer.content[-1].text


def messages_forced_tool(sdk: Served, model: str) -> bool:
    choice: Any = {"type": "tool", "name": "greet", "disable_parallel_tool_use": True}
    answer = sdk.anthropic.messages.create(model=model, max_tokens=2000, messages=ASK, tools=[TOOL], tool_choice=choice)
    return bool(answer.content)


def google_calls_by_itself(sdk: Served, model: str) -> bool:
    config = types.GenerateContentConfig(tools=[get_weather])
    answer = sdk.google.chats.create(model=model, config=config).send_message("Get weather in Oslo")
    return "sunny in Oslo" in (answer.text or "")


FEATURES: list[Callable[[Served, str], bool]] = [
    chat_schema, responses_schema, messages_schema, google_schema, chat_settings, responses_settings, messages_marks,
    messages_prefill, messages_document, messages_forced_tool, google_calls_by_itself,
]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("feature", FEATURES, ids=[each.__name__ for each in FEATURES])
def test_feature(feature: Callable[[Served, str], bool], target: str, served: Served) -> None:
    before = served.doubles.requests
    assert feature(served, TARGETS[target])
    asked = served.doubles.requests - before
    assert asked and {seen.status for seen in served.doubles.seen[-asked:]} == {200}
