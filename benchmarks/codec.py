"""What reading and writing the wires costs, in memory: no network, no peers.

Run `make bench-codec`, or `python -m benchmarks.codec`, with `--beside` another checkout to see what changed. Decoding is read at once (burst) and event by event (live).
Every figure is the fastest of its runs; the median stands beside it and tells how busy the machine was.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from midstream import Conversation, ToolSpec, encode_request, human, make_decoder
from midstream.core.dialect import Dialect
from midstream.dialects.registry import resolve
from midstream.wires.history_cache import HistoryCache
from midstream.wires.openai_chat.shapes import Chunk

from .measure import Row, Timing, misses, table, take_turns
from .payloads import (
    CHUNKS,
    WIRES,
    agent_history,
    anthropic_tools,
    chat_reasoning,
    chat_text,
    chat_tools,
    chat_varying,
    plain_history,
)

CHAT, ANTHROPIC = "openai/gpt-4o", "anthropic/claude-sonnet-4-5"
_ROOM = 1 << 30
# An envelope that never changes is compared, not read; one that changes in every chunk is cut at the places that change.
CONSTANT, VARYING, IN_FULL = 1.0, 2.0, 4.0
GOALS = {
    "openai-chat, burst": CONSTANT,
    "openai-chat, reasoning, burst": CONSTANT,
    "openai-chat, varying envelope, burst": VARYING,
    "anthropic, burst": CONSTANT,
    "anthropic, tools, burst": CONSTANT,
    "openai-responses, burst": VARYING,
    "gemini, burst": IN_FULL,  # its counts change with every chunk, and are kept
    "ollama, burst": VARYING,
    **{f"{name}, live": IN_FULL for name in WIRES},
}
_decode_chunk = msgspec.json.Decoder(Chunk).decode


def decode(wire: str, feeds: Sequence[bytes]) -> None:
    decoder = make_decoder(wire=wire, turn_key="turn")
    for data in feeds:
        decoder.feed(data)
    decoder.close()


def decoding(rounds: int) -> list[Row]:
    streams = {name: (name, make()) for name, make in WIRES.items()}
    streams |= {
        "openai-chat, varying envelope": ("openai-chat", chat_varying()),
        "openai-chat, reasoning": ("openai-chat", chat_reasoning()),
        "openai-chat, interleaved calls": ("openai-chat", chat_tools()),
        "anthropic, tools": ("anthropic", anthropic_tools()),
    }
    payloads = [event[6:-2] for event in streams["openai-chat"][1][:-1]]
    runs: dict[str, Callable[[], object]] = {"typed": lambda: [_decode_chunk(payload) for payload in payloads]}
    counts = {"typed": len(payloads)}
    for name, (wire, events) in streams.items():
        for mode, feeds in (("burst", [b"".join(events)]), ("live", events)):
            runs[f"{name}, {mode}"] = lambda wire=wire, feeds=feeds: decode(wire, feeds)  # type: ignore[misc]
            counts[f"{name}, {mode}"] = len(events)
    found = take_turns(runs, rounds)
    costs = {name: (time.best / counts[name] * 1e6, time.median / counts[name] * 1e6) for name, time in found.items()}
    rows = [Row("msgspec's typed decode alone", costs["typed"][0], "µs a chunk")]
    for name in runs:
        if name != "typed":
            best, median = costs[name]
            rows.append(Row(f"decode {name}", best, "µs a chunk", GOALS.get(name), aside=f"median {median:.2f}"))
    return rows


def leaks(rounds: int) -> list[Row]:
    """What it costs a clean stream that leaked calls are looked for, beside the same build without the filter."""
    rows = []
    tools = [ToolSpec("look", "", {"type": "object", "properties": {"path": {"type": "string"}}})]
    on = resolve("openai-compatible/kimi-k2.5").dialect
    off = msgspec.structs.replace(on, leaks=None)
    for kind, events in {"text": chat_text(), "reasoning": chat_reasoning()}.items():
        for mode, feeds in (("burst", [b"".join(events)]), ("live", events)):
            found = take_turns(
                {
                    name: lambda dialect=dialect, feeds=feeds: decode_with(dialect, tools, feeds)  # type: ignore[misc]
                    for name, dialect in (("on", on), ("off", off))
                },
                rounds,
            )
            costs = {name: time.best / len(events) * 1e6 for name, time in found.items()}
            goal = max(1.1, 1 + 0.1 / costs["off"])
            aside = f"{costs['on']:.2f} of {costs['off']:.2f} µs a chunk"
            rows.append(
                Row(f"chat, leak filter on/off: {kind}, {mode}", costs["on"] / costs["off"], "×", goal, aside=aside)
            )
    return rows


def decode_with(dialect: Dialect, tools: Sequence[ToolSpec], feeds: Sequence[bytes]) -> None:
    decoder = make_decoder(dialect=dialect, turn_key="turn", tools=tools)
    for data in feeds:
        decoder.feed(data)
    decoder.close()


def growth(rounds: int) -> list[Row]:
    """Ten times the bytes: what it costs beside once."""
    rows = []
    once, tenfold = chat_text(CHUNKS), chat_text(10 * CHUNKS)
    for mode in ("burst", "live"):
        feeds = ([b"".join(once)], [b"".join(tenfold)]) if mode == "burst" else (once, tenfold)
        found = take_turns(
            {"once": lambda: decode("openai-chat", feeds[0]), "tenfold": lambda: decode("openai-chat", feeds[1])},  # noqa: B023
            rounds,
        )
        share = sum(map(len, tenfold)) / sum(map(len, once)) / 10
        ratio = found["tenfold"].best / found["once"].best / share
        rows.append(Row(f"decode 10× the bytes, {mode}", ratio, "×", 11))
    return rows


def first_encode(conversation: Conversation, model: str) -> None:
    encode_request(model, conversation, cache=HistoryCache(max_bytes=_ROOM))


class NextTurns:
    """A conversation that was encoded, and grows by a turn at each run."""

    def __init__(self, conversation: Conversation, model: str, runs: int) -> None:
        self._cache = HistoryCache(max_bytes=_ROOM)
        self._model = model
        encode_request(model, conversation, cache=self._cache)
        grown = []
        for number in range(runs):
            conversation = conversation.add(human(f"and what of number {number}?"))
            grown.append(conversation)
        self._grown = iter(grown)

    def __call__(self) -> None:
        encode_request(self._model, next(self._grown), cache=self._cache)


def encoding(rounds: int) -> list[Row]:
    histories = {"questions and answers": plain_history, "an agent's": agent_history}
    models = {"chat": (CHAT, 1.2), "anthropic": (ANTHROPIC, 1.8)}
    firsts: dict[str, Callable[[], object]] = {}
    nexts: dict[str, Callable[[], object]] = {}
    goals: dict[str, float] = {}
    for kind, make in histories.items():
        conversation = make(1_000)
        for wire, (model, goal) in models.items():
            name = f"1,000 messages, {kind}, {wire}"
            firsts[name] = lambda conversation=conversation, model=model: first_encode(conversation, model)  # type: ignore[misc]
            nexts[name] = NextTurns(conversation, model, rounds)
            goals[name] = goal
    rows = [
        Row(f"{name}: first encode", time.best * 1e3, "ms", goals[name], aside=_median(time))
        for name, time in take_turns(firsts, rounds).items()
    ]
    rows += [
        Row(f"{name}: next turn", time.best * 1e3, "ms", 0.08, aside=_median(time))
        for name, time in take_turns(nexts, rounds).items()
    ]
    return rows + long_histories(max(5, rounds // 3))


def long_histories(rounds: int) -> list[Row]:
    """Turn after turn, as a conversation goes: a first encode between them would take their memory away."""
    rows = []
    for kind, make in {"questions and answers": plain_history, "an agent's": agent_history}.items():
        conversation = make(10_000)
        for wire, model in {"chat": CHAT, "anthropic": ANTHROPIC}.items():
            first = take_turns({"": lambda: first_encode(conversation, model)}, rounds)[""].best  # noqa: B023
            then = take_turns({"": NextTurns(conversation, model, 3 * rounds)}, 3 * rounds)[""].best
            share = then / first * 100
            aside = f"{then * 1e3:.2f} of {first * 1e3:.1f} ms"
            rows.append(Row(f"10,000 messages, {kind}, {wire}: next turn", share, "% of the first", 3, aside=aside))
    return rows


def memory() -> list[Row]:
    """The most that was held at once, beside the bytes that were read or written."""
    body = b"".join(chat_text())
    conversation = plain_history(1_000)
    size = len(encode_request(CHAT, conversation, cache=None).body)
    peaks: dict[str, tuple[Callable[[], None], int]] = {
        "decode 2,000 chunks, burst": (lambda: decode("openai-chat", [body]), len(body)),
        "encode 1,000 messages, chat": (lambda: first_encode(conversation, CHAT), size),
    }
    rows = []
    for name, (run, size) in peaks.items():
        run()
        tracemalloc.start()
        run()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rows.append(Row(f"peak memory: {name}", peak / 1e6, "MB", aside=f"{peak / size:.1f}× the {size / 1e6:.2f} MB"))
    return rows


def _median(time: Timing) -> str:
    return f"median {time.median * 1e3:.2f}"


def measured(rounds: int = 30) -> list[Row]:
    return [*decoding(rounds), *leaks(rounds), *growth(max(5, rounds // 3)), *encoding(rounds), *memory()]


def beside(folder: Path, rounds: int) -> list[Row]:
    """What decoding costs with another checkout's code, beside this one's: fresh processes that take turns."""
    here = Path(__file__).resolve().parents[1]
    costs: dict[Path, dict[str, float]] = {here: {}, folder.resolve(): {}}
    for _ in range(rounds):
        for home, best in costs.items():
            command = [sys.executable, "-m", "benchmarks.codec", "--figures", "--rounds", "5"]
            env = {**os.environ, "PYTHONPATH": str(home / "src")}
            done = subprocess.run(command, cwd=here, env=env, capture_output=True, check=True, timeout=600)
            for name, value in msgspec.json.decode(done.stdout, type=dict[str, float]).items():
                best[name] = min(value, best.get(name, value))
    ours, theirs = costs.values()
    return [
        Row(name, theirs[name] / value, "× as fast", aside=f"{value:.2f} beside {theirs[name]:.2f} µs a chunk")
        for name, value in ours.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument(
        "--beside", type=Path, help="another checkout: only decoding is measured, with its code and with ours"
    )
    parser.add_argument("--figures", action="store_true", help="only decoding, as JSON")
    asked = parser.parse_args()
    if asked.figures:
        print(msgspec.json.encode({row.name: row.value for row in decoding(asked.rounds)}).decode())
        return
    rows = beside(asked.beside, min(asked.rounds, 5)) if asked.beside else measured(asked.rounds)
    print(table(rows))
    print(f"\nmissed: {'; '.join(misses(rows)) or 'nothing'}")


if __name__ == "__main__":
    main()
