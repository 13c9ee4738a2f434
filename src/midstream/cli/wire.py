"""The next request, written out for a human: exactly what would be sent, with every secret replaced by its name."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..client.catalog import Catalog
from ..client.session import Session
from ..core.blocks import human
from ..core.secret import hide_url_secrets
from ..dialects.registry import REGISTRY, Resolved

_NEXT = "(your next message)"


def wire_lines(session: Session, text: str = "") -> Iterator[str]:
    """Request line, headers, body and notes. With nothing said yet, a stand-in takes the place of the next message."""
    before = session.conversation
    last = before.turns[-1].speaker if before.turns else ""
    try:
        if text or last in ("", "ai"):
            session.conversation = before.add(human(text or _NEXT))
        request = session.request()
    finally:
        session.conversation = before
    target = session.target
    address = hide_url_secrets(target.endpoint.base_url, "‹hidden›")
    yield f"{request.method} {address}{target.endpoint.at(request.path)}"
    for name, value in {
        **request.headers,
        **_own_headers(target),
        **_key_header(session.client.catalog, target),
    }.items():
        yield f"{name}: {value}"
    yield ""
    yield from msgspec.json.format(request.body, indent=2).decode().split("\n")
    for note in request.notes:
        yield f"# {note}"


def _own_headers(target: Resolved) -> dict[str, str]:
    """The headers of this address; one that the user configured may hold a secret, whatever it is called."""
    row = REGISTRY.providers.get(target.provider)
    known = (row.endpoint.headers if row is not None else None) or {}
    headers = target.endpoint.headers or {}
    return {name: value if known.get(name) == value else "‹hidden›" for name, value in headers.items()}


def _key_header(catalog: Catalog, target: Resolved) -> dict[str, str]:
    """The header that will carry the key, and the variable it comes from instead of the key."""
    endpoint = target.endpoint
    if endpoint.auth == "none":
        return {}
    source = catalog.key_source(target)
    stand_in = f"‹{source}›" if source else "‹no key set›"
    if catalog.sends_bearer(target):
        return {"authorization": f"Bearer {stand_in}"}
    return {endpoint.auth: stand_in}
