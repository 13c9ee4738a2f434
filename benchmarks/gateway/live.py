"""What recording live traffic costs the gateway: `python -m benchmarks.gateway.live`.

Three gateways take turns, each asked 500 times a second, or as often as it can answer: one that records nothing, one that records, and one whose page is open
besides, reading the stream of news. A figure is the median over rounds of processor time an answer, beside that of the first; at
most a tenth may be added.
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
from http.client import HTTPConnection
from pathlib import Path

from ..measure import Row, misses, table
from ..processes import Upstream, Worker
from .contenders import OUR_KEY, Contender, Launch, Setting, midstream
from .running import RunningGateway, cores, free_port
from .work import BODIES, CHAT_TO_MESSAGES, JSON, LIVE, STREAM, STREAMS, Work

ROUNDS = 5
SECONDS = 6.0
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


def main() -> int:
    ours, theirs = cores()
    os.sched_setaffinity(0, ours)
    taken: dict[tuple[str, str], list[float]] = {}
    rates: dict[str, list[float]] = {}
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
        for round_ in range(ROUNDS + 1):
            for kind, work in CASES:
                for contender in CONTENDERS:
                    gateway = running[contender.name]
                    before = gateway.processor_seconds()
                    order = {
                        "port": gateway.setting.port,
                        "request": contender.request(gateway.setting, work).decode(),
                        "connections": BUSY,
                        "seconds": SECONDS if round_ else 0.5,
                        "rate": RATE,
                    }
                    load.say(json.dumps(order))
                    told = json.loads(load.hear())
                    spent = gateway.processor_seconds() - before
                    assert told["answered"] and not told["refused"] + told["lost"], told
                    if round_:  # the first one warms everybody up
                        rates.setdefault(kind, []).append(told["answered"] / told["seconds"])
                        taken.setdefault((contender.name, kind), []).append(spent / told["answered"] * 1e6)
        assert watcher.bytes, "the page was told nothing"
    rows = []
    for kind, _ in CASES:
        base = statistics.median(taken[OFF, kind])
        # A machine that is busy, or slow at long streams, answers fewer: of fewer more are recorded whole, so that is no advantage.
        asked = f"{min(rates[kind]):.0f} to {max(rates[kind]):.0f} answers a second"
        rows.append(Row(f"{kind}, {OFF}", base, "µs an answer", aside=asked))
        for name in (ON, WATCHED):
            ratio = statistics.median(taken[name, kind]) / base
            rows.append(Row(f"{kind}, {name}", ratio, "times", GOAL, aside=f"{ROUNDS} alternating runs, median"))
    print(table(rows))
    return 1 if misses(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
