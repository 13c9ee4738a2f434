"""A keyring in memory, of the real package's kind, that can be locked."""

from __future__ import annotations

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError


class MemoryKeyring(KeyringBackend):
    """As an instance it is one to recommend; as a class it is not, so that the package never chooses it on its own."""

    priority = 0.5  # type: ignore[assignment]
    name = "Memory keyring"

    def __init__(self, *, locked: bool = False, usable: bool = True) -> None:
        super().__init__()
        self.priority = 5 if usable else 0.5  # type: ignore[assignment]
        self.locked = locked
        self.kept: dict[tuple[str, str], str] = {}
        self.asked = 0

    def get_password(self, service: str, username: str) -> str | None:
        self.asked += 1
        self._open("")
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._open(password)
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._open("")
        if self.kept.pop((service, username), None) is None:
            raise PasswordDeleteError("not there")

    def _open(self, password: str) -> None:
        if self.locked:
            raise KeyringLocked(f"locked; {password} was not taken")
