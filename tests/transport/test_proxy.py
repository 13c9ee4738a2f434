from __future__ import annotations

import base64
import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.core.errors import ConfigError
from midstream.transport.connection_pool import ssl_context
from midstream.transport.proxy import Proxy, proxy_for
from midstream.transport.target import is_loopback, leads_to_loopback

P, Q = "http://proxy.example:3128", "http://other.example:8080"


@pytest.mark.parametrize(
    ("scheme", "host", "environ", "expected"),
    [
        ("https", "api.example", {}, None),
        ("https", "api.example", {"HTTPS_PROXY": P}, P),
        ("https", "api.example", {"https_proxy": P, "HTTPS_PROXY": Q}, P),
        ("https", "api.example", {"https_proxy": "", "HTTPS_PROXY": Q}, None),
        ("https", "api.example", {"HTTP_PROXY": P}, None),
        ("http", "api.example", {"HTTP_PROXY": P}, P),
        ("http", "api.example", {"HTTP_PROXY": P, "REQUEST_METHOD": "GET"}, None),
        ("http", "api.example", {"http_proxy": P, "REQUEST_METHOD": "GET"}, P),
        ("https", "api.example", {"ALL_PROXY": P}, P),
        ("https", "api.example", {"HTTPS_PROXY": "proxy.example:3128"}, P),
        ("https", "api.example", {"HTTPS_PROXY": "http://proxy.example"}, "http://proxy.example:80"),
        ("https", "api.example", {"HTTPS_PROXY": "https://[2001:db8::1]"}, "https://[2001:db8::1]:443"),
        ("https", "api.example", {"HTTPS_PROXY": P, "NO_PROXY": "*"}, None),
        ("https", "api.example", {"HTTPS_PROXY": P, "NO_PROXY": "api.example"}, None),
        ("https", "api.example", {"HTTPS_PROXY": P, "no_proxy": "x.test, example"}, None),
        ("https", "api.example", {"HTTPS_PROXY": P, "NO_PROXY": ".example"}, None),
        ("https", "api.example", {"HTTPS_PROXY": P, "NO_PROXY": "*.example"}, None),
        ("https", "API.Example.", {"HTTPS_PROXY": P, "NO_PROXY": "api.EXAMPLE"}, None),
        ("https", "api.example", {"HTTPS_PROXY": P, "NO_PROXY": "api.example:443"}, None),
        ("https", "api.example", {"HTTPS_PROXY": P, "NO_PROXY": "api.example:8443"}, P),
        ("https", "notapi.example", {"HTTPS_PROXY": P, "NO_PROXY": "api.example"}, P),
        ("https", "api.example.evil", {"HTTPS_PROXY": P, "NO_PROXY": "api.example"}, P),
        ("https", "10.1.2.3", {"HTTPS_PROXY": P, "NO_PROXY": "10.0.0.0/8"}, None),
        ("https", "11.1.2.3", {"HTTPS_PROXY": P, "NO_PROXY": "10.0.0.0/8"}, P),
        ("https", "10.1.2.3", {"HTTPS_PROXY": P, "NO_PROXY": "10.1.2.3:443"}, None),
        ("https", "110.1.2.3", {"HTTPS_PROXY": P, "NO_PROXY": "10.1.2.3, 1.2.3"}, P),
        ("https", "2001:db8::5", {"HTTPS_PROXY": P, "NO_PROXY": "2001:db8::/32"}, None),
        ("https", "api.example", {"HTTPS_PROXY": P, "NO_PROXY": " , ."}, P),
    ],
)
def test_proxy_for(scheme: str, host: str, environ: dict[str, str], expected: str | None) -> None:
    found = proxy_for(scheme, host, 443 if scheme == "https" else 80, environ)
    assert (found.url if found else None) == expected


LOOPBACK = ["localhost", "LOCALHOST.", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "::ffff:127.0.0.1",
            "0.0.0.0"]  # fmt: skip


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_goes_direct(host: str) -> None:
    assert is_loopback(host)
    assert proxy_for("http", host, 80, {"HTTP_PROXY": P, "ALL_PROXY": P}) is None


@pytest.mark.parametrize(
    "host",
    [
        "localhost.example",
        "evil.localhost",
        "localhost..",
        "127.0.0.1.",
        "127.1",
        "notlocalhost",
        "128.0.0.1",
        "::2",
        "10.0.0.1",
        "127.0.0.1.x.test",
    ],
)
def test_others_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "url, yes",
    [
        ("http://127.0.0.1:1/v1", True),
        ("http://127.8.9.1/v1", True),
        ("http://[::1]:1/v1", True),
        ("http://localhost/v1", True),
        ("http://localhost.evil.example/", False),
        ("http://127.evil.example/", False),
        ("http://0.0.0.0/", True),
        ("http://[::ffff:127.0.0.1]/", True),
        ("http://x.localhost:1/", False),
        ("http://10.0.0.1/", False),
        ("http://127.0.0.1@evil.example/", False),
        ("http://[::1/", False),
        ("", False),
    ],
)
def test_loopback_is_this_machine_only(url: str, yes: bool) -> None:
    assert leads_to_loopback(url) is yes


def test_the_password_of_a_proxy_is_kept_out_of_sight() -> None:
    found = proxy_for("https", "api.example", 443, {"HTTPS_PROXY": "http://us%40er:pa%3Ass@proxy.example:3128"})
    assert found is not None
    assert found.url == P
    assert base64.b64decode(found.authorization.reveal().removeprefix("Basic ")) == b"us@er:pa:ss"
    assert repr(found) == f"Proxy({P!r})"


@pytest.mark.parametrize(
    "value", ["socks5://u:hunter2@h:1", "http://u:hunter2@h:99999", "http://u:hunter2@", "http://u:hunter2@h\r\nx"]
)
def test_a_bad_proxy_is_named_without_its_value(value: str) -> None:
    with pytest.raises(ConfigError, match="HTTPS_PROXY") as caught:
        proxy_for("https", "api.example", 443, {"HTTPS_PROXY": value})
    assert "hunter2" not in str(caught.value)


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_any_environment_gives_a_proxy_or_a_config_error(host: str, proxy: str, no_proxy: str) -> None:
    try:
        found = proxy_for("https", host, 443, {"HTTPS_PROXY": proxy, "NO_PROXY": no_proxy})
    except ConfigError:
        return
    assert found is None or isinstance(found, Proxy)


def test_trust_comes_from_the_environment(tmp_path: Path) -> None:
    context = ssl_context({})
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    for content in (None, b"", b"no certificate"):
        file = tmp_path / "ca.pem"
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(ConfigError, match="SSL_CERT_FILE"):
            ssl_context({"SSL_CERT_FILE": str(file)})


@pytest.mark.parametrize("character", ["\x01", "\x1f", "\x7f", " "])
def test_a_proxy_with_a_control_character_is_refused(character: str) -> None:
    with pytest.raises(ConfigError, match="is not a URL"):
        proxy_for("https", "api.example", 443, {"https_proxy": f"http://pro{character}xy.example:3128"})
    assert proxy_for("https", "api.example", 443, {"https_proxy": "http://pro\u0080xy.example:3128"}) is not None
