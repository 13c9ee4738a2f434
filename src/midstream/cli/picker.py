"""A list to choose from: the arrow keys move, typing filters, Enter chooses, Esc leaves. It takes its rows back when it ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, VSplit, Window
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth

from ..core.visible import visible
from .terminal import showable

_SHOWN = 10
_HINT = "arrows move, typing filters, Enter opens, Esc leaves"
_STYLE = Style.from_dict({"prompt": "bold ansicyan", "chosen": "bold", "hint": "ansibrightblack"})


async def pick(rows: Sequence[str], source: Input, sink: Output, depth: ColorDepth | None) -> int | None:
    """The number of the row that was chosen, or None."""
    picker = _Picker([visible(row) for row in rows])
    return await picker.application(source, sink, depth).run_async(handle_sigint=False)


class _Picker:
    def __init__(self, rows: Sequence[str]) -> None:
        self._rows = rows
        self._filter = Buffer(multiline=False, on_text_changed=lambda _: self._narrow())
        self._fitting = list(range(len(rows)))
        self._place = 0

    def application(self, source: Input, sink: Output, depth: ColorDepth | None) -> Application[int | None]:
        typed = VSplit([
            Window(FormattedTextControl([("class:prompt", showable("› ", sys.stdout))]), width=2),
            Window(BufferControl(self._filter), height=1),
        ])  # fmt: skip
        shown = Window(FormattedTextControl(self._list), height=lambda: min(_SHOWN, max(1, len(self._rows))))
        hint = Window(FormattedTextControl(self._hint), height=1, style="class:hint")
        return Application(
            Layout(HSplit([typed, shown, hint]), focused_element=typed),
            key_bindings=self._keys(),
            input=source,
            output=sink,
            style=_STYLE,
            color_depth=depth,
            erase_when_done=True,
        )

    def _narrow(self) -> None:
        words = self._filter.text.casefold().split()
        self._fitting = [
            number for number, row in enumerate(self._rows) if all(word in row.casefold() for word in words)
        ]
        self._place = 0

    def _list(self) -> StyleAndTextTuples:
        if not self._fitting:
            return [("class:hint", "  no matches")]
        # The chosen row stays in the middle, except near either end of the list.
        first = max(0, min(self._place - _SHOWN // 2, len(self._fitting) - _SHOWN))
        columns = get_app().output.get_size().columns
        lines: StyleAndTextTuples = []
        for place in range(first, min(first + _SHOWN, len(self._fitting))):
            chosen = place == self._place
            row = fitted(showable(self._rows[self._fitting[place]], sys.stdout), columns - 3)
            lines.append(("class:chosen" if chosen else "", f"{'> ' if chosen else '  '}{row}\n"))
        return lines

    def _hint(self) -> StyleAndTextTuples:
        columns = get_app().output.get_size().columns
        return [("", fitted(f"{len(self._fitting)} of {len(self._rows)}: {_HINT}", columns - 1))]

    def _move(self, by: int) -> None:
        self._place = max(0, min(self._place + by, len(self._fitting) - 1))

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        for names, by in ((("up", "c-p"), -1), (("down", "c-n"), 1), (("pageup",), -_SHOWN), (("pagedown",), _SHOWN)):
            for name in names:

                @keys.add(name)
                # A default, because a closure would see the last value of the loop.
                def _(event: KeyPressEvent, by: int = by) -> None:
                    self._move(by)

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            if self._fitting:
                event.app.exit(result=self._fitting[self._place])

        @keys.add("escape", eager=True)
        @keys.add("c-c")
        @keys.add("c-d")
        def _(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        return keys


def fitted(text: str, columns: int) -> str:
    """The text, cut with a mark where it does not fit into so many columns."""
    if get_cwidth(text) <= columns:
        return text
    while text and get_cwidth(text) > columns - 1:
        text = text[:-1]
    return text + showable("…", sys.stdout)[:1]
