"""Faults whose outcome here differs from the wanted one, and why."""

from __future__ import annotations

EXCEPTIONS: dict[str, str] = {
    "huge_int": "the 6000 digits stand in `created`, which is not read: nothing of the answer is lost, so it completes",
}
