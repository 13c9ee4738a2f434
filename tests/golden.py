"""`python -m tests.golden`: write what midstream sends and reads, as hashes, into `tests/data/golden.json`; `--check` compares.

For every distinct dialect the requests of the matrix' histories and of some options; for every recording the events at three cuts. A
commit that changes a hash says why. The hashes of the shared recordings stay in the file where those are missing, and are not compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import astuple, replace

from midstream import encode_request
from midstream.core.blocks import Conversation
from midstream.core.dialect import Options
from midstream.core.errors import MidstreamError
from midstream.core.tools import ToolSpec
from midstream.doctor.matrix import _WITH_MORE_TOOLS, MORE_TOOLS, SCENES, TOOLS, foreign_history
from midstream.doctor.recorded_answer import read_answer
from midstream.recording.corpus import from_case
from midstream.sim.players import Player, make_players
from tests.wires.feeding import at_random, by_byte
from tests.wires.recordings import OWN, recordings

FILE = Path(__file__).resolve().parent / "data" / "golden.json"
_DIGITS = 8
"""Of each hash: enough to see a change by, and the file stays small."""
MAKERS = ("moonshot-k2.5", "claude", "openai-responses-5")
"""Whose histories each dialect reads, beside its own: three schemes of ids and three ways to carry reasoning."""
_SCHEMA = {"type": "object", "properties": {"count": {"type": "integer"}, "name": {"type": ["string", "null"]}}}
OPTIONS = {
    "thinking on": Options(thinking="on", max_tokens=9000),
    "thinking off": Options(thinking="off"),
    **{f"effort {effort}": Options(effort=effort) for effort in ("minimal", "medium", "max")},
    "thinking budget": Options(thinking_budget=2048, max_tokens=9000),
    "keep thinking": Options(keep_thinking=True, thinking="on"),
    "foreign thinking as text": Options(foreign_thinking="text"),
    "foreign thinking kept": Options(foreign_thinking="keep"),
    "a tool required": Options(tool_choice="required", parallel_tool_calls=False),
    "a tool named": Options(tool_choice="read_file"),
    "no tool": Options(tool_choice="none"),
    "sampling": Options(temperature=0.5, top_p=0.9, stop=("END",), seed=7, presence_penalty=0.5, frequency_penalty=0.5),
    "schema": Options(schema=_SCHEMA),
    "json": Options(response_format={"type": "json_object"}),
    "in one piece": Options(stream=False, user="user-1"),
    "cache": Options(cache=True),
    "prefill": Options(prefill="It is"),
    "tools as text": Options(tool_format="hermes"),
}  # fmt: skip


def distinct_players() -> dict[str, Player]:
    """The first dialect of each class that the code can tell apart: its name and its host's are only shown."""
    found: dict[Any, Player] = {}
    for player in make_players().values():
        dialect = player.target.dialect
        alike = [
            astuple(replace(each, name="", provider="", native=None)) for each in (dialect, dialect.native) if each
        ]
        found.setdefault(repr(alike), player)
    return {player.name: player for player in found.values()}


def requests(names: Iterable[str] | None = None) -> dict[str, dict[str, str]]:
    """By dialect and history (or option) the hash of the requests, those of these dialects if they are named."""
    players = distinct_players()
    everyone = make_players()
    histories = {name: {scene: _made(everyone[name], everyone[name], scene) for scene in SCENES} for name in MAKERS}
    found: dict[str, dict[str, str]] = {}
    for name in players if names is None else names:
        player = players[name]
        row = found[name] = {}
        for scene in SCENES:
            tools = TOOLS + MORE_TOOLS if scene in _WITH_MORE_TOOLS else TOOLS
            read = [_made(player, everyone[MAKERS[0]], scene), *[histories[maker][scene] for maker in MAKERS]]
            row[scene] = _hash([_request(player, history, tools) for history in read])
        for what, options in OPTIONS.items():
            row[what] = _hash([_request(player, foreign_history(), TOOLS, options)])
    return found


def _made(maker: Player, other: Player, scene: str) -> Conversation:
    return SCENES[scene](maker, other).done()


def _request(player: Player, history: Conversation, tools: tuple[ToolSpec, ...], options: Options | None = None) -> Any:
    try:
        request = encode_request(player.target, history, tools=tools, options=options, cache=None)
    except MidstreamError as error:
        return type(error).__name__
    return request.method, request.path, request.headers, request.body


def events(wanted: Callable[[dict[str, Any]], bool] = lambda case: True) -> dict[str, str]:
    """By recording the hash of its events: one, if they are the same whole, byte by byte and cut at random."""
    found = {}
    for folder in sorted([path.stem for path in OWN.glob("*.toml")]):
        for case in filter(wanted, recordings(folder)):
            exchange = from_case(case)
            data = exchange.body
            answers = [read_answer(exchange, cuts=cuts) for cuts in ([data], by_byte(data), at_random(data, seed=0))]
            hashes = [_hash([answer.model, answer.events, answer.turn, answer.error]) for answer in answers]
            found[f"{folder}/{case['id']}"] = " ".join(hashes if len(set(hashes)) > 1 else hashes[:1])
    return found


def is_own(case: dict[str, Any]) -> bool:
    return bool(case.get("own"))


def _hash(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()[:_DIGITS]


def stored() -> dict[str, Any]:
    """The file as it is, each row of requests by the names of its columns."""
    whole = json.loads(FILE.read_text("utf-8"))
    columns = whole["columns"]
    rows = {name: dict(zip(columns, row.split(), strict=True)) for name, row in whole["requests"].items()}
    return {"requests": rows, "recordings": whole["recordings"]}


def write(rows: Mapping[str, Mapping[str, str]], found: Mapping[str, str]) -> None:
    columns = [*SCENES, *OPTIONS]
    lines = {name: " ".join([row[column] for column in columns]) for name, row in rows.items()}
    parts = {"columns": columns, "requests": dict(sorted(lines.items())), "recordings": dict(sorted(found.items()))}
    FILE.write_text(json.dumps(parts, indent=0) + "\n", "utf-8")


def differences(kind: str, was: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """What is new, what is gone and what is not as it was."""
    wrong = []
    for name in sorted({*was, *found}):
        if name not in was or name not in found:
            wrong.append(f"{kind} {name}: {'new' if name in found else 'gone'}")
        elif was[name] != found[name]:
            before, now = was[name], found[name]
            where = (
                sorted({key for key in {*before, *now} if before.get(key) != now.get(key)})
                if isinstance(now, dict)
                else []
            )
            wrong.append(f"{kind} {name}: {', '.join(where) or 'differs'}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing; exit 1 and name what differs")
    check = parser.parse_args().check
    was = stored() if FILE.exists() else {"requests": {}, "recordings": {}}
    rows, own = requests(), events(is_own)
    shared = events(lambda case: not is_own(case))
    # A machine may have other shared recordings, or none: what it has is compared, what it has not is kept.
    ours = {name: value for name, value in was["recordings"].items() if name.partition("/")[2].startswith("own-")}
    theirs = {name: value for name, value in was["recordings"].items() if name not in ours}
    wrong = differences("requests of", was["requests"], rows) + differences("events of", ours, own)
    both = theirs.keys() & shared.keys()
    wrong += differences("events of", {name: theirs[name] for name in both}, {name: shared[name] for name in both})
    print(f"golden: {len(rows)} dialects, {len(own)} recordings of our own, {len(both)} shared ones compared")
    if aside := len(theirs.keys() ^ shared.keys()):
        print(f"golden: {aside} shared recordings are not compared: they are only here or only in the file")
    for line in wrong:
        print(line)
    if check:
        if wrong:
            print(f"golden: {len(wrong)} differ; if they are meant to, run make golden and say why in the commit")
        return int(bool(wrong))
    write(rows, {**theirs, **own, **shared})
    return 0


if __name__ == "__main__":
    sys.exit(main())
