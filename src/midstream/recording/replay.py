"""Recorded answers in the network's place.

Inside `with replay("cassettes"):` every transport of the process gets its answers from the files, byte for byte: everything above the
connection (retries, limits, decompression, decoders) runs as it did. A request that was not recorded is an error that says
what differs. Each recording answers once, in the order of the files.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias, get_args
from urllib.parse import urlsplit, urlunsplit

from msgspec.structs import replace

from ..core.errors import ConnectFailed, LocalError, MidstreamError, TimedOut, TruncatedStream
from ..core.plural import pluralize
from ..transport.tap import everywhere
from ..transport.target import Target
from .cassette import Cassette
from .exchange import Chunk, RecordedExchange, RecordedRequest
from .matching import CanonicalRequest, tell
from .recorder import Recorder
from .scrub import Scrub

Pace: TypeAlias = Literal["chunks", "original", "fast", "bytes", "random"]
"""How an answer comes: as it was cut, at once; as it was cut, when it came; all of it together, as a connection gives what has come
meanwhile; one byte at a time; cut anew at random."""
Mode: TypeAlias = Literal["none", "new", "all"]
"""What is recorded: nothing; requests that no recording answers; everything, in place of what is there."""
# Mostly within characters, field names and line ends, where decoders break; now and then a few events at once.
_RANDOM_CUTS = (1, 2, 3, 5, 17, 64, 256)


def recut(body: bytes, pace: Pace, dice: random.Random) -> Iterator[bytes]:
    """A body in single bytes, or cut at random."""
    at = 0
    while at < len(body):
        size = 1 if pace == "bytes" else dice.choice(_RANDOM_CUTS)
        yield body[at : at + size]
        at += size


class NoRecording(LocalError):
    """No recording answers a request."""

    kind = "no_recording"


class Replay:
    """The recordings of a cassette, to be given out: a `Source` for transports, and what the server of replays asks."""

    def __init__(
        self,
        cassette: Cassette | str | Path,
        *,
        pace: Pace = "chunks",
        seed: int = 0,
        scrub: Scrub | None = None,
        record: Mode = "none",
        repeat: bool = False,
    ) -> None:
        if pace not in get_args(Pace):
            raise LocalError(f"invalid pace {pace!r}; expected one of {', '.join(get_args(Pace))}")
        if record not in get_args(Mode):
            raise LocalError(f"invalid record {record!r}; expected one of {', '.join(get_args(Mode))}")
        self.cassette = cassette if isinstance(cassette, Cassette) else Cassette(cassette)
        self.pace = pace
        self.requests = 0
        self._dice = random.Random(seed)
        self._scrub = scrub or Scrub()
        self._mode = record
        self._repeat = repeat
        self._recorded: list[_Recorded] = []
        # A list for each, as a conversation may send the same request twice and get two answers.
        self._known: dict[bytes, list[_Recorded]] = {}
        # What is recorded anew is not answered from the old files.
        for path, exchange in [] if record == "all" else self.cassette.read():
            each = _Recorded(path, exchange)
            self._recorded.append(each)
            self._known.setdefault(each.request.key, []).append(each)
        if record == "none" and not self._recorded:
            raise LocalError(
                f"there are no recordings in {self.cassette.folder}: record some first (pytest --midstream-record=new, "
                "or midstream ask --record)"
            )

    def __repr__(self) -> str:
        return f"<Replay of {len(self._recorded)} in {self.cassette.folder}>"

    def __len__(self) -> int:
        return len(self._recorded)

    @property
    def paths(self) -> list[str]:
        """The paths that were asked for, each once."""
        return list(dict.fromkeys([each.request.path for each in self._recorded]))

    @property
    def unused(self) -> list[Path]:
        """The recordings that nothing has asked for so far."""
        return [each.path for each in self._recorded if not each.used]

    @property
    def offline(self) -> bool:
        """Whether every answer comes from a recording: then no key is needed."""
        return self._mode == "none"

    @property
    def instant(self) -> bool:
        return self.offline and self.pace != "original"

    async def send(self, target: Target) -> ReplayedResponse | None:
        found = self.answer(self._canonical(target))
        if found is None:
            return None
        began = asyncio.get_running_loop().time()
        waits = self.pace == "original"
        if found.head is None:
            if waits:
                await asyncio.sleep(found.ended_us / 1e6)
            raise _error(found) or ConnectFailed("the request that was recorded was cancelled before its answer began")
        if waits:
            await asyncio.sleep(found.head.at_us / 1e6)
        return ReplayedResponse(found, self.cut(found), began if waits else None)

    def answer(self, request: CanonicalRequest) -> RecordedExchange | None:
        """The recording that answers it; None where it may be recorded, else NoRecording."""
        self.requests += 1
        same = [each for each in self._known.get(request.key, ()) if each.request.at_the_same_host(request)]
        free = next((each for each in same if not each.used), None)
        if free is None and self._repeat and same:
            # The last, not the first: after a retry it is the answer that counted.
            free = same[-1]
        if free is not None:
            free.used = True
            return free.exchange
        if self._mode != "none":
            return None
        raise self._refusal(request, same)

    def at_path(self, request: RecordedRequest) -> RecordedExchange:
        """The recording that answers a request which came to a server of ours: its host is nobody's, and the client may have left out the
        beginning of the path, which was part of the base URL when it was recorded."""
        parts = urlsplit(request.url)
        # The shortest first: a tail such as `/messages` fits several paths, and the shortest adds the least to it.
        known = sorted({each.request.path for each in self._recorded}, key=len)
        tail = "/" + parts.path.lstrip("/")
        path = next((each for each in known if each.endswith(tail)), parts.path)
        found = self.answer(CanonicalRequest.of(replace(request, url=urlunsplit(parts._replace(path=path)))))
        assert found is not None, "a server records nothing"
        return found

    def cut(self, exchange: RecordedExchange) -> Sequence[Chunk]:
        """The chunks of an answer at this pace."""
        if self.pace in ("chunks", "original"):
            return exchange.chunks
        if self.pace == "fast":
            return [Chunk(0, exchange.body)] if exchange.chunks else []
        return [Chunk(0, data) for data in recut(exchange.body, self.pace, self._dice)]

    def _canonical(self, target: Target) -> CanonicalRequest:
        known = self._scrub.known(target.headers, target.url)
        request = self._scrub.request(target.method, target.url, target.headers, target.body, known)
        return CanonicalRequest.of(request)

    def _refusal(self, request: CanonicalRequest, same: list[_Recorded]) -> NoRecording:
        asked = f"{request.method} {request.host}{request.path}"
        if same:
            return NoRecording(
                f"{asked} was recorded {pluralize(len(same), 'time')}, and replayed as often; "
                "record again, or pass repeat=True to give the last one again"
            )
        told = [(each.request.differences(request), each) for each in self._recorded]
        differences, closest = min(
            # A request to the same path with many differences is closer than one to another path with few.
            told,
            key=lambda pair: (pair[0][0].place == "path" if pair[0] else False, len(pair[0])),
        )
        return NoRecording(
            f"no recording in {self.cassette.folder} answers {asked}. The closest is {closest.path.name}:\n"
            f"{tell(differences)}\nRecord it (pytest --midstream-record=new), or mend the request"
        )


class _Recorded:
    """A recording, and whether it was given out."""

    __slots__ = ("exchange", "path", "request", "used")

    def __init__(self, path: Path, exchange: RecordedExchange) -> None:
        self.path = path
        self.exchange = exchange
        self.request = CanonicalRequest.of(exchange.request)
        self.used = False


class ReplayedResponse:
    """A RawResponse whose bytes come from a recording, at once or when they came then."""

    def __init__(self, exchange: RecordedExchange, chunks: Sequence[Chunk], began: float | None) -> None:
        assert exchange.head is not None
        self.status: int = exchange.head.status
        self.headers: Mapping[str, str] = exchange.head.headers
        self._exchange = exchange
        self._left = deque(chunks)
        self._began = began
        self._woken: asyncio.Future[None] | None = None
        self._closed = False

    @property
    def done(self) -> bool:
        # All is here, and there is nothing that a timer could wait for.
        return self._began is None

    def take(self) -> bytes | None:
        # As a connection does when it is read after it was closed.
        if self._closed:
            raise TruncatedStream("the connection was lost before the answer ended")
        if self._began is not None and asyncio.get_running_loop().time() < self._due(self._began):
            return None
        if self._left:
            return self._left.popleft().data
        if self._exchange.ending == "clean":
            return b""
        raise _error(self._exchange) or TruncatedStream(
            "the recording ends here: its reader left before the answer ended"
        )

    async def ready(self) -> None:
        loop = asyncio.get_running_loop()
        self._woken = loop.create_future()
        timer = loop.call_at(self._due(loop.time() if self._began is None else self._began), self._wake)
        try:
            await self._woken
        finally:
            timer.cancel()

    def first_byte_by(self, moment: float) -> None:
        """A limit that passed is part of the recording."""

    def close(self, reason: MidstreamError | None = None) -> None:
        self._closed = True
        self._left.clear()
        self._wake()

    def finish(self, grace: float) -> None:
        self._left.clear()

    def _due(self, began: float) -> float:
        return began + (self._left[0].at_us if self._left else self._exchange.ended_us) / 1e6

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)


def _error(exchange: RecordedExchange) -> MidstreamError | None:
    if exchange.error is not None:
        return exchange.error.to_exception()
    match exchange.ending:
        case "cut":
            return TruncatedStream("the connection was lost before the answer ended")
        case "timeout":
            return TimedOut("no data arrived in time")
        case _:
            return None


@contextmanager
def replay(
    cassette: Cassette | str | Path,
    *,
    pace: Pace = "chunks",
    seed: int = 0,
    scrub: Scrub | None = None,
    record: Mode = "none",
    repeat: bool = False,
) -> Iterator[Replay]:
    """Answer every request of this process from the cassette while the block runs, whoever made the client. No key is needed.

    `pace` says how the bytes come, `seed` where `random` cuts them. With `record="new"` a request that was not recorded goes to its host
    and is kept; with `"all"` every request does, and what was recorded before is replaced once the block ends well. With `repeat`
    the last recording of a request answers it as often as it is asked.
    """
    source = Replay(cassette, pace=pace, seed=seed, scrub=scrub, record=record, repeat=repeat)
    before = everywhere.source, everywhere.tap
    try:
        if record == "none":
            everywhere.source, everywhere.tap = source, None
            yield source
        elif record == "new":
            recorder = Recorder(source.cassette, scrub=scrub)
            everywhere.source, everywhere.tap = source, recorder
            yield source
            recorder.check()
        else:
            with _anew(source.cassette, scrub) as recorder:
                everywhere.source, everywhere.tap = None, recorder
                yield source
    finally:
        everywhere.source, everywhere.tap = before


@contextmanager
def _anew(cassette: Cassette, scrub: Scrub | None) -> Iterator[Recorder]:
    """Record beside the cassette, and put it in its place if all went well: a host that is down must not cost the old one."""
    cassette.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cassette.folder.parent, prefix=f".{cassette.folder.name}-") as folder:
        recorder = Recorder(folder, scrub=scrub)
        yield recorder
        recorder.check()
        # Only now, after `check`: until here the old recordings are untouched.
        for path in cassette.files():
            path.unlink()
        cassette.folder.mkdir(exist_ok=True)
        for path in Cassette(folder).files():
            shutil.move(path, cassette.folder / path.name)
