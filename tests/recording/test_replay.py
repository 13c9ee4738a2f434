"""What was recorded is replayed: the same events, turn and error, whatever the double, the wire, the fault and the pace."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from midstream import Client, Event, MidstreamError, Options, ToolSpec
from midstream.client.catalog import Catalog
from midstream.client.config import Config
from midstream.core.blocks import Conversation, Turn, human, tool_result
from midstream.core.dialect import WIRES
from midstream.core.errors import ConnectFailed, MissingKey
from midstream.core.events import Done, ErrorEvent, ErrorInfo
from midstream.recording import BadRecording, Cassette, NoRecording, Recorder, Replay, record, replay
from midstream.sim.faults import FAULTS
from midstream.sim.server import Sim
from midstream.testing import Answer, Call, sim_server
from midstream.transport import RetryPolicy, TransportOptions
from tests.event_loops import run
from tests.long_run import LONG

MODELS = [
    f"{row['provider']}/{row['model']}"
    for row in json.loads((Path(__file__).parents[1] / "data/dialects/providers.json").read_text())
]
# Every fault. To a recorder, what a double says wrongly is an answer like any other: one of these is enough for the quick run.
PLAYED = [
    name
    for name, fault in FAULTS.items()
    if LONG or fault.write is not None or name in ("429", "500", "cut", "stall", "leak")
]
# Every way of answering: plain words, a failed answer of each kind, and calls that come broken. `stall` costs a wait each time, so it
# is told once for a double.
ASKED: list[tuple[str | None, bool]] = [
    *[(fault, True) for fault in (None, *PLAYED)],
    *[(fault, False) for fault in (None, "429", "500")],
]
LIMIT = 600.0
ONCE = TransportOptions(idle=0.05, retry=RetryPolicy(max_retries=0))
TOOLS = (
    ToolSpec("look", "Look", {"type": "object", "properties": {"at": {"type": "string"}}}),
    ToolSpec("listen", "Listen", {"type": "object", "properties": {"to": {"type": "string"}}}),
)
LINES = Answer("Hé 中 😀", "thinking…", (Call("look", {"at": "é"}), Call("listen", {"to": "中"})))


def _plain(event: Event) -> Event:
    """Without what a clock says."""
    if isinstance(event, (Done, ErrorEvent)):
        return replace(event, turn=replace(event.turn, latency_ms=None, ttft_ms=None, answered_at=None))
    return event


async def _told(client: Client, model: str, conversation: Any = "hello", stream: bool = True, **options: Any) -> Any:
    """All that a caller sees of an answer."""
    try:
        if not stream:
            turn = await client.complete(model, conversation, turn_key="k", **options)
            return replace(turn, latency_ms=None, ttft_ms=None, answered_at=None)
        return [_plain(event) async for event in client.stream(model, conversation, turn_key="k", **options)]
    except MidstreamError as error:
        return type(error), str(error), ErrorInfo.of(error)


@pytest.fixture(scope="module")
def doubles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Catalog, dict[tuple[Any, ...], Any]]]:
    """A cassette for each double with each fault, and what was told when it was recorded."""
    folder = tmp_path_factory.mktemp("cassettes")
    told: dict[tuple[Any, ...], Any] = {}

    async def recorded() -> Catalog:
        async with Sim(script=lambda *_, **__: LINES, strict=False) as sim:
            catalog = Catalog(Config(), environ={}, providers=sim.providers())
            for number, model in enumerate(MODELS):
                for fault, stream in ASKED:
                    if fault is not None:
                        sim.inject(fault)
                    place = folder / f"{number}-{fault}-{stream}"
                    recorder = Recorder(place)
                    async with Client(catalog, transport=ONCE, recorder=recorder) as client:
                        told[model, fault, stream] = await _told(client, model, stream=stream, tools=TOOLS)
                    recorder.check()
                    assert len(recorder.saved) == 1, (model, fault, stream)
        return catalog

    # Thousands of exchanges: more than the usual limit allows on a busy machine.
    yield folder, run(recorded(), limit=LIMIT), told


CUTS = ("chunks", "fast", "anew")


@pytest.mark.parametrize("cut", CUTS)
def test_every_double_every_wire_every_fault(
    doubles: tuple[Path, Catalog, dict[tuple[Any, ...], Any]], cut: str
) -> None:
    folder, catalog, told = doubles

    wires = {model: catalog.resolve(model).dialect.wire for model in MODELS}
    first_of_its_wire = {wire: model for model, wire in reversed(wires.items())}.values()
    # Each double is cut in one way, and one double of each wire in every way; in the long run all are.
    chosen = [
        (number, model)
        for number, model in enumerate(MODELS)
        if LONG or CUTS[number % len(CUTS)] == cut or model in first_of_its_wire
    ]

    async def replayed() -> None:
        for number, model in chosen:
            for fault, stream in ASKED:
                # Byte by byte costs what it says: every other double is cut so, the rest at random.
                pace: Any = ("bytes", "random")[number % 2] if cut == "anew" else cut
                with replay(folder / f"{number}-{fault}-{stream}", pace=pace, seed=number):
                    async with Client(catalog, transport=ONCE) as client:
                        again = await _told(client, model, stream=stream, tools=TOOLS)
                assert again == told[model, fault, stream], (model, fault, stream)

    run(replayed(), limit=LIMIT)
    assert len(told) == len(MODELS) * len(ASKED) > 600
    assert {wires[model] for _, model in chosen} == set(WIRES)


def test_what_went_wrong_is_in_the_recordings(doubles: tuple[Path, Catalog, dict[tuple[Any, ...], Any]]) -> None:
    """Or the equality above would be one of good answers alone."""
    folder, _, _ = doubles
    ends = {fault: Cassette(folder / f"0-{fault}-True") for fault in PLAYED}
    found = {fault: next(iter(cassette.read()))[1] for fault, cassette in ends.items()}
    assert found["429"].status == 429 and found["500"].status == 500
    assert found["cut"].ending == "cut" and found["stall"].ending == "timeout"
    assert found["stall"].error is not None and found["stall"].error.kind == "idle_timeout"
    assert found["repeat-ids"].body != found["restart-index"].body
    assert found["leak"].model == "moonshot/kimi-k2.5" and found["leak"].wire == "openai-chat"


def test_tool_calls_of_a_new_conversation_find_the_recording(tmp_path: Path) -> None:
    """The ids in a request are made anew with every conversation."""

    async def talk(client: Client) -> str:
        conversation = Conversation((human("look there"),))
        turn = await client.complete("openai/gpt-4o", conversation, tools=TOOLS)
        results = [tool_result(call, "seen " + call.name) for call in turn.tool_calls]
        conversation = conversation.add(turn, Turn("tool", tuple(results)))
        return (await client.complete("openai/gpt-4o", conversation, tools=TOOLS)).text

    async def once(client: Client) -> str:
        async with client:
            return await talk(client)

    with sim_server(LINES, "both seen") as sim:
        with record(tmp_path):
            assert run(once(sim.client())) == "both seen"
        catalog = sim.catalog()
    bodies = [exchange.request.body for _, exchange in Cassette(tmp_path).read()]
    for _ in range(2):
        with replay(tmp_path) as source:
            assert run(once(Client(catalog))) == "both seen"
            assert source.requests == 2 and not source.unused
    assert len(bodies) == 2


def test_a_retry_is_replayed_without_its_wait(tmp_path: Path) -> None:
    with sim_server("fine", faults=["429", "500"]) as sim:
        with record(tmp_path) as recorder:
            run(_once(sim.client(), "moonshot/kimi-k2.5"))
        assert [exchange.status for _, exchange in Cassette(tmp_path).read()] == [429, 500, 200]
        assert len(recorder.saved) == 3
        catalog = sim.catalog()
    patient = TransportOptions(retry=RetryPolicy(initial=1000, max_backoff=1000, budget=10**6))
    with replay(tmp_path):
        assert run(_once(Client(catalog, transport=patient), "moonshot/kimi-k2.5")) == "fine"


async def _once(client: Client, model: str, text: str = "hello", **options: Any) -> str:
    async with client:
        return (await client.complete(model, text, **options)).text


def _keyless() -> Catalog:
    return Catalog(Config(), environ={})


@pytest.fixture
def hello(tmp_path: Path) -> Path:
    """One recording of a real host's address."""
    with sim_server("fine") as sim, record(tmp_path):
        run(_once(sim.client(), "moonshot/kimi-k2.5", options=Options(max_tokens=77)))
    (path,) = Cassette(tmp_path).files()
    text = path.read_text()
    start = text.index("http://127.0.0.1")
    path.write_text(text[:start] + "https://api.moonshot.ai/v1" + text[text.index("/chat", start) :])
    return tmp_path


def test_no_key_is_needed_to_replay(hello: Path) -> None:
    with pytest.raises(MissingKey):
        run(_once(Client(_keyless()), "moonshot/kimi-k2.5"))
    with replay(hello):
        assert run(_once(Client(_keyless()), "moonshot/kimi-k2.5", options=Options(max_tokens=77))) == "fine"
        with pytest.raises(NoRecording, match="was recorded 1 time, and replayed as often"):
            run(_once(Client(_keyless()), "moonshot/kimi-k2.5", options=Options(max_tokens=77)))
    with replay(hello, repeat=True):
        for _ in range(3):
            assert run(_once(Client(_keyless()), "moonshot/kimi-k2.5", options=Options(max_tokens=77))) == "fine"


def test_what_differs_is_told(hello: Path) -> None:
    with replay(hello), pytest.raises(NoRecording) as told:
        run(_once(Client(_keyless()), "moonshot/kimi-k2.5", "good bye"))
    lines = str(told.value).splitlines()
    assert lines[0].startswith(
        f"no recording in {hello} answers POST api.moonshot.ai/v1/chat/completions. The closest is 0001-"
    )
    assert '  messages[0].content: recorded "hello", now "good bye"' in lines
    assert "  max_completion_tokens: recorded 77, now nothing" in lines
    with replay(hello), pytest.raises(NoRecording, match=r"host: recorded .*moonshot.*, now .*deepseek") as told:
        run(_once(Client(_keyless()), "deepseek/deepseek-chat"))


def test_long_texts_are_shown_where_they_part(hello: Path, tmp_path: Path) -> None:
    (path,) = Cassette(hello).files()
    path.write_text(path.read_text().replace('"hello"', json.dumps("x" * 500 + "one")))
    with replay(hello), pytest.raises(NoRecording, match=r'content: recorded …"x+one", now …"x+two"'):
        run(_once(Client(_keyless()), "moonshot/kimi-k2.5", "x" * 500 + "two"))


def test_the_times_of_a_recording(tmp_path: Path) -> None:
    with sim_server("one two three four", delay=0.02) as sim:
        with record(tmp_path):
            run(_told(sim.client(), "openai/gpt-4o"))
        catalog = sim.catalog()
    (_, exchange), *_ = Cassette(tmp_path).read()
    assert exchange.chunks[-1].at_us > 60_000
    assert list(exchange.chunks) == sorted(exchange.chunks, key=lambda chunk: chunk.at_us)
    took = []
    for pace in ("original", "fast"):
        began = time.perf_counter()
        with replay(tmp_path, pace=pace):  # type: ignore[arg-type]
            run(_told(Client(catalog), "openai/gpt-4o"))
        took.append(time.perf_counter() - began)
    assert took[0] >= exchange.chunks[-1].at_us / 1e6


def test_a_caller_may_leave_in_the_middle_of_a_slow_replay(tmp_path: Path) -> None:
    with sim_server("one two three four", delay=0.01) as sim:
        with record(tmp_path):
            run(_told(sim.client(), "openai/gpt-4o"))
        catalog = sim.catalog()
    (path,) = Cassette(tmp_path).files()
    lines = path.read_text().splitlines()
    later = [f"[{10**10},{line.partition(',')[2]}" if line.startswith("[") else line for line in lines]
    path.write_text("\n".join([*lines[:4], *later[4:]]) + "\n")

    async def leave() -> None:
        with replay(tmp_path, pace="original"):
            reply = Client(catalog).stream("openai/gpt-4o", "hello")
            async with asyncio.timeout(0.2):
                async for _ in reply:
                    pass

    with pytest.raises(TimeoutError):
        run(leave())


def test_nothing_that_was_recorded_wrong_is_replayed(tmp_path: Path) -> None:
    with pytest.raises(MidstreamError, match="there are no recordings in"), replay(tmp_path / "none"):
        pass
    (tmp_path / "0001-x.jsonl").write_text("{}\n")
    with pytest.raises(BadRecording, match=r"0001-x\.jsonl is not a recording"), replay(tmp_path):
        pass
    with pytest.raises(
        MidstreamError, match="invalid pace 'slow'; expected one of chunks, original, fast, bytes, random"
    ):
        Replay(tmp_path, pace="slow")  # type: ignore[arg-type]


def test_new_records_only_what_is_missing(tmp_path: Path) -> None:
    with sim_server() as sim:
        catalog = sim.catalog()
        for texts, requests in ((["a", "b"], 2), (["b", "c", "a"], 3)):
            with replay(tmp_path, record="new"):
                for text in texts:
                    run(_once(Client(catalog), "openai/gpt-4o", text))
            assert sim.requests == requests
    assert len(Cassette(tmp_path).files()) == 3


def test_all_replaces_what_was_there_if_all_goes_well(tmp_path: Path) -> None:
    folder = tmp_path / "cassette"
    with sim_server() as sim:
        catalog = sim.catalog()
        for text in ("a", "b"):
            with replay(folder, record="all"):
                run(_once(Client(catalog), "openai/gpt-4o", text))
        assert sim.requests == 2
        before = {path: path.read_bytes() for path in Cassette(folder).files()}
        assert len(before) == 1 and b'"content":"b"' in next(iter(before.values()))
        with pytest.raises(RuntimeError, match="the test failed"), replay(folder, record="all"):
            run(_once(Client(catalog), "openai/gpt-4o", "c"))
            raise RuntimeError("the test failed")
    assert {path: path.read_bytes() for path in Cassette(folder).files()} == before
    assert list(tmp_path.iterdir()) == [folder]


def test_a_host_that_is_not_there(tmp_path: Path) -> None:
    with sim_server() as sim:
        catalog = sim.catalog()
    with record(tmp_path), pytest.raises(ConnectFailed) as first:
        run(_once(Client(catalog, transport=ONCE), "openai/gpt-4o"))
    with replay(tmp_path), pytest.raises(ConnectFailed) as again:
        run(_once(Client(catalog, transport=ONCE), "openai/gpt-4o"))
    assert str(first.value) == str(again.value)


def test_the_block_ends(hello: Path) -> None:
    with replay(hello):
        pass
    with pytest.raises(MissingKey):
        run(_once(Client(_keyless()), "moonshot/kimi-k2.5"))
