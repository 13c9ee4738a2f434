"""Kimi K2.5, K2.6 and K2.7-Code: K2's shape with tools in TypeScript and no default system message (facts/kimi.md §1.2).

The prompt opens `<think>`, so the answer starts inside thinking; instant mode (`thinking=False`) closes it again and
blanks all earlier reasoning. `preserve_thinking` keeps the reasoning of finished turns; K2.7-Code always does, and always
thinks. Tools with no TypeScript form are declared as sorted JSON, all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ..core.tools import ToolSpec
from .declaration import compact_json, tool_object
from .kimi_k2 import BRACKETS, THINK, KimiK2
from .prompt import BARS, Specials
from .typescript import Unsayable, declare_typescript


def declare_tools(tools: Sequence[ToolSpec]) -> str:
    try:
        return declare_typescript(tools)
    except Unsayable:
        return compact_json([tool_object(tool) for tool in tools])


KIMI_K25 = KimiK2(
    "kimi-k2.5",
    Specials(*BRACKETS, *THINK, patterns=(BARS,)),
    declare=declare_tools,
    reasoning="asked",
    thinks_first=True,
    can_disable=True,
    media={
        "image": "<|media_begin|>image<|media_content|><|media_pad|><|media_end|>\n",
        "video": "<|kimi_k25_video_placeholder|>\n",
    },
)
KIMI_K26 = replace(KIMI_K25, name="kimi-k2.6")
KIMI_K27_CODE = replace(KIMI_K25, name="kimi-k2.7-code", reasoning="all", can_disable=False)
