"""The same answer as each flavour of raw completion would send it, and as DeepInfra's chat would."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from midstream import make_decoder
from midstream.core.dialect import Dialect
from midstream.core.tools import ToolSpec
from midstream.dialects.registry import REGISTRY
from midstream.sim.answer import Answer, Call
from midstream.sim.players import Player, make_players
from midstream.wires.stream_decoder import StreamDecoder

PLAYERS = make_players()
NATIVE = PLAYERS["deepinfra-kimi-k2.5-native"]
CHAT = PLAYERS["deepinfra-kimi-k2.5"]
LLAMACPP = PLAYERS["llamacpp-kimi-k2.5-native"]
OPENAI = PLAYERS["completions-kimi-k2.5"]
FLAVOURS = {player.target.dialect.completion: player for player in (NATIVE, OPENAI, LLAMACPP)}

TOOLS = (
    ToolSpec("read_file", "Read", {"type": "object", "properties": {"path": {"type": "string"}}}),
    ToolSpec("list_files", "List", {"type": "object", "properties": {"path": {"type": "string"}}}),
)

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<[◁"), max_size=60)
_WORDS = _TEXT.filter(lambda text: bool(text.strip()))
# What stands before a call may not quote it: a raw completion cannot tell the two apart.
_BEFORE_CALL = _WORDS.filter(lambda text: not set(text) & set("`~>\"'“”„‘‚«»‹「『"))
_CALL = st.builds(Call, st.sampled_from(["read_file", "list_files"]), st.fixed_dictionaries({"path": _TEXT}))


def answers() -> st.SearchStrategy[Answer]:
    """Answers that think, and say something or call."""
    said = st.builds(Answer, _WORDS, _WORDS, input_tokens=st.integers(1, 99), length_stop=st.booleans())
    called = st.builds(
        Answer, st.one_of(st.just(""), _BEFORE_CALL), _WORDS, st.lists(_CALL, min_size=1, max_size=3).map(tuple),
        input_tokens=st.integers(1, 99),
    )  # fmt: skip
    return st.one_of(said, called)


def decoder(player: Player | Dialect, tools: tuple[ToolSpec, ...] = TOOLS) -> StreamDecoder:
    dialect = player.target.dialect if isinstance(player, Player) else player
    model = player.target.model if isinstance(player, Player) else ""
    return make_decoder(dialect=dialect, turn_key="t", model=model, tools=tools)


def dialect(name: str) -> Dialect:
    return REGISTRY.dialect(name)


def sse(*chunks: Any) -> bytes:
    """Chunks as the bytes of an event stream; text stands for itself."""
    return "".join([f"data: {chunk if isinstance(chunk, str) else json.dumps(chunk)}\n\n" for chunk in chunks]).encode()


def token(text: str, **more: Any) -> dict[str, Any]:
    return {"token": {"id": None, "text": text, "logprob": 0, "special": False}, "generated_text": "", **more}


def last(text: str = "", finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    return {"token": {"text": ""}, "generated_text": text, "details": {"finish_reason": finish}, **more}
