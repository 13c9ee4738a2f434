"""Runs commands with the bash tool, as whoever started it: cases come as JSON on standard input, answers go to standard output.

A case is {"command", "timeout", "token"} and maybe {"way"}, that of a sandbox to run it in; its answer {"answer", "left"}, where left are the command lines of living processes
that hold the token at the moment the tool returned.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from midstream.agent.bash import Bash
from midstream.agent.paths import Folder
from midstream.agent.sandbox import Sandbox
from midstream.core.errors import ToolFailed


def living(token: str) -> list[str]:
    """The command lines that hold the token, of processes that are not about to be collected."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if token.encode() in line and entry.name != str(os.getpid()):
            found.append(line.replace(b"\0", b" ").decode())
    return found


def run(tool: Bash, command: str, timeout: float) -> str:
    try:
        return asyncio.run(tool.bash(command, timeout))
    except ToolFailed as error:
        return f"FAILED {error}"


def main() -> None:
    cases = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder:
        tools: dict[str | None, Bash] = {}
        for case in cases:
            way = case.get("way")
            if way not in tools:
                tools[way] = Bash(Folder(folder), sandbox=Sandbox.find(ways=[way]) if way else None)
            answer = run(tools[way], case["command"], case["timeout"])
            print(json.dumps({"answer": answer, "left": living(case["token"])}), flush=True)


if __name__ == "__main__":
    main()
