"""The page at `/` of the gateway: who may enter, what is recorded of whose traffic, and that a gateway with tenants records none
unless its operator says so."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from midstream.gateway.api_key import make_key
from midstream.gateway.state import KeyRecord
from midstream.testing import ScriptedModel
from midstream.web.guard import OWNER, SESSION
from tests.gateway.serving import Gate, asynchronous, gate

CHAT = {"model": "sim/kimi-k2.5", "messages": [{"role": "user", "content": "Say hello to me."}]}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDSTREAM_HOME", str(tmp_path))


async def enter(door: Gate, key: str = "") -> str:
    """A session: with the token that was printed, or with a key."""
    if key:
        status, _, body = await door.post("/web/api/session", {}, authorization=f"Bearer {key}")
        assert status == 200, body
    else:
        token = door.app.page_address(door.url).partition("=")[2]
        _, _, body = await door.post("/web/api/session", {"token": token})
    return str(body["session"])


async def listed(door: Gate, session: str) -> list[dict[str, Any]]:
    """The first batch of the live stream."""
    async with door.http.get(door.url + "/web/api/live", headers={SESSION: session}) as answer:
        assert answer.status == 200, await answer.text()
        async for line in answer.content:
            if line.startswith(b"data: "):
                return list(json.loads(line[6:]))
    return []


async def make_tenant(door: Gate, name: str) -> tuple[str, str]:
    """A key of a new tenant, and the key's id."""
    made = make_key()
    assert door.app.state is not None
    await door.app.state.add_key(KeyRecord(made.id, name, made.digest, name, created=time.time()))
    await door.app.gateway.authenticator.refresh()  # type: ignore[union-attr]
    return made.key.reveal(), made.id


@asynchronous
async def test_an_exchange_is_shown_on_all_three_wires() -> None:
    async with gate(delay=0.002) as door:
        await door.stream("/v1/chat/completions", {**CHAT, "stream": True}, authorization="Bearer my-own-secret-key")
        status, _, whole = await door.post("/v1/messages", {**CHAT, "max_tokens": 100})
        assert status == 200
        session = await enter(door)
        rows = await listed(door, session)
        assert [row["wire"] for row in rows] == ["openai-chat", "anthropic"]
        assert all(row["status"] == 200 and not row["open"] and row["output"] > 0 for row in rows)
        assert rows[0]["ttft"] is not None and rows[0]["ms"] >= rows[0]["ttft"]
        _, detail = await door.get(f"/web/api/live/{rows[0]['number']}", **{SESSION: session})
        assert detail["headers"]["Authorization".lower()] == "‹hidden›"
        assert "my-own-secret-key" not in json.dumps(detail)
        assert json.loads(detail["client"]["text"])["messages"] == CHAT["messages"]
        assert detail["answer"]["text"].rstrip().endswith("data: [DONE]")
        assert len(detail["timeline"]) > 2 and detail["timeline"] == sorted(
            detail["timeline"], key=lambda each: each[0]
        )
        assert json.loads(detail["upstream"]["text"])["model"] == "kimi-k2.5"
        assert "data:" in detail["upstream"]["answer"] and detail["upstream"]["timeline"]
        assert detail["turn"]["speaker"] == "ai" and detail["turn"]["blocks"]
        assert [turn["speaker"] for turn in detail["conversation"]["turns"]] == ["human"]
        assert detail["upstream"]["status"] == 200 and "content-type" in detail["upstream"]["answer_headers"]
        _, second = await door.get(f"/web/api/live/{rows[1]['number']}", **{SESSION: session})
        assert json.loads(second["answer"]["text"])["content"] == whole["content"]


@asynchronous
async def test_a_query_is_part_of_what_was_asked_and_its_key_is_not_shown() -> None:
    async with gate() as door:
        body = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
        path = "/v1beta/models/sim%2Fkimi-k2.5:streamGenerateContent?alt=sse&key=a-secret-of-mine"
        await door.stream(path, body)
        session = await enter(door)
        (row,) = await listed(door, session)
        _, detail = await door.get(f"/web/api/live/{row['number']}", **{SESSION: session})
        assert detail["address"].endswith(":streamGenerateContent?alt=sse&key=‹hidden›")
        assert "a-secret-of-mine" not in json.dumps(detail)


# Of two words, each of which the double sends for itself: it is in none of the pieces.
_KEY = "a-canary-key 0123456789-abcdefghijkl"


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({"authorization": f"Bearer {_KEY}"}, ""),
        ({"x-api-key": _KEY}, ""),
        ({"x-goog-api-key": _KEY}, ""),
        ({"cookie": f"a=b; theirs={_KEY}"}, ""),
        ({"authorization": "Basic " + b64encode(f"me:{_KEY}".encode()).decode()}, ""),
        ({}, f"?key={quote(_KEY)}"),
    ],
)
def test_a_key_of_a_client_is_in_no_part_of_what_is_shown(headers: dict[str, str], query: str) -> None:
    @asynchronous
    async def play() -> None:
        said = f"You said {_KEY}, did you not?"
        async with gate(script=ScriptedModel(*[said] * 3), delay=0.001) as door:
            body = {"model": "sim/kimi-k2.5", "messages": [{"role": "user", "content": f"My key is {_KEY}."}]}
            await door.stream(f"/v1/chat/completions{query}", {**body, "stream": True}, **headers)
            await door.post(f"/v1/chat/completions{query}", body, **headers, referer=f"http://127.0.0.1/?k={_KEY}")
            await door.post(f"/v1/chat/completions{query}", {**body, "model": _KEY}, **headers)
            await door.post(f"/v1/chat/completions{query}", {**body, "model": f"sim/{_KEY}"}, **headers)
            session = await enter(door)
            rows = await listed(door, session)
            told = [json.dumps(rows)]
            for row in rows:
                _, detail = await door.get(f"/web/api/live/{row['number']}", **{SESSION: session})
                told.append(json.dumps(detail))
                if row["stream"]:
                    # Neither is it there in the pieces in which it came.
                    assert detail["answer"]["text"].startswith("Not shown")
                    assert detail["upstream"]["answer"].startswith("Not shown")
            assert len(rows) == 4
            basic = headers.get("authorization", "Basic x").partition(" ")[2]
            for each in told:
                assert _KEY not in each and (basic == "x" or basic not in each)

    play()


@asynchronous
async def test_a_key_in_an_answer_that_is_still_coming_is_not_shown_either() -> None:
    async with gate(script=ScriptedModel(f"You said {_KEY}. " + "And more. " * 400), delay=0.01) as door:
        session = await enter(door)
        asked = asyncio.create_task(
            door.stream("/v1/chat/completions", {**CHAT, "stream": True}, authorization=f"Bearer {_KEY}")
        )
        async with asyncio.timeout(10):
            while True:
                rows = await listed(door, session)
                if rows:
                    _, detail = await door.get(f"/web/api/live/{rows[0]['number']}", **{SESSION: session})
                    if detail["answer"]["bytes"] > 8_000 and detail["upstream"]["bytes"] > 8_000:
                        break
                await asyncio.sleep(0.05)
        assert detail["open"] and detail["answer"]["text"].startswith("Not shown")
        assert detail["upstream"]["answer"].startswith("Not shown")
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)


@pytest.mark.parametrize("word", ["anything", "conversation", "answer_headers"])
def test_a_word_that_a_client_calls_its_key_does_not_spoil_what_is_shown(word: str) -> None:
    @asynchronous
    async def play() -> None:
        async with gate(script=ScriptedModel("Is there anything else?"), delay=0.0) as door:
            await door.stream("/v1/chat/completions", {**CHAT, "stream": True}, authorization=f"Bearer {word}")
            session = await enter(door)
            (row,) = await listed(door, session)
            _, detail = await door.get(f"/web/api/live/{row['number']}", **{SESSION: session})
            assert detail["conversation"]["turns"] and detail["upstream"]["answer_headers"]
            assert "anything" in json.dumps(detail["turn"]) and detail["answer"]["text"].startswith("data: ")

    play()


@asynchronous
async def test_a_recorder_hears_the_same(tmp_path: Path) -> None:
    async with gate(f'[server]\nrecord = "{tmp_path / "tapes"}"') as door:
        await door.stream("/v1/chat/completions", {**CHAT, "stream": True})
        rows = await listed(door, await enter(door))
        assert len(rows) == 1 and rows[0]["output"] > 0
    assert list((tmp_path / "tapes").iterdir())


@asynchronous
async def test_what_fails_is_shown_too() -> None:
    async with gate() as door:
        await door.post("/v1/chat/completions", {"model": "nobody/x", "messages": CHAT["messages"]})
        await door.post("/v1/chat/completions", {"model": "sim/kimi-k2.5"})
        rows = await listed(door, await enter(door))
        assert [row["status"] >= 400 for row in rows] == [True, True]
        assert all(row["error"] for row in rows)


@asynchronous
async def test_what_was_refused_unread_is_shown_too() -> None:
    """A wrong base URL, a page of another site: whoever sets up a client looks for these."""
    async with gate() as door:
        await door.post("/v2/chat/completions?beta=1", CHAT)
        session = await enter(door)
        (row,) = await listed(door, session)
        assert (row["status"], row["path"], row["error"], row["open"]) == (
            404,
            "/v2/chat/completions",
            "not_found",
            False,
        )
        _, detail = await door.get(f"/web/api/live/{row['number']}", **{SESSION: session})
        assert detail["address"] == "/v2/chat/completions?beta=1" and "error" in json.loads(detail["answer"]["text"])
        # Whoever has no key cannot push out what others did: in one second one is told.
        for _ in range(30):
            await door.post("/v2/chat/completions", CHAT)
        assert len(await listed(door, session)) < 10


@asynchronous
async def test_a_wrong_key_is_shown_to_the_admin_alone_and_not_the_key() -> None:
    async with gate("[page]\nlive = true\n") as door:
        key, _ = await make_tenant(door, "acme")
        made = make_key().key.reveal()
        status, _, _ = await door.post(f"/v1/chat/completions?key={made}", CHAT)
        assert status == 401
        status, _, _ = await door.post(
            "/v1/embeddings", {"model": "sim/none", "input": "x"}, authorization=f"Bearer {key}"
        )
        assert status >= 400
        owner = await listed(door, await enter(door))
        assert [row["tenant"] for row in owner] == ["", "acme"] and owner[0]["status"] == 401
        assert made not in json.dumps(owner)
        assert [row["tenant"] for row in await listed(door, await enter(door, key))] == ["acme"]


@pytest.mark.parametrize(
    ("retries", "faults", "earlier"),
    [
        (0, ["500"], [("sim/gpt-4o", 500)]),
        (1, ["429"], [("sim/gpt-4o", 429)]),
        (1, ["429", "500"], [("sim/gpt-4o", 429), ("sim/gpt-4o", 500)]),
    ],
)
@asynchronous
async def test_every_attempt_is_told(retries: int, faults: list[str], earlier: list[tuple[str, int]]) -> None:
    async with gate('[aliases]\nchain = ["sim/gpt-4o", "sim/kimi-k2.5"]', retries=retries) as door:
        for fault in faults:
            door.sim.inject(fault)
        await door.post("/v1/chat/completions", {**CHAT, "model": "chain"})
        session = await enter(door)
        (row,) = await listed(door, session)
        _, detail = await door.get(f"/web/api/live/{row['number']}", **{SESSION: session})
        answered = "sim/gpt-4o" if len(faults) <= retries else "sim/kimi-k2.5"
        assert (row["status"], row["model"], row["attempts"]) == (200, answered, len(earlier) + 1)
        assert [(each["model"], each["status"]) for each in detail["earlier"]] == earlier


@asynchronous
async def test_a_page_that_is_closed_listens_no_more() -> None:
    async with gate() as door:
        session = await enter(door)
        for _ in range(3):
            await listed(door, session)
        assert door.app.gateway is not None and door.app.gateway.live is not None
        traffic = door.app.gateway.live.traffic
        async with asyncio.timeout(5):
            while traffic._listeners:  # noqa: ASYNC110  (the server has no word for it)
                await asyncio.sleep(0.01)


@asynchronous
async def test_without_a_token_an_open_gateway_shows_nothing() -> None:
    async with gate() as door:
        assert (await door.post("/web/api/session", {}))[0] == 401
        assert (await door.post("/web/api/session", {"token": "guess"}))[0] == 401
        assert (await door.get("/web/api/me"))[0] == 401
        async with door.http.get(door.url + "/") as page:
            assert page.status == 200 and page.content_type == "text/html"
        async with door.http.get(door.url + "/", headers={"host": "evil.example"}) as page:
            assert page.status == 403
        assert await door.app.guard.visitor(await enter(door)) == OWNER


@asynchronous
async def test_what_is_the_pages_is_guarded_also_where_nothing_is() -> None:
    async with gate() as door:
        for path, status in (("/web/nothing", 404), ("/web/", 404), ("/web/main.js", 200), ("/web/api/me", 401)):
            async with door.http.get(door.url + path) as got:
                assert got.status == status and "frame-ancestors 'none'" in got.headers["content-security-policy"], path
            async with door.http.get(door.url + path, headers={"host": "evil.example"}) as got:
                assert got.status == 403, path


@asynchronous
async def test_the_host_of_a_whole_address_counts() -> None:
    async with gate() as door:
        place = door.url.partition("://")[2]
        name, _, port = place.rpartition(":")
        for target, host, status in ((f"http://{place}/web/main.js", "evil.example", b"200"), ("http://evil.example/web/main.js", place, b"403"), ("http://evil.example?x=/", place, b"403"), (f"http://evil.example@{place}/", place, b"403")):  # fmt: skip
            reader, writer = await asyncio.open_connection(name, int(port))
            writer.write(f"GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
            assert (await reader.readline()).split()[1] == status, target
            writer.close()


@asynchronous
async def test_with_tenants_nothing_is_recorded_by_default() -> None:
    async with gate("[keys]\nrequired = true") as door:
        key, _ = await make_tenant(door, "a")
        assert (await door.post("/v1/chat/completions", CHAT, authorization=f"Bearer {key}"))[0] == 200
        assert door.app.gateway is not None and door.app.gateway.live is None
        session = await enter(door, key)
        _, me = await door.get("/web/api/me", **{SESSION: session})
        assert me["screens"] == ["doctor", "models"] and not me["owner"]
        assert (await door.get("/web/api/live", **{SESSION: session}))[0] == 404


@asynchronous
async def test_the_first_key_ends_the_recording() -> None:
    async with gate() as door:
        await door.post("/v1/chat/completions", CHAT)
        key, _ = await make_tenant(door, "a")
        assert (await door.post("/v1/chat/completions", CHAT, authorization=f"Bearer {key}"))[0] == 200
        assert len(await listed(door, await enter(door))) == 1


@asynchronous
async def test_a_tenant_sees_its_own_and_an_admin_key_sees_all() -> None:
    async with gate("[keys]\nrequired = true\n[page]\nlive = true") as door:
        keys = {name: await make_tenant(door, name) for name in ("a", "b", "boss")}
        door.app.config = replace(door.app.config, page=replace(door.app.config.page, admin_keys=(keys["boss"][1],)))
        for name in ("a", "b"):
            assert (await door.post("/v1/chat/completions", CHAT, authorization=f"Bearer {keys[name][0]}"))[0] == 200
        sessions = {name: await enter(door, key) for name, (key, _) in keys.items()}
        seen = {name: [row["tenant"] for row in await listed(door, session)] for name, session in sessions.items()}
        assert seen == {"a": ["a"], "b": ["b"], "boss": ["a", "b"]}
        theirs = (await listed(door, sessions["b"]))[0]["number"]
        assert (await door.get(f"/web/api/live/{theirs}", **{SESSION: sessions["a"]}))[0] == 404
        assert (await door.get(f"/web/api/live/{theirs}", **{SESSION: sessions["boss"]}))[0] == 200
        # Of what belongs to whoever runs the gateway, tenants have nothing, an admin's key included.
        for path in ("conversations", "usage", "facets", "talk/preview"):
            for session in sessions.values():
                assert (await door.get(f"/web/api/{path}", **{SESSION: session}))[0] == 403
        assert (await door.post("/web/api/session", {}, authorization="Bearer msk_wrong"))[0] == 401
        assert (await door.post("/web/api/live/clear", {}, **{SESSION: sessions["a"]}))[0] == 200
        assert [row["tenant"] for row in await listed(door, sessions["boss"])] == ["b"]


@asynchronous
async def test_a_revoked_key_sees_nothing_more() -> None:
    async with gate("[keys]\nrequired = true\n[page]\nlive = true") as door:
        (key, key_id), (other, _) = await make_tenant(door, "a"), await make_tenant(door, "b")
        session, kept = await enter(door, key), await enter(door, other)
        assert (await door.get("/web/api/me", **{SESSION: session}))[0] == 200
        assert door.app.state is not None and door.app.gateway is not None
        await door.app.state.revoke_key(key_id, time.time())
        door.app.gateway.authenticator.reconfigure(
            door.app.config.keys
        )  # as if the seconds had passed for which it is remembered
        assert (await door.get("/web/api/me", **{SESSION: session}))[0] == 401
        assert (await door.get("/web/api/live", **{SESSION: session}))[0] == 401
        assert (await door.get("/web/api/me", **{SESSION: kept}))[0] == 200


@asynchronous
async def test_who_loses_the_admins_key_hears_no_more_of_the_others() -> None:
    async with gate("[keys]\nrequired = true\n[page]\nlive = true") as door:
        (key, key_id), (other, _) = await make_tenant(door, "boss"), await make_tenant(door, "b")
        before = door.app.config
        door.app.config = replace(before, page=replace(before.page, admin_keys=(key_id,)))
        session = await enter(door, key)
        async with door.http.get(door.url + "/web/api/live", headers={SESSION: session}) as answer:
            assert b"anew" in await answer.content.readuntil(b"\n\n")
            door.app.config = before
            assert (await door.post("/v1/chat/completions", CHAT, authorization=f"Bearer {other}"))[0] == 200
            async with asyncio.timeout(5):
                assert await answer.content.read() == b""
        assert await listed(door, session) == []


@asynchronous
async def test_it_can_be_turned_off() -> None:
    async with gate("[page]\nenabled = false") as door:
        assert (await door.get("/web/api/me"))[0] == 404
        assert (await door.get("/"))[0] == 404
        assert door.app.page_address(door.url) == "" and door.app.gateway.live is None  # type: ignore[union-attr]
