"""The suites by name. A file of requests is a suite of its own (samples.py)."""

from __future__ import annotations

from .discovery import DISCOVERY
from .probes import CONTRACT, LOOP, QUICK, Probe

SUITES: dict[str, tuple[Probe, ...]] = {"quick": QUICK, "contract": (DISCOVERY, *CONTRACT), "loop": LOOP}
