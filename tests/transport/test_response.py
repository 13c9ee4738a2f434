from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from midstream.core.errors import IdleTimeout, TimedOut, TransportError
from midstream.transport.options import TransportOptions
from midstream.transport.response import Watch


class Handle:
    def __init__(self, when: float, call: Callable[[], None]) -> None:
        self.when = when
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """An event loop's clock and timers, moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.handles: list[Handle] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> Handle:
        self.handles.append(Handle(when, call))
        return self.handles[-1]

    def move(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [handle for handle in self.handles if not handle.cancelled and handle.when <= end]:
            first = min(due, key=lambda handle: handle.when)
            self.handles.remove(first)
            self.now = max(self.now, first.when)
            first.call()
        self.now = end


class Reader:
    def __init__(self) -> None:
        self.ended: list[TransportError] = []

    def expire(self, error: TransportError) -> None:
        self.ended.append(error)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    made = Loop()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: made)
    return made


def _watch(
    reader: Reader, idle: float = 10, total: float = 1000, *, first_byte: float = 100, begun: bool = True
) -> Watch:
    options = TransportOptions(first_byte=first_byte, idle=idle, total=total)
    watch = Watch(options, 100.0 + total, reader.expire)
    watch.start()
    if begun:
        watch.progress()
    return watch


def _beat(loop: Loop, watch: Watch, *gaps: float) -> None:
    """Bytes that are no data, each after so long."""
    for gap in gaps:
        watch.wait()
        loop.move(gap)
        watch.rest()
        watch.heartbeat()
    watch.wait()


@pytest.mark.parametrize(
    "gaps, ends, error",
    [
        ((), 100, TimedOut),
        ((0,), 100, TimedOut),  # one early comment changes nothing
        ((4,) * 24, 100, TimedOut),
        ((4, 4), 20, IdleTimeout),
        ((4, 5, 4), 28, IdleTimeout),  # three times the spacing: the longest
        ((0, 20), 80, IdleTimeout),
        ((0, 30), 100, TimedOut),
    ],
)
def test_until_the_first_data_the_limit_is_that_of_the_first_byte(
    loop: Loop, gaps: tuple[float, ...], ends: float, error: type[TransportError]
) -> None:
    reader = Reader()
    watch = _watch(reader, begun=False)
    _beat(loop, watch, *gaps)
    loop.move(100 + ends - 0.1 - loop.now)
    assert not reader.ended
    loop.move(0.2)
    assert [type(each) for each in reader.ended] == [error]


def test_silence_is_counted_while_waiting(loop: Loop) -> None:
    reader = Reader()
    watch = _watch(reader)
    watch.wait()
    loop.move(9.9)
    assert not reader.ended
    loop.move(0.2)
    (error,) = reader.ended
    assert isinstance(error, IdleTimeout)


def test_progress_begins_the_silence_anew(loop: Loop) -> None:
    reader = Reader()
    watch = _watch(reader)
    for _ in range(20):
        watch.wait()
        loop.move(9)
        watch.rest()
        watch.progress()
    assert not reader.ended


def test_bytes_without_progress_do_not(loop: Loop) -> None:
    reader = Reader()
    watch = _watch(reader)
    for _ in range(4):
        watch.wait()
        loop.move(3)
        watch.rest()
    assert isinstance(reader.ended[0], IdleTimeout)


def test_the_readers_own_time_does_not_count(loop: Loop) -> None:
    reader = Reader()
    watch = _watch(reader)
    for _ in range(3):
        watch.wait()
        loop.move(3)
        watch.rest()
        loop.move(55)
    assert not reader.ended
    watch.wait()
    loop.move(1.1)
    assert isinstance(reader.ended[0], IdleTimeout)


def test_the_total_counts_everything(loop: Loop) -> None:
    reader = Reader()
    _watch(reader, total=50)
    loop.move(49)
    assert not reader.ended
    loop.move(1)
    (error,) = reader.ended
    assert isinstance(error, TimedOut)


def test_a_stopped_watch_is_silent_and_holds_no_timer(loop: Loop) -> None:
    reader = Reader()
    watch = _watch(reader)
    watch.wait()
    watch.stop()
    watch.stop()
    loop.move(5000)
    assert not reader.ended
    assert all(handle.cancelled for handle in loop.handles)


def test_a_reader_that_was_dropped_is_not_held(loop: Loop) -> None:
    reader = Reader()
    _watch(reader)
    del reader
    loop.move(5000)
    assert not loop.handles
