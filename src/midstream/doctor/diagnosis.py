"""What is wrong with a history, which hosts would refuse it and why, and a repaired copy that every host accepts.

midstream repairs every request it sends, so the history itself is judged: its original messages where they are in the host's
format, else a naive request made from it. Findings are errors in the history, to be fixed whoever reads it next. Cautions are
what midstream takes care of in each request but another program must handle itself: missing reasoning, foreign signatures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from ..codec import encode_request
from ..core.blocks import Block, Conversation, Text, Thinking, ToolCall, ToolResponse, Turn, human
from ..core.compaction import without_summaries
from ..core.dialect import Limits
from ..core.handoff import NoteCode
from ..core.history import CallMatcher, canonicalize, repair
from ..core.tools import modern_call, parse_arguments
from ..sim.players import Player, make_players
from ..sim.rules.hosts import HOSTS, Host, host_for, judge
from ..sim.rules.rule import Problem
from ..store.importing import documents
from ..store.protocol import Original
from ..wires.encode_context import ToolNames
from .naive import naive_body, with_raw_ids
from .outline import outline

# The pattern that most hosts share, not the strictest: a name
# that only one host refuses is told by that host's verdict.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# The hosts that judge the history, each with its provider: those whose messages carry call ids.
_JUDGES = (
    ("openai", "openai"),
    ("openai-responses", "openai"),
    ("anthropic", "anthropic"),
    ("moonshot-k2", "moonshot"),
    ("moonshot-k2.5", "moonshot"),
    ("moonshot-k3", "moonshot"),
    ("mistral", "mistral"),
    ("deepseek-reasoner", "deepseek"),
)
# Formats of imported files that are a host's own request; they
# are judged as they stand, without our reading in between.
_OWN_WIRE = {"openai": "openai-chat", "anthropic": "anthropic", "responses": "openai-responses"}

# what repair had to do, as a kind of finding
_KINDS: dict[NoteCode, str] = {
    "repeated_id": "repeated id",
    "unanswered_call": "unanswered call",
    "orphan_result": "orphan result",
    "second_result": "second result",
    "displaced_result": "displaced result",
    "results_out_of_order": "results out of order",
    "failed_turn": "failed answer",
    "empty_turn": "empty turn",
    "misplaced_call": "call outside an answer",
    "text_among_results": "words among results",
}


class Finding(msgspec.Struct, frozen=True):
    """One problem: `kind` in a word or two, `words` as a sentence, `turn` as its position (None: not in a turn)."""

    kind: str
    words: str
    turn: int | None = None

    def __str__(self) -> str:
        place = "" if self.turn is None else f"turn {self.turn}: "
        return f"{place}{self.kind}: {self.words}"


class Verdict(msgspec.Struct, frozen=True):
    """What one host would refuse about the history, what is only assumed last; no problems means that it accepts it."""

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
    """Examine a history. Given the `original` it was imported from, its own messages are judged, not our reading of them."""
    # A summary stands for turns that are still there; the history
    # is judged without it, as another program would get it.
    conversation = without_summaries(conversation)
    # Importing made the ids canonical and so healed them; the file itself still has those that were broken.
    history = with_raw_ids(conversation) if original is not None else conversation
    document = _document(original)
    findings = sorted([*_blank_messages(document), *_repairs(history), *_invalid_blocks(history)], key=_place)
    naive = _NaiveBodies(history)
    verdicts = [
        # Paranoid, since a diagnosis should rather warn once too often; what is only assumed is told last.
        Verdict(name, tuple(sorted(judge(body, HOSTS[name], "paranoid"), key=_is_assumed)))
        for name, provider in _JUDGES
        if (body := _body(naive, original, document, HOSTS[name], provider)) is not None
    ]
    return Diagnosis(tuple(findings), tuple(_cautions(history)), tuple(verdicts), heal(history))


def heal(conversation: Conversation) -> Conversation:
    """A valid copy with canonical ids: no blank text, no orphans, every call complete and followed by its one result."""
    # In the order of the conversation: a result without an id is given to the call of its name that is still open.
    matcher = CallMatcher()
    names = ToolNames(Limits())
    turns: list[Turn] = []
    for number, turn in enumerate(conversation.turns):
        # Blank text goes first: `repair` would keep a turn for it, and hosts would refuse that turn.
        kept = [block for block in turn.blocks if not _is_blank(block) and not _is_misplaced(block, turn)]
        blocks = tuple([_mended(block, f"unnamed-{number}-{at}", matcher, names) for at, block in enumerate(kept)])
        turns.append(replace(turn, blocks=blocks))
        matcher.opened([block for block in blocks if isinstance(block, ToolCall)])
    # Ids last: they are made from the place of a call, which repairing may change.
    healed = canonicalize(replace(conversation, turns=tuple(repair(turns).turns)))
    called = {call.id: call.name for turn in healed.turns for call in turn.tool_calls}
    return replace(healed, turns=tuple([_named(turn, called) for turn in healed.turns]))


def refusals(conversation: Conversation) -> dict[str, tuple[Problem, ...]]:
    """What each dialect's host would refuse about the next request as midstream sends it; empty if all accept it.

    If the last turn is the model's, the request asks it to go on. Real signatures cannot be verified here and are accepted.
    Of a long history all dialects are sent the outline, and the whole goes to one dialect for each scheme of ids (they count through it) and to
    those that refuse the outline.
    """
    if not conversation.turns or conversation.turns[-1].speaker == "ai":
        conversation = conversation.add(human("Go on.", key="doctor"))
    # Over two hundred dialects times a long history would take minutes;
    # see doctor/outline.py for why a part of it tells the same.
    short = outline(conversation)
    found: dict[str, tuple[Problem, ...]] = {}
    told: set[str] = set()
    accepted: set[tuple[Host, bytes]] = set()
    for player in make_players().values():
        ids = player.target.dialect.ids
        problems = _refused(short, player, accepted)
        # The outline leaves out turns, so its ids are other numbers: once per scheme the whole is tried, and a
        # refusal of the outline is checked against the whole before it is told.
        if short is not conversation and (problems or ids not in told):
            problems = _refused(conversation, player, accepted)
        told.add(ids)
        if problems:
            found[player.name] = problems
    return found


def _refused(conversation: Conversation, player: Player, accepted: set[tuple[Host, bytes]]) -> tuple[Problem, ...]:
    """What the player's host refuses. Most dialects say the same as another, but for the model's name: it is judged once."""
    request = encode_request(player.target, conversation, cache=None)
    host = host_for(request.dialect or player.target.dialect)  # without tools, a request may take another path
    host = replace(host, traits=replace(host.traits, signature_prefix=""))
    named = b'"model":' + msgspec.json.encode(player.target.model)
    same = (host, request.body.replace(named, b'"model":"any"', 1))
    if same in accepted:
        return ()
    problems = tuple(judge(request.body, host, "paranoid"))
    if not problems:
        accepted.add(same)
    return problems


def _is_assumed(problem: Problem) -> bool:
    return problem.basis == "assumed"


def _place(finding: Finding) -> int:
    return -1 if finding.turn is None else finding.turn


def _is_blank(block: Block) -> bool:
    return isinstance(block, Text) and not block.text.strip()


def _is_misplaced(block: Block, turn: Turn) -> bool:
    return isinstance(block, Thinking) and turn.speaker != "ai"


def _named(turn: Turn, called: Mapping[str, str]) -> Turn:
    """The turn with every result named after its call."""
    if turn.speaker != "tool":
        return turn
    blocks = [
        replace(block, name=called[block.call_id]) if isinstance(block, ToolResponse) else block
        for block in turn.blocks
    ]
    return replace(turn, blocks=tuple(blocks))


def _mended(block: Block, spare_id: str, matcher: CallMatcher, names: ToolNames) -> Block:
    """A call with a name, arguments and an id; a result with the id of its call."""
    if isinstance(block, ToolCall):
        block = modern_call(block)
        arguments = block.arguments
        if _unparsed(block):
            # What was broken is kept inside a valid object: the next model can still see what had been meant.
            arguments = msgspec.json.encode({"_raw": arguments} if arguments.strip() else {}).decode()
        return replace(block, id=block.id or spare_id, name=names.wire(block.name.strip()), arguments=arguments)
    if isinstance(block, ToolResponse):
        call = matcher.claim(block.call_id, block.name)
        return replace(block, call_id=call.id if call is not None else block.call_id or spare_id)
    return block


def _unparsed(call: ToolCall) -> bool:
    return not call.arguments.strip() or "_parse_error" in parse_arguments(call)


def _repairs(conversation: Conversation) -> Iterator[Finding]:
    for note in repair(conversation.turns).notes:
        yield Finding(_KINDS.get(note.code, note.what), note.why, note.turn)


def _invalid_blocks(conversation: Conversation) -> Iterator[Finding]:
    for index, turn in enumerate(conversation.turns):
        for block in turn.blocks:
            yield from [Finding(kind, words, index) for kind, words in _invalid(block)]
            if _is_misplaced(block, turn):
                yield Finding("misplaced reasoning", f"reasoning in a {turn.speaker} turn", index)


def _invalid(block: Block) -> Iterator[tuple[str, str]]:
    if _is_blank(block):
        yield "blank text", "several hosts refuse text that is empty or only white space"
    elif isinstance(block, ToolCall):
        if _unparsed(modern_call(block)):
            why = parse_arguments(block).get("_parse_error", "they are empty")
            yield "broken arguments", f"the arguments of {block.name} are not a JSON object: {why}"
        if not _NAME.fullmatch(block.name):
            yield (
                "invalid tool name",
                f"{block.name!r} is refused by most hosts; use letters, digits, _ and -, at most 64",
            )
        if not block.id:
            yield "call without id", f"no result can be matched to this call of {block.name}"
    elif isinstance(block, ToolResponse) and not block.call_id:
        yield "result without id", f"a result of {block.name or 'a tool'} does not say which call it answers"


def _cautions(conversation: Conversation) -> Iterator[Finding]:
    answers = [turn for turn in conversation.turns if turn.speaker == "ai"]
    # A history without any reasoning is an ordinary one; only
    # a mixed one will be refused where reasoning is required.
    thinkers = {_maker(turn) for turn in answers if _thought(turn)}
    several = len({_maker(turn) for turn in answers}) > 1
    for index, turn in enumerate(conversation.turns):
        if turn.speaker == "ai" and thinkers and not _thought(turn):
            # K2.6 and K2.7-code keep it all if they are asked to, as midstream asks them, and K3 by itself.
            words = (
                "other answers have reasoning, but this one with tool calls has none; Kimi and DeepSeek refuse that"
                if turn.tool_calls
                else "other answers have reasoning, but this one has none; a Kimi that keeps all reasoning refuses that"
            )
            yield Finding("missing reasoning", words, index)
        for block in turn.blocks:
            if not isinstance(block, Thinking):
                continue
            maker = block.origin.provider if block.origin and block.origin.provider else "the provider that made it"
            if several and (block.signature or block.encrypted):
                yield Finding("foreign signature", f"signed by {maker}; every other provider refuses it", index)
            elif block.origin and block.origin.wire == "anthropic" and not (block.signature or block.encrypted):
                yield Finding("unsigned reasoning", "Anthropic refuses thinking without its signature", index)


def _maker(turn: Turn) -> str:
    return "" if turn.origin is None else f"{turn.origin.provider}/{turn.origin.model}"


def _thought(turn: Turn) -> bool:
    return any(isinstance(block, Thinking) for block in turn.blocks)


def _document(original: Original | None) -> Any:
    """The original's JSON, if it is in the format of a host."""
    if original is None or original.format not in _OWN_WIRE:
        return None
    # As importing has read it, which takes more than JSON to the letter. An original is one history.
    ((document, _),) = documents(original.data, original.name)
    return document


def _messages(document: Any) -> list[dict[str, Any]]:
    if isinstance(document, dict):
        document = document.get("messages", document.get("input", document.get("output")))
    return [message for message in document if isinstance(message, dict)] if isinstance(document, list) else []


def _blank_messages(document: Any) -> Iterator[Finding]:
    """Messages without content: importing leaves them out, so only the original shows them."""
    for number, message in enumerate(_messages(document)):
        speaks = message.get("tool_calls") or message.get("function_call")
        if message.get("role") in ("user", "assistant", "system") and not message.get("content") and not speaks:
            yield Finding("blank content", f"message {number} ({message['role']}) has no content")


class _NaiveBodies:
    """The naive requests of a history: hosts that sign nothing get the same one on a wire."""

    def __init__(self, history: Conversation) -> None:
        self._history = history
        self._unsigned: dict[str, dict[str, Any] | None] = {}

    def on(self, host: Host, provider: str) -> dict[str, Any] | None:
        wire = host.traits.wire
        if host.traits.signature_prefix:
            return naive_body(_signed_for(self._history, host, provider), wire)
        if wire not in self._unsigned:
            self._unsigned[wire] = naive_body(self._history, wire)
        return self._unsigned[wire]


def _body(
    naive: _NaiveBodies, original: Original | None, document: Any, host: Host, provider: str
) -> dict[str, Any] | None:
    wire = host.traits.wire
    if original is not None and _OWN_WIRE.get(original.format) == wire:
        return _own_body(document, wire, host)
    return naive.on(host, provider)


def _own_body(document: Any, wire: str, host: Host) -> dict[str, Any]:
    field = "input" if wire == "openai-responses" else "messages"
    body: dict[str, Any] = {"model": "model", field: [_resigned(message, host) for message in _messages(document)]}
    if wire == "anthropic":
        body["max_tokens"] = 4096
        if isinstance(document, dict) and document.get("system"):
            body["system"] = document["system"]
    return body


def _resigned(message: dict[str, Any], host: Host) -> dict[str, Any]:
    """A message in the host's format with signatures its double accepts: it cannot verify real ones."""
    # Real signatures cannot be verified here. A history in the host's own format is taken to be signed by it, so the
    # double is given signatures that it accepts.
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


def _signed_for(conversation: Conversation, host: Host, provider: str) -> Conversation:
    """With signatures the double accepts on the host's own reasoning; foreign ones stay, and are refused."""
    prefix = host.traits.signature_prefix
    turns = [
        replace(turn, blocks=tuple([_signed(block, prefix, provider) for block in turn.blocks]))
        for turn in conversation.turns
    ]
    return replace(conversation, turns=tuple(turns))


def _signed(block: Block, prefix: str, provider: str) -> Block:
    if not isinstance(block, Thinking) or block.origin is None or block.origin.provider != provider:
        return block
    return replace(block, signature=block.signature and prefix, encrypted=block.encrypted and prefix)
