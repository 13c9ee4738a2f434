"""How long the command takes to start, beside other programs of its kind: `--help`, one question, a chat up to its prompt.

Run `make bench-start`. Each figure is of a fresh process, the programs take turns, and the first round only warms the disk.
The host is a loopback server that answers one streamed line. `cpu` is what the process used (children included), which a busy
machine does not change; `clock` is what a human waits. The goal is half of what each other program takes, by both.
"""

from __future__ import annotations

import argparse
import os
import pty
import resource
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from .measure import Row, misses, table

RESULTS = Path(__file__).parent / "results"
PATIENCE = 60.0
_SAID = "The Danube, the Rhine and the Elbe."
_CHUNK = (
    'data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"bench","choices":[{"index":0,"delta":'
    '{"role":"assistant","content":"' + _SAID + '"},"finish_reason":null}]}\n\n'
    'data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"bench","choices":[{"index":0,"delta":{},'
    '"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
_ANSWER = (
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n"
    f"content-length: {len(_CHUNK.encode())}\r\n\r\n{_CHUNK}"
).encode()
HELP, FIRST_BYTE, ANSWERED, PROMPT = (
    "--help",
    "a question, until it is sent",
    "a question, answered",
    "chat, up to its prompt",
)


class Cost(msgspec.Struct, frozen=True):
    """Milliseconds."""

    cpu: float
    clock: float


class Program(msgspec.Struct, frozen=True):
    """How a program is started for each measurement, and the bytes that its prompt begins with."""

    name: str
    help: tuple[str, ...]
    ask: tuple[str, ...]
    chat: tuple[str, ...]
    prompt: bytes
    environ: dict[str, str]


class Host:
    """An OpenAI-compatible host that gives every question the same answer, and notes when a request began to arrive."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{self._server.getsockname()[1]}/v1"
        self.began = 0.0
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            with client:
                client.settimeout(PATIENCE)
                data = client.recv(1)
                self.began = time.perf_counter()
                while data and not _is_whole(data):
                    data += client.recv(65536)
                client.sendall(_ANSWER)


def _is_whole(request: bytes) -> bool:
    head, blank, body = request.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(blank) and len(body) >= int(lengths[0] if lengths else 0)


def midstream(home: Path, host: Host) -> Program:
    home.mkdir()
    (home / "config.toml").write_text(
        f'[providers.bench]\nlike = "openai-compatible"\nbase_url = "{host.base}"\napi_key_env = "BENCH_KEY"\n'
    )
    run = (_beside_python("midstream"),)
    model = ("-m", "bench/model")
    return Program(
        "midstream",
        (*run, "--help"),
        (*run, "ask", "Three rivers?", *model),
        (*run, "chat", *model),
        "›".encode(),
        {"MIDSTREAM_HOME": str(home), "BENCH_KEY": "key"},
    )


def llm(home: Path, host: Host) -> Program:
    home.mkdir()
    (home / "extra-openai-models.yaml").write_text(
        f'- model_id: bench\n  model_name: model\n  api_base: "{host.base}"\n  api_key_name: bench\n'
    )
    (home / "keys.json").write_text('{"bench": "key"}')
    run = (_beside_python("llm"),)
    return Program(
        "llm",
        (*run, "--help"),
        (*run, "prompt", "Three rivers?", "-m", "bench"),
        (*run, "chat", "-m", "bench"),
        b"> ",
        {"LLM_USER_PATH": str(home)},
    )


def kimi(home: Path, host: Host) -> Program:
    """kimi-cli needs a newer Python than midstream does, and lives in an environment of its own. Its last releases only tell
    of its successor, and without arguments install that: scripts/install-bench-start takes one from before."""
    home.mkdir()
    found = shutil.which("kimi", path=str(Path(sys.prefix + "-newer") / "bin"))
    if found is None:
        raise FileNotFoundError("kimi-cli is not installed (it needs Python 3.13)")
    settings = home / "config.toml"
    settings.write_text(
        'default_model = "bench"\ntelemetry = false\n'
        '[models.bench]\nprovider = "bench"\nmodel = "model"\nmax_context_size = 100000\n'
        f'[providers.bench]\ntype = "openai_legacy"\nbase_url = "{host.base}"\napi_key = "key"\n'
    )
    run = (found, "--config-file", str(settings))
    return Program(
        "kimi-cli",
        (found, "--help"),
        (*run, "--quiet", "-p", "Three rivers?"),
        run,
        b"\x1b[?2004h",  # its prompt takes keys from here on; what it looks like depends on the model
        {"HOME": str(home), "KIMI_CLI_NO_AUTO_UPDATE": "1"},
    )


def measured(program: Program, what: str, host: Host, folder: Path) -> Cost:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ |= {**program.environ, "TERM": "xterm-256color"}
    if what == PROMPT:
        return _to_prompt(program, environ, folder)
    command = program.help if what == HELP else program.ask
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        env=environ,
        cwd=folder,
    )
    ended, after = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0 or (what != HELP and _SAID.encode() not in done.stdout):
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise RuntimeError(f"{program.name} failed: {words[-1] if words else done.returncode}")
    clock = (host.began if what == FIRST_BYTE else ended) - began
    return Cost(_used(before, after), clock * 1e3)


def _to_prompt(program: Program, environ: dict[str, str], folder: Path) -> Cost:
    """In a terminal, until the prompt is on the screen; then the process is ended."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    master, slave = pty.openpty()
    process = subprocess.Popen(
        program.chat, stdin=slave, stdout=slave, stderr=slave, env=environ, cwd=folder, start_new_session=True
    )
    os.close(slave)
    seen, deadline = b"", began + PATIENCE
    try:
        while program.prompt not in seen:
            if not select.select([master], [], [], max(0.0, deadline - time.perf_counter()))[0]:
                raise RuntimeError(f"{program.name} shows no prompt: {seen[-200:]!r}")
            try:
                seen += os.read(master, 65536)
            except OSError:
                raise RuntimeError(f"{program.name} ended before its prompt: {seen[-200:]!r}") from None
        ended = time.perf_counter()
    finally:
        process.kill()
        process.wait()
        os.close(master)
    return Cost(_used(before, resource.getrusage(resource.RUSAGE_CHILDREN)), (ended - began) * 1e3)


def _used(before: resource.struct_rusage, after: resource.struct_rusage) -> float:
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def _beside_python(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        raise FileNotFoundError(f"{name} is not installed")
    return found


def race(rounds: int) -> tuple[dict[str, dict[str, Cost]], dict[str, str]]:
    """Medians of each program and measurement; and why a program did not take part."""
    host = Host()
    out: dict[str, str] = {}
    programs: list[Program] = []
    with tempfile.TemporaryDirectory() as folder:
        makers: Sequence[Callable[[Path, Host], Program]] = (midstream, llm, kimi)
        for make in makers:
            try:
                programs.append(make(Path(folder, make.__name__), host))
            except FileNotFoundError as error:
                out[make.__name__] = str(error)
        work = Path(folder, "work")
        work.mkdir()
        taken: dict[str, dict[str, list[Cost]]] = {
            program.name: {what: [] for what in (HELP, FIRST_BYTE, ANSWERED, PROMPT)} for program in programs
        }
        for number in range(rounds + 1):
            for what in (HELP, FIRST_BYTE, ANSWERED, PROMPT):
                for program in programs:
                    if program.name in out:
                        continue
                    try:
                        cost = measured(program, what, host, work)
                    except (RuntimeError, subprocess.TimeoutExpired) as error:
                        out[program.name] = str(error)
                        continue
                    if number:
                        taken[program.name][what].append(cost)
            print(f"round {number} of {rounds} done", file=sys.stderr, flush=True)
    host.close()
    costs = {
        name: {what: _median(each) for what, each in measurements.items()}
        for name, measurements in taken.items()
        if name not in out
    }
    return costs, out


def _median(costs: list[Cost]) -> Cost:
    return Cost(statistics.median([cost.cpu for cost in costs]), statistics.median([cost.clock for cost in costs]))


def rows(costs: dict[str, dict[str, Cost]], out: dict[str, str]) -> list[Row]:
    found: list[Row] = []
    ours = costs["midstream"]
    for what, cost in ours.items():
        found.append(Row(f"midstream, {what}", cost.cpu, "ms of cpu", aside=f"{cost.clock:.0f} ms by the clock"))
        for name, theirs in costs.items():
            if name == "midstream":
                continue
            other = theirs[what]
            found.append(Row(f"{name}, {what}", other.cpu, "ms of cpu", aside=f"{other.clock:.0f} ms by the clock"))
            # Until the first byte, only the clock was stopped: the process went on to the end.
            if what != FIRST_BYTE:
                found.append(Row(f"midstream beside {name}, {what}: cpu", cost.cpu / other.cpu, "×", 0.5))
            found.append(Row(f"midstream beside {name}, {what}: clock", cost.clock / other.clock, "×", 0.5))
    return [*found, *[Row(f"{name} did not run", None, aside=why) for name, why in out.items()]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/results/")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    costs, out = race(options.rounds)
    if "midstream" not in costs:
        raise SystemExit(f"midstream did not run: {out['midstream']}")
    found = rows(costs, out)
    about = (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python {sys.version.split()[0]}, load {load:.1f} before the run, "
        f"medians of {options.rounds} rounds that take turns."
    )
    report = "\n\n".join(
        ["# Starting, beside other programs", about, table(found), f"Missed: {'; '.join(misses(found)) or 'nothing'}."]
    )
    print(report)
    if options.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"start-{datetime.now(UTC):%Y-%m-%d}.md").write_text(report + "\n", "utf-8")


if __name__ == "__main__":
    main()
