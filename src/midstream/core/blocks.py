"""What a conversation is made of: values with no behaviour but reading.

A Conversation is a system prompt and Turns; a Turn is one speaker's Blocks. Nothing here belongs to a provider. What only
its maker understands (a signature, an encrypted item, a citation) travels in `extra`, or whole in an Opaque block, beside
the Origin it came from, and is replayed there and nowhere else.
New fields always get a default, so conversations stored by an older midstream load.
"""

from __future__ import annotations

import os
import stat
from binascii import b2a_base64
from collections.abc import Iterable
from typing import Any, Literal, Self, TypeAlias, get_args

import msgspec
from msgspec.structs import force_setattr

from .errors import KINDS, LocalError, MidstreamError
from .media_type import HEAD, is_media_type, media_type

Speaker: TypeAlias = Literal["human", "ai", "tool", "system"]
_SPEAKERS = frozenset(get_args(Speaker))
ToolKind: TypeAlias = Literal["function", "freeform"]
# OpenAI calls it `developer` for its reasoning models, everybody else `system` (field-guide/openai-chat.md#roles).
INSTRUCTION_ROLES = ("system", "developer")
"""The words that hosts have for the role of an instruction."""


# `omit_defaults` is what lets a field be added: records that were written without it are the same bytes as before.
# `gc=False` because values cannot form cycles, and a long history is made of hundreds of thousands of them.
class Value(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Immutable, compared by content, written without the fields that hold their default."""


class Origin(Value, frozen=True):
    """Who made this: opaque data goes back only to the same origin.

    A provider that plays others says whom after a colon: what `sim:moonshot` made must not be taken for what
    `sim:anthropic` made. `name` is what a user calls the model: `sim/kimi-k2.5`.
    """

    # The same model over two wires of one host is two origins: a signature of one wire means nothing on the other.
    provider: str = ""
    wire: str = ""
    model: str = ""

    @property
    def name(self) -> str:
        provider = self.provider.partition(":")[0]
        return f"{provider}/{self.model}" if provider and self.model else provider or self.model


class Text(Value, frozen=True, tag="text"):
    """Text. `extra` holds what only its origin understands (citations, annotations)."""

    text: str
    extra: dict[str, Any] | None = None


# Here and not in the gateway, because whoever reads a client's history must know one from a signature that a host gave.
SEAL = "midseal"
"""The prefix of reasoning that our gateway has sealed for a client; only the gateway can open it."""


class Thinking(Value, frozen=True, tag="thinking"):
    """Reasoning. `text == ""` is not the same as no block: an empty one is echoed where the wire wants the field.

    `field` is the key it arrived under (`reasoning_content`, `reasoning` …) and goes back under; `signature` proves it to
    its maker; `encrypted` is reasoning we cannot read; `redacted` marks data that replaces the text.
    """

    text: str = ""
    # Hosts disagree about the field's name, and some read only their own (field-guide/reasoning.md#fields).
    field: str = ""
    signature: str | None = None
    encrypted: str | None = None
    redacted: bool = False
    origin: Origin | None = None
    extra: dict[str, Any] | None = None


class ToolCall(Value, frozen=True, tag="tool_call"):
    """A call. `id` is canonical; `arguments` is the raw JSON text exactly as it came.

    A call of a freeform tool has its text as `{"input": …}` there (`midstream.core.tools: freeform_input` gives the text).
    """

    id: str
    name: str
    # Text, not an object: a parsed object would be written back with other spacing or key order, and a prompt cache
    # compares bytes. Broken JSON also has to survive, so that the model can be shown what it wrote.
    arguments: str = "{}"
    # What the host called it. Only metadata: hosts repeat such ids (field-guide/tool-ids.md#what-hosts-give).
    raw_id: str | None = None
    provider: str = ""
    extra: dict[str, Any] | None = None
    kind: ToolKind = "function"
    namespace: str = ""

    @property
    def qualified_name(self) -> str:
        """The name that tells it from tools of other namespaces: `namespace/name`, or the name alone."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


LARGEST_FILE = 256 * 1024 * 1024
"""The most bytes that `Media.from_path` reads: far more than any host takes in a request."""


class Media(Value, frozen=True, tag="media"):
    """An image, sound, video or file: `data` is base64, or `url` says where it is (or a provider's file id).

    `Media.from_path("photo.png")` and `Media.from_bytes(data)` make one of a file and of plain bytes, and find out its type.
    """

    mime: str = ""
    data: str | None = None
    url: str | None = None
    name: str | None = None
    extra: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        # Only what no stored conversation and no host can hold: both are text.
        mime: object = self.mime
        data: object = self.data
        if isinstance(mime, _BYTES):
            if isinstance(data, str) and is_media_type(data):
                raise TypeError(f"Media takes the type first, then the data: {_swap_hint(data)}")
            raise TypeError(f"the mime of a Media is a word such as 'image/png', got {type(mime).__name__}")
        if isinstance(data, _BYTES):
            raise TypeError(
                f"the data of a Media is base64 text, got {type(data).__name__}: "
                f"Media.from_bytes(data, {mime!r}) encodes it"
            )

    @classmethod
    def from_bytes(cls, data: bytes, mime: str = "", *, name: str | None = None) -> Self:
        """A medium of plain bytes. Without `mime`, its first bytes say what it is, else its name."""
        mime = mime or media_type(bytes(data[:HEAD]), name or "")
        return cls(mime, b2a_base64(data, newline=False).decode(), name=name)

    @classmethod
    def from_path(cls, path: str | os.PathLike[str], mime: str = "") -> Self:
        """A file, read now. Without `mime`, its first bytes say what it is, else its name."""
        from pathlib import Path  # a start that attaches nothing does not load it

        file = Path(path)
        shown = str(file)
        try:
            # Before it is opened: opening a pipe waits for somebody to write into it.
            if not stat.S_ISREG(file.stat().st_mode):  # a pipe or a device may have no end
                raise LocalError(f"cannot attach {shown!r}: it is not a regular file")
            with file.open("rb") as opened:
                # One byte more than allowed tells a file that is too large from one that just fits, and a file that
                # grows while it is read cannot outrun the limit.
                data = opened.read(LARGEST_FILE + 1)
        except (OSError, ValueError) as error:
            missing = isinstance(error, FileNotFoundError)
            why = "no such file" if missing else getattr(error, "strerror", None) or str(error)
            raise LocalError(f"cannot attach {shown!r}: {why}") from error
        if not data:
            raise LocalError(f"cannot attach {shown!r}: the file is empty")
        if len(data) > LARGEST_FILE:
            raise LocalError(f"cannot attach {shown!r}: it is larger than {LARGEST_FILE >> 20} MiB")
        return cls.from_bytes(data, mime, name=file.name)

    @property
    def kind(self) -> str:
        """`image`, `audio`, `video` or `file`."""
        head = self.mime.partition("/")[0]
        return head if head in ("image", "audio", "video") else "file"


_BYTES = (bytes, bytearray, memoryview)


def _swap_hint(mime: str) -> str:
    return f"write Media.from_bytes(data, {mime!r}) for bytes, Media({mime!r}, data) for base64 text"


class Opaque(Value, frozen=True, tag="opaque"):
    """What a wire sent that the core has no word for, kept whole."""

    kind: str
    data: Any
    origin: Origin | None = None


FAILED = "failed"
"""The key in `ToolResponse.extra` of a result whose tool worked and whose command failed. It is ours, and never sent."""


class ToolResponse(Value, frozen=True, tag="tool_response"):
    """The result of the call `call_id`. `raw_id` is what the result was labelled with before it was matched."""

    call_id: str
    name: str = ""
    content: tuple[Text | Media | Opaque, ...] = ()
    is_error: bool = False
    raw_id: str | None = None
    extra: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The textual parts, joined."""
        # `type(…) is` here and below: blocks are never subclassed, and this runs over whole histories.
        return "".join([part.text for part in self.content if type(part) is Text])

    @property
    def failed(self) -> bool:
        """Whether it is bad news: the tool failed (`is_error`), or what it ran did. Only the former is told to a host."""
        return self.is_error or bool(self.extra and self.extra.get(FAILED))


Block: TypeAlias = Text | Thinking | ToolCall | ToolResponse | Media | Opaque
_BLOCKS = frozenset(get_args(Block))


class Usage(Value, frozen=True):
    """The tokens of one turn.

    To know how much the model read, use `read`; how much it wrote, `output`. Their sum is the total. Do not add the other
    figures up: `input` includes `cache_read` and `cache_write` on nearly all hosts and excludes them on Anthropic
    (`cache_in_input` says which), and `reasoning` is a part of `output` everywhere. `fresh`, `cache_read`, `cache_write`
    and `output` do not overlap: each has its own price, and they are what a bill is made of.

    Add turns up with `+` or `sum(usages, Usage())`, which keeps to this: the sum of `input` is the sum of `read`. Its `cost`
    is None unless every host stated one. `raw` is the host's own object, untouched.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    # Anthropic's `input_tokens` leaves out what the cache had; all others count it in. Normalising on arrival would
    # lose the host's own figure, so the flag travels with it.
    cache_in_input: bool = True
    cost: float | None = None
    raw: dict[str, Any] | None = None

    @property
    def read(self) -> int:
        """All tokens the model read, cached or not."""
        return self.input if self.cache_in_input else self.input + self.cache_read + self.cache_write

    @property
    def fresh(self) -> int:
        """Tokens read that the cache neither served nor stored."""
        return max(0, self.input - self.cache_read - self.cache_write) if self.cache_in_input else self.input

    @property
    def total(self) -> int:
        """All tokens, read and written."""
        return self.read + self.output

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.read + other.read,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.reasoning + other.reasoning,
            cost=_sum_of_costs(self, other),
        )


def _sum_of_costs(one: Usage, other: Usage) -> float | None:
    """Unknown if either is; what used nothing (the start of a sum) costs nothing."""
    costs = [usage.cost for usage in (one, other) if usage != Usage()]
    # A sum of some costs would look like the whole.
    return sum(cost for cost in costs if cost is not None) if costs and None not in costs else None


StopReason: TypeAlias = str
"""`end_turn | tool_use | max_tokens | refusal | unknown`, or the host's own word when it is none of these."""


class Grammar(Value, frozen=True):
    """What the input of a freeform tool must look like: a grammar in `syntax` (`lark`, `regex`)."""

    syntax: str
    definition: str


class ToolSpec(Value, frozen=True):
    """A tool as the model sees it. `parameters` is a JSON schema. `builtin` names a tool the provider runs itself
    (`$web_search` …).

    A `freeform` tool takes plain text instead of arguments, within its `grammar` if it has one. Tools of different
    namespaces may have the same name. For a host that has neither, both become plain functions.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    builtin: str | None = None
    extra: dict[str, Any] | None = None
    kind: ToolKind = "function"
    grammar: Grammar | None = None
    namespace: str = ""

    @property
    def qualified_name(self) -> str:
        """The name that tells it from tools of other namespaces: `namespace/name`, or the name alone."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Compacted(Value, frozen=True):
    """What a turn says about the turns before it; the store keeps them all.

    A `summary` stands for the turns before `until`: models are sent this turn in their place (system turns among them are
    sent as they are). An `undo` takes back the last summary that is in force. A `failure` only says what an attempt used.
    `keep` is what every later summary has to carry word for word, `request` the user's last message before it.
    """

    action: Literal["summary", "undo", "failure"] = "summary"
    until: int = 0
    keep: tuple[str, ...] = ()
    request: str = ""
    reason: str = ""
    tokens_before: int = 0
    tokens_after: int = 0


class Turn(msgspec.Struct, frozen=True, omit_defaults=True, weakref=True):
    """One speaker's contribution.

    `key` is minted when the turn opens and never changes: it is part of the seed of the turn's tool-call ids.
    A `system` turn is an instruction inside the conversation, from where it stands on; `role` is its host's other word for
    it (`developer`), and `tools` are declared by it, in addition to the request's. (Databases of older versions hold such a
    turn as a human one with a `role`; `is_instruction` is true of both.)
    `failure` is the kind of error that ended an ai turn early (`truncated`, `empty`, `rate_limited` …: see
    `midstream.errors`), or "" if it ended well; a failed turn is never sent again. `blocks` may be given as a list, and a
    plain string in it becomes a Text.
    """

    speaker: Speaker
    blocks: tuple[Block, ...] = ()
    key: str = ""
    role: str = ""
    origin: Origin | None = None
    usage: Usage | None = None
    stop_reason: StopReason = ""
    raw_stop: str | None = None
    latency_ms: float | None = None
    failure: str = ""
    response_id: str | None = None
    extra: dict[str, Any] | None = None
    # Routers and aliases answer with another model's name. The
    # origin stays what was asked, because data goes back by it.
    response_model: str = ""
    """The model that answered by the host's own word, where that is not the one that was asked (`origin.model`)."""
    tools: tuple[ToolSpec, ...] = ()
    compacted: Compacted | None = None
    """Set on a turn that was not said: a summary of turns before it, or the end of one."""
    ttft_ms: float | None = None
    """Milliseconds until the first piece of a streamed answer came; `latency_ms` are those until its end."""
    answered_at: float | None = None
    """When an answer was complete, in seconds since 1970. What was used on which day is known by it."""

    def __post_init__(self) -> None:
        if self.speaker not in _SPEAKERS:
            raise LocalError(
                f"no speaker {self.speaker!r}: expected human, ai, tool or system (instructions for the whole conversation are its `system`)"
            )
        if self.tools != ():
            if self.speaker != "system":
                raise LocalError(f"a {self.speaker} turn cannot declare tools; only a system turn can")
            force_setattr(self, "tools", tuple(self.tools))
        # The everyday case costs one set comparison and no copy: every block of every answer passes here.
        if type(self.blocks) is not tuple or not _BLOCKS.issuperset(map(type, self.blocks)):
            force_setattr(self, "blocks", _as_blocks(self.blocks))

    @property
    def is_instruction(self) -> bool:
        """Whether this is a system turn, also one that an older version stored as a human turn with a role."""
        return self.speaker == "system" or (self.speaker == "human" and self.role in INSTRUCTION_ROLES)

    @property
    def text(self) -> str:
        return "".join([block.text for block in self.blocks if type(block) is Text])

    @property
    def thinking(self) -> str:
        return "".join([block.text for block in self.blocks if type(block) is Thinking])

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple([block for block in self.blocks if type(block) is ToolCall])

    @property
    def tool_responses(self) -> tuple[ToolResponse, ...]:
        return tuple([block for block in self.blocks if type(block) is ToolResponse])

    def raise_for_failure(self) -> Turn:
        """Raise the exception that this turn's `failure` names; return the turn itself if it ended well.

        A turn keeps only the kind of its error. Message, status and code are in `reply.error` while the reply is at hand.
        """
        if not self.failure:
            return self
        kind = KINDS.get(self.failure, MidstreamError)
        who = f"the answer of {self.origin.model}" if self.origin is not None and self.origin.model else "the answer"
        raise kind.restore(f"{who} failed ({self.failure}): {(kind.__doc__ or '').strip().splitlines()[0]}")


class Conversation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A system prompt and the turns said so far. Growing it makes a new value that shares the old turns.

    A list of turns will do; whether its ends are turns is looked at, and no more: a conversation grows in constant time.
    """

    turns: tuple[Turn, ...] = ()
    system: str | tuple[Text, ...] = ""
    id: str = ""
    extra: dict[str, Any] | None = None
    undone_cost: float | None = None
    """Dollars spent on answers that are no longer part of it, because they were undone; None if there are none."""

    def __post_init__(self) -> None:
        if type(self.turns) is not tuple:
            force_setattr(self, "turns", tuple(self.turns))
        # First and last: a list of strings, or a conversation with
        # a string appended, is caught, and no more is looked at.
        for turn in (*self.turns[:1], *self.turns[-1:]):
            if type(turn) is not Turn:
                raise LocalError(f"a conversation holds Turns, got {_named(turn)}; human('…') makes one of a text")

    def add(self, *turns: Turn) -> Conversation:
        """This conversation with more turns."""
        # The tuples are new, the turns are shared: that is what lets encoded turns be cached by identity.
        return msgspec.structs.replace(self, turns=self.turns + turns)

    @property
    def system_text(self) -> str:
        if isinstance(self.system, str):
            return self.system
        return "\n\n".join([part.text for part in self.system])

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Conversation:
        return msgspec.json.decode(data, type=cls)


def _as_blocks(given: str | Block | Iterable[str | Block]) -> tuple[Block, ...]:
    parts = (given,) if isinstance(given, (str, msgspec.Struct)) else tuple(given)
    # For people who write `Turn("human", ["hello", image])`.
    blocks = tuple([Text(part) if isinstance(part, str) else part for part in parts])
    for block in blocks:
        if type(block) not in _BLOCKS:
            raise LocalError(
                f"a turn holds blocks (Text, Thinking, ToolCall, ToolResponse, Media), got {_named(block)}"
            )
    return blocks


def _named(given: object) -> str:
    return f"{type(given).__name__} {given!r}"[:80]


def human(*content: str | Text | Media, key: str = "") -> Turn:
    """A human turn from plain strings and media."""
    return Turn("human", _said(content), key=key)


def system(*content: str | Text | Media, tools: Iterable[ToolSpec] = (), key: str = "") -> Turn:
    """A system turn: an instruction, and the tools that it declares, from here on."""
    return Turn("system", _said(content), key=key, tools=tuple(tools))


def tool_result(call: ToolCall, *content: str | Text | Media, is_error: bool = False) -> ToolResponse:
    """The response to a call, ready to stand in a tool turn."""
    return ToolResponse(call.id, call.name, _said(content), is_error=is_error)


def _said(content: Iterable[str | Text | Media]) -> tuple[Text | Media, ...]:
    """What a caller said, as blocks. Two texts in each other's place are refused here and not in Media itself, which a
    host's answer and a stored conversation are read into as well: those are taken as they come."""
    blocks = tuple([Text(part) if isinstance(part, str) else part for part in content])
    for block in blocks:
        if type(block) is Media and block.data and is_media_type(block.data) and not is_media_type(block.mime):
            raise TypeError(f"Media takes the type first, then the data: {_swap_hint(block.data)}")
    return blocks
