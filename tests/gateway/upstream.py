"""An upstream with bad manners: the model's name says what it does to a request. It speaks OpenAI's chat."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from midstream.core.dialect import Endpoint
from midstream.dialects.provider import Provider
from midstream.dialects.registry import resolve

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-ratelimit-remaining-requests: 7\r\nconnection: close\r\n\r\n"
_QUICK = b"retry-after-ms: 1\r\n"
FLOOD_PIECE = 16 * 1024
_STALLED = 0.3


class Upstream:
    """A running one. `asked` are the models in the order of the requests."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []
        self.sent = 0
        """Bytes of answers that were given to the socket."""
        self.go_on = asyncio.Event()
        """What waits, waits for this."""
        self.waiting = asyncio.Event()
        """A request waits."""
        self.left = asyncio.Event()
        """A connection was closed by the other side while its request was being answered."""
        self.stalled = asyncio.Event()
        """Nobody takes what is sent."""

    def provider(self) -> Provider:
        dialect = replace(resolve("openai-compatible/x").dialect, provider="rude", native=None)
        return Provider("rude", Endpoint(self.url, auth="none"), (("", dialect),))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.partition(b":")[2])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length:")
            )
            body = json.loads(await reader.readexactly(length))
            self.asked.append(body["model"])
            watching = asyncio.create_task(self._watch(reader))
            try:
                await self._answer(
                    body["model"], bool(body.get("stream")), writer, str(body["messages"][-1]["content"])
                )
            finally:
                watching.cancel()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _watch(self, reader: asyncio.StreamReader) -> None:
        try:
            await reader.read()
        except ConnectionError:
            pass
        self.left.set()
        self.go_on.set()

    async def _answer(self, model: str, stream: bool, writer: asyncio.StreamWriter, asked: str) -> None:
        """
        | model | what happens |
        |---|---|
        | `500`, `503` | refused with that status |
        | `echo` | refused with the words of the last message |
        | `late-500` | refused with 500, when `go_on` is set |
        | `cut` | the answer breaks off before its first block |
        | `mute` | accepted, and then nothing until `go_on` is set |
        | `late` | nothing until `go_on` is set, then an answer |
        | `half-cut` | the answer breaks off after its first words |
        | `half-wait` | the answer waits after its first words until `go_on` is set |
        | `flood` | an answer without an end |
        """
        if model.startswith("late"):
            self.waiting.set()
            await self.go_on.wait()
            model = model.removeprefix("late").removeprefix("-") or "good"
        if model.isdigit() or model == "echo":
            message, status = (asked, 400) if model == "echo" else (f"told to say {model}", int(model))
            refusal = json.dumps({"error": {"message": message, "type": "server_error"}}).encode()
            head = b"HTTP/1.1 %d No\r\ncontent-type: application/json\r\ncontent-length: %d\r\n" % (
                status,
                len(refusal),
            )
            await self._send(writer, head + _QUICK + b"connection: close\r\n\r\n" + refusal)
            return
        if model == "mute":
            await self._send(writer, _HEAD)
            await self.go_on.wait()
            return
        if not stream:
            await self._whole(model, writer)
            return
        await self._send(writer, _HEAD)
        if model == "cut":
            await self._send(writer, _chunk({"role": "assistant", "content": ""}))
            return
        await self._send(writer, _chunk({"role": "assistant", "content": "Good "}))
        if model == "half-cut":
            return
        if model == "half-wait":
            self.waiting.set()
            await self.go_on.wait()
        while model == "flood":
            writer.write(_chunk({"content": "x" * FLOOD_PIECE}))
            self.sent += FLOOD_PIECE
            await self._drain(writer)
        await self._send(writer, _chunk({"content": "morning."}), _chunk({}, "stop"), b"data: [DONE]\n\n")

    async def _whole(self, model: str, writer: asyncio.StreamWriter) -> None:
        message = {"role": "assistant", "content": "Good morning."}
        answer = {
            "id": "1", "object": "chat.completion", "created": 1, "model": "rude",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        }  # fmt: skip
        body = json.dumps(answer).encode()
        shown = body[: len(body) // 2] if model.endswith("cut") else body
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n" % len(body)
        await self._send(writer, head + b"connection: close\r\n\r\n" + shown)

    async def _drain(self, writer: asyncio.StreamWriter) -> None:
        draining = asyncio.ensure_future(writer.drain())
        done, _ = await asyncio.wait([draining], timeout=_STALLED)
        if not done:
            self.stalled.set()
        await draining

    async def _send(self, writer: asyncio.StreamWriter, *data: bytes) -> None:
        writer.write(b"".join(data))
        await writer.drain()


def _chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    chunk = {
        "id": "1", "object": "chat.completion.chunk", "created": 1, "model": "rude",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }  # fmt: skip
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


@asynccontextmanager
async def upstream() -> AsyncIterator[Upstream]:
    rude = Upstream()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await rude._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the end of the test
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    rude.url = f"http://{host}:{port}"
    try:
        yield rude
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks)
