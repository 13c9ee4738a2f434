"""What recording live traffic costs the gateway: `python -m benchmarks.gateway.live`.

Three gateways take turns, each asked 500 times a second, or as often as it can answer: one that records nothing, one that records,
and one whose page is open besides, reading the stream of news. A run is many short turns of each, so that a machine that is slow for a
while is slow for all three; its figure is processor time an answer beside that of the first. At most a tenth may be added, in the
median of the runs.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import sys
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from ..measure import Row, misses, table
from ..processes import Upstream, Worker
from .contenders import OUR_KEY, Contender, Launch, Setting, midstream
from .running import RunningGateway, cores, free_port
from .work import BODIES, CHAT_TO_MESSAGES, JSON, LIVE, STREAM, STREAMS, Work

RUNS = 5
TURNS = 6
SECONDS = 1.0
RATE = 500.0
BUSY = 64  # so many that the pace is kept where an answer takes long
GOAL = 1.10
CASES: tuple[tuple[str, Work], ...] = (
    ("whole answers", JSON),
    ("streams in one write", STREAM),
    ("streams as spoken", LIVE),
)
OFF, ON, WATCHED = "off", "recorded", "recorded and watched"


def _recorded(setting: Setting) -> Launch:
    launch = midstream(setting, CHAT_TO_MESSAGES)
    with (setting.folder / "gateway.toml").open("a") as config:
        config.write("\n[page]\nlive = true\n")
    return launch


CONTENDERS = (
    Contender(OFF, lambda setting: midstream(setting, CHAT_TO_MESSAGES), key=OUR_KEY),
    Contender(ON, _recorded, key=OUR_KEY),
    Contender(WATCHED, _recorded, key=OUR_KEY),
)


class Watcher:
    """A page that listens, without a browser's own cost."""

    def __init__(self, port: int) -> None:
        door = HTTPConnection("127.0.0.1", port, timeout=10)
        headers = {"content-type": "application/json", "authorization": f"Bearer {OUR_KEY}"}
        door.request("POST", "/web/api/session", b"{}", headers)
        session = json.loads(door.getresponse().read())["session"]
        door.close()
        self._socket = socket.create_connection(("127.0.0.1", port), 10)
        head = f"GET /web/api/live HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nx-midstream-session: {session}\r\n\r\n"
        self._socket.sendall(head.encode())
        self._socket.settimeout(None)
        self.bytes = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                data = self._socket.recv(1 << 20)
            except OSError:
                return
            if not data:
                return
            self.bytes += len(data)

    def end(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._socket.close()


@dataclass
class Spent:
    """What one gateway did in one run."""

    answers: int = 0
    seconds: float = 0.0
    processor: float = 0.0

    @property
    def micros(self) -> float:
        return self.processor / self.answers * 1e6


def _run(running: dict[str, RunningGateway], work: Work, load: Worker) -> dict[str, Spent]:
    spent = {name: Spent() for name in running}
    names = list(running)
    for turn in range(TURNS):
        # Each is as often first as last.
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            answers, seconds, processor = _ask(running[name], work, load)
            spent[name].answers += answers
            spent[name].seconds += seconds
            spent[name].processor += processor
    return spent


def _ask(gateway: RunningGateway, work: Work, load: Worker) -> tuple[int, float, float]:
    """For a moment, at the pace: how many answers, in how many seconds, at how many of the processor."""
    before = gateway.processor_seconds()
    request = gateway.contender.request(gateway.setting, work).decode()
    order = {"port": gateway.setting.port, "request": request, "connections": BUSY, "seconds": SECONDS, "rate": RATE}
    load.say(json.dumps(order))
    told = json.loads(load.hear())
    assert told["answered"] and not told["refused"] + told["lost"], told
    return told["answered"], told["seconds"], gateway.processor_seconds() - before


def main() -> int:
    ours, theirs = cores()
    os.sched_setaffinity(0, ours)
    with ExitStack() as stack:
        upstream = stack.enter_context(Upstream(STREAMS, bodies=BODIES))
        load = Worker([sys.executable, "-m", "benchmarks.gateway.load"])
        stack.callback(load.end)
        load.hear()
        running: dict[str, RunningGateway] = {}
        for contender in CONTENDERS:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            gateway = running[contender.name] = RunningGateway(
                contender, Setting(folder, free_port(), upstream.base), theirs
            )
            stack.callback(gateway.end)
            gateway.ready()
        watcher = Watcher(running[WATCHED].setting.port)
        stack.callback(watcher.end)
        # Once for all of them before anything is measured: the first requests of a program are slow.
        for _, work in CASES:
            for gateway in running.values():
                _ask(gateway, work, load)
        runs = [{kind: _run(running, work, load) for kind, work in CASES} for _ in range(RUNS)]
        assert watcher.bytes, "the page was told nothing"
    rows = []
    for kind, _ in CASES:
        of_kind = [run[kind] for run in runs]
        # A machine that is busy, or slow at long streams, answers fewer: of fewer more are recorded whole, so that is no advantage.
        rates = [run[OFF].answers / run[OFF].seconds for run in of_kind]
        asked = f"{min(rates):.0f} to {max(rates):.0f} answers a second"
        base = statistics.median([run[OFF].micros for run in of_kind])
        rows.append(Row(f"{kind}, {OFF}", base, "µs an answer", aside=asked))
        for name in (ON, WATCHED):
            ratios = sorted([run[name].micros / run[OFF].micros for run in of_kind])
            told = f"median of {RUNS} alternating runs: {', '.join([f'{ratio:.2f}' for ratio in ratios])}"
            rows.append(Row(f"{kind}, {name}", statistics.median(ratios), "times", GOAL, aside=told))
    print(table(rows))
    return 1 if misses(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
