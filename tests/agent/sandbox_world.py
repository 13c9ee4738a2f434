"""A folder with everything around it that a command may want to reach, and what tells whether it did.

Run as a script, by whoever is to be tried: {"way", "cases"} comes as JSON on standard input, where the way is that of a sandbox or
"off"; for each case a line with its name, the command's answer and a list of the ways in which it got out goes to standard output.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import pty
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from midstream.agent.bash import Bash
from midstream.agent.paths import Folder
from midstream.agent.sandbox import Sandbox
from midstream.core.errors import ToolFailed

CANARY = "CANARY" + os.urandom(8).hex()
SECRETS = (
    ".ssh/id_ed25519 .aws/credentials .netrc .config/gh/hosts.yml .docker/config.json .config/midstream/config.toml "
    ".local/share/midstream/conversations.db Documents/diary.txt"
).split()
GUARDED = {".git/config": "[core]\n\tbare = false\n", ".git/hooks/pre-push": "#!/bin/sh\n", "Makefile": "old:\n", "AGENTS.md": "be kind\n",
           "part/Makefile": "old:\n"}  # fmt: skip
SETTINGS = (".git/config", "bare/config", "deep/er/.git/config")
RUNS_LATER = ("commondir", "post-checkout", ".envrc", "AGENTS.md", "Makefile", ".vscode", "sitecustomize.py", "x.pth")
VICTIM = """
import os, signal, sys, time
canary = os.environ["CANARY"] * 50
os.dup2(os.open("held.txt", os.O_WRONLY), 9)
print("ready", flush=True)
time.sleep(600)
"""


class World:
    """Made anew for each case, except for the listeners."""

    def __init__(self, way: str, root: Path) -> None:
        self.sandbox = None if way == "off" else Sandbox.find(ways=[way])  # type: ignore[list-item]
        self.root = root
        self.token = f"escape-{os.urandom(6).hex()}"
        self.nap = f"999.{int.from_bytes(os.urandom(6))}"
        self.outside, self.home, self.folder = root / "outside", root / "home", root / "work"
        self.tcp = _listener(socket.AF_INET6, socket.SOCK_STREAM, ("::", 0))
        self.udp = _listener(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        self.unix = _listener(socket.AF_UNIX, socket.SOCK_STREAM, str(root / "daemon.sock"))
        self.datagram = _listener(socket.AF_UNIX, socket.SOCK_DGRAM, str(root / "datagram.sock"))
        self.abstract = _listener(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + self.token)
        self.master, slave = pty.openpty()
        os.set_blocking(self.master, False)
        self.terminal = os.ttyname(slave)
        self.slave = slave
        self.libc = ctypes.CDLL(None)
        self.libc.shmat.restype = ctypes.c_void_p
        self.shared = int.from_bytes(os.urandom(3)) + 1
        self._segment = self.libc.shmget(self.shared, 64, 0o1600)
        ctypes.memmove(self.libc.shmat(self._segment, None, 0), CANARY.encode() + b"\0", len(CANARY) + 1)

    def close(self) -> None:
        self.libc.shmctl(self._segment, 0, None)
        for each in (self.tcp, self.udp, self.unix, self.datagram, self.abstract):
            each.close()
        for fd in (self.master, self.slave):
            os.close(fd)

    def set_up(self) -> None:
        for folder in (self.outside, self.home, self.folder):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        for name in ("target.txt", "held.txt"):
            (self.outside / name).write_text("as it was\n")
        (self.outside / "secret.txt").write_text(CANARY)
        for name in SECRETS:
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(CANARY)
        (self.home / ".bashrc").write_text("as it was\n")
        (self.home / ".gitconfig").write_text(
            f"[http]\n\textraHeader = Authorization: Bearer {CANARY}aaaaaaaaaaaaaaaa\n"
        )
        for name, text in GUARDED.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        for name in ("objects", "refs/heads"):
            (self.folder / ".git" / name).mkdir(parents=True)
        (self.folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
        self.inside = _listener(socket.AF_UNIX, socket.SOCK_STREAM, str(self.folder / "inside.sock"))
        self.victim = subprocess.Popen(
            [sys.executable, "-c", VICTIM],
            cwd=self.outside,
            env={**os.environ, "CANARY": CANARY},
            stdout=subprocess.PIPE,
        )
        assert self.victim.stdout is not None
        self.victim.stdout.readline()
        self._before = self._seen()

    def tear_down(self) -> None:
        self.victim.kill()
        self.victim.wait()
        assert self.victim.stdout is not None
        self.victim.stdout.close()
        self.inside.close()
        for path in (Path("/tmp") / self.token, Path("/dev/shm") / self.token):
            path.unlink(missing_ok=True)

    def run(self, command: str) -> str:
        words = {
            "outside": self.outside, "home": self.home, "victim": self.victim.pid, "tcp": self.tcp.getsockname()[1],
            "udp": self.udp.getsockname()[1], "unix": self.root / "daemon.sock", "datagram": self.root / "datagram.sock",
            "abstract": self.token, "inside": self.folder / "inside.sock", "terminal": self.terminal, "token": self.token,
            "python": shlex.quote(sys.executable), "shared": self.shared, "nap": self.nap,
        }  # fmt: skip
        for name, value in words.items():
            command = command.replace(f"{{{name}}}", str(value))
        os.environ["HOME"] = str(self.home)
        try:
            return asyncio.run(Bash(Folder(self.folder), sandbox=self.sandbox, key_names=()).bash(command, 20))
        except ToolFailed as error:
            return f"FAILED {error}"

    def escapes(self, answer: str) -> list[str]:
        """What shows that the command got out."""
        # As a line: from 3.13 on, Python shows the source of a `-c` that failed, with the word in it.
        found = ["it said so"] if "ESCAPED" in answer.splitlines() else []
        if CANARY in answer:
            found.append("it read a secret")
        after = self._seen()
        found += [f"{name} changed" for name in self._before if self._before[name] != after[name]]
        listeners = {"TCP": self.tcp, "UDP": self.udp, "a socket": self.unix, "a datagram socket": self.datagram,
                     "an abstract socket": self.abstract, "a socket in the folder": self.inside}  # fmt: skip
        found += [f"{name} was reached" for name, listener in listeners.items() if _was_reached(listener)]
        found += [
            f"{path} is there" for path in (Path("/tmp") / self.token, Path("/dev/shm") / self.token) if path.exists()
        ]
        try:
            os.read(self.master, 100)
            found.append("it wrote on the terminal")
        except BlockingIOError:
            pass
        if self._naps():
            found.append("a process outlived it")
        return found

    def _seen(self) -> dict[str, Any]:
        status = Path(f"/proc/{self.victim.pid}/stat").read_text().rpartition(")")[2].split()
        alive = self.victim.poll() is None and status[0] not in "ZTt"
        return {
            "what is outside": _tree(self.outside),
            "the home": _tree(self.home),
            "a guarded file": [each for each in _tree(self.folder, times=False) if _runs_later(each[0])],
            "a setuid file": [each[0] for each in _tree(self.folder) if each[1] & (stat.S_ISUID | stat.S_ISGID)],
            "the life of another process": alive,
            "the priority of another process": status[16] if alive else "",
            "the limits of another process": Path(f"/proc/{self.victim.pid}/limits").read_text() if alive else "",
            "the processors of another process": sorted(os.sched_getaffinity(self.victim.pid)) if alive else "",
        }

    def _naps(self) -> bool:
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and self.nap.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                    return True
            except OSError:
                continue
        return False


def _runs_later(path: str) -> bool:
    return path in SETTINGS or bool(set(path.split("/")) & set(RUNS_LATER))


def _listener(family: int, kind: int, address: Any) -> socket.socket:
    made = socket.socket(family, kind)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    if isinstance(address, str) and address.startswith("/"):
        Path(address).unlink(missing_ok=True)
    made.bind(address)
    if kind == socket.SOCK_STREAM:
        made.listen(8)
    made.setblocking(False)
    return made


def _was_reached(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_STREAM:
            listener.accept()[0].close()
        else:
            listener.recv(1000)
    except BlockingIOError:
        return False
    return True


def _tree(root: Path, *, times: bool = True) -> list[tuple[str, int, int, bytes]]:
    """Every path with its mode, time and content."""
    found = []
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = b""
        if stat.S_ISREG(status.st_mode):
            content = path.read_bytes()
            if times:
                content += repr(os.listxattr(path)).encode()
        elif stat.S_ISLNK(status.st_mode):
            content = os.fsencode(path.readlink())
        changed = status.st_mtime_ns if times and not stat.S_ISDIR(status.st_mode) else 0
        found.append((str(path.relative_to(root)), status.st_mode, changed, content))
    return found


def main() -> None:
    given = json.load(sys.stdin)
    with tempfile.TemporaryDirectory(prefix="midstream-world-") as root:
        world = World(given["way"], Path(root).resolve())
        (Path(root) / "temporary").mkdir()
        tempfile.tempdir = f"{root}/temporary"  # what is moved away is kept there
        try:
            for case in given["cases"]:
                world.set_up()
                try:
                    answer = world.run(case["command"])
                    escapes = world.escapes(answer)
                finally:
                    world.tear_down()
                print(json.dumps({"name": case["name"], "answer": answer[-600:], "escapes": escapes}), flush=True)
        finally:
            world.close()


if __name__ == "__main__":
    main()
