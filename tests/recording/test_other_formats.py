"""The corpus and vcrpy's cassettes: what they can say of a recording, they say."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from midstream.core.errors import LocalError
from midstream.doctor import read_answer
from midstream.recording import Cassette, Chunk, RecordedHead, decode_exchange, encode_exchange, record
from midstream.recording.corpus import from_case, to_case
from midstream.recording.vcr import can_be_said, to_vcr
from midstream.testing import sim_server
from tests.event_loops import run
from tests.shared_data import ROOT

from .exchanges import exchange

CASE: dict[str, Any] = {
    "id": "moonshot-kimi-stream-1",
    "wire": "openai-chat",
    "provider": "moonshot",
    "model": "kimi-k2.5",
    "request": {"method": "POST", "path": "/v1/chat/completions", "body": {"model": "kimi-k2.5", "stream": True}},
    "response": {
        "status": 200,
        "headers": {"Content-Type": "text/event-stream"},
        "stream": True,
        "body": 'data: {"choices":[{"index":0,"delta":{"content":"Hé"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
        "chunk_lengths": [60, 36],
    },
}


def test_a_case_becomes_a_recording() -> None:
    made = from_case(CASE)
    assert [len(chunk.data) for chunk in made.chunks] == [60, 36]
    assert made.model == "moonshot/kimi-k2.5" and made.note == CASE["id"]
    answer = read_answer(made)
    assert answer.turn is not None and answer.turn.text == "Hé" and answer.model == "moonshot/kimi-k2.5"
    assert from_case(to_case(made, CASE["id"])) == made


def test_endings_go_along() -> None:
    made = replace(from_case(CASE), ending="cut", chunks=(Chunk(0, b"data: {"), Chunk(0, b"}\n\n")))
    again = from_case(to_case(made, CASE["id"]))
    assert again.ending == "cut" and again.chunks == made.chunks


@pytest.mark.parametrize("wrong", [{}, {"response": None}, {"response": {"status": "x", "body": ""}}, []])
def test_other_json_is_refused(wrong: Any) -> None:
    with pytest.raises(LocalError, match=r"x\.json is not a corpus case"):
        from_case(wrong, "x.json")


def test_every_case_of_the_corpus() -> None:
    """Read as the reference says it is to be read, also after a way into our format, out of it and back."""
    files = sorted((ROOT / "corpus").glob("*/*.json"))
    if not files:
        pytest.skip("shared data corpus is not here: set MIDSTREAM_SHARED")
    same = 0
    for file in files:
        case = json.loads(file.read_bytes())
        made = from_case(case, file.name)
        assert decode_exchange(encode_exchange(made)) == made
        again = from_case(to_case(made, case["id"]), file.name)
        assert (again.chunks, again.head, again.request.body) == (made.chunks, made.head, made.request.body), file.name
        expected = case["expected"]
        answer = read_answer(again)
        if expected.get("error"):
            assert answer.error is not None, file.name
        else:
            assert answer.turn is not None, file.name
            same += answer.turn.text == (expected.get("text") or "")
    refused = sum(1 for file in files if json.loads(file.read_bytes())["expected"].get("error"))
    # Text of several choices, and text that our tool formats read as calls, are the reference's to tell otherwise.
    assert same >= len(files) - refused - 5


def test_a_vcr_cassette_is_json_with_bytes_marked() -> None:
    said = [made for made in map(exchange, range(60)) if can_be_said(made)]
    text = to_vcr(map(exchange, range(60)))
    assert len(said) > 5 and text.count('"uri"') == len(said)
    assert "!!binary" in text
    whole = to_vcr(
        [replace(exchange(3), head=RecordedHead(200, {}), chunks=(Chunk(1, "é\u2028\x7f".encode()),), ending="clean")]
    )
    assert "\u2028" not in whole and "\\u2028\\u007f" in whole
    read = json.loads(whole)["interactions"][0]
    assert read["response"]["body"]["string"] == "é\u2028\x7f" and read["response"]["status"]["code"] == 200


def test_what_its_reader_left_is_not_exported_as_a_whole_answer() -> None:
    left = replace(from_case(CASE), ending="aborted")
    assert not can_be_said(left) and can_be_said(from_case(CASE))
    assert json.loads(to_vcr([left, from_case(CASE)]))["interactions"][0]["response"]["status"]["code"] == 200
    assert to_vcr([left]).count('"uri"') == 0


def test_a_text_that_looks_like_the_mark_of_bytes_is_kept() -> None:
    made = replace(from_case(CASE), chunks=(Chunk(0, b"\0binary 7"),))
    assert f'!!binary "{b64encode(made.body).decode()}"' in to_vcr([made])


def test_a_recording_is_exported_whole(tmp_path: Path) -> None:
    async def ask() -> None:
        async with sim.client() as client:
            await client.complete("openai/gpt-4o", "hello")

    with sim_server("fine") as sim, record(tmp_path):
        run(ask())
    ((_, made),) = Cassette(tmp_path).read()
    interaction = json.loads(to_vcr([made]))["interactions"][0]
    assert interaction["response"]["body"]["string"].encode() == made.body
    case = to_case(made, "x", {"text": "fine"})
    assert case["response"]["body"]["choices"][0]["message"]["content"] == "fine" and case["expected"] == {
        "text": "fine"
    }
