"""midstream beside other clients: processor time a chunk, over loopback, taken in turns.

Run `make bench`. Each client runs in its own process, which measures itself; the upstream is another. `burst` is the whole
answer in one write, `live` one event a write with a gap that every client can keep up with. Figures are medians. The table
and the chart go to `benchmarks/results/`.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .chart import bar_chart
from .codec import encoding
from .contender import ANTHROPIC_WIRE, CONTENDERS
from .imports import import_costs
from .measure import Row, misses, table
from .payloads import anthropic_text, anthropic_tools, chat_text, chat_tools
from .processes import Contender, Failed, Upstream

RESULTS = Path(__file__).parent / "results"
ANSWERS = {
    "chat-text": chat_text(),
    "chat-tools": chat_tools(),
    "anthropic-text": anthropic_text(),
    "anthropic-tools": anthropic_tools(),
}
KINDS = {"text": "2,000 chunks of text", "tools": "reasoning and three parallel calls, 2,000 chunks"}
MODES = ("burst", "live")
LEAST_GAP = 300
"""Microseconds between live events; a client that needs longer a chunk gets twice what it needs."""
OURS = "midstream, stream"

Case = tuple[str, str]
"""(kind, mode)"""
Costs = dict[str, dict[Case, float]]
"""Contender -> case -> microseconds a chunk."""


class Race:
    """All contenders against one upstream. One that fails is out, with its reason."""

    def __init__(self, port: int) -> None:
        self.failures: dict[str, str] = {}
        self.found: dict[str, dict[Case, list[float]]] = {}
        self._gaps: dict[str, int] = {}
        self._contenders: list[Contender] = []
        for name in CONTENDERS:
            contender = Contender(name, port)
            try:
                contender.ready()
            except Failed as failure:
                self._out(contender, failure)
                continue
            self._contenders.append(contender)
            self.found[name] = {(kind, mode): [] for kind in KINDS for mode in MODES}

    def warm_up(self) -> None:
        for contender in list(self._contenders):
            try:
                for kind in KINDS:
                    self._cost(contender, kind, "burst", 1)
                cost = self._cost(contender, "text", "burst", 1)
                self._gaps[contender.name] = max(LEAST_GAP, round(2 * cost))
            except Failed as failure:
                self._out(contender, failure)

    def round(self, mode: str) -> None:
        for kind in KINDS:
            for contender in list(self._contenders):
                quick = mode == "burst" and self._gaps[contender.name] == LEAST_GAP
                try:
                    cost = self._cost(contender, kind, mode, 5 if quick else 1)
                except Failed as failure:
                    self._out(contender, failure)
                    continue
                self.found[contender.name][kind, mode].append(cost)

    def medians(self) -> Costs:
        return {
            name: {case: statistics.median(values) for case, values in cases.items() if values}
            for name, cases in self.found.items()
        }

    def end(self) -> None:
        for contender in self._contenders:
            contender.end()

    def _cost(self, contender: Contender, kind: str, mode: str, times: int) -> float:
        payload = f"{'anthropic' if contender.name in ANTHROPIC_WIRE else 'chat'}-{kind}"
        spelled = mode if mode == "burst" else f"live-{self._gaps[contender.name]}"
        return contender.read(payload, spelled, times) / times / len(ANSWERS[payload]) * 1e6

    def _out(self, contender: Contender, failure: Failed) -> None:
        self.failures[contender.name] = str(failure)
        self.found.pop(contender.name, None)
        contender.end()
        if contender in self._contenders:
            self._contenders.remove(contender)


def cost_table(costs: Costs, failures: dict[str, str]) -> str:
    """Microseconds a chunk, and how many times ours that is; clients of the Anthropic wire beside ours of that wire."""
    cases = [(kind, mode) for kind in KINDS for mode in MODES]
    lines = [
        "| µs of processor a chunk (× midstream's `stream`) | " + " | ".join(f"{k}, {m}" for k, m in cases) + " |",
        "|:--|" + "--:|" * len(cases),
    ]
    for name in CONTENDERS:
        if name in failures:
            lines.append(f"| {name} | could not run: {failures[name]} |" + " |" * (len(cases) - 1))
            continue
        ours = costs.get("midstream, anthropic" if name in ANTHROPIC_WIRE else OURS, {})
        cells = [_cell(costs[name].get(case), ours.get(case)) for case in cases]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(cost: float | None, ours: float | None) -> str:
    if cost is None:
        return "-"
    return f"{cost:.1f}" if not ours else f"{cost:.1f} ({cost / ours:.2g}×)"


def goals(costs: Costs) -> list[Row]:
    rows = []
    for ours in ("midstream, stream", "midstream, batches"):
        burst, live = (costs.get(ours, {}).get(("text", mode)) for mode in MODES)
        rows.append(Row(f"{ours}: burst", burst, "µs a chunk", 5))
        for peer, mode, goal in (("openai", "burst", 40), ("litellm", "burst", 100), ("openai", "live", 3)):
            own, theirs = (burst if mode == "burst" else live), costs.get(peer, {}).get(("text", mode))
            rows.append(Row(f"{ours}: {mode}, {peer} takes", _ratio(theirs, own), "× as much", goal, at_least=True))
        for below, most in (
            ("raw socket, asyncio", 1.7), ("raw socket, streams", None), ("raw socket, blocking", None),
            ("aiohttp, bytes", None),
        ):  # fmt: skip
            base = costs.get(below, {}).get(("text", "live"))
            rows.append(Row(f"{ours}: live, beside {below}", _ratio(live, base), "×", most))
    return rows


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below


def import_rows() -> list[Row]:
    rows = []
    for name, cost in import_costs().items():
        judged = name in ("midstream", "midstream's codec, every wire")
        if cost is None:
            rows.append(Row(f"import {name}", None, aside="it cannot be imported"))
            continue
        rows.append(
            Row(f"import {name}", cost.cpu, "ms", 120 if judged else None, aside=f"{cost.wall:.0f} by the clock")
        )
        rows.append(Row(f"peak memory of import {name}", cost.megabytes, "MB", 30 if judged else None))
    return rows


def surroundings(upstream: str, load: float) -> str:
    versions = []
    for package in ("aiohttp", "msgspec", "openai", "anthropic", "litellm", "pydantic-ai-slim", "kosong"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"{package} not installed")
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python {platform.python_version()}, upstream in {upstream}, "
        f"load {load:.1f} before the run. {', '.join(versions)}."
    )


def measured(rounds: int) -> tuple[Costs, dict[str, str], str]:
    with Upstream(ANSWERS) as upstream:
        race = Race(upstream.port)
        try:
            race.warm_up()
            for number in range(rounds):
                for mode in MODES:
                    race.round(mode)
                print(f"round {number + 1} of {rounds} done", file=sys.stderr, flush=True)
            return race.medians(), race.failures, upstream.kind
        finally:
            race.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--save", type=Path, default=RESULTS, help="where the table and the chart go")
    options = parser.parse_args()
    load, began = os.getloadavg()[0], time.monotonic()
    costs, failures, upstream = measured(options.rounds)
    rows = [*goals(costs), *encoding(30), *import_rows()]
    about = surroundings(upstream, load)
    report = "\n\n".join([
        "# midstream beside other clients",
        about,
        cost_table(costs, failures),
        table(rows),
        f"Missed: {'; '.join(misses(rows)) or 'nothing'}.",
        "\n".join(f"{kind}: {what}." for kind, what in KINDS.items()) + " How to read this: `benchmarks/README.md`.",
    ])  # fmt: skip
    print(report)
    options.save.mkdir(parents=True, exist_ok=True)
    name = f"{datetime.now(UTC):%Y-%m-%d}"
    (options.save / f"{name}.md").write_text(report + "\n", "utf-8")
    panels = {
        f"{mode}: {KINDS['text']}": {
            who: cases["text", mode] for who, cases in costs.items() if ("text", mode) in cases
        }
        for mode in MODES
    }
    caption = f"Median of {options.rounds} rounds, logarithmic. {about.partition('. ')[0]}."
    chart = bar_chart("Processor time a chunk", caption, panels, "µs", "midstream")
    (options.save / f"{name}.svg").write_text(chart, "utf-8")
    print(f"\ntook {time.monotonic() - began:.0f} s; written to {options.save}", file=sys.stderr)


if __name__ == "__main__":
    main()
