"""A real PostgreSQL server for tests: a cluster of its own in a temp folder, reached by a unix socket, and gone with the tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

MISSING = "PostgreSQL's server is not installed: run `make e2e-tools`"
_START = 30.0


def server_binaries() -> Path | None:
    """The folder of initdb and postgres, which is not on the PATH on Debian."""
    folders = [Path(found).resolve().parent for name in ("initdb", "postgres") if (found := shutil.which(name))]
    if config := shutil.which("pg_config"):
        told = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        folders.append(Path(told.stdout.strip()))
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


class Cluster:
    """A server that can be stopped, killed, frozen and started again."""

    def __init__(self, binaries: Path, folder: Path, fsync: bool) -> None:
        self.folder = folder
        self.address = f"postgresql://postgres@/postgres?host={quote(str(folder), safe='')}"
        self._binaries = binaries
        self._fsync = "on" if fsync else "off"
        self._server: subprocess.Popen[bytes] | None = None

    def create(self) -> None:
        self._run(
            "initdb", "-D", self._data, "-A", "trust", "-U", "postgres", "--no-sync", "--locale=C.UTF-8", "-E", "UTF8"
        )

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = {"listen_addresses": "", "unix_socket_directories": str(self.folder), "fsync": self._fsync}
        settings = [f"--{name}={value}" for name, value in options.items()]
        command = [self._binaries / "postgres", "-D", self._data, *settings]
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                command, stdout=log, stderr=log, cwd="/", start_new_session=True, **_as_user()
            )
        deadline = time.monotonic() + _START
        while subprocess.run(
            [self._binaries / "pg_isready", "-q", "-h", self.folder, "-U", "postgres"], check=False
        ).returncode:
            log_text = (self.folder / "log").read_text(errors="replace")
            assert self._server.poll() is None and time.monotonic() < deadline, f"the server did not start: {log_text}"
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop it the fast way: sessions are ended, what is committed is kept."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Stop it as a crash does: nothing is written any more."""
        self._end(signal.SIGQUIT)

    def restart(self) -> None:
        self.stop()
        self.start()

    def freeze(self) -> None:
        """Let nothing in the server run until `thaw`: connections stay open, and nobody answers."""
        leader = self._leader
        os.kill(leader, signal.SIGSTOP)  # first: it must start no process behind our back
        for process in self._children():
            _signal(process, signal.SIGSTOP)

    def thaw(self) -> None:
        leader = self._leader
        for process in self._children():
            _signal(process, signal.SIGCONT)
        os.kill(leader, signal.SIGCONT)  # last: it collects the children that end, and their numbers are gone

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _run(self, tool: str, *arguments: str | Path) -> None:
        command = [self._binaries / tool, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False, **_as_user())
        assert done.returncode == 0, f"{tool}: {done.stderr}"

    @property
    def _leader(self) -> int:
        assert self._server is not None, "the server is not running"
        return self._server.pid

    def _children(self) -> list[int]:
        return list(map(int, Path(f"/proc/{self._leader}/task/{self._leader}/children").read_text().split()))

    def _end(self, number: signal.Signals) -> None:
        if self._server is not None:
            self._server.send_signal(number)
            self._server.wait(timeout=_START)
            self._server = None


def _signal(process: int, number: signal.Signals) -> None:
    """Signal a child of the server, which may have ended by itself: autovacuum comes and goes."""
    with suppress(ProcessLookupError):
        os.kill(process, number)


def _as_user() -> dict[str, Any]:
    """The server refuses to run as root."""
    return {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}


@contextmanager
def running_cluster(*, fsync: bool = False) -> Iterator[Cluster | None]:
    """A running server; None if its binaries are missing. `fsync`: for tests that crash it."""
    binaries = server_binaries()
    if binaries is None:
        yield None
        return
    # Not pytest's own folder: a socket's path may have a hundred characters, and root's folders are closed to the server.
    folder = Path(tempfile.mkdtemp(prefix="midstream-postgres-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        cluster = Cluster(binaries, folder, fsync)
        cluster.create()
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.kill()  # an orderly end would first write everything to the folder that is about to go
    finally:
        shutil.rmtree(folder, ignore_errors=True)
