"""What a conversation is made of: values with no behaviour but reading.

A Conversation is a system prompt and Turns; a Turn is one speaker's Blocks. Nothing here belongs to a provider. What only
its maker understands (a signature, an encrypted item, a citation) travels in `extra`, or whole in an Opaque block, beside
the Origin it came from, and is replayed there and nowhere else.
New fields always get a default, so conversations stored by an older midstream load.

What a value cannot hold is refused when it is made (InvalidValue), never when it is encoded: `_settle` holds each field to its
annotation, as a stored conversation is. Plain JSON is taken where a person would write it: a dict as a call's arguments, any
value as a result.
"""

from __future__ import annotations

import copy
import os
import reprlib
import stat
from binascii import b2a_base64
from collections.abc import Iterable, Mapping, Set
from functools import lru_cache
from math import isfinite
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args, get_origin

import msgspec
from msgspec.structs import force_setattr

from .errors import KINDS, InvalidValue, LocalError, MidstreamError
from .media_type import HEAD, is_media_type, media_type
from .modules import late_module
from .surrogates import clean

if TYPE_CHECKING:
    import json
else:
    json = late_module("json", globals())

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

    def __post_init__(self) -> None:
        # Here and below: the everyday shape of a value is known by a few tests of types, and only another one is looked at
        # field by field. A long history is made of hundreds of thousands of values.
        if type(self.provider) is not str or type(self.wire) is not str or type(self.model) is not str:
            _settle(self)

    @property
    def name(self) -> str:
        provider = self.provider.partition(":")[0]
        return f"{provider}/{self.model}" if provider and self.model else provider or self.model


class Text(Value, frozen=True, tag="text"):
    """Text. `extra` holds what only its origin understands (citations, annotations)."""

    text: str
    extra: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if type(self.text) is not str or self.extra is not None:
            _settle(self)


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

    def __post_init__(self) -> None:
        if (
            type(self.text) is not str
            or type(self.field) is not str
            or self.signature is not None
            or self.encrypted is not None
            or type(self.redacted) is not bool
            or type(self.origin) not in _ORIGIN
            or self.extra is not None
        ):
            _settle(self)


class ToolCall(Value, frozen=True, tag="tool_call"):
    """A call. `id` is canonical; `arguments` is the raw JSON text exactly as it came. A dict or a list given as arguments
    becomes its JSON text.

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

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            name: str,
            arguments: str | dict[str, Any] | list[Any] = "{}",
            raw_id: str | None = None,
            provider: str = "",
            extra: dict[str, Any] | None = None,
            kind: ToolKind = "function",
            namespace: str = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        if (
            type(self.arguments) is not str
            or type(self.id) is not str
            or type(self.name) is not str
            or type(self.raw_id) not in _WORD
            or type(self.provider) is not str
            or self.extra is not None
            or self.kind != "function"
            or type(self.namespace) is not str
        ):
            arguments: object = self.arguments
            if isinstance(arguments, (dict, list, tuple)):
                force_setattr(self, "arguments", _json_text(arguments, "the arguments of a ToolCall"))
            _settle(self)

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
                raise InvalidValue(f"Media takes the type first, then the data: {_swap_hint(data)}")
            raise InvalidValue(f"the mime of a Media is a word such as 'image/png', got {type(mime).__name__}")
        if isinstance(data, _BYTES):
            raise InvalidValue(
                f"the data of a Media is base64 text, got {type(data).__name__}: "
                f"Media.from_bytes(data, {mime!r}) encodes it"
            )
        if (
            type(mime) is not str
            or type(data) not in _WORD
            or type(self.url) not in _WORD
            or type(self.name) not in _WORD
            or self.extra is not None
        ):
            _settle(self)

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


Json: TypeAlias = "dict[str, Any] | list[Any] | float | bool | None"
"""A JSON value that is not a text."""


class Opaque(Value, frozen=True, tag="opaque"):
    """What a wire sent that the core has no word for, kept whole."""

    kind: str
    data: Any
    origin: Origin | None = None

    def __post_init__(self) -> None:
        _settle(self)


FAILED = "failed"
"""The key in `ToolResponse.extra` of a result whose tool worked and whose command failed. It is ours, and never sent."""


class ToolResponse(Value, frozen=True, tag="tool_response"):
    """The result of the call `call_id`. `raw_id` is what the result was labelled with before it was matched.

    `content` may be given as one part or a list of parts. A string becomes a Text, and any other JSON value a Text of its JSON.
    """

    call_id: str
    name: str = ""
    content: tuple[Text | Media | Opaque, ...] = ()
    is_error: bool = False
    raw_id: str | None = None
    extra: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if type(self.content) is not tuple or not _PARTS.issuperset(map(type, self.content)):
            force_setattr(self, "content", _as_content(self.content))
        if (
            type(self.call_id) is not str
            or type(self.name) is not str
            or type(self.is_error) is not bool
            or type(self.raw_id) not in _WORD
            or self.extra is not None
        ):
            _settle(self)

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
_PARTS = frozenset((Text, Media, Opaque))
_WORD = frozenset((str, type(None)))
_ORIGIN = frozenset((Origin, type(None)))


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

    def __post_init__(self) -> None:
        # All at once: a usage is made for each answer, not for each block.
        _settle(self)

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

    def __post_init__(self) -> None:
        _settle(self)


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

    def __post_init__(self) -> None:
        _settle(self)

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

    def __post_init__(self) -> None:
        _settle(self)


class Turn(msgspec.Struct, frozen=True, omit_defaults=True, weakref=True):
    """One speaker's contribution.

    `key` is minted when the turn opens and never changes: it is part of the seed of the turn's tool-call ids.
    A `system` turn is an instruction inside the conversation, from where it stands on; `role` is its host's other word for
    it (`developer`), and `tools` are declared by it, in addition to the request's. (Databases of older versions hold such a
    turn as a human one with a `role`; `is_instruction` is true of both.)
    `usage` is what the host stated: None as long as it stated nothing (in a partial turn, in one that failed before its counts),
    never zeros. `turn.usage or Usage()` is for sums.
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
        speaker: object = self.speaker
        if not isinstance(speaker, str) or speaker not in _SPEAKERS:
            raise InvalidValue(
                f"no speaker {reprlib.repr(speaker)}: expected human, ai, tool or system (instructions for the whole conversation are its `system`)"
            )
        if self.tools != () and self.speaker != "system":
            raise InvalidValue(f"a {self.speaker} turn cannot declare tools; only a system turn can")
        # The everyday case costs one set comparison and no copy: every block of every answer passes here.
        if type(self.blocks) is not tuple or not _BLOCKS.issuperset(map(type, self.blocks)):
            force_setattr(self, "blocks", _as_blocks(self.blocks))
        if (
            type(self.key) is not str
            or type(self.role) is not str
            or type(self.origin) not in _ORIGIN
            or type(self.usage) not in _USAGE
            or type(self.stop_reason) is not str
            or type(self.raw_stop) not in _WORD
            or type(self.latency_ms) not in _TIME
            or type(self.failure) is not str
            or type(self.response_id) not in _WORD
            or self.extra is not None
            or type(self.response_model) is not str
            or self.tools != ()
            or self.compacted is not None
            or type(self.ttft_ms) not in _TIME
            or type(self.answered_at) not in _TIME
            or type(speaker) is not str
        ):
            _settle(self)

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


_USAGE = frozenset((Usage, type(None)))
_TIME = frozenset((float, type(None)))


class Conversation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A system prompt and the turns said so far. Growing it makes a new value that shares the old turns.

    A list of turns will do.
    """

    turns: tuple[Turn, ...] = ()
    system: str | tuple[Text, ...] = ""
    id: str = ""
    extra: dict[str, Any] | None = None
    undone_cost: float | None = None
    """Dollars spent on answers that are no longer part of it, because they were undone; None if there are none."""

    def __post_init__(self) -> None:
        if type(self.turns) is not tuple:
            force_setattr(self, "turns", _as_tuple(self.turns, "a conversation holds Turns in a tuple or a list"))
        _require_turns(self.turns)
        if type(self.system) is not str:
            if isinstance(self.system, (tuple, list)):
                system = tuple([Text(part) if isinstance(part, str) else part for part in self.system])
                if any(type(part) is not Text for part in system):
                    raise InvalidValue("the system prompt of a conversation is text; media go into a human turn")
                force_setattr(self, "system", system)
            elif isinstance(self.system, Text):
                force_setattr(self, "system", (self.system,))
            else:
                _settle(self, "system")
        if type(self.id) is not str or self.extra is not None or type(self.undone_cost) not in _TIME:
            _settle(self, "id", "extra", "undone_cost")

    def add(self, *turns: Turn) -> Conversation:
        """This conversation with more turns."""
        # The tuples are new, the turns are shared: that is what lets encoded turns be cached by identity. A copy is not
        # looked at again, so what a turn more costs does not depend on those before it.
        _require_turns(turns)
        grown = copy.copy(self)
        force_setattr(grown, "turns", self.turns + turns)
        return grown

    @property
    def system_text(self) -> str:
        if isinstance(self.system, str):
            return self.system
        return "\n\n".join([part.text for part in self.system])

    def to_json(self) -> bytes:
        try:
            return msgspec.json.encode(self)
        except UnicodeEncodeError:  # half a character, which a host's cut or a file's name may bring
            return msgspec.json.encode(clean(msgspec.to_builtins(self)))
        except (TypeError, RecursionError) as error:  # in an `extra`
            raise InvalidValue(f"the conversation cannot be written as JSON: {error}") from None

    @classmethod
    def from_json(cls, data: bytes | str) -> Conversation:
        return msgspec.json.decode(data, type=cls)


def _require_turns(turns: tuple[Turn, ...]) -> None:
    if not _TURN.issuperset(map(type, turns)):
        odd = next(turn for turn in turns if type(turn) is not Turn)
        raise InvalidValue(f"a conversation holds Turns, got {_named(odd)}; human('…') makes one of a text")


_TURN = frozenset((Turn,))


def _as_blocks(given: object) -> tuple[Block, ...]:
    parts = (
        (given,)
        if isinstance(given, (str, msgspec.Struct))
        else _as_tuple(given, "a turn holds blocks in a tuple or a list")
    )
    # For people who write `Turn("human", ["hello", image])`.
    blocks = tuple([Text(part) if isinstance(part, str) else part for part in parts])
    for block in blocks:
        if type(block) not in _BLOCKS:
            raise InvalidValue(
                f"a turn holds blocks (Text, Thinking, ToolCall, ToolResponse, Media), got {_named(block)}"
            )
    return blocks


def _as_content(given: object) -> tuple[Text | Media | Opaque, ...]:
    """What a person gives as a result: parts, or plain JSON."""
    parts = given if isinstance(given, (tuple, list)) else (given,)
    return tuple([_as_part(part) for part in parts])


def _as_part(given: object) -> Text | Media | Opaque:
    if isinstance(given, (Text, Media, Opaque)):
        return given
    return Text(given if isinstance(given, str) else _json_text(given, "a tool's result"))


def _as_tuple(given: object, what: str) -> tuple[Any, ...]:
    # A mapping, a set or bytes can be iterated over as well, and it would mean something else.
    if isinstance(given, Iterable) and not isinstance(given, (str, Mapping, Set, msgspec.Struct, *_BYTES)):
        return tuple(given)
    raise InvalidValue(f"{what}, got {_named(given)}")


def _json_text(given: object, what: str) -> str:
    # The standard library's writer takes JSON's own types and no others; msgspec's would also write sets, times and bytes, and
    # NaN as null.
    try:
        return json.dumps(given, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"{what} is plain JSON or text, got {_named(given)}: {error}") from None


def _settle(value: msgspec.Struct, *names: str) -> None:
    """Hold the fields of a new value to their annotations: a subclass of str becomes a str, a list a tuple, and what cannot
    be kept is InvalidValue."""
    for name, kind, default, plain in _fields(type(value)):
        given = getattr(value, name)
        if given is default or type(given) in plain or (names and name not in names):
            continue
        try:
            kept = msgspec.convert(given, kind)
            if isinstance(kept, str):
                kept = str.__str__(kept)  # msgspec writes no subclass of it
            elif name in _WRITTEN:
                _require_json(kept)
            elif isinstance(kept, float) and not isfinite(kept):
                raise ValueError(f"{kept} is not a JSON number")
        except (msgspec.ValidationError, OverflowError, TypeError, ValueError, RecursionError) as error:
            raise InvalidValue(f"{type(value).__name__}({name}={_named(given)}): {error}") from None
        if type(kept) is not type(given):
            force_setattr(value, name, kept)


_WRITTEN = ("parameters", "data")
"""The fields whose JSON a person writes, or a host sends as a whole. What is in `extra` is looked at when it is sent or stored."""
_Field: TypeAlias = tuple[str, Any, Any, frozenset[type]]


@lru_cache(maxsize=32)
def _fields(kind: type[msgspec.Struct]) -> tuple[_Field, ...]:
    """The fields of a kind of value: name, annotation, default, and the types that stay as they are."""
    found: list[_Field] = []
    for field in msgspec.structs.fields(kind):
        kinds = get_args(field.type) if isinstance(field.type, UnionType) else (field.type,)
        # A float may be no number, and a Literal is one of some words.
        plain = {each for each in kinds if each in (str, int, bool, NoneType) or isinstance(each, type(msgspec.Struct))}
        if field.name not in _WRITTEN and any(get_origin(each) is dict for each in kinds):
            plain.add(dict)
        found.append((field.name, field.type, field.default, frozenset(plain)))
    return tuple(found)


_encode = msgspec.json.Encoder().encode


def _require_json(value: Any) -> None:
    try:
        _encode(value)
    except UnicodeEncodeError:  # half a character is mended when it is sent or stored
        _encode(clean(value))


def _named(given: object) -> str:
    # An object of the caller's may be endless, or fail to show itself; `reprlib` bears both.
    return f"{type(given).__name__} {reprlib.repr(given)}"[:80]


def human(*content: str | Text | Media, key: str = "") -> Turn:
    """A human turn from plain strings and media."""
    return Turn("human", _said(content), key=key)


def system(*content: str | Text | Media, tools: Iterable[ToolSpec] = (), key: str = "") -> Turn:
    """A system turn: an instruction, and the tools that it declares, from here on."""
    return Turn("system", _said(content), key=key, tools=tuple(tools))


def tool_result(call: ToolCall, *content: str | Text | Media | Json, is_error: bool = False) -> ToolResponse:
    """The response to a call, ready to stand in a tool turn.

    Any JSON value will do as content: what is not a string becomes its JSON. A list that holds blocks is a list of parts.
    """
    if not isinstance(call, ToolCall):
        raise InvalidValue(f"tool_result takes the ToolCall that it answers first, got {_named(call)}")
    parts: list[object] = []
    for given in content:
        if isinstance(given, (list, tuple)) and any(isinstance(part, msgspec.Struct) for part in given):
            parts += given
        else:
            parts.append(given)
    response = ToolResponse(call.id, call.name, _as_content(parts), is_error=is_error)
    _require_order(response.content)
    return response


def _said(content: Iterable[str | Text | Media]) -> tuple[Text | Media, ...]:
    """What a caller said, as blocks."""
    blocks = tuple([Text(part) if isinstance(part, str) else part for part in content])
    _require_order(blocks)
    return blocks


def _require_order(blocks: Iterable[Block]) -> None:
    """Two texts in each other's place are refused here and not in Media itself, which a host's answer and a stored conversation
    are read into as well: those are taken as they come."""
    for block in blocks:
        if type(block) is Media and block.data and is_media_type(block.data) and not is_media_type(block.mime):
            raise InvalidValue(f"Media takes the type first, then the data: {_swap_hint(block.data)}")
