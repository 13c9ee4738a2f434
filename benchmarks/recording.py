"""What recording an answer adds to reading it, and what a replay costs beside the decoder.

Run `python -m benchmarks.recording`. Answers are streamed by the client from a source in this process, chunk by chunk, as a connection gives them: once as they are,
once with a recorder that only listens, once with one that also searches them for the key and writes them to a file. They take turns; a figure is the median of what
they differ by.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from midstream import Client, make_decoder
from midstream.client.catalog import Catalog
from midstream.client.config import Config
from midstream.core.errors import MidstreamError
from midstream.recording import Cassette, Recorder, read_exchange, replay
from midstream.transport import Transport
from midstream.transport.target import Target

from .measure import Row, misses, table
from .payloads import WIRES

MODELS = {
    "openai-chat": "openai/gpt-4o",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "openai-responses": "openai-responses/gpt-5.2",
    "gemini": "gemini/gemini-2.5-flash",
    "ollama": "ollama/qwen3:4b",
}
KEY = "sk-proj-8Jq2mZrT4vXb7NcK1wYd9LsPe3GhUf6oAi5"
GOAL = 1.0
SLOWER = 1.0


class _Answer:
    """A RawResponse whose chunks are all here."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self.status: int = 200
        self.headers: Mapping[str, str] = {"content-type": "text/event-stream"}
        self._chunks = iter(chunks)
        self.done = False

    def take(self) -> bytes | None:
        return next(self._chunks, b"")

    async def ready(self) -> None: ...

    def first_byte_by(self, moment: float) -> None: ...

    def close(self, reason: MidstreamError | None = None) -> None: ...

    def finish(self, grace: float) -> None: ...


class _Network:
    """Stands where the connections are: nothing but reading and recording is in the figures."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self.loop = asyncio.get_running_loop()
        self._chunks = chunks

    async def send(self, target: Target, due: float, limit: float) -> _Answer:
        return _Answer(self._chunks)

    async def aclose(self) -> None: ...


async def _stream(model: str, chunks: Sequence[bytes] | None, recorder: Recorder | None) -> int:
    """Processor time of one answer, in nanoseconds, its file included."""
    transport = Transport()
    if chunks is not None:
        transport._pool = _Network(chunks)  # type: ignore[assignment]
    catalog = Catalog(Config(), environ={})
    key = None if chunks is None else KEY  # a replay needs none
    async with Client(catalog, transport=transport, api_key=key, recorder=recorder) as client:
        start = time.process_time_ns()
        async for _ in client.batches(model, "hello", turn_key="k"):
            pass
        return time.process_time_ns() - start


class _Listener(Recorder):
    """Hears everything and keeps nothing: what is paid while an answer streams."""

    def save(self, *_: object) -> None: ...


def recording(rounds: int) -> list[Row]:
    rows = []
    for wire, model in MODELS.items():
        chunks = WIRES[wire]()
        with tempfile.TemporaryDirectory() as folder:
            # One for all runs, as for all answers of a client: what it works out of a key it works out once.
            recorders = (None, _Listener(folder), Recorder(folder))
            runs = [[asyncio.run(_stream(model, chunks, each)) for each in recorders] for _ in range(rounds + 1)]
            assert recorders[2] is not None
            recorders[2].check()
            assert len(recorders[2].saved) == rounds + 1
        costs = [[took / len(chunks) / 1000 for took in run] for run in runs[1:]]  # the first run warms up
        plain = statistics.median([run[0] for run in costs])
        size = sum(map(len, chunks)) // len(chunks)
        aside = f"{size} bytes a chunk; without it {plain:.2f} µs"
        for number, name in ((1, "listening adds"), (2, "listening, searching and writing add")):
            added = statistics.median([run[number] - run[0] for run in costs])
            rows.append(Row(f"{wire}: {name}", added, "µs a chunk", GOAL, aside=aside))
    return rows


def replaying(rounds: int) -> list[Row]:
    rows = []
    for wire, model in MODELS.items():
        chunks = WIRES[wire]()
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(_stream(model, chunks, Recorder(folder)))
            (path,) = Cassette(folder).files()
            pairs = [(_decoded(path, model), _replayed(path, model)) for _ in range(rounds)]
        ratio = statistics.median([replayed / decoded for decoded, replayed in pairs])
        decoded = statistics.median([decoded for decoded, _ in pairs]) / len(chunks) / 1000
        rows.append(
            Row(
                f"{wire}: replay beside decoder and file",
                ratio,
                "times",
                SLOWER,
                aside=f"these take {decoded:.2f} µs a chunk",
            )
        )
    return rows


def _decoded(path: Path, model: str) -> int:
    start = time.process_time_ns()
    decoder = make_decoder(dialect=model, turn_key="k")
    for chunk in read_exchange(path).chunks:
        decoder.feed(chunk.data)
    decoder.close()
    return time.process_time_ns() - start


def _replayed(path: Path, model: str) -> int:
    start = time.process_time_ns()
    with replay(path, pace="fast"):
        read = time.process_time_ns() - start
        return read + asyncio.run(_stream(model, None, None))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    rows = [*recording(rounds), *replaying(rounds)]
    print(table(rows))
    raise SystemExit(1 if misses(rows) else 0)


if __name__ == "__main__":
    main()
