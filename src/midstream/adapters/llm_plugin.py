"""What llm loads by the entry point that midstream's package has: it lists our models, which are in `llm_model`.

llm loads every plugin at every start, and one that cannot be imported keeps llm from starting at all: so nothing is imported
here before llm asks for models, and an llm that is too old for ours is told so, and goes on.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import llm


@llm.hookimpl
def register_models(register: Any) -> None:
    try:
        ours = import_module(".llm_model", __package__)
    except ImportError as missing:
        if not str(missing.name).startswith("llm"):
            raise
        warnings.warn("midstream's models need llm 0.32 or newer: pip install -U llm", RuntimeWarning, stacklevel=2)
        return
    for name in ours.known_names():
        register(ours.MidstreamModel(name), ours.AsyncMidstreamModel(name))
