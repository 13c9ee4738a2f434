"""Canonical tool-call ids, and the ids each wire wants instead.

Canonical: `hist_tool_` + 24 characters of base64url(sha256(provider, raw id, tool name, turn key, call index)). Turn key and
index are always in the seed, because hosts repeat raw ids. On the way out a ToolIdMapper gives every call of one request the id
its reader demands: deterministic, injective, the same for a call and its response, and stable when turns are appended.
Two calls that carry the same canonical id are one call to a mapper (the first wins the number; history repair re-keys the
second before it gets here); a response whose call is not in the request gets the next unused id of the scheme.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, get_args, overload

from .blocks import Block, ToolCall, ToolResponse, Turn
from .errors import UnknownToolFormat
from .modules import late_module
from .patterns import late_pattern

if TYPE_CHECKING:
    import hashlib
else:
    hashlib = late_module("hashlib", globals())

PREFIX = "hist_tool_"

# Two things under one set of names, because that is how users of other programs know them: some formats are only a
# shape of ids on the wire's own calls, the others are a text that holds the calls.
ToolFormat: TypeAlias = Literal[
    "openai", "anthropic", "deepseek", "qwen", "kimi", "mistral", "hermes", "xml", "llama", "gemma", "deepseek-text",
    "qwen-text", "gemma-text", "kimi-text", "kimi-k3-text", "mistral-text", "qwen3-coder", "glm", "native",
    "deepseek-json", "qwen-json", "gemma-json",
]  # fmt: skip
"""The ways to speak about tools that a user can name: a wire's own calls with one of the id schemes (`openai`, `anthropic`,
`mistral`, `kimi`, `deepseek`, `qwen`, `gemma`, or `native` for whatever the host has), or calls written as plain text (all
others). `qwen-json` is the unmistakable spelling of `qwen`, likewise `deepseek-json` and `gemma-json`: these are written down."""
TOOL_FORMATS: tuple[ToolFormat, ...] = get_args(ToolFormat)
# Until these three words had a spelling of their own for each way, they meant the text. What was stored then goes on meaning
# it: a resumed session would otherwise declare tools to a host that takes none.
_WRITTEN: dict[str, ToolFormat] = {"deepseek": "deepseek-json", "qwen": "qwen-json", "gemma": "gemma-json"}
_PLAIN: dict[str, ToolFormat] = {"deepseek-json": "deepseek", "qwen-json": "qwen", "gemma-json": "gemma"}
OLD_WORDS: dict[str, ToolFormat] = {"deepseek": "deepseek-text", "qwen": "qwen-text", "gemma": "gemma-text"}
"""What three names of tool formats mean where an earlier version stored them, or in a configuration."""
IdScheme: TypeAlias = Literal["standard", "anthropic", "kimi", "kimi-k3", "mistral"]
"""The names of the id schemes (`STRATEGIES`)."""

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# OpenAI and Together give ids of the very same shape (field-guide/tool-ids.md#what-hosts-give),
# so one of theirs may be taken for ours. That is harmless: it is already unique in its history,
# and where it repeats `canonicalize` makes a new one.
_OURS = late_pattern(r"(?:hist_tool_|call_|toolu_)([A-Za-z0-9_-]{24})\Z")
# 34 characters behind `toolu_` are 40, the shortest limit that hosts
# were seen to have (field-guide/tool-ids.md#who-demands-what). `?+` does
# not give the prefix back, so a bare `call_` is not its own suffix.
_SUFFIX = late_pattern(r"(?:hist_tool_|call_|toolu_)?+([A-Za-z0-9_-]{1,34})\Z")
_LONGEST = len(PREFIX) + 34
"""No longer id can match `_SUFFIX`."""
_NINE = late_pattern(r"[A-Za-z0-9]{9}\Z")


@overload
def canonical_tool_call_id(
    provider: str | None, raw_id: str | None, tool_name: str | None, turn_key: str, call_index: int
) -> str: ...
@overload
def canonical_tool_call_id(
    provider: str | None = None,
    raw_id: str | None = None,
    tool_name: str | None = None,
    *,
    turn_key: str,
    call_index: int,
) -> str: ...
def canonical_tool_call_id(
    provider: str | None = None,
    raw_id: str | None = None,
    tool_name: str | None = None,
    turn_key: str | None = None,
    call_index: int | None = None,
) -> str:
    """The one id a call keeps for life, whichever models come to read it. Provider, raw id and name may be missing; turn key and
    call index may not."""
    if turn_key is None or call_index is None:
        raise TypeError(
            "canonical_tool_call_id needs turn_key and call_index: without them two calls would share an id"
        )
    provider, raw_id, tool_name = provider or "", raw_id or "", tool_name or ""
    # Turn key and index are what makes the seed unique: hosts repeat raw ids in every turn and sometimes within one
    # (field-guide/tool-ids.md#what-goes-wrong-when-they-are-rewritten).
    # Lengths make the seed injective whatever the parts hold; surrogatepass makes it total.
    seed = f"{len(provider)},{len(raw_id)},{len(tool_name)},{call_index}|{provider}|{raw_id}|{tool_name}|{turn_key}"
    return PREFIX + urlsafe_b64encode(hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()[:18]).decode()


canonical_tool_response_id = canonical_tool_call_id
"""The id of a response is its call's: pass the provider, turn key and index of the *call*."""


def from_own_id(wire_id: str) -> str | None:
    """The canonical id behind `call_x`, `toolu_x` or `hist_tool_x`, when x has the shape of ours; else None."""
    match = _OURS.match(wire_id)
    return PREFIX + match[1] if match else None


class ToolIdMapper(Protocol):
    """The ids of one outgoing request."""

    def extend(self, turns: Iterable[Turn]) -> None:
        """Take in further turns of the same request; ids given so far stay."""
        ...

    def resolve_tool_call_id(self, call: ToolCall) -> str: ...

    def resolve_tool_response_id(self, response: ToolResponse) -> str: ...

    def clone(self) -> ToolIdMapper:
        """An independent mapper with the same ids so far."""
        ...


# Ids are minted in the order of the calls and then kept, so appending turns never changes one that was sent: the old
# messages stay a byte prefix of the new request, which prompt caches need. `_used` makes the mapping injective whatever
# a scheme does; deleting or cutting characters, as other clients do, makes two ids one.
class _TableMapper:
    """A mapper that mints an id at a call's first sight and remembers it."""

    __slots__ = ("_count", "_ids", "_mint", "_used")

    def __init__(self, mint: Callable[[str, str, int, int], str]) -> None:
        self._mint = mint
        self._ids: dict[str, str] = {}
        self._used: set[str] = set()
        self._count = 0

    def extend(self, turns: Iterable[Turn]) -> None:
        for turn in turns:
            # Only calls are numbered. A result finds its call's id, so
            # one that stands before its call does not shift the numbers.
            if turn.speaker == "ai":
                self.extend_blocks(turn.blocks)

    def extend_blocks(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            if type(block) is ToolCall and block.id not in self._ids:
                self._assign(block.id, block.name)

    def resolve_tool_call_id(self, call: ToolCall) -> str:
        known = self._ids.get(call.id)
        return known if known is not None else self._assign(call.id, call.name)

    def resolve_tool_response_id(self, response: ToolResponse) -> str:
        known = self._ids.get(response.call_id)
        # An orphan, which `repair` removes before a request. Whoever asks without it still gets an id of the right
        # shape.
        return known if known is not None else self._assign(response.call_id, response.name)

    def clone(self) -> _TableMapper:
        twin = _TableMapper(self._mint)
        twin._ids = self._ids.copy()
        twin._used = self._used.copy()
        twin._count = self._count
        return twin

    def _assign(self, canonical: str, name: str) -> str:
        # Ends: each salt gives another digest or the next number, and the used ids are finitely many.
        salt = 0
        wire_id = self._mint(canonical, name, self._count, salt)
        while wire_id in self._used:
            salt += 1
            wire_id = self._mint(canonical, name, self._count, salt)
        self._used.add(wire_id)
        self._ids[canonical] = wire_id
        self._count += 1
        return wire_id


class ToolIdStrategy:
    """A scheme of ids: `create_mapper(turns)` applies it to one outgoing request."""

    __slots__ = ("_mint", "name")

    def __init__(self, name: str, mint: Callable[[str, str, int, int], str]) -> None:
        self.name = name
        self._mint = mint

    def create_mapper(self, turns: Iterable[Turn] = ()) -> ToolIdMapper:
        mapper = _TableMapper(self._mint)
        mapper.extend(turns)
        return mapper

    def __repr__(self) -> str:
        return f"<ToolIdStrategy {self.name}>"


@lru_cache(maxsize=8192)
def _suffix(canonical: str) -> str | None:
    """What an id goes by under any prefix; None if it must be spelled anew. Remembered: a history is sent many times."""
    plain = _SUFFIX.match(canonical)
    return plain[1] if plain is not None else None


# The suffix of a canonical id is kept under every prefix: `call_x`, `toolu_x` and `hist_tool_x` are one call to whoever
# reads a log, and `from_own_id` finds the way back without a table. Anything else (`functions.a:0`, an id that is too
# long) is hashed, never cut or cleaned, because that would make two ids one.
def _prefixed(prefix: str) -> Callable[[str, str, int, int], str]:
    def mint(canonical: str, name: str, count: int, salt: int) -> str:
        if not salt:
            suffix = _suffix(canonical) if len(canonical) <= _LONGEST else None
            if suffix is not None:
                return prefix + suffix
        digest = hashlib.sha256(f"{canonical}|{salt}".encode("utf-8", "surrogatepass")).digest()
        return prefix + urlsafe_b64encode(digest[:18]).decode()

    return mint


# K2 was trained on this shape, counted over the whole conversation, and hosts
# print the ids of the history into its prompt: any other shape there is imitated,
# and the host's parser then drops the call silently (field-guide/kimi.md#ids).
def _mint_kimi(canonical: str, name: str, count: int, salt: int) -> str:
    return f"functions.{name or 'tool'}:{count + salt}"


def _mint_kimi_k3(canonical: str, name: str, count: int, salt: int) -> str:
    # K3 itself restarts the number in each message; counting over the request keeps its shape and makes ids unique,
    # which Moonshot demands of one request ("tool call id … is duplicated").
    return f"{name or 'tool'}_{count + salt}"


def _mint_mistral(canonical: str, name: str, count: int, salt: int) -> str:
    # Mistral's own ids pass unchanged. A made one may equal such an id: `_used` sees it and the salt moves on.
    if not salt and _NINE.match(canonical):
        return canonical
    # 128 bits over 62^9 values: the remainder is even enough, and a digest is the same on every machine.
    number = int.from_bytes(hashlib.sha256(f"{canonical}|{salt}".encode("utf-8", "surrogatepass")).digest()[:16], "big")
    digits = []
    for _ in range(9):
        number, digit = divmod(number, 62)
        digits.append(_BASE62[digit])
    return "".join(digits)


standard_strategy = ToolIdStrategy("standard", _prefixed("call_"))
anthropic_strategy = ToolIdStrategy("anthropic", _prefixed("toolu_"))
kimi_strategy = ToolIdStrategy("kimi", _mint_kimi)
kimi_k3_strategy = ToolIdStrategy("kimi-k3", _mint_kimi_k3)
mistral_strategy = ToolIdStrategy("mistral", _mint_mistral)

STRATEGIES: dict[str, ToolIdStrategy] = {
    strategy.name: strategy
    for strategy in (standard_strategy, anthropic_strategy, kimi_strategy, kimi_k3_strategy, mistral_strategy)
}


def valid_tool_format(name: str) -> ToolFormat:
    """`name` as a ToolFormat, `qwen` for `qwen-json`; UnknownToolFormat lists the valid ones."""
    for known in TOOL_FORMATS:
        if known == str(name).strip().lower():
            return _PLAIN.get(known, known)
    raise UnknownToolFormat(f"unknown tool format {name!r}; expected one of {', '.join(TOOL_FORMATS)}")


def chosen_tool_format(name: str | None) -> ToolFormat | None:
    """A format chosen by hand, as it is kept and stored: `qwen-json` for `qwen`; None for `auto`, which is the model's own."""
    if not name or name.strip().lower() == "auto":
        return None
    try:
        valid = valid_tool_format(name)
    except UnknownToolFormat as error:
        raise UnknownToolFormat(f"{error}, or auto for the model's own") from None
    return _WRITTEN.get(valid, valid)


def get_tool_id_strategy(format: str) -> ToolIdStrategy:
    """The id scheme that goes with a tool format."""
    return STRATEGIES.get(valid_tool_format(format), standard_strategy)


# Hosts that refuse ids of any other form: Anthropic by a pattern, Mistral by nine letters and digits. A tool format
# chosen by hand changes how tools are spoken about, but cannot talk these hosts out of their check
# (field-guide/tool-ids.md#who-demands-what).
PINNED_SCHEMES = frozenset({"anthropic", "mistral"})


def scheme_for(ids: str, tool_format: str | None) -> ToolIdStrategy:
    """The id scheme of one request: a tool format chosen by hand brings its own, unless the host takes only `ids`."""
    return get_tool_id_strategy(tool_format) if tool_format and ids not in PINNED_SCHEMES else STRATEGIES[ids]


# `k2` and `k3` count only as words of their own: two characters occur inside too many other names.
_KIMI = late_pattern(r"kimi|(?:^|[^a-z0-9])k[23](?:thinking|(?![a-z0-9]))")
_MISTRAL = late_pattern(r"(?:mi|mini|magi|dev|code|math)stral|(?:mix|pix|vox)tral")


def is_kimi_model(model: str) -> bool:
    """Whether a model name is one of Moonshot's Kimi family, wherever it is served."""
    return _KIMI.search(model.lower()) is not None


def detect_tool_format(model: str, override: str | None = None) -> ToolFormat:
    """The tool format a model was taught. A manual `override` beats detection (`auto` and None ask for it)."""
    if override and override.strip().lower() != "auto":
        return valid_tool_format(override)
    name = model.lower()
    # The order matters where a name holds two families: `deepseek-r1-distill-qwen-7b` is read as DeepSeek's.
    if is_kimi_model(name):
        return "kimi"
    if "deepseek" in name:
        return "deepseek"
    if _MISTRAL.search(name):
        return "mistral"
    if "qwen" in name or "qwq" in name or "glm-" in name:
        return "qwen"
    if "claude" in name:
        return "anthropic"
    return "openai"
