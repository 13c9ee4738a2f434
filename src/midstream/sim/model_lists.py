"""What a host says of its models, the list and one alone, in the shape of its wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ..dialects.registry import REGISTRY
from .providers import MODELS, PLAYED

Shape: TypeAlias = dict[str, Any]

# Fixed values: what a double says must not depend on when a test runs. 2025-01-01, the same moment in both forms.
_CREATED = 1_735_689_600
_DATE = "2025-01-01T00:00:00Z"
_CONTEXT = 131_072
_OUTPUT = 65_536


def models_of(provider: str) -> tuple[str, ...]:
    """The models that a double lists; any other name is answered for too."""
    # `sim` itself, which stands for all and lists what it plays.
    if provider not in REGISTRY.providers:
        return MODELS
    played = [model for row in PLAYED if row.provider == provider for model in row.models.split()]
    return tuple(dict.fromkeys([*REGISTRY.providers[provider].models, *played]))


def model_list(wire: str, provider: str, query: Mapping[str, str]) -> Shape:
    """The page of the list that the query asks for, in the shape of this wire."""
    names = models_of(provider)
    return _LISTS.get(wire, _openai_list)(names, provider, query)


def one_model(wire: str, provider: str, name: str) -> Shape | None:
    """What the host says of one model; None if it does not have it."""
    plain = name.removeprefix("models/")
    known = models_of(provider)
    # A host without a list of its own (one of other people's models) may serve any name.
    return _one(wire, provider)(plain, provider) if plain in known or not known else None


def shown_model(name: str) -> Shape:
    """Ollama's longer account of one model."""
    family = _family(name)
    info = {
        "general.architecture": family,
        f"{family}.context_length": _CONTEXT,
        "general.parameter_count": 4_000_000_000,
    }
    return {
        "modelfile": f"FROM {name}", "parameters": "", "template": "{{ .Prompt }}", "license": "",
        "modified_at": _DATE, "details": _details(name), "model_info": info,
        "capabilities": ["completion", "tools", "thinking", "vision"],
    }  # fmt: skip


def _one(wire: str, provider: str) -> Callable[[str, str], Shape]:
    return _BY_PROVIDER.get(provider) or _BY_WIRE.get(wire, _openai)


def _openai(name: str, provider: str) -> Shape:
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": provider.partition("-")[0] or "sim"}


def _mistral(name: str, provider: str) -> Shape:
    can = {
        "completion_chat": True, "completion_fim": False, "function_calling": True, "fine_tuning": False,
        "vision": True, "classification": False,
    }  # fmt: skip
    return {
        **_openai(name, provider), "owned_by": "mistralai", "capabilities": can, "name": name, "description": name,
        "max_context_length": _CONTEXT, "aliases": [], "deprecation": None, "default_model_temperature": 0.3,
        "type": "base",
    }  # fmt: skip


def _anthropic(name: str, provider: str) -> Shape:
    return {
        "type": "model", "id": name, "display_name": name.replace("-", " ").title(), "created_at": _DATE,
        "lifecycle": "active", "max_input_tokens": _CONTEXT, "max_tokens": _OUTPUT,
    }  # fmt: skip


def _gemini(name: str, provider: str) -> Shape:
    return {
        "name": f"models/{name}", "version": "001", "displayName": name, "description": name,
        "inputTokenLimit": _CONTEXT, "outputTokenLimit": _OUTPUT,
        "supportedGenerationMethods": ["generateContent", "countTokens"], "temperature": 1, "topP": 0.95, "topK": 64,
    }  # fmt: skip


def _ollama(name: str, provider: str) -> Shape:
    return {
        "name": name, "model": name, "modified_at": _DATE, "size": 2_500_000_000, "digest": "0" * 64,
        "details": _details(name),
    }  # fmt: skip


def _cohere(name: str, provider: str) -> Shape:
    return {
        "name": name, "is_deprecated": False, "endpoints": ["chat"], "finetuned": False, "context_length": _CONTEXT,
        "tokenizer_url": None, "default_endpoints": [], "features": ["tools", "json_mode"],
    }  # fmt: skip


def _details(name: str) -> Shape:
    family = _family(name)
    return {
        "parent_model": "", "format": "gguf", "family": family, "families": [family], "parameter_size": "4.0B",
        "quantization_level": "Q4_K_M",
    }  # fmt: skip


def _family(name: str) -> str:
    return name.partition(":")[0] or "unknown"


_BY_PROVIDER = {"mistral": _mistral}
_BY_WIRE = {"anthropic": _anthropic, "gemini": _gemini, "ollama": _ollama, "cohere": _cohere}


def _openai_list(names: Sequence[str], provider: str, query: Mapping[str, str]) -> Shape:
    one = _one("openai-chat", provider)
    return {"object": "list", "data": [one(name, provider) for name in names]}


def _anthropic_list(names: Sequence[str], provider: str, query: Mapping[str, str]) -> Shape:
    """Pages go forward from `after_id`, or back from `before_id`."""
    size = _size(query.get("limit"), 20)
    if (before := query.get("before_id")) in names:
        end = names.index(str(before))
        start = max(0, end - size)
        more = start > 0
    else:
        after = query.get("after_id")
        start = names.index(after) + 1 if after in names else 0
        end = start + size
        more = end < len(names)
    page = names[start:end]
    ends = {"first_id": page[0] if page else None, "last_id": page[-1] if page else None}
    return {"data": [_anthropic(name, provider) for name in page], "has_more": more, **ends}


def _gemini_list(names: Sequence[str], provider: str, query: Mapping[str, str]) -> Shape:
    page, token = _page(names, query.get("pageSize"), query.get("pageToken"), 50)
    found: Shape = {"models": [_gemini(name, provider) for name in page]}
    return {**found, "nextPageToken": token} if token else found


def _cohere_list(names: Sequence[str], provider: str, query: Mapping[str, str]) -> Shape:
    page, token = _page(names, query.get("page_size"), query.get("page_token"), 20)
    return {"models": [_cohere(name, provider) for name in page], "next_page_token": token}


def _ollama_list(names: Sequence[str], provider: str, query: Mapping[str, str]) -> Shape:
    return {"models": [_ollama(name, provider) for name in names]}


_LISTS = {
    "anthropic": _anthropic_list, "gemini": _gemini_list, "cohere": _cohere_list, "ollama": _ollama_list,
}  # fmt: skip


def _page(names: Sequence[str], size: str | None, token: str | None, usual: int) -> tuple[Sequence[str], str | None]:
    """A page by a token that says where it begins, and the token of the next."""
    # Other digits of Unicode pass `isdigit` and fail `int`; a token of a thousand digits would be slow to read.
    start = int(token) if token and token.isascii() and token.isdigit() and len(token) < 7 else 0
    end = start + _size(size, usual)
    return names[start:end], str(end) if end < len(names) else None


def _size(text: str | None, usual: int) -> int:
    return max(1, min(1000, int(text))) if text and text.isascii() and text.isdigit() and len(text) < 7 else usual
