"""A peer that repeats our key, in any shape, at any place: no error, event, log or traceback shows it."""

from __future__ import annotations

import asyncio
import base64
import binascii
import functools
import html
import json
import logging
import quopri
import re
import traceback
import unicodedata
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec
import pytest

import midstream
from midstream.adapters.kimi_completion import create_kimi_completion
from midstream.client import client as calls
from midstream.client import sync
from midstream.client.access import Access
from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import Config, ProviderConfig
from midstream.client.session import Session
from midstream.client.sync import SyncSession
from midstream.core.dialect import Endpoint
from midstream.core.errors import LocalError, MidstreamError, ProviderError, TransportError, Unauthorized
from midstream.core.secret import Secret, SecretHeaders, SecretText, hide_url_secrets
from midstream.transport import Transport, TransportOptions
from midstream.transport.secrets import Secrets
from midstream.transport.target import KeyInClearText, warn_of_clear_text
from tests.long_run import cases, each_once
from tests.transport.asking import QUICK, asks, run
from tests.transport.loopback import Seen, Server, Wire

KEY = "sk-canary/4a9f+0c77d1.Qz8=mWx2"
SOURCE = str(Path(midstream.__file__).parent)


def _codes(text: str, form: str) -> str:
    return "".join([form.format(ord(each)) for each in text])


def _quoted(text: str) -> str:
    """The inside of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


# What the peer writes into a JSON string.
SHAPES: dict[str, str] = {
    "plain": KEY,
    "the whole header": f"Bearer {KEY}",
    "one character escaped": KEY.replace("-", "\\u002d"),
    "escaped slashes": KEY.replace("/", "\\/"),
    "all escaped, lower case": _codes(KEY, "\\u{:04x}"),
    "all escaped, upper case": _codes(KEY, "\\u{:04X}"),
    "escaped in JSON within JSON": _quoted('{"key": "' + _codes(KEY, "\\u{:04x}") + '"}'),
    "slashes in JSON within JSON": _quoted('{"key": "' + KEY.replace("/", "\\/") + '"}'),
    "escaped as in Python": _quoted(_codes(KEY, "\\x{:02x}")),
    "in a URL": quote(KEY, safe=""),
    "in a URL, lower case": re.sub("%..", lambda found: found[0].lower(), quote(KEY, safe="")),
    "in a URL, twice": quote(quote(KEY, safe=""), safe=""),
    "every character in a URL": _codes(KEY, "%{:02X}"),
    "in HTML": _codes(KEY, "&#{:d};"),
    "in HTML, hexadecimal": _codes(KEY, "&#x{:x};"),
    "in HTML, twice": _codes(KEY, "&amp;#{:d};"),
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 of user and key": "Basic " + base64.b64encode(f"me:{KEY}".encode()).decode(),
    "base64 of the header, for a URL": base64.urlsafe_b64encode(f"Bearer {KEY}".encode()).decode().rstrip("="),
    "hexadecimal": KEY.encode().hex(),
    "upper case": KEY.upper(),
    "cut behind": KEY[:18] + "...",
    "cut before": "..." + KEY[-18:],
    "broken into lines": "\\n".join(KEY[at : at + 4] for at in range(0, len(KEY), 4)),
    "with blanks": " ".join(KEY),
    "with invisible characters": "\u200b".join(KEY),
    "the headers of the request": _quoted(str({"authorization": f"Bearer {KEY}", "accept": "*/*"})),
    "far behind": "x" * 485 + KEY,
    "octal escapes": _quoted(_codes(KEY, "\\{:03o}")),
    "escapes of eight digits": _quoted(_codes(KEY, "\\U{:08x}")),
    "escapes in braces": _quoted("".join([f"\\u{{{ord(each):x}}}" for each in KEY])),
    "escapes of old browsers": _codes(KEY, "%u{:04x}"),
    "in HTML, with zeros": _codes(KEY, "&#{:07d};"),
    "in HTML, hexadecimal, with zeros": _codes(KEY, "&#x{:06x};"),
    "in HTML, without semicolons": _codes(KEY, "&#{:d}"),
    "in HTML, twice, by numbers": _codes(KEY, "&#38;#{:d};"),
    "as in mail": _codes(KEY, "={:02X}"),
    "hexadecimal with colons": ":".join([f"{ord(each):02x}" for each in KEY]),
    "hexadecimal numbers": ", ".join([f"0x{ord(each):02x}" for each in KEY]),
    "a list of numbers": str(list(KEY.encode())),
    "a list of characters": _quoted(json.dumps(list(KEY))),
    "base32": base64.b32encode(KEY.encode()).decode(),
    "base64, twice": base64.b64encode(base64.b64encode(KEY.encode())).decode(),
    "with dots": ".".join(KEY),
    "with controls": "\\u0000".join(KEY),
    "with other invisible characters": "\u2063".join(KEY),
    "in wide letters": "".join([chr(ord(each) + 0xFEE0) for each in KEY]),
}  # fmt: skip


SOME_SHAPES = {
    "plain", "in a URL, twice", "in HTML, hexadecimal", "base64 of user and key", "hexadecimal", "cut behind", "cut before",
    "broken into lines", "far behind", "escaped in JSON within JSON", "a list of numbers", "in wide letters", "with blanks",
}  # fmt: skip
"""One of each kind: written as it is, by a code for each character, in another alphabet, cut, and with something between."""


_NO_LETTERS = bytes(set(range(256)) - set(b"abcdefghijklmnopqrstuvwxyz0123456789"))


def leaks(shown: str) -> bool:
    """Whether somebody with patience finds twelve characters of the key: written by other means than the code under test."""
    seen, todo = set[str](), [shown, *_decoded_once(shown)]
    for _ in range(3):
        todo = [made for text in todo for made in _decoded(text) if made not in seen and not seen.add(made)]  # type: ignore[func-returns-value]
    parts = [KEY[at : at + 12].lower() for at in range(len(KEY) - 11)]
    bare = re.sub("[^a-z0-9]", "", KEY.lower())
    letters = [bare[at : at + 12] for at in range(len(bare) - 11)]
    for text in (shown, *seen):
        lower = text.lower()
        joined = "".join(lower.replace("\u200b", "").split())
        plain = lower.encode("ascii", "ignore").translate(None, _NO_LETTERS).decode()
        if any(part in joined for part in parts) or any(part in plain for part in letters):
            return True
    return False


def _decoded(text: str) -> Iterator[str]:
    yield unquote(text)
    yield html.unescape(text)
    yield text.replace("\\n", "").replace("\\u200b", "")
    yield re.sub(r"\\+/", "/", text)
    yield re.sub(r"\\+u([0-9a-fA-F]{4})|\\+x([0-9a-fA-F]{2})", lambda found: chr(int(found[1] or found[2], 16)), text)
    for word in set(re.findall(r"[0-9A-Za-z+/_-]{14,}", text)):
        yield from _out_of_base64(word)
    for word in re.findall(r"(?:[0-9a-f]{2}){8,}", text):
        yield binascii.unhexlify(word).decode("latin-1")


@functools.cache
def _out_of_base64(word: str) -> list[str]:
    """From each place where it may begin."""
    pieces = [word[skipped:].replace("-", "+").replace("_", "/") for skipped in range(4)]
    return [base64.b64decode(piece[: len(piece) // 4 * 4]).decode("latin-1") for piece in pieces]


def _decoded_once(text: str) -> Iterator[str]:
    """Rarer writings, which are not applied to each other."""
    yield unicodedata.normalize("NFKC", text)
    yield quopri.decodestring(text.encode()).decode("latin-1")
    yield text.replace("\\u2063", "").replace("\\x00", "").replace("\\u0000", "")
    yield re.sub(r"%u00([0-9a-fA-F]{2})", r"%\1", text)
    yield re.sub(r"\\+U0{6}([0-9a-f]{2})|\\+u\{([0-9a-f]{2})\}", lambda found: chr(int(found[1] or found[2], 16)), text)
    yield re.sub(r"\\+([01][0-7]{2})", lambda found: chr(int(found[1], 8)), text)
    yield re.sub(r"\b(?:0x)?([0-9a-f]{2})\b[:, ]*", lambda found: chr(int(found[1], 16)), text)
    yield re.sub(r"\b(\d{2,3})\b[, ]*", lambda found: chr(int(found[1])), text)
    for word in re.findall(r"[A-Z2-7]{24,}", text):
        yield base64.b32decode(word[: len(word) // 8 * 8]).decode("latin-1")


def shown_by(error: BaseException) -> str:
    """All that an error shows, with the locals of every frame of ours and of the loop's transports."""
    found = [str(error), repr(error), repr(error.args), repr(vars(error))]
    told: traceback.TracebackException | None = traceback.TracebackException.from_exception(error, capture_locals=True)
    while told is not None:
        frames = [
            frame for frame in told.stack if frame.filename.startswith(SOURCE) or "selector_events" in frame.filename
        ]
        found += [f"{frame.name} {frame.locals}" for frame in frames] + list(told.format_exception_only())
        told = told.__cause__ or told.__context__
    return "\n".join(found)


@pytest.mark.parametrize("shape", cases(SHAPES, SOME_SHAPES))
def test_the_detector_sees_each_shape(shape: str) -> None:
    assert leaks(SHAPES[shape])
    assert not leaks("***")


ERROR = '{{"message": "bad key: {0} !", "type": "authentication_error", "code": "{0}"}}'
BEGINNINGS = {
    "openai-compatible": 'data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"}}]}\n\n',
    "anthropic": 'event: message_start\ndata: {"type":"message_start","message":{"id":"1","model":"m","content":[],'
    '"usage":{"input_tokens":1,"output_tokens":1}}}\n\n',
}
TELLING = {
    "openai-compatible": 'data: {{"error": {0}}}\n\n',
    "anthropic": 'event: error\ndata: {{"type": "error", "error": {0}}}\n\n',
}


def _echo(like: str, place: str, shape: str) -> Callable[[Wire, Seen], Awaitable[None]]:
    error = ERROR.format(SHAPES[shape])

    async def script(wire: Wire, seen: Seen) -> None:
        assert KEY in "".join(seen.headers.values())
        if place == "stream":
            body = BEGINNINGS[like] + TELLING[like].format(error)
            await wire.answer(body.encode(), 200, "content-type: text/event-stream")
        else:
            body = f'{{"type": "error", "error": {error}}}'
            status = 401 if place == "error" else 200
            header = SHAPES[shape] if SHAPES[shape].isascii() and len(SHAPES[shape]) < 300 else KEY
            await wire.answer(body.encode(), status, "content-type: application/json", f"x-request-id: {header}")

    return script


def _client(like: str, base: str) -> Client:
    catalog = Catalog(Config(providers={"peer": ProviderConfig(like=like, base_url=base)}), environ={})
    return Client(catalog, transport=QUICK, api_key=KEY)


@each_once(("place", ["error", "stream", "whole"]), ("like", BEGINNINGS))
def test_no_echo_of_a_key_is_shown(like: str, place: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def ask(shape: str) -> str:
        async with Server(_echo(like, place, shape)) as server, _client(like, server.base) as client:
            try:
                if place == "stream":
                    events = [event async for event in client.stream("peer/claude-x", "hello")]
                    assert events[-1].type == "error" if hasattr(events[-1], "type") else True
                    return repr(events) + msgspec.json.encode(events).decode() + repr(events[-1].to_exception())  # type: ignore[union-attr]
                await client.complete("peer/claude-x", "hello")
            except ProviderError as error:
                return shown_by(error)
        raise AssertionError("the echo was no error")

    leaking = []
    for shape in SHAPES:
        shown = run(ask(shape))
        assert "bad key" in shown, (shape, shown[:2000])  # what is no key is still told
        if leaks(shown):
            leaking.append(shape)
    assert leaking == []
    assert not leaks(caplog.text)


def _refusing() -> str:
    return "http://127.0.0.1:1/v1"


async def _by_client(base: str, key: str) -> None:
    async with _client("openai-compatible", base) as client:
        client.access = Access(Secret(key))
        await client.complete("peer/x", "hello")


async def _by_call(base: str, key: str) -> None:
    catalog = Catalog(Config(providers={"peer": ProviderConfig(base_url=base)}), environ={})
    await calls.complete("peer/x", "hello", api_key=key, catalog=catalog)


async def _by_stream(base: str, key: str) -> None:
    catalog = Catalog(Config(providers={"peer": ProviderConfig(base_url=base)}), environ={"PEER_API_KEY": key})
    async for _ in calls.stream("peer/x", "hello", catalog=catalog):
        pass


async def _by_thread(base: str, key: str) -> None:
    catalog = Catalog(Config(providers={"peer": ProviderConfig(base_url=base)}), environ={})
    await asyncio.to_thread(sync.complete_sync, "peer/x", "hello", api_key=key, catalog=catalog)


async def _by_configured_header(base: str, key: str) -> None:
    provider = ProviderConfig(base_url=base, headers={"x-team-key": key})
    async with Client(Catalog(Config(providers={"peer": provider}), environ={}), transport=QUICK) as client:
        await client.complete("peer/x", "hello")


async def _by_session(base: str, key: str) -> None:
    async with Session(
        "openai-compatible/x", client=Client(Catalog(Config()), transport=QUICK), api_key=key, base_url=base
    ) as session:
        (await session.send("hello")).raise_for_failure()


async def _by_sync_session(base: str, key: str) -> None:
    def send() -> None:
        client = Client(Catalog(Config()), transport=QUICK)
        with SyncSession("openai-compatible/x", client=client, api_key=key, base_url=base) as session:
            _ = session.send("hello").text

    await asyncio.to_thread(send)


async def _by_kimi(base: str, key: str) -> None:
    async def at_once(milliseconds: float) -> None: ...

    await create_kimi_completion("hello", base_url=base, environ={"MOONSHOT_API_KEY": key}, delay=at_once)


ROADS = [_by_client, _by_call, _by_stream, _by_thread, _by_configured_header, _by_session, _by_sync_session, _by_kimi]


@each_once(("road", ROADS), ("failing", ["refused", "unauthorized", "control character", "bad proxy"]))
def test_no_frame_of_ours_shows_the_key(road: Callable[[str, str], Awaitable[None]], failing: str, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    kinds = {
        "refused": (TransportError, ProviderError),
        "unauthorized": (Unauthorized, ProviderError),
        "control character": (LocalError,),
        "bad proxy": (LocalError,),
    }

    async def main() -> BaseException:
        async with Server(_echo("openai-compatible", "error", "one character escaped")) as server:
            base = _refusing() if failing == "refused" else server.base
            if failing == "bad proxy":
                monkeypatch.setenv("HTTPS_PROXY", f"ftp://me:{KEY}@proxy.example")
                base = "https://host.invalid/v1"
            try:
                await road(base, KEY + ("\n" if failing == "control character" else ""))
            except MidstreamError as error:
                return error
        raise AssertionError("no error")

    found = run(main())
    assert isinstance(found, kinds[failing])
    shown = shown_by(found)
    frames = ("_open", "_batches", "_attempt", "prepare")
    assert "midstream" in shown and any(frame in shown for frame in frames)  # there were frames
    assert not leaks(shown)


def test_a_secret_is_shown_nowhere_but_where_it_is_revealed() -> None:
    secret = Secret(KEY)
    headers = SecretHeaders({"authorization": secret.behind("Bearer "), "x": KEY})
    told = (
        f"{secret} {secret!r} {secret:>40} {[secret]} {headers} {headers!r} {headers.reveal()!r} {Secrets(headers)!r}"
    )
    assert not leaks(told + "%s" % secret)  # noqa: UP031
    assert headers.reveal() == {"authorization": f"Bearer {KEY}", "x": KEY}
    assert secret == Secret(secret) and secret != Secret("other") and secret != KEY
    assert len({secret, Secret(KEY)}) == 1 and not Secret("")
    assert SecretText(KEY) == KEY
    with pytest.raises(TypeError, match="pickled"):
        __import__("copy").deepcopy(secret)


def test_what_is_no_secret_is_left_as_it_came() -> None:
    secrets = Secrets({"authorization": f"Bearer {KEY}", "x-tag": "abc", "x-title": "My own"})
    text = 'Bearer of bad news: sk-canary \\u002d %2d &#45; ü \x00 {"a": "\\/"} own program abc'
    assert secrets.scrub_text(text) == text
    assert secrets.scrub(text.encode() + b"\xff\xfe") == text.encode() + b"\xff\xfe"
    assert secrets.scrub_text(f"<{KEY}> and {KEY}{KEY}") == "<***> and ***"
    assert Secrets().scrub(b"anything") == b"anything"


@pytest.mark.parametrize(
    "url, shown",
    [
        ("https://user:pass@host/v1", "https://(hidden)@host/v1"),
        ("https://token@host:8443/v1", "https://(hidden)@host:8443/v1"),
        ("https://us:pa/ss@host/v1", "https://(hidden)@host/v1"),
        ("https://host/v1?key=abc&x=1", "https://host/v1?key=(hidden)&x=(hidden)"),
        ("https://host:8443/a@b/v1", "https://host:8443/a@b/v1"),
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
        ("moonshot/kimi-k2.5", "moonshot/kimi-k2.5"),
    ],
)
def test_user_info_in_a_url_is_hidden(url: str, shown: str) -> None:
    assert hide_url_secrets(url, "(hidden)") == shown


def test_a_key_over_plain_http_is_warned_of_once_a_host() -> None:
    def heard(base: str, *names: str) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn_of_clear_text(base, names)
        return [str(each.message) for each in caught if each.category is KeyInClearText]

    [told] = heard("http://one.example:81/v1", "authorization")
    assert "one.example:81" in told and "plain http" in told and "https" in told
    assert heard("http://one.example:81/other", "x-api-key") == []
    assert len(heard("HTTP://evil.localhost/v1", "x-api-key")) == 1
    assert heard("https://two.example/v1", "authorization") == []
    assert heard("http://two.example/v1", "anthropic-version") == heard("http://two.example/v1") == []
    for near in ("127.0.0.1:1", "localhost", "[::1]:5", "127.9.9.9"):
        assert heard(f"http://{near}/v1", "authorization") == []
    assert heard("http://[", "authorization") == []
    Endpoint("http://three.example", auth="x-door-badge")  # the endpoint says that this header carries a key
    assert len(heard("http://three.example/v1", "x-door-badge")) == 1


def test_a_client_warns_of_it() -> None:
    async def main() -> None:
        options = TransportOptions(connect=0.2, first_byte=0.2, total=0.5)
        transport = Transport(options, environ={"HTTP_PROXY": "http://127.0.0.1:1"})
        catalog = Catalog(Config(providers={"far": ProviderConfig(base_url="http://far.invalid/v1")}), environ={})
        async with Client(catalog, transport=transport, api_key=KEY) as client:
            with pytest.warns(KeyInClearText, match=r"far\.invalid"), pytest.raises(MidstreamError):
                await client.complete("far/x", "hello")

    run(main())


def test_a_cancelled_request_shows_no_key_even_in_the_frames_that_send_it() -> None:
    async def main() -> BaseException:
        asked = asyncio.Event()

        async def silent(wire: Wire, seen: Seen) -> None:
            asked.set()
            await wire.gone()

        async with Server(silent) as server, _client("openai-compatible", server.base) as client:
            task = asyncio.ensure_future(client.complete("peer/x", "hello"))
            await asked.wait()
            task.cancel()
            try:
                await task
            except asyncio.CancelledError as error:
                return error
        raise AssertionError("it was not cancelled")

    shown = shown_by(run(main()))
    assert "authorization" in shown  # the frames that hold the headers are there
    assert not leaks(shown)


def test_what_a_reader_of_errors_puts_together_is_scrubbed_too() -> None:
    async def backwards(wire: Wire, seen: Seen) -> None:
        await wire.answer(KEY[::-1].encode(), 401)

    def forwards(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        text = body[::-1].decode()
        return ProviderError(f"bad key {text}", status=status, code=text, type=text, request_id=text)

    async def main() -> ProviderError:
        async with Server(backwards) as server, Transport(QUICK, error_from_response=forwards, environ={}) as transport:
            with pytest.raises(ProviderError, match=r"bad key \*\*\*") as caught:
                await transport.open(asks(), server.base, {"authorization": f"Bearer {KEY}"})
            return caught.value

    assert not leaks(shown_by(run(main())))
