"""A wire as a value: its name and the dialect of a host that follows it to the letter.

What a wire can do is in its rooms, modules of its package that are loaded on first use (here and nowhere else), so that a
program that talks to one host pays for one wire:

- `encode.encode_request(draft) -> Request`
- `decode.make_decoder(context) -> StreamDecoder`
- `parse.parse_request(body, *, provider="", identity=None) -> ParsedRequest`
- `answer.make_writer(context) -> AnswerWriter`
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType

import msgspec

from ..core.dialect import Dialect
from ..core.errors import LocalError


class Wire(msgspec.Struct, frozen=True):
    """One protocol. `default` is the dialect that every other one of this wire is made from, with fields replaced."""

    package: str
    default: Dialect
    names_in_path: bool = False
    """Whether a request names its model, and whether it streams, in its path; the `parse` room then takes both."""
    json_mode: bool = True
    """Whether it can ask for JSON without a schema."""

    @property
    def name(self) -> str:
        return self.default.wire

    def room(self, name: str) -> ModuleType:
        try:
            return _load(self.package, name)
        # A room may be missing (a raw completion has no `parse`). Any other module
        # that is missing is a broken installation, and must not look like that.
        except ModuleNotFoundError as error:
            if error.name != f"{self.package}.{name}":
                raise
            raise LocalError(f"the wire {self.name!r} has no {name!r}") from None


@cache
def _load(package: str, room: str) -> ModuleType:
    return import_module(f".{room}", package)
