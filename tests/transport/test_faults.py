"""Every fault of the shared list against the real client and the real chat decoder: the wanted outcome, typed."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from midstream.codec import make_decoder
from midstream.core.blocks import Text, ToolCall
from midstream.core.errors import (
    ConnectFailed,
    LimitExceeded,
    MalformedStream,
    MidstreamError,
    Overloaded,
    ProviderError,
    RemoteError,
    RetriesExhausted,
    TimedOut,
)
from midstream.core.events import Done, ErrorEvent, Event
from midstream.core.lifecycle import check
from midstream.transport import RetryPolicy, Transport, TransportOptions, stream_events
from tests.shared_data import shared

from .asking import AUTH, CANARY, Clock, asks, run

pytestmark = pytest.mark.usefixtures("each_loop")

WANTED: dict[str, str] = {
    vector["fault"]: vector["want"]
    for vector in msgspec.json.decode(shared("vectors/reliability/faults.json").read_bytes())["vectors"]
}
SERVER = shared("tools/chaos.py")
PATIENT = TransportOptions(first_byte=60, idle=60, total=120, retry=RetryPolicy(max_retries=2), linger=0.1)
HASTY = TransportOptions(first_byte=0.5, idle=0.5, total=30, retry=RetryPolicy(max_retries=2), linger=0.1)
SILENT = ("hang_before_headers", "headers_then_hang", "hang_mid", "comments_forever")
PEAK = 32 * 1024  # KiB


class Outcome(msgspec.Struct):
    """What one fault led to."""

    events: list[Event] = []
    error: MidstreamError | None = None
    slept: list[float] = []
    requests: int = 0
    shown: str = ""

    @property
    def last(self) -> Event | None:
        return self.events[-1] if self.events else None

    @property
    def text(self) -> str:
        assert isinstance(self.last, Done | ErrorEvent)
        return "".join(block.text for block in self.last.turn.blocks if isinstance(block, Text))

    @property
    def calls(self) -> list[ToolCall]:
        assert isinstance(self.last, Done | ErrorEvent)
        return [block for block in self.last.turn.blocks if isinstance(block, ToolCall)]

    @property
    def kind(self) -> str:
        """The kind of an error event, or the class of an error that was raised."""
        if isinstance(self.last, ErrorEvent):
            return self.last.error.kind
        return type(self.error).__name__ if self.error is not None else "done"


@pytest.fixture(scope="module")
def chaos(each_loop: str) -> Iterator[str]:  # it counts what it was asked: one for each loop
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = subprocess.Popen([sys.executable, SERVER, str(port)])
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                server.poll()
                assert server.returncode is None, "the fault-playing server did not start"
                _wait(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def _wait(seconds: float) -> None:
    asyncio.run(asyncio.sleep(seconds))


class _Shown(logging.Handler):
    """Everything that is logged, at every level, formatted."""

    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{self.format(record)} {record.__dict__}")


async def _ask(base: str, fault: str) -> Outcome:
    clock = Clock()
    outcome = Outcome()
    options = HASTY if fault in SILENT else PATIENT
    shown: list[Any] = []
    async with Transport(options, environ={}, sleep=clock.sleep, clock=clock, rng=lambda: 0.0) as transport:
        try:
            answer = await transport.open(asks(), f"{base}/f/{fault}/v1", AUTH)
            shown += [answer, vars(answer)]
            async for batch in stream_events(answer, make_decoder()):
                outcome.events += batch
        except MidstreamError as error:
            outcome.error = error
            shown += _views_of(error)
        shown += [transport, vars(transport), outcome.events]
    outcome.slept = clock.slept
    outcome.shown = " ".join(f"{item!r} {item}" for item in shown)
    return outcome


def _views_of(error: BaseException) -> list[Any]:
    """An error as anyone may come to see it: its words, its fields, its chain, its pickle, its frames' variables."""
    views: list[Any] = [error, error.args, vars(error), pickle.dumps(error.args)]
    views += traceback.format_exception(error)
    frames = traceback.TracebackException.from_exception(error, capture_locals=True)
    views += [frame.locals for frame in frames.stack if frame.filename.count("midstream/transport")]
    for other in (error.__cause__, error.__context__, *getattr(error, "attempts", ())):
        if other is not None:
            views += [other, other.args, vars(other), type(other).__module__]
    return views


@pytest.fixture(scope="module")
def outcomes(chaos: str) -> dict[str, Outcome]:
    """Each fault once, with everything logged at DEBUG, asyncio's own debug messages included."""

    async def main() -> dict[str, Outcome]:
        asyncio.get_running_loop().set_debug(True)
        found = {}
        for fault in WANTED:
            found[fault] = await _ask(chaos, fault)
        async with Transport(PATIENT, environ={}) as transport:
            log = json.loads(await (await transport.open(asks(b"", method="GET", path="/log"), chaos)).read())
        for fault, outcome in found.items():
            outcome.requests = len(log.get(fault, ()))
        assert all(entry["auth"] == AUTH["authorization"] for entries in log.values() for entry in entries)
        assert all(entry["host"].startswith("127.0.0.1:") for entries in log.values() for entry in entries)
        return found

    root, handler = logging.getLogger(), _Shown()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        found = run(main())
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    found["ok"].shown += "\n".join(handler.lines)
    return found


def _completed(o: Outcome) -> bool:
    return isinstance(o.last, Done) and o.text == "Hello" and o.last.reason == "end_turn"


def _refused_at_once(o: Outcome) -> bool:
    return isinstance(o.error, ProviderError) and o.requests == 1 and o.slept == []


def _connection_error(o: Outcome) -> bool:
    return (
        isinstance(o.error, RetriesExhausted)
        and o.error.retryable
        and [type(error) for error in o.error.attempts] == [ConnectFailed] * 3
        and o.requests == 3
    )


def _timeout(o: Outcome) -> bool:
    if o.error is not None:
        return isinstance(o.error, TimedOut) and o.requests == 1
    return isinstance(o.last, ErrorEvent) and o.kind == "idle_timeout" and o.text == "Hello"


def _busy_then_given_up(o: Outcome) -> bool:
    return (
        isinstance(o.error, RetriesExhausted)
        and all(isinstance(e, Overloaded) and e.status == 503 and "<" not in str(e) for e in o.error.attempts)
        and o.requests == 3
    )


def _never_an_empty_success(o: Outcome) -> bool:
    return isinstance(o.error, RemoteError) or isinstance(o.last, ErrorEvent) or _completed(o)


def _broken(o: Outcome) -> bool:
    return isinstance(o.error, RemoteError) or (isinstance(o.last, ErrorEvent) and o.kind in ("truncated", "malformed"))


def _incomplete(o: Outcome) -> bool:
    return o.kind == "truncated" and o.text == "Hello" and o.requests == 1


def _provider_error_mid(o: Outcome) -> bool:
    told = o.last.to_exception() if isinstance(o.last, ErrorEvent) else None
    return isinstance(told, ProviderError) and o.text == "Hello" and o.requests == 1


def _protocol_error(o: Outcome) -> bool:
    return (o.kind == "malformed" and o.text == "Hello") or (isinstance(o.last, Done) and o.text == "Hello\ufffd\ufffd")


def _limit(o: Outcome) -> bool:
    return o.kind == "limit" or isinstance(o.error, LimitExceeded)


def _no_key_elsewhere(o: Outcome) -> bool:
    return isinstance(o.error, ProviderError) and o.error.status == 307 and o.requests == 1


def _loop_ended(o: Outcome) -> bool:
    return isinstance(o.error, ProviderError) and o.requests <= 5


def _calls(o: Outcome) -> bool:
    ids = [call.id for call in o.calls]
    return (
        isinstance(o.last, Done)
        and o.last.reason == "tool_use"
        and len(set(ids)) == len(ids) > 0
        and all(isinstance(json.loads(call.arguments), dict) for call in o.calls)
    )


def _cut_call(o: Outcome) -> bool:
    if not isinstance(o.last, Done) or o.last.reason != "max_tokens":
        return False
    (call,) = o.calls
    try:
        json.loads(call.arguments)
    except ValueError:
        return True
    return False


# What each wanted outcome begins with -> how it is told.
JUDGES: dict[str, Callable[[Outcome], bool]] = {
    "completed text=Hello": _completed,
    "typed error, 1 request, no sleep": _refused_at_once,
    "typed retryable connection error": _connection_error,
    "typed timeout": _timeout,
    "retried as a 503": _busy_then_given_up,
    "typed error (json_for_stream may be": _never_an_empty_success,
    "typed error (connection or": _broken,
    "typed incomplete-stream error": _incomplete,
    "typed provider error, the text so far": _provider_error_mid,
    "typed protocol error": _protocol_error,
    "typed limit error": _limit,
    "no key to other host": _no_key_elsewhere,
    "typed error, <= 5 requests": _loop_ended,
    "completed; one call per logical call": _calls,
    "typed outcome: truncated": _cut_call,
}


def _judge(fault: str) -> Callable[[Outcome], bool]:
    (found,) = [judge for wanted, judge in JUDGES.items() if WANTED[fault].startswith(wanted)]
    return found


def test_all_faults_are_there() -> None:
    assert len(WANTED) == 67
    assert all(any(want.startswith(wanted) for want in WANTED.values()) for wanted in JUDGES)


@pytest.mark.parametrize("fault", WANTED)
def test_fault(fault: str, outcomes: dict[str, Outcome]) -> None:
    """Each ends as its table says, and the key is nowhere in what it shows."""
    outcome = outcomes[fault]
    found = f"{fault}: wanted {WANTED[fault]!r}, got {outcome.kind} {outcome.error!r} {outcome.events[-1:]} in {outcome.requests} requests"
    if outcome.error is None:
        check(outcome.events)
    assert (outcome.error is None) != (outcome.last is None), found
    assert outcome.requests <= PATIENT.retry.max_retries + 1, found
    assert _judge(fault)(outcome), found
    assert outcome.shown
    assert CANARY not in outcome.shown and CANARY[8:] not in outcome.shown


def test_number_of_calls(outcomes: dict[str, Outcome]) -> None:
    names = ("tool_split", "tool_no_id", "tool_dup_id", "tool_no_index", "tool_cut_args", "tool_finish_stop")
    assert [len(outcomes[name].calls) for name in names] == [1, 1, 2, 1, 1, 1]


def test_errors_keep_no_error_of_the_http_library(outcomes: dict[str, Outcome]) -> None:
    """Those carry the request with its headers."""
    for outcome in outcomes.values():
        error: BaseException | None = outcome.error
        for _ in range(5):
            if error is None:
                break
            assert isinstance(error, MidstreamError)
            error = error.__cause__ or error.__context__


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of memory is read in /proc")
@pytest.mark.parametrize(
    ("fault", "way", "outcome"),
    [
        ("gzip_bomb", "stream", "limit"),
        ("gzip_bomb", "read", LimitExceeded.__name__),
        ("huge_line", "stream", "limit"),
        ("depth_bomb", "stream", "malformed"),
    ],
)
def test_bombs_stay_small(fault: str, way: str, outcome: str, chaos: str, each_loop: str) -> None:
    script = Path(__file__).with_name("bomb_peak.py")
    ran = subprocess.run(
        [sys.executable, script, each_loop, chaos, fault, way],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    kind, peak = ran.stdout.split()
    assert kind == outcome
    assert int(peak) < PEAK, f"{fault} took {int(peak) // 1024} MiB over an ordinary answer"


def test_malformed_is_what_bad_framing_is(outcomes: dict[str, Outcome]) -> None:
    assert isinstance(outcomes["bad_chunk_size"].error, MalformedStream)
