"""The messages of a request are a byte prefix of the next request's, for every dialect: prompt caches live on it.

A conversation with tools grows round by round, its answers made by the dialect's own double or by another model; in a second
one the system speaks too, after questions and after results, and tools are freeform or of a namespace. Messages
are the encoded array without its closing bracket; on a completion wire, the prompt without its closing quote.
"""

from __future__ import annotations

import json

import pytest

from midstream.core.blocks import Conversation, Text, Turn, human, system, tool_result
from midstream.core.dialect import Options
from midstream.core.tools import Grammar, ToolSpec
from midstream.sim.answer import Answer, Call
from midstream.sim.players import Player, make_players
from midstream.wires.history_cache import HistoryCache
from midstream.wires.request import Request, RequestDraft
from tests.long_run import cases
from tests.representatives import dialect_cases, representatives

PLAYERS = make_players()
FOREIGN = PLAYERS["deepseek-reasoner"]
AUTHORS = ("itself", "another model")
TOOLS = (
    ToolSpec("read_file", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}}),
    ToolSpec("glob", "Finds.", {"type": "object", "properties": {"pattern": {"type": "string"}}}),
)
MORE_TOOLS = (
    *TOOLS,
    ToolSpec("apply_patch", "Patches.", kind="freeform", grammar=Grammar("lark", "start: /.+/")),
    ToolSpec("close", "Closes.", {"type": "object", "properties": {"id": {"type": "string"}}}, namespace="agents"),
)
LATE_TOOL = ToolSpec("note", "Notes.", kind="freeform", namespace="agents")
FIELDS = ("messages", "contents", "input", "prompt")
_READ, _GLOB = Call("read_file", {"path": "a.txt"}), Call("glob", {"pattern": "*.txt"})
ROUNDS = (
    Answer("Let me look.", "Two at once.", (_READ, _GLOB)),
    Answer("", "One more.", (_READ,)),
    Answer("That is all.", "Done."),
    Answer("", "Again, without a word.", (_GLOB, _READ, _GLOB)),
    Answer("Now it is.", "Surely."),
)
_PATCH = Call("apply_patch", {"input": '+ "a"\n'}, kind="freeform")
_CLOSE = Call("close", {"id": "a1"}, namespace="agents")
_NOTE = Call("note", {"input": "é"}, kind="freeform", namespace="agents")
SYSTEM_ROUNDS = (
    Answer("Let me look.", "Two at once.", (_READ, _PATCH)),
    Answer("", "One more.", (_CLOSE,)),
    Answer("That is all.", "Done."),
    Answer("", "Again, without a word.", (_PATCH, _NOTE, _CLOSE)),
    Answer("Now it is.", "Surely."),
)

_NEW_QUESTION, _FIRST_ANSWERS = [3], [1, 4]
"""Requests by number: the one after an answer without calls; those after the first answer to each question."""
EXCEPTIONS: dict[str, tuple[str, dict[tuple[str, str | None], list[int]]]] = {
    # template -> what its published form demands, and by (author, thinking) which requests do not go on from the one before
    **dict.fromkeys(
        ("kimi-k2-thinking", "kimi-k2.5", "kimi-k2.6", "qwen"),
        (
            "reasoning is written only after the last question: a new question takes the earlier reasoning away",
            {("itself", None): _NEW_QUESTION, ("itself", "on"): _NEW_QUESTION},
        ),
    ),
    "mistral": (
        "the tools are declared before the last question: a new question moves them",
        {(author, thinking): _NEW_QUESTION for author in AUTHORS for thinking in (None, "on")},
    ),
    "deepseek": (
        "an answer is asked for with an open think tag and written down with a closed one, its thinking left out",
        {("itself", "on"): _FIRST_ANSWERS, ("another model", "on"): _FIRST_ANSWERS},
    ),
}


def requests_of(player: Player, author: Player, options: Options, cache: HistoryCache | None) -> list[Request]:
    """The request before each answer of a growing conversation."""
    target = player.target
    conversation = Conversation((human("What is in the files?", key="q0"),), "Be brief.")
    sent: list[Request] = []
    calls = 0
    for number, answer in enumerate(ROUNDS):
        sent.append(RequestDraft(conversation, target.dialect, target.model, TOOLS, options, cache).encode())
        turn = author.answer(answer, key=f"a{number}", number=number, first_call=calls)
        calls += len(answer.calls)
        results = tuple([tool_result(call, f"result {at}") for at, call in enumerate(turn.tool_calls)])
        following = Turn("tool", results, key=f"r{number}") if results else human("Go on.", key=f"q{number + 1}")
        conversation = conversation.add(turn, following)
    return sent


def system_requests_of(player: Player, author: Player, options: Options, cache: HistoryCache | None) -> list[Request]:
    """The request before each answer where a system turn follows every question and all results but the first."""
    target = player.target
    told = Turn("system", (Text("You are a coding agent."),), key="s", role="developer")
    turns = (told, human("What is in the files?", key="q0"), system("Be quick.", key="s0"))
    conversation = Conversation(turns, "Be brief.")
    sent: list[Request] = []
    calls = 0
    for number, answer in enumerate(SYSTEM_ROUNDS):
        sent.append(RequestDraft(conversation, target.dialect, target.model, MORE_TOOLS, options, cache).encode())
        known = (*MORE_TOOLS, LATE_TOOL)
        turn = author.answer(answer, key=f"a{number}", number=number, first_call=calls, tools=known)
        calls += len(answer.calls)
        results = tuple([tool_result(call, f"result {at}") for at, call in enumerate(turn.tool_calls)])
        following = Turn("tool", results, key=f"r{number}") if results else human("Go on.", key=f"q{number + 1}")
        conversation = conversation.add(turn, following)
        if number:
            late = (LATE_TOOL,) if number == 2 else ()
            conversation = conversation.add(system(f"{number} left.", tools=late, key=f"s{number}"))
    return sent


def messages(request: Request) -> str:
    body = request.body.decode()
    start = min(at + len(name) + 3 for name in FIELDS if (at := body.find(f'"{name}":')) >= 0)
    _, end = json.JSONDecoder().raw_decode(body, start)
    return body[start : end - 1]


# Whether reasoning is echoed and how a prompt is laid out depends on who answered.
BY_ITSELF = [f"{name} by itself" for name in representatives()]
BY_ANOTHER = [
    f"{name} by another model" for name in representatives("template", "reasoning.echo", "reasoning.required")
]


@pytest.mark.parametrize(
    "answered", cases([f"{name} by {author}" for name in PLAYERS for author in AUTHORS], {*BY_ITSELF, *BY_ANOTHER})
)
def test_every_request_begins_with_the_one_before(answered: str) -> None:
    name, author = answered.split(" by ")
    player = PLAYERS[name]
    maker = player if author == "itself" else FOREIGN
    why, excepted = EXCEPTIONS.get(player.target.dialect.template or "", ("", {}))
    for options, cache in ((Options(), None), (Options(), HistoryCache()), (Options(thinking="on"), HistoryCache())):
        sent = [messages(request) for request in requests_of(player, maker, options, cache)]
        broken = [at for at in range(1, len(sent)) if not sent[at].startswith(sent[at - 1])]
        expected = excepted.get((author, options.thinking), [])
        assert broken == expected, f"{name}, answers by {author}, thinking {options.thinking}: {why}"


KEEPING = [name for name in PLAYERS if PLAYERS[name].target.dialect.reasoning.keep not in ("", "always")]


@pytest.mark.parametrize("name", dialect_cases("reasoning.keep", "template", among=KEEPING))
def test_where_all_reasoning_is_kept_there_is_no_exception(name: str) -> None:
    options = Options(thinking="on", keep_thinking=True)
    sent = [messages(request) for request in requests_of(PLAYERS[name], PLAYERS[name], options, HistoryCache())]
    assert [at for at in range(1, len(sent)) if not sent[at].startswith(sent[at - 1])] == []


@pytest.mark.parametrize(
    "name",
    dialect_cases("mid_system", "mid_tools", "native_tools", "template", "freeform", "namespaces", "merge_turns"),
)
def test_it_does_so_with_system_turns_and_freeform_tools(name: str) -> None:
    player = PLAYERS[name]
    excepted = EXCEPTIONS.get(player.target.dialect.template or "", ("", {}))[1]
    for options, cache in ((Options(), None), (Options(), HistoryCache()), (Options(thinking="on"), HistoryCache())):
        sent = [messages(request) for request in system_requests_of(player, player, options, cache)]
        broken = [at for at in range(1, len(sent)) if not sent[at].startswith(sent[at - 1])]
        dialect = player.target.dialect
        # A prompt begins with its tools: one that is declared later changes the beginning, unless the template can say so there.
        in_prompt = (dialect.wire == "completion" and not dialect.mid_tools) or not dialect.native_tools
        late = _NEW_QUESTION if in_prompt else []
        moved = [2, 3, 4] if dialect.template == "mistral" else []  # what the user says moves the tools: see above
        expected = sorted({*late, *moved, *excepted.get(("itself", options.thinking), [])})
        assert broken == expected, f"{name}, thinking {options.thinking}"


def test_the_exceptions_are_templates_of_registered_dialects() -> None:
    assert set(EXCEPTIONS) <= {player.target.dialect.template for player in PLAYERS.values()}
