"""Error bodies in the shapes hosts use: what is said, and of which kind it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from midstream.core.errors import (
    BadRequest,
    ContentFiltered,
    ContextTooLong,
    MediaRefused,
    NotFound,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Unauthorized,
)
from midstream.transport.retry import worth_retrying
from midstream.wires.provider_errors import provider_error, read_error


@pytest.mark.parametrize(
    ("body", "message", "type", "code"),
    [
        ({"error": {"message": "no", "type": "t", "code": "c"}}, "no", "t", "c"),
        ({"type": "error", "error": {"type": "t", "message": "no"}}, "no", "t", None),
        ([{"error": {"code": 404, "message": "no", "status": "NOT_FOUND"}}], "no", "NOT_FOUND", "404"),
        ({"object": "error", "message": "no", "type": "t", "code": "3"}, "no", "t", "3"),
        ({"error": "no", "code": "c"}, "no", None, "c"),
        ({"error": None, "message": "no"}, "no", None, None),
        ({"detail": "no"}, "no", None, None),
        ({"detail": [{"loc": ["body", 0], "msg": "a"}, {"loc": [], "msg": "b"}]}, "body.0: a; : b", None, None),
        ({"detail": [{"loc": 5, "msg": "a"}, None, "b"]}, ": a; None; b", None, None),
        ({"detail": {"error": "no"}}, "no", None, None),
        ({"error": {"message": "up", "metadata": {"raw": "their words"}}}, "up (their words)", None, None),
        ("no", "no", None, None),
        (3, "3", None, None),
        ({"odd": 1}, "{'odd': 1}", None, None),
    ],
)
def test_where_the_words_are(body: Any, message: str, type: str | None, code: str | None) -> None:
    fields = read_error(body)
    assert (fields.message, fields.type, fields.code) == (message, type, code)


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        (402, "x", QuotaExceeded),
        (429, "exceeded_current_quota_error", QuotaExceeded),
        (429, "engine_overloaded_error", Overloaded),
        (429, "slow down", RateLimited),
        (400, "the prompt is too long", ContextTooLong),
        (413, "x", ContextTooLong),
        (400, "The input token count (40000) exceeds the maximum number of tokens allowed (32768).", ContextTooLong),
        (400, "judged high risk", ContentFiltered),
        (401, "x", Unauthorized),
        (403, "x", Unauthorized),
        (400, "API key not valid", Unauthorized),
        (404, "x", NotFound),
        (400, "x", BadRequest),
        (422, "x", BadRequest),
        (400, "server_error", BadRequest),
        (500, "x", Overloaded),
        (500, "this model does not support tools", BadRequest),
        (500, "invalid_request_error", BadRequest),
        (503, "this model does not support tools", Overloaded),
        (529, "x", Overloaded),
        (599, "x", Overloaded),
        (418, "x", BadRequest),
        (None, "rate_limit_error", RateLimited),
        (None, "invalid_api_key", Unauthorized),
        (None, "invalid_request_error", BadRequest),
        (None, "x", ProviderError),
        (302, "x", ProviderError),
    ],
)
def test_kinds(status: int | None, said: str, kind: type[ProviderError]) -> None:
    for body in ({"error": {"message": said}}, json.dumps({"error": {"message": "x", "type": said}}).encode()):
        error = provider_error(status, body)
        assert type(error) is kind
        assert error.status == status


REFUSALS: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data/media_refusals.json").read_text())


@pytest.mark.parametrize("case", REFUSALS, ids=[case["host"] for case in REFUSALS])
def test_a_host_that_reads_no_media_says_so_in_its_own_words(case: dict[str, Any]) -> None:
    """And is not asked again, whatever its status says."""
    error = provider_error(case["status"], json.dumps(case["body"]).encode())
    assert isinstance(error, MediaRefused) is case["refused"]
    assert worth_retrying(error, {}) is (not case["refused"] and case["status"] >= 500)
    if case["refused"]:
        assert not error.retryable and not worth_retrying(error, {"x-should-retry": "true"})


LIMITS: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data/rate_limits.json").read_text())


@pytest.mark.parametrize("case", LIMITS, ids=[case["host"] for case in LIMITS])
def test_a_limit_is_told_from_an_empty_account(case: dict[str, Any]) -> None:
    headers = dict(header.split(": ") for header in case["headers"])
    body = json.dumps(case["body"]).encode() if case["status"] else case["body"]
    error = provider_error(case["status"], body, headers=headers)
    assert (error.kind, error.retry_after) == (case["kind"], case["wait"])
    assert all(number in error.message for number in case.get("numbers", ()))


def test_a_status_inside_a_body_that_came_with_200() -> None:
    assert type(provider_error(200, {"error": {"message": "x", "code": "503"}})) is Overloaded
    assert provider_error(200, {"error": {"message": "x", "code": 77}}).status == 200
    assert provider_error(404, {"error": {"message": "x", "code": 503}}).status == 404


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html><TITLE> 502 Bad Gateway </TITLE><p>secret", "an HTML page instead of JSON (502 Bad Gateway)"),
        (b"<p>gone</p>", "an HTML page instead of JSON"),
        (b" upstream gone\n", "upstream gone"),
        (b"  ", "an empty body"),
        (b"\xff", "\ufffd"),
        (b"x" * 10_000, "x" * 500 + "…"),
    ],
)
def test_bodies_that_are_no_json(body: bytes, message: str) -> None:
    assert provider_error(502, body).message == message


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert provider_error(429, {}, headers=headers).retry_after == seconds


def test_who_said_it_and_under_which_id() -> None:
    error = provider_error(400, {"error": "no"}, headers={"CF-Ray": "a", "X-Request-Id": "b"}, provider="p")
    assert (error.provider, error.request_id) == ("p", "b")
