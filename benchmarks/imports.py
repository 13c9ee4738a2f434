"""What importing a client costs: processor time and peak memory of a fresh process."""

from __future__ import annotations

import statistics
import subprocess
import sys

import msgspec

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

# midstream imports a name, and a wire, when it is first asked for, so the bare import says little; all wires is the honest row.
STATEMENTS = {
    "python alone": "pass",
    "midstream": "import midstream",
    "midstream's codec, every wire": "from midstream import decode_stream, encode_request; "
    "from midstream.wires.registry import WIRES; [w.room(r) for w in WIRES.values() for r in ('encode', 'decode')]",
    "midstream's Client, with its HTTP client": "from midstream import Client; import midstream.transport.connection_pool",
    "openai": "import openai; openai.AsyncOpenAI",
    "anthropic": "import anthropic; anthropic.AsyncAnthropic",
    "litellm": "import os; os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'; import litellm",
    "pydantic-ai": "import pydantic_ai.models.openai",
}


class ImportCost(msgspec.Struct, frozen=True):
    """`cpu` and `wall` in milliseconds: on a quiet machine they are about the same, on a busy one only the first counts."""

    cpu: float
    wall: float
    megabytes: float


def import_costs(rounds: int = 3) -> dict[str, ImportCost | None]:
    """Medians of fresh processes that take turns; None for what cannot be imported. The first round only warms the disk."""
    taken: dict[str, list[ImportCost]] = {name: [] for name in STATEMENTS}
    broken: set[str] = set()
    for number in range(rounds + 1):
        for name, statement in STATEMENTS.items():
            if name in broken:
                continue
            program = _PROGRAM.format(statement=statement)
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120, check=False)
            if done.returncode != 0:
                broken.add(name)
            elif number:
                cpu, wall, kilobytes = done.stdout.split()[-3:]
                taken[name].append(ImportCost(float(cpu) * 1e3, float(wall) * 1e3, int(kilobytes) / 1024))
    return {name: _median(costs) if costs else None for name, costs in taken.items()}


def _median(costs: list[ImportCost]) -> ImportCost:
    return ImportCost(
        statistics.median([cost.cpu for cost in costs]),
        statistics.median([cost.wall for cost in costs]),
        statistics.median([cost.megabytes for cost in costs]),
    )
