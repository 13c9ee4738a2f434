"""The adapters without their libraries: what to install is said, whichever import fails."""

from __future__ import annotations

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    ("adapter", "library", "told"),
    [
        ("langchain", "langchain_core", "langchain-core 1.7 or newer: pip install -U langchain-core"),
        ("llm_model", "llm", "llm 0.32 or newer: pip install -U llm"),
        ("openai_agents", "agents", "openai-agents 0.24 or newer: pip install -U openai-agents"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai 2.66 or newer: pip install -U pydantic-ai"),
    ],
)
def test_a_library_that_is_missing(monkeypatch: pytest.MonkeyPatch, adapter: str, library: str, told: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"midstream.adapters.{adapter}", raising=False)
    with pytest.raises(ModuleNotFoundError, match=f"needs {told}") as missing:
        importlib.import_module(f"midstream.adapters.{adapter}")
    # Programs look at the name, and so does our plugin of llm.
    assert (missing.value.name or "").startswith(library)
