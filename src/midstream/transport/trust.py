"""Whose certificates are believed: the system's, or those SSL_CERT_FILE and SSL_CERT_DIR name."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from ..core.errors import ConfigError


def ssl_context(environ: Mapping[str, str]) -> ssl.SSLContext:
    """A verifying context. A file that cannot be used is an error, never a silent fall back to another trust."""
    file, folder = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
    if not file and not folder:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cafile=file or None, capath=folder or None)
    except OSError as error:
        reason = error.strerror or "no certificate in it"
    raise ConfigError(f"SSL_CERT_FILE={file!r} cannot be used: {reason}; name a file of PEM certificates, or unset it")
