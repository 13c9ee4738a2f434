"""The processes of a benchmark: the upstream, and one process a client, each bounded in time and ended by its own handle."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

_HERE = Path(__file__).parent
_PATIENCE = 90.0
"""Seconds that one order may take; after it the process is given up."""


class Failed(Exception):
    """A process did not do what it was asked; the message is its last line."""


class Worker:
    """Lines in, lines out; a line that does not come in time ends it."""

    def __init__(self, command: list[str], environ: Mapping[str, str] | None = None) -> None:
        self._noise = tempfile.TemporaryFile()  # noqa: SIM115
        self._given_up = False
        self._inner = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._noise,
            text=True,
            env={**os.environ, **(environ or {})},
        )

    def say(self, line: str) -> None:
        assert self._inner.stdin is not None
        try:
            self._inner.stdin.write(line + "\n")
            self._inner.stdin.flush()
        except OSError:
            pass  # it is gone, and `hear` says why

    def hear(self) -> str:
        assert self._inner.stdout is not None
        watchdog = threading.Timer(_PATIENCE, self._give_up)
        watchdog.start()
        line = self._inner.stdout.readline()
        watchdog.cancel()
        if not line:
            raise Failed(f"no answer in {_PATIENCE:.0f} s" if self._given_up else self._last_words())
        return line

    def _give_up(self) -> None:
        self._given_up = True
        self._inner.kill()

    def end(self) -> None:
        assert self._inner.stdin is not None
        try:
            self._inner.stdin.close()
        except OSError:
            pass  # it is gone
        try:
            self._inner.wait(5)
        except subprocess.TimeoutExpired:
            self._inner.kill()
            self._inner.wait()
        if self._inner.stdout is not None:
            self._inner.stdout.close()
        self._noise.close()

    def _last_words(self) -> str:
        if self._inner.poll() is None:
            self._inner.kill()
        self._inner.wait()
        self._noise.seek(0)
        lines = self._noise.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:200] if lines else "it ended without a word"


class Upstream:
    """Serves answers on loopback: compiled where there is a Rust compiler, in Python otherwise and for TLS.

    `base` is its address, `environ` what a client needs to trust it. `bodies` are answers of one JSON body. Without the
    `openssl` command there is no TLS: Failed.
    """

    def __init__(
        self, answers: dict[str, list[bytes]], *, bodies: Mapping[str, bytes] | None = None, tls: bool = False
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        for name, events in answers.items():
            (folder / f"{name}.sse").write_bytes(b"".join(events))
        for name, body in (bodies or {}).items():
            (folder / f"{name}.json").write_bytes(body)
        certificate = _certificate(folder) if tls else None
        program = None if tls else _compiled(folder)
        self.kind = "Rust" if program else "Python"
        command = [str(program)] if program else [sys.executable, "-m", "benchmarks.upstream.plain"]
        self._process = Worker([*command, str(folder), *([str(certificate)] if certificate else [])])
        self.base = f"{'https' if tls else 'http'}://127.0.0.1:{int(self._process.hear())}"
        self.environ = {"SSL_CERT_FILE": str(certificate)} if certificate else {}

    def __enter__(self) -> Upstream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.end()
        self._folder.cleanup()


def _certificate(folder: Path) -> Path:
    """A certificate for this address that signs itself, with its key."""
    if shutil.which("openssl") is None:
        raise Failed("openssl is not installed")
    both, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(both)],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    with both.open("ab") as file:
        file.write(key.read_bytes())
    return both


def _compiled(folder: Path) -> Path | None:
    compiler = shutil.which("rustc")
    if compiler is None:
        return None
    program = folder / "upstream"
    source = str(_HERE / "upstream" / "main.rs")
    done = subprocess.run([compiler, "-O", "-o", str(program), source], capture_output=True, timeout=120, check=False)
    return program if done.returncode == 0 else None


class Contender:
    """A client in its own process: on this event loop, with this interpreter, and with the code of this checkout if one is
    named."""

    def __init__(
        self,
        name: str,
        upstream: Upstream,
        *,
        loop: str = "asyncio",
        python: Path | None = None,
        checkout: Path | None = None,
    ) -> None:
        self.name = name
        environ = upstream.environ if checkout is None else {**upstream.environ, "PYTHONPATH": str(checkout / "src")}
        command = [str(python or sys.executable), "-m", "benchmarks.contender", name, upstream.base, loop]
        self._process = Worker(command, environ)

    def ready(self) -> None:
        self._process.hear()

    def read(self, payload: str, mode: str, times: int) -> float:
        """Processor seconds of reading this answer so many times."""
        answer = self._ordered({"payload": payload, "mode": mode, "times": times})
        if not answer["seen"]:
            raise Failed("it read nothing")
        return float(answer["cpu"])

    def hold(self, payload: str, count: int) -> float:
        """Kilobytes of memory for each of so many open answers. It is of no more use afterwards."""
        return float(self._ordered({"payload": payload, "mode": "hold", "open": count})["kilobytes"])

    def end(self) -> None:
        self._process.end()

    def _ordered(self, order: dict[str, object]) -> dict[str, Any]:
        self._process.say(json.dumps(order))
        answer: dict[str, Any] = json.loads(self._process.hear())
        return answer
