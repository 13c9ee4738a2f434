"""The upstream of main.rs in Python, for machines without a Rust compiler: same paths, same bytes, same end.

Run as `python -m benchmarks.upstream.plain DIR [CERTIFICATE]`: it prints its port and serves until its standard input ends, by
TLS if there is a certificate (a file of it and its key).
"""

from __future__ import annotations

import os
import socket
import ssl
import sys
import threading
import time
from pathlib import Path

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
_MISSING = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
_MAX_REQUEST = 16 << 20


def answer_of(stream: bytes) -> list[bytes]:
    """The writes of one answer: its head, each event as a chunk, its end."""
    events = [event + b"\n\n" for event in stream.split(b"\n\n")[:-1]]
    return [_HEAD, *[b"%x\r\n%b\r\n" % (len(event), event) for event in events], b"0\r\n\r\n"]


def body_of(body: bytes) -> list[bytes]:
    """JSON is one write."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    return [head + body]


def next_path(client: socket.socket, held: bytearray) -> str | None:
    """The path of the next request, its body read past; None when the client is gone."""
    while True:
        head, found, body = bytes(held).partition(b"\r\n\r\n")
        if found:
            fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:])
            length = int(fields.get(b"content-length", b"0"))
            if len(body) >= length:
                path = head.split(b" ")[1].decode()
                del held[: len(head) + 4 + length]
                return path
        data = client.recv(65536) if len(held) <= _MAX_REQUEST else b""
        if not data:
            return None
        held += data


def serve(client: socket.socket, answers: dict[str, list[bytes]], trust: ssl.SSLContext | None) -> None:
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    held = bytearray()
    with client:
        try:
            if trust is not None:
                client = trust.wrap_socket(client, server_side=True)
            while (path := next_path(client, held)) is not None:
                name, mode = path.split("/")[1:3]
                writes = answers.get(name, [_MISSING])
                if mode == "hold":
                    writes = [b"".join(writes[:4])]
                elif not mode.startswith("live-"):
                    writes = [b"".join(writes)]
                gap = int(mode.removeprefix("live-")) / 1e6 if mode.startswith("live-") else 0
                for write in writes:
                    client.sendall(write)
                    if gap:
                        time.sleep(gap)
        except OSError:
            pass  # the client left


def main() -> None:
    folder = Path(sys.argv[1])
    answers = {path.stem: answer_of(path.read_bytes()) for path in folder.glob("*.sse")}
    answers |= {path.stem: body_of(path.read_bytes()) for path in folder.glob("*.json")}
    trust = None
    if len(sys.argv) > 2:
        trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        trust.load_cert_chain(sys.argv[2])
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client, answers, trust), daemon=True).start()


if __name__ == "__main__":
    main()
