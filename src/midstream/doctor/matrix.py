"""The hand-off matrix: a history made by each dialect, encoded for every other, judged by that provider's rules.

The histories are not written by hand: each dialect's double streams the answers, and its decoder reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

import msgspec

from ..codec import encode_request
from ..core.blocks import Conversation, Media, Text, ToolCall, ToolResponse, Turn, human
from ..core.dialect import Options
from ..core.tools import Grammar, ToolSpec
from ..sim.answer import Answer, Call
from ..sim.players import Player, make_players
from ..sim.rules.hosts import judge
from ..sim.rules.rule import Problem

# The smallest PNG there is, one pixel.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

# Chosen to be difficult: a schema without `required`, an enum without a
# type (which Moonshot refuses), a union with null, and a name with a dot.
TOOLS = (
    ToolSpec(
        "list_files", "List the files of a folder", {"type": "object", "properties": {"path": {"type": "string"}}}
    ),
    ToolSpec(
        "read_file",
        "Read a file",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "mode": {"enum": ["text", "binary"]},
                "range": {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "lines"},
            },
            "required": ["path"],
            "additionalProperties": False,
        },
    ),
    ToolSpec("take.screenshot", "A name some hosts refuse"),
)
# What few hosts have: freeform tools, namespaces, and two tools of one name that only the namespace tells apart.
MORE_TOOLS = (
    ToolSpec(
        "apply_patch",
        "Change files by a patch",
        kind="freeform",
        grammar=Grammar("lark", 'start: "*** Begin Patch" LF line+ "*** End Patch"\nline: /.+/ LF\n%import common.LF'),
    ),
    ToolSpec(
        "close", "Close an agent", {"type": "object", "properties": {"id": {"type": "string"}}}, namespace="agents"
    ),
    ToolSpec(
        "close", "Close a file", {"type": "object", "properties": {"path": {"type": "string"}}}, namespace="files"
    ),
    ToolSpec("note", "Note something down", kind="freeform", namespace="files"),
)

_LIST = Call("list_files", {"path": "."})
_READ = Call("read_file", {"path": "notes.txt"})
_SHOT = Call("take.screenshot", {})
_PATCH = Call("apply_patch", {"input": '*** Begin Patch\n+say "hi"\n*** End Patch'}, kind="freeform")
_CLOSE = Call("close", {"id": "a1"}, namespace="agents")
_CLOSE_FILE = Call("close", {"path": "notes.txt"}, namespace="files")
_NOTE = Call("note", {"input": "buy milk\n\té"}, kind="freeform", namespace="files")


class Scene:
    """Builds one history of questions, players' answers and tool results."""

    def __init__(self) -> None:
        self.turns: list[Turn] = [human("What is in this folder?", key="q0")]
        # Hosts that number calls through the whole conversation need to know how many there were.
        self._calls = 0
        self._open: tuple[ToolCall, ...] = ()

    def answer(self, player: Player, answer: Answer, ids: str | None = None) -> Scene:
        number = len(self.turns)
        # Keys by position, no randomness: the same scene has the same ids in every run.
        turn = player.answer(answer, key=f"a{number}", number=number, first_call=self._calls, ids=ids, tools=MORE_TOOLS)
        self._calls += len(turn.tool_calls)
        self._open = turn.tool_calls
        self.turns.append(turn)
        return self

    def results(self, *results: str | Media, error: bool = False) -> Scene:
        responses = tuple(
            [
                ToolResponse(call.id, call.name, (Text(result) if isinstance(result, str) else result,), is_error=error)
                for call, result in zip(self._open, results, strict=True)
            ]
        )
        self.turns.append(Turn("tool", responses, key=f"t{len(self.turns)}"))
        return self

    def told(self, text: str = "Keep to the facts.", *tools: ToolSpec, role: str = "") -> Scene:
        """The system speaks."""
        blocks = (Text(text),) if text else ()
        self.turns.append(Turn("system", blocks, key=f"s{len(self.turns)}", role=role, tools=tools))
        return self

    def asks(self, text: str) -> Scene:
        self.turns.append(human(text, key=f"q{len(self.turns)}"))
        return self

    def done(self) -> Conversation:
        return Conversation(tuple(self.turns), system="You are a careful assistant.")


def _plain(a: Player, b: Player) -> Scene:
    return Scene().answer(a, Answer("I cannot see it from here.")).asks("Look, then.")


def _thinking(a: Player, b: Player) -> Scene:
    return Scene().answer(a, Answer("A folder.", "They want a listing.")).asks("Go on.")


def _one_call(a: Player, b: Player) -> Scene:
    return Scene().answer(a, Answer("", "List it.", (_LIST,))).results("notes.txt")


def _parallel(a: Player, b: Player) -> Scene:
    return Scene().answer(a, Answer("Looking.", "Both at once.", (_LIST, _READ))).results("notes.txt", "buy milk")


def _four_rounds(a: Player, b: Player) -> Scene:
    scene = Scene()
    for number in range(4):
        scene.answer(a, Answer("", f"Round {number}.", (_LIST, _READ) if number % 2 else (_READ,)))
        scene.results(*["ok"] * (2 if number % 2 else 1))
    return scene.answer(a, Answer("Done.", "Enough.")).asks("And now?")


def _interrupted(a: Player, b: Player) -> Scene:
    return Scene().answer(a, Answer("", "List it.", (_LIST, _READ))).asks("Never mind, say hello.")


def _error_result(a: Player, b: Player) -> Scene:
    return Scene().answer(a, Answer("", "List it.", (_LIST,))).results("permission denied", error=True)


def _images(a: Player, b: Player) -> Scene:
    scene = Scene().answer(a, Answer("", "Look.", (_SHOT, _LIST)))
    return scene.results(Media("image/png", data=PIXEL), "notes.txt")


def _repeated_ids(a: Player, b: Player) -> Scene:
    scene = Scene()
    for _ in range(3):
        scene.answer(a, Answer("", "Again.", (_LIST,)), ids="bare").results("notes.txt")
    return scene


def _there_and_back(a: Player, b: Player) -> Scene:
    scene = Scene().answer(a, Answer("", "First.", (_LIST,))).results("notes.txt")
    scene.answer(b, Answer("", "Second.", (_READ,))).results("buy milk")
    return scene.answer(a, Answer("", "Third.", (_READ, _LIST))).results("buy milk", "notes.txt")


def _told_first(a: Player, b: Player) -> Scene:
    scene = Scene()
    scene.turns = [
        Turn("system", (Text("You are a coding agent."),), key="s0", role="developer"),
        Turn("system", (Text("The folder is /tmp."),), key="s1", role="developer"),
        *scene.turns,
    ]
    return scene.answer(a, Answer("", "List it.", (_LIST,))).results("notes.txt")


def _told_last(a: Player, b: Player) -> Scene:
    return Scene().told().answer(a, Answer("", "List it.", (_LIST,))).results("notes.txt").told("1000 tokens left.")


def _told_between(a: Player, b: Player) -> Scene:
    scene = Scene().answer(a, Answer("", "Both.", (_LIST, _READ))).told(role="developer").results("notes.txt", "milk")
    scene.answer(a, Answer("Done.", "Enough.")).told("Be brief.").asks("And now?").told("One.").told("Two.").asks(
        "Well?"
    )
    return scene


def _told_of_tools(a: Player, b: Player) -> Scene:
    scene = Scene().answer(a, Answer("None yet.")).told("There is a new tool.", MORE_TOOLS[0], MORE_TOOLS[1])
    scene.asks("Use it.").answer(a, Answer("", "New.", (_PATCH, _CLOSE))).results("patched", "closed")
    return scene.told("", MORE_TOOLS[2])


def _freeform(a: Player, b: Player) -> Scene:
    scene = Scene().answer(a, Answer("", "Patch.", (_PATCH,))).results("patched")
    scene.answer(b, Answer("", "Again.", (_PATCH, _READ))).results("no such file", "buy milk", error=True)
    return scene.answer(a, Answer("Done.", "Patched.")).asks("And now?")


def _namespaces(a: Player, b: Player) -> Scene:
    scene = Scene().answer(a, Answer("", "Two names.", (_CLOSE, _CLOSE_FILE))).results("closed", "closed")
    return scene.answer(b, Answer("", "Note it.", (_NOTE, _CLOSE))).results("noted", "closed")


# Each scene is a way in which hand-offs have failed in other programs: parallel calls, repeated ids, an answer that
# the user interrupted, images in results, a model that comes back to what another has continued.
SCENES: Mapping[str, Callable[[Player, Player], Scene]] = {
    "plain": _plain,
    "thinking + text": _thinking,
    "one call": _one_call,
    "parallel calls": _parallel,
    "four rounds": _four_rounds,
    "interrupted call": _interrupted,
    "error result": _error_result,
    "images in results": _images,
    "repeated raw ids": _repeated_ids,
    "there and back": _there_and_back,
    "system turns first": _told_first,
    "system turn last": _told_last,
    "system turns between": _told_between,
    "tools in a system turn": _told_of_tools,
    "freeform calls": _freeform,
    "namespaces": _namespaces,
}
_OF_TWO = (_there_and_back, _freeform, _namespaces)
"""Scenes in which both players speak."""


_WITH_MORE_TOOLS = ("freeform calls", "namespaces")


# Three schemes of ids and three ways to carry reasoning, which is what hosts stumble over.
_FOREIGN = ("moonshot-k2.5", "claude", "openai-responses-5")


@cache
def foreign_history(asks: str = "Say hello.") -> Conversation:
    """A history made by Kimi, Claude and GPT in turn, with parallel calls, thinking and repeated ids."""
    players = make_players()
    scene = Scene()
    for name in _FOREIGN:
        scene.answer(players[name], Answer("", "Both at once.", (_LIST, _READ))).results("a.txt", "milk")
    return scene.asks(asks).done()


@cache
def scene_history(name: str) -> tuple[Conversation, tuple[ToolSpec, ...]]:
    """One of the scenes, made by Kimi alone, and the tools it knows."""
    maker = make_players()[_FOREIGN[0]]
    return SCENES[name](maker, maker).done(), TOOLS + MORE_TOOLS if name in _WITH_MORE_TOOLS else TOOLS


@cache
def interrupted_history(asks: str = "Never mind. Say hello.") -> Conversation:
    """A history in which a call was never answered."""
    return Scene().answer(make_players()[_FOREIGN[0]], Answer("", "", (_LIST,))).asks(asks).done()


class HandOff(msgspec.Struct, frozen=True):
    """One history of `maker` as `reader` would receive it, and what `reader` would refuse about it."""

    maker: str
    reader: str
    scene: str
    problems: tuple[Problem, ...]


def hand_offs(
    players: Mapping[str, Player], options: Options | None = None, readers: Mapping[str, Player] | None = None
) -> Iterator[HandOff]:
    """Every scene for every ordered pair of players, or of players and readers."""
    for maker in players.values():
        # Made once per maker: with over two hundred dialects, making them for each pair would be most of the work.
        alone = {name: scene(maker, maker).done() for name, scene in SCENES.items() if scene not in _OF_TWO}
        for reader in (players if readers is None else readers).values():
            for name, scene in SCENES.items():
                conversation = alone[name] if name in alone else scene(maker, reader).done()
                tools = TOOLS + MORE_TOOLS if name in _WITH_MORE_TOOLS else TOOLS
                request = encode_request(reader.target, conversation, tools=tools, options=options, cache=None)
                yield HandOff(maker.name, reader.name, name, tuple(judge(request.body, reader.host, "paranoid")))


def table(names: Sequence[str], refused: Sequence[HandOff]) -> str:
    """The matrix: makers down, readers across; a dot is a pair without a refusal."""
    bad = Counter((each.maker, each.reader) for each in refused)
    width = max([len(name) for name in names], default=0)
    lines = [f"{'':{width}}  " + " ".join(f"{number:>2}" for number in range(1, len(names) + 1))]
    for maker in names:
        row = " ".join(f"{bad.get((maker, reader), '.'):>2}" for reader in names)
        lines.append(f"{maker:{width}}  {row}")
    return "\n".join([*lines, *[f"{number:>2} = {reader}" for number, reader in enumerate(names, 1)]])
