"""A bell, or a desktop note by OSC 9, when something that took long has ended: for a human who looks elsewhere meanwhile."""

from __future__ import annotations

from typing import IO

from ..client.config import ChatConfig
from ..core.visible import visible
from .terminal import write

_LONGEST = 200


class Notifier:
    """Tells the human at a terminal, in the way that the configuration says; by default not at all."""

    def __init__(self, terminal: IO[str], config: ChatConfig) -> None:
        self._terminal = terminal
        self._config = config

    def notify(self, seconds: float, what: str) -> None:
        if self._config.notify == "off" or seconds < self._config.notify_after:
            return
        # A semicolon would begin another field: some terminals read `9;4;…` as a progress bar.
        text = visible(f"midstream: {what} ({seconds:.0f} s)").replace(";", ",")[:_LONGEST]
        write(self._terminal, "\a" if self._config.notify == "bell" else f"\x1b]9;{text}\a")
