"""Ctrl-C twice quits, if the second press comes within two seconds and nothing was typed between."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest

from midstream.agent.approval import NO, Decision
from midstream.agent.approval_request import ApprovalRequest
from midstream.cli.chat import Chat
from midstream.cli.line_input import Interrupted
from midstream.cli.options import Settings
from midstream.cli.plain_view import PlainView
from midstream.cli.terminal import Paint
from midstream.cli.workspace import Workspace


class Keyboard:
    """Somebody who presses Ctrl-C at these times; a letter stands for typing it."""

    interactive = True

    def __init__(self, *keys: float | str) -> None:
        self._keys = list(keys)
        self.now = 0.0
        self.chat = Chat(clock=lambda: self.now)

    async def read(self) -> NoReturn:
        while self._keys:
            key = self._keys.pop(0)
            if isinstance(key, str):
                self.chat.typed()
            else:
                self.now = key
                raise Interrupted
        raise EOFError

    async def approve(self, request: ApprovalRequest, is_command: Callable[[str], bool]) -> Decision:
        return NO

    @contextmanager
    def watching(self, stop: Callable[[], None], toggle: Callable[[], None]) -> Iterator[None]:
        yield

    def toolbar(self, text: Callable[[], str]) -> None: ...

    @property
    def left(self) -> int:
        return len(self._keys)


@pytest.mark.parametrize(
    ("keys", "unread"),
    [
        ((0.0, 1.9, 9.0), 1),
        ((0.0, 2.0, 9.0), 1),
        ((0.0, 2.1, 9.0), 0),
        ((0.0, 2.1, 4.0, 9.0), 1),
        ((0.0, "a", 0.5, 9.0), 0),
        ((0.0, "a", 0.5, 1.0, 9.0), 1),
        ((0.0, 5.0, 10.0, 15.0), 0),
    ],
    ids=str,
)
def test_when_the_chat_is_left(home: object, keys: tuple[float | str, ...], unread: int) -> None:
    keyboard = Keyboard(*keys)

    async def chat() -> None:
        async with Workspace(Settings(model="sim/kimi-k2.5", store=False)) as workspace:
            keyboard.chat.open(workspace, keyboard, PlainView(io.StringIO(), io.StringIO(), Paint(False)))
            await keyboard.chat.run()

    asyncio.run(chat())
    assert keyboard.left == unread
