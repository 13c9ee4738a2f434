"""The routes of each wire's hosts: which method and path asks for what, as the providers document them.

A path is read below the provider's own base path, or a tail of it, or a bare version: `/v1/chat/completions` and
`/chat/completions` are one route of a host at `…/v1`. Hosts that share an address in the world share their routes here.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from ..dialects.registry import REGISTRY

Action: TypeAlias = Literal["answer", "models", "model", "count", "stored", "items", "delete", "show", "hello"]

_MODEL = r"(?P<model>.+)"
_ID = r"(?P<id>[^/]+)"


class Route(msgspec.Struct, frozen=True):
    """One path of a host; a host that has GET has HEAD too."""

    method: str
    path: str
    action: Action

    def takes(self, method: str) -> bool:
        return method == self.method or (method == "HEAD" and self.method == "GET")


_MODELS = (Route("GET", "/models", "models"), Route("GET", f"/models/{_MODEL}", "model"))
_GOOGLE = r"(?:/projects/[^/]+/locations/[^/]+)?(?:/publishers/google)?/models"
# Within a wire the first route that fits counts, so fixed words stand before `{id}`. `.+` for models, since names
# have slashes; Gemini's end at the colon of the method.
ROUTES: dict[str, tuple[Route, ...]] = {
    "openai-chat": (
        Route("POST", r"(?:/deployments/(?P<model>.+))?/chat/completions", "answer"),
        *_MODELS,
    ),
    "openai-responses": (
        Route("POST", "/responses", "answer"),
        Route("POST", "/responses/input_tokens", "count"),
        Route("GET", f"/responses/{_ID}", "stored"),
        Route("DELETE", f"/responses/{_ID}", "delete"),
        Route("GET", f"/responses/{_ID}/input_items", "items"),
        *_MODELS,
    ),
    "anthropic": (Route("POST", "/messages", "answer"), Route("POST", "/messages/count_tokens", "count"), *_MODELS),
    "gemini": (
        Route("POST", rf"{_GOOGLE}/(?P<model>[^:]+):(?P<stream>streamG|g)enerateContent", "answer"),
        Route("POST", rf"{_GOOGLE}/(?P<model>[^:]+):countTokens", "count"),
        Route("GET", _GOOGLE, "models"),
        Route("GET", rf"{_GOOGLE}/(?P<model>[^:]+)", "model"),
    ),
    "ollama": (
        Route("POST", "/api/chat", "answer"),
        Route("GET", "/api/tags", "models"),
        Route("POST", "/api/show", "show"),
        Route("GET", "/?(?:api/version)?", "hello"),
    ),
    "cohere": (
        Route("POST", "(?:/v2)?/chat", "answer"),
        Route("GET", "(?:/v1)?/models", "models"),
        Route("GET", f"(?:/v1)?/models/{_MODEL}", "model"),
    ),
    "completion": (Route("POST", f"/inference/{_MODEL}", "answer"),),
}
# Prefixes that clients put before the paths. Where a base URL ends differs between SDKs (with the version or before
# it), and a double that insists on one of them would test the user's patience, not their program.
_VERSIONS = {
    "gemini": "/v1beta1 /v1beta /v1alpha /v1", "cohere": "", "ollama": "",
    "openai-chat": "/v1 /openai/v1 /openai", "openai-responses": "/v1 /openai/v1 /openai",
}  # fmt: skip


class Found(msgspec.Struct, frozen=True):
    """What a request asks for: an action of a wire, and what its path names. `methods` are those the path has, if not this."""

    wire: str
    action: Action = "hello"
    model: str = ""
    id: str = ""
    stream: bool = False
    methods: tuple[str, ...] = ()


def find_route(provider: str, method: str, path: str, wires: tuple[str, ...]) -> Found | None:
    """The route of a provider that speaks these wires; None if it has no such path."""
    others: list[str] = []
    for wire in wires:
        for route, pattern in _patterns(provider, wire):
            match = pattern.fullmatch(path)
            if match is None:
                continue
            if not route.takes(method):
                # A path that exists with another method is a 405, not a 404.
                others.append(route.method)
                continue
            named = match.groupdict()
            stream = (named.get("stream") or "").startswith("stream")
            return Found(wire, route.action, named.get("model") or "", named.get("id") or "", stream)
    return Found(wires[0], methods=tuple(dict.fromkeys(others))) if others else None


@cache
def wires_of(provider: str) -> tuple[str, ...]:
    """The wires at a provider's address, its own first."""
    return tuple(dict.fromkeys([wire for wire, _ in _neighbours(provider)]))


def owner_of(provider: str, wire: str) -> str:
    """The name under which the registry keeps this wire of a provider's host."""
    return next((name for known, name in _neighbours(provider) if known == wire), provider)


@cache
def _neighbours(provider: str) -> tuple[tuple[str, str], ...]:
    """The wires of the providers at the same address, each with its provider's name."""
    if provider not in REGISTRY.providers:
        return tuple([(wire, provider) for wire in ROUTES])  # one that stands for all of them
    host = urlsplit(REGISTRY.providers[provider].endpoint.base_url).netloc
    rows = [row for row in REGISTRY.providers.values() if urlsplit(row.endpoint.base_url).netloc == host]
    # The provider that was named first; Python's sort keeps the rest in order.
    rows.sort(key=lambda row: row.name != provider)
    found: list[tuple[str, str]] = []
    for row in rows:
        for _, dialect in row.dialects:
            found += [(path.wire, row.name) for path in (dialect, dialect.native) if path is not None]
    return tuple(dict.fromkeys(found))


@cache
def _patterns(provider: str, wire: str) -> tuple[tuple[Route, re.Pattern[str]], ...]:
    prefixes = {"", *_VERSIONS.get(wire, "/v1").split(" ")}
    for name in {provider, owner_of(provider, wire)} & set(REGISTRY.providers):
        parts = urlsplit(REGISTRY.providers[name].endpoint.base_url).path.strip("/").split("/")
        prefixes |= {"/" + "/".join(parts[at:]) for at in range(len(parts)) if parts[at]}
    if wire == "anthropic":  # its base paths end before the version
        prefixes |= {f"{prefix}/v1" for prefix in prefixes}
    # The longest first, so that no part of a prefix is left for the pattern of the route itself.
    before = "|".join([re.escape(prefix) for prefix in sorted(prefixes, key=len, reverse=True)])
    return tuple([(route, re.compile(f"(?:{before}){route.path}/?")) for route in ROUTES[wire]])
