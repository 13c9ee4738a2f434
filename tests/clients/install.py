"""Install the newest of every agent, and a Node that runs them all; name what could not be installed."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.clients.agents import AGENTS, FOLDER, NODE

_NODE = "node@24"  # several agents want a newer one than distributions have


def main() -> int:
    failed = [name for name, package in [("node", _NODE), *_wanted()] if not _install(name, package)]
    versions = {agent.name: agent.version for agent in AGENTS if agent.installed}
    for name in failed:
        told = (
            f"could not be updated; {versions[name]} will run"
            if name in versions
            else "could not be installed; it will NOT run"
        )
        print(f"\n*** make test-clients: {name} {told}\n", file=sys.stderr)
    return 0


def _wanted() -> list[tuple[str, str]]:
    return [(agent.name, f"{agent.package}@latest") for agent in AGENTS]


def _install(name: str, package: str) -> bool:
    print(f"midstream: installing {package} …", flush=True)
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--no-save", "--loglevel=error"]
    environment = {**os.environ, "PATH": f"{NODE}:{os.environ['PATH']}"}
    try:
        return subprocess.run([*command, package], env=environment, timeout=600, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)
        return False


if __name__ == "__main__":
    sys.exit(main())
