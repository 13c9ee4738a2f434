"""The access log: one line for each request, without contents and without keys.

Lines are pure ASCII, so that no text a client sends can end one, whoever reads it. A request only appends its record; records
are encoded many at a time and written by a thread of their own, for a pipe that nobody reads must not stop the gateway.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import stat
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, TypeAlias

import msgspec

from ..client.attempts import Attempt

LogFormat: TypeAlias = Literal["json", "text", "none"]

_EVERY = 0.2  # seconds between two writes
_BATCH = 512  # records
_QUEUED = 64  # batches that wait for a slow reader; what comes after them is lost, and counted
_ATOMIC = 4096  # bytes that a pipe takes from several processes without mixing them (POSIX's PIPE_BUF on Linux)
_LONGEST = 128  # characters of a text that a client chose


_now = partial(datetime.now, UTC)


class RequestRecord(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """What is known of a request when it is over."""

    time: datetime = msgspec.field(default_factory=_now)
    id: str = ""
    status: int
    wire: str = ""
    """What the client speaks."""
    tenant: str = ""
    key: str = ""
    """The id of the gateway's key, never the key."""
    asked: str = ""
    model: str = ""
    """The model that answered."""
    stream: bool = False
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float | None = None
    """US dollars; None if nobody knows."""
    ttft_ms: float | None = None
    """Until the first piece of the answer."""
    duration_ms: float = 0.0
    attempts: int = 1
    """Requests to hosts, and models that could not be asked."""
    tried: Sequence[Attempt] = ()
    """What became of each."""
    notes: int = 0
    noted: str = ""
    """The codes of the notes that tell of a change, and the options that they are about."""
    received: int = 0
    """Bytes of the request's body."""
    sent: int = 0
    """Bytes of the answer's body."""
    error: str = ""
    """The kind of error, not its text."""
    path: str = ""
    """Where it was sent, if it was passed on, or refused before anything else was known of it."""


class AccessLog:
    """Writes records to a file descriptor."""

    def __init__(self, fd: int = 1, form: LogFormat = "json") -> None:
        self._fd = fd
        self._form = form
        self._records: list[RequestRecord] = []
        self._timer: asyncio.TimerHandle | None = None
        # Bounded, and lines are dropped when it is full: a log must never be the reason why requests wait.
        self._batches: queue.Queue[bytes | None] = queue.Queue(_QUEUED)
        self._thread: threading.Thread | None = None
        # Several workers may share one pipe; a longer write could be
        # cut in two by another's. Files and terminals take it whole.
        self._pieces = _ATOMIC if form != "none" and stat.S_ISFIFO(os.fstat(fd).st_mode) else 1 << 20
        self.lost = 0
        """Lines that could not be written."""

    def add(self, record: RequestRecord) -> None:
        if self._form == "none":
            return
        records = self._records
        records.append(record)
        if len(records) >= _BATCH:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_EVERY, self.flush)

    def flush(self) -> None:
        """Hand over what there is to the thread that writes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        records, self._records = self._records, []
        if not records:
            return
        # Started with the first record: a log without lines needs no thread.
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="midstream-access-log", daemon=True)
            self._thread.start()
        try:
            self._batches.put_nowait(encode_records(records, self._form))
        except queue.Full:
            self.lost += len(records)

    def close(self, wait: float = 2.0) -> None:
        """Write what is left, for as long as the reader takes it."""
        self.flush()
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                # None ends the thread, behind everything that waits before it.
                self._batches.put(None, timeout=wait)
            except queue.Full:
                return
            thread.join(wait)

    def _write(self) -> None:
        while (batch := self._batches.get()) is not None:
            try:
                for piece in whole_lines(batch, self._pieces):
                    while piece:
                        piece = piece[os.write(self._fd, piece) :]
            except OSError:  # nobody reads any more: the gateway goes on without a log
                self.lost += batch.count(b"\n")


def whole_lines(batch: bytes, most: int) -> Iterator[bytes]:
    """Cut it behind line breaks, into pieces of at most `most` bytes; a longer line is a piece of its own."""
    start = 0
    while len(batch) - start > most:
        # `rfind` gives -1 for "not found", which becomes 0, so that `or` looks for the end of the long line instead.
        end = batch.rfind(b"\n", start, start + most) + 1 or batch.index(b"\n", start) + 1
        yield batch[start:end]
        start = end
    if start < len(batch):
        yield batch[start:]


def encode_records(records: list[RequestRecord], form: LogFormat) -> bytes:
    """Their lines, each with its line break."""
    # Here and not when the record is made: this runs once per batch, off the path of a request.
    for record in records:
        record.duration_ms = round(record.duration_ms, 1)
        if record.ttft_ms is not None:
            record.ttft_ms = round(record.ttft_ms, 1)
        if len(record.asked) > _LONGEST:
            record.asked = record.asked[:_LONGEST] + "…"
        if len(record.path) > _LONGEST:
            record.path = record.path[:_LONGEST] + "…"
    if form == "text":
        return b"".join([_text(record) for record in records])
    try:
        # The quick way for nearly all batches; one record with other characters sends the whole batch the slow way.
        lines = _encoder.encode_lines(records)
        if lines.isascii():
            return lines
    except UnicodeEncodeError:
        pass  # half a surrogate pair, which JSON cannot hold
    return b"".join([_plain(record) for record in records])


_encoder = msgspec.json.Encoder()


def _plain(record: RequestRecord) -> bytes:
    """A record with text that is not ASCII, some of which ends a line for some readers (U+0085, U+2028)."""
    fields = {name: _whole(value) for name, value in msgspec.structs.asdict(record).items() if value is not None}
    fields["time"] = record.time.isoformat().replace("+00:00", "Z")
    fields["tried"] = msgspec.to_builtins(record.tried)
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _whole(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _text(record: RequestRecord) -> bytes:
    """For people: the usual case in one glance."""
    first = "" if record.ttft_ms is None else f" first {record.ttft_ms:g} ms"
    cost = "" if record.cost is None else f" ${record.cost:.6f}"
    tokens = f" {record.input}+{record.output} tokens" if record.input or record.output else ""
    error = f" error={_word(record.error)}" if record.error else ""
    if record.path:
        error += f" path={_word(record.path)}"
    for each in record.tried if len(record.tried) > 1 or record.error else ():
        cause = f" {_word(each.error)}" if each.error else ""
        error += f" [{_word(each.model)} at {_word(each.host)}: {each.status or 'no status'}{cause} {each.ms:g} ms]"
    if record.noted:
        error += f" noted={_word(record.noted)}"
    model = f"{_word(record.asked)} -> {_word(record.model)}" if record.asked != record.model else _word(record.model)
    line = (
        f"{record.time:%H:%M:%S} {record.status} {_word(record.wire)} {model} {record.duration_ms:g} ms{first}{tokens}{cost}"
        f"{error} tenant={_word(record.tenant)} id={_word(record.id)}\n"
    )
    return line.encode()


def _word(text: str) -> str:
    if text and text.isascii() and text.isprintable() and " " not in text:
        return text
    return json.dumps(_whole(text)) if text else "-"
