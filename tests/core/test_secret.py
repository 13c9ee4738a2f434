"""Which headers hold a key, by their names."""

from __future__ import annotations

import pytest

from midstream.core.secret import is_secret_header


@pytest.mark.parametrize(
    "name",
    [
        "Authorization", "x-api-key", "api-key", "x-goog-api-key", "Proxy-Authorization", "Cookie", "set-cookie", "x-amz-security-token",
        "x-session-id", "x-ratelimit-key", "x-ratelimit-token", "x-ratelimit-bypass-secret", "ratelimit-authorization",
    ],
)  # fmt: skip
def test_what_is_named_like_a_secret_is_one(name: str) -> None:
    assert is_secret_header(name)


@pytest.mark.parametrize(
    "name",
    [
        "anthropic-version", "content-type", "x-request-id", "retry-after", "x-ratelimit-limit-requests",
        "x-ratelimit-limit-tokens", "X-RateLimit-Remaining-Tokens", "x-ratelimit-reset-tokens", "x-ratelimit-limit-tokens-minute",
        "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-input-tokens-reset",
    ],
)  # fmt: skip
def test_what_is_left_of_a_limit_is_none(name: str) -> None:
    assert not is_secret_header(name)
