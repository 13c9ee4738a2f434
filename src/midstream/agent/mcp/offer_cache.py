"""What servers offered last, kept by server and configuration, so that a chat does not wait for them to start.

One small file per server in the data folder, `mcp/DIGEST.json`, replaced as a whole. It holds what the server said and no
setting of ours: only the digest leads to it. A file that cannot be read counts as absent.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec

from ...client.mcp_server import McpServer
from ...store.paths import data_dir
from .offer import Offer

FOLDER = "mcp"
_MAX_FILE = 32 << 20
_VERSION = 1


class _Kept(msgspec.Struct, frozen=True):
    version: int
    server: str
    offer: Offer


class OfferCache:
    """The offers of earlier runs; `folder` is for tests."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or data_dir() / FOLDER

    def get(self, server: McpServer) -> Offer | None:
        """What this server offered when it last ran with this configuration."""
        path = self._path(server)
        try:
            if path.stat().st_size > _MAX_FILE:
                return None
            kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
        except (OSError, msgspec.DecodeError, ValueError):
            return None
        return kept.offer if kept.version == _VERSION and kept.server == server.name else None

    def put(self, server: McpServer, offer: Offer) -> None:
        """Keep an offer; where it cannot be kept, the next start waits instead."""
        path = self._path(server)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
        try:
            for folder in (self._folder.parent, self._folder):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(msgspec.json.encode(_Kept(_VERSION, server.name, offer)))
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)

    def _path(self, server: McpServer) -> Path:
        return self._folder / f"{server.name}-{server.digest[:24]}.json"
