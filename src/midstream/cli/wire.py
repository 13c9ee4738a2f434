"""The next request, written out for a human: exactly what would be sent, with every secret replaced by its name."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from ..client.catalog import Catalog
from ..client.session import Session
from ..core.blocks import human
from ..dialects.registry import Resolved

_NEXT = "(your next message)"
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password|credential", re.IGNORECASE)


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
    yield f"{request.method} {target.endpoint.base_url}{request.path}"
    headers = {**request.headers, **(target.endpoint.headers or {}), **_key_header(session.client.catalog, target)}
    for name, value in headers.items():
        hidden = _SECRET_HEADER.search(name) and not value.startswith("‹")
        yield f"{name}: {'‹hidden›' if hidden else value}"
    yield ""
    yield from msgspec.json.format(request.body, indent=2).decode().split("\n")
    for note in request.notes:
        yield f"# {note}"


def _key_header(catalog: Catalog, target: Resolved) -> dict[str, str]:
    """The header that will carry the key, and the variable it comes from instead of the key."""
    endpoint = target.endpoint
    if endpoint.auth == "none":
        return {}
    variable = catalog.key_variable(target)
    stand_in = f"‹{variable}›" if variable else "‹no key set›"
    if endpoint.auth == "bearer" or variable in endpoint.bearer_env:
        return {"authorization": f"‹Bearer {stand_in[1:-1]}›"}
    return {endpoint.auth: stand_in}
