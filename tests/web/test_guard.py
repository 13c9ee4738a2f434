"""Who may see the page: other names, other origins, other sites, no session or a used token are refused, whatever the path."""

from __future__ import annotations

import pytest

from midstream.core.errors import Unauthorized
from midstream.web.guard import OWNER, Guard, Message, Visitor
from tests.gateway.serving import asynchronous
from tests.web.page import ask, opened

PATHS = ("/", "/web/main.js", "/web/api/me", "/web/api/session", "/nowhere")
# What an attack looks like to a server: a name that was pointed at us (DNS rebinding), a page of another site, a frame.
REFUSED = {
    "rebinding": {"host": "evil.example:4040"},
    "rebinding without a port": {"host": "evil.example"},
    "a name that begins as ours": {"host": "127.0.0.1.evil.example:4040"},
    "no name": {"host": ""},
    "a name behind ours": {"host": "127.0.0.1:evil.example"},
    "a user before ours": {"host": "evil.example@127.0.0.1:4040"},
    "another way to write our address": {"host": "2130706433:4040"},
    "a name that a proxy was asked for": {"host": "evil.example", "x-forwarded-host": "127.0.0.1:4040"},
    "another origin": {"origin": "https://evil.example"},
    "another port": {"origin": "http://127.0.0.1:9999"},
    "no origin to speak of": {"origin": "null"},
    "another site's fetch": {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    "another port's fetch": {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
    "another site's frame": {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
}


@asynchronous
async def test_what_comes_from_elsewhere_is_refused_on_every_path() -> None:
    async with opened(sample=None) as (app, session):
        for path in PATHS:
            for name, headers in REFUSED.items():
                for method in ("GET", "POST", "OPTIONS"):
                    got = await ask(app, path, method=method, headers=headers, session=session)
                    assert got.status == 403, (path, name, method)
                    assert "access-control-allow-origin" not in got.headers


@pytest.mark.parametrize("name", ["host", "origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"])
def test_what_is_said_twice_is_believed_neither_time(name: str) -> None:
    said = {"host": "127.0.0.1", "origin": "http://127.0.0.1"}.get(name, "same-origin").encode()
    headers = [(b"host", b"127.0.0.1"), (b"origin", b"http://127.0.0.1")]
    headers = [*[pair for pair in headers if pair[0] != name.encode()], (name.encode(), said)]
    guard = Guard()
    assert guard.fault({"method": "GET", "path": "/", "headers": headers}) == ""
    for other in (said, b"http://evil.example"):
        for twice in ([*headers, (name.encode(), other)], [(name.encode(), other), *headers]):
            assert "twice" in guard.fault({"method": "GET", "path": "/", "headers": twice})


@asynchronous
async def test_a_link_from_elsewhere_opens_the_page_and_nothing_else() -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    async with opened(sample=None) as (app, session):
        assert (await ask(app, "/", headers=headers)).status == 200
        assert (await ask(app, "/", method="POST", headers=headers)).status == 403
        assert (await ask(app, "/web/api/me", headers=headers, session=session)).status == 403


@asynchronous
async def test_the_names_of_this_machine_are_ours() -> None:
    async with opened(sample=None) as (app, session):
        for host in ("127.0.0.1:4040", "localhost:4040", "LOCALHOST:4040", "[::1]:4040", "localhost"):
            got = await ask(
                app, "/web/api/me", headers={"host": host, "origin": f"http://{host.lower()}"}, session=session
            )
            assert got.status == 200, host


@asynchronous
async def test_every_answer_has_the_headers_that_a_browser_obeys() -> None:
    async with opened(sample=None) as (app, session):
        for path in (*PATHS, "/web/style.css"):
            for headers in ({}, REFUSED["rebinding"]):
                got = await ask(app, path, headers=headers, session=session)
                policy = got.headers["content-security-policy"]
                assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
                assert "unsafe" not in policy and "*" not in policy and "http" not in policy
                assert got.headers["x-content-type-options"] == "nosniff"
                assert got.headers["referrer-policy"] == "no-referrer"
                assert got.headers["x-frame-options"] == "DENY"


@asynchronous
async def test_the_api_wants_a_session() -> None:
    async with opened() as (app, session):
        listed = (await ask(app, "/web/api/conversations", session=session)).json["rows"][0]["id"]
        paths = [route.path.replace("{id}", listed) for route in app._routes.routes if route.path != "/web/api/session"]  # type: ignore[attr-defined]
        assert len(paths) > 15
        for path in paths:
            path = path.replace("{turn}", "1").replace("{number}", "1").replace("{question}", "x")
            for wrong in ("", "x" * 32, session[:-1], session + "A"):
                for method in ("GET", "POST"):
                    got = await ask(app, path, method=method, session=wrong)
                    assert got.status in (401, 405), (path, method)
                    assert b"midstream" not in got.body or got.status == 401


def test_a_token_opens_one_session() -> None:
    @asynchronous
    async def play() -> None:
        guard = Guard()
        token = guard.issue_token()
        with pytest.raises(Unauthorized):
            await guard.open_session({}, token[:-1])  # a wrong guess does not use it up
        session = await guard.open_session({}, token)
        assert await guard.visitor(session) == OWNER
        with pytest.raises(Unauthorized, match="used before"):
            await guard.open_session({}, token)
        with pytest.raises(Unauthorized):
            await guard.open_session({}, "")
        later = guard.issue_token()
        newest = guard.issue_token()
        with pytest.raises(Unauthorized):
            await guard.open_session({}, later)
        assert await guard.visitor(await guard.open_session({}, newest)) == OWNER

    play()


@asynchronous
async def test_whoever_is_locked_out_finds_a_new_address_in_the_terminal() -> None:
    guard = Guard()
    told: list[str] = []
    guard.on_locked_out = lambda: told.append(guard.issue_token())
    first = guard.issue_token()
    with pytest.raises(Unauthorized, match="no session: open the newest address"):
        await guard.visitor("")  # the first address still waits to be opened
    assert told == []
    session = await guard.open_session({}, first)
    for _ in range(3):  # another browser with the same link, and one with none: one new address for both
        with pytest.raises(Unauthorized, match="used before"):
            await guard.open_session({}, first)
        with pytest.raises(Unauthorized):
            await guard.visitor("x" * 32)
    assert len(told) == 1
    assert await guard.visitor(await guard.open_session({}, told[0])) == await guard.visitor(session) == OWNER


def test_a_session_ends_when_nobody_uses_it_and_old_ones_make_room() -> None:
    @asynchronous
    async def play() -> None:
        now = [0.0]

        async def identify(_: object) -> Visitor:
            return Visitor("a")

        guard = Guard(identify=identify, clock=lambda: now[0])
        first = await guard.open_session({}, "")
        now[0] = 11 * 3600
        assert (await guard.visitor(first)).tenant == "a"
        now[0] += 13 * 3600
        with pytest.raises(Unauthorized):
            await guard.visitor(first)
        own = await guard.open_session({}, guard.issue_token())
        many = [await guard.open_session({}, "") for _ in range(100)]
        assert (await guard.visitor(many[-1])).tenant == "a"
        with pytest.raises(Unauthorized):
            await guard.visitor(many[0])
        # Nobody's sessions but one's own make room for more of them.
        assert await guard.visitor(own) == OWNER

    play()


@asynchronous
async def test_a_session_ends_with_the_key_that_opened_it() -> None:
    revoked = False

    async def identify(scope: Message) -> Visitor:
        if revoked or dict(scope["headers"]) != {b"authorization": b"Bearer msk_x"}:
            raise Unauthorized("the key was refused: it was revoked", status=401)
        return Visitor("a")

    guard = Guard(identify=identify)
    scope = {"headers": [(b"authorization", b"Bearer msk_x")]}
    session, other = await guard.open_session(scope, ""), await guard.open_session(scope, "")
    assert await guard.visitor(session) == Visitor("a")
    revoked = True
    with pytest.raises(Unauthorized, match="revoked"):
        await guard.visitor(session)
    with pytest.raises(Unauthorized, match="no session"):
        await guard.visitor(session)
    revoked = False
    assert await guard.visitor(other) == Visitor("a")


@asynchronous
async def test_tenants_without_number_do_not_close_the_owners_session() -> None:
    tenants = iter(range(1_000))

    async def identify(_: Message) -> Visitor:
        return Visitor(str(next(tenants)))

    guard = Guard(identify=identify)
    own = await guard.open_session({}, guard.issue_token())
    for _ in range(400):
        await guard.open_session({}, "")
    assert await guard.visitor(own) == OWNER
