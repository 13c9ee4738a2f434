"""Cohere's Command models.

Sources: Cohere's reference of POST /v2/chat (ranges, tool choices, thinking), its pages of the models (windows, output), and
error messages quoted in public reports (text beside tool calls, names of tools, `p`). The generations differ in whether they
think and whether they read images.
"""

from __future__ import annotations

import msgspec

from ..core.dialect import Dialect, Endpoint
from ..wires.cohere.wire import DEFAULT, PLAN, THINKING
from .provider import Provider

_replace = msgspec.structs.replace


def _sized(dialect: Dialect, context: int | None, output: int | None) -> Dialect:
    return _replace(dialect, limits=_replace(dialect.limits, context=context, max_output=output))


# Windows and most output by generation; what is asked for beyond them is refused, so it is capped before it is sent.
COMMAND_A = _sized(DEFAULT, 256_000, 8_000)
COMMAND_R = _sized(_replace(DEFAULT, name="cohere-command-r"), 128_000, 4_000)
COMMAND_VISION = _sized(_replace(DEFAULT, name="cohere-vision", media=("image",)), 128_000, 8_000)
_THINKS = _replace(
    DEFAULT.reasoning, fields=(THINKING, PLAN), field=THINKING, echo="always", default_on=True, control="token_budget"
)
COMMAND_REASONING = _sized(_replace(DEFAULT, name="cohere-reasoning", reasoning=_THINKS), 256_000, 32_000)

COHERE = Provider(
    "cohere",
    Endpoint(
        "https://api.cohere.com",
        key_env=("COHERE_API_KEY", "CO_API_KEY"),
        base_env=("COHERE_BASE_URL", "CO_API_URL"),
        base_tails=("/v2",),
    ),
    (
        # `command-a-…` is part of all newer names, so what sets a model apart is looked for first.
        (r"reasoning|command-a-plus", COMMAND_REASONING),
        (r"vision", COMMAND_VISION),
        (r"command-r|aya", COMMAND_R),
        ("", COMMAND_A),
    ),
    models=(
        "command-a-03-2025", "command-a-reasoning-08-2025", "command-a-plus-05-2026", "command-a-vision-07-2025",
        "command-r-plus-08-2024", "command-r-08-2024", "command-r7b-12-2024",
    ),
    family=r"command|aya|^c4ai",
)  # fmt: skip

PROVIDERS = (COHERE,)
