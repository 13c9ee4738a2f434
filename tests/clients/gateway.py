"""A gateway in a process of its own, in front of the doubles or of an engine, configured as an operator would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from midstream.testing import SimServer
from tests.clients.agents import ROOT

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


@contextmanager
def gateway_process(folder: Path, config: str, environment: Mapping[str, str]) -> Iterator[str]:
    """The address of a gateway with this `gateway.toml`. Its log is in the folder."""
    file = folder / "gateway.toml"
    file.write_text(config, "utf-8")
    scrubbed = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", **environment}
    command = [sys.executable, "-m", "tests.clients.serve", str(file)]
    with (
        (folder / "gateway.log").open("w") as log,
        subprocess.Popen(command, cwd=ROOT, env=scrubbed, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            ready = process.stdout.readline().split()
            assert ready[:1] == ["ready"], f"the gateway did not start: {(folder / 'gateway.log').read_text()}"
            yield ready[1]
        finally:
            process.terminate()
            process.wait(timeout=15)
