"""Whom a connection trusts: the environment's certificates, or an error that says what is wrong with them."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from midstream.core.errors import ConfigError
from midstream.transport.connection_pool import ssl_context


def test_without_a_word_it_is_the_machines_own_and_verifies() -> None:
    context = ssl_context({})
    assert context.verify_mode == ssl.CERT_REQUIRED and context.check_hostname


def test_a_file_that_is_not_there_is_an_error_with_its_name_and_reason(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"SSL_CERT_FILE='.*gone\.pem' cannot be used: No such file or directory"):
        ssl_context({"SSL_CERT_FILE": str(tmp_path / "gone.pem")})


def test_a_file_without_a_certificate_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing\n")
    with pytest.raises(ConfigError, match=r"empty\.pem' cannot be used: \S"):
        ssl_context({"SSL_CERT_FILE": str(tmp_path / "empty.pem")})


def test_a_folder_alone_is_trusted_instead(tmp_path: Path) -> None:
    context = ssl_context({"SSL_CERT_DIR": str(tmp_path)})
    assert context.verify_mode == ssl.CERT_REQUIRED and context.get_ca_certs() == []
