"""Writes each exchange that a transport carries to a file of its own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from ..core.errors import MidstreamError
from ..transport.tap import Ending, everywhere
from ..transport.target import Target
from ..wires.request import Request
from .cassette import Cassette
from .exchange import Chunk, RecordedError, RecordedExchange, RecordedHead, encode_exchange, encode_heard
from .scrub import Scrub

log = logging.getLogger("midstream.recording")

_KEPT = 1000
"""So many files and problems are remembered."""


class Recorder:
    """A `Tap` that keeps every exchange in a cassette: `Client(recorder=Recorder("cassettes"))`.

    An exchange is written when it has ended; until then it is held in memory, as much as `TransportOptions.max_stream` allows. It never disturbs the answer it listens to: what could not be saved is logged and kept in
    `problems`, and `check` raises it.
    """

    def __init__(
        self,
        cassette: Cassette | str | Path,
        *,
        scrub: Scrub | None = None,
        on_saved: Callable[[Path], None] = lambda _: None,
        now: Callable[[], float] = time.time,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.cassette = cassette if isinstance(cassette, Cassette) else Cassette(cassette)
        self.scrub = scrub or Scrub()
        self.saved: list[Path] = []
        """The last files that were written."""
        self.problems: list[Exception] = []
        """The last reasons why one was not."""
        self._on_saved = on_saved
        self._now = now
        self._clock = clock

    def __repr__(self) -> str:
        return f"<Recorder {self.cassette.folder}: {len(self.saved)} saved>"

    def sent(self, target: Target) -> RecordingExchange:
        return RecordingExchange(self, target, self._clock)

    def save(self, recording: RecordingExchange, ending: Ending, error: MidstreamError | None) -> None:
        """Write what was recorded. Never raises: the answer is more than its recording."""
        try:
            exchange, data = recording.written(self.scrub, self._now(), ending, error)
            path = self.cassette.write(exchange, data)
            self.saved.append(path)
            self._on_saved(path)
        # Everything: a full disk or a fault of ours must not break the conversation that is recorded.
        except Exception as problem:
            self.problems.append(problem)
            log.warning(
                "%s", problem if isinstance(problem, MidstreamError) else f"a recording was not saved: {problem!r}"
            )

        # A gateway records for weeks.
        del self.saved[:-_KEPT], self.problems[:-_KEPT]

    def check(self) -> None:
        """Raise the first problem, if an exchange could not be saved."""
        if self.problems:
            # The first, as the later ones often follow from it (a full disk).
            raise self.problems[0]


class RecordingExchange:
    """What is heard of one exchange."""

    __slots__ = ("_began", "_clock", "_head", "_parts", "_recorder", "_target", "_times", "chunk")

    def __init__(self, recorder: Recorder, target: Target, clock: Callable[[], int]) -> None:
        self._recorder = recorder
        self._target = target
        self._clock = clock
        self._head: tuple[int, int, Mapping[str, str]] | None = None
        # Two lists and not one of pairs: a pair for each chunk is work for the garbage collector.
        self._parts: list[bytes] = []
        self._times: list[int] = []
        self._began = clock()
        self.chunk = self._listener()

    def _listener(self) -> Callable[[bytes], None]:
        # A closure: called at every chunk of a live stream, and looking up attributes costs as much as the work.
        add, note, clock = self._parts.append, self._times.append, self._clock

        def chunk(data: bytes) -> None:
            add(data)
            note(clock())

        return chunk

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        self._head = (self._clock(), status, headers)

    def end(self, ending: Ending, error: MidstreamError | None) -> None:
        self._recorder.save(self, ending, error)

    def written(
        self, scrub: Scrub, now: float, ending: Ending, error: MidstreamError | None
    ) -> tuple[RecordedExchange, bytes]:
        """The exchange and its file; SecretRemains if it cannot be written. Where nothing has to be taken out of the answer, the first is
        without the chunks, which are in the file as they came."""
        began, target = self._began, self._target
        ended = self._since(self._clock())
        # The headers still hold the key here: it is looked for in the answer too, since error messages quote it.
        known = scrub.known(target.headers, target.url)
        head = None
        if self._head is not None:
            at, status, headers = self._head
            head = RecordedHead(status, dict(headers), self._since(at))
        asked = target.request
        model, wire = (_model(asked), asked.wire) if isinstance(asked, Request) else ("", "")
        exchange = RecordedExchange(
            scrub.request(target.method, target.url, target.headers, target.body, known),
            head,
            (),
            ending,
            None if error is None else RecordedError.of(error),
            ended,
            model,
            wire,
            datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        )
        times = [(at - began) // 1000 for at in self._times]
        if scrub.passes(head, b"".join(self._parts), known):
            exchange = scrub.exchange(exchange, known)
            return exchange, encode_heard(exchange, times, self._parts)
        chunks = tuple([Chunk(at, data) for at, data in zip(times, self._parts, strict=True)])
        exchange = scrub.exchange(replace(exchange, chunks=chunks), known)
        return exchange, encode_exchange(exchange)

    def _since(self, at: int) -> int:
        return (at - self._began) // 1000


def _model(request: Request) -> str:
    provider = request.dialect.provider if request.dialect is not None else ""
    return f"{provider}/{request.model}" if provider else request.model


@contextmanager
def record(cassette: Cassette | str | Path, *, scrub: Scrub | None = None) -> Iterator[Recorder]:
    """Record every exchange of this process while the block runs, whoever made the client. What could not be saved is raised at its
    end."""
    recorder = Recorder(cassette, scrub=scrub)
    before, everywhere.tap = everywhere.tap, recorder
    try:
        yield recorder
    finally:
        everywhere.tap = before
    recorder.check()
