"""Whether an address is this very machine: decided by its name alone, nothing is looked up."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """True for a literal address that is ours (127.0.0.0/8, ::1, the unspecified ones) and for `localhost`.

    A name that begins or ends so is some other host: what `evil.localhost` leads to, a name server decides.
    """
    host = host.strip("[]").lower()
    if host in ("localhost", "localhost."):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback or address.is_unspecified


def leads_to_loopback(url: str) -> bool:
    """The same for the host of a URL; False for one that cannot be read."""
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False
