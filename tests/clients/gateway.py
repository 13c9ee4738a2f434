"""A gateway in a process of its own, in front of the doubles or of an engine, configured as an operator would."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from midstream.testing import SimServer

MIDSTREAM = Path(sys.executable).with_name("midstream")
_READY = re.compile(r"midstream gateway at (http://\S+);")
_RELOADED = "reloaded\n"
_PAUSE, _TRIES = 0.05, 600
_BATCH = 1.0  # the log is written a few times a second

_STEMS = {
    "moonshot": "MOONSHOT",
    "anthropic": "ANTHROPIC",
    "openai-responses": "OPENAI",
    "gemini": "GEMINI",
    "mistral": "MISTRAL",
}


def upstreams(sim: SimServer) -> dict[str, str]:
    """The environment in which the providers are the doubles, with keys that are nobody's."""
    urls = {f"{stem}_BASE_URL": sim.base_url(provider) for provider, stem in _STEMS.items()}
    return {**urls, **{f"{stem}_API_KEY": "no-key-of-anybody" for stem in _STEMS.values()}}


class Gateway(msgspec.Struct, frozen=True):
    """A running gateway: its address, its configuration, and one line of JSON for every request it had."""

    url: str
    config: Path
    log: Path
    told: Path
    process: int
    environment: dict[str, str]

    def reload(self, config: str) -> None:
        """Give it another configuration, as an operator does."""
        before = self.told.read_text("utf-8").count(_RELOADED)
        self.config.write_text(config, "utf-8")
        os.kill(self.process, signal.SIGHUP)
        for _ in range(_TRIES):
            if self.told.read_text("utf-8").count(_RELOADED) > before:
                return
            time.sleep(_PAUSE)
        raise AssertionError(f"the gateway did not read its configuration again: {self.told.read_text('utf-8')}")

    def printed(self, client: str, model: str) -> str:
        """The lines that point a client here."""
        place = ["--config", str(self.config), "--port", self.url.rpartition(":")[2]]
        command = [str(MIDSTREAM), "serve", *place, "--print", client, "--model", model]
        scrubbed = {"PATH": os.environ["PATH"], "HOME": str(self.config.parent), "LANG": "C.UTF-8", **self.environment}
        return subprocess.run(command, env=scrubbed, capture_output=True, text=True, check=True).stdout

    def requests(self) -> list[dict[str, Any]]:
        """The requests for answers so far."""
        time.sleep(_BATCH)
        lines = [json.loads(line) for line in self.log.read_text("utf-8").splitlines() if line.endswith("}")]
        return [line for line in lines if line.get("model")]


@contextmanager
def gateway_process(folder: Path, config: str, environment: Mapping[str, str]) -> Iterator[Gateway]:
    """`midstream serve` with this configuration."""
    file, log, told = folder / "gateway.toml", folder / "requests.log", folder / "told.log"
    file.write_text(config, "utf-8")
    scrubbed = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", **environment}
    command = [str(MIDSTREAM), "serve", "--config", str(file), "--port", "0"]
    with (
        log.open("w") as out,
        told.open("w") as err,
        subprocess.Popen(command, cwd=folder, env=scrubbed, stdout=out, stderr=err) as process,
    ):
        try:
            yield Gateway(_address(process, told), file, log, told, process.pid, dict(environment))
        finally:
            process.terminate()
            process.wait(timeout=45)


def _address(process: subprocess.Popen[bytes], told: Path) -> str:
    """What the gateway says when it is ready."""
    for _ in range(_TRIES):
        if found := _READY.search(told.read_text("utf-8")):
            return found[1]
        assert process.poll() is None, f"the gateway did not start: {told.read_text('utf-8')}"
        time.sleep(_PAUSE)
    raise AssertionError(f"the gateway is not ready: {told.read_text('utf-8')}")
