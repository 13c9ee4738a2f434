"""Live traffic: bounded, told in batches to whoever may see it, gone on with from where a listener was."""

from __future__ import annotations

import json

import pytest

from midstream.codec import encode_request
from midstream.core.blocks import Conversation, human
from midstream.core.errors import NotFound
from midstream.core.secret import SecretHeaders
from midstream.transport.secrets import Secrets
from midstream.transport.target import Target
from midstream.web.guard import OWNER, Visitor
from midstream.web.traffic import Traffic, TrafficLimits, TrafficTap, serving, shown_headers
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


def test_it_is_bounded_in_number_size_and_age() -> None:
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


def test_one_large_answer_is_cut_and_says_so() -> None:
    traffic = Traffic(TrafficLimits(body=100))
    exchange = traffic.open("a", "openai-chat")
    for _ in range(30):
        exchange.sent.add(0.0, b"0123456789")
    traffic.close(exchange)
    detail = exchange.detail()
    assert detail["answer"] == {"text": "0123456789" * 10, "bytes": 300, "cut": True}
    assert len(detail["timeline"]) == 30


def test_a_tenant_sees_its_own_and_nothing_else() -> None:
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
async def test_a_flood_is_a_few_batches() -> None:
    traffic = Traffic()
    stream = traffic.events(OWNER, 0)
    await anext(stream)
    for _ in range(5_000):
        traffic.close(traffic.open("a", "openai-chat"))
    batch = read(await anext(stream))
    assert [each["number"] for each in batch[1]] == list(range(4_901, 5_001))
    await stream.aclose()


def test_headers_with_keys_show_nothing() -> None:
    secret = ("Authorization", "x-api-key", "X-Goog-Api-Key", "x-midstream-provider-key", "cookie", "x-own-token", "X-Amz-Signature", "client-secret")  # fmt: skip
    shown = shown_headers([*[(name.encode(), b"x") for name in secret], (b"user-agent", b"sdk"), (b"accept", b"*/*")])
    assert shown == {**dict.fromkeys(secret, "‹hidden›"), "user-agent": "sdk", "accept": "*/*"}


def test_how_a_key_went_to_the_model_is_told_and_not_which() -> None:
    """A command that is made of an exchange has the right header, and whoever runs it fills it in."""
    traffic = Traffic()
    exchange = traffic.open("a", "openai-chat")
    headers = SecretHeaders({"x-api-key": "sk-own-key-0123456789", "user-agent": "midstream"})
    target = Target("POST", "https://api.anthropic.com/v1/messages", headers, b"{}", Secrets(headers), True)
    target.request = encode_request("anthropic/claude-sonnet-4-5", Conversation((human("hi"),)))
    token = serving.set(exchange.itself)
    try:
        tap = TrafficTap(traffic).sent(target)
    finally:
        serving.reset(token)
    assert tap is not None
    tap.chunk(b"data: 1\n\n")
    traffic.close(exchange)
    upstream = exchange.detail()["upstream"]
    assert upstream["headers"]["x-api-key"] == "‹hidden›" and "user-agent" not in upstream["headers"]
    assert upstream["line"] == "POST https://api.anthropic.com/v1/messages" and upstream["answer"] == "data: 1\n\n"
    assert "sk-own-key" not in json.dumps(exchange.detail())


def read(event: bytes) -> tuple[int, list[dict[str, object]]]:
    fields = dict(line.split(": ", 1) for line in event.decode().splitlines() if line)
    return int(fields["id"]), json.loads(fields["data"])
