"""What the one outside does for a confined process: inside its folders only, to the file that was named, and no more than asked.

The requests come from this process here, so its own memory and descriptors are read; the kernel's word that the caller still waits
is given by a stand-in.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("NOT TESTED: Landlock needs Linux", allow_module_level=True)

from midstream.agent import landlock
from midstream.agent.seccomp import ON_BEHALF, number

KERNEL = json.loads((Path(__file__).parents[1] / "data" / "sandbox" / "kernel.json").read_text("utf-8"))
WAITING: list[int] = []


def test_the_constants_are_the_kernels() -> None:
    assert {name: getattr(landlock, name) for name in KERNEL["constants"]} == KERNEL["constants"]
    assert {name: getattr(landlock, name).bit_length() - 1 for name in KERNEL["rights"]} == KERNEL["rights"]
    assert {machine: number("seccomp", machine) for machine in landlock.SECCOMP} == landlock.SECCOMP
    assert (landlock.CREATE_RULESET, landlock.ADD_RULE, landlock.RESTRICT_SELF) == (444, 445, 446)
    assert set(landlock.CALLS) == set(ON_BEHALF)


def test_what_cannot_be_confined_is_not_run() -> None:
    """As a shell says it of a program that cannot be run; here with a filter that no kernel takes."""
    folders: dict[str, list[str]] = {"list": [], "read": [], "devices": [], "write": []}
    policy = {"network": False, **folders, "filter": "", "machine": platform.machine()}
    policy_fd, writing = os.pipe()
    os.write(writing, json.dumps(policy).encode())
    os.close(writing)
    words = [sys.executable, "-I", "-S", landlock.__file__, str(policy_fd), "/bin/echo", "it ran"]
    done = subprocess.run(words, pass_fds=[policy_fd], capture_output=True, text=True, timeout=20, check=False)
    os.close(policy_fd)
    assert (done.returncode, done.stdout) == (126, "")
    assert "the sandbox could not be set up" in done.stderr
    assert os.strerror(errno.EINVAL) in done.stderr or landlock.abi() == 0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file inside, one outside; the current folder is inside."""
    WAITING.clear()

    def ioctl(fd: int, operation: int, argument: bytes) -> int:
        assert (fd, operation) == (-1, landlock.NOTIF_VALID)
        WAITING.extend(struct.unpack("=Q", argument))
        return 0

    monkeypatch.setattr(landlock.fcntl, "ioctl", ioctl)
    for name in ("inside", "outside", "inside-too"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("text")
        (tmp_path / name / "file").chmod(0o640)
    (tmp_path / "inside" / "out").symlink_to(tmp_path / "outside" / "file")
    (tmp_path / "inside" / "in").symlink_to("file")
    monkeypatch.chdir(tmp_path / "inside")
    return tmp_path


def ask(folder: Path, call: str, *arguments: Any) -> str:
    """Make the call as a confined process would; the name of the error, or nothing."""
    held = [ctypes.create_string_buffer(each) if isinstance(each, bytes) else each for each in arguments]
    numbers = [ctypes.addressof(each) if isinstance(each, ctypes.Array) else each & (1 << 64) - 1 for each in held]
    request = landlock.Request(-1, 77, os.getpid(), (f"{folder}/inside/",))
    try:
        landlock.CALLS[call](request, *numbers, *[0] * (6 - len(numbers)))
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return ""


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


FOLLOW, NOT, EMPTY = 0, 0x100, 0x1000
CHANGES: dict[str, tuple[Callable[[Path], tuple[Any, ...]], str]] = {
    "by name": (lambda _: ("chmod", b"file", 0o600), ""),
    "by its whole path": (lambda folder: ("chmod", f"{folder}/inside/file".encode(), 0o600), ""),
    "at the current folder": (lambda _: ("fchmodat", -100, b"file", 0o600), ""),
    "through a link": (lambda _: ("chmod", b"in", 0o600), ""),
    "through our own descriptors": (lambda _: ("chmod", b"/proc/self/cwd/file", 0o600), ""),
    "of a thread": (lambda _: ("chmod", b"/proc/thread-self/cwd/file", 0o600), ""),
    "outside": (lambda folder: ("chmod", f"{folder}/outside/file".encode(), 0o600), "EPERM"),
    "above": (lambda _: ("chmod", b"../outside/file", 0o600), "EPERM"),
    "in a folder whose name begins alike": (lambda _: ("chmod", b"../inside-too/file", 0o600), "EPERM"),
    "a link that leads out": (lambda _: ("chmod", b"out", 0o600), "EPERM"),
    "missing": (lambda _: ("chmod", b"nothing", 0o600), "ENOENT"),
    "no name": (lambda _: ("chmod", b"", 0o600), "ENOENT"),
    "no name, with flags": (lambda _: ("fchmodat2", -100, b"", 0o600, FOLLOW), "ENOENT"),
    "a name without an end": (lambda _: ("chmod", b"x" * 4096, 0o600), "ENAMETOOLONG"),
    "the longest name": (lambda _: ("chmod", b"./" * 2045 + b"./file"[:5], 0o600), "ENOENT"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_mode_is_changed_inside_only(case: str, folder: Path) -> None:
    make, expected = CHANGES[case]
    assert ask(folder, *make(folder)) == expected
    assert mode(folder / "inside" / "file") == (0o640 if expected else 0o600)
    assert mode(folder / "outside" / "file") == mode(folder / "inside-too" / "file") == 0o640
    assert ([] if expected in ("ENOENT", "ENAMETOOLONG") else [77]) == WAITING


def test_a_mode_never_hands_out_rights(folder: Path) -> None:
    file = folder / "inside" / "file"
    assert ask(folder, "chmod", b"file", 0o7755) == ""
    assert mode(file) == 0o1755


def test_by_a_descriptor(folder: Path) -> None:
    for name, expected in (("inside", ""), ("outside", "EPERM")):
        with (folder / name / "file").open() as file:
            assert ask(folder, "fchmod", file.fileno(), 0o600) == expected
            assert ask(folder, "fchmodat2", file.fileno(), b"", 0o600, EMPTY) == expected
        there = os.open(folder / name, os.O_RDONLY)
        try:
            assert ask(folder, "fchmodat", there, b"file", 0o604) == expected
            assert mode(folder / name / "file") == (0o640 if expected else 0o604)
        finally:
            os.close(there)


def test_a_link_itself_is_not_followed_where_that_was_asked(folder: Path) -> None:
    assert ask(folder, "fchmodat2", -100, b"out", 0o600, NOT) in ("EOPNOTSUPP", "ENOTSUP")
    assert ask(folder, "utimensat", -100, b"out", struct.pack("=qqqq", 5, 0, 5, 0), FOLLOW) == "EPERM"
    assert mode(folder / "outside" / "file") == 0o640


NOW, OMIT = (1 << 30) - 1, (1 << 30) - 2
TIMES: dict[str, tuple[tuple[int, int, int, int], tuple[int | None, int | None]]] = {
    "both": ((5, 7, 6, 8), (5_000_000_007, 6_000_000_008)),
    "the first as it was": ((0, OMIT, 6, 8), (1_000, 6_000_000_008)),
    "the second as it was": ((5, 7, 0, OMIT), (5_000_000_007, 2_000)),
    "now and as it was": ((0, NOW, 0, OMIT), (None, 2_000)),
    "as it was and now": ((0, OMIT, 0, NOW), (1_000, None)),
}


@pytest.mark.parametrize("case", TIMES)
def test_times_are_set_as_asked(case: str, folder: Path) -> None:
    file = folder / "inside" / "file"
    os.utime(file, ns=(1_000, 2_000))
    given, expected = TIMES[case]
    assert ask(folder, "utimensat", -100, b"file", struct.pack("=qqqq", *given), 0) == ""
    found = (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    for here, wanted in zip(found, expected, strict=True):
        assert here == wanted if wanted is not None else here > 1_000_000_000 * 10**9


def test_no_times_mean_now(folder: Path) -> None:
    file = folder / "inside" / "file"
    os.utime(file, ns=(1_000, 2_000))
    assert ask(folder, "utimensat", -100, b"file", 0, 0) == ""
    assert min(file.stat().st_atime_ns, file.stat().st_mtime_ns) > 1_000_000_000 * 10**9


OURS, THEIRS, SAME = os.geteuid(), os.geteuid() + 1, 0xFFFFFFFF
OWNERS = {
    "nobody named": (SAME, SAME, ""),
    "all bits of a long set": ((1 << 64) - 1, (1 << 64) - 1, ""),
    "oneself": (OURS, os.getegid(), ""),
    "another user": (THEIRS, SAME, "EPERM"),
    "another group": (SAME, os.getegid() + 1, "EPERM"),
}


@pytest.mark.parametrize("case", OWNERS)
@pytest.mark.parametrize("call", ["chown", "lchown", "fchown", "fchownat"])
def test_a_file_is_given_to_nobody_else(call: str, case: str, folder: Path) -> None:
    user, group, expected = OWNERS[case]
    before = (-100, b"file") if call == "fchownat" else (b"file",)
    assert ask(folder, call, *before, user, group) == expected
