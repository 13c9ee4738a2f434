"""Kimi, at Moonshot and on the hosts that serve its weights. Sources:
field-guide/kimi.md#ids, field-guide/kimi.md#reasoning, field-guide/hosts.md#kimi-host-by-host.

What belongs to the model (id scheme, whether it thinks) and what belongs to the host (reasoning field, schema rules, which
switch turns thinking off) are kept apart and combined.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..core.dialect import Dialect, Endpoint, Limits, Reasoning
from . import efforts
from .families import K2_THINKING, K3, K25, K26, K27_CODE, KIMI, KIMI_TOOL_NAME
from .provider import Provider

_replace = msgspec.structs.replace

# field-guide/kimi.md#tools; a colon or a dot in a name would also break the ids that are made from it.
_LIMITS = Limits(max_tools=128, tool_name_pattern=KIMI_TOOL_NAME)

# What Moonshot's API asks of every model: its flavour of JSON Schema, `$` before its built-in tools, which
# run only while the model does not think, and `partial` for a prefilled answer (field-guide/kimi.md#tools).
_MOONSHOT = Dialect(
    "moonshot",
    "openai-chat",
    "moonshot",
    ids="kimi",
    tool_format="kimi",
    leaks="kimi",
    limits=_LIMITS,
    schema="moonshot",
    answer_ways=("json",),
    blank_content="omit",  # `content: ""` beside tool calls is refused: "text content is empty"
    tool_result_media="user",
    media=(),
    parallel_option=False,
    prefill_flag="partial",
    max_tokens_field="max_completion_tokens",
    builtin_prefix="$",
    builtin_stops_thinking=True,
    mid_system=True,
    extras=("prompt_cache_key", "safety_identifier"),
)
# With thinking on, a tool-call message without `reasoning_content` is the most reported 400 of this API
# (field-guide/kimi.md#reasoning); `required` fills the field where a turn has none.
_THINKS = Reasoning(
    fields=("reasoning_content", "reasoning", "reasoning_details"),
    echo="always",
    required=True,
    default_on=True,
    control="thinking.type",
)
_FIXED_SAMPLING = ("stop", "response_format")  # "invalid temperature: only 0.6 is allowed for this model"

MOONSHOT_K2 = _replace(_MOONSHOT, name="moonshot-k2")
# `forced_choice` is what may be sent at all, `forced_choice_thinking` what may be sent while it thinks; for
# a model that always thinks both are empty (field-guide/kimi.md#tool-choice).
MOONSHOT_K2_THINKING = _replace(
    _MOONSHOT,
    name="moonshot-k2-thinking",
    reasoning=_replace(_THINKS, can_disable=False, control="none"),
    forced_choice=(),
    forced_choice_thinking=(),
)
MOONSHOT_K25 = _replace(
    _MOONSHOT,
    name="moonshot-k2.5",
    reasoning=_THINKS,
    forced_choice_thinking=(),
    sampling=_FIXED_SAMPLING,
    media=("image", "video"),
    file_ids="ms://",
    tool_result_media="inline",
)
# Without `keep` they stall for long; with it any assistant message without reasoning is refused (field-guide/kimi.md#reasoning).
_KEEPS = _replace(_THINKS, keep="thinking.keep", keeps=True, required_kept=True)
MOONSHOT_K26 = _replace(MOONSHOT_K25, name="moonshot-k2.6", reasoning=_KEEPS)
MOONSHOT_K27_CODE = _replace(
    MOONSHOT_K26,
    name="moonshot-k2.7-code",
    reasoning=_replace(_KEEPS, can_disable=False),
    forced_choice=(),
)
MOONSHOT_K3 = _replace(
    MOONSHOT_K25,
    name="moonshot-k3",
    ids="kimi-k3",
    leaks="kimi-k3",
    mid_tools=True,
    reasoning=_replace(
        _THINKS, can_disable=False, control="reasoning_effort", keep="always", required_kept=True, **efforts.KIMI_K3
    ),
    forced_choice=("required",),
    forced_choice_thinking=("required",),
)

MOONSHOT = Provider(
    "moonshot",
    Endpoint(
        "https://api.moonshot.ai/v1",
        key_env=("MOONSHOT_API_KEY", "MOONSHOTAI_API_KEY", "KIMI_API_KEY"),
        base_env=("MOONSHOT_API_BASE", "MOONSHOT_BASE_URL", "KIMI_BASE_URL"),
    ),
    (
        (K3, MOONSHOT_K3),
        (K27_CODE, MOONSHOT_K27_CODE),
        (K26, MOONSHOT_K26),
        (K25, MOONSHOT_K25),
        (K2_THINKING, MOONSHOT_K2_THINKING),
        ("", MOONSHOT_K2),
    ),
    models=(
        "kimi-k3", "kimi-k2.7-code", "kimi-k2.6", "kimi-k2.5", "kimi-k2-thinking", "kimi-k2-thinking-turbo",
        "kimi-k2-0905-preview", "kimi-k2-0711-preview", "kimi-k2-turbo-preview", "kimi-latest",
    ),
    family=r"^(?:kimi|moonshot|k[23])",
    names=("kimi", "moonshotai"),
)  # fmt: skip


def _elsewhere(provider: str) -> tuple[tuple[str, Dialect], ...]:
    """Moonshot's dialects at another address: reasoning made here belongs here."""
    return tuple(
        [
            (pattern, _replace(dialect, name=dialect.name.replace("moonshot", provider, 1), provider=provider))
            for pattern, dialect in MOONSHOT.dialects
        ]
    )


MOONSHOT_CN = Provider(
    "moonshot-cn",
    Endpoint("https://api.moonshot.cn/v1", key_env=("MOONSHOT_CN_API_KEY", "MOONSHOT_API_KEY")),
    # The two addresses have different keys (field-guide/kimi.md#addresses), hence two providers.
    _elsewhere("moonshot-cn"),
    models=MOONSHOT.models,
    family=MOONSHOT.family,
)
KIMI_CODING = Provider(
    "kimi-coding",
    Endpoint("https://api.kimi.com/coding/v1", key_env=("KIMI_API_KEY",), base_env=("KIMI_BASE_URL",)),
    (("for-coding", _replace(MOONSHOT_K26, name="kimi-coding", provider="kimi-coding")), *_elsewhere("kimi-coding")),
    models=("kimi-for-coding",),
)


def kimi_on(provider: str, *, reasoning: dict[str, Any] | None = None, **host: Any) -> tuple[tuple[str, Dialect], ...]:
    """The dialects of Kimi's models on a host that serves the weights: ids are printed verbatim into the template there, so
    the model must see its own (`functions.name:n`); reasoning as the host carries it. What the host is asked with to keep
    all reasoning (`keep`) counts for K2.6, which can do both; the later models always do, the earlier never."""
    host = {
        "blank_content": "omit", "schema": "openai", "limits": _LIMITS, "tool_format": "kimi", "leaks": "kimi",
        "mid_system": True,  # Kimi's templates print every message in its place
        **host,
    }  # fmt: skip
    # `required` is not set here: a refusal of turns without reasoning is known of Moonshot's own API,
    # not of hosts that serve the weights.
    shape = {"echo": "always", "control": "chat_template_kwargs", **(reasoning or {})}
    # A host that switches thinking by the template's arguments keeps it by them too; of any other nothing is assumed.
    keep = shape.pop("keep", "chat_template_kwargs" if shape["control"] == "chat_template_kwargs" else "")
    plain = Dialect(f"{provider}-kimi-k2", "openai-chat", provider, ids="kimi", media=(), **host)
    thinks = Reasoning(default_on=True, **shape)
    always = _replace(thinks, can_disable=False)
    keeps = _replace(always, keep="always")
    asked = _replace(thinks, keep=keep)
    return (
        (
            K3,
            _replace(
                plain, name=f"{provider}-kimi-k3", ids="kimi-k3", leaks="kimi-k3", reasoning=keeps, media=("image",)
            ),
        ),
        (K27_CODE, _replace(plain, name=f"{provider}-kimi-k2.7-code", reasoning=keeps, media=("image",))),
        (K26, _replace(plain, name=f"{provider}-kimi-k2.6", reasoning=asked, media=("image",))),
        (K25, _replace(plain, name=f"{provider}-kimi-k2.5", reasoning=thinks, media=("image",))),
        (K2_THINKING, _replace(plain, name=f"{provider}-kimi-k2-thinking", reasoning=always)),
        (KIMI, plain),
    )


def kimi_on_ollama(plain: Dialect) -> tuple[tuple[str, Dialect], ...]:
    """The dialects of Kimi's models on Ollama, made of the host's own."""
    # No Kimi ids here: Ollama pairs results by name and gives no ids (field-guide/tool-ids.md#what-hosts-give).
    named = _replace(plain, name=f"{plain.name}-kimi", tool_format="kimi", leaks="kimi", limits=_LIMITS, media=())
    thinks = _replace(plain.reasoning, default_on=True)
    always = _replace(thinks, can_disable=False)
    return (
        (K3, _replace(named, name=f"{plain.name}-kimi-k3", leaks="kimi-k3", reasoning=always, media=("image",))),
        (K27_CODE, _replace(named, name=f"{plain.name}-kimi-k2.7-code", reasoning=always, media=("image",))),
        (rf"{K26}|{K25}", _replace(named, name=f"{plain.name}-kimi-k2.5", reasoning=thinks, media=("image",))),
        (K2_THINKING, _replace(named, name=f"{plain.name}-kimi-k2-thinking", reasoning=always)),
        (KIMI, named),
    )


PROVIDERS = (MOONSHOT, MOONSHOT_CN, KIMI_CODING)
