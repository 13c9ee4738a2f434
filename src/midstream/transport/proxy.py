"""Which proxy the environment sets for a URL.

`https_proxy`, `http_proxy`, `all_proxy` and `no_proxy` in either case, the lower-case one first. Loopback never goes
through a proxy. Upper-case HTTP_PROXY is ignored in a CGI process, where any client can set it by a `Proxy:` header.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from ..core.blocks import Value
from ..core.errors import ConfigError
from ..core.secret import Secret
from .target import PORTS, is_loopback


class Proxy(Value, frozen=True, repr_omit_defaults=True):
    url: str
    """Without user and password."""
    authorization: Secret = Secret("")
    """The value of Proxy-Authorization."""

    def __repr__(self) -> str:
        return f"Proxy({self.url!r})"


def proxy_for(scheme: str, host: str, port: int, environ: Mapping[str, str]) -> Proxy | None:
    """The proxy for `scheme://host:port`, or None for a direct connection."""
    if is_loopback(host):
        return None
    name, value = _setting(f"{scheme}_proxy", environ)
    # The scheme's own variable wins over `all_proxy`, as in curl.
    if not value:
        name, value = _setting("all_proxy", environ)
    if not value or _excluded(host, port, _setting("no_proxy", environ)[1].reveal()):
        return None
    found = _parse(value)
    if isinstance(found, str):
        raise ConfigError(f"{name} {found}")
    return found


def _setting(name: str, environ: Mapping[str, str]) -> tuple[str, Secret]:
    upper = name.upper()
    # Present but empty hides the upper-case name, so that one command can be run without it.
    if name in environ:
        return name, Secret(environ[name].strip())
    if name == "http_proxy" and "REQUEST_METHOD" in environ:
        return upper, Secret("")
    return upper, Secret(environ.get(upper, "").strip())


def _excluded(host: str, port: int, no_proxy: str) -> bool:
    host = host.strip("[]").rstrip(".").lower()
    address = _address(host)
    for entry in no_proxy.replace(",", " ").lower().split():
        if entry == "*" or _matches(entry, host, port, address):
            return True
    return False


def _matches(entry: str, host: str, port: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    """One entry of NO_PROXY: a domain with all below it, an address or network, each with an optional port."""
    if address is not None:
        try:
            return address in ipaddress.ip_network(entry.strip("[]"), strict=False)
        except ValueError:
            pass  # not a bare address or network; perhaps one with a port
    # A colon is also part of an IPv6 address; bare addresses were settled above, so here the last one is a port.
    name, _, wanted = entry.rpartition(":") if entry.rsplit(":", 1)[-1].isdigit() else (entry, "", "")
    if wanted and wanted != str(port):
        return False
    name = name.strip("[]").removeprefix("*").strip(".")
    # Suffixes are for names only: 10.1.2.3 is not "below" 2.3.
    return bool(name) and (host == name or (address is None and host.endswith("." + name)))


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _parse(setting: Secret) -> Proxy | str:
    """The proxy, or what is wrong with the setting: returned, not raised, since a password may be among the locals here."""
    value = setting.reveal()
    # People set `proxy:3128`, and other clients take it.
    if "://" not in value:
        value = "http://" + value
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "is not a URL; expected http://host:port"
    if parts.scheme not in PORTS:
        return f"names a {parts.scheme} proxy; only http and https proxies are supported"
    if not host or any(ord(c) <= 32 or ord(c) == 127 for c in value):
        return "is not a URL; expected http://host:port"
    shown = f"[{host}]" if ":" in host else host
    authorization = Secret("")
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = Secret("Basic " + base64.b64encode(pair.encode()).decode())
    return Proxy(f"{parts.scheme}://{shown}:{port or PORTS[parts.scheme]}", authorization)
