"""A Python of another user, who may do nothing special: what the bash tool promises is promised to such a one.

Where the tests run as root, the user is nobody. Where they run as a plain user, it is that user.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import midstream

NOBODY = 65534
SCRIPT = Path(__file__).with_name("unprivileged_bash.py")
PATHS = (str(Path(midstream.__file__).parents[1]), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))


def rights() -> dict[str, Any]:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


@functools.cache
def interpreter() -> str | None:
    """A Python that this user may run and that can import the package; None if there is none."""
    names = (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}", shutil.which("python3") or "")
    for name in dict.fromkeys(filter(None, names)):
        command = [name, "-c", "import midstream.agent.bash"]
        try:
            subprocess.run(
                command, env=environment({}), check=True, capture_output=True, timeout=60, cwd="/", **rights()
            )
        except (OSError, subprocess.SubprocessError):
            continue
        return name
    return None


def answers(cases: Sequence[Mapping[str, Any]], variables: Mapping[str, str], timeout: float = 120) -> list[Any]:
    """Each case's answer; fewer than cases where the process was killed."""
    python = interpreter()
    assert python is not None
    done = subprocess.run(
        [python, str(SCRIPT)],
        check=False,
        input=json.dumps(list(cases)),
        env=environment(variables),
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd="/",
        start_new_session=True,
        **rights(),
    )
    assert done.returncode in (0, -9), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def environment(more: Mapping[str, str]) -> dict[str, str]:
    home = {"HOME": "/nonexistent", "MIDSTREAM_HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    return {"PATH": os.defpath + ":/usr/bin:/bin", "PYTHONPATH": ":".join(dict.fromkeys(PATHS)), **home, **more}
