"""A gateway in a process of its own, in front of doubles that run elsewhere: for tests that kill, stop and reload it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from midstream.client.catalog import Catalog
from midstream.gateway.assembly import AppOptions, GatewayApp
from midstream.gateway.config import load_config
from midstream.gateway.server import ServerOptions, serve
from midstream.sim.providers import sim_providers

_PATIENCE = 10.0


class GatewayProcess:
    """A running gateway."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._process = process
        told = process.stdout.readline().split()
        assert told[:1] == ["ready"], f"the gateway did not start: {told}"
        self.url = told[1]

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.wait(_PATIENCE)

    def wait(self) -> int:
        """Its exit code, when it has ended."""
        return self._process.wait(_PATIENCE)


@contextmanager
def gateway_process(
    doubles: str, *, config: Path | None = None, state: str | None = None, shared: bool = False, drain: float = 0.2
) -> Iterator[GatewayProcess]:
    """A gateway in front of the doubles at this address; it is gone at the end, whatever was done to it."""
    told = {
        "doubles": doubles, "config": str(config) if config else None, "state": state, "shared": shared, "drain": drain
    }  # fmt: skip
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.gateway.gateway_process", json.dumps(told)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root,
    ) as process:  # fmt: skip
        try:
            yield GatewayProcess(process)
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(_PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()


def _end_with_the_tests() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def main(told: str) -> int:
    options = json.loads(told)
    config = Path(options["config"]) if options["config"] else None
    app = GatewayApp(
        load_config(config),
        AppOptions(config=config, state=options["state"], shared=options["shared"]),
        catalog=Catalog(providers=sim_providers(options["doubles"]), environ={}),
    )
    threading.Thread(target=_end_with_the_tests, daemon=True).start()
    server = ServerOptions(port=0, drain=options["drain"])
    return serve(app, server, ready=lambda url: print(f"ready {url}", flush=True))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
