"""A key that a program prints: `api_key_command` of a provider, for tokens that expire (Vertex, Entra ID) and for vaults.

The command is run when a key is first needed, in a thread, within bounds of time and output. What it printed is kept until
it expires: as the output says, if it is JSON (`az account get-access-token`), else for `api_key_ttl` seconds. A key that
the host refused is asked for once more. The key is in no message, and neither is the command: it may hold a secret itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import IO, Any

import msgspec

from ..core.errors import MissingKey
from ..core.secret import Secret
from ..core.visible import visible
from ..transport.secrets import Secrets

DEFAULT_TTL = 300.0
TIMEOUT = 60.0
"""How long a command may take: a cloud's tool may itself ask the network."""
MAX_OUTPUT = 65_536
_MAX_COMPLAINT = 200
_MARGIN = 60.0
"""A key is renewed this long before it expires, or a tenth of its life, whichever is less: a request takes time."""

# The names that the tools of the clouds and of common vaults use; the first that is there counts.
_KEYS = ("token", "access_token", "accessToken", "id_token", "api_key", "key")
_MOMENTS = ("expires_on", "expiresOn", "expires_at", "expiresAt", "expiry", "expiration", "expirationTimestamp")


class KeyCommand:
    """One provider's command and the key it last gave. No repr shows either."""

    def __init__(
        self,
        provider: str,
        command: str | Sequence[str],
        ttl: float = DEFAULT_TTL,
        *,
        clock: Callable[[], float] = time.time,
        timeout: float = TIMEOUT,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._provider = provider
        self._command = command
        self._ttl = ttl
        self._clock = clock
        self._timeout = timeout
        self._environ = environ
        # A lock of threads, not of asyncio: `get` is also called without a loop, and `fetch` runs it in a thread.
        self._lock = threading.Lock()
        self._key = Secret("")
        self._until = 0.0

    def __repr__(self) -> str:
        return f"<KeyCommand of {self._provider}>"

    async def fetch(self, refused: Secret | None = None) -> Secret:
        """`get` without holding up the event loop; a caller that is cancelled ends the command."""
        started: list[subprocess.Popen[bytes]] = []
        try:
            return await asyncio.to_thread(self.get, refused, started)
        except asyncio.CancelledError:
            for process in started:
                if process.returncode is None:
                    _kill(process)
            raise

    def get(self, refused: Secret | None = None, started: list[subprocess.Popen[bytes]] | None = None) -> Secret:
        """The key, from the last run if it is still good and not the one that was `refused`. Callers that come together
        share a run; the process of a run of this caller's own is added to `started`."""
        with self._lock:
            if not self._key or self._key == refused or self._clock() >= self._until:
                # Forgotten before the run: if the command fails, an old key must not be taken for a new one.
                self._key = Secret("")
                printed = self._run([] if started is None else started)
                # After the command, which may have waited for a login: `expires_in` counts from when it was printed.
                began = self._clock()
                self._key, expires = self._read(printed, began)
                self._until = expires - min(_MARGIN, (expires - began) / 10)
            return self._key

    def _read(self, printed: bytes, now: float) -> tuple[Secret, float]:
        """The key in the output, and when it expires."""
        text = printed.decode("utf-8", "replace").strip()
        if not text:
            raise self._failure("printed nothing; expected the key on standard output")
        fields = _json_object(text)
        if fields is None:
            key, expires = text, now + self._ttl
        else:
            key = next((fields[name] for name in _KEYS if isinstance(fields.get(name), str)), "")
            if not key:
                raise self._failure(f"printed a JSON object without a key; expected one of {', '.join(_KEYS)}")
            expires = _expiry(fields, now) or now + self._ttl
        # A tool that prints a greeting or a warning first. Sent as a key it would be a confusing 401.
        if not key.isascii() or not key.isprintable() or " " in key:
            raise self._failure("printed more than a key; expected one line without spaces, or a JSON object")
        return Secret(key), expires

    def _run(self, started: list[subprocess.Popen[bytes]]) -> bytes:
        try:
            process = subprocess.Popen(
                self._command if isinstance(self._command, str) else list(self._command),
                shell=isinstance(self._command, str),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environ,
                # A session of its own, so that `_kill` reaches what the
                # command started, and Ctrl-C in a terminal does not reach it.
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise self._failure(f"could not be started: {reason or 'not a command'}") from None
        started.append(process)
        assert process.stdout is not None and process.stderr is not None
        # Both pipes are read at once: a command that fills the one nobody reads would block.
        printed, complaint = _Pipe(process.stdout, MAX_OUTPUT, process), _Pipe(process.stderr, MAX_OUTPUT)
        try:
            code = process.wait(self._timeout)
        except subprocess.TimeoutExpired:
            raise self._failure(f"did not finish in {self._timeout:g} s") from None
        finally:
            _kill(process)  # whatever it left running too, which would hold the pipes open
            process.wait()
            printed.close()
            complaint.close()
        if printed.overflowed:
            raise self._failure(f"printed more than {MAX_OUTPUT} bytes; expected a key")
        if code != 0:
            raise self._failure(f"ended with code {code}{_first_line(bytes(complaint.data), bytes(printed.data))}")
        return bytes(printed.data)

    def _failure(self, what: str) -> MissingKey:
        return MissingKey(f"no key for {self._provider}: its api_key_command {what}")


class _Pipe:
    """Reads a pipe in a thread, to its end; keeps the beginning. A `process` that says more than that is ended."""

    def __init__(self, pipe: IO[bytes], most: int, process: subprocess.Popen[bytes] | None = None) -> None:
        self.data = bytearray()
        self.overflowed = False
        self._pipe = pipe
        self._most = most
        self._process = process
        self._thread = threading.Thread(target=self._read, name="midstream-key-command", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._thread.join()
        self._pipe.close()

    def _read(self) -> None:
        while piece := os.read(self._pipe.fileno(), 65_536):
            self.data += piece[: self._most - len(self.data)]
            if len(self.data) == self._most and not self.overflowed:
                self.overflowed = True
                if self._process is not None:
                    _kill(self._process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        pass  # it has ended, and nothing of it is left


def _json_object(text: str) -> dict[str, Any] | None:
    """The fields of a JSON object; {} if it cannot be read, None for plain text."""
    if not text.startswith("{"):
        return None
    try:
        fields: dict[str, Any] = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    status = fields.get("status")  # an exec credential, as Kubernetes' plugins print it
    return {**fields, **status} if isinstance(status, dict) else fields


def _expiry(fields: Mapping[str, Any], now: float) -> float | None:
    """When a token expires, by any of the names its tools use; None if they do not say, or say what cannot be read."""
    seconds = _number(fields.get("expires_in", fields.get("expiresIn")))
    if seconds is not None:
        return now + seconds
    for name in _MOMENTS:
        said = fields.get(name)
        moment = _number(said)
        if moment is None and isinstance(said, str):
            moment = _moment(said)
        if moment is not None:
            return moment
    return None


def _number(said: object) -> float | None:
    if isinstance(said, bool) or not isinstance(said, (int, float, str)):
        return None
    try:
        value = float(said)
    except (ValueError, OverflowError):
        return None
    # Milliseconds and garbage are out: 1e11 seconds are some three thousand years.
    return value if 0 <= value < 1e11 else None


def _moment(text: str) -> float | None:
    """Seconds since 1970. Without a zone it is local time: so the Azure CLI writes it."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _first_line(complaint: bytes, printed: bytes) -> str:
    """The first line of an error, cut, and without any word of what the command printed as a key."""
    lines = complaint.decode("utf-8", "replace").strip().splitlines()
    if not lines:
        return ""
    secrets = Secrets({"key": printed.decode("utf-8", "replace")})
    return f": {visible(secrets.scrub_text(lines[0])[:_MAX_COMPLAINT])}"
