"""A gateway as a running process on a processor of its own: started, found ready, measured from /proc, ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from ..processes import Failed
from .contenders import Contender, Setting, port_in
from .work import JSON, STREAM, TEXT, Work, text_of

_START = 90.0
"""Seconds until a gateway must have answered."""
_TICK = os.sysconf("SC_CLK_TCK")


def cores() -> tuple[set[int], set[int]]:
    """The processors of the load and the upstream, and that of the gateway; the same ones where there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    return (set(usable[:-1]), {usable[-1]}) if len(usable) > 1 else (set(usable), set(usable))


class RunningGateway:
    """One worker of one gateway, in a group of processes that ends with it."""

    def __init__(self, contender: Contender, setting: Setting, core: set[int]) -> None:
        assert contender.launch is not None
        self.contender = contender
        self.setting = setting
        launch = contender.launch(setting)
        self._log = setting.folder / "log.txt"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                launch.command,
                cwd=setting.folder,
                env={**_environ(setting.folder), **launch.environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        os.sched_setaffinity(self._process.pid, core)
        self._port_in = launch.port_in

    def ready(self) -> None:
        """Wait until it gives the right answers. Failed, with its last line, if it does not."""
        until = time.monotonic() + _START
        last = "it does not answer"
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise Failed(f"it ended: {self._last_line()}")
            try:
                if self._port_in:
                    port = port_in(self._port_in, self._log.read_text(errors="replace"))
                    if port is None:
                        time.sleep(0.1)
                        continue
                    self.setting = Setting(self.setting.folder, port, self.setting.upstream)
                for work in (JSON, STREAM):
                    self._check(work)
                return
            except (OSError, Failed) as error:
                last = str(error)
                time.sleep(0.2)
        raise Failed(last)

    def processor_seconds(self) -> float:
        """User and system time of all its processes so far."""
        total = 0
        for pid in self._family():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / _TICK

    def kilobytes(self) -> int:
        """Memory of its own (not of files) that all its processes hold."""
        total = 0
        for pid in self._family():
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    total += int(line.split()[1])
        return total

    def end(self) -> None:
        for word in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, word)
            except ProcessLookupError:
                return
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                continue

    def _family(self) -> list[int]:
        """The processes of its group."""
        members = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if os.getpgid(int(entry.name)) == self._process.pid:
                        members.append(int(entry.name))
                except ProcessLookupError:
                    continue
        return members

    def _check(self, work: Work) -> None:
        status, body = ask(self.setting.port, self.contender.request(self.setting, work))
        if status != 200:
            raise Failed(f"it answered {status}: {body[:200].decode('utf-8', 'replace')}")
        wire = self.contender.pair.upstream if self.contender.proxy else self.contender.pair.client
        if text_of(wire, body, streamed=work.streamed) != TEXT:
            raise Failed(
                f"its answer to {work.model} is not what the upstream said: {body[:200].decode('utf-8', 'replace')}"
            )

    def _last_line(self) -> str:
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1][:200] if lines else "without a word"


def ask(port: int, request: bytes) -> tuple[int, bytes]:
    """One request over a connection of its own: the status and the body."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(request)
        answer = HTTPResponse(connection)
        try:
            answer.begin()
            return answer.status, answer.read()
        except HTTPException as error:
            raise Failed(f"it did not answer in HTTP: {error!r}") from error
        finally:
            answer.close()


def _environ(folder: Path) -> dict[str, str]:
    """What a gateway may know of this machine: its programs, and a home of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "HOME": str(folder), "NO_COLOR": "1", "CI": "true"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
