"""A key in any place and any writing is in no file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from midstream.client.catalog import Catalog
from midstream.client.config import Config, ProviderConfig
from midstream.core.secret import Secret, SecretHeaders
from midstream.recording import Cassette, Recorder, Scrub, SecretRemains, decode_exchange, encode_exchange
from midstream.recording.secret_search import SecretSearch
from midstream.transport.secrets import Secrets
from midstream.transport.target import Target, prepare
from midstream.wires.request import Request
from tests.client.test_key_echo import KEY, SHAPES, SOME_SHAPES, leaks
from tests.long_run import cases

ANSWER = b'data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'


def _target(
    *,
    body: bytes = b"{}",
    path: str = "/chat/completions",
    headers: dict[str, str] | None = None,
    auth: dict[str, str] | None = None,
) -> Target:
    request = Request("POST", path, {"content-type": "application/json", **(headers or {})}, body)
    given = {"authorization": f"Bearer {KEY}"} if auth is None else auth
    return prepare(request, "https://api.host.example/v1", SecretHeaders(given), "identity")


def _recorded(
    folder: Path,
    target: Target,
    *,
    headers: dict[str, str] | None = None,
    chunks: list[bytes] | None = None,
    status: int = 200,
    scrub: Scrub | None = None,
    error: Exception | None = None,
) -> Recorder:
    recorder = Recorder(folder, scrub=scrub)
    told = recorder.sent(target)
    told.head(status, headers or {"content-type": "text/event-stream"})
    for chunk in chunks or [ANSWER]:
        told.chunk(chunk)
    told.end("clean" if error is None else "error", error)  # type: ignore[arg-type]
    return recorder


def _gate(auth: str) -> Catalog:
    """A catalogue with a host that takes its key in this header."""
    settings = ProviderConfig(base_url="https://gate.example/v1", auth=auth)
    return Catalog(Config(providers={"gate": settings}), environ={"GATE_API_KEY": KEY})


def _written(recorder: Recorder) -> str:
    """All of a recording that somebody could read: the file, and the answer put together."""
    recorder.check()
    (path,) = recorder.saved
    data = path.read_bytes()
    return data.decode() + decode_exchange(data).body.decode("utf-8", "replace")


def _in_pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


Place = Callable[[Path], Recorder]
PLACES: dict[str, Place] = {
    "the authorization header": lambda folder: _recorded(folder, _target()),
    "another header that carries a key": lambda folder: _recorded(folder, _target(auth={"x-api-key": KEY})),
    "a cookie": lambda folder: _recorded(folder, _target(auth={"cookie": f"session={KEY}"})),
    "the query": lambda folder: _recorded(folder, _target(path=f"/models?key={KEY}&alt=sse", auth={})),
    "the path": lambda folder: _recorded(folder, _target(path=f"/keys/{KEY}/use")),
    "an ordinary header": lambda folder: _recorded(folder, _target(headers={"x-debug": f"with {KEY}"})),
    "the request's text": lambda folder: _recorded(
        folder, _target(body=json.dumps({"messages": [{"role": "user", "content": f"my key is {KEY}!"}]}).encode())
    ),
    "a name in the request": lambda folder: _recorded(folder, _target(body=json.dumps({KEY: {"a": 1}}).encode())),
    "a request that is not JSON": lambda folder: _recorded(folder, _target(body=f"key={KEY}".encode())),
    "a header of the answer": lambda folder: _recorded(folder, _target(), headers={"x-request-id": f"req-{KEY}"}),
    "a cookie of the answer": lambda folder: _recorded(folder, _target(), headers={"set-cookie": f"k={KEY}"}),
    "the answer": lambda folder: _recorded(
        folder, _target(), chunks=[ANSWER, b'data: {"error":"invalid key %s"}\n\n' % KEY.encode()]
    ),
    "the answer, cut at every byte": lambda folder: _recorded(
        folder, _target(), chunks=_in_pieces(b'data: {"error":"invalid key %s"}\n\n' % KEY.encode(), 1)
    ),
    "the body of a refusal": lambda folder: _recorded(
        folder, _target(), status=401, chunks=[b'{"error":{"message":"Incorrect API key: %s"}}' % KEY.encode()]
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_canary_is_in_no_file(place: str, tmp_path: Path) -> None:
    assert not leaks(_written(PLACES[place](tmp_path)))


@pytest.mark.parametrize("size", [10_000, 5])
@pytest.mark.parametrize("shape", cases(SHAPES, SOME_SHAPES))
def test_in_no_writing(shape: str, size: int, tmp_path: Path) -> None:
    body = b'data: {"error":{"message":"not valid: ' + SHAPES[shape].encode() + b'"}}\n\n'
    recorder = _recorded(tmp_path, _target(), chunks=[ANSWER, *_in_pieces(body, size), ANSWER])
    written = _written(recorder)
    assert not leaks(written), written
    # The chunks are cut as they came, and only the key is gone.
    exchange = decode_exchange(recorder.saved[0].read_bytes())
    assert [len(chunk.data) for chunk in exchange.chunks] == [
        len(each) for each in [ANSWER, *_in_pieces(body, size), ANSWER]
    ]
    assert exchange.chunks[0].data == exchange.chunks[-1].data == ANSWER
    assert exchange.body.startswith(ANSWER + b'data: {"error":{"message":"not valid: ')


@pytest.mark.parametrize("shape", SHAPES)
def test_the_quick_search_sees_what_the_careful_one_removes(shape: str) -> None:
    secrets = Secrets({"authorization": f"Bearer {KEY}"})
    text = f"before {SHAPES[shape]} behind"
    assert leaks(text)
    assert not leaks(secrets.scrub_text(text))
    assert SecretSearch([secrets]).suspects(text.encode())


def test_an_answer_without_secrets_is_kept_to_the_byte(tmp_path: Path) -> None:
    chunks = [ANSWER, "中文，全角！".encode()[:4], "中文，全角！".encode()[4:], b"\xff\x00%41=3D\\u003c&#60;"]
    recorder = _recorded(tmp_path, _target(), chunks=chunks)
    exchange = decode_exchange(recorder.saved[0].read_bytes())
    assert [chunk.data for chunk in exchange.chunks] == chunks


def test_a_compressed_answer_with_a_key_is_not_saved(tmp_path: Path) -> None:
    body = gzip.compress(b'{"error":"invalid key %s"}' % KEY.encode())
    recorder = _recorded(tmp_path, _target(), headers={"content-encoding": "gzip"}, chunks=[body])
    assert not recorder.saved and not list(tmp_path.iterdir())
    with pytest.raises(SecretRemains, match="the compressed answer holds a key"):
        recorder.check()


def test_a_binary_request_with_a_key_is_not_saved(tmp_path: Path) -> None:
    recorder = _recorded(tmp_path, _target(body=b"\xff\xfe" + KEY.encode()))
    assert not recorder.saved
    with pytest.raises(SecretRemains, match="still in the request's body"):
        recorder.check()


def test_user_ids(tmp_path: Path) -> None:
    body = {
        "user": "ann@x.example",
        "metadata": {"user_id": "u-77"},
        "messages": [{"role": "user", "content": "a user"}],
    }
    answer = b'{"error":{"message":"no"},"user_id":"user_2abCdEf"}'
    recorder = _recorded(tmp_path / "a", _target(body=json.dumps(body).encode()), chunks=[answer])
    written = _written(recorder)
    assert "ann@" not in written and "u-77" not in written and "user_2ab" not in written
    assert '"role":"user"' in written and '"content":"a user"' in written
    recorder = _recorded(tmp_path / "b", _target(body=json.dumps(body).encode()), scrub=Scrub(user_ids=False))
    assert "ann@" in _written(recorder)


def test_own_patterns_and_values(tmp_path: Path) -> None:
    scrub = Scrub(secrets=[Secret("hunter2-the-password")], patterns=[r"acct_\w+", r"name=(\w+)"])
    body = {"messages": [{"content": "acct_77 name=Ann hunter2-the-password"}]}
    answer = b"data: acct_1234 name=Bob hunter2-the-password.\n\n"
    written = _written(
        _recorded(tmp_path, _target(body=json.dumps(body).encode()), chunks=_in_pieces(answer, 7), scrub=scrub)
    )
    assert not any(word in written for word in ("acct_", "Ann", "Bob", "hunter2"))
    assert "data: ********* name=*** ********************." in written


def test_headers_that_matter(tmp_path: Path) -> None:
    answered = {
        "content-type": "text/event-stream",
        "date": "today",
        "x-request-id": "req-1",
        "retry-after": "3",
        "x-ratelimit-remaining-tokens": "9",
        "openai-organization": "acme",
        "anthropic-organization-id": "acme",
        "set-cookie": "a=b",
        "cf-ray": "77",
    }
    recorder = _recorded(tmp_path, _target(headers={"anthropic-version": "2023-06-01"}), headers=answered)
    exchange = decode_exchange(recorder.saved[0].read_bytes())
    assert exchange.head is not None
    assert sorted(exchange.head.headers) == [
        "content-type",
        "retry-after",
        "x-ratelimit-remaining-tokens",
        "x-request-id",
    ]
    assert exchange.request.headers["anthropic-version"] == "2023-06-01"
    assert exchange.request.headers["authorization"] == "***"


def test_files_are_numbered_and_named(tmp_path: Path) -> None:
    for _ in range(2):
        _recorded(tmp_path, _target())
    other = Cassette(tmp_path)
    other.add(decode_exchange(other.files()[0].read_bytes()))
    names = [path.name for path in Cassette(tmp_path).files()]
    assert names == [f"000{number}-api.host.example-chat-completions.jsonl" for number in (1, 2, 3)]
    assert [encode_exchange(each) == path.read_bytes() for path, each in Cassette(tmp_path).read()] == [True] * 3
    assert len(list(tmp_path.iterdir())) == 3


def test_a_problem_never_reaches_who_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    recorder = _recorded(tmp_path / "file" / "below", _target())
    assert not recorder.saved
    with pytest.raises(OSError, match="file"):
        recorder.check()


def test_an_answer_that_is_too_long_to_search_with_care_is_not_saved(tmp_path: Path) -> None:
    chunks = [b"data: " + b"x" * 600_000 + KEY.encode(), b"y" * 600_000]
    recorder = _recorded(tmp_path, _target(), chunks=chunks)
    assert not recorder.saved
    with pytest.raises(SecretRemains, match="too many to search with care"):
        recorder.check()
    assert _recorded(tmp_path, _target(), chunks=[b"x" * 2_000_000]).saved


def test_what_was_saved_is_told(tmp_path: Path) -> None:
    told: list[Path] = []
    recorder = Recorder(tmp_path, on_saved=told.append)
    recorder.sent(_target()).end("error", None)
    assert told == recorder.saved and len(told) == 1


def test_a_key_in_a_header_of_any_name_is_in_no_recording(tmp_path: Path) -> None:
    # Nothing in the name says that it holds a key: only the configuration does.
    catalog = _gate("X-Company-Badge")
    auth = catalog.auth_headers(catalog.resolve("gate/some-model")).reveal()
    echo = f'data: {{"choices":[{{"index":0,"delta":{{"content":"{KEY}"}}}}]}}\n\n'.encode()
    text = _written(_recorded(tmp_path, _target(auth=auth), chunks=[echo]))
    assert '"x-company-badge":"***"' in text and not leaks(text)
