"""What a provider's error needs beside its own words: whose it is, and what to try.

A key that one address refuses may be good at its sister: Moonshot's international, Chinese and coding hosts each have keys
of their own (facts/conventions.md, environment variables).
"""

from __future__ import annotations

from urllib.parse import urlsplit

from ..core.errors import MidstreamError, ProviderError, Unauthorized
from ..dialects.registry import Resolved

# host -> the addresses its keys are taken for, and how to get there
_SISTERS = {
    "api.moonshot.ai": (
        "https://api.moonshot.cn/v1 (moonshot-cn/…)",
        "https://api.kimi.com/coding/v1 (kimi-coding/…)",
    ),
    "api.moonshot.cn": (
        "https://api.moonshot.ai/v1 (moonshot/…)",
        "https://api.kimi.com/coding/v1 (kimi-coding/…)",
    ),
    "api.kimi.com": (
        "https://api.moonshot.ai/v1 (moonshot/…)",
        "https://api.moonshot.cn/v1 (moonshot-cn/…)",
    ),
}


def explain(error: MidstreamError, target: Resolved) -> None:
    """Give an error its provider's name and, where one is known, a way out."""
    if isinstance(error, ProviderError):
        error.provider = error.provider or target.provider
        if isinstance(error, Unauthorized) and error.status == 401:
            error.message += _other_hosts(target.endpoint.base_url)


def _other_hosts(base_url: str) -> str:
    host = urlsplit(base_url).hostname or ""
    sisters = _SISTERS.get(host)
    if sisters is None:
        return ""
    return f". Keys of {host} are not interchangeable with those of {' and '.join(sisters)}: try the host that made the key"
