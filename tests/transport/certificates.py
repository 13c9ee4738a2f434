"""A certificate authority of our own, made on the spot with the `openssl` command: every system that has TLS has it, and it
brings no package that only the tests would need."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Authority:
    """`trust` is its certificate; `server` gives a context that presents one signed by it."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("openssl is not installed: the tests of TLS did NOT run")
        self._folder = folder
        self._key = folder / "authority.key"
        self.trust = folder / "authority.pem"
        self._run(
            "req", "-x509", *_KEY, "-days", "2", "-subj", "/CN=authority of the tests",
            "-addext", "basicConstraints=critical,CA:TRUE", "-keyout", self._key, "-out", self.trust,
        )  # fmt: skip

    def server(self, *names: str, expired: bool = False, self_signed: bool = False) -> ssl.SSLContext:
        """For these names, written as a certificate has them: `DNS:api.example`, `IP:127.0.0.1`."""
        key, request, certificate, extra = (self._folder / f"server.{end}" for end in ("key", "csr", "pem", "ext"))
        extra.write_text(f"subjectAltName={','.join(names)}\n")
        self._run("req", "-new", *_KEY, "-subj", "/CN=server", "-keyout", key, "-out", request)
        signer = ("-signkey", key) if self_signed else ("-CA", self.trust, "-CAkey", self._key, "-CAcreateserial")
        days = "-1" if expired else "2"
        self._run(
            "x509", "-req", "-in", request, *signer, "-days", days, "-extfile", extra, "-out", certificate
        )  # fmt: skip
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        return context

    def _run(self, *arguments: str | Path) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))
