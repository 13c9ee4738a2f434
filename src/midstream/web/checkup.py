"""The doctor in the page: what is broken in a file that was dropped there, who would refuse it, and the healed copy."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from ..core.blocks import Conversation
from ..core.errors import StoreError
from ..doctor import Diagnosis, Finding, Verdict, examine, refusals
from ..store.export import to_jsonl
from ..store.importing import read_history
from ..store.protocol import Entry

MOST_BYTES = 16 * 1024 * 1024
_MOST_ENTRIES = 20


def examined(data: bytes, name: str) -> dict[str, Any]:
    """The findings of every conversation in a file, and their healed copy as JSONL."""
    if data.startswith(b"SQLite format 3\0"):
        raise StoreError("this is a database; use `midstream doctor FILE` in a terminal for it")
    found = _own_json(data) or [*read_history(data, name=name)]
    entries = found[:_MOST_ENTRIES]
    # What we have stored ourselves is judged as it is, not by the file that it once came from.
    entries = [replace(entry, original=None) if entry.conversation.id else entry for entry in entries]
    diagnoses = [examine(entry.conversation, entry.original) for entry in entries]
    healed = [
        replace(entry, conversation=diagnosis.healed, original=None)
        for entry, diagnosis in zip(entries, diagnoses, strict=True)
    ]
    return {
        "name": name,
        "conversations": [_diagnosis_row(diagnosis) for diagnosis in diagnoses],
        "left_out": len(found) - len(entries),
        "healed": b"".join(to_jsonl(healed)).decode(),
    }


def _own_json(data: bytes) -> list[Entry]:
    """A Conversation as one JSON value, which only we write."""
    try:
        value = msgspec.json.decode(data)
        return [Entry(msgspec.convert(value, Conversation))] if isinstance(value, dict) and "turns" in value else []
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return []  # the importer says what is wrong with the file


def _diagnosis_row(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "turns": len(diagnosis.healed.turns),
        "findings": [_finding_row(each) for each in diagnosis.findings],
        "cautions": [_finding_row(each) for each in diagnosis.cautions],
        "verdicts": [_verdict_row(each) for each in diagnosis.verdicts],
        "healed": not refusals(diagnosis.healed),
    }


def _finding_row(finding: Finding) -> dict[str, Any]:
    return {"kind": finding.kind, "words": finding.words, "turn": finding.turn}


def _verdict_row(verdict: Verdict) -> dict[str, Any]:
    problems = [
        {"status": problem.status, "message": problem.message, "basis": problem.basis}
        for problem in verdict.problems[:20]
    ]
    return {"host": verdict.host, "problems": problems, "more": len(verdict.problems) - len(problems)}
