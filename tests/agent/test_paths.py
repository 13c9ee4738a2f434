from __future__ import annotations

import gc
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from midstream.agent.paths import MAX_DEPTH, Folder
from midstream.core.errors import ConfigError, PathRefused, ToolFailed
from tests.long_run import each_once

SECRET = b"outside"


class World:
    """A folder to stay in, and a secret beside it."""

    def __init__(self, top: Path) -> None:
        self.root = top / "work"
        self.outside = top / "outside"
        self.root.mkdir()
        self.outside.mkdir()
        (self.outside / "secret").write_bytes(SECRET)
        (self.root / "a.txt").write_bytes(b"inside")
        (self.root / "sub").mkdir()
        (self.root / "sub" / "b.txt").write_bytes(b"below")
        self.folder = Folder(self.root)

    def link(self, name: str, target: object) -> None:
        (self.root / name).symlink_to(str(target))

    def outside_is_untouched(self) -> bool:
        return [p.name for p in self.outside.iterdir()] == ["secret"] and (
            self.outside / "secret"
        ).read_bytes() == SECRET


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.folder.close()


INSIDE = {
    "plain": "a.txt",
    "dot": "./a.txt",
    "double slash": "sub//b.txt",
    "up and down again": "sub/../a.txt",
    "absolute, inside": "{root}/a.txt",
    "absolute, with a detour": "{root}/sub/../a.txt",
    "a relative link": "rel",
    "an absolute link that stays inside": "abs",
    "an absolute link from below": "sub/abs",
    "a link to a directory": "dirlink/b.txt",
    "a link that goes up inside": "sub/up/a.txt",
    "a chain of links": "chain",
    "a name that begins with two dots": "..a",
}


@pytest.mark.parametrize("case", INSIDE)
def test_what_is_inside_can_be_read(world: World, case: str) -> None:
    world.link("rel", "sub/b.txt")
    world.link("abs", world.root / "a.txt")
    world.link("sub/abs", world.root / "a.txt")
    world.link("dirlink", "sub")
    world.link("sub/up", "..")
    world.link("chain", "rel")
    (world.root / "..a").write_bytes(b"dots")
    data, _ = world.folder.read(INSIDE[case].format(root=world.root))
    assert data in (b"inside", b"below", b"dots")


OUTSIDE = {
    "up": "../outside/secret",
    "up from below": "sub/../../outside/secret",
    "far up": "../" * 30 + "etc/passwd",
    "absolute": "{outside}/secret",
    "absolute through the root": "{root}/../outside/secret",
    "the root's name as a prefix": "{root}side/secret",
    "passwd": "/etc/passwd",
    "home": "~/.ssh/id_rsa",
    "another's home": "~root/.profile",
    "nul": "a.txt\0.png",
    "empty": "",
    "the folder itself": ".",
    "a directory": "sub",
    "a file as a directory": "a.txt/",
    "through a file": "a.txt/../../outside/secret",
    "link to a file": "l_file",
    "relative link": "l_relative",
    "link to a directory": "l_dir/secret",
    "link to the root of all": "l_slash/etc/passwd",
    "two links": "l_two/secret",
    "link up and in": "sub/l_up/outside/secret",
    "link to itself": "l_loop",
    "links to each other": "l_ping/x",
    "the process's folder": "/proc/self/cwd/a.txt",
    "the process's root": "/proc/self/root{outside}/secret",
    "a link to the process's root": "l_proc{outside}/secret",
    "a link to a descriptor": "l_fd",
    "a device": "/dev/zero",
    "a link to a device": "l_zero",
    "a fifo": "fifo",
    "a socket": "socket",
    "a lone surrogate": "\ud800",
    "a byte in disguise": "\udcff",
    "too long a name": "x" * 300,
    "too long a path": "x/" * 3000,
    "too deep": "sub/../" + "sub/" * 200,
    "a scheme": "file:///etc/passwd",
    "backslashes": "..\\outside\\secret",
    "encoded dots": "%2e%2e/outside/secret",
    "full-width dots": "．．/outside/secret",
    "spaces around the dots": " ../outside/secret",
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_what_is_outside_or_no_file_is_refused(world: World, case: str) -> None:
    world.link("l_file", world.outside / "secret")
    world.link("l_relative", "../outside/secret")
    world.link("l_dir", world.outside)
    world.link("l_slash", "/")
    world.link("l_two", "l_dir")
    world.link("sub/l_up", "../..")
    world.link("l_loop", "l_loop")
    world.link("l_ping", "l_pong")
    world.link("l_pong", "l_ping")
    world.link("l_proc", "/proc/self/root")
    world.link("l_fd", f"/proc/self/fd/{world.folder._fd}")
    world.link("l_zero", "/dev/zero")
    os.mkfifo(world.root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(world.root, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{here}/socket")  # a socket's path must be short
        os.close(here)
        path = OUTSIDE[case].format(root=world.root, outside=world.outside)
        with pytest.raises(ToolFailed):
            world.folder.read(path)
        if not path.startswith((".\\", "..\\", "%", "．", " ", "file:")):  # odd, but good names of new files inside
            with pytest.raises(ToolFailed):
                world.folder.write(path, b"overwritten")
    assert world.outside_is_untouched()


NAMES = st.sampled_from(
    ["..", ".", "", "sub", "a.txt", "l_dir", "l_up", "l_abs", "l_in", "secret", "outside", "~", "new"]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.lists(NAMES, min_size=1, max_size=7).map("/".join), absolute=st.booleans())
def test_no_path_leads_out(world: World, path: str, absolute: bool) -> None:
    for name, target in {"l_dir": "../outside", "l_up": "..", "l_abs": world.outside, "l_in": "sub/../sub"}.items():
        if not (world.root / name).is_symlink():
            world.link(name, target)
    where = f"{world.root}/{path}" if absolute else path
    try:
        data, _ = world.folder.read(where)
        assert data != SECRET
    except ToolFailed:
        pass
    try:
        world.folder.write(where, b"inside")
    except ToolFailed:
        pass
    assert world.outside_is_untouched()


# In a process of its own, so that it truly runs between any two of our system calls. The exchange is atomic: both names
# are there at every moment.
SWAPPER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
here = os.open(sys.argv[1], os.O_RDONLY)
while True:
    if libc.renameat2(here, b"d", here, b"l", 2):
        sys.exit(os.strerror(ctypes.get_errno()))
"""


def test_a_swap_between_directory_and_link_never_leads_out(world: World) -> None:
    """Two names, a directory and a link to the outside, change places all the time while we read and write."""
    (world.root / "d").mkdir()
    (world.root / "d" / "secret").write_bytes(b"inside")
    world.link("l", world.outside)
    swapper = subprocess.Popen([sys.executable, "-I", "-S", "-c", SWAPPER, str(world.root)])
    read = refused = 0
    try:
        while not (world.root / "d").is_symlink():
            assert swapper.poll() is None, "this system cannot exchange two names"
        for attempt in range(50_000):  # a thousand tries, and as many more as it takes to have met both names
            if attempt >= 1000 and read and refused:
                break
            if attempt % 50 == 0:
                os.sched_yield()
            try:
                data, _ = world.folder.read("d/secret")
                assert data != SECRET, f"escaped at try {attempt}"
                read += 1
                world.folder.write("d/secret", b"inside")
                world.folder.write(f"d/new{attempt % 7}/deep", b"inside")
            except ToolFailed:
                refused += 1
        assert swapper.poll() is None
    finally:
        swapper.kill()
        swapper.wait()
    assert world.outside_is_untouched()
    assert read, refused
    assert refused, "the race was never met"


@each_once(("pair", [("d", "l"), ("d/secret", "d/link")]), ("call", range(25)))
def test_a_swap_before_any_system_call_never_leads_out(
    world: World, monkeypatch: pytest.MonkeyPatch, pair: tuple[str, str], call: int
) -> None:
    """The same race without luck: the names change places just before the n-th call, for every n."""
    (world.root / "d").mkdir()
    (world.root / "d" / "secret").write_bytes(b"inside")
    world.link("l", world.outside)
    world.link("d/link", world.outside / "secret")
    calls = 0

    def swapping(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == call:
                first, second = (world.root / name for name in pair)
                first.rename(world.root / "spare")
                second.rename(first)
                (world.root / "spare").rename(second)
            return function(*args, **kwargs)

        return wrapped

    for action in (lambda: world.folder.read("d/secret"), lambda: world.folder.write("d/secret", b"inside")):
        calls = 0
        with monkeypatch.context() as patch:
            for name in ("open", "stat", "readlink", "mkdir", "fstat", "write"):
                patch.setattr(os, name, swapping(getattr(os, name)))
            try:
                answer = action()
                assert not isinstance(answer, tuple) or answer[0] == b"inside"
            except ToolFailed:
                pass
    assert world.outside_is_untouched()


def test_a_write_replaces_whole_keeps_the_mode_and_leaves_nothing_behind(world: World) -> None:
    path = world.root / "a.txt"
    path.chmod(0o751)
    before = path.stat().st_ino
    assert world.folder.write("a.txt", b"new") is False
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert path.stat().st_ino != before, "a reader keeps the old file"
    assert world.folder.write("x/y/z.txt", b"made") is True
    assert (world.root / "x/y/z.txt").read_bytes() == b"made"
    assert not [p for p in world.root.rglob("*") if "midstream" in p.name]


def test_a_write_through_a_link_inside_reaches_its_target(world: World) -> None:
    world.link("l", "sub/b.txt")
    world.folder.write("l", b"new")
    assert (world.root / "l").is_symlink()
    assert (world.root / "sub/b.txt").read_bytes() == b"new"


def test_a_failed_write_leaves_the_old_file_and_no_other(world: World) -> None:
    (world.root / "d").mkdir()
    for path in ("d", "sub/b.txt/x"):
        with pytest.raises(ToolFailed):
            world.folder.write(path, b"x")
    assert not [p for p in world.root.rglob("*") if "midstream" in p.name]


def test_a_file_changed_meanwhile_is_not_overwritten(world: World) -> None:
    _, status = world.folder.read("a.txt")
    (world.root / "a.txt").write_bytes(b"by somebody else")
    with pytest.raises(PathRefused, match="changed"):
        world.folder.write("a.txt", b"mine", expected=status)
    assert (world.root / "a.txt").read_bytes() == b"by somebody else"


def test_a_read_is_bounded(world: World) -> None:
    assert world.folder.read("a.txt", limit=6)[0] == b"inside"
    with pytest.raises(PathRefused, match="larger than 5"):
        world.folder.read("a.txt", limit=5)


def test_no_descriptor_is_left_open(world: World) -> None:
    world.link("out", world.outside)
    fds = Path("/proc/self/fd")
    gc.collect()  # folders of other tests
    before = len(list(fds.iterdir()))
    for path in ["a.txt", "sub/../a.txt", "out/secret", "sub/none/x", "sub", "../x", "x/" * (MAX_DEPTH + 2)]:
        for action in (world.folder.read, lambda p: world.folder.write(p, b"inside")):
            try:
                action(path)
            except ToolFailed:
                pass
    assert len(list(fds.iterdir())) == before


def test_the_folder_stays_the_one_it_was(world: World) -> None:
    """Held by descriptor: a link put in the place of the folder itself changes nothing."""
    world.root.rename(world.root.parent / "moved")
    world.root.symlink_to(world.outside)
    with pytest.raises(ToolFailed):
        world.folder.read("secret")
    assert world.folder.read("a.txt")[0] == b"inside"


def test_a_folder_reached_by_a_link_answers_to_both_names(world: World) -> None:
    alias = world.root.parent / "alias"
    alias.symlink_to(world.root)
    folder = Folder(alias)
    assert folder.read(f"{alias}/a.txt")[0] == folder.read(f"{world.root}/a.txt")[0] == b"inside"


def test_no_folder_no_tools(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="working folder"):
        Folder(tmp_path / "none")
