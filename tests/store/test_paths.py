from __future__ import annotations

from pathlib import Path

import pytest

from midstream.store import data_dir, database_path

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
