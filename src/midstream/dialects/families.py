"""Families of models, told by their names wherever they are served: patterns searched in the lower-cased name.

`leaking` gives a dialect the text format that its model is known to leak, its think tags and its tool format. A host that cannot read what the model wrote (a
parser that is off, a wrong template, a cut stream) leaves the call in the content or the reasoning; that comes with the
model, so one table holds for every host of structured answers. Sources:
field-guide/text-calls.md#markers-that-leak, field-guide/kimi-failures.md#the-list.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

import msgspec

from ..core.dialect import Dialect, TextFormat
from ..core.ids import ToolFormat, detect_tool_format, get_tool_id_strategy

# `Kimi-K2.5`, `kimi-k2p5`, `K2Thinking`, `k3[1m]`: the version begins a word, or follows the name. First fit wins.
_K = r"(?:^|[^a-z0-9]|kimi)"
K3 = rf"{_K}k3(?![a-z0-9])"
K27_CODE = rf"{_K}k2[._p-]?7(?!\d)"
K26 = rf"{_K}k2[._p-]?6(?!\d)"
K25 = rf"{_K}k2[._p-]?5(?!\d)|kimi-latest"
"""`kimi-latest` may be any model that came later, and those need what K2.5 needs."""
K2_THINKING = rf"{_K}k2[-_. ]?thinking"
KIMI = rf"kimi|{_K}k2(?:thinking|(?![a-z0-9]))"
"""Any other of them, on a host that also serves models of other families."""
K2 = rf"{KIMI}|moonshot"

KIMI_TOOL_NAME = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"
"""What Kimi's hosts take as the name of a tool (field-guide/kimi.md#tools): a digit may not begin it."""

# Narrow before wide again: K3 writes another format than the Kimi models before it, and the coder among
# Qwen's its own. A family that is not here is not known to leak.
LEAKS: tuple[tuple[str, TextFormat], ...] = (
    (K3, "kimi-k3"),
    (KIMI, "kimi"),
    (r"deepseek", "deepseek"),
    (r"qwen.*coder", "qwen3-coder"),
    (r"qwen|qwq", "qwen"),
    (r"glm", "glm"),
    (r"minimax", "xml"),
    (r"hermes", "hermes"),
    (r"gemma", "gemma"),
)
THINK_TAGS: tuple[tuple[str, tuple[str, str]], ...] = ((r"minimax.*m3", ("<mm:think>", "</mm:think>")),)
"""Tags of their own, between which models leave their thinking in the text where nobody reads it out."""


# For `_opening`: the letters a pattern begins with; no match where a quantifier makes the last one optional.
_LETTERS = re.compile(r"[a-z]+(?![a-z?*{])")
_GROUP = re.compile(r"\([^()]*\)")
_replace = msgspec.structs.replace
_Tags = tuple[str, str] | None
_made: dict[tuple[int, TextFormat | None, _Tags, ToolFormat], tuple[Dialect, Dialect]] = {}


def leaking(dialect: Dialect, model: str) -> Dialect:
    """The dialect with the format that this model (in lower case) is known to leak, unless it names one itself, with the
    model's own think tags, and with the tool format that its family was taught."""
    if dialect.wire == "completion":
        return dialect  # its format is the dialect's own
    rules = dialect.reasoning
    format = dialect.leaks or next((format for pattern, format in LEAKS if search(pattern, model)), None)
    tags = next((tags for pattern, tags in THINK_TAGS if search(pattern, model)), rules.tags)
    taught = _taught(dialect, model)
    if format == dialect.leaks and tags == rules.tags and taught == dialect.tool_format:
        return dialect
    # The same value for the same dialect each time: encoded histories are kept by dialect.
    key = id(dialect), format, tags, taught
    found = _made.get(key)
    # By identity, as in `with_efforts`: an id() alone may belong to a dialect that came later.
    if found is None or found[0] is not dialect:
        changed = _replace(dialect, leaks=format, reasoning=_replace(rules, tags=tags), tool_format=taught)
        found = _made[key] = (dialect, changed)
    return found[1]


def _taught(dialect: Dialect, model: str) -> ToolFormat:
    """The dialect's tool format; on a chat that names none, the model's own, if that has the ids which this host takes."""
    if dialect.wire != "openai-chat" or dialect.tool_format != "openai":
        return dialect.tool_format
    taught = detect_tool_format(model)
    return taught if get_tool_id_strategy(taught).name == dialect.ids else dialect.tool_format


@lru_cache(maxsize=1024)
def search(pattern: str, text: str) -> bool:
    return _opening(pattern) in text and re.search(pattern, text) is not None


@cache
def _opening(pattern: str) -> str:
    """The letters that every match begins with. Most models are of another family, so most patterns need not be compiled."""
    letters = _LETTERS.match(pattern)
    outside, groups = pattern, 1
    while groups:
        outside, groups = _GROUP.subn("", outside)
    # An alternative outside all groups may begin with other
    # letters; then nothing is certain, and "" is in every name.
    return "" if letters is None or "|" in outside else letters[0]
