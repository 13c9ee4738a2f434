"""Coding agents that nobody here wrote: the newest of each, run without a terminal, a home or a key of anybody's."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / ".clients"
"""Where `make test-clients` installs them, each into a folder of its own."""
NODE = FOLDER / "node" / "node_modules" / ".bin"
_DATA = ROOT / "tests" / "data" / "clients"


class Agent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One agent: how it is started, its environment and the files of its home. `{url}`, `{model}`, `{key}`, `{task}`,
    `{work}` and `{home}` in any text stand for what they say. `setup` is its name for `midstream serve --print`, if it has one,
    `headless` how it is started where that has told it everything else."""

    name: str
    package: str
    wire: str
    command: tuple[str, ...]
    environment: dict[str, str]
    files: dict[str, Any] = {}
    setup: str = ""
    headless: tuple[str, ...] = ()
    direct: tuple[str, str] | None = None
    """The provider and the model that it is tried with directly, if not those of its wire: one that forgets reasoning is refused by
    hosts that want it back."""

    @property
    def bin(self) -> Path:
        return FOLDER / self.name / "node_modules" / ".bin"

    @property
    def installed(self) -> bool:
        return (self.bin / self.command[0]).exists()

    @property
    def version(self) -> str:
        text = (self.bin.parent / self.package / "package.json").read_bytes()
        return str(msgspec.json.decode(text)["version"])


class Ran(msgspec.Struct, frozen=True):
    """How a run ended; `status` is None if it had to be stopped."""

    status: int | None
    output: str
    seconds: float


AGENTS = msgspec.json.decode((_DATA / "agents.json").read_bytes(), type=list[Agent])


def run(
    agent: Agent,
    task: str,
    *,
    url: str,
    model: str,
    home: Path,
    work: Path,
    patience: float = 120.0,
    user: int | None = None,
    exports: str | None = None,
) -> Ran:
    """Give the agent a task, as this user, and wait for its end. With `exports`, lines for a shell, nothing else tells it where
    to go."""
    said = {"url": url, "model": model, "key": "no-key-of-anybody", "task": task, "work": str(work), "home": str(home)}
    command = _filled(agent.command, said)
    for name, content in agent.files.items() if exports is None else ():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.encode(_filled(content, said)))
    if user is not None:
        for path in (home, work, *home.rglob("*")):
            os.chown(path, user, user)
    environment = {
        "PATH": f"{agent.bin}:{NODE}:{os.defpath}", "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8", "TERM": "dumb",
        "NO_COLOR": "1", "NO_PROXY": "*", "no_proxy": "*", "DO_NOT_TRACK": "1",
        **(_filled(agent.environment, said) if exports is None else {}),
    }  # fmt: skip
    if exports is not None:
        command = ["sh", "-c", f"{exports}\n{shlex.join(_filled(agent.headless, said))}"]
    began = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", start_new_session=True, user=user, group=user,
        extra_groups=None if user is None else [], executable=shutil.which(command[0], path=environment["PATH"]),
    ) as process:  # fmt: skip
        status: int | None = None
        try:
            output, _ = process.communicate(timeout=patience)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
    return Ran(status, output, time.monotonic() - began)


def _filled(template: Any, said: dict[str, str]) -> Any:
    """The template with every placeholder replaced, in keys too."""
    match template:
        case str():
            for name, value in said.items():
                template = template.replace(f"{{{name}}}", value)
            return template
        case list() | tuple():
            return [_filled(each, said) for each in template]
        case dict():
            return {_filled(key, said): _filled(value, said) for key, value in template.items()}
        case _:
            return template
