"""The messages of a request are a byte prefix of the next request's, for every dialect: prompt caches live on it.

A conversation with tools grows round by round, its answers made by the dialect's own double or by another model. Messages
are the encoded array without its closing bracket; on a completion wire, the prompt without its closing quote.
"""

from __future__ import annotations

import json

import pytest

from midstream.core.blocks import Conversation, Turn, human, tool_result
from midstream.core.dialect import Options
from midstream.core.tools import ToolSpec
from midstream.sim.answer import Answer, Call
from midstream.sim.players import Player, make_players
from midstream.wires.history_cache import HistoryCache
from midstream.wires.request import Request, RequestDraft

PLAYERS = make_players()
FOREIGN = PLAYERS["deepseek-reasoner"]
TOOLS = (
    ToolSpec("read_file", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}}),
    ToolSpec("glob", "Finds.", {"type": "object", "properties": {"pattern": {"type": "string"}}}),
)
FIELDS = ("messages", "contents", "input", "prompt")
_READ, _GLOB = Call("read_file", {"path": "a.txt"}), Call("glob", {"pattern": "*.txt"})
ROUNDS = (
    Answer("Let me look.", "Two at once.", (_READ, _GLOB)),
    Answer("", "One more.", (_READ,)),
    Answer("That is all.", "Done."),
    Answer("", "Again, without a word.", (_GLOB, _READ, _GLOB)),
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
        {(author, thinking): _NEW_QUESTION for author in ("itself", "another model") for thinking in (None, "on")},
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


def messages(request: Request) -> str:
    body = request.body.decode()
    start = min(at + len(name) + 3 for name in FIELDS if (at := body.find(f'"{name}":')) >= 0)
    _, end = json.JSONDecoder().raw_decode(body, start)
    return body[start : end - 1]


@pytest.mark.parametrize("author", ["itself", "another model"])
@pytest.mark.parametrize("name", PLAYERS)
def test_every_request_begins_with_the_one_before(name: str, author: str) -> None:
    player = PLAYERS[name]
    maker = player if author == "itself" else FOREIGN
    why, excepted = EXCEPTIONS.get(player.target.dialect.template or "", ("", {}))
    for options, cache in ((Options(), None), (Options(), HistoryCache()), (Options(thinking="on"), HistoryCache())):
        sent = [messages(request) for request in requests_of(player, maker, options, cache)]
        broken = [at for at in range(1, len(sent)) if not sent[at].startswith(sent[at - 1])]
        expected = excepted.get((author, options.thinking), [])
        assert broken == expected, f"{name}, answers by {author}, thinking {options.thinking}: {why}"


KEEPING = [name for name in PLAYERS if PLAYERS[name].target.dialect.reasoning.keep not in ("", "always")]


@pytest.mark.parametrize("name", KEEPING)
def test_where_all_reasoning_is_kept_there_is_no_exception(name: str) -> None:
    options = Options(thinking="on", keep_thinking=True)
    sent = [messages(request) for request in requests_of(PLAYERS[name], PLAYERS[name], options, HistoryCache())]
    assert [at for at in range(1, len(sent)) if not sent[at].startswith(sent[at - 1])] == []


def test_the_exceptions_are_templates_of_registered_dialects() -> None:
    assert set(EXCEPTIONS) <= {player.target.dialect.template for player in PLAYERS.values()}
