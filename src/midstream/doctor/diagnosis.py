"""What is wrong with a history, who would refuse it and in which words, and a copy that nobody refuses.

midstream repairs whatever it sends, so a history is judged as it stands: its own messages where they are in the judge's
format, else written down naively. Findings are broken laws of a history, to be mended whoever reads it next. Cautions are
what midstream minds at every request and another program has to mind itself: reasoning that is missing, or another's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ..codec import encode_request
from ..core.blocks import Block, Conversation, Text, Thinking, ToolCall, ToolResponse, Turn, human
from ..core.dialect import Limits
from ..core.history import CallMatcher, canonicalize, repair
from ..core.tools import parse_arguments
from ..sim.players import Player, cast
from ..sim.rules.hosts import HOSTS, Host, host_for, judge
from ..sim.rules.rule import Problem
from ..store.protocol import Original
from ..wires.tool_declarations import ToolNames
from .naive import as_it_came, naive_body

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# who is asked about the history as it stands: the hosts whose messages carry ids, each with the provider it is
_ASKED = (
    ("openai", "openai"),
    ("openai-responses", "openai"),
    ("anthropic", "anthropic"),
    ("moonshot-k2", "moonshot"),
    ("moonshot-k2.5", "moonshot"),
    ("mistral", "mistral"),
    ("deepseek-reasoner", "deepseek"),
)
_OWN_WIRE = {"openai": "openai-chat", "anthropic": "anthropic", "responses": "openai-responses"}


class Finding(msgspec.Struct, frozen=True):
    """One broken law: `kind` in a word or two, `words` for a person, `turn` where it stands (None: outside the turns)."""

    kind: str
    words: str
    turn: int | None = None

    def __str__(self) -> str:
        place = "" if self.turn is None else f"turn {self.turn}: "
        return f"{place}{self.kind}: {self.words}"


class Verdict(msgspec.Struct, frozen=True):
    """What one host says to the history as it stands; no problems means that it takes it."""

    host: str
    problems: tuple[Problem, ...]


class Diagnosis(msgspec.Struct, frozen=True):
    findings: tuple[Finding, ...]
    cautions: tuple[Finding, ...]
    verdicts: tuple[Verdict, ...]
    healed: Conversation

    @property
    def broken(self) -> bool:
        return bool(self.findings)


def examine(conversation: Conversation, original: Original | None = None) -> Diagnosis:
    """Look a history over. With the `original` it was read from, its messages are judged, not our reading of them."""
    standing = as_it_came(conversation) if original is not None else conversation
    document = _document(original)
    findings = sorted([*_blank_messages(document), *_broken_laws(standing), *_unfit_blocks(standing)], key=_place)
    verdicts = [
        Verdict(name, tuple(judge(body, HOSTS[name])))
        for name, provider in _ASKED
        if (body := _body(standing, original, document, HOSTS[name], provider)) is not None
    ]
    return Diagnosis(tuple(findings), tuple(_cautions(standing)), tuple(verdicts), heal(standing))


def heal(conversation: Conversation) -> Conversation:
    """A lawful copy with canonical ids: blanks and orphans gone, every call whole, with its one result next to it."""
    matcher = CallMatcher()
    names = ToolNames(Limits())
    turns: list[Turn] = []
    for number, turn in enumerate(conversation.turns):
        kept = [block for block in turn.blocks if not _is_blank(block) and not _is_misplaced(block, turn)]
        blocks = tuple([_mended(block, f"unnamed-{number}-{at}", matcher, names) for at, block in enumerate(kept)])
        turns.append(replace(turn, blocks=blocks))
        matcher.opened([block for block in blocks if isinstance(block, ToolCall)])
    lawful = canonicalize(replace(conversation, turns=tuple(repair(turns).turns)))
    called = {call.id: call.name for turn in lawful.turns for call in turn.tool_calls}
    return replace(lawful, turns=tuple([_named(turn, called) for turn in lawful.turns]))


def refusals(conversation: Conversation) -> dict[str, tuple[Problem, ...]]:
    """Who would refuse the next request of this conversation as midstream sends it, by dialect; empty is the proof of health.

    A conversation that waits for its human is asked to go on. Real seals cannot be verified here and are taken as they are.
    """
    if not conversation.turns or conversation.turns[-1].speaker == "ai":
        conversation = conversation.add(human("Go on.", key="doctor"))
    found = {player.name: _refused(conversation, player) for player in cast().values()}
    return {name: problems for name, problems in found.items() if problems}


def _refused(conversation: Conversation, player: Player) -> tuple[Problem, ...]:
    request = encode_request(conversation, player.target, cache=None)
    spoken = request.dialect or player.target.dialect  # a host may have another path for a request without tools
    host = host_for(spoken.name, spoken.wire, spoken.provider, spoken.ids)
    return tuple(judge(request.body, replace(host, traits=replace(host.traits, signature_prefix=""))))


def _place(finding: Finding) -> int:
    return -1 if finding.turn is None else finding.turn


def _is_blank(block: Block) -> bool:
    return isinstance(block, Text) and not block.text.strip()


def _is_misplaced(block: Block, turn: Turn) -> bool:
    return isinstance(block, Thinking) and turn.speaker != "ai"


def _named(turn: Turn, called: Mapping[str, str]) -> Turn:
    """The turn with every result under its call's name."""
    if turn.speaker != "tool":
        return turn
    blocks = [
        replace(block, name=called[block.call_id]) if isinstance(block, ToolResponse) else block
        for block in turn.blocks
    ]
    return replace(turn, blocks=tuple(blocks))


def _mended(block: Block, spare_id: str, matcher: CallMatcher, names: ToolNames) -> Block:
    """A call with a name, arguments and an id; a result that says which call it answers."""
    if isinstance(block, ToolCall):
        arguments = block.arguments
        if _unparsed(block):
            arguments = msgspec.json.encode({"_raw": arguments} if arguments.strip() else {}).decode()
        return replace(block, id=block.id or spare_id, name=names.wire(block.name.strip()), arguments=arguments)
    if isinstance(block, ToolResponse):
        call = matcher.claim(block.call_id, block.name)
        return replace(block, call_id=call.id if call is not None else block.call_id or spare_id)
    return block


def _unparsed(call: ToolCall) -> bool:
    return not call.arguments.strip() or "_parse_error" in parse_arguments(call)


def _broken_laws(conversation: Conversation) -> Iterator[Finding]:
    for note in repair(conversation.turns).notes:
        yield Finding(_kind(note.what, note.why), note.why, note.turn)


def _kind(what: str, why: str) -> str:
    """A name for what repair had to do."""
    for words, kind in (
        ("was used before", "repeated id"),
        ("has no result", "unanswered call"),
        ("stands before it", "orphan result"),
        ("its call failed", "orphan result"),
        ("second result", "second result"),
        ("gave way", "second result"),
        ("moved", "displaced result"),
        ("in call order", "results out of order"),
        ("answer failed", "failed answer"),
        ("is empty", "empty turn"),
        ("cannot call", "call outside an answer"),
        ("became a human turn", "words among results"),
    ):
        if words in why:
            return kind
    return what


def _unfit_blocks(conversation: Conversation) -> Iterator[Finding]:
    for index, turn in enumerate(conversation.turns):
        for block in turn.blocks:
            yield from [Finding(kind, words, index) for kind, words in _unfit(block)]
            if _is_misplaced(block, turn):
                yield Finding("misplaced reasoning", f"a {turn.speaker} turn cannot think", index)


def _unfit(block: Block) -> Iterator[tuple[str, str]]:
    if _is_blank(block):
        yield "blank text", "several hosts answer 400 to text that is empty or only blanks"
    elif isinstance(block, ToolCall):
        if _unparsed(block):
            why = parse_arguments(block).get("_parse_error", "there are none")
            yield "broken arguments", f"the arguments of {block.name} are no JSON object: {why}"
        if not _NAME.fullmatch(block.name):
            yield "unfit tool name", f"{block.name!r} is no name a host takes"
        if not block.id:
            yield "call without id", f"nothing says which result belongs to {block.name}"
    elif isinstance(block, ToolResponse) and not block.call_id:
        yield "result without id", f"a result of {block.name or 'a tool'} does not say which call it answers"


def _cautions(conversation: Conversation) -> Iterator[Finding]:
    answers = [turn for turn in conversation.turns if turn.speaker == "ai"]
    thinkers = {_maker(turn) for turn in answers if _thought(turn)}
    several = len({_maker(turn) for turn in answers}) > 1
    for index, turn in enumerate(conversation.turns):
        if turn.tool_calls and thinkers and not _thought(turn):
            words = "other answers carry their reasoning, this one with calls has none: Kimi and DeepSeek refuse that"
            yield Finding("missing reasoning", words, index)
        for block in turn.blocks:
            if not isinstance(block, Thinking):
                continue
            maker = block.origin.provider if block.origin and block.origin.provider else "its maker"
            if several and (block.signature or block.encrypted):
                yield Finding("foreign signature", f"sealed by {maker}: every other model refuses it", index)
            elif block.origin and block.origin.wire == "anthropic" and not (block.signature or block.encrypted):
                yield Finding("unsigned reasoning", "Anthropic refuses thinking without the signature it gave", index)


def _maker(turn: Turn) -> str:
    return "" if turn.origin is None else f"{turn.origin.provider}/{turn.origin.model}"


def _thought(turn: Turn) -> bool:
    return any(isinstance(block, Thinking) for block in turn.blocks)


def _document(original: Original | None) -> Any:
    """The original's JSON, where it is a history in a format some host speaks."""
    if original is None or original.format not in _OWN_WIRE:
        return None
    try:
        return msgspec.json.decode(original.data)
    except msgspec.DecodeError:
        return [msgspec.json.decode(line) for line in original.data.split(b"\n") if line.strip()]


def _messages(document: Any) -> list[dict[str, Any]]:
    if isinstance(document, dict):
        document = document.get("messages", document.get("input", document.get("output")))
    return [message for message in document if isinstance(message, dict)] if isinstance(document, list) else []


def _blank_messages(document: Any) -> Iterator[Finding]:
    """Messages that say nothing: our reading leaves them out, so they are looked for in the original."""
    for number, message in enumerate(_messages(document)):
        speaks = message.get("tool_calls") or message.get("function_call")
        if message.get("role") in ("user", "assistant", "system") and not message.get("content") and not speaks:
            yield Finding("blank content", f"message {number} ({message['role']}) says nothing")


def _body(
    conversation: Conversation, original: Original | None, document: Any, host: Host, provider: str
) -> dict[str, Any] | None:
    wire = host.traits.wire
    if original is not None and _OWN_WIRE.get(original.format) == wire:
        return _own_body(document, wire, host)
    return naive_body(_sealed_for(conversation, host, provider), wire)


def _own_body(document: Any, wire: str, host: Host) -> dict[str, Any]:
    field = "input" if wire == "openai-responses" else "messages"
    body: dict[str, Any] = {"model": "model", field: [_resealed(message, host) for message in _messages(document)]}
    if wire == "anthropic":
        body["max_tokens"] = 4096
        if isinstance(document, dict) and document.get("system"):
            body["system"] = document["system"]
    return body


def _resealed(message: dict[str, Any], host: Host) -> dict[str, Any]:
    """A message in the host's own format with its seals in the double's form: whose they are is then taken on trust."""
    prefix = host.traits.signature_prefix
    if not prefix:
        return message
    if message.get("encrypted_content"):
        return {**message, "encrypted_content": prefix}
    if not isinstance(message.get("content"), list):
        return message
    content = [
        {**part, **{key: prefix for key in ("signature", "data") if part.get(key)}}
        if isinstance(part, dict) and part.get("type") in ("thinking", "redacted_thinking")
        else part
        for part in message["content"]
    ]
    return {**message, "content": content}


def _sealed_for(conversation: Conversation, host: Host, provider: str) -> Conversation:
    """With the host's own reasoning sealed as its double seals; all other seals stay, and are refused."""
    prefix = host.traits.signature_prefix
    if not prefix:
        return conversation
    turns = [replace(turn, blocks=tuple(_sealed(turn.blocks, prefix, provider))) for turn in conversation.turns]
    return replace(conversation, turns=tuple(turns))


def _sealed(blocks: Sequence[Block], prefix: str, provider: str) -> Iterator[Block]:
    for block in blocks:
        own = isinstance(block, Thinking) and block.origin is not None and block.origin.provider == provider
        if own and isinstance(block, Thinking):
            block = replace(
                block, signature=prefix if block.signature else None, encrypted=prefix if block.encrypted else None
            )
        yield block
