"""A folder for each test whose name has what a command line or a URL that was put together carelessly is cut at."""

from __future__ import annotations

from pathlib import Path

import pytest

ODD_NAME = "-it's ö#%41"


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    folder = tmp_path / ODD_NAME
    folder.mkdir()
    return folder
