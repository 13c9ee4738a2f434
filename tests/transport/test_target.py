from __future__ import annotations

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.core.errors import LocalError
from midstream.core.secret import SecretHeaders
from midstream.transport.encoding import accept_encoding
from midstream.transport.http1 import request_head
from midstream.transport.target import KnownTargets, Target, origin_of, prepare
from midstream.wires.request import Request

from .asking import AUTH, CANARY, asks

BASE = "https://api.example/v1"


def _prepare(request: Request | None = None, base: str = BASE, auth: dict[str, str] | None = None) -> Target:
    return prepare(request or asks(), base, SecretHeaders(AUTH if auth is None else auth), "gzip")


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        (BASE, "/chat/completions", "https://api.example/v1/chat/completions"),
        (BASE + "/", "/chat/completions", "https://api.example/v1/chat/completions"),
        (BASE, "chat/completions", "https://api.example/v1/chat/completions"),
        ("http://127.0.0.1:8080", "/x?alt=sse", "http://127.0.0.1:8080/x?alt=sse"),
        ("http://[::1]:8080", "/models/a:b", "http://[::1]:8080/models/a:b"),
        ("HTTPS://API.example:8443/", "/x%2Fy", "HTTPS://API.example:8443/x%2Fy"),
    ],
)
def test_url(base: str, path: str, url: str) -> None:
    assert _prepare(asks(path=path), base).url == url


@pytest.mark.parametrize(
    "base",
    [
        "", "api.example", "/v1", "ftp://api.example", "file:///etc/passwd", "http://", "https:///v1", "http://:80/",
        "http://api.example:0/", "http://api.example:99999/", "http://api.example:x/", "http://[::1/", "http://a b/",
        "http://api.example/v1\r\nhost: evil", "http://api.example/\x00", "http://api.example\\@evil/", "http://exämple/",
        f"https://user:{CANARY}@api.example/", "https://@api.example/", f"https://api.example/v1?key={CANARY}",
        "https://api.example/#x", "https://api.example/v1/../admin", "https://api.example/%2e%2E/x", "javascript:alert(1)",
        "http://a,b/", "http://a;b/", "http://[::1]x/", " https://api.example/v1", "https://api.example/v1\n",
    ],
)  # fmt: skip
def test_base_urls_refused(base: str) -> None:
    with pytest.raises(LocalError) as caught:
        _prepare(base=base)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/a b",
        "/a\r\nx",
        "/a\x00",
        "/é",
        "//evil.example/x",
        "/../x",
        "/a/%2e%2e/x",
        "/a/./x",
        "/x#y",
        "/a\\b",
        "\n/x",
    ],
)
def test_paths_refused(path: str) -> None:
    with pytest.raises(LocalError):
        _prepare(asks(path=path))


@pytest.mark.parametrize("method", ["", "GET ", "GET /", "G\r\nT", "GET\x00", "GÉT"])
def test_methods_refused(method: str) -> None:
    with pytest.raises(LocalError):
        _prepare(asks(method=method))


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://api.example/v1", ("https", "api.example", 443)),
        ("http://api.example", ("http", "api.example", 80)),
        ("HTTP://API.example:8080/x", ("http", "api.example", 8080)),
        ("http://[::1]:1/", ("http", "::1", 1)),
        ("ftp://api.example", None),
        ("ws://api.example:80", None),
        ("//api.example", None),
        ("http:///v1", None),
        ("https://:443/v1", None),
        ("http://api.example:0", None),
        ("http://api.example:65536", None),
        ("http://[::1", None),
        ("", None),
    ],
)
def test_origin(url: str, origin: tuple[str, str, int] | None) -> None:
    """Judged without a connection, so that a wrong verdict is seen at once."""
    if origin is not None:
        assert origin_of(url) == origin
    else:
        with pytest.raises(LocalError):
            origin_of(url)


BREAKING = st.sampled_from("\r\n\x00\x0b\x0c\x1b\x7f\ud800")
ANY = st.text(max_size=20)


@given(before=ANY, breaking=BREAKING, after=ANY)
def test_control_characters_never_leave(before: str, breaking: str, after: str) -> None:
    bad = before + breaking + after
    for request, auth in (
        (asks(headers={"x-note": bad}), AUTH),
        (asks(headers={bad: "x"}), AUTH),
        (asks(), {"x-api-key": CANARY + bad}),
        (asks(), {bad: CANARY}),
        (asks(path="/" + bad), AUTH),
        (asks(method="POST" + bad), AUTH),
    ):
        with pytest.raises(LocalError) as caught:
            prepare(request, BASE, SecretHeaders(auth), "gzip")
        assert CANARY not in str(caught.value)
    with pytest.raises(LocalError):
        prepare(asks(), BASE + "/" + bad, SecretHeaders(AUTH), "gzip")


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding", "Host", "connection", "Upgrade", "TE"])
def test_framing_belongs_to_the_transport(name: str) -> None:
    for request, auth in ((asks(headers={name: "1"}), AUTH), (asks(), {name: "1"})):
        with pytest.raises(LocalError, match=name):
            prepare(request, BASE, SecretHeaders(auth), "gzip")


@pytest.mark.parametrize("name", ["", "a b", "a:b", "é", "(x)"])
def test_header_names_are_tokens(name: str) -> None:
    with pytest.raises(LocalError):
        _prepare(asks(headers={name: "x"}))


def test_headers_are_merged_without_regard_to_case_and_the_key_wins() -> None:
    headers = {"Authorization": "Bearer stale", "X-Note": "ü\tx", "Accept-Encoding": "br"}
    assert _prepare(asks(headers=headers)).headers.reveal() == {
        "user-agent": "midstream",
        "authorization": f"Bearer {CANARY}",
        "x-note": "ü\tx",
        "accept-encoding": accept_encoding(stream=False),
    }


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("/v2/x", "https://api.example/v2/x"),
        ("y", "https://api.example/v1/chat/y"),
        ("https://api.example:443/z", "https://api.example:443/z"),
        ("https://API.EXAMPLE/z#part", "https://API.EXAMPLE/z"),
        ("http://api.example/z", None),
        ("https://api.example:8443/z", None),
        ("https://evil.example/z", None),
        ("//evil.example/z", None),
        ("https://api.example@evil.example/", None),
        ("https://u:p@api.example/", None),
        ("https://api.example.evil/", None),
        ("ftp://api.example/", None),
        ("https://api.example:x/", None),
        ("https://[", None),
        ("/a\r\nb", None),
    ],
)
def test_redirects_stay_within_the_origin(location: str, url: str | None) -> None:
    moved = _prepare().moved(location)
    assert (moved.url if moved else None) == url
    if moved is not None:
        assert moved.headers == _prepare().headers


def test_keys_echoed_by_the_peer_are_scrubbed() -> None:
    target = _prepare(auth={"authorization": f"Bearer {CANARY}", "x-api-key": CANARY + "-longer", "x-tag": "abc"})
    body = f'{{"error": "bad key {CANARY}-longer or Bearer {CANARY} or {CANARY}; abc"}}'.encode()
    assert target.secrets.scrub(body) == b'{"error": "bad key *** or *** or ***; abc"}'
    assert target.secrets.scrub_headers({"x-echo": f"[{CANARY}] ü"}) == {"x-echo": "[***] ü"}


def test_no_key_in_a_repr_a_message_or_the_locals_of_a_frame() -> None:
    target = _prepare(asks(path=f"/x?key={CANARY}"))
    assert CANARY not in f"{target!r} {target} {target.headers!r} {target.headers} {target.where}"
    try:
        target.moved(3)  # type: ignore[arg-type]
    except Exception as error:
        shown = traceback.TracebackException.from_exception(error, capture_locals=True)
        assert CANARY not in "".join(line for line in shown.format() if "midstream/transport" in line)


# Requests that differ in each thing that a target is made from.
_ASKED = st.builds(
    asks,
    st.binary(max_size=5),
    method=st.sampled_from(["POST", "GET"]),
    path=st.sampled_from(["/a", "/b", "/a?x=1"]),
    headers=st.sampled_from([{}, {"x-a": "1"}, {"x-a": "2"}, {"x-a": "1", "x-b": "1"}]),
    stream=st.booleans(),
)
_CALLS = st.lists(st.tuples(_ASKED, st.sampled_from([BASE, BASE + "/other"]), st.sampled_from(["k-1", "k-2"])))


@given(_CALLS)
def test_a_target_that_goes_on_from_an_earlier_one_is_the_same_as_a_fresh_one(
    calls: list[tuple[Request, str, str]],
) -> None:
    known = KnownTargets()
    for request, base, key in calls:
        auth = SecretHeaders({"x-api-key": key})
        found, fresh = known.prepare(request, base, auth), prepare(request, base, auth, accept_encoding(request.stream))
        assert request_head(found, False, None) + found.body == request_head(fresh, False, None) + fresh.body
        assert (found.url, found.headers, found.stream) == (fresh.url, fresh.headers, fresh.stream)
        assert (found.scheme, found.host, found.port) == (fresh.scheme, fresh.host, fresh.port)


def test_no_query_is_remembered_and_what_is_has_an_end() -> None:
    known = KnownTargets()
    known.prepare(asks(path=f"/x?key={CANARY}"), BASE, SecretHeaders())
    assert CANARY not in repr(vars(known))
    for number in range(2_000):
        known.prepare(asks(path=f"/models/{number}"), BASE, SecretHeaders(AUTH))
    assert len(vars(known)["_known"]) <= 512
    assert CANARY not in repr(vars(known))
