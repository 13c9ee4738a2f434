"""Live traffic: bounded, told in batches to whoever may see it, gone on with from where a listener was."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from midstream.codec import encode_request
from midstream.core.blocks import Conversation, human
from midstream.core.dialect import Endpoint
from midstream.core.errors import LocalError, NotFound
from midstream.core.secret import SecretHeaders
from midstream.transport.secrets import Secrets
from midstream.transport.target import Target
from midstream.web.guard import OWNER, Visitor
from midstream.web.traffic import Traffic, TrafficLimits, TrafficTap, secrets_in, serving, shown_headers
from tests.gateway.serving import asynchronous

TENANT = Visitor("a")


def filled(count: int, limits: TrafficLimits, body: int = 10) -> Traffic:
    traffic = Traffic(limits, clock=lambda: 0.0)
    for number in range(count):
        exchange = traffic.open("ab"[number % 2], "openai-chat")
        if exchange.kept:
            exchange.sent.add(0.0, b"x" * body)
        traffic.close(exchange)
    return traffic


@asynchronous
async def test_it_is_bounded_in_number_size_and_age() -> None:
    assert len(filled(500, TrafficLimits(count=100))) == 100
    held = filled(500, TrafficLimits(bytes=100_000, contents=1_000), body=4_000)
    assert len(held) <= 20
    now = [0.0]
    traffic = Traffic(TrafficLimits(age=60), clock=lambda: now[0])
    traffic.close(traffic.open("a", "openai-chat"))
    assert traffic.find(1, OWNER).number == 1
    now[0] = 61
    with pytest.raises(NotFound):  # also where nothing came since, and nobody has listed what there is
        traffic.find(1, OWNER)
    assert traffic.since(0, OWNER) == []


def test_of_a_flood_only_the_figures_are_kept() -> None:
    now = [0.0]
    traffic = Traffic(TrafficLimits(contents=3), clock=lambda: now[0])
    kept = [traffic.open("a", "openai-chat").kept for _ in range(5)]
    now[0] = 1.0
    kept.append(traffic.open("a", "openai-chat").kept)
    assert kept == [True, True, True, False, False, True]
    figures = traffic.find(5, OWNER).detail()
    assert figures["kept"] is False and figures["answer"] == {"text": "", "bytes": 0, "cut": False}


@asynchronous
async def test_one_large_answer_is_cut_and_says_so() -> None:
    traffic = Traffic(TrafficLimits(body=1_000))
    exchange = traffic.open("a", "openai-chat")
    exchange.client.add(0.0, b"x" * 5_000)
    for _ in range(3_000):
        exchange.sent.add(0.0, b"0123456789")
    traffic.close(exchange)
    detail = exchange.detail()
    assert detail["client"] == {"text": "x" * 1_000, "bytes": 5_000, "cut": True}
    answer = detail["answer"]
    assert answer["bytes"] == 30_000 and answer["cut"] and ("0123456789" * 100).startswith(answer["text"])
    # Many small pieces cost more than their bytes, and are bounded with what they cost.
    assert 5 < len(detail["timeline"]) < 20 and exchange.sent.held < 1_200


@asynchronous
async def test_what_was_forgotten_while_it_ran_is_not_counted_at_its_end() -> None:
    """The bytes of what nobody holds any more would else fill the ring for ever, and it would forget everything at once."""
    traffic = Traffic(TrafficLimits(count=1, bytes=100_000, contents=1_000))
    for _ in range(100):
        long = traffic.open("a", "openai-chat")
        long.sent.add(0.0, b"x" * 10_000)
        for _ in range(2):
            traffic.close(traffic.open("a", "openai-chat"))
        traffic.close(long)
    assert len(traffic) == 1 and traffic._bytes < 10_000


@asynchronous
async def test_what_still_runs_outlives_a_clearing() -> None:
    traffic = Traffic()
    over, runs = traffic.open("a", "openai-chat"), traffic.open("a", "openai-chat")
    traffic.close(over)
    traffic.clear(TENANT)
    traffic.close(runs)
    assert traffic.find(runs.number, TENANT) is runs
    with pytest.raises(NotFound):
        traffic.find(over.number, TENANT)


@asynchronous
async def test_what_is_too_old_leaves_memory_without_being_asked_for() -> None:
    traffic = Traffic(TrafficLimits(age=0.05))
    traffic.close(traffic.open("a", "openai-chat"))
    async with asyncio.timeout(5):
        while len(traffic):  # noqa: ASYNC110  (nobody is told)
            await asyncio.sleep(0.01)


@asynchronous
async def test_a_tenant_sees_its_own_and_nothing_else() -> None:
    traffic = filled(10, TrafficLimits())
    assert {each.tenant for each in traffic.since(0, TENANT)} == {"a"}
    assert len(traffic.since(0, Visitor("a", admin=True))) == 10
    assert traffic.since(0, Visitor()) == []
    other = next(each for each in traffic.since(0, OWNER) if each.tenant == "b")
    with pytest.raises(NotFound):
        traffic.find(other.number, TENANT)
    traffic.clear(TENANT)
    assert {each.tenant for each in traffic.since(0, OWNER)} == {"b"}


@asynchronous
async def test_a_listener_goes_on_where_it_was() -> None:
    traffic = Traffic()
    first = traffic.open("a", "openai-chat")
    stream = traffic.events(TENANT, 0)
    begun = read(await anext(stream))
    assert [each["number"] for each in begun[1]] == [first.number]
    second = traffic.open("a", "anthropic")
    traffic.open("b", "anthropic")
    traffic.close(first)
    news = read(await anext(stream))
    assert {each["number"] for each in news[1]} == {first.number, second.number}  # not the other tenant's
    await stream.aclose()
    traffic.close(second)
    again = traffic.events(TENANT, news[0])
    assert [each["number"] for each in read(await anext(again))[1]] == [second.number]
    await again.aclose()
    # A number that was never given here is of another life of this program: everything is told.
    restarted = traffic.events(TENANT, 10_000)
    assert len(read(await anext(restarted))[1]) == 2
    await restarted.aclose()


@asynchronous
async def test_a_listener_of_another_life_of_the_program_is_told_everything_and_that_it_is_all() -> None:
    before = Traffic()
    exchange = before.open("a", "openai-chat")
    for _ in range(3):
        before.tell(exchange)
    # Many a second, so that no clock of tenths tells the two lives apart.
    await asyncio.sleep(0.001)
    traffic = Traffic()
    for _ in range(5):  # more than it had before: a number alone would not tell
        traffic.open("a", "openai-chat")
    for last, name in ((0, b"anew"), (before._changes, b"anew"), (traffic._changes, b"exchanges")):
        stream = traffic.events(TENANT, last)
        batch = await anext(stream)
        assert b"event: " + name in batch and len(read(batch)[1]) == (5 if name == b"anew" else 0)
        await stream.aclose()


@asynchronous
async def test_what_came_after_a_batch_is_told_when_the_line_is_mended() -> None:
    """The number of a batch is that of the newest change in it, not that of the newest change there is."""
    traffic = Traffic()
    stream = traffic.events(TENANT, 0)
    await anext(stream)
    traffic.open("a", "openai-chat")
    traffic._flush()
    late = traffic.open("a", "anthropic")  # not in the batch that is waiting
    number, _ = read(await anext(stream))
    await stream.aclose()
    again = traffic.events(TENANT, number)
    assert [each["number"] for each in read(await anext(again))[1]] == [late.number]
    await again.aclose()


@asynchronous
async def test_a_flood_of_one_tenant_does_not_hide_what_another_did() -> None:
    traffic = Traffic()
    stream = traffic.events(TENANT, 0)
    await anext(stream)
    own = traffic.open("a", "openai-chat")
    traffic.close(own)
    for _ in range(1_000):
        traffic.close(traffic.open("b", "openai-chat"))
    assert [each["number"] for each in read(await anext(stream))[1]] == [own.number]
    await stream.aclose()


@asynchronous
async def test_one_visitor_cannot_keep_the_others_out() -> None:
    traffic = Traffic()
    streams = [traffic.events(TENANT, 0) for _ in range(8)]
    for stream in streams:
        await anext(stream)
    with pytest.raises(LocalError, match="too many pages"):
        await anext(traffic.events(TENANT, 0))
    other = traffic.events(OWNER, 0)
    await anext(other)
    for stream in [*streams, other]:
        await stream.aclose()


@asynchronous
async def test_many_tenants_do_not_keep_the_owner_out() -> None:
    traffic = Traffic()
    streams = [traffic.events(Visitor(str(number)), 0) for number in range(64)]
    for stream in streams:
        await anext(stream)
    with pytest.raises(LocalError, match="too many pages"):
        await anext(traffic.events(TENANT, 0))
    streams.append(traffic.events(OWNER, 0))
    await anext(streams[-1])
    for stream in streams:
        await stream.aclose()


@asynchronous
async def test_a_flood_is_a_few_batches() -> None:
    traffic = Traffic()
    stream = traffic.events(OWNER, 0)
    await anext(stream)
    for _ in range(5_000):
        traffic.close(traffic.open("a", "openai-chat"))
    batch = read(await anext(stream))
    assert [each["number"] for each in batch[1]] == list(range(4_901, 5_001))
    # Once it is over, all that is remembered of it, also where nothing comes any more.
    rest = read(await anext(stream))
    assert sorted(each["number"] for each in rest[1]) == list(range(3_001, 5_001))
    assert rest[0] == traffic._changes and traffic._timer is None
    await stream.aclose()


@asynchronous
async def test_a_page_that_was_cut_off_in_a_flood_asks_for_what_was_left_out() -> None:
    traffic = Traffic()
    stream = traffic.events(OWNER, 0)
    await anext(stream)
    for _ in range(150):
        traffic.close(traffic.open("a", "openai-chat"))
    number, rows = read(await anext(stream))
    assert len(rows) == 100
    await stream.aclose()
    again = traffic.events(OWNER, number)
    assert sorted(each["number"] for each in read(await anext(again))[1]) == list(range(1, 151))
    await again.aclose()


@asynchronous
async def test_what_was_left_out_waits_for_the_end_of_the_flood() -> None:
    traffic = Traffic()
    stream = traffic.events(OWNER, 0)
    await anext(stream)
    for wave in (300, 60, 60, 300):  # between two of them it is no calm: nothing is told twice
        for _ in range(wave):
            traffic.close(traffic.open("a", "openai-chat"))
        assert len(read(await anext(stream))[1]) == min(wave, 100)
    assert len(read(await anext(stream))[1]) == 720
    await stream.aclose()


def test_headers_with_keys_show_nothing() -> None:
    secret = ("Authorization", "x-api-key", "X-Goog-Api-Key", "x-midstream-provider-key", "cookie", "x-own-token", "X-Amz-Signature", "client-secret")  # fmt: skip
    shown = shown_headers([*[(name.encode(), b"x") for name in secret], (b"user-agent", b"sdk"), (b"accept", b"*/*")])
    assert shown == {**dict.fromkeys(secret, "‹hidden›"), "user-agent": "sdk", "accept": "*/*"}


@pytest.mark.parametrize("name", ["x-api-key", "x-gate-badge"])
@asynchronous
async def test_how_a_key_went_to_the_model_is_told_and_not_which(name: str) -> None:
    """A command that is made of an exchange has the right header, and whoever runs it fills it in."""
    Endpoint("https://api.anthropic.com", auth=name)
    traffic = Traffic()
    exchange = traffic.open("a", "openai-chat")
    headers = SecretHeaders({name: "sk-own-key-0123456789", "user-agent": "midstream"})
    url = "https://api.anthropic.com/v1/messages?key=sk-own-key-in-a-query&beta=true"
    target = Target("POST", url, headers, b"{}", Secrets(headers), True)
    target.request = encode_request("anthropic/claude-sonnet-4-5", Conversation((human("hi"),)))
    token = serving.set(exchange.itself)
    try:
        tap = TrafficTap(traffic).sent(target)
    finally:
        serving.reset(token)
    assert tap is not None
    tap.head(200, {"content-encoding": "gzip", "request-id": "req_1", "set-cookie": "sk-own-key"})
    tap.chunk(gzip.compress(b"data: 1\n\n"))
    traffic.close(exchange)
    upstream = exchange.detail()["upstream"]
    assert upstream["headers"][name] == "‹hidden›" and "user-agent" not in upstream["headers"]
    assert upstream["line"] == "POST https://api.anthropic.com/v1/messages?key=‹hidden›&beta=true"
    # What came back is shown as it is meant, not as it was packed for the way.
    assert upstream["answer"] == "data: 1\n\n" and upstream["status"] == 200
    assert upstream["answer_headers"] == {"content-encoding": "gzip", "request-id": "req_1", "set-cookie": "‹hidden›"}
    assert "sk-own-key" not in json.dumps(exchange.detail())


def read(event: bytes) -> tuple[int, list[dict[str, object]]]:
    fields = dict(line.split(": ", 1) for line in event.decode().splitlines() if line)
    return int(fields["id"]), json.loads(fields["data"])


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("x-upstream", "Bearer a-key-of-somebody", "‹hidden›"),
        ("x-forwarded-by", "basic dXNlcjpzZWNyZXQ=", "‹hidden›"),
        ("referer", "http://127.0.0.1/x?alt=sse&key=a-key-of-somebody", "http://127.0.0.1/x?alt=sse&key=‹hidden›"),
        ("x-rewrite-url", "/v1/x?sig=a-key-of-somebody", "/v1/x?sig=‹hidden›"),
        ("via", "1.1 http://user:a-password@proxy:8080", "1.1 http://‹hidden›@proxy:8080"),
        ("user-agent", "a client (+https://client.example)", "a client (+https://client.example)"),
        ("x-kind", "bearer", "bearer"),
    ],
)
def test_a_key_in_a_header_with_another_name_is_hidden(name: str, value: str, shown: str) -> None:
    assert shown_headers([(name.encode(), value.encode())]) == {name: shown}


@pytest.mark.parametrize(
    ("cookie", "query", "found"),
    [
        (b"lang=en-US-posix; theme=dark-mode-2", b"region=us-central1&pageSize=10000000", set()),
        (b"sid=8f14e45fceea167a5a36dedd", b"", {"8f14e45fceea167a5a36dedd"}),
        (b"session=my-words-1", b"sig=p%40ssw0rd", {"my-words-1", "p%40ssw0rd", "p@ssw0rd"}),
        (b"theirs=a-key-of-twenty-five-signs", b"", {"a-key-of-twenty-five-signs"}),
    ],
)
def test_settings_in_a_cookie_or_a_query_are_no_keys(cookie: bytes, query: bytes, found: set[str]) -> None:
    whole = cookie.decode()
    assert {each.reveal() for each in secrets_in([(b"cookie", cookie)], query)} - {whole} == found


def test_a_cookie_of_thousands_is_not_thousands_of_searches() -> None:
    many = b"; ".join([b"token%d=abcdefgh%d" % (number, number) for number in range(5_000)])
    assert len(secrets_in([(b"cookie", many)], many.replace(b"; ", b"&"))) < 200


def test_what_an_answering_model_is_called_is_no_key() -> None:
    exchange = Traffic().open("a", "openai-chat")
    exchange.headers = [(b"authorization", b"Bearer kimi-k2.5")]
    exchange.model = "moonshot/kimi-k2.5"
    assert [each.reveal() for each in exchange.secrets()] == [
        "kimi-k2.5"
    ]  # nobody knows yet whether there is such a model
    exchange.status = 200
    assert exchange.secrets() == []


def test_an_exchange_is_looked_at_while_more_comes() -> None:
    exchange = Traffic().open("a", "openai-chat")
    exchange.sent.add(0.0, b"x")
    exchange.sent.times.append(0.0)  # as another thread sees it between the two
    assert len(exchange.detail()["timeline"]) == 1
