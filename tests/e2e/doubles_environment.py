"""The environment in which a program of another library reaches the doubles: every provider's address, and no real key."""

from __future__ import annotations

import os
from pathlib import Path

from midstream.dialects.registry import REGISTRY
from midstream.testing import SimServer

KEY = "a-key-for-the-doubles"


def doubles_environment(sim: SimServer, home: Path) -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_API_BASE"))}
    for row in REGISTRY.providers.values():
        environ[f"{row.name.upper().replace('-', '_')}_BASE_URL"] = sim.base_url(row.name)
        environ.update(dict.fromkeys(row.endpoint.key_env[:1], KEY))
    return {**environ, "MIDSTREAM_HOME": str(home), "MIDSTREAM_SIM_DELAY": "0", "LLM_USER_PATH": str(home / "llm")}
