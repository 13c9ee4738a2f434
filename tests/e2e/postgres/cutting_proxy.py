"""A server that loses the connection at the worst moment: a statement was executed, and its answer never arrives.

It stands before a real server, on a unix socket of its own, and passes everything on. When `cut_after` is set, the next message of a
client that contains it still reaches the server; the server's answer is read, so the work is done, and both ends are closed.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

SOCKET = ".s.PGSQL.5432"


class CuttingProxy:
    def __init__(self, server: Path, folder: Path) -> None:
        self.address = f"postgresql://postgres@/postgres?host={quote(str(folder), safe='')}"
        self.cut_after: bytes | None = None
        self.cuts = 0
        self._server = server / SOCKET
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / SOCKET))
        self._listener.listen()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._pass, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _pass(self, client: socket.socket) -> None:
        with (
            client,
            socket.socket(socket.AF_UNIX) as server,
            selectors.DefaultSelector() as ready,
            contextlib.suppress(OSError),
        ):
            server.connect(str(self._server))
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while not self._ended.is_set():
                for key, _ in ready.select(0.1):
                    data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                    if not data:
                        return
                    key.data.sendall(data)
                    if key.fileobj is client and self.cut_after is not None and self.cut_after in data:
                        self.cut_after = None
                        self.cuts += 1
                        server.recv(65536)
                        return


@contextmanager
def cutting_proxy(server: Path) -> Iterator[CuttingProxy]:
    with tempfile.TemporaryDirectory(prefix="midstream-proxy-") as folder:
        proxy = CuttingProxy(server, Path(folder))
        try:
            yield proxy
        finally:
            proxy.close()
