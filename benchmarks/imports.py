"""What starting costs: processor time and peak memory of a fresh process, for imports and for the command.

`python -m benchmarks.imports` prints it alone. Every figure is of a second start: Python has written its bytecode by then.
"""

from __future__ import annotations

import argparse
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from .measure import Row, misses, table

_PROGRAM = """
import time
start, began = time.process_time(), time.perf_counter()
{statement}
taken, waited = time.process_time() - start, time.perf_counter() - began
# VmHWM is this program's own peak; ru_maxrss would begin with that of whoever started it.
try:
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
except (OSError, StopIteration):
    import resource
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(taken, waited, peak)
"""

# midstream imports a name, and a wire, when it is first asked for, so the bare import says little; the wires are the honest row.
_WIRES = "from midstream.wires.registry import WIRES; [w.room(r) for w in WIRES.values() for r in ('encode', 'decode')]"
_READY = "from midstream import Client; import midstream.transport.connection_pool"
CLIENT, ALL_WIRES, HELP, ASK = (
    "midstream's Client",
    "midstream's codec, every wire",
    "midstream --help",
    "midstream ask, until its first byte is sent",
)
STATEMENTS = {
    "python alone": "pass",
    "asyncio alone": "import asyncio",
    "midstream": "import midstream",
    CLIENT: "from midstream import Client",
    "midstream's Client, with its HTTP client": _READY,
    ALL_WIRES: f"from midstream import decode_stream, encode_request; {_WIRES}",
    "openai": "import openai; openai.AsyncOpenAI",
    "anthropic": "import anthropic; anthropic.AsyncAnthropic",
    "litellm": "import os; os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'; import litellm",
    "pydantic-ai": "import pydantic_ai.models.openai",
}
GOALS = {"midstream": 60.0, CLIENT: 60.0, ALL_WIRES: 100.0, HELP: 150.0, ASK: 150.0}
"""Milliseconds of the processor; those of the command have the interpreter's own start in them."""


class ImportCost(msgspec.Struct, frozen=True):
    """`cpu` and `wall` in milliseconds: on a quiet machine they are about the same, on a busy one only the first counts."""

    cpu: float
    wall: float
    megabytes: float


def import_costs(rounds: int = 3, checkout: Path | None = None) -> dict[str, ImportCost | None]:
    """Medians of fresh processes that take turns; None for what cannot be imported. The first round only warms the disk."""
    taken: dict[str, list[ImportCost]] = {name: [] for name in STATEMENTS}
    broken: set[str] = set()
    environ = _environ(checkout)
    for number in range(rounds + 1):
        for name, statement in STATEMENTS.items():
            if name in broken or (checkout is not None and "midstream" not in statement):
                continue
            program = _PROGRAM.format(statement=statement)
            command = [sys.executable, "-c", program]
            done = subprocess.run(command, capture_output=True, timeout=120, check=False, env=environ)
            if done.returncode != 0:
                broken.add(name)
            elif number:
                cpu, wall, kilobytes = done.stdout.split()[-3:]
                taken[name].append(ImportCost(float(cpu) * 1e3, float(wall) * 1e3, int(kilobytes) / 1024))
    return {name: _median(costs) for name, costs in taken.items() if costs} | dict.fromkeys(broken)


def command_costs(rounds: int = 3, checkout: Path | None = None) -> dict[str, float]:
    """Milliseconds of the processor, of whole processes."""
    taken: dict[str, list[float]] = {HELP: [], ASK: []}
    for number in range(rounds + 1):
        for name, measured in ((HELP, _help_cost), (ASK, _ask_cost)):
            cost = measured(_environ(checkout))
            if number:
                taken[name].append(cost * 1e3)
    return {name: statistics.median(costs) for name, costs in taken.items()}


def import_rows(beside: Path | None = None) -> list[Row]:
    before = _before(beside) if beside else {}
    rows = []
    for name, cost in import_costs().items():
        if cost is None:
            rows.append(Row(f"import {name}", None, aside="it cannot be imported"))
            continue
        aside = f"{cost.wall:.0f} by the clock{before.get(name, '')}"
        rows.append(Row(f"import {name}", cost.cpu, "ms", GOALS.get(name), aside=aside))
        rows.append(
            Row(f"peak memory of import {name}", cost.megabytes, "MB", 30 if name in ("midstream", ALL_WIRES) else None)
        )
    rows += [
        Row(name, cost, "ms", GOALS[name], aside=before.get(name, "").removeprefix(", "))
        for name, cost in command_costs().items()
    ]
    return rows


def _before(checkout: Path) -> dict[str, str]:
    imports = {name: cost.cpu for name, cost in import_costs(3, checkout).items() if cost is not None}
    return {name: f", before: {cost:.0f}" for name, cost in {**imports, **command_costs(3, checkout)}.items()}


def _environ(checkout: Path | None) -> dict[str, str]:
    """Bytecode is written, as it is for users."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return environ if checkout is None else {**environ, "PYTHONPATH": str(checkout / "src")}


def _help_cost(environ: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(_command("--help"), capture_output=True, timeout=60, check=True, env=environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _ask_cost(environ: dict[str, str]) -> float:
    """A host that only listens: when the first byte has come, the kernel is asked what the process has used so far."""
    with (
        tempfile.TemporaryDirectory() as home,
        socket.create_server(("127.0.0.1", 0)) as host,
    ):
        place = f"http://127.0.0.1:{host.getsockname()[1]}/v1"
        Path(home, "config.toml").write_text(
            f'[providers.bench]\nlike = "openai"\nbase_url = "{place}"\napi_key_env = "BENCH_KEY"\n'
        )
        environ = {**environ, "MIDSTREAM_HOME": home, "BENCH_KEY": "key"}
        command = _command("ask", "Tell me of rivers.", "-m", "bench/gpt-4o")
        noise = tempfile.TemporaryFile()  # noqa: SIM115
        asking = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=noise, stderr=noise, env=environ)
        try:
            host.settimeout(30)
            client, _ = host.accept()
            with client:
                client.settimeout(30)
                client.recv(1)
                return _used(asking.pid)
        finally:
            asking.kill()
            asking.wait()


def _used(process: int) -> float:
    """Processor seconds of all threads so far, to the nanosecond."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from midstream.cli.main import main; main()", *arguments]


def _median(costs: list[ImportCost]) -> ImportCost:
    return ImportCost(
        statistics.median([cost.cpu for cost in costs]),
        statistics.median([cost.wall for cost in costs]),
        statistics.median([cost.megabytes for cost in costs]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", type=Path, help="another checkout of midstream, measured too")
    asked = parser.parse_args()
    rows = import_rows(asked.beside.resolve() if asked.beside else None)
    print(table(rows))
    print(f"\nmissed: {'; '.join(misses(rows)) or 'nothing'}")


if __name__ == "__main__":
    main()
