"""A folder of recordings, in the order in which they were made."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from ..core.errors import LocalError
from ..core.patterns import late_pattern
from .exchange import RecordedExchange, decode_exchange, encode_exchange

SUFFIX = ".jsonl"
_HEALED = ".healed.jsonl"  # the doctor writes such copies beside what it read
_NUMBER = late_pattern(r"(\d+)-")
# Only other processes that write at the same moment cost a try; a folder that never gives a free number is a fault, not a wait.
_TRIES = 10_000


class Cassette:
    """Files are named by their number and what was asked: `0001-api.moonshot.ai-chat-completions.jsonl`."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._next = 0

    def __repr__(self) -> str:
        return f"<Cassette {self.folder}>"

    def files(self) -> list[Path]:
        """Sorted as they were recorded. A cassette that is not there yet has none."""
        if self.folder.is_file():
            return [self.folder]
        found = [path for path in self.folder.glob("*" + SUFFIX) if not path.name.endswith(_HEALED) and path.is_file()]
        return sorted(found, key=_place)

    def read(self) -> Iterator[tuple[Path, RecordedExchange]]:
        for path in self.files():
            yield path, read_exchange(path)

    def add(self, exchange: RecordedExchange) -> Path:
        """Write it under the next free number. Several processes may write to one folder."""
        return self.write(exchange, encode_exchange(exchange))

    def write(self, exchange: RecordedExchange, data: bytes) -> Path:
        """The same, with the file of the exchange as it is to be."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # Looked up once: to list a folder of thousands of files for each recording would be quadratic.
        if not self._next:
            self._next = max([_place(path)[0] for path in self.files()], default=0) + 1
        name = _name(exchange)
        for _ in range(_TRIES):
            path = self.folder / f"{self._next:04d}-{name}{SUFFIX}"
            self._next += 1
            try:
                # Only its owner may read it: what was said is in it.
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:  # another process was here
                continue
            with os.fdopen(file, "wb", buffering=0) as out:
                out.write(data)
            return path
        raise LocalError(f"no free number in {self.folder} for another recording")


def read_exchange(path: str | Path) -> RecordedExchange:
    """The recording in a file; BadRecording says what is wrong with it."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise LocalError(f"cannot read the recording {path}: {error.strerror}") from None
    return decode_exchange(data, str(path))


def _place(path: Path) -> tuple[int, str]:
    match = _NUMBER.match(path.name)
    return (int(match[1]) if match else 0, path.name)


def _name(exchange: RecordedExchange) -> str:
    parts = urlsplit(exchange.request.url)
    # The end of a path says what was asked; a model's name in it may be long.
    words = [parts.hostname or "", *[part for part in parts.path.split("/") if part][-2:]]
    return re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(words)).strip("-.")[:80] or "exchange"
