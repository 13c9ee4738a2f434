"""Requests that differ only in their texts, written without encoding the rest again.

A server of many conversations encodes each of them from the start, and nearly all of a short one is the same as in the last: the
model, the options, the system prompt, the field names around each text. A stencil is what surrounds the texts. It is learned from
the encoder, without knowledge of the wire: a conversation of the same speakers, with probes as its texts, is encoded and cut at the
probes. It is used only if it also gives, byte for byte, the request that the encoder made of the real texts. A conversation that
holds more than texts is encoded as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from ..core.blocks import Conversation, Text, Turn
from ..core.dialect import Dialect, Options
from ..core.tools import ToolSpec
from .lenient_json import encode_json
from .registry import get_wire
from .request import Request

Encode: TypeAlias = Callable[[Conversation], Request]

_MOST_TURNS = 16
_LARGE = 16 * 1024
"""A larger frame is not kept: encoding is then only a small part of the cost."""
_KEPT = 256


class _Frame(msgspec.Struct, frozen=True):
    """What surrounds the texts of a request, and the request without its body."""

    dialect: Dialect  # kept alive, so that no other can have its id
    segments: list[bytes]
    request: Request

    def filled(self, texts: Sequence[bytes]) -> Request:
        parts = self.segments.copy()
        for place, text in enumerate(texts):
            parts[2 * place + 1] = text
        return replace(self.request, body=b"".join(parts))


class RequestStencils:
    """The frames of the last requests, by all that they depend on."""

    def __init__(self) -> None:
        self._frames: dict[tuple[object, ...], _Frame | None] = {}

    def encode(
        self,
        dialect: Dialect,
        model: str,
        conversation: Conversation,
        tools: Sequence[ToolSpec],
        options: Options,
        encode: Encode,
    ) -> Request:
        """What `encode` gives for the conversation."""
        texts = None if tools else _texts(conversation)
        if texts is None:
            return encode(conversation)
        place = (id(dialect), model, conversation.system, options, *[turn.speaker for turn in conversation.turns])
        try:
            written = [encode_json(text) for text in texts]
            known = self._frames.get(place)
        except (UnicodeEncodeError, TypeError):  # half a character; options with objects in them
            return encode(conversation)
        if known is not None:
            return known.filled(written)
        request = encode(conversation)
        if place not in self._frames:
            if len(self._frames) >= _KEPT:
                self._frames.clear()
            self._frames[place] = _learned(dialect, conversation, request, written, encode)
        return request


def _texts(conversation: Conversation) -> list[str] | None:
    """The texts of a conversation that holds nothing else and ends with the user's; None for any other."""
    turns = conversation.turns
    if not turns or len(turns) > _MOST_TURNS or turns[-1].speaker != "human" or type(conversation.system) is not str:
        return None
    texts: list[str] = []
    for turn in turns:
        only = turn.blocks[0] if len(turn.blocks) == 1 else None
        if type(only) is not Text or only.extra is not None or turn.speaker not in ("human", "ai"):
            return None
        if turn.role or turn.failure or turn.extra is not None or turn.compacted is not None:
            return None
        # Blank texts are left out or replaced on many wires, with a note.
        if not only.text or only.text.isspace():
            return None
        texts.append(only.text)
    return texts


def _learned(
    dialect: Dialect, conversation: Conversation, request: Request, written: list[bytes], encode: Encode
) -> _Frame | None:
    """The frame of this request; None, which is remembered too, where there is none."""
    # A raw prompt is no place for texts as they are: they may hold what its template means something by.
    if not getattr(get_wire(request.wire).room("encode"), "TEXTS_AS_THEY_ARE", False) or len(request.body) > _LARGE:
        return None
    if any(note.turn is not None for note in request.notes):
        return None
    probes = [f"stencil probe {place}." for place in range(len(written))]
    turns = tuple([Turn(turn.speaker, (Text(probe),), key=turn.key, origin=turn.origin)
                   for turn, probe in zip(conversation.turns, probes, strict=True)])  # fmt: skip
    probed = encode(replace(conversation, turns=turns))
    segments: list[bytes] = []
    rest = probed.body
    for probe in probes:
        before, found, rest = rest.partition(encode_json(probe))
        if not found:
            return None
        segments += (before, b"")
    frame = _Frame(dialect, [*segments, rest], replace(probed, body=b""))
    return frame if frame.filled(written) == request else None
