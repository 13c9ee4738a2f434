"""A late module is the module itself from its first use on."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from midstream.core.modules import late_module


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "late_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "noun.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("late_package", "late_package.noun"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "late_package"


@pytest.mark.parametrize("path", ["late_package.noun", ".noun"])
def test_it_is_imported_at_its_first_use_and_then_stands_in_its_place(package: str, path: str) -> None:
    namespace: dict[str, object] = {"__package__": package}
    late = namespace["noun"] = late_module(path, namespace)
    assert f"{package}.noun" not in sys.modules
    assert late.value == 1
    assert namespace["noun"] is importlib.import_module(f"{package}.noun")


def test_whoever_kept_it_sees_what_is_replaced_later(package: str) -> None:
    namespace: dict[str, object] = {"__package__": package}
    late = late_module(".noun", namespace)
    assert late.value == 1
    importlib.import_module(f"{package}.noun").value = 2  # type: ignore[attr-defined]
    assert late.value == 2


def test_what_is_not_there_is_said_as_python_says_it(package: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_noun"):
        _ = late_module(".no_such_noun", {"__package__": package}).value
    with pytest.raises(AttributeError, match="no_such_value"):
        _ = late_module(".noun", {"__package__": package}).no_such_value
