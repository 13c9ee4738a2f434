"""A dialect: how one model on one host speaks its wire. A frozen value; a provider is a dialect and an endpoint.

Every difference between hosts that speak the same wire is a field here, and the wire modules read fields, never names.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import force_setattr

from .blocks import Value
from .errors import ConfigError
from .ids import ToolFormat

ThinkingMode: TypeAlias = Literal["on", "off"]
MissingReasoning: TypeAlias = Literal["placeholder", "disable-thinking", "fail"]
TextCalls: TypeAlias = Literal["execute", "reask", "show"]
ForeignThinking: TypeAlias = Literal["drop", "text", "keep"]
HostPath: TypeAlias = Literal["auto", "native", "chat"]

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""How hard to think, least first."""


class Reasoning(Value, frozen=True):
    """How reasoning is carried, echoed and asked for."""

    fields: tuple[str, ...] = ("reasoning_content", "reasoning", "reasoning_text")
    """Where an answer may carry it; the first non-empty one counts, so that a host that sends two is not doubled."""
    echo: Literal["never", "calls", "always"] = "never"
    """On which of its own assistant messages the host wants its reasoning back."""
    field: str = "reasoning_content"
    """The key to echo under when the block does not remember its own."""
    fixed_field: bool = False
    """Echo under `field` even when the block arrived under another key (vLLM reads only `reasoning`)."""
    required: bool = False
    """An assistant tool-call message without the field is refused while thinking is on."""
    placeholder: str = " "
    """What stands in where the field is required and there is no reasoning."""
    signed: bool = False
    """Reasoning is bound to the model that made it by a signature or encryption."""
    unsigned: Literal["drop", "blank"] = "drop"
    """The host's own thinking without a signature, where the wire has a place for one: left out, or sent with a blank one."""
    tags: tuple[str, str] | None = None
    """The host leaves reasoning in the text between these tags."""
    starts_inside: bool = False
    """With `tags`: the answer begins inside thinking, with no opening tag."""
    details: bool = False
    """The host also sends (and wants back) structured `reasoning_details`."""
    default_on: bool = False
    """The model thinks unless told not to."""
    can_disable: bool = True
    control: str = "none"
    """How thinking is asked for: a name in the wire's table of controls."""
    efforts: tuple[str, ...] = ()
    """The effort levels it takes; others are mapped to the nearest."""
    wires: tuple[str, ...] = ()
    """Other wires of the same host: plain reasoning made over them is the model's own here too."""


class Limits(Value, frozen=True):
    max_tools: int | None = None
    tool_name_pattern: str = r"[A-Za-z0-9_-]{1,64}"
    tool_name_max: int = 64
    max_output: int | None = None
    context: int | None = None


class Dialect(Value, frozen=True):
    """One way of speaking a wire."""

    name: str
    wire: str
    provider: str = ""
    ids: str = "standard"
    tool_format: ToolFormat = "openai"
    reasoning: Reasoning = Reasoning()
    limits: Limits = Limits()
    schema: str = "plain"
    """The schema pass for tool parameters: a name in core.schemas.PASSES."""
    system_role: str = "system"
    max_tokens_field: str = "max_tokens"
    default_max_tokens: int | None = None
    stream_usage: bool = True
    """Ask for usage in the stream (`stream_options.include_usage`)."""
    sends_finish: bool = True
    """False only for hosts that never say a finish reason: then [DONE] or EOF is a normal end."""
    blank_content: Literal["keep", "null", "omit"] = "null"
    """What stands for an assistant's empty content beside tool calls."""
    tool_result_name: bool = False
    """Tool messages carry the tool's name."""
    tool_result_media: Literal["inline", "user", "none"] = "user"
    """Images in a tool result: in the tool message, in a user message behind the results, or not at all."""
    media: tuple[str, ...] = ("image",)
    """Kinds of media the model reads."""
    forced_choice: tuple[str, ...] = ("required", "named")
    """The forced tool choices it takes."""
    forced_choice_thinking: tuple[str, ...] = ("required", "named")
    """The forced tool choices it takes while thinking."""
    sampling: tuple[str, ...] = ("temperature", "top_p", "stop", "seed", "presence_penalty", "frequency_penalty")
    """The sampling options it takes; others are dropped with a note."""
    exclusive_sampling: bool = False
    """`temperature` and `top_p` may not both be given."""
    merge_turns: bool = False
    """Consecutive messages of one role are refused and must be merged."""
    mid_system: bool = True
    """System messages may stand inside the conversation."""
    first_speaker_user: bool = False
    """The first message must be the user's."""
    parallel_option: bool = True
    """`parallel_tool_calls` is understood."""
    strict_tools: bool = False
    """`strict` on a tool is understood."""
    leaks: str | None = None
    """The text tool format this host is known to leak into text (on a completion wire: the one its model writes); a filter
    reads it back out."""
    arguments_object: bool = False
    """Tool-call arguments travel as a JSON object, not as text."""
    prefill_flag: str = ""
    """The key that marks a last assistant message as the beginning of the answer (`partial`, `prefix`)."""
    builtin_prefix: str = ""
    """Tools whose names begin so are the host's own and are named without a schema."""
    builtin_stops_thinking: bool = False
    """Built-in tools are refused while thinking is on."""
    required_word: str = "required"
    """How `tool_choice` says that some tool must be called."""
    seed_field: str = "seed"
    extra_body: dict[str, Any] | None = None
    headers: dict[str, str] | None = None
    path: str = ""
    """Where requests go, below the endpoint's base; empty for the wire's own path. `{model}` stands for the model."""
    template: str | None = None
    """The chat template for a completion wire."""
    completion: Literal["deepinfra", "openai", "llamacpp"] = "openai"
    """Which form of raw completion the host speaks."""
    stop: tuple[str, ...] = ()
    """On a completion wire: the texts that end an answer, which are no part of it."""
    native: Dialect | None = None
    """The host's other path to the same model, taken when a request needs nothing that only this one has."""


class Options(Value, frozen=True):
    """What the caller asks of one request; None leaves it to the model. A word that no model knows is refused here, where
    it was said: further on it would be bent to the nearest known one, or sent."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    thinking: ThinkingMode | None = None
    """`on` or `off`; True and False are read so."""
    effort: str | None = None
    thinking_budget: int | None = None
    tool_choice: str | None = None
    """`auto`, `none`, `required`, or the name of a tool."""
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    stream: bool = True
    missing_reasoning: MissingReasoning = "placeholder"
    foreign_thinking: ForeignThinking = "drop"
    tool_format: str | None = None
    cache: bool = False
    """Mark cache breakpoints where the wire has them."""
    prefill: str | None = None
    """Let the answer begin with this (partial mode), where the wire can."""
    text_calls: TextCalls = "execute"
    """What a call that a host leaked as text may do: run if the tool is declared, or only be reported."""
    user: str | None = None
    previous_response_id: str | None = None
    path: HostPath | None = None
    """Which of a host's paths to take: `auto`, `native` or `chat`."""
    extra_body: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        thinking: object = self.thinking
        if isinstance(thinking, bool):
            force_setattr(self, "thinking", "on" if thinking else "off")
        for name, known in _WORDS.items():
            said = getattr(self, name)
            if said not in known:
                words = ", ".join(str(word) for word in known)
                raise ConfigError(f"{name}={said!r} says nothing to a model: choose one of {words}")


_WORDS = {
    "thinking": (*get_args(ThinkingMode), None),
    "effort": (*EFFORTS, None),
    "missing_reasoning": get_args(MissingReasoning),
    "foreign_thinking": get_args(ForeignThinking),
    "text_calls": get_args(TextCalls),
    "path": (*get_args(HostPath), None),
}


class Endpoint(Value, frozen=True):
    """Where a provider is reached, and how it wants its key. No key is ever stored here."""

    base_url: str
    key_env: tuple[str, ...] = ()
    base_env: tuple[str, ...] = ()
    auth: Literal["bearer", "x-api-key", "x-goog-api-key", "none"] = "bearer"
    headers: dict[str, str] | None = None
    bearer_env: tuple[str, ...] = ()
    """Variables whose key goes as a bearer token whatever `auth` says."""
    base_tails: tuple[str, ...] = ()
    """What the addresses people know end with, where our base is shorter because the host has more than one path."""

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return without_header_values(self)

    def __repr__(self) -> str:
        return f"Endpoint({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


def without_header_values(value: msgspec.Struct) -> list[tuple[str, Any]]:
    """The fields of a value for its repr. A configured header may be a secret: only its name is shown."""
    fields = msgspec.structs.asdict(value)
    headers = fields.get("headers")
    return list({**fields, "headers": headers and dict.fromkeys(headers, "***")}.items())
