from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from midstream.core.errors import StoreError
from midstream.store import SqliteStore, data_dir, database_path, open_store
from midstream.store.paths import shown_address

HOME = Path("~").expanduser()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, HOME / ".local/share/midstream"),
        ({"XDG_DATA_HOME": "/data"}, Path("/data/midstream")),
        ({"XDG_DATA_HOME": "relative"}, HOME / ".local/share/midstream"),
        ({"XDG_DATA_HOME": ""}, HOME / ".local/share/midstream"),
        ({"MIDSTREAM_HOME": "/mine", "XDG_DATA_HOME": "/data"}, Path("/mine")),
        ({"MIDSTREAM_HOME": "~/mine"}, HOME / "mine"),
        ({"MIDSTREAM_HOME": ""}, HOME / ".local/share/midstream"),
    ],
)
def test_where_the_data_lives(environ: dict[str, str], expected: Path) -> None:
    assert data_dir(environ) == expected
    assert database_path(environ) == expected / "conversations.db"


@pytest.mark.parametrize("form", ["{}", "sqlite://{}"])
def test_an_address_is_a_file(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a b.db"
    store = open_store(form.format(path))
    assert isinstance(store, SqliteStore) and store.path == path
    store.close()


def test_no_address_is_the_users_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDSTREAM_HOME", str(tmp_path))
    store = open_store()
    assert isinstance(store, SqliteStore) and store.path == database_path()
    store.close()


@pytest.mark.parametrize("address", ["mysql://root:hunter2@db/x", "", "sqlite://", "http://u:hunter2@x"])
def test_an_address_that_is_none_is_refused_without_repeating_it(address: str) -> None:
    with pytest.raises(StoreError, match="expected") as caught:
        open_store(address)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me:hunter2@db:5432/chats?sslmode=require", "postgresql://db/chats"),
        ("postgresql://db/chats?password=hunter2", "postgresql://db/chats"),
        ("postgresql://db/chats?password=x@hunter2", "postgresql://…"),
        ("postgresql://me:a/hunter2@db/chats", "postgresql://…"),
        ("postgresql://me:a?hunter2@db/chats", "postgresql://…"),
        ("postgresql://me:a#hunter2@db/chats", "postgresql://…"),
        ("postgresql://[hunter2@db/chats", "postgresql://…"),
        ("sqlite:///var/x.db", "sqlite:///var/x.db"),
        ("/var/x.db", "/var/x.db"),
    ],
)
def test_an_address_is_shown_without_a_password(address: str, shown: str) -> None:
    assert shown_address(address) == shown


def test_without_psycopg_the_extra_is_named() -> None:
    script = """
import sys
from midstream.core.errors import StoreError
from midstream.gateway.state import open_state
from midstream.store import open_store
assert "psycopg" not in sys.modules, "imported before anybody asked for it"
sys.modules["psycopg"] = None
for opening in (open_store, open_state):
    try:
        opening("postgresql://user:hunter2@host/database")
    except StoreError as error:
        print(error)
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert told.count("pip install '.[postgres]' in midstream's checkout") == 2
    assert "hunter2" not in told
