"""A `ModelProvider` for the OpenAI Agents SDK: `Runner.run(agent, …, run_config=RunConfig(model_provider=MidstreamProvider()))`.

An agent's `model` is then any name that midstream knows, and may differ from agent to agent and from turn to turn. The models
are the SDK's own for the Responses API, whose requests are answered in this process: streams, tools, handoffs, guardrails and
sessions are the SDK's. Reasoning travels inside of the reasoning items, which sessions store. See docs/adapters/openai-agents.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.models.interface import Model, ModelProvider
from agents.models.openai_responses import OpenAIResponsesModel

from ..client.catalog import Catalog
from ..core.errors import LocalError
from ..core.secret import Secret
from ..transport import TransportOptions
from .backend import Backend
from .openai_sdk import async_openai_client

if TYPE_CHECKING:
    from openai import AsyncOpenAI  # type: ignore[import-not-found, unused-ignore]

PREFIX = "midstream/"


class MidstreamProvider(ModelProvider):
    """Gives models by name, with or without `midstream/` before it; `default` is for agents that name none."""

    def __init__(
        self,
        default: str | None = None,
        *,
        catalog: Catalog | None = None,
        api_key: str | Secret | None = None,
        transport: TransportOptions | None = None,
    ) -> None:
        self._default = default
        self._backend = Backend(catalog, api_key=api_key, transport=transport)
        self._client: AsyncOpenAI = async_openai_client(backend=self._backend, carry=True)

    def get_model(self, model_name: str | None) -> Model:
        name = model_name or self._default
        if not name:
            raise LocalError(
                "the agent names no model: give it one (Agent(model='moonshot/kimi-k2.5')), or a default here"
            )
        return MidstreamModel(name, self._client)

    async def aclose(self) -> None:
        await self._backend.aclose()


class MidstreamModel(OpenAIResponsesModel):
    """The SDK's model for the Responses API, with any model behind it."""

    def __init__(self, name: str, client: AsyncOpenAI | None = None, **options: Any) -> None:
        super().__init__(name.removeprefix(PREFIX), client or async_openai_client(carry=True), **options)
