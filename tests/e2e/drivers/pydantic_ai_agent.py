"""pydantic-ai: an agent with tools, over the providers' own SDKs. `case.host` names the model class."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Coroutine
from typing import Any

from anthropic import AsyncAnthropic
from driver import Case, Outcome, call, failing, serve
from openai import AsyncOpenAI
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ThinkingPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.mistral import MistralModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.mistral import MistralProvider
from pydantic_ai.providers.openai import OpenAIProvider

_THINKS: dict[str, Any] = {
    "anthropic": {"anthropic_thinking": {"type": "adaptive", "display": "summarized"}, "max_tokens": 2000},
    "google": {"google_thinking_config": {"include_thoughts": True}},
    "responses": {"openai_reasoning_summary": "auto"},
}


def _model(case: Case, retries: int = 0) -> Model:
    match case.host:
        case "anthropic":
            messages = AsyncAnthropic(base_url=case.url, api_key=case.key, max_retries=retries)
            return AnthropicModel(case.model, provider=AnthropicProvider(anthropic_client=messages))
        case "google":
            return GoogleModel(case.model, provider=GoogleProvider(api_key=case.key, base_url=case.url))
        case "mistral":
            return MistralModel(case.model, provider=MistralProvider(api_key=case.key, base_url=case.url))
    provider = OpenAIProvider(openai_client=AsyncOpenAI(base_url=case.url, api_key=case.key, max_retries=retries))
    kind = OpenAIResponsesModel if case.host == "responses" else OpenAIChatModel
    return kind(case.model, provider=provider)


def _agent(case: Case, retries: int = 0) -> Agent[None, str]:
    agent: Agent[None, str] = Agent(_model(case, retries), instructions="Be brief.")

    if case.feature.startswith("tools"):

        @agent.tool_plain
        def read_file(path: str) -> str:
            """Read a file."""
            return case.run("read_file", {"path": path})

        @agent.tool_plain
        def list_files(path: str) -> str:
            """List the files of a folder."""
            return case.run("list_files", {"path": path})

    return agent


def _wait(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def text(case: Case) -> Outcome:
    result = _wait(_agent(case).run(case.prompt))
    return {"text": result.output, "stop": result.all_messages()[-1].finish_reason}


def streaming(case: Case) -> Outcome:
    async def work() -> Outcome:
        async with _agent(case).run_stream(case.prompt) as result:
            pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
            last = result.all_messages()[-1]
        return {"text": "".join(pieces), "pieces": len(pieces), "stop": last.finish_reason}

    return dict(_wait(work()))


def _rounds(messages: list[Any], output: str) -> Outcome:
    answers = [message for message in messages if isinstance(message, ModelResponse)]
    calls = [
        [call(part.tool_name, part.args) for part in answer.parts if isinstance(part, ToolCallPart)]
        for answer in answers
    ]
    return {"rounds": [made for made in calls if made], "text": output}


def tools(case: Case) -> Outcome:
    result = _wait(_agent(case).run(case.prompt))
    return _rounds(result.all_messages(), result.output)


def tools_streamed(case: Case) -> Outcome:
    """Every answer streamed, to its end: a stream of the agent's would stop at the first text beside a call."""

    async def work() -> Outcome:
        async with _agent(case).iter(case.prompt) as run:
            async for node in run:
                if Agent.is_model_request_node(node):
                    async with node.stream(run.ctx) as stream:
                        async for _ in stream:
                            pass
            assert run.result is not None
            return _rounds(run.result.all_messages(), run.result.output)

    return dict(_wait(work()))


def _split(messages: list[Any]) -> Outcome:
    parts = [part for message in messages if isinstance(message, ModelResponse) for part in message.parts]
    return {
        "text": "".join([part.content for part in parts if isinstance(part, TextPart)]),
        "thinking": "".join([part.content for part in parts if isinstance(part, ThinkingPart)]),
    }


def thinking(case: Case) -> Outcome:
    return _split(_wait(_agent(case).run(case.prompt, model_settings=_THINKS.get(case.host))).all_messages())


def thinking_streamed(case: Case) -> Outcome:
    async def work() -> Outcome:
        async with _agent(case).run_stream(case.prompt, model_settings=_THINKS.get(case.host)) as result:
            await result.get_output()
            return _split(result.all_messages())

    return dict(_wait(work()))


def images(case: Case) -> Outcome:
    picture = BinaryContent(base64.b64decode(case.image), media_type="image/png")
    return {"text": _wait(_agent(case).run([case.prompt, picture])).output}


def _counted(usage: Any) -> list[int]:
    return [usage.input_tokens, usage.output_tokens, usage.total_tokens]


def usage(case: Case) -> Outcome:
    async def streamed() -> list[int]:
        async with _agent(case).run_stream(case.prompt) as result:
            await result.get_output()
            return _counted(result.usage)

    return {"whole": _counted(_wait(_agent(case).run(case.prompt)).usage), "streamed": _wait(streamed())}


def count_tokens(case: Case) -> Outcome:
    counted = _model(case).count_tokens([ModelRequest.user_text_prompt(case.prompt)], None, ModelRequestParameters())
    return {"input": _wait(counted).input_tokens}


def bad_request(case: Case) -> Outcome:
    orphan = ModelRequest(parts=[ToolReturnPart(tool_name="x", content="?", tool_call_id="call_1")])
    return failing(lambda: _wait(_model(case).request([orphan], None, ModelRequestParameters())))


def refused(case: Case) -> Outcome:
    return failing(lambda: _wait(_agent(case).run(case.prompt)))


def retried(case: Case) -> Outcome:
    return {"text": _wait(_agent(case, retries=2).run(case.prompt)).output}


if __name__ == "__main__":
    serve(
        {
            "text": text, "streaming": streaming, "tools": tools, "tools streamed": tools_streamed,
            "thinking": thinking, "thinking streamed": thinking_streamed, "images": images, "usage": usage,
            "count tokens": count_tokens, "400": bad_request, "401": refused, "429": refused, "429 retried": retried,
        }
    )  # fmt: skip
