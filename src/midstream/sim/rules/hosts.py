"""The doubles by name: the rules of each host and the format of its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from ...core.dialect import Dialect
from ...core.errors import LocalError
from . import anthropic, chat, cohere, completion, gemini, ollama, responses
from .rule import Body, Problem, Rule, Traits

_TOOL_FIELDS = ("tools", "tool_choice", "parallel_tool_calls", "toolConfig", "functions")


def _declares_no_tools(body: Body, traits: Traits) -> Iterator[str]:
    for field in _TOOL_FIELDS:
        if field in body:
            yield f"{body.get('model') or traits.name} does not support tools"
            # One refusal is enough, however many of the fields are there.
            return


NO_TOOLS = Rule(
    "no tools",
    "observed",
    'Ollama: "registry.ollama.ai/library/gemma3:4b does not support tools" (ollama#9680); vLLM: "auto" tool choice requires '
    "--enable-auto-tool-choice (vllm#9986)",
    _declares_no_tools,
    guide="hosts.md#models-without-tools",
)


Strict: TypeAlias = Literal["documented", "paranoid"] | bool
"""What to refuse: what is documented or observed, also what is assumed, or nothing; True is the first."""

_KIMI_REASONING = "thinking is enabled but reasoning_content is missing in assistant tool call message at index {index}"
_CLAUDE_NAME = r"[A-Za-z0-9_-]{1,128}"
_KIMI_NAME = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"


class Host(msgspec.Struct, frozen=True):
    """A provider's double: its rules and what they depend on."""

    name: str
    traits: Traits
    rules: tuple[Rule, ...]
    error: Callable[[Problem, Traits], dict[str, Any]]

    def refusal(self, problem: Problem) -> bytes:
        """The body of the error response, in this provider's format."""
        return msgspec.json.encode(self.error(problem, self.traits))


def signature_prefix(name: str) -> str:
    """How every signature of this host begins, so that its double knows its own."""
    # "sim:" in base64 and the name. Valid base64, since other bytes are refused, and some clients drop them.
    return f"c2ltOg{name.replace('.', '').replace('-', '')}Z"


def _host(name: str, module: ModuleType, rules: tuple[Rule, ...] = (), **traits: Any) -> Host:
    """A host by the module of its wire's rules, which has `WIRE`, `RULES` and `error`."""
    return Host(name, Traits(name, module.WIRE, **traits), rules or module.RULES, module.error)


def _chat(name: str, *more: Rule, **traits: Any) -> Host:
    return _host(name, chat, (*chat.RULES, *more), **traits)


def _moonshot(name: str, *more: Rule, **traits: Any) -> Host:
    fields: dict[str, Any] = {
        "id_max": None, "blank_content": False, "moonshot_schema": True, "max_tools": 128, "name_pattern": _KIMI_NAME,
        "error_shape": "brief", "rate_limit_type": "rate_limit_reached_error", "mid_system": True, **traits,
    }  # fmt: skip
    return _chat(name, chat.UNIQUE_IDS, chat.REASONING, chat.PRESERVED, chat.THINKING, *more, **fields)


def strange_host(name: str, *more: Rule, **traits: Any) -> Host:
    """A chat host that no dialect leads to. It refuses all that its traits say: where nobody is known, nothing is assumed."""
    rules = [replace(rule, hosts=(), basis="observed") for rule in (*chat.RULES, *more)]
    return _host(name, chat, tuple(rules), **traits)


_THINKS = {"reasoning_field": "reasoning_content", "reasoning_message": _KIMI_REASONING, "thinks_by_default": True}
_DEEPSEEK = {
    "reasoning_field": "reasoning_content",
    "reasoning_message": "Missing `reasoning_content` field in the assistant message at message index {index}.",
}
_GEMINI: dict[str, Any] = {
    "signature_prefix": signature_prefix("gemini"),
    "name_pattern": r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}",
    "image_types": ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"),
    "bad_key_status": 400,
    "bad_key_message": "API key not valid. Please pass a valid API key.",
}
_CLAUDE: dict[str, Any] = {
    "signature_prefix": signature_prefix("anthropic"), "name_pattern": _CLAUDE_NAME, "checks_schemas": True,
}  # fmt: skip
_XAI: dict[str, Any] = {"image_types": ("image/jpeg", "image/png")}
_COHERE: dict[str, Any] = {"bad_key_message": "invalid api token"}

# One row per kind of service, with what sets it apart; a dialect finds its row by name below. `kimi-weights` stands
# for every host that serves them: what they share comes from the template, not from the host.
_ALL = (
    _chat(
        "openai", max_tools=128, mid_system=True, developer_role=True, freeform=True, blank_text=True, allowed_tools=True,
        checks_schemas=True,
    ),
    _chat("xai", mid_system=True, **_XAI),
    _moonshot("moonshot-k2", images=False),
    _moonshot("moonshot-k2-thinking", images=False, forced_choice_thinking=(), **_THINKS),
    _moonshot("moonshot-k2.5", forced_choice_thinking=(), fixed_sampling=True, **_THINKS),
    _moonshot("moonshot-k2.6", forced_choice_thinking=(), fixed_sampling=True, preserves="asked", **_THINKS),
    _moonshot("moonshot-k2.7-code", forced_choice_thinking=(), fixed_sampling=True, preserves="asked", **_THINKS),
    _moonshot(
        "moonshot-k3", forced_choice_thinking=("required",), fixed_sampling=True, preserves="always", mid_tools=True, **_THINKS
    ),
    _chat("kimi-weights", chat.UNIQUE_IDS, chat.OWN_IDS, id_max=None, name_pattern=_KIMI_NAME, mid_system=True),
    _chat("kimi-k3-weights", chat.UNIQUE_IDS, id_max=None, name_pattern=_KIMI_NAME, mid_system=True),
    _chat(
        "mistral", chat.UNIQUE_IDS, chat.LAST_ROLE, chat.KNOWN_FIELDS,
        id_pattern=r"[a-zA-Z0-9]{9}", id_code="3280",
        id_message="Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.",
        fields=chat.MISTRAL_FIELDS, error_shape="flat", max_tools=128,
    ),
    _chat("deepseek", chat.REASONING, images=False, max_tools=128, **_DEEPSEEK),
    _chat("deepseek-reasoner", chat.REASONING, images=False, max_tools=128, thinks_by_default=True, **_DEEPSEEK),
    _chat("minimax", chat.UNIQUE_IDS, images=False),
    _chat("qwen"),
    _chat("zai", blank_content=False),
    _chat("compatible"),
    _host("anthropic", anthropic, **_CLAUDE),
    _host("claude-4.8", anthropic, mid_system=True, **_CLAUDE),
    _host(
        "moonshot-anthropic", anthropic, (*anthropic.RULES, anthropic.REASONING),
        reasoning_message=_KIMI_REASONING, name_pattern=_KIMI_NAME, moonshot_schema=True,
    ),
    _host(
        "moonshot-anthropic-always", anthropic, (*anthropic.RULES, anthropic.REASONING),
        reasoning_message=_KIMI_REASONING, name_pattern=_KIMI_NAME, moonshot_schema=True,
        thinks_by_default=True, preserves="always",
    ),
    _host("compatible-anthropic", anthropic),
    _host(
        "openai-responses", responses, signature_prefix=signature_prefix("openai-responses"),
        freeform=True, namespaces=True, blank_text=True, checks_schemas=True,
    ),
    _host("xai-responses", responses, signature_prefix=signature_prefix("xai-responses"), freeform=True, **_XAI),
    _host("compatible-responses", responses, signature_prefix=signature_prefix("compatible-responses")),
    _host("gemini", gemini, needs_call_signature=True, **_GEMINI),
    _host("gemini-2", gemini, **_GEMINI),
    _host("ollama", ollama, bad_key_status=None),
    _host("cohere", cohere, images=False, **_COHERE),
    _host("cohere-reasoning", cohere, images=False, thinks_by_default=True, **_COHERE),
    _host("cohere-vision", cohere, **_COHERE),
    _host("deepinfra-native", completion),
    _host("llamacpp", completion, completion.LLAMACPP),
    _host("completions", completion, completion.OPENAI),
)  # fmt: skip

HOSTS: dict[str, Host] = {host.name: host for host in _ALL}

# How a dialect's name begins -> its double; the first match counts. Moonshot's other addresses are the same service.
_MOONSHOT_MODELS = (
    ("-k2-thinking", "moonshot-k2-thinking"), ("-k2.7-code", "moonshot-k2.7-code"), ("-k2.6", "moonshot-k2.6"),
    ("-k2.", "moonshot-k2.5"), ("-k3", "moonshot-k3"), ("-k2", "moonshot-k2"), ("", "moonshot-k2.6"),
)  # fmt: skip
# By the beginning of the name, so the longer one stands before the shorter: `deepseek-anthropic` before `deepseek`.
_BY_DIALECT = (
    ("moonshot-anthropic-always", "moonshot-anthropic-always"),
    ("moonshot-anthropic", "moonshot-anthropic"),
    *[
        (f"{provider}{tail}", name)
        for provider in ("moonshot-cn", "kimi-coding", "moonshot")
        for tail, name in _MOONSHOT_MODELS
    ],
    ("deepseek-anthropic", "compatible-anthropic"),
    ("deepseek-reasoner", "deepseek-reasoner"),
    ("deepseek", "deepseek"),
    ("minimax-anthropic", "compatible-anthropic"),
    ("gemini-2", "gemini-2"),
    ("vertex-2", "gemini-2"),
    ("openai-responses", "openai-responses"),
    ("azure-responses", "openai-responses"),
    ("xai-responses", "xai-responses"),
    ("claude-4.8", "claude-4.8"),
    ("claude-5", "claude-4.8"),
    ("azure-openai", "openai"),
    ("azure-deployment-openai", "openai"),
)

_WEIGHTS = {"kimi": "kimi-weights", "kimi-k3": "kimi-k3-weights"}  # scheme of ids -> hosts of these models' weights


def host_for(dialect: Dialect) -> Host:
    """The double that judges a dialect's requests; it signs reasoning in the provider's name."""
    host = _double(dialect)
    if not dialect.native_tools:
        host = replace(host, rules=(*host.rules, NO_TOOLS))
    if not host.traits.signature_prefix:
        return host
    return replace(host, traits=replace(host.traits, signature_prefix=signature_prefix(dialect.provider or host.name)))


def _double(dialect: Dialect) -> Host:
    for beginning, name in _BY_DIALECT:
        if dialect.name.startswith(beginning):
            return HOSTS[name]
    wire = dialect.wire
    # Told by the scheme of ids: whoever must send Kimi's own ids is talking to its weights.
    if wire == "openai-chat" and dialect.ids in _WEIGHTS:
        return HOSTS[_WEIGHTS[dialect.ids]]
    for name in (dialect.name, dialect.provider):
        if name in HOSTS and HOSTS[name].traits.wire == wire:
            return HOSTS[name]
    # Nobody in particular: the wire's common rules, without a vendor's own.
    other = {
        "anthropic": "compatible-anthropic", "openai-chat": "compatible", "openai-responses": "compatible-responses",
        "completion": "deepinfra-native",
    }  # fmt: skip
    return HOSTS[other.get(wire, wire)]


def read_strict(strict: Strict) -> Strict:
    """The setting as `judge` takes it. Raises LocalError for one that is none."""
    if strict not in ("documented", "paranoid", True, False):
        raise LocalError(f"invalid strict={strict!r}; expected documented, paranoid or False")
    return "documented" if strict is True else strict


def judge(body: bytes | Body, host: Host | str, strict: Strict = "documented") -> list[Problem]:
    """Everything this host would refuse about a request; an empty list means that it accepts it.

    With strict="paranoid" also what we only assume that it refuses, with strict=False nothing.
    """
    strict = read_strict(strict)
    judging = HOSTS[host] if isinstance(host, str) else host
    # Tests judge bodies that were decoded already.
    value = msgspec.json.decode(body) if isinstance(body, bytes) else body
    found = [problem for rule in judging.rules for problem in rule.problems(value, judging.traits)] if strict else []
    return [problem for problem in found if strict == "paranoid" or problem.basis != "assumed"]
