"""The names of OpenTelemetry's conventions for generative AI, and our words in theirs. Status there: development.

They are those of release 1.41 of the Semantic Conventions, the last that defines them. They have moved to
open-telemetry/semantic-conventions-genai since, which has released nothing so far, and there the metrics are being renamed.
What is not theirs begins with `midstream.`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..core.dialect import Options

VERSION = "1.41.0"
SCHEMA_URL = f"https://opentelemetry.io/schemas/{VERSION}"

CHAT, EXECUTE_TOOL, INVOKE_AGENT = "chat", "execute_tool", "invoke_agent"
PASSED_ON = {"/embeddings": "embeddings", "/completions": "text_completion"}
"""What the conventions call a request to a path of a host; one without a word has its path."""
"""Values of `gen_ai.operation.name`."""

AGENT_NAME = "gen_ai.agent.name"
CONVERSATION_ID = "gen_ai.conversation.id"
INPUT_MESSAGES = "gen_ai.input.messages"
OPERATION_NAME = "gen_ai.operation.name"
OUTPUT_MESSAGES = "gen_ai.output.messages"
OUTPUT_TYPE = "gen_ai.output.type"
PROVIDER_NAME = "gen_ai.provider.name"
REQUEST_FREQUENCY_PENALTY = "gen_ai.request.frequency_penalty"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_PRESENCE_PENALTY = "gen_ai.request.presence_penalty"
REQUEST_SEED = "gen_ai.request.seed"
REQUEST_STOP_SEQUENCES = "gen_ai.request.stop_sequences"
REQUEST_STREAM = "gen_ai.request.stream"
REQUEST_TEMPERATURE = "gen_ai.request.temperature"
REQUEST_TOP_P = "gen_ai.request.top_p"
RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
TOKEN_TYPE = "gen_ai.token.type"
TOOL_CALL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_CALL_RESULT = "gen_ai.tool.call.result"
TOOL_DESCRIPTION = "gen_ai.tool.description"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
USAGE_CACHE_CREATION = "gen_ai.usage.cache_creation.input_tokens"
USAGE_CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
USAGE_REASONING = "gen_ai.usage.reasoning.output_tokens"

ERROR_TYPE = "error.type"
HTTP_STATUS = "http.response.status_code"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"

ATTEMPT = "midstream.attempt"
"""Our event for each request that was sent for an answer, and what became of it; the conventions have none."""

OPERATION_DURATION = "gen_ai.client.operation.duration"
TIME_TO_FIRST_CHUNK = "gen_ai.client.operation.time_to_first_chunk"
TOKEN_USAGE = "gen_ai.client.token.usage"
SECONDS_BUCKETS = tuple([0.01 * 2**power for power in range(14)])
"""The boundaries that the conventions give for durations: 10 ms to 82 s, each twice the one before."""
TOKEN_BUCKETS = tuple([float(4**power) for power in range(14)])
"""And for tokens: 1 to 67 million, each four times the one before."""

CAPTURE_CONTENTS = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable by which contents are asked for; without it there are none anywhere."""

FINISH_REASONS = {"end_turn": "stop", "tool_use": "tool_call", "max_tokens": "length", "refusal": "content_filter"}
"""Our stop reasons in the conventions' words."""

_PROVIDERS = {
    "azure": "azure.ai.openai", "azure-deployment": "azure.ai.openai", "azure-responses": "azure.ai.openai",
    "bedrock": "aws.bedrock", "bedrock-mantle": "aws.bedrock", "gemini": "gcp.gemini", "mistral": "mistral_ai",
    "moonshot": "moonshot_ai", "moonshot-anthropic": "moonshot_ai", "moonshot-cn": "moonshot_ai",
    "openai-responses": "openai", "vertex": "gcp.vertex_ai", "xai": "x_ai", "xai-responses": "x_ai",
    "deepseek-anthropic": "deepseek",
}  # fmt: skip
"""Our names for providers where the conventions have another. (`moonshot_ai` is in their next release.)"""

_OPTIONS = {
    "max_tokens": REQUEST_MAX_TOKENS,
    "temperature": REQUEST_TEMPERATURE,
    "top_p": REQUEST_TOP_P,
    "seed": REQUEST_SEED,
    "presence_penalty": REQUEST_PRESENCE_PENALTY,
    "frequency_penalty": REQUEST_FREQUENCY_PENALTY,
}


def provider_name(provider: str) -> str:
    return _PROVIDERS.get(provider, provider)


def option_attributes(options: Options) -> dict[str, object]:
    """What was asked of the model, as far as the conventions have names for it."""
    found: dict[str, object] = {
        theirs: value for ours, theirs in _OPTIONS.items() if (value := getattr(options, ours)) is not None
    }
    if options.stop:
        found[REQUEST_STOP_SEQUENCES] = options.stop
    if options.schema is not None or options.response_format is not None:
        found[OUTPUT_TYPE] = "json"
    return found


def wants_contents(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment asks for what was said, on spans."""
    return environ.get(CAPTURE_CONTENTS, "").strip().lower() in ("true", "1", "span", "span_only", "span_and_event")


def attempt_attributes(model: str, host: str, status: int, error: str, ms: float) -> dict[str, str | int | float]:
    """The attributes of the event of one attempt."""
    found: dict[str, str | int | float] = {"midstream.model": model, SERVER_ADDRESS: host, "midstream.duration_ms": ms}
    if status:
        found[HTTP_STATUS] = status
    if error:
        found[ERROR_TYPE] = error
    return found
