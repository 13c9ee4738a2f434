"""Keys that the user stored with `midstream keys set`: in the system's keyring where there is one, else in a private file.

`keys.json` in the configuration folder says which provider's key is where, so that a provider without a stored key costs
one look at the file and never touches the keyring: `keyring` (an extra) is imported when a key is in it, and asked once. The
file is readable by its owner only. One that others can read is closed again, with a warning; one of another user is
refused. It is replaced as a whole under a lock, so concurrent writers lose nothing and a reader sees the old or the new one.
"""

from __future__ import annotations

import os
import stat
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ..core.errors import ConfigError, MissingKey
from ..core.secret import Secret
from ..core.visible import visible
from .config import config_home

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

T = TypeVar("T")

FILE = "keys.json"
KEYRING = "keyring"
SERVICE = "midstream"
"""The name under which the keyring holds our keys; the user's name there is the provider's."""
MAX_KEY = 16_384
_MAX_FILE = 1 << 20


class KeysExposed(UserWarning):
    """The file of the keys could be read by others."""


class _Entry(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One provider's key, or that the keyring has it."""

    key: Secret | None = None
    keyring: bool = False


class KeyStore:
    """The stored keys of one user. Nothing of it shows a key; `get` gives a Secret."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self.path = config_home(environ) / FILE
        self._lock = threading.Lock()
        # What the file looked like when it was read; `keys set` in another terminal is seen by a running program.
        self._version: tuple[int, ...] = ()
        self._entries: dict[str, _Entry] = {}
        self._fetched: dict[str, Secret] = {}

    def __repr__(self) -> str:
        return f"<KeyStore {self.path}>"

    def place(self, provider: str) -> str | None:
        """Where this provider's key is stored, `keyring` or `keys.json`; None if it is not. The key is not looked at."""
        entry = self._current().get(provider)
        return None if entry is None else KEYRING if entry.keyring else FILE

    def providers(self) -> list[str]:
        """Those that have a stored key."""
        return sorted(self._current())

    def is_at_hand(self, provider: str) -> bool:
        """Whether `get` answers at once, without asking the keyring."""
        entry = self._current().get(provider)
        return entry is None or not entry.keyring or provider in self._fetched

    def at_hand(self) -> dict[str, Secret]:
        """The keys that `get` gives at once, by provider."""
        held = {provider: entry.key or self._fetched.get(provider) for provider, entry in self._current().items()}
        return {provider: key for provider, key in held.items() if key is not None}

    def get(self, provider: str) -> Secret | None:
        """The stored key, or None. MissingKey if the keyring does not give it out. A keyring may wait for its user."""
        entry = self._current().get(provider)
        if entry is None or not entry.keyring:
            return None if entry is None else entry.key
        with self._lock:
            if provider not in self._fetched:
                self._fetched[provider] = _from_keyring(provider)
            return self._fetched[provider]

    def set(self, provider: str, key: Secret, *, in_file: bool = False) -> str:
        """Store a key and say where: in the keyring if there is a usable one, unless `in_file`."""
        fault = key_fault(key)
        if fault:
            raise ConfigError(f"this is not a key: {fault}")
        backend = None if in_file else usable_keyring()
        # The key first, then the note that it is there: in the other
        # order a crash would leave a note of a key that does not exist.
        if backend is not None:
            _into_keyring(backend, provider, key)
        with self._changing() as entries:
            before = entries.get(provider)
            entries[provider] = _Entry(keyring=True) if backend is not None else _Entry(key=key)
        if backend is None and before is not None and before.keyring:
            _forget(provider)
        return FILE if backend is None else KEYRING

    def remove(self, provider: str) -> str | None:
        """Remove a stored key; where it was, or None if there was none."""
        if provider not in self._current():
            return None
        with self._changing() as entries:
            before = entries.pop(provider, None)
        if before is None:
            return None
        if before.keyring:
            _forget(provider)
        return KEYRING if before.keyring else FILE

    def _current(self) -> dict[str, _Entry]:
        """What the file says now; it is read again when it has changed."""
        try:
            status = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror}") from None
        with self._lock:
            if _version(status) != self._version:
                self._entries, self._version = self._read()
                # A changed file may mean a changed key in the keyring.
                self._fetched = {}
            return self._entries

    def _read(self) -> tuple[dict[str, _Entry], tuple[int, ...]]:
        try:
            # One descriptor is checked and then read, so that the file cannot be exchanged in between.
            fd = os.open(self.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError:
            return {}, ()
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror}") from None
        try:
            self._check_private(fd)
            entries, version = _decoded(fd), _version(os.fstat(fd))
        finally:
            os.close(fd)
        if entries is None:
            # Neither what it says nor where it is wrong: either may be a key.
            raise ConfigError(
                f"{self.path} is not a file of keys as midstream writes it; repair it, or delete it and store the keys again"
            )
        return entries, version

    def _check_private(self, fd: int) -> None:
        """The file is the user's own and nobody else reads it; if others could, close it and warn."""
        if not hasattr(os, "geteuid"):
            return
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{self.path} is not a regular file")
        if status.st_uid != os.geteuid():
            raise ConfigError(f"{self.path} belongs to another user; its keys are not used")
        if not status.st_mode & 0o077:
            return
        try:
            # Closed rather than refused: the harm, if any, is done,
            # and refusing would only stop the user from working.
            os.fchmod(fd, 0o600)
        except OSError as error:
            raise ConfigError(
                f"{self.path} can be read by others (mode {stat.S_IMODE(status.st_mode):04o}) and could not be closed "
                f"({error.strerror}); its keys are not used"
            ) from None
        warnings.warn(
            f"{self.path} could be read by others (mode {stat.S_IMODE(status.st_mode):04o}) and has mode 0600 now; "
            "if others use this machine, replace the keys in it",
            KeysExposed,
            stacklevel=2,
        )

    @contextmanager
    def _changing(self) -> Iterator[dict[str, _Entry]]:
        """The entries, to be changed by one process at a time; written when the block ends well."""
        try:
            for folder in reversed([each for each in self.path.absolute().parents if not each.exists()]):
                folder.mkdir(mode=0o700, exist_ok=True)
            with _locked(self.path.with_name(f"{FILE}.lock")):
                entries = dict(self._read()[0])
                yield entries
                # Written even if it says the same: a new file tells running programs to ask the keyring again.
                # The file behind a link is replaced, not the link:
                # people keep their settings in a repository of dotfiles.
                _replace(Path(os.path.realpath(self.path)), entries)
        except OSError as error:
            raise ConfigError(
                f"cannot write {self.path}: {error.strerror}; MIDSTREAM_HOME names another folder"
            ) from None


def is_key_file(status: os.stat_result, environ: Mapping[str, str] | None = None) -> bool:
    """Whether this is the file of the keys, under whatever name it was opened."""
    try:
        own = (config_home(environ) / FILE).stat()
    except (OSError, RuntimeError):
        return False
    return (own.st_dev, own.st_ino) == (status.st_dev, status.st_ino)


def key_fault(key: Secret) -> str:
    """What is wrong with what was given as a key, in words that do not repeat it; empty if nothing is."""
    text = key.reveal()
    if not text:
        return "it is empty"
    if len(text) > MAX_KEY:
        return f"it is longer than {MAX_KEY:,} characters"
    # A line break in a key would break the header; most often it is a paste that took too much.
    if not text.isascii() or not text.isprintable() or " " in text:
        return "expected one line of ASCII characters without blanks"
    return ""


def usable_keyring() -> KeyringBackend | None:
    """The system's keyring; None without the extra `keyring`, and where there is none that protects anything."""
    try:
        import keyring
        from keyring.backends.fail import Keyring as NoKeyring
    except ImportError:
        return None
    try:
        backend = keyring.get_keyring()
        # Below 1 are those that its makers do not recommend, such as plain files.
        return None if isinstance(backend, NoKeyring) or float(backend.priority) < 1 else backend
    except Exception:
        return None  # backends are plugins: one that cannot even be loaded is none


def keyring_name(backend: KeyringBackend) -> str:
    """What to call a keyring: `SecretService`, `macOS` …"""
    return visible(str(backend.name).partition(" ")[0])


def _from_keyring(provider: str) -> Secret:
    backend = usable_keyring()
    if backend is None:
        raise MissingKey(
            f"no key for {provider}: it is stored in the system's keyring, which is not available here; "
            f"store it in a file with `midstream keys set {provider} --file`"
        )
    found = _asked(lambda: Secret(backend.get_password(SERVICE, provider) or ""))
    if isinstance(found, str):
        raise MissingKey(
            f"no key for {provider}: the keyring did not give it out ({found}); unlock it, or store the key in a file "
            f"with `midstream keys set {provider} --file`"
        )
    if not found:
        raise MissingKey(
            f"no key for {provider}: it is not in the keyring any more; store it with `midstream keys set {provider}`"
        )
    return found


def _into_keyring(backend: KeyringBackend, provider: str, key: Secret) -> None:
    refused = _asked(lambda: backend.set_password(SERVICE, provider, key.reveal()))
    if refused is not None:
        raise ConfigError(
            f"the keyring ({keyring_name(backend)}) did not take the key ({refused}): unlock it, or add --file to store "
            "the key in a file that only you can read"
        )


def _asked(question: Callable[[], T]) -> T | str:
    """What the keyring answers, or the name of its error: locked, no desktop, no answer. Backends are plugins that raise
    anything; their words and the frames of their tracebacks may hold the key, so neither is passed on."""
    try:
        return question()
    except Exception as error:
        return type(error).__name__


def _forget(provider: str) -> None:
    backend = usable_keyring()
    if backend is not None:
        with suppress(Exception):  # it is gone from the list already, and nothing asks for it any more
            backend.delete_password(SERVICE, provider)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        try:
            import fcntl
        except ImportError:
            pass  # Windows: the file is still replaced as a whole
        else:
            fcntl.flock(fd, fcntl.LOCK_EX)  # held for a read and a write of a small file
        yield
    finally:
        os.close(fd)


def _replace(path: Path, entries: dict[str, _Entry]) -> None:
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(_encode(dict(sorted(entries.items()))))
            file.flush()
            # Before the rename: a crash must leave the old file or the new one, never an empty one.
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode


def _decoded(fd: int) -> dict[str, _Entry] | None:
    """The entries in an open file; None if it does not hold any. No frame of an error holds what was read."""
    try:
        return msgspec.json.decode(os.read(fd, _MAX_FILE), type=dict[str, _Entry], dec_hook=_secret)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _encode(entries: dict[str, _Entry]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(entries, enc_hook=lambda secret: secret.reveal()), indent=2) + b"\n"


def _secret(kind: type, value: Any) -> Any:
    if kind is not Secret or not isinstance(value, str):
        raise ValueError("expected text")
    return Secret(value)
