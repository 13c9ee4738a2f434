"""Where a shell command can do no harm: it reads the system, writes its folder and a temporary one, and has no network.

Two ways, tried in this order: bubblewrap (`bwrap`: namespaces, so that what is not granted is not even there), and Landlock with
seccomp, which need no program and no namespaces. Both get the same filter of system calls (seccomp.py), the same readable
paths (readable.py), and the same guard over files that run code later (guarded.py). A way counts only if it worked when it was
tried: in a container namespaces are often refused. docs/sandbox.md says what is confined and what is not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import msgspec

from ..core.errors import ConfigError
from ..core.modules import late_module
from ..core.patterns import late_pattern
from .guarded import GuardedFiles
from .processes import held
from .readable import git_settings_hidden, home_folder, readable_paths, secrets_of, without

if TYPE_CHECKING:
    from . import landlock, seccomp
else:
    # Only a sandbox that is used needs them, and ctypes with them.
    landlock = late_module(".landlock", globals())
    seccomp = late_module(".seccomp", globals())

Way: TypeAlias = Literal["bubblewrap", "landlock"]
# bubblewrap first: what is not mounted is not there at all,
# and its guard over files is enforced while the command runs.
WAYS: tuple[Way, ...] = ("bubblewrap", "landlock")
DEVICES = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"]
_PROBE_SECONDS = 20

_NO_NETWORK = late_pattern(
    r"(?i)name resolution|could not resolve|network is unreachable|getaddrinfo|ENOTFOUND|EAI_AGAIN|unknown host|NewConnectionError"
    r"|no address associated|from versions: none|failed to connect|could not connect|socket.*not permitted"
)
_NOT_WRITABLE = late_pattern(
    r"(?i)read-only file system|permission denied|operation not permitted|device or resource busy"
)


class Launch(NamedTuple):
    """How to start one command in the sandbox: what stands before it, the descriptors it needs, and variables."""

    prefix: Sequence[str] = ()
    fds: Sequence[int] = ()
    environment: Mapping[str, str] = {}

    def close(self) -> None:
        for fd in self.fds:
            with suppress(OSError):
                os.close(fd)


class Sandbox:
    """A sandbox that this machine has: `Sandbox.find()`, then `Toolbox(sandbox=…)` or `Bash(folder, sandbox=…)`.

    `network` lets commands reach the network; `read` are further paths that they may read.
    """

    def __init__(self, way: Way, *, network: bool = False, read: Iterable[str] = ()) -> None:
        self.way = way
        self.network = network
        self.read = tuple(read)

    @classmethod
    def find(cls, *, network: bool = False, read: Iterable[str] = (), ways: Iterable[Way] = WAYS) -> Sandbox:
        """The first of these ways that works here, or ConfigError, which says why none does and what to do."""
        faults = []
        for way in ways:
            fault = _fault(way)
            if not fault:
                return cls(way, network=network, read=read)
            faults.append(f"{way}: {fault}")
        raise ConfigError(
            f"no sandbox works on this machine ({'; '.join(faults)}). Install bubblewrap (apt install bubblewrap, dnf install "
            "bubblewrap), or use a kernel with Landlock (Linux 6.2 or newer); without one, leave the sandbox off"
        )

    @property
    def described(self) -> str:
        """What a command in it may do, in one line."""
        network = "the network is open" if self.network else "no network"
        return f"writes only the working folder and a temporary one; {network}"

    def check(self, folder: str) -> None:
        """ConfigError for a folder that holds what the sandbox hides: it could not be opened to a command without that."""
        home = home_folder()
        if folder == "/" or f"{home}/".startswith(f"{folder.rstrip('/')}/"):
            raise ConfigError(
                f"the sandbox cannot work in {folder}: your home folder and its keys are in it; start midstream in the folder of "
                "a project"
            )
        for secret in secrets_of(home, os.environ):
            if f"{secret}/".startswith(f"{folder}/"):
                raise ConfigError(
                    f"the sandbox cannot work in {folder}: {secret} is in it, which commands may not read; start midstream in "
                    "another folder"
                )

    def __repr__(self) -> str:
        return f"Sandbox({self.way!r}, network={self.network})"


class Box:
    """A sandbox around one folder, with the temporary folder that its commands share."""

    def __init__(self, sandbox: Sandbox, folder: str) -> None:
        self.sandbox = sandbox
        self.folder = folder
        self._home = home_folder()
        sandbox.check(folder)
        import tempfile  # most conversations have no sandbox

        self._temporary = os.path.realpath(tempfile.mkdtemp(prefix="midstream-sandbox-"))
        weakref.finalize(self, shutil.rmtree, self._temporary, ignore_errors=True)

    def guard(self) -> GuardedFiles:
        """The files that run code later, as they are now."""
        return GuardedFiles(self.folder, closed=self.sandbox.way == "bubblewrap")

    def launch(self, guarded: GuardedFiles) -> Launch:
        """How to start a command now; the descriptors are the caller's to close."""
        return self._bubblewrap(guarded) if self.sandbox.way == "bubblewrap" else self._landlock()

    def hint(self, output: str, *, failed: bool) -> str:
        """What the sandbox may have to do with a failure, in words for the model; or ""."""
        if not self.sandbox.network and _NO_NETWORK.search(output):
            return "[the command runs in a sandbox without network; the user can allow it with --sandbox-network]"
        if failed and _NOT_WRITABLE.search(output):
            return f"[the command runs in a sandbox: it {self.sandbox.described}; files that run code later stay as they are]"
        return ""

    def _readable(self) -> list[str]:
        return readable_paths(self.folder, self._home, self.sandbox.read, network=self.sandbox.network)

    def _bubblewrap(self, guarded: GuardedFiles) -> Launch:
        network = self.sandbox.network
        # One list for bwrap, over a descriptor: a command line has a limit, and everybody can read it.
        words = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
        words += ["--unshare-cgroup-try", "--cap-drop", "ALL", *([] if network else ["--unshare-net"])]
        words += ["--bind", self._temporary, "/tmp"]
        # Mounted over in this order: first what may be read, then emptiness over the secrets inside it, then the
        # folder, then its guarded files. Later mounts lie on top of earlier ones.
        secrets = secrets_of(self._home, os.environ)
        readable = [path for path in self._readable() if os.path.realpath(path) not in secrets]
        # What is listed inside a hidden folder (a skill in the user's configuration) is bound when that is hidden.
        inside = [
            path for path in readable if os.path.realpath(path).startswith(tuple([f"{each}/" for each in secrets]))
        ]
        paths = _outermost([path for path in readable if path not in inside])
        for path in paths:
            words += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind-try", path, path]
        hidden = [each for each in secrets if any(f"{each}/".startswith(f"{path.rstrip('/')}/") for path in paths)]
        folders = [each for each in hidden if os.path.isdir(each)]
        for secret in hidden:
            words += ["--tmpfs", secret] if secret in folders else ["--ro-bind", "/dev/null", secret]
        for path in inside:
            words += ["--ro-bind-try", path, path]
        for folder in folders:
            words += ["--remount-ro", folder]
        # Read-only: root in a namespace is still the owner of /proc/sys, and what is set there the whole machine obeys.
        words += ["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--bind", self.folder, self.folder]
        for path in guarded.read_only():
            words += ["--ro-bind-try", path, path]
        filter_fd = held(_filter(families=seccomp.INTERNET))
        words += ["--remount-ro", "/", "--chdir", self.folder, "--seccomp", str(filter_fd)]
        arguments_fd = held(b"\0".join([os.fsencode(word) for word in words]) + b"\0")
        program = shutil.which("bwrap") or "bwrap"
        return Launch(
            [program, "--args", str(arguments_fd), "--"], (filter_fd, arguments_fd), self._environment("/tmp")
        )

    def _landlock(self) -> Launch:
        network = self.sandbox.network
        secrets = secrets_of(self._home, os.environ)
        readable = [os.path.realpath(path) for path in self._readable()]
        machine = seccomp.machine() or ""
        policy = {
            "machine": machine,
            "network": network,
            # Where secrets are cut out of a folder, its names may still be listed: programs look through /etc.
            "list": [path for path in readable if path.startswith("/etc")],
            "read": ["/proc", *[part for path in readable for part in without(path, secrets)]],
            "write": [self.folder, self._temporary],
            "devices": DEVICES,
            "filter": _filter(families=seccomp.INTERNET if network else (), landlock=True).hex(),
            "on_behalf": {
                name: number for name in seccomp.ON_BEHALF if (number := seccomp.number(name, machine)) is not None
            },
        }
        fd = held(msgspec.json.encode(policy))
        prefix = [sys.executable, "-I", "-S", landlock.__file__, str(fd)]
        return Launch(prefix, (fd,), self._environment(self._temporary))

    def _environment(self, temporary: str) -> dict[str, str]:
        """Caches go to the temporary folder, since a home cannot be written; pip does not try for long what cannot work."""
        variables = {
            "TMPDIR": temporary,
            "XDG_CACHE_HOME": f"{temporary}/cache",
            "PYTHONPYCACHEPREFIX": f"{temporary}/pycache",
            "npm_config_cache": f"{temporary}/npm",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        if not self.sandbox.network:
            variables["PIP_RETRIES"] = "0"
        # A file that is there and cannot be read is an error to git, not an absent one.
        return variables | ({"GIT_CONFIG_GLOBAL": os.devnull} if git_settings_hidden(self._home) else {})


def _outermost(paths: list[str]) -> list[str]:
    """Without those that are inside another: nothing can be made inside what is bound read-only."""
    folders = tuple([path.rstrip("/") + "/" for path in paths if not os.path.islink(path)])
    return [path for path in paths if not path.startswith(folders)]


def _filter(*, families: Iterable[int], landlock: bool = False) -> bytes:
    machine = seccomp.machine()
    assert machine is not None  # looked at before the sandbox was made
    return seccomp.filter_program(machine, families=families, landlock=landlock)


def _fault(way: Way) -> str:
    """Why this way does not work here, or "". Tried by running it."""
    if not sys.platform.startswith("linux"):
        return f"needs Linux, this is {sys.platform}"
    if seccomp.machine() is None:
        import platform

        return f"there is no filter of system calls for {platform.machine()}, only for {', '.join(seccomp.MACHINES)}"
    if way == "bubblewrap" and shutil.which("bwrap") is None:
        return "bwrap is not installed"
    if way == "landlock" and landlock.abi() < landlock.MIN_ABI:
        return (
            "this kernel has no Landlock, or one that is too old"
            if landlock.abi() == 0
            else "this kernel's Landlock is too old"
        )
    return _tried(way)


def _tried(way: Way) -> str:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="midstream-probe-") as folder:
        box = Box(Sandbox(way), os.path.realpath(folder))
        launch = box.launch(box.guard())
        try:
            done = subprocess.run(
                [*launch.prefix, "/bin/sh", "-c", "echo works"],
                check=False,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                pass_fds=launch.fds,
                cwd=folder,
                timeout=_PROBE_SECONDS,
                env={"PATH": os.environ.get("PATH", os.defpath)},
            )
        except (OSError, subprocess.SubprocessError) as error:
            return f"it could not be started ({error})"
        finally:
            launch.close()
    if done.stdout.strip() == b"works":
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"it was tried and failed ({said[-1][:200] if said else f'exit code {done.returncode}'})"
