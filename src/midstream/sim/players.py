"""Players: every dialect with a model that uses it and the double that answers for its host."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from ..codec import make_decoder
from ..core.blocks import Turn
from ..core.dialect import Dialect
from ..core.events import Done
from ..core.tools import ToolSpec
from ..dialects.provider import Provider
from ..dialects.registry import REGISTRY, Registry, Resolved
from ..wires.answer import UsagePlace
from ..wires.plain_tools import plain_name
from ..wires.stream_decoder import decode_chunks
from .answer import Answer, Call, Style
from .rules.hosts import Host, host_for
from .speech import speak

# Names that lead to dialects which no name of a provider's own list leads to. A new dialect without one fails in
# `make_players`, so that none is left out of the matrix unnoticed.
_SAMPLE_NAMES = (
    "moonshotai/Kimi-K3", "moonshotai/Kimi-K2.7-Code", "moonshotai/Kimi-K2.6", "moonshotai/Kimi-K2.5",
    "moonshotai/Kimi-K2-Thinking", "moonshotai/Kimi-K2-Instruct", "mistralai/Mistral-Small", "meta-llama/Llama-4",
    "claude-3-haiku-20240307", "claude-fable-5", "claude-mythos-5", "gemini-2.0-flash", "gemini-3-pro-preview", "gemini-2.5-flash", "grok-3-mini", "grok-4.3", "gpt-4.1", "o4-mini", "gpt-5.1",
    "qwen3-32b", "gemma-3-27b", "deepseek-v3.1", "hermes-4", "grok-3", "gpt-oss-120b", "gemini-3.1-pro-preview",
    "ft:acme",
)  # fmt: skip
# Habits of hosts, as the recordings show them (field-guide/hosts.md#kimi-host-by-host, field-guide/hosts.md#mistral).
_HOST_IDS = {"moonshot": "name:n", "moonshot-cn": "name:n", "kimi-coding": "name:n", "deepinfra": "bare"}
_WHOLE_CALLS = frozenset({"groq", "mistral"})  # hosts that send a call's arguments in one piece
_CALLS_TOGETHER = frozenset({"mistral"})  # hosts that send all calls of an answer in its last chunk
_THINKING_PARTS = frozenset({"mistral"})  # hosts whose chat has reasoning among the parts of the content
_USAGE: dict[str, UsagePlace] = {"mistral": "finish"}  # where a host counts tokens, if not in a chunk of its own
_THINKERS = (("mistral", re.compile("magistral")),)  # models that think by themselves on hosts that do not
_PRICED = frozenset({"deepinfra"})  # hosts whose raw completions say what they cost
_SCHEME_IDS = {"kimi": "functions", "kimi-k3": "name_n", "mistral": "nine", "anthropic": "toolu"}


class Player(msgspec.Struct, frozen=True):
    """One dialect, a model that uses it and its double."""

    target: Resolved
    host: Host

    @property
    def name(self) -> str:
        return self.target.dialect.name

    @property
    def thinks(self) -> bool:
        """Whether the model thinks unless it is told not to."""
        target = self.target
        return target.dialect.reasoning.default_on or any(
            target.dialect.provider == provider and names.search(target.model) for provider, names in _THINKERS
        )

    def style(self, *, number: int = 0, first_call: int = 0, ids: str | None = None) -> Style:
        dialect = self.target.dialect
        raw = dialect.wire == "completion"
        # K3 writes its own scheme on every host, and over a raw path nobody but the model writes ids.
        chosen = _HOST_IDS.get(dialect.provider) if dialect.ids != "kimi-k3" and not raw else None
        style = Style(
            self.target.model,
            reasoning_field=dialect.reasoning.field,
            ids=ids or chosen or _SCHEME_IDS.get(dialect.ids, "call"),
            first_call=first_call,
            signature=self.host.traits.signature_prefix,
            whole_calls=dialect.provider in _WHOLE_CALLS,
            calls_together=dialect.provider in _CALLS_TOGETHER,
            thinking_parts=dialect.provider in _THINKING_PARTS,
            usage=_USAGE.get(dialect.provider, "chunk"),
            counts_unasked=not dialect.stream_usage,
            response_id=f"sim-{number:06d}",
        )
        if not raw:
            return style
        return replace(
            style,
            completion=dialect.completion,
            text_format=dialect.leaks or "kimi",
            starts_inside=dialect.reasoning.starts_inside,
            prices=dialect.provider in _PRICED,
        )

    def answer(
        self,
        answer: Answer,
        *,
        key: str,
        number: int = 0,
        first_call: int = 0,
        ids: str | None = None,
        tools: Sequence[ToolSpec] = (),
    ) -> Turn:
        """The answer as a turn: streamed by the double, read by this dialect's decoder. Only `tools` say that a name stands for
        a freeform tool, or for one of a namespace."""
        style = self.style(number=number, first_call=first_call, ids=ids)
        decoder = make_decoder(dialect=self.target.dialect, turn_key=key, model=self.target.model, tools=tools)
        answer = replace(answer, calls=tuple([self._spelled(call) for call in answer.calls]))
        last = list(decode_chunks(decoder, speak(self.target.dialect.wire, answer, style)))[-1]
        if not isinstance(last, Done):
            raise AssertionError(f"the decoder of {self.name} could not read its own double: {last}")
        return last.turn

    def _spelled(self, call: Call) -> Call:
        """The call as this host's model makes it."""
        dialect = self.target.dialect
        name = plain_name(call.namespace, call.name, dialect)
        namespace = call.namespace if dialect.namespaces else ""
        return Call(name, call.arguments, call.kind if dialect.freeform else "function", namespace)


def make_players(registry: Registry = REGISTRY) -> dict[str, Player]:
    """A player for every dialect of the registry, by dialect name. Raises LookupError if no model name leads to a dialect."""
    players: dict[str, Player] = {}
    for provider in registry.providers.values():
        for _, dialect in provider.dialects:
            model = _model_for(provider, dialect)
            if model is None:
                raise LookupError(f"no model name leads to the dialect {dialect.name} of {provider.name}")
            # The chat and the raw path of a model are two dialects with two doubles.
            for path in (dialect, dialect.native):
                if path is not None:
                    target = Resolved(provider.name, model, path, provider.endpoint)
                    players[path.name] = Player(target, host_for(path))
    return players


def _model_for(provider: Provider, dialect: Dialect) -> str | None:
    for model in (*provider.models, *_SAMPLE_NAMES):
        found = provider.dialect_for(model)
        if found is not None and found.name == dialect.name:
            return model
    return None
