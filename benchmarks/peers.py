"""midstream beside other clients: processor time a chunk, over loopback, taken in turns.

Run `make bench`. Each client runs in its own process, which measures itself; the upstream is another. `burst` is the whole
answer in one write, `live` one event a write with a gap that every client can keep up with. Figures are medians. The table
and the chart go to `benchmarks/results/`. `--beside FOLDER` takes another checkout of midstream into the same run.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from .chart import bar_chart
from .codec import encoding
from .contender import ANTHROPIC_WIRE, HOLDERS
from .imports import import_rows
from .measure import Row, misses, table
from .payloads import anthropic_text, anthropic_tools, chat_text, chat_tools, chat_varying
from .processes import Contender, Failed, Upstream

RESULTS = Path(__file__).parent / "results"
ANSWERS = {
    "chat-text": chat_text(),
    "chat-varying": chat_varying(),
    "chat-tools": chat_tools(),
    "anthropic-text": anthropic_text(),
    "anthropic-tools": anthropic_tools(),
}
KINDS = {
    "text": "2,000 chunks of text in one envelope",
    "varying": "2,000 chunks of text, padding in each",
    "tools": "reasoning and three parallel calls, 2,000 chunks",
}
MODES = ("burst", "live")
CASES = tuple((kind, mode) for kind in KINDS for mode in MODES)
LEAST_GAP = 300
"""Microseconds between live events; a client that needs longer a chunk gets twice what it needs."""
OPEN = 1_000
"""How many answers are open at once where memory is measured."""
OURS, OURS_FAST, RAW = "midstream, stream", "midstream, stream, uvloop", "raw socket, asyncio"
BEFORE = "before: "
NEWER_PYTHON = Path(sys.prefix + "-newer") / "bin" / "python"
"""Where `make bench` installs what needs a newer Python than this one, if there is one."""

Case = tuple[str, str]
"""(kind, mode)"""
Costs = dict[str, dict[Case, float]]
"""Contender -> case -> microseconds a chunk."""


class Entry(msgspec.Struct, frozen=True):
    """A contender as it takes part. What is only of interest live, or in plain text, is left out of the rest."""

    client: str
    loop: str = "asyncio"
    tls: bool = False
    checkout: Path | None = None
    python: Path | None = None
    cases: tuple[Case, ...] = CASES

    @property
    def label(self) -> str:
        before = BEFORE if self.checkout else ""
        return f"{before}{self.client}{', TLS' if self.tls else ''}{', uvloop' if self.loop == 'uvloop' else ''}"


_PLAIN = tuple(case for case in CASES if case[0] != "varying")
_SLOW = tuple(case for case in CASES if case == ("text", "live") or case[1] == "burst")
_LIVE = (("text", "burst"), ("text", "live"))


def entries(beside: Path | None) -> list[Entry]:
    old = [Entry("midstream, stream", checkout=beside)] if beside else []
    return [
        Entry("midstream, stream"),
        Entry("midstream, stream", loop="uvloop"),
        Entry("midstream, batches"),
        Entry("midstream, anthropic", cases=_PLAIN),
        *old,
        Entry("raw socket, asyncio"),
        Entry("raw socket, streams", cases=_LIVE),
        Entry("raw socket, blocking", cases=_LIVE),
        Entry("aiohttp, bytes", cases=_LIVE),
        Entry("midstream, stream", tls=True, cases=_LIVE),
        Entry("midstream, stream", tls=True, loop="uvloop", cases=_LIVE),
        Entry("raw socket, asyncio", tls=True, cases=_LIVE),
        Entry("openai", cases=_SLOW),
        Entry("anthropic", cases=tuple(case for case in _SLOW if case[0] != "varying")),
        Entry("litellm", cases=_SLOW),
        Entry("pydantic-ai", cases=_SLOW),
        Entry("kosong", cases=_SLOW, python=NEWER_PYTHON if NEWER_PYTHON.exists() else None),
    ]


class Race:
    """All contenders, each against its upstream. One that fails is out, with its reason."""

    def __init__(self, plain: Upstream, tls: Upstream | None, taking_part: Sequence[Entry]) -> None:
        self.failures: dict[str, str] = {}
        self.found: dict[str, dict[Case, list[float]]] = {}
        self._gaps: dict[str, int] = {}
        self._contenders: dict[Entry, Contender] = {}
        for entry in taking_part:
            upstream = tls if entry.tls else plain
            if upstream is None:
                self.failures[entry.label] = "openssl is not installed"
                continue
            contender = _contender(entry, upstream)
            try:
                contender.ready()
            except Failed as failure:
                self._out(entry, contender, failure)
                continue
            self._contenders[entry] = contender
            self.found[entry.label] = {case: [] for case in entry.cases}

    def warm_up(self) -> None:
        for entry, contender in list(self._contenders.items()):
            try:
                for kind in dict(entry.cases):
                    self._cost(entry, contender, kind, "burst", 1)
                cost = self._cost(entry, contender, "text", "burst", 1)
                self._gaps[entry.label] = max(LEAST_GAP, round(2 * cost))
            except Failed as failure:
                self._out(entry, contender, failure)

    def round(self) -> None:
        for kind, mode in CASES:
            for entry, contender in list(self._contenders.items()):
                if (kind, mode) not in entry.cases:
                    continue
                quick = mode == "burst" and self._gaps[entry.label] == LEAST_GAP
                try:
                    cost = self._cost(entry, contender, kind, mode, 5 if quick else 1)
                except Failed as failure:
                    self._out(entry, contender, failure)
                    continue
                self.found[entry.label][kind, mode].append(cost)

    def medians(self) -> Costs:
        return {
            name: {case: statistics.median(values) for case, values in cases.items() if values}
            for name, cases in self.found.items()
        }

    def end(self) -> None:
        for contender in self._contenders.values():
            contender.end()

    def _cost(self, entry: Entry, contender: Contender, kind: str, mode: str, times: int) -> float:
        payload = f"{'anthropic' if entry.client in ANTHROPIC_WIRE else 'chat'}-{kind}"
        spelled = mode if mode == "burst" else f"live-{self._gaps[entry.label]}"
        return contender.read(payload, spelled, times) / times / len(ANSWERS[payload]) * 1e6

    def _out(self, entry: Entry, contender: Contender, failure: Failed) -> None:
        self.failures[entry.label] = str(failure)
        self.found.pop(entry.label, None)
        contender.end()
        self._contenders.pop(entry, None)


def _contender(entry: Entry, upstream: Upstream) -> Contender:
    return Contender(entry.client, upstream, loop=entry.loop, python=entry.python, checkout=entry.checkout)


def memory_rows(upstream: Upstream, taking_part: Sequence[Entry]) -> list[Row]:
    """What an answer that is being read takes, measured with many of them open at once."""
    rows = []
    for entry in taking_part:
        if entry.client not in HOLDERS or entry.tls:
            continue
        contender = _contender(entry, upstream)
        try:
            contender.ready()
            kilobytes = contender.hold("chat-text", OPEN)
            rows.append(Row(f"{entry.label}: memory of an open answer, of {OPEN:,}", kilobytes, "kB"))
        except Failed as failure:
            rows.append(Row(f"{entry.label}: memory of an open answer", None, aside=str(failure)))
        finally:
            contender.end()
    return rows


def cost_table(taking_part: Sequence[Entry], costs: Costs, failures: dict[str, str]) -> str:
    """Microseconds a chunk, and how many times ours that is; clients of the Anthropic wire beside ours of that wire."""
    lines = [
        "| µs of processor a chunk (× midstream's `stream`) | " + " | ".join(f"{k}, {m}" for k, m in CASES) + " |",
        "|:--|" + "--:|" * len(CASES),
    ]
    for entry in taking_part:
        name = entry.label
        if name in failures:
            lines.append(f"| {name} | not run: {failures[name]} |" + " |" * (len(CASES) - 1))
            continue
        ours = costs.get("midstream, anthropic" if entry.client in ANTHROPIC_WIRE else OURS, {})
        cells = [_cell(costs[name].get(case), ours.get(case)) for case in CASES]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(cost: float | None, ours: float | None) -> str:
    if cost is None:
        return "-"
    return f"{cost:.1f}" if not ours else f"{cost:.1f} ({cost / ours:.2g}×)"


def goals(costs: Costs) -> list[Row]:
    def cost(name: str, kind: str, mode: str) -> float | None:
        return costs.get(name, {}).get((kind, mode))

    rows = []
    for ours, live_goal in ((OURS, 2.1), (OURS_FAST, 1.6)):
        rows.append(Row(f"{ours}: burst, one envelope", cost(ours, "text", "burst"), "µs a chunk", 2))
        rows.append(Row(f"{ours}: burst, an envelope that varies", cost(ours, "varying", "burst"), "µs a chunk", 3))
        for peer, goal in (("openai", 100), ("litellm", 300)):
            ratio = _ratio(cost(peer, "text", "burst"), cost(ours, "text", "burst"))
            rows.append(Row(f"{ours}: burst, {peer} takes", ratio, "× as much", goal, at_least=True))
        for kind in ("text", "varying"):
            ratio = _ratio(cost(ours, kind, "live"), cost(RAW, kind, "live"))
            rows.append(Row(f"{ours}: live, {kind}, beside {RAW}", ratio, "×", live_goal))
    for ours, raw in (("midstream, stream, TLS", f"{RAW}, TLS"), ("midstream, stream, TLS, uvloop", f"{RAW}, TLS")):
        rows.append(
            Row(f"{ours}: live, beside {raw}", _ratio(cost(ours, "text", "live"), cost(raw, "text", "live")), "×")
        )
    for peer in ("openai", "litellm", BEFORE + OURS):
        ratio = _ratio(cost(peer, "text", "live"), cost(OURS, "text", "live"))
        if ratio is not None:
            rows.append(Row(f"{OURS}: live, {peer} takes", ratio, "× as much"))
    return rows


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below


def surroundings(upstream: str, load: float, rounds: int) -> str:
    versions = []
    for package in ("httptools", "uvloop", "msgspec", "aiohttp", "openai", "anthropic", "litellm", "pydantic-ai-slim"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"{package} not installed")
    if NEWER_PYTHON.exists():
        versions.append(_newer_version("kosong"))
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python {platform.python_version()}, upstream in {upstream}, "
        f"load {load:.1f} before the run, medians of {rounds} rounds. {', '.join(versions)}."
    )


def _newer_version(package: str) -> str:
    """The version of what is installed for the newer Python, and which Python that is."""
    program = f"import platform, importlib.metadata as m; print(m.version({package!r}), 'on Python', platform.python_version())"
    done = subprocess.run([NEWER_PYTHON, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    return f"{package} {done.stdout.strip() or 'not installed'}"


def measured(rounds: int, taking_part: Sequence[Entry]) -> tuple[Costs, dict[str, str], list[Row], str]:
    with ExitStack() as stack:
        plain = stack.enter_context(Upstream(ANSWERS))
        try:
            tls = stack.enter_context(Upstream(ANSWERS, tls=True))
        except Failed:
            tls = None
        race = Race(plain, tls, taking_part)
        try:
            race.warm_up()
            for number in range(rounds):
                race.round()
                print(f"round {number + 1} of {rounds} done", file=sys.stderr, flush=True)
        finally:
            race.end()
        return race.medians(), race.failures, memory_rows(plain, taking_part), plain.kind


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", type=Path, default=RESULTS, help="where the table and the chart go")
    parser.add_argument("--beside", type=Path, help="another checkout of midstream, measured in the same run")
    parser.add_argument(
        "--only", help="only the clients whose name begins so, and the raw socket; no imports, no encoding"
    )
    options = parser.parse_args()
    load, began = os.getloadavg()[0], time.monotonic()
    beside: Path | None = options.beside.resolve() if options.beside else None
    taking_part = entries(beside)
    if options.only:
        taking_part = [entry for entry in taking_part if entry.label.startswith((options.only, RAW))]
    costs, failures, memory, upstream = measured(options.rounds, taking_part)
    rows = [*goals(costs), *memory]
    if not options.only:
        rows += [*encoding(30), *import_rows(beside)]
    about = surroundings(upstream, load, options.rounds)
    report = "\n\n".join([
        "# midstream beside other clients",
        about,
        cost_table(taking_part, costs, failures),
        table(rows),
        f"Missed: {'; '.join(misses(rows)) or 'nothing'}.",
        "\n".join(f"{kind}: {what}." for kind, what in KINDS.items()) + " How to read this: `benchmarks/README.md`.",
    ])  # fmt: skip
    print(report)
    if options.only:
        return
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
