"""Does a host keep its word? Requests with known right answers, judged by what really came, with numbers that hold.

    report = verify("moonshot/kimi-k2.5", suites=("quick", "contract"))
    print(*text_lines(report), sep="\\n")

`midstream verify` is the same in the terminal: docs/verify.md.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ..client.catalog import Catalog
from ..core.secret import Secret, hide
from .checks import CHECKS, Check, Finding, Result, Verdict
from .html_report import html_report
from .interview import make_client
from .report import HostSection, Report, text_lines
from .run import Journal
from .suites import SUITES
from .verification import ProbeRecorder, Verdicts, Verification
from .verified import Verified, read_verified, to_toml

__all__ = [
    "CHECKS",
    "SUITES",
    "Check",
    "Finding",
    "HostSection",
    "Journal",
    "ProbeRecorder",
    "Report",
    "Result",
    "Verdict",
    "Verdicts",
    "Verification",
    "Verified",
    "html_report",
    "make_client",
    "read_verified",
    "text_lines",
    "to_toml",
    "verify",
]


def verify(
    model: str, *, catalog: Catalog | None = None, api_key: str | Secret | None = None, **options: Any
) -> Report:
    """Verify a host, and give the report. `options` are those of a Verification; no question about costs is asked here."""
    api_key = hide(api_key)

    async def run() -> Report:
        async with make_client(catalog, api_key) as client:
            return (await Verification(model, **options).run(client)).report

    return asyncio.run(run())
