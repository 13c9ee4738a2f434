"""Which dialect does a host need that refuses what it is sent? Found by trying: one change of the dialect at a time.

A host tells the first thing that it does not like. A change after which the same request is accepted is the one; a change after
which it complains of something else has mended something, and the search goes on from there. Breadth first, so that the fewest
changes win; bounded, since every try is a request.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from ..client.catalog import settled_dialect
from ..core.blocks import Conversation, Turn, human
from ..core.dialect import Dialect, Options
from ..core.tools import ToolSpec
from ..doctor.matrix import TOOLS, foreign_history, interrupted_history, scene_history
from .checks import FAIL, PASS
from .interview import Exchange
from .observation import shown
from .probes import CALL, HELLO, READ, WORDS, Asking, Probe, answered, echo_rules

Changes: TypeAlias = dict[str, Any]
_MOST_TRIES = 150
_MOST_CHANGES = 4
# From the most common demand to the rarest. What excludes one another has one key, so that a later change replaces an earlier.
_CANDIDATES: tuple[Changes, ...] = (
    {"ids": "mistral"},
    {"ids": "kimi"},
    {"ids": "anthropic"},
    {"ids": "kimi-k3"},
    {"ids": "standard"},
    {"stream_usage": False},
    {"max_tokens_field": "max_completion_tokens"},
    {"blank_content": "omit"},
    {"blank_content": "keep"},
    {"tool_result_name": True},
    {"merge_turns": True},
    {"schema": "moonshot"},
    {"schema": "openai"},
    {"schema": "gemini"},
    {"default_max_tokens": 4096},
    {"first_speaker_user": True},
    {"media": []},
    {"tool_result_media": "none"},
    {"arguments_object": True},
    {"system_role": "developer"},
)
_SCENES = (
    "error result",
    "images in results",
    "repeated raw ids",
    "system turns between",
    "tools in a system turn",
    "freeform calls",
)
_REASONING = "reasoning"
_PLACEHOLDER = "(not recorded)"


async def _discover(asking: Asking) -> None:
    """Find the changes with which the host accepts a greeting, its own calls, and the histories of others."""
    settled: Changes = {}
    unsolved = ""
    first: Exchange | None = None
    limited = asking.host.options
    # Once without a limit: most callers set none, and some hosts want one.
    unlimited = replace(limited, max_tokens=None)
    for words, tools, options in ((HELLO, (), limited), (HELLO, (), unlimited), (CALL, (READ,), limited)):
        settled, unsolved, first = await _mended(asking, _said(words), tools, settled, options)
        if unsolved:
            break
    field, own = "", None
    if first is not None and first.turn is not None:
        field = next(iter(first.seen.reasoning), "")
        own = first.turn if first.turn.tool_calls else None
    for conversation, known in _histories(own) if not unsolved else ():
        settled, unsolved, _ = await _mended(asking, conversation, known, settled, limited, field)
        if unsolved:
            break
    asking.found.fact("dialect", settled)
    if unsolved:
        asking.found.fact("unsolved", shown(unsolved, 200))
        asking.found.add("dialect.fits", FAIL, f"refused, and no change of the dialect helps: {shown(unsolved, 160)}")
    elif settled:
        needed = ", ".join([f"{name} = {_told(value)}" for name, value in settled.items()])
        asking.found.add("dialect.fits", FAIL, f"accepted only with {needed}")
    else:
        asking.found.add("dialect.fits", PASS, "a greeting, its own call and nine histories of others are accepted")


def _told(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _histories(own: Turn | None) -> list[tuple[Conversation, tuple[ToolSpec, ...]]]:
    """What a host may be handed: its own call, those of others, and what users do."""
    twice = Conversation((human(HELLO, key="one"), human("And wish me a good day.", key="two")))
    # Last what no dialect of a chat wire can cure: the rest is settled by then.
    found = [(foreign_history(), TOOLS), (interrupted_history(), TOOLS), *map(scene_history, _SCENES), (twice, ())]
    if own is None:
        return found
    told = replace(own, key="own")
    return [(Conversation((human(CALL, key="ask"), told, answered(told, WORDS[0]))), (READ,)), *found]


def _said(text: str) -> Conversation:
    return Conversation((human(text, key="ask"),), "You are a careful assistant.")


async def _mended(
    asking: Asking,
    conversation: Conversation,
    tools: Sequence[ToolSpec],
    settled: Changes,
    options: Options,
    field: str = "",
) -> tuple[Changes, str, Exchange]:
    """The changes with which this request is accepted, the words of the refusal if there are none, and the last answer."""

    async def attempt(changes: Changes) -> Exchange:
        dialect = changed(asking.dialect, changes)
        return await asking.host.ask(conversation, tools, dialect=dialect, max_tokens=options.max_tokens)

    first = await attempt(settled)
    if not first.refused:
        return settled, "", first
    complaint = _complaint(first)
    queue: deque[tuple[Changes, str]] = deque([(settled, complaint)])
    heard = {complaint}
    tries = 0
    while queue:
        known, said = queue.popleft()
        if len(known) - len(settled) >= _MOST_CHANGES:
            continue
        for candidate in _candidates(asking.dialect, field):
            changes = {**known, **candidate}
            if changed(asking.dialect, changes) == changed(asking.dialect, known):
                continue
            if tries >= _MOST_TRIES:
                return settled, first.why, first
            tries += 1
            exchange = await attempt(changes)
            if not exchange.refused:
                return changes, "", exchange
            told = _complaint(exchange)
            if told != said and told not in heard:
                heard.add(told)
                queue.append((changes, told))
    return settled, first.why, first


def _candidates(dialect: Dialect, field: str) -> list[Changes]:
    return [*_CANDIDATES[:2], *_echoes(dialect, field), *_CANDIDATES[2:]]


def _echoes(dialect: Dialect, field: str) -> list[Changes]:
    """The ways in which a chat host may want its reasoning back: where it came from first, then in another field, with every
    message, or with words where there are none."""
    known = dialect.reasoning
    if dialect.wire != "openai-chat":
        return []
    fields = dict.fromkeys([field or known.field, "reasoning_content", "reasoning", "reasoning_text"])
    rules = [echo_rules(known, name, required=True) for name in fields]
    rules += [replace(rules[0], echo="always"), replace(rules[0], placeholder=_PLACEHOLDER)]
    return [{_REASONING: _difference(each, known)} for each in rules]


def _difference(new: msgspec.Struct, old: msgspec.Struct) -> Changes:
    return {
        name: msgspec.to_builtins(getattr(new, name))
        for name in new.__struct_fields__
        if getattr(new, name) != getattr(old, name)
    }


def changed(dialect: Dialect, changes: Mapping[str, Any]) -> Dialect:
    """The dialect with these changes, as [providers.NAME.dialect] would have them."""
    return settled_dialect(dialect, changes, "changes") if changes else dialect


_LABEL = re.compile(r"[\w.:-]*\d[\w.:-]*|'[^']*'|\"[^\"]*\"|`[^`]*`")


def _complaint(exchange: Exchange) -> str:
    """What a refusal is about: its words without ids, numbers and quoted values, which differ from try to try."""
    return _LABEL.sub("#", exchange.why)


DISCOVERY = Probe("dialect", 13, ("dialect.fits",), _discover, first=True)
"""The first part of the contract suite: it asks more only of a host that refuses something, and the rest is asked as it found."""
