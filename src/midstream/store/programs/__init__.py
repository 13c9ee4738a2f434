"""Sessions of other programs: found where they keep them, read as conversations, and written so that they can go on there."""

from __future__ import annotations

from . import claude_code, codex, gemini_cli, kimi_code, llm, opencode
from .program import Exported, Imported, Place, Program, SessionFile

__all__ = ["PROGRAMS", "Exported", "Imported", "Place", "Program", "SessionFile"]

# A new program is a module with these functions, and a row here.
PROGRAMS: dict[str, Program] = {
    program.PROGRAM.name: program.PROGRAM for program in (claude_code, codex, gemini_cli, kimi_code, opencode, llm)
}
"""Every program by its name on the command line."""
