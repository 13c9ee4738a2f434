"""midstream's gateway beside others, over loopback, in turns. Run `make bench-gateway`.

Each gateway has one worker on a processor of its own; the load and the upstream share the other one. A gateway's processor time
is read from /proc, so requests a processor-second hold on a busy machine too. The table goes to `benchmarks/results/`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from ..measure import Row, misses, table
from ..processes import Failed, Upstream, Worker
from .contenders import (
    CONTENDERS,
    DIRECT,
    LITELLM,
    LITELLM_PROXY,
    NPM,
    OURS,
    OURS_FROM_MESSAGES,
    PORTKEY,
    ROUTER,
    TENSORZERO,
    Contender,
    NotInstalled,
    Setting,
)
from .running import RunningGateway, cores, free_port
from .work import BODIES, HOLD, JSON, LIVE, STREAM, STREAMS, Work

RESULTS = Path(__file__).parent.parent / "results"
BUSY = 16
"""Connections at once."""
OPEN = 1_000
"""Streams that are open at once where memory is measured; the first fifth is not counted, for it fills what is kept anyway."""


class Found(msgspec.Struct):
    """What one kind of work cost, in one run."""

    rate: float
    """Answers a second."""
    processor: float
    """Microseconds of the gateway's processor time an answer."""
    p50: float
    p99: float
    failed: int


class Report:
    """Everything found, by contender and work: the best of its runs, for noise only ever adds."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Found]] = {}
        self.memory: dict[str, float] = {}
        self.idle: dict[str, float] = {}
        self.failures: dict[str, str] = {}

    def add(self, name: str, kind: str, found: Found) -> None:
        known = self.found.setdefault(name, {})
        before = known.get(kind)
        if before is not None:
            found = Found(
                max(before.rate, found.rate),
                min(before.processor, found.processor),
                min(before.p50, found.p50),
                min(before.p99, found.p99),
                before.failed + found.failed,
            )
        known[kind] = found

    def value(self, name: str, kind: str, field: str) -> float | None:
        found = self.found.get(name, {}).get(kind)
        return None if found is None else getattr(found, field)


class Race:
    def __init__(self, upstream: Upstream, load: Worker, report: Report) -> None:
        self._upstream = upstream
        self._load = load
        self._report = report
        self.running: dict[str, RunningGateway] = {}

    def start(self, contender: Contender, folder: Path, core: set[int]) -> None:
        setting = Setting(folder, free_port(), self._upstream.base)
        try:
            gateway = RunningGateway(contender, setting, core)
        except NotInstalled as missing:
            self._report.failures[contender.name] = str(missing)
            return
        try:
            gateway.ready()
        except Failed as failure:
            gateway.end()
            self._report.failures[contender.name] = str(failure)
            return
        self.running[contender.name] = gateway
        self._report.idle[contender.name] = gateway.kilobytes() / 1024

    def measure(self, contender: Contender, kind: str, work: Work, connections: int, seconds: float) -> None:
        gateway = self.running.get(contender.name)
        if gateway is None and contender.launch is not None:
            return
        setting = gateway.setting if gateway else Setting(Path(), _port(self._upstream), self._upstream.base)
        before = gateway.processor_seconds() if gateway else 0.0
        told = self._order(setting.port, contender.request(setting, work), connections, seconds)
        spent = gateway.processor_seconds() - before if gateway else 0.0
        failed = int(told["refused"] + told["lost"])
        if not told["answered"]:
            self._report.failures[contender.name] = f"{kind}: none of {failed} requests was answered"
            return
        count = told["answered"]
        self._report.add(
            contender.name,
            kind,
            Found(count / told["seconds"], spent / count * 1e6, told["p50"] * 1e3, told["p99"] * 1e3, failed),
        )

    def hold(self, contender: Contender) -> None:
        """Kilobytes that one open stream takes."""
        gateway = self.running.get(contender.name)
        if gateway is None:
            return
        request = contender.request(gateway.setting, HOLD)
        try:
            held = {}
            for count in (OPEN // 5, OPEN - OPEN // 5):
                told = self._order(gateway.setting.port, request, count, 0)
                if told["refused"] or told["lost"]:
                    why = f"{told['refused']:.0f} refused, {told['lost']:.0f} without an answer"
                    self._report.failures[f"{contender.name}, {OPEN:,} open streams"] = why
                    return
                time.sleep(1)
                held[count] = gateway.kilobytes()
            self._report.memory[contender.name] = (held[OPEN - OPEN // 5] - held[OPEN // 5]) / (OPEN - OPEN // 5)
        finally:
            self._order(gateway.setting.port, b"", 0, 0)

    def _order(self, port: int, request: bytes, connections: int, seconds: float) -> dict[str, float]:
        order = {"port": port, "request": request.decode(), "connections": connections, "seconds": seconds}
        self._load.say(json.dumps(order))
        told: dict[str, float] = json.loads(self._load.hear())
        return told


def _port(upstream: Upstream) -> int:
    return int(upstream.base.rpartition(":")[2])


def main() -> None:
    arguments = _arguments()
    chosen = [each for each in CONTENDERS if not arguments.only or any(part in each.name for part in arguments.only)]
    ours, theirs = cores()
    before = os.getloadavg()[0]
    os.sched_setaffinity(0, ours)
    report = Report()
    with ExitStack() as stack:
        upstream = stack.enter_context(Upstream(STREAMS, bodies=BODIES))
        load = Worker([sys.executable, "-m", "benchmarks.gateway.load"])
        stack.callback(load.end)
        load.hear()
        race = Race(upstream, load, report)
        for contender in chosen:
            if contender.launch is not None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                _say(f"starting {contender.name} …")
                race.start(contender, folder, theirs)
                if contender.name in race.running:
                    stack.callback(race.running[contender.name].end)
                else:
                    _say(f"{contender.name}: {report.failures[contender.name]}")
        for round_ in range(arguments.rounds + 1):
            seconds = arguments.seconds if round_ else 0.5  # the first one warms everybody up
            for contender in chosen:
                if not round_:
                    report.found.pop(contender.name, None)
                for kind, work, connections in CASES:
                    race.measure(contender, kind, work, connections, seconds)
                if not round_:
                    report.found.pop(contender.name, None)
                elif contender.name in report.found:
                    _say(f"{round_}: {contender.name}: {_brief(report, contender.name)}")
        for contender in chosen:
            race.hold(contender)
    lines = _lines(report, [each.name for each in chosen], upstream.kind, before, arguments)
    print("\n".join(lines))
    if arguments.write:
        path = RESULTS / f"gateway-{datetime.now(UTC):%Y-%m-%d}.md"
        path.write_text("\n".join(lines) + "\n")
        _say(f"written to {path}")


CASES = (("json", JSON, BUSY), ("stream", STREAM, BUSY), ("live", LIVE, BUSY), ("alone", JSON, 1))
_EVENTS = {OURS_FROM_MESSAGES: len(STREAMS["chat-stream"]), ROUTER: len(STREAMS["chat-stream"])}


def _events(name: str) -> int:
    """How many events the upstream sends in one stream."""
    return _EVENTS.get(name, len(STREAMS["messages-stream"]))


def _brief(report: Report, name: str) -> str:
    parts = [
        f"{kind} {found.rate:,.0f}/s {found.processor:,.0f} µs p50 {found.p50:.2f}"
        for kind, found in report.found[name].items()
    ]
    failed = sum(found.failed for found in report.found[name].values())
    return "; ".join(parts) + (f"; {failed} FAILED" if failed else "")


def _lines(
    report: Report, names: Sequence[str], upstream: str, load: float, arguments: argparse.Namespace
) -> list[str]:
    told = ", ".join(f"{name} {which}" for name, which in _versions().items())
    lines = [
        "# midstream's gateway beside others",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python {platform.python_version()}, upstream in {upstream}, load "
        f"{load:.1f} before the run and {os.getloadavg()[0]:.1f} at its end, best of {arguments.rounds} rounds of "
        f"{arguments.seconds:g} s. {told}.",
        "",
        f"| one worker | JSON, {BUSY} at once | | | streams of 100, {BUSY} at once | | live, a chunk each 2 ms | added by it | memory | |",
        "|:--|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        "| | a second | µs a request | p99 ms | a second | µs a chunk | µs a chunk | p50 ms, one at a time "
        "| KB an open stream | MB idle |",
    ]
    alone = report.value(DIRECT, "alone", "p50")
    for name in names:
        if name in report.failures and name not in report.found:
            lines.append(f"| {name} | could not run: {report.failures[name]} | | | | | | | | |")
            continue
        cells = _cells(report, name, alone)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    rows = _goals(report)
    lines += ["", table(rows)] if rows else []
    missed = misses(rows)
    lines += (
        ["", f"Missed: {'; '.join(missed)}." if missed else "Every goal that could be measured is met."] if rows else []
    )
    for name, why in report.failures.items():
        lines += ["", f"{name}: {why}"]
    failed = {name: sum(each.failed for each in found.values()) for name, found in report.found.items()}
    for name, count in failed.items():
        if count:
            lines += ["", f"{name}: {count} requests failed"]
    lines += ["", "How to read this: `benchmarks/README.md`."]
    return lines


def _cells(report: Report, name: str, alone: float | None) -> list[str]:
    def cell(kind: str, field: str, shape: str, scale: float = 1) -> str:
        value = report.value(name, kind, field)
        return "-" if value is None or (field == "processor" and not value) else format(value / scale, shape)

    p50 = report.value(name, "alone", "p50")
    events = _events(name)
    return [
        cell("json", "rate", ",.0f"),
        cell("json", "processor", ",.0f"),
        cell("json", "p99", ".1f"),
        cell("stream", "rate", ",.0f"),
        cell("stream", "processor", ".2f", events),
        cell("live", "processor", ".1f", events),
        "-" if p50 is None or alone is None or name == DIRECT else f"{p50 - alone:.2f}",
        f"{report.memory[name]:.1f}" if name in report.memory else "-",
        f"{report.idle[name]:.0f}" if name in report.idle else "-",
    ]


GOALS: Mapping[str, Mapping[str, float]] = {
    TENSORZERO: {"json": 2, "stream": 6},
    PORTKEY: {"json": 10, "stream": 10},
    LITELLM_PROXY: {"json": 50, "stream": 50},
    ROUTER: {},
}
_KINDS = {"json": "JSON", "stream": "streams"}


def _goals(report: Report) -> list[Row]:
    rows = []
    for rival, goals in GOALS.items():
        ours = OURS_FROM_MESSAGES if rival == ROUTER else OURS
        for kind, told in _KINDS.items():
            mine, other = report.found.get(ours, {}).get(kind), report.found.get(rival, {}).get(kind)
            if mine is None or other is None:
                continue
            aside = f"{mine.rate / other.rate:.1f} × by the clock"
            value = other.processor / mine.processor
            rows.append(Row(f"{told} a processor-second, beside {rival}", value, "×", goals.get(kind), True, aside))
    return rows


def _versions() -> dict[str, str]:
    found = {}
    for package in ("uvicorn", "httptools", "uvloop", "msgspec", "tensorzero"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    for package in ("@portkey-ai/gateway", "@musistudio/claude-code-router"):
        path = NPM / package / "package.json"
        found[package] = json.loads(path.read_text())["version"] if path.exists() else "not installed"
    python = LITELLM.with_name("python")
    if python.exists():
        done = _output([str(python), "-c", "import importlib.metadata as m; print(m.version('litellm'))"])
        found["litellm"] = done or "not installed"
    return found


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip()


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="parts of the names of those who take part (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each kind of work, in each round")
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/results")
    return parser.parse_args()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
