"""The clients that the doubles are judged by, each a process that is told what to do in lines of JSON."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

_HERE = Path(__file__).parent
_DATA = _HERE.parent / "data" / "e2e"
_PATIENCE = 120.0


class Row(msgspec.Struct, frozen=True):
    """One client at one provider. `thinking` is the provider and model that think, where they are others; `lacks` are the
    features that it does not have, with the reason."""

    name: str
    driver: str
    provider: str
    model: str
    stop: str
    environment: str = ""
    host: str = ""
    path: str = ""
    thinking: tuple[str, str] | None = None
    bad_key: int = msgspec.field(default=401, name="401")
    """The status of a bad key: Gemini's is 400, with the reason API_KEY_INVALID."""
    lacks: dict[str, str] = {}
    also: tuple[str, ...] = ()
    """The features that only it has."""

    def target(self, feature: str) -> tuple[str, str]:
        return self.thinking if self.thinking and feature.startswith("thinking") else (self.provider, self.model)


CLIENTS = msgspec.json.decode((_DATA / "clients.json").read_bytes(), type=list[Row])
KNOWN_FAILURES: dict[str, dict[str, str]] = json.loads((_DATA / "known_failures.json").read_bytes())


class NotInstalled(Exception):
    """The client is not there; says what to run."""


class Driver:
    """A running client."""

    def __init__(self, row: Row, home: Path) -> None:
        environ = {
            "PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "NO_PROXY": "*", "no_proxy": "*",
            "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        self._start = partial(
            subprocess.Popen, _command(row), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
        )
        self._process: subprocess.Popen[str] = self._start()

    def ask(self, **case: Any) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._process.stdout, selectors.EVENT_READ)
            if not waiting.select(_PATIENCE):
                # The next feature gets a client that works: what hangs fails alone.
                self._end()
                self._process = self._start()
                raise AssertionError(f"the client said nothing for {_PATIENCE:g} s")
        line = self._process.stdout.readline()
        assert line, f"the client died with status {self._process.wait()}"
        return dict(json.loads(line))

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._end()
        self._process.stdout.close()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()


def _command(row: Row) -> list[str]:
    if row.environment == "npm":
        node = shutil.which("node")
        if node is None:
            raise NotInstalled("node is missing: run `make e2e-tools`, then `make test-e2e`")
        if not (_HERE / "npm" / "node_modules" / "ai").is_dir():
            raise NotInstalled("the npm packages are missing: run `make test-e2e`, which installs them")
        return [node, str(_HERE / "npm" / row.driver)]
    python = sys.executable
    if row.environment:
        python = str(Path(f"{sys.prefix}-{row.environment}") / "bin" / "python")
        if not Path(python).exists():
            raise NotInstalled(f"{row.environment} is missing: run `make test-e2e`, which installs it")
    return [python, str(_HERE / "drivers" / row.driver)]
