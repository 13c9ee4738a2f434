"""What the gateway remembers between requests: in memory, in an SQLite file, or in PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from ...store.paths import data_dir, is_postgres, sqlite_path
from .protocol import PATIENCE, GatewayState, KeyRecord, SealKey, UsageRow, VaultEntry
from .sqlite import SqliteState

__all__ = [
    "PATIENCE",
    "GatewayState",
    "KeyRecord",
    "SealKey",
    "SqliteState",
    "UsageRow",
    "VaultEntry",
    "open_state",
    "state_path",
]


def state_path() -> Path:
    """The file of the gateway's state, unless it is told another place."""
    return data_dir() / "gateway.db"


def open_state(url: str | None) -> GatewayState:
    """The state at an address: None is memory; `postgresql://…`; `sqlite://` and a path, or a path alone."""
    if url is not None and is_postgres(url):
        from .postgres import PostgresState  # psycopg is an extra, and takes its time to import

        return PostgresState(url)
    return SqliteState(None if url is None else sqlite_path(url))
