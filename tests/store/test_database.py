"""What is said of a database that fails: which failures may pass by themselves, and what to do about each."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from midstream.core.errors import StoreError, StoreUnavailable
from midstream.store.database import translated
from tests.long_run import each_once

FAILURES = {
    # code -> whether it passes when the other process is done, and what the message says
    "SQLITE_BUSY": (True, "another process has been writing to the database for 1.5 s"),
    "SQLITE_LOCKED": (True, "in use"),
    "SQLITE_FULL": (False, "the disk is full"),
    "SQLITE_READONLY": (False, "read-only"),
    "SQLITE_PERM": (False, "no permission"),
    "SQLITE_CANTOPEN": (False, "cannot open"),
    "SQLITE_CORRUPT": (False, "damaged"),
    "SQLITE_NOTADB": (False, "not an SQLite database"),
}


@each_once(("name", FAILURES), ("extended", [0, 3 << 8]))
def test_a_failure_is_named_by_its_code(name: str, extended: int) -> None:
    passes, words = FAILURES[name]
    failure = sqlite3.OperationalError("failed")
    failure.sqlite_errorcode = getattr(sqlite3, name) | extended
    with pytest.raises(StoreError, match=words) as found, translated(Path("chat.db"), 1.5):
        raise failure
    assert (type(found.value) is StoreUnavailable) is passes
    assert found.value.__cause__ is failure


def test_a_failure_without_a_code_is_told_too() -> None:
    with pytest.raises(StoreError, match="failed") as found, translated(Path("chat.db"), 1.5):
        raise sqlite3.ProgrammingError("failed")
    assert type(found.value) is StoreError
