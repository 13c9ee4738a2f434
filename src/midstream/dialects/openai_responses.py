"""Hosts of the Responses wire. Sources: field-guide/openai-responses.md#ids, field-guide/openai-responses.md#reasoning.

A row's name says the wire (`openai-responses`); the dialect's provider is the host's, as on its other wires. Reasoning
models ask for encrypted reasoning, which others refuse; they take no sampling options.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..core.dialect import Dialect, Endpoint, Limits, Reasoning
from .chat_hosts import AZURE_ENDPOINT, AZURE_MODELS, IMAGE_TYPES_XAI, REASONING_MODELS, XAI_EFFORT_MODELS
from .provider import Provider

_replace = msgspec.structs.replace
_EXTRAS = (
    "include", "max_tool_calls", "metadata", "prompt_cache_key", "prompt_cache_retention", "reasoning",
    "safety_identifier", "service_tier", "text", "top_logprobs", "truncation",
)  # fmt: skip
# Tools that the host runs itself, by the names that all dialects share.
_SERVER_TOOLS = {
    "web_search": {"type": "web_search"},
    "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
}
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")


def _dialect(name: str, provider: str, **fields: Any) -> Dialect:
    shape: dict[str, Any] = {
        "system_role": "instructions",
        "max_tokens_field": "max_output_tokens",
        "tool_result_media": "inline",
        "media": ("image", "file"),
        "sampling": ("temperature", "top_p", "response_format"),
        "strict_tools": True,
        "developer_role": True,
        "mid_system": True,  # servers of this wire all meet Codex, which sends developer messages anywhere
    }
    return Dialect(name, "openai-responses", provider, **{**shape, **fields})


def _openai(name: str, provider: str, **fields: Any) -> tuple[tuple[str, Dialect], ...]:
    """OpenAI's models, where they reason and where they do not."""
    newest = {"freeform": True, "namespaces": True, "extras": _EXTRAS, "server_tools": _SERVER_TOOLS}
    plain = _dialect(
        name,
        provider,
        schema="openai",
        answer_pass="openai",
        limits=Limits(max_tools=128),
        file_ids=r"file-|assistant-",
        **newest,
        **fields,
    )
    rules = Reasoning(signed=True, default_on=True, control="reasoning")
    reasoning = _replace(plain, name=f"{name}-reasoning", reasoning=rules, sampling=("response_format",))
    # Three generations, which differ in the efforts they take (dialects/efforts.py).
    return (
        (r"(?:^|/)o\d|codex|gpt-oss", _replace(reasoning, name=f"{name}-o")),
        (r"gpt-5(?![.\d])(?!.*chat)", _replace(reasoning, name=f"{name}-5")),
        (REASONING_MODELS, reasoning),
        ("", plain),
    )


XAI = _dialect(
    "xai-responses",
    "xai",
    freeform=True,
    image_types=IMAGE_TYPES_XAI,
    reasoning=Reasoning(signed=True, default_on=True),
)
XAI_PLAIN = _replace(XAI, name="xai-responses-plain", reasoning=Reasoning())
XAI_EFFORT = _replace(XAI, name="xai-responses-effort", reasoning=_replace(XAI.reasoning, control="reasoning"))
OPENROUTER = _dialect(
    "openrouter-responses",
    "openrouter",
    media=("image", "file", "audio"),
    reasoning=Reasoning(signed=True, control="reasoning", efforts=_EFFORTS),
)
OPENROUTER_PLAIN = _replace(OPENROUTER, name="openrouter-responses-plain", reasoning=Reasoning())
GENERIC = _dialect(
    "responses-compatible",
    "responses-compatible",
    # Servers of open models (llama.cpp, LM Studio, vLLM, DeepSeek) send reasoning as plain content and read it back.
    reasoning=Reasoning(echo="always", control="reasoning", efforts=_EFFORTS),
)

PROVIDERS = (
    Provider(
        "openai-responses",
        Endpoint("https://api.openai.com/v1", ("OPENAI_API_KEY",), ("OPENAI_BASE_URL", "OPENAI_API_BASE")),
        _openai("openai-responses", "openai", user_field="safety_identifier"),
        models=("gpt-5.2", "gpt-5.1", "gpt-5", "gpt-5-mini", "gpt-5-codex", "gpt-4.1", "gpt-4o", "o3", "o4-mini"),
        family=r"^(?:gpt|o\d|chatgpt|codex|ft:|computer)",
    ),
    Provider(
        "azure-responses",
        AZURE_ENDPOINT,
        _openai("azure-responses", "azure", path="/openai/v1/responses"),
        models=AZURE_MODELS,
    ),
    Provider(
        "xai-responses",
        Endpoint("https://api.x.ai/v1", ("XAI_API_KEY",), ("XAI_BASE_URL", "XAI_API_BASE"), reports_cost=True),
        (
            # What does not reason is sorted out first; all other models of Grok's do.
            (r"non-reasoning|grok-[23](?!-mini)", XAI_PLAIN),
            (XAI_EFFORT_MODELS, XAI_EFFORT),
            ("", XAI),
        ),
        models=("grok-4", "grok-4-fast", "grok-code-fast-1"),
        family=r"grok",
    ),
    Provider(
        "openrouter-responses",
        Endpoint(
            "https://openrouter.ai/api/v1",
            ("OPENROUTER_API_KEY",),
            ("OPENROUTER_BASE_URL", "OPENROUTER_API_BASE"),
            reports_cost=True,
        ),
        ((r"gpt-[34]", OPENROUTER_PLAIN), ("", OPENROUTER)),
        models=("openai/gpt-5.2", "google/gemini-3-flash-preview"),
    ),
    Provider(
        "responses-compatible",
        Endpoint("http://127.0.0.1:8080/v1", ("RESPONSES_COMPATIBLE_API_KEY",), ("RESPONSES_COMPATIBLE_BASE_URL",)),
        (("", GENERIC),),
    ),
)
