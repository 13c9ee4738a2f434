"""One line a request, whatever is in it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from midstream.gateway.access_log import AccessLog, LogFormat, RequestRecord, encode_records, whole_lines
from tests.event_loops import run
from tests.long_run import each_once

HOSTILE = [
    "plain",
    "two\nlines",
    "cr\rlf\r\n",
    "nul\0",
    "next\x85line",
    "line\u2028separator\u2029",
    "\x0b\x0c\x1c\x1d\x1e",
    "\x1b[31mred\x1b[0m\x9b1m",
    "half \ud800 pair",
    '"quotes" and \\ backslashes',
    '{"status":200}',
    "id=1 status=200",
    "\u202eright to left",
    "ünïcode 漢字 😀",
    "x" * 100_000,
]
TEXTS = ("id", "wire", "tenant", "key", "asked", "model", "error")


def record(**fields: Any) -> RequestRecord:
    return RequestRecord(**({"id": "r1", "status": 200} | fields))


@each_once(("form", ["json", "text"]), ("field", TEXTS))
def test_lines_are_records(form: LogFormat, field: str) -> None:
    data = encode_records([record(**{field: text}) for text in HOSTILE], form)
    assert data.isascii()
    assert data.endswith(b"\n")
    assert len(data.decode().splitlines()) == len(HOSTILE)
    assert b"\x1b" not in data
    if form == "json":
        for line, text in zip(data.splitlines(), HOSTILE, strict=True):
            found = msgspec.json.decode(line)
            assert found["status"] == 200
            assert len(line) < 1000 or field != "asked"  # what a client chooses is cut
            if text.isprintable() and len(text) < 100:
                assert found[field] == text


@given(st.lists(st.text() | st.text("\n\r\x85\u2028\ud800{}\"' "), max_size=5))
def test_any_text(texts: list[str]) -> None:
    for form in ("json", "text"):
        data = encode_records([record(**dict.fromkeys(TEXTS, text)) for text in texts], form)  # type: ignore[arg-type]
        assert len(data.decode("ascii").splitlines()) == len(texts)


def test_what_a_line_says() -> None:
    full = record(
        wire="anthropic", tenant="t1", key="k1", asked="claude-x", model="moonshot/kimi-k2.5", stream=True, input=12, output=3,
        cost=0.0015, ttft_ms=12.345, duration_ms=100.06, attempts=2, notes=1, noted="unsupported_option: n", received=500, sent=700, error="overloaded",
    )  # fmt: skip
    (line,) = encode_records([full], "json").splitlines()
    found = msgspec.json.decode(line)
    assert found.pop("time").endswith("Z")
    assert found == {
        "id": "r1", "status": 200, "wire": "anthropic", "tenant": "t1", "key": "k1", "asked": "claude-x",
        "model": "moonshot/kimi-k2.5", "stream": True, "input": 12, "output": 3, "cost": 0.0015, "ttft_ms": 12.3,
        "duration_ms": 100.1, "attempts": 2, "notes": 1, "noted": "unsupported_option: n", "received": 500, "sent": 700, "error": "overloaded",
    }  # fmt: skip
    text = encode_records([full], "text").decode()
    for part in ("200 anthropic claude-x -> moonshot/kimi-k2.5 100.1 ms", "12+3 tokens", "$0.0015", "error=overloaded"):
        assert part in text


def write_all(log: AccessLog, count: int) -> None:
    async def main() -> None:
        for number in range(count):
            log.add(record(id=f"r{number}"))
        log.close()

    run(main())


def test_every_record_is_written_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "log"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        write_all(AccessLog(fd), 5000)
    finally:
        os.close(fd)
    assert [msgspec.json.decode(line)["id"] for line in path.read_bytes().splitlines()] == [
        f"r{n}" for n in range(5000)
    ]


def test_records_do_not_wait_for_more() -> None:
    async def main() -> None:
        read, write = os.pipe()
        log = AccessLog(write)
        try:
            log.add(record())
            line = await asyncio.to_thread(os.read, read, 65536)  # nobody asked for it
            assert msgspec.json.decode(line)["id"] == "r1"
        finally:
            log.close()
            os.close(read)
            os.close(write)

    run(main())


@given(st.lists(st.integers(0, 9000), max_size=20))
def test_a_pipe_takes_whole_lines(lengths: list[int]) -> None:
    """Several workers write to one pipe: what is written at once is whole lines, and no more than a pipe takes at once."""
    batch = b"".join([b"x" * length + b"\n" for length in lengths])
    pieces = list(whole_lines(batch, 4096))
    assert b"".join(pieces) == batch
    for piece in pieces:
        assert piece.endswith(b"\n")
        assert len(piece) <= 4096 or piece.count(b"\n") == 1


def test_a_reader_that_stopped_costs_lines_and_nothing_else() -> None:
    read, write = os.pipe()
    log = AccessLog(write)

    async def main() -> None:
        for number in range(100_000):  # far more than the pipe and the queue hold; none of it waits
            log.add(record(id=f"r{number}"))
        log.flush()

    run(main())
    assert 0 < log.lost < 100_000
    os.close(read)  # the thread sees that nobody will read
    log.close()
    os.close(write)


def test_none_writes_nothing() -> None:
    log = AccessLog(-1, "none")
    log.add(record())
    log.close()
