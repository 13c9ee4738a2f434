"""Claude at Anthropic, and the Anthropic-compatible doors of Moonshot, DeepSeek and MiniMax.

Sources: field-guide/anthropic-messages.md#thinking, field-guide/anthropic-messages.md#ids, field-guide/kimi.md#reasoning. The generations of Claude
differ in how they think: not at all, by a budget of tokens, or adaptively.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..core.dialect import Dialect, Endpoint, Limits
from ..wires.anthropic.wire import DEFAULT
from . import efforts
from .families import KIMI_TOOL_NAME
from .provider import Provider

_replace = msgspec.structs.replace


# Every request of this wire must name `max_tokens`, so each generation needs to know its own most: a number
# above it is refused, and one far below it cuts answers short.
def _limits(most: int | None) -> Limits:
    return _replace(DEFAULT.limits, max_output=most)


# Two ways to ask for thinking: a budget of tokens up to Claude 4.5, and from 4.6 on adaptively, with an
# effort (field-guide/anthropic-messages.md#thinking). 4.6 takes either.
_BUDGET = DEFAULT.reasoning
_ADAPTIVE = _replace(_BUDGET, required=False, control="adaptive", **efforts.CLAUDE_OPUS_5)
_OLD_SAMPLING = ("temperature", "top_p", "stop")

# Fields of a client's request that the gateway passes on as they came; others are dropped, with a note.
_EXTRAS = (
    "betas", "cache_control", "container", "context_management", "inference_geo", "mcp_servers", "metadata",
    "output_config", "service_tier", "thinking",
)  # fmt: skip
_SERVER_TOOLS = {
    "web_search": {"builtin": "web_search_20250305", "name": "web_search"},
    "code_execution": {"builtin": "code_execution_20250825", "name": "code_execution"},
}
# Each generation is the one before it with what changed. Read downwards, the chain is a history of the API;
# `CLAUDE` itself stands for a name that no pattern knows, and so for models newer than this table.
CLAUDE = _replace(
    DEFAULT,
    name="claude",
    limits=_limits(64_000),
    exclusive_sampling=True,
    extras=_EXTRAS,
    server_tools=_SERVER_TOOLS,
)
CLAUDE_3 = _replace(
    CLAUDE,
    name="claude-3",
    reasoning=_replace(_BUDGET, control="none"),
    limits=_limits(4096),
    default_max_tokens=4096,
    sampling=_OLD_SAMPLING,
    exclusive_sampling=False,
    strict_tools=False,
)
CLAUDE_35 = _replace(CLAUDE_3, name="claude-3.5", limits=_limits(8192))
CLAUDE_37 = _replace(CLAUDE_3, name="claude-3.7", reasoning=_BUDGET, limits=_limits(64_000), default_max_tokens=8192)
CLAUDE_4 = _replace(CLAUDE_37, name="claude-4")
CLAUDE_4_OPUS = _replace(CLAUDE_4, name="claude-4-opus", limits=_limits(32_000), exclusive_sampling=True)
CLAUDE_46 = _replace(
    CLAUDE,
    name="claude-4.6",
    reasoning=_replace(_ADAPTIVE, control="either", required=True, **efforts.CLAUDE_OPUS_46),
    limits=_limits(128_000),
    default_max_tokens=16_384,
)
CLAUDE_47 = _replace(
    CLAUDE_46,
    name="claude-4.7",
    reasoning=_ADAPTIVE,
    sampling=("stop", "response_format"),  # temperature and top_p are refused from here on
)
CLAUDE_48 = _replace(CLAUDE_47, name="claude-4.8", mid_system=True)
CLAUDE_5 = _replace(CLAUDE_48, name="claude-5", reasoning=_replace(_ADAPTIVE, default_on=True))
CLAUDE_5_ALWAYS = _replace(
    CLAUDE_5, name="claude-5-always", reasoning=_replace(_ADAPTIVE, default_on=True, can_disable=False)
)

# The first pattern that fits wins, so the order matters: `claude-3-7` before
# `claude-3`, `opus-4` before any other 4. A bare `-4` must not take `-4-6`, hence
# the `[01]\b`, a date of 2025, Vertex's `@`, or the end of the name behind it.
ANTHROPIC = Provider(
    "anthropic",
    Endpoint(
        "https://api.anthropic.com",
        key_env=("ANTHROPIC_API_KEY",),
        bearer_env=("ANTHROPIC_AUTH_TOKEN",),
        base_env=("ANTHROPIC_BASE_URL",),
        auth="x-api-key",
        headers={"anthropic-version": "2023-06-01"},
    ),
    (
        (r"claude-3[-.]7", CLAUDE_37),
        (r"claude-3[-.]5", CLAUDE_35),
        (r"claude-(?:[123]\b|instant)", CLAUDE_3),
        (r"opus-4(?:[-.][01]\b|-2025|@|$)", CLAUDE_4_OPUS),
        (r"-4(?:[-.][01]\b|-2025|@|$)", CLAUDE_4),
        (r"-4[-.]6", CLAUDE_46),
        (r"-4[-.]7", CLAUDE_47),
        (r"-4[-.][89]", CLAUDE_48),
        (r"fable|mythos", CLAUDE_5_ALWAYS),
        (r"(?:opus|sonnet|haiku)-[5-9]", CLAUDE_5),
        ("", CLAUDE),
    ),
    models=(
        "claude-opus-5", "claude-sonnet-5", "claude-opus-4-8", "claude-opus-4-7", "claude-opus-4-6",
        "claude-sonnet-4-6", "claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-1",
        "claude-sonnet-4-0", "claude-3-7-sonnet-latest", "claude-3-5-haiku-latest",
    ),
    family=r"claude|^(?:opus|sonnet|haiku)",
    names=("claude",),
)  # fmt: skip

# The look-alikes do not sign their thinking, or do not say so, and want it back all the same: dropping it on tool-call
# turns is refused as missing reasoning_content (field-guide/anthropic-messages.md#thinking).
_ECHOED = _replace(_BUDGET, signed=False, unsigned="blank", default_on=True)


def _look_alike(name: str, **fields: Any) -> Dialect:
    # From `DEFAULT`, not from a Claude: limits, betas and server tools of Anthropic's are not theirs.
    shape = {"provider": name, "reasoning": _ECHOED, "sampling": _OLD_SAMPLING, "strict_tools": False, **fields}
    return _replace(DEFAULT, name=name, **shape)


_MOONSHOT = "moonshot-anthropic"
_MOONSHOT_LIMITS = _replace(DEFAULT.limits, tool_name_pattern=KIMI_TOOL_NAME)
MOONSHOT_K25 = _look_alike(
    f"{_MOONSHOT}-k2.5",
    provider=_MOONSHOT,
    schema="moonshot",
    sampling=("stop",),
    media=("image",),
    limits=_MOONSHOT_LIMITS,
)
# Which of Kimi's models think, and which can be told not to: field-guide/kimi.md#switching-thinking. A forced tool
# choice is refused while they think (field-guide/kimi.md#tool-choice), so where thinking is always on there is none.
MOONSHOT_K2_THINKING = _replace(
    MOONSHOT_K25,
    name=f"{_MOONSHOT}-k2-thinking",
    reasoning=_replace(_ECHOED, can_disable=False, control="none"),
    forced_choice=(),
    media=(),
    sampling=_OLD_SAMPLING,
)
MOONSHOT_ALWAYS = _replace(
    MOONSHOT_K25,
    name=f"{_MOONSHOT}-always-thinking",
    reasoning=_replace(_ECHOED, can_disable=False, keep="always", required_kept=True),
    forced_choice=(),
)
MOONSHOT_K2 = _look_alike(
    f"{_MOONSHOT}-k2",
    provider=_MOONSHOT,
    schema="moonshot",
    media=(),
    limits=_MOONSHOT_LIMITS,
    reasoning=_replace(_ECHOED, default_on=False, required=False, control="none"),
)
MOONSHOT = Provider(
    _MOONSHOT,
    Endpoint(
        "https://api.moonshot.ai/anthropic",
        key_env=("MOONSHOT_API_KEY", "MOONSHOTAI_API_KEY", "KIMI_API_KEY"),
        headers={"anthropic-version": "2023-06-01"},
    ),
    (
        # The newest first: `k2.5` and `k2-thinking` would also fit a
        # pattern for plain K2, which is why that one is the empty rest.
        (r"k3|k2[.p]7", MOONSHOT_ALWAYS),
        (r"k2[.p][56]", MOONSHOT_K25),
        (r"k2-thinking", MOONSHOT_K2_THINKING),
        ("", MOONSHOT_K2),
    ),
    models=("kimi-k3", "kimi-k2.7-code", "kimi-k2.6", "kimi-k2.5", "kimi-k2-thinking", "kimi-k2-turbo-preview"),
    family=r"kimi|moonshot|(?:^|[^a-z0-9])k[23]",
    names=("kimi-anthropic",),
)

# DeepSeek wants the reasoning of tool turns in all later requests, whichever of its doors is used
# (field-guide/reasoning.md#who-wants-it-back).
DEEPSEEK_ANTHROPIC = _look_alike("deepseek-anthropic", media=(), reasoning=_replace(_ECHOED, keep="always"))
DEEPSEEK = Provider(
    "deepseek-anthropic",
    Endpoint(
        "https://api.deepseek.com/anthropic",
        key_env=("DEEPSEEK_API_KEY",),
        auth="x-api-key",
        headers={"anthropic-version": "2023-06-01"},
    ),
    (("", DEEPSEEK_ANTHROPIC),),
    models=("deepseek-v4-pro", "deepseek-v4-flash", "deepseek-chat", "deepseek-reasoner"),
    family="deepseek",
)

MINIMAX_ANTHROPIC = _look_alike(
    "minimax-anthropic", media=(), reasoning=_replace(_ECHOED, can_disable=False, required=False, keep="always")
)
MINIMAX = Provider(
    "minimax-anthropic",
    Endpoint(
        "https://api.minimax.io/anthropic",
        key_env=("MINIMAX_API_KEY",),
        auth="x-api-key",
        headers={"anthropic-version": "2023-06-01"},
    ),
    (("", MINIMAX_ANTHROPIC),),
    models=("MiniMax-M3", "MiniMax-M2.7", "MiniMax-M2.5", "MiniMax-M2.1", "MiniMax-M2"),
    family="minimax",
)

PROVIDERS = (ANTHROPIC, MOONSHOT, DEEPSEEK, MINIMAX)
