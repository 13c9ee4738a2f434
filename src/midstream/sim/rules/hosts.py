"""The doubles by name: which rules each provider holds a request to."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from . import anthropic, chat, completion, gemini, ollama, responses
from .rule import Body, Problem, Rule, Traits

_KIMI_REASONING = "thinking is enabled but reasoning_content is missing in assistant tool call message at index {index}"
_GEMINI_NAME = r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}"
_KIMI_NAME = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"


class Host(msgspec.Struct, frozen=True):
    """A provider's double: its rules and what they depend on."""

    name: str
    traits: Traits
    rules: tuple[Rule, ...]


def seal(name: str) -> str:
    """How the double of this name seals its own reasoning; a real signature is as opaque and as bound."""
    return f"c2ltOg{name.replace('.', '').replace('-', '')}Z"


def _chat(name: str, *more: Rule, **traits: Any) -> Host:
    return Host(name, Traits(name, "openai-chat", **traits), (*chat.COMMON, *more))


def _moonshot(name: str, *more: Rule, **traits: Any) -> Host:
    fields: dict[str, Any] = {
        "id_max": None, "blank_content": False, "moonshot_schema": True, "max_tools": 128, "name_pattern": _KIMI_NAME,
        "error_shape": "brief", "rate_limit_type": "rate_limit_reached_error", **traits,
    }  # fmt: skip
    return _chat(name, chat.UNIQUE_IDS, chat.REASONING, chat.THINKING, *more, **fields)


_THINKS = {"reasoning_field": "reasoning_content", "reasoning_message": _KIMI_REASONING, "thinks_by_default": True}
_DEEPSEEK_REASONING = "Missing `reasoning_content` field in the assistant message at message index {index}."

_ALL = (
    _chat("openai", max_tools=128),
    _moonshot("moonshot-k2", images=False),
    _moonshot("moonshot-k2-thinking", images=False, forced_choice_thinking=(), **_THINKS),
    _moonshot("moonshot-k2.5", forced_choice_thinking=(), fixed_sampling=True, **_THINKS),
    _moonshot("moonshot-k2.7-code", forced_choice_thinking=(), fixed_sampling=True, **_THINKS),
    _moonshot("moonshot-k3", forced_choice_thinking=("required",), fixed_sampling=True, **_THINKS),
    _chat("kimi-weights", chat.UNIQUE_IDS, chat.OWN_IDS, id_max=None, name_pattern=_KIMI_NAME),
    _chat("kimi-k3-weights", chat.UNIQUE_IDS, id_max=None, name_pattern=_KIMI_NAME),
    _chat(
        "mistral",
        chat.UNIQUE_IDS,
        chat.LAST_ROLE,
        chat.KNOWN_FIELDS,
        id_pattern=r"[a-zA-Z0-9]{9}",
        id_message="Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.",
        id_code="3280",
        fields=chat.MISTRAL_FIELDS,
        error_shape="flat",
        max_tools=128,
    ),
    _chat(
        "deepseek",
        chat.REASONING,
        reasoning_field="reasoning_content",
        reasoning_message=_DEEPSEEK_REASONING,
        images=False,
        max_tools=128,
    ),
    _chat(
        "deepseek-reasoner",
        chat.REASONING,
        reasoning_field="reasoning_content",
        reasoning_message=_DEEPSEEK_REASONING,
        thinks_by_default=True,
        images=False,
        max_tools=128,
    ),
    _chat("minimax", chat.UNIQUE_IDS, images=False),
    _chat("qwen"),
    _chat("zai", blank_content=False),
    _chat("compatible"),
    Host("anthropic", Traits("anthropic", "anthropic", signature_prefix=seal("anthropic")), anthropic.RULES),
    Host(
        "claude-4.8",
        Traits("claude-4.8", "anthropic", signature_prefix=seal("anthropic"), mid_system=True),
        anthropic.RULES,
    ),
    Host(
        "moonshot-anthropic",
        Traits("moonshot-anthropic", "anthropic", reasoning_message=_KIMI_REASONING, name_pattern=_KIMI_NAME),
        (*anthropic.RULES, anthropic.REASONING),
    ),
    Host("compatible-anthropic", Traits("compatible-anthropic", "anthropic"), anthropic.RULES),
    Host(
        "openai-responses",
        Traits("openai-responses", "openai-responses", signature_prefix=seal("openai-responses")),
        responses.RULES,
    ),
    Host(
        "gemini",
        Traits(
            "gemini", "gemini", signature_prefix=seal("gemini"), needs_call_signature=True,
            name_pattern=_GEMINI_NAME,
        ),
        gemini.RULES,
    ),
    Host(
        "gemini-2",
        Traits("gemini-2", "gemini", signature_prefix=seal("gemini"), name_pattern=_GEMINI_NAME),
        gemini.RULES,
    ),
    Host("ollama", Traits("ollama", "ollama"), ollama.RULES),
    Host("deepinfra-native", Traits("deepinfra-native", "completion"), completion.RULES),
    Host("llamacpp", Traits("llamacpp", "completion"), completion.LLAMACPP),
    Host("completions", Traits("completions", "completion"), completion.OPENAI),
)  # fmt: skip

HOSTS: dict[str, Host] = {host.name: host for host in _ALL}

# dialect name -> its double, the first beginning that fits; Moonshot's other addresses are the same service
_MOONSHOT_MODELS = (
    ("-k2-thinking", "moonshot-k2-thinking"), ("-k2.7-code", "moonshot-k2.7-code"), ("-k2.", "moonshot-k2.5"),
    ("-k3", "moonshot-k3"), ("-k2", "moonshot-k2"), ("", "moonshot-k2.5"),
)  # fmt: skip
_BY_DIALECT = (
    ("moonshot-anthropic", "moonshot-anthropic"),
    *[(f"{row}{tail}", name) for row in ("moonshot-cn", "kimi-coding", "moonshot") for tail, name in _MOONSHOT_MODELS],
    ("deepseek-anthropic", "compatible-anthropic"),
    ("deepseek-reasoner", "deepseek-reasoner"),
    ("deepseek", "deepseek"),
    ("minimax-anthropic", "compatible-anthropic"),
    ("gemini-2", "gemini-2"),
    ("vertex-2", "gemini-2"),
    ("openai-responses", "openai-responses"),
)

_WEIGHTS = {"kimi": "kimi-weights", "kimi-k3": "kimi-k3-weights"}  # scheme of ids -> hosts of these models' weights


def host_for(dialect_name: str, wire: str, provider: str, ids: str = "standard") -> Host:
    """The double that judges requests of a dialect; what it seals, it seals in the provider's own name."""
    host = _double(dialect_name, wire, provider, ids)
    if not host.traits.signature_prefix:
        return host
    return replace(host, traits=replace(host.traits, signature_prefix=seal(provider or host.name)))


def _double(dialect_name: str, wire: str, provider: str, ids: str) -> Host:
    for beginning, name in _BY_DIALECT:
        if dialect_name.startswith(beginning):
            return HOSTS[name]
    if wire == "openai-chat" and ids in _WEIGHTS:
        return HOSTS[_WEIGHTS[ids]]
    for name in (dialect_name, provider):
        if name in HOSTS and HOSTS[name].traits.wire == wire:
            return HOSTS[name]
    other = {"anthropic": "compatible-anthropic", "openai-chat": "compatible", "completion": "deepinfra-native"}
    return HOSTS[other.get(wire, wire)]


def judge(body: bytes | Body, host: Host | str) -> list[Problem]:
    """Everything this host would refuse in a request; an empty list means 200."""
    judging = HOSTS[host] if isinstance(host, str) else host
    value = msgspec.json.decode(body) if isinstance(body, bytes) else body
    return [problem for rule in judging.rules for problem in rule.problems(value, judging.traits)]
