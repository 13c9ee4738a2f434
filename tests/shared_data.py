"""Where the shared recordings, vectors and facts are: beside the repository, or where MIDSTREAM_SHARED says; and our own vectors."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from .long_run import in_share

ROOT = Path(os.environ.get("MIDSTREAM_SHARED") or Path(__file__).resolve().parents[2] / "shared")
_OWN = Path(__file__).resolve().parent / "data" / "vectors"


def shared(relative: str) -> Path:
    """The path of one shared file or folder; the test is skipped, naming it, where it is missing."""
    path = ROOT / relative
    if not path.exists():
        pytest.skip(f"shared data {relative} is not here: set MIDSTREAM_SHARED", allow_module_level=True)
    return path


def vector_params(relative: str, where: Callable[[dict[str, Any]], bool] = lambda vector: True) -> list[Any]:
    """Our own vectors and those of one shared file as parameters of a test, or one that is skipped and says what is missing.

    The shared ones are examples of what ours say: outside the long run a share of them is tried. For parameters only: `shared` and `vectors` at a module's top would skip our own tests that stand beside.
    """
    own = own_vectors(relative)
    every = {**own, **(vectors(relative) if (ROOT / "vectors" / relative).exists() else {})}
    if not every:
        reason = f"shared data vectors/{relative} is not here: set MIDSTREAM_SHARED"
        return [pytest.param({"id": "missing"}, marks=pytest.mark.skip(reason=reason))]
    return [
        pytest.param(vector, id=key, marks=() if key in own or in_share(number) else pytest.mark.long)
        for number, (key, vector) in enumerate([(key, vector) for key, vector in every.items() if where(vector)])
    ]


def own_vectors(relative: str, key: str = "id") -> dict[str, dict[str, Any]]:
    """The vectors written here in the same form, in `tests/data/vectors`, if there are any."""
    path = _OWN / relative
    found = msgspec.json.decode(path.read_bytes())["vectors"] if path.exists() else []
    return {vector[key]: vector for vector in found}


@cache
def vectors(relative: str) -> dict[str, dict[str, Any]]:
    """The vectors of one shared file by their id."""
    found = msgspec.json.decode(shared(f"vectors/{relative}").read_bytes())["vectors"]
    return {vector["id"]: vector for vector in found}
