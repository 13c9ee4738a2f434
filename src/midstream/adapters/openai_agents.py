"""A `ModelProvider` for the OpenAI Agents SDK: `Runner.run(agent, …, run_config=RunConfig(model_provider=MidstreamProvider()))`.

An agent's `model` is then any name that midstream knows, and may differ from agent to agent and from turn to turn. The models
are the SDK's own for the Responses API, whose requests are answered in this process: streams, tools, handoffs, guardrails and
sessions are the SDK's. Reasoning travels inside of the reasoning items, which sessions store. See docs/adapters/openai-agents.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..client.catalog import Catalog
from ..core.errors import LocalError
from ..core.secret import Secret
from ..transport import TransportOptions
from .backend import Backend
from .needed import needed
from .openai_sdk import async_openai_client

with needed("openai-agents", "0.24"):
    from agents.model_settings import ModelSettings
    from agents.models.default_models import get_default_model_settings
    from agents.models.interface import Model, ModelProvider
    from agents.models.openai_responses import OpenAIResponsesModel

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
        return MidstreamModel(name, self._client) if model_name else _UnnamedModel(name, self._client)

    async def aclose(self) -> None:
        await self._backend.aclose()


class MidstreamModel(OpenAIResponsesModel):
    """The SDK's model for the Responses API, with any model behind it."""

    def __init__(self, name: str, client: AsyncOpenAI | None = None, **options: Any) -> None:
        super().__init__(name.removeprefix(PREFIX), client or async_openai_client(carry=True), **options)


class _UnnamedModel(MidstreamModel):
    """The model of an agent that names none. The SDK gives such an agent the settings of OpenAI's newest model, which turn
    thinking off; here another model answers, and nobody asked for them."""

    async def get_response(
        self, system_instructions: Any, input: Any, model_settings: ModelSettings, *rest: Any, **more: Any
    ) -> Any:
        return await super().get_response(system_instructions, input, _asked(model_settings), *rest, **more)

    def stream_response(
        self, system_instructions: Any, input: Any, model_settings: ModelSettings, *rest: Any, **more: Any
    ) -> Any:
        return super().stream_response(system_instructions, input, _asked(model_settings), *rest, **more)


def _asked(settings: ModelSettings) -> ModelSettings:
    """The settings without the SDK's own. Only where all of those are there: a single one may be the caller's."""
    own = {name: value for name, value in vars(get_default_model_settings()).items() if value is not None}
    if any(getattr(settings, name) != value for name, value in own.items()):
        return settings
    return replace(settings, **dict.fromkeys(own))
