"""The warning that a key is about to cross a network in plain sight."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable

from ..core.errors import LocalError
from .loopback import is_loopback
from .target import origin_of

# Some addresses have a header of their own that is no secret (`anthropic-version`), others one that is.
_CARRIES_A_KEY = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)
_told: set[str] = set()


class KeyInClearText(UserWarning):
    """A key is sent over plain http to another machine."""


def warn_of_clear_text(base_url: str, header_names: Iterable[str]) -> None:
    """Once for each host: a key goes over plain http to a host that is not this machine."""
    if not base_url.lower().startswith("http:") or not any(_CARRIES_A_KEY.search(name) for name in header_names):
        return
    try:
        _, host, port = origin_of(base_url)
    except LocalError:
        return  # the transport refuses it
    where = f"{host}:{port}"
    if where in _told or is_loopback(host):
        return
    _told.add(where)
    warnings.warn(
        f"the key for {where} is sent over plain http: everybody on the way can read it. Use https, or a tunnel to localhost",
        KeyInClearText,
        stacklevel=2,
    )
