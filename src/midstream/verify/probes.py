"""The probes: a few requests each, and what is judged by their answers. A suite is a list of probes.

The prompts ask little of a model: to call a tool with the arguments it is told, to repeat words. Where a model does not do even
that, the check is `not sure`: only what the host did is judged.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from ..client.answer_type import AnswerType
from ..core.blocks import Conversation, Thinking, ToolCall, Turn, Value, human, tool_result
from ..core.dialect import Dialect, Reasoning
from ..core.errors import SchemaMismatch
from ..core.ids import scheme_for
from ..core.plural import pluralize
from ..core.schema_check import faults
from ..core.tools import ToolSpec, parse_arguments
from ..doctor.matrix import TOOLS, foreign_history, interrupted_history
from ..toolformats.findings import ArgumentsFound, CallFound, TextFound
from ..toolformats.prose import KNOWN_TAGS
from ..toolformats.registry import FORMATS, leak_filter
from .answers import judge_answer, valid_calls
from .checks import ABSENT, FAIL, PASS, UNSURE, Findings
from .interview import Exchange, Interview
from .observation import markers, shown
from .schemas import SCHEMAS

READ = ToolSpec(
    "read_note",
    "Read a note by its name.",
    {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "the name of the note"}},
        "required": ["name"],
        "additionalProperties": False,
    },
)
LIST = ToolSpec("list_folders", "List all folders.", {"type": "object", "properties": {}})
HELLO = "Say hello."
CALL = "Call read_note with name 'breakfast'. Wait for its result before you answer."
TWO = "Call read_note with name 'breakfast' and call read_note with name 'lunch'. Make both calls in one answer."
# Words that nobody says by chance: in an answer, they show that a result was read.
WORDS = ("marmalade", "gooseberry", "cinnamon", "rhubarb", "juniper", "saffron", "tamarind", "elderflower")
# Enough for a model to imitate the ids of its history, which other hosts print into the prompt: docs/field-guide/kimi.md#ids
_ECHO_ROUNDS = 4
_LOOP_ROUNDS = 8
# Fewer than sixty words need.
_LIMIT = 16
_LONG = "Repeat these words: " + " ".join([f"word{number}" for number in range(60)])
_STOP = "Repeat these words: alpha bravo charlie delta echo"
# Longer than 1,024 tokens, from which on OpenAI caches a prompt.
_PREFIX = "You keep the minutes of a club that meets every week. " * 120
# Words to lengthen reasoning by: if the host reads it, the prompt has more tokens.
_NONCE = " ".join([f"plum{number}" for number in range(40)])
_NO_CALL = "no tool was called, so there is nothing to judge"


class Asking:
    """A probe at work: what it asks is judged by the checks for every answer, and the rest by itself."""

    def __init__(self, host: Interview, found: Findings) -> None:
        self.host = host
        self.found = found

    @property
    def dialect(self) -> Dialect:
        return self.host.dialect

    async def ask(
        self, asked: str | Conversation | Sequence[Turn], tools: Sequence[ToolSpec] = (), **more: Any
    ) -> Exchange:
        exchange = await self.host.ask(asked, tools, **more)
        judge_answer(exchange, self.found)
        learn(exchange, self.found)
        return exchange


Run: TypeAlias = Callable[[Asking], Awaitable[None]]


class Probe(Value, frozen=True):
    """`requests` is how many it sends where nothing is refused and nothing fails; `checks` are those it judges itself."""

    name: str
    requests: int
    checks: tuple[str, ...]
    run: Run
    first: bool = False
    """What it learns changes how the others ask."""


def learn(exchange: Exchange, found: Findings) -> None:
    """Facts that any answer may show: shapes, fields, places, leaks."""
    seen = exchange.seen
    if seen.calls and seen.calls[0].id:
        found.fact("id_shape", id_shape(seen.calls[0].id, seen.calls[0].name))
    if seen.reasoning:
        found.fact("reasoning_field", next(iter(seen.reasoning)))
    if seen.usages:
        found.fact("usage_place" if exchange.request.stream else "usage_place_plain", list(seen.places))
    # Only where the stream came to its own end: a broken one says nothing about the host's habits.
    if exchange.turn is not None and exchange.status == 200 and not seen.finish and seen.ended:
        found.fact("sends_finish", False)
    leaked = leaked_format([seen.text, *seen.reasoning.values()], exchange.request.tools)
    if leaked:
        found.fact("leaks", leaked)
    tags = next((pair for pair in KNOWN_TAGS if pair[1] in seen.text), None)
    if tags is not None:
        found.fact("think_tags", list(tags))
        # Templates that open the thinking tag in the prompt leave only its end in the answer: docs/field-guide/text-calls.md#thinking-tags
        found.fact("starts_inside", tags[0] not in seen.text)


def leaked_format(texts: Sequence[str], tools: Sequence[ToolSpec]) -> str:
    """The text format in which calls of these tools stand in a text; empty if there are none.

    Families share markers: the format is the one that reads every call whole, and leaves no marker behind.
    """
    schemas = {tool.name: tool.parameters for tool in tools}
    for text in [each for each in texts if tools and markers([each])]:
        scores = {name: _leak_score(name, text, tools, schemas) for name in FORMATS}
        best = max(scores, key=lambda name: scores[name])
        if scores[best] > 0:
            return best
    return ""


def _leak_score(name: str, text: str, tools: Sequence[ToolSpec], schemas: dict[str, Any]) -> float:
    reader = leak_filter(name, tools)
    found = [*reader.feed(text), *reader.close()]
    names = [each.name for each in found if isinstance(each, CallFound)]
    arguments = ["" for _ in names]
    at = -1
    for each in found:
        at += isinstance(each, CallFound)
        if isinstance(each, ArgumentsFound) and at >= 0:
            arguments[at] += each.json
    fitting = 0
    for called, told in zip(names, arguments, strict=True):
        parsed = parse_arguments(ToolCall("leaked", called, told or "{}"))
        fitting += "_parse_error" not in parsed and not faults(parsed, schemas.get(called) or {})
    left = markers(["".join([each.text for each in found if isinstance(each, TextFound)])])
    # Calls that fit decide. Among equals, the format that reads more calls wins, and markers left in the text count against one
    # that reads only part of them.
    return fitting + len(names) / 100 - len(left) / 10


# The narrow shapes first, as `functions.x:0` would also be read as `name:n`: docs/field-guide/tool-ids.md#what-hosts-give
_SHAPES = (
    (r"functions\.(?P<name>.+):\d+", "functions.name:n"),
    (r"(?P<name>.+):\d+", "name:n"),
    (r"\d+", "n"),
    (r"[A-Za-z0-9]{9}", "nine"),
    (r"call_.+", "call_"),
    (r"toolu_.+", "toolu_"),
    (r"(?P<name>.+)_\d+", "name_n"),
)


def id_shape(wire_id: str, name: str) -> str:
    """What an id looks like, in a word: two ids of one maker have one shape."""
    for pattern, shape in _SHAPES:
        match = re.fullmatch(pattern, wire_id)
        if match is not None and match.groupdict().get("name", name) == name:
            return shape
    # Another prefix, as far as letters and separators go; what follows is chance.
    found = re.match(r"[A-Za-z]+(?:[-_][A-Za-z]+)*[-_:.]", wire_id)
    return found[0] if found else "other"


def answered(turn: Turn, *words: str) -> Turn:
    """The results of a turn's calls."""
    said = [f"The note says: {words[number % len(words)]}." for number in range(len(turn.tool_calls))]
    results = [tool_result(call, text) for call, text in zip(turn.tool_calls, said, strict=True)]
    return Turn("tool", tuple(results), key=f"r-{turn.key}")


def _unoffered(asking: Asking, exchange: Exchange, check: str, *codes: str) -> bool:
    """Whether the host does not offer what was asked for: midstream knows and left it out, or the host refused it."""
    note = next((why for code in codes if (why := exchange.note(code))), "")
    if note:
        asking.found.add(check, ABSENT, note)
    elif exchange.refused:
        asking.found.add(check, ABSENT, f"refused: {shown(exchange.why, 160)}")
    return bool(note) or exchange.refused


def _leaked(asking: Asking, exchange: Exchange, check: str) -> bool:
    """Whether a call is there as text only, which is a failure of another name, or was cut off before it came."""
    if exchange.called:
        return False
    leaked = bool(markers([exchange.seen.text, *exchange.seen.reasoning.values()]))
    if leaked or exchange.is_cut:
        why = "the call leaked as text" if leaked else "the limit of tokens was reached before a call"
        asking.found.add(check, UNSURE, why)
    return leaked or exchange.is_cut


# Quick.


async def _hello(asking: Asking) -> None:
    """The same prompt twice in a stream, once without."""
    first, second, plain = [await asking.ask(HELLO, stream=stream) for stream in (True, True, False)]
    asking.found.fact("hello_refused", first.refused)
    if first.refused:
        asking.found.add("answer.said", FAIL, f"a greeting was refused: {shown(first.why, 160)}")
    counts = [exchange.tokens for exchange in (first, second, plain)]
    told = [count for count in counts if count is not None]
    if len(told) < 2:
        asking.found.add("usage.repeat", UNSURE, "the prompt was not counted twice")
    else:
        same = len(set(told)) == 1
        asking.found.expect(
            "usage.repeat",
            same,
            f"{told[0]} tokens each time",
            f"the same prompt has {', '.join(map(str, told))} tokens",
        )
        asking.found.fact("hello_tokens", told[0])
    _compare(asking, first, plain)


async def _call(asking: Asking) -> None:
    streamed, plain = [await asking.ask(CALL, (READ,), stream=stream) for stream in (True, False)]
    for exchange in (streamed, plain):
        _announced(asking, exchange)
    _compare(asking, streamed, plain)


def _announced(asking: Asking, exchange: Exchange) -> None:
    seen = exchange.seen
    if exchange.refused:
        asking.found.add("finish.announced", UNSURE, f"refused: {shown(exchange.why, 160)}")
    elif seen.calls:
        asking.found.add("finish.announced", PASS, f"called {seen.calls[0].name}")
    elif markers([seen.text, *seen.reasoning.values()]):
        asking.found.add("finish.announced", UNSURE, "the call leaked as text")
    # "I will read the note:" and then a stop: docs/field-guide/kimi-failures.md#the-list
    elif READ.name in seen.text or seen.text.rstrip().endswith(":"):
        asking.found.add("finish.announced", FAIL, f"no call behind {shown(seen.text)!r}")
    else:
        asking.found.add("finish.announced", UNSURE, _NO_CALL)


def _compare(asking: Asking, streamed: Exchange, plain: Exchange) -> None:
    """Not the same words, but the same shape."""
    if streamed.turn is None or plain.turn is None:
        return
    one, other = streamed.seen, plain.seen
    if bool(one.calls) != bool(other.calls):
        asking.found.add("plain.shape", UNSURE, "a tool was called in one of the two answers only")
        return
    shapes = [[id_shape(call.id, call.name) if call.id else "none" for call in each.calls[:1]] for each in (one, other)]
    different = [
        f"{what}: {a or 'none'} in a stream, {b or 'none'} without"
        for what, a, b in (
            ("finish reason", one.finish, other.finish),
            ("ids", shapes[0], shapes[1]),
            ("reasoning", sorted(one.reasoning), sorted(other.reasoning)),
            ("usage", "counted" if one.usages else "", "counted" if other.usages else ""),
        )
        if a != b
    ]
    dialect = streamed.request.dialect
    if not one.usages and dialect is not None and not dialect.stream_usage:
        different = [each for each in different if not each.startswith("usage")]  # none was asked for
    asking.found.expect(
        "plain.shape", not different, "the same finish reason, ids, fields and usage", "; ".join(different)
    )


async def _two_calls(asking: Asking) -> None:
    exchange = await asking.ask(TWO, (READ,))
    asking.found.fact("parallel_calls", len(exchange.seen.calls))


async def _rounds(asking: Asking) -> None:
    """Two rounds of calls and an answer: do ids begin again, are results read?"""
    turns = await converse(asking, 2)
    _across_turns(asking, turns)
    final = turns[-1]
    if final.turn is None or not any(each.called for each in turns):
        asking.found.add("results.read", UNSURE, _NO_CALL)
    elif final.called:
        asking.found.add("results.read", UNSURE, "the model went on calling")
    else:
        read = [word for word in WORDS[:2] if word in final.seen.text.lower()]
        said = f"the answer is {shown(final.seen.text)!r}"
        asking.found.expect(
            "results.read", bool(read), f"it says {' and '.join(read)}", f"no word of the results: {said}"
        )


def _across_turns(asking: Asking, exchanges: Sequence[Exchange]) -> None:
    rounds = [{call.id: call.name for call in each.seen.calls if call.id} for each in exchanges if each.seen.calls]
    if len(rounds) < 2 or not rounds[0] or not rounds[1]:
        asking.found.add("ids.across-turns", ABSENT if rounds else UNSURE, "no ids" if rounds else _NO_CALL)
        return
    again = [wire_id for wire_id in rounds[0] if wire_id in rounds[1]]
    asking.found.fact("ids_repeat", bool(again))
    if again and all(wire_id.isdecimal() for wire_id in again):
        # A bare position promises nothing beyond its answer, and nobody takes it for more.
        asking.found.add("ids.across-turns", PASS, f"ids are positions in their answer: {again[0]!r} comes again")
        return
    asking.found.expect(
        "ids.across-turns",
        not again,
        f"{', '.join([*rounds[0], *rounds[1]])}",
        f"{', '.join(again)} came in two answers",
    )


async def converse(
    asking: Asking, rounds: int, *, as_given: bool = False, dialect: Dialect | None = None
) -> list[Exchange]:
    """So many rounds of calls, each answered with a word, and what the model says then."""
    names = [f"note-{number + 1}" for number in range(rounds)]
    steps = ", then ".join([f"call read_note with name '{name}'" for name in names])
    turns = [human(f"One step at a time: {steps}. Then tell me what all of them say.", key="ask")]
    exchanges: list[Exchange] = []
    for number in range(rounds + 1):
        # The encoder would write ids by the dialect's scheme; this probe is about those that the host gave.
        edit = raw_ids(turns, dialect or asking.dialect) if as_given else None
        exchange = await asking.ask(turns, (READ,), edit=edit, dialect=dialect)
        exchanges.append(exchange)
        if exchange.turn is None or not exchange.turn.tool_calls:
            break
        turn = replace(exchange.turn, key=f"a{number}")
        turns += [turn, answered(turn, WORDS[number % len(WORDS)])]
    return exchanges


def raw_ids(turns: Sequence[Turn], dialect: Dialect) -> Callable[[bytes], bytes]:
    """An edit of a request that puts the ids in it back to those the host gave."""
    mapper = scheme_for(dialect.ids, None).create_mapper(turns)
    given = {
        _quoted(mapper.resolve_tool_call_id(call)): _quoted(call.raw_id)
        for turn in turns
        for call in turn.tool_calls
        if call.raw_id
    }
    if not given:
        return lambda body: body
    pattern = re.compile(b"|".join([re.escape(wire_id) for wire_id in given]))
    return lambda body: pattern.sub(lambda match: given[match[0]], body)


def _quoted(text: str) -> bytes:
    return msgspec.json.encode(text)


async def _limit(asking: Asking) -> None:
    exchange = await asking.ask(_LONG, max_tokens=_LIMIT)
    if _unoffered(asking, exchange, "limit.tokens", "max_tokens_changed", "unsupported_option"):
        return
    written = exchange.written
    words = len(exchange.seen.text.split())
    # By the words too, for hosts that count nothing: a word is at least one token, and twice the limit leaves room for odd tokenizers.
    if (written is not None and written > _LIMIT) or words > 2 * _LIMIT:
        asking.found.add("limit.tokens", FAIL, f"max_tokens {_LIMIT}: {pluralize(written or words, 'token')} came")
    elif exchange.is_cut:
        asking.found.add(
            "limit.tokens", PASS, f"max_tokens {_LIMIT}: {written} tokens, finish reason {exchange.seen.finish!r}"
        )
    # It was cut, and says that it ended by itself: a client takes half an answer for a whole one.
    elif written == _LIMIT:
        asking.found.add(
            "limit.tokens", FAIL, f"cut at {_LIMIT} tokens, and the finish reason is {exchange.seen.finish!r}"
        )
    else:
        asking.found.add("limit.tokens", UNSURE, f"the answer was shorter than {_LIMIT} tokens")


async def _stop(asking: Asking) -> None:
    exchange = await asking.ask(_STOP, stop=("charlie",))
    if _unoffered(asking, exchange, "limit.stop", "unsupported_option"):
        return
    text = exchange.seen.text
    if "delta" in text or "charlie" in text:
        asking.found.add("limit.stop", FAIL, f"stop at 'charlie': {shown(text)!r}")
    elif "bravo" in text:
        asking.found.add("limit.stop", PASS, f"stopped before 'charlie', finish reason {exchange.seen.finish!r}")
    else:
        asking.found.add("limit.stop", UNSURE, f"the model did not repeat the words: {shown(text)!r}")


async def _choice_required(asking: Asking) -> None:
    exchange = await asking.ask(HELLO, (READ,), tool_choice="required")
    if exchange.refused and asking.dialect.wire == "openai-chat":
        # Mistral's word for it, which hosts of its models have taken over.
        other = await asking.ask(
            HELLO, (READ,), tool_choice="required", dialect=replace(asking.dialect, required_word="any")
        )
        if not other.refused and other.called:
            asking.found.add("choice.required", FAIL, f"{shown(exchange.why, 120)}; accepted as 'any'")
            asking.found.fact("required_word", "any")
            return
    if _unoffered(asking, exchange, "choice.required", "tool_choice_changed"):
        asking.found.fact("choice_required", False)
        return
    called = exchange.called
    if _leaked(asking, exchange, "choice.required"):
        return
    asking.found.expect(
        "choice.required", bool(called), f"called {', '.join(called)}", f"no call: {shown(exchange.seen.text)!r}"
    )
    asking.found.fact("choice_required", bool(called))


async def _choice_none(asking: Asking) -> None:
    exchange = await asking.ask(CALL, (READ,), tool_choice="none")
    if _unoffered(asking, exchange, "choice.none", "tool_choice_changed"):
        return
    called = exchange.called
    asking.found.expect("choice.none", not called, "no call", f"called {', '.join(called)}")


async def _sampling(asking: Asking) -> None:
    exchange = await asking.ask(HELLO, temperature=0.5)
    asking.found.fact("temperature", not exchange.refused and not exchange.note("unsupported_option"))
    if not _unoffered(asking, exchange, "params.sampling", "unsupported_option"):
        asking.found.add("params.sampling", PASS, "temperature 0.5 is accepted")


async def _no_messages(asking: Asking) -> None:
    """Past the encoder, which would never send it."""
    if asking.dialect.wire != "openai-chat":
        asking.found.add("refuses.messages", ABSENT, f"not asked on the {asking.dialect.wire} wire")
        return
    # Not through `Asking.ask`: an answer to such a request is not to be judged by the checks for every answer.
    exchange = await asking.host.ask(HELLO, stream=False, path="chat", edit=_with_messages(lambda messages: []))
    # A 500 is a refusal as well, but one that clients try again.
    proper = exchange.refused and 400 <= exchange.status < 500
    asking.found.expect(
        "refuses.messages",
        proper,
        shown(exchange.why, 120),
        f"answered with {exchange.status}" if not exchange.refused else exchange.why,
    )


# Contract.


def _with_messages(change: Callable[[list[Any]], list[Any]]) -> Callable[[bytes], bytes]:
    def edit(body: bytes) -> bytes:
        request = msgspec.json.decode(body)
        request["messages"] = change(request["messages"])
        return msgspec.json.encode(request)

    return edit


async def _orphan(asking: Asking) -> None:
    if asking.dialect.wire != "openai-chat":
        asking.found.add("refuses.pairing", ABSENT, f"not asked on the {asking.dialect.wire} wire")
        return
    orphan = {"role": "tool", "tool_call_id": "call_never_made", "content": "42"}
    exchange = await asking.host.ask(
        HELLO, stream=False, path="chat", edit=_with_messages(lambda messages: [*messages, orphan])
    )
    if exchange.refused:
        asking.found.add("refuses.pairing", PASS, shown(exchange.why, 120))
    else:
        # No standard says that it must be refused, and many hosts never did.
        asking.found.add("refuses.pairing", ABSENT, "a result without a call is answered")


async def _choice_named(asking: Asking) -> None:
    exchange = await asking.ask(HELLO, (READ, LIST), tool_choice=LIST.name)
    if _unoffered(asking, exchange, "choice.named", "tool_choice_changed"):
        asking.found.fact("choice_named", False)
        return
    called = exchange.called
    if _leaked(asking, exchange, "choice.named"):
        return
    kept = called[:1] == [LIST.name]
    asking.found.expect(
        "choice.named", kept, f"called {LIST.name}", f"asked for {LIST.name}, called {', '.join(called) or 'nothing'}"
    )
    asking.found.fact("choice_named", kept)


async def _parallel_off(asking: Asking) -> None:
    exchange = await asking.ask(TWO, (READ,), parallel_tool_calls=False)
    if _unoffered(asking, exchange, "parallel.off", "unsupported_option"):
        asking.found.fact("parallel_option", False)
        return
    # By what was sent, not by the turn: a decoder may have split or joined calls.
    count = len(exchange.seen.calls)
    if count == 0:
        asking.found.add("parallel.off", UNSURE, _NO_CALL)
    else:
        asking.found.expect("parallel.off", count == 1, "one call", f"{pluralize(count, 'call')} in one answer")


async def _schemas(asking: Asking, *, stream: bool) -> None:
    check = "schema.streamed" if stream else "schema.plain"
    for name, schema in SCHEMAS.items():
        tool = ToolSpec("save_record", f"Save a record ({name}).", schema)
        exchange = await asking.ask(
            "Call save_record with values that fit its schema.", (tool,), stream=stream, tool_choice="required"
        )
        if exchange.refused:
            asking.found.add(check, FAIL, f"{name}: refused: {shown(exchange.why, 120)}")
        elif not exchange.seen.calls or exchange.is_cut:
            why = "cut by the limit of tokens" if exchange.is_cut else _NO_CALL
            asking.found.add(check, UNSURE, f"{name}: {why}")
        else:
            wrong = faults(_arguments(exchange), schema)
            asking.found.expect(check, not wrong, f"{name} fits", f"{name}: {'; '.join(wrong[:2])}")


def _arguments(exchange: Exchange) -> Any:
    call = exchange.seen.calls[0]
    return parse_arguments(ToolCall("schema", call.name, call.arguments or "{}"))


async def _schemas_streamed(asking: Asking) -> None:
    await _schemas(asking, stream=True)


async def _schemas_plain(asking: Asking) -> None:
    await _schemas(asking, stream=False)


async def _ids_given(asking: Asking) -> None:
    exchanges = await converse(asking, _ECHO_ROUNDS, as_given=True)
    _judge_echo(asking, "ids.echo-given", exchanges, given=True)


async def _ids_rewritten(asking: Asking) -> None:
    exchanges = await converse(asking, _ECHO_ROUNDS)
    _judge_echo(asking, "ids.echo-rewritten", exchanges)


def _judge_echo(asking: Asking, check: str, exchanges: Sequence[Exchange], *, given: bool = False) -> None:
    last = exchanges[-1]
    rounds = sum(1 for exchange in exchanges if exchange.called)
    ids = [call.id for exchange in exchanges for call in exchange.seen.calls]
    if not rounds:
        asking.found.add(check, UNSURE, _NO_CALL)
    elif given and (not ids or not all(ids)):
        asking.found.add(check, ABSENT, "calls have no ids")
    elif last.refused and given and len(set(ids)) < len(ids):
        # Ids that begin again are a matter of their own; nobody can send them back as they were.
        asking.found.add(
            check, ABSENT, f"its ids begin again ({ids[0]!r}), and it refuses a repeated one: {shown(last.why, 120)}"
        )
    elif last.refused:
        asking.found.add(check, FAIL, f"refused in round {len(exchanges)}: {shown(last.why, 160)}")
    else:
        otherwise = f"calls stop after {rounds} of {_ECHO_ROUNDS} rounds"
        asking.found.expect(check, rounds >= _ECHO_ROUNDS, f"{rounds} rounds, each with a call", otherwise)


async def _deltas(asking: Asking) -> None:
    """One thing more in each request: does the prompt grow?"""
    base = await asking.ask(HELLO)
    longer = await asking.ask(f"{HELLO} {_LONG}")
    system = await asking.ask(HELLO, system="You are a polite assistant who greets everybody by their first name.")
    tools = await asking.ask(HELLO, (READ, *TOOLS[:2]))
    asking.found.fact("prompt_tokens", [exchange.tokens for exchange in (base, longer, system, tools)])
    for check, what, exchange in (
        ("usage.counts-text", "80 words more", longer),
        ("usage.counts-system", "a system prompt", system),
        ("usage.counts-tools", "three tools", tools),
    ):
        if exchange.refused:
            asking.found.add(check, FAIL, f"{what}: refused: {shown(exchange.why, 120)}")
        elif base.tokens is None or exchange.tokens is None:
            asking.found.add(check, UNSURE, "the prompt was not counted")
        elif check == "usage.counts-tools" and exchange.request.text_format is not None:
            asking.found.add(check, ABSENT, "tools go over plain text here")
        else:
            grew = exchange.tokens - base.tokens
            asking.found.expect(
                check,
                grew > 0,
                f"{what}: {pluralize(grew, 'token')} more",
                f"{what}: {pluralize(grew, 'token')} more than {base.tokens}",
            )


async def _cache(asking: Asking) -> None:
    first, second = [await asking.ask(HELLO, system=_PREFIX) for _ in range(2)]
    counts = [each.turn.usage.cache_read if each.turn and each.turn.usage else 0 for each in (first, second)]
    asking.found.fact("caches", counts[1] > 0)
    if not any(counts):
        asking.found.add("usage.cached", ABSENT, "no cached tokens were counted for a prompt sent twice")
    else:
        asking.found.expect(
            "usage.cached",
            counts[1] >= counts[0],
            f"{counts[0]}, then {counts[1]} cached tokens",
            f"{counts[0]} cached tokens, then {counts[1]}",
        )


async def _reasoning(asking: Asking) -> None:
    """Is reasoning read, taken back, missed, and used? The number of tokens tells; the model need not be asked."""
    first = await asking.ask(CALL, (READ,))
    # Some think only when they are told to: docs/field-guide/hosts.md#how-thinking-is-switched
    if not first.seen.reasoning and asking.dialect.reasoning.control != "none":
        first = await asking.ask(CALL, (READ,), thinking="on")
    checks = ("reasoning.field", "reasoning.echo", "reasoning.missing", "reasoning.used", "reasoning.blank")
    thought, turn = first.seen.reasoning, first.turn
    if not thought or turn is None:
        for check in checks:
            asking.found.add(check, ABSENT, "no reasoning came")
        return
    field = next(iter(thought))
    asking.found.expect(
        "reasoning.field", bool(turn.thinking), f"in {field}", f"in {field!r}, which this dialect does not read"
    )
    if not turn.tool_calls:
        for check in checks[1:]:
            asking.found.add(check, UNSURE, _NO_CALL)
        return
    await _reasoning_echo(asking, turn, field, thought[field])


async def _reasoning_echo(asking: Asking, turn: Turn, field: str, thought: str) -> None:
    known = asking.dialect
    dialect = echoing(known, field)
    text = turn.thinking or thought
    bare = replace(turn, blocks=tuple([block for block in turn.blocks if not isinstance(block, Thinking)]))
    own = next((block for block in turn.blocks if isinstance(block, Thinking)), None)
    origin = turn.origin

    def history(said: str | None) -> list[Turn]:
        if said is None:
            told = bare
        else:
            block = replace(own, text=said) if own is not None else Thinking(said, field, origin=origin)
            told = replace(bare, blocks=(block, *bare.blocks))
        return [human(CALL, key="ask"), told, answered(turn, WORDS[0])]

    # Otherwise the encoder would put a placeholder there, and nothing would be missing.
    silent = replace(dialect, reasoning=replace(dialect.reasoning, required=False))
    options: dict[str, Any] = (
        {"thinking": "on"} if not known.reasoning.default_on and known.reasoning.control != "none" else {}
    )
    echoed = await asking.ask(history(text), (READ,), dialect=dialect, **options)
    missing = await asking.ask(history(None), (READ,), dialect=silent, **options)
    # Nothing was sent back in either: the two answers show nothing about reasoning.
    if echoed.request.body == missing.request.body:
        for check in ("reasoning.echo", "reasoning.missing", "reasoning.used", "reasoning.blank"):
            asking.found.add(check, ABSENT, "this dialect sends no reasoning back")
        return
    sends = known.reasoning.echo != "never"
    if echoed.refused and not sends:
        asking.found.add("reasoning.echo", ABSENT, f"refused, and not sent: {shown(echoed.why, 120)}")
    else:
        asking.found.expect(
            "reasoning.echo", not echoed.refused, f"accepted in {field}", f"refused: {shown(echoed.why, 160)}"
        )
    asking.found.fact("reasoning_echo", not echoed.refused)
    asking.found.fact("reasoning_required", missing.refused)
    if missing.refused:
        words = f"refused: {shown(missing.why, 160)}"
        knows = known.reasoning.required or known.reasoning.signed
        asking.found.expect("reasoning.missing", knows, words, f"{words}; and this dialect does not know")
    else:
        asking.found.add("reasoning.missing", PASS, "a call without its reasoning is accepted")
    await _reasoning_used(asking, dialect, history, text, echoed, missing, options)


async def _reasoning_used(
    asking: Asking,
    dialect: Dialect,
    history: Callable[[str | None], list[Turn]],
    text: str,
    echoed: Exchange,
    missing: Exchange,
    options: dict[str, Any],
) -> None:
    signed = dialect.reasoning.signed
    # Signed reasoning cannot be lengthened, as its signature would no longer fit: compare with and without instead.
    more = missing if signed else await asking.ask(history(f"{text} {_NONCE}"), (READ,), dialect=dialect, **options)
    if signed and missing.refused:
        asking.found.add(
            "reasoning.used", ABSENT, "reasoning is signed: it cannot be made longer, to see whether it is read"
        )
    elif more.tokens is None or echoed.tokens is None:
        asking.found.add("reasoning.used", UNSURE, "the prompt was not counted")
    elif signed:
        used = echoed.tokens > more.tokens
        asking.found.add(
            "reasoning.used", PASS if used else UNSURE, f"{echoed.tokens} tokens with it, {more.tokens} without"
        )
    else:
        grew = more.tokens - echoed.tokens
        asking.found.fact("reasoning_used", grew > 0)
        ignored = f"40 words more of reasoning: {pluralize(grew, 'token')} more than {echoed.tokens}"
        if grew <= 0 and asking.dialect.reasoning.echo == "never":
            asking.found.add("reasoning.used", ABSENT, f"{ignored}; midstream sends none to this host")
        else:
            asking.found.expect(
                "reasoning.used", grew > 0, f"40 words more of reasoning: {pluralize(grew, 'token')} more", ignored
            )
    if signed:
        asking.found.add("reasoning.blank", ABSENT, "signed reasoning cannot be blank")
        return
    blank = await asking.ask(history(""), (READ,), dialect=dialect, **options)
    asking.found.fact("reasoning_blank", not blank.refused)
    asking.found.add(
        "reasoning.blank",
        ABSENT if blank.refused else PASS,
        f"refused: {shown(blank.why, 120)}" if blank.refused else "accepted",
    )


def echoing(dialect: Dialect, field: str) -> Dialect:
    """The dialect, with reasoning sent back in the field it came in, whatever is known of the host."""
    rules = dialect.reasoning
    # On other wires the place of reasoning is part of the protocol.
    if rules.echo != "never" or dialect.wire != "openai-chat":
        return dialect
    return replace(dialect, reasoning=echo_rules(rules, field))


def echo_rules(rules: Reasoning, field: str, *, required: bool = False) -> Reasoning:
    fields = tuple(dict.fromkeys([*rules.fields, field]))
    return replace(
        rules, echo="calls", field=field, fields=fields, fixed_field=True, default_on=True, required=required
    )


async def _format(asking: Asking) -> None:
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string"}, "sure": {"type": "boolean"}},
        "required": ["answer", "sure"],
        "additionalProperties": False,
    }
    exchange = await asking.ask("Is water wet? Answer as JSON.", schema=schema)
    if _unoffered(asking, exchange, "format.schema", "schema_in_words"):
        return
    if exchange.turn is None or exchange.is_cut:
        why = "no answer came" if exchange.turn is None else "cut by the limit of tokens"
        asking.found.add("format.schema", UNSURE, why)
        return
    try:
        AnswerType[Any](schema).last_word(exchange.turn)
    except SchemaMismatch as error:
        asking.found.add("format.schema", FAIL, shown(error.summary, 160))
    else:
        asking.found.add("format.schema", PASS, "the answer follows it")


async def _foreign(asking: Asking) -> None:
    _judge_handoff(asking, "handoff.foreign", await asking.ask(foreign_history(), TOOLS[:2]))


async def _interrupted(asking: Asking) -> None:
    _judge_handoff(asking, "handoff.interrupted", await asking.ask(interrupted_history(), TOOLS[:2]))


def _judge_handoff(asking: Asking, check: str, exchange: Exchange) -> None:
    asking.found.expect(check, not exchange.refused, "accepted", f"refused: {shown(exchange.why, 160)}")


# Loop.


async def _loop(asking: Asking) -> None:
    exchanges = await converse(asking, _LOOP_ROUNDS)
    rounds = exchanges[:_LOOP_ROUNDS]
    called = sum(1 for exchange in rounds if exchange.called)
    last = exchanges[-1]
    if called == 0:
        asking.found.add("loop.calls", UNSURE, _NO_CALL)
        asking.found.add("loop.arguments", UNSURE, _NO_CALL)
        return
    for number in range(_LOOP_ROUNDS):
        if number < called:
            asking.found.add("loop.calls", PASS, f"{called} of {_LOOP_ROUNDS} rounds with a call")
            due = f"note-{number + 1}"
            turn = rounds[number].turn
            told = [call.arguments for call in turn.tool_calls] if turn is not None else []
            fits = (valid_calls(rounds[number]) or not rounds[number].seen.calls) and any(due in each for each in told)
            said = shown(" ".join(told))
            asking.found.expect("loop.arguments", fits, "as asked", f"round {number + 1}: expected {due!r}, got {said}")
        else:
            why = f"refused: {shown(last.why, 120)}" if last.refused else f"said {shown(last.seen.text)!r}"
            asking.found.add("loop.calls", FAIL, f"{called} of {_LOOP_ROUNDS} rounds with a call, then {why}")
            break


QUICK = (
    Probe("hello", 3, ("usage.repeat", "plain.shape"), _hello),
    Probe("call", 2, ("finish.announced", "plain.shape"), _call),
    Probe("two-calls", 1, (), _two_calls),
    Probe("rounds", 3, ("ids.across-turns", "results.read"), _rounds),
    Probe("limit", 1, ("limit.tokens",), _limit),
    Probe("stop", 1, ("limit.stop",), _stop),
    Probe("choice-required", 1, ("choice.required",), _choice_required),
    Probe("choice-none", 1, ("choice.none",), _choice_none),
    Probe("sampling", 1, ("params.sampling",), _sampling),
    Probe("no-messages", 1, ("refuses.messages",), _no_messages),
)
CONTRACT = (
    Probe("orphan", 1, ("refuses.pairing",), _orphan),
    Probe("choice-named", 1, ("choice.named",), _choice_named),
    Probe("parallel-off", 1, ("parallel.off",), _parallel_off),
    Probe("schemas-streamed", len(SCHEMAS), ("schema.streamed",), _schemas_streamed),
    Probe("schemas-plain", len(SCHEMAS), ("schema.plain",), _schemas_plain),
    Probe("ids-given", _ECHO_ROUNDS + 1, ("ids.echo-given",), _ids_given),
    Probe("ids-rewritten", _ECHO_ROUNDS + 1, ("ids.echo-rewritten",), _ids_rewritten),
    Probe("deltas", 4, ("usage.counts-text", "usage.counts-system", "usage.counts-tools"), _deltas),
    Probe("cache", 2, ("usage.cached",), _cache),
    Probe("reasoning", 6, ("reasoning.field", "reasoning.echo", "reasoning.missing", "reasoning.used", "reasoning.blank"), _reasoning),
    Probe("format", 1, ("format.schema",), _format),
    Probe("foreign", 1, ("handoff.foreign",), _foreign),
    Probe("interrupted", 1, ("handoff.interrupted",), _interrupted),
)  # fmt: skip
LOOP = (Probe("loop", _LOOP_ROUNDS + 1, ("loop.calls", "loop.arguments"), _loop),)
