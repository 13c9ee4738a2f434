"""A dialect: how one kind of model on one host speaks its wire. A frozen value; a provider is an endpoint and its dialects.

Every difference between hosts that speak the same wire is a field here, and the wire modules read fields, never names.
A field that takes a word takes only the words listed here: anything else raises ConfigError when the value is made, not
when a request is encoded. The tables that give the words their meaning live further out (wires, toolformats, templates);
tests hold them to these lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from math import inf
from operator import attrgetter
from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import force_setattr

from .blocks import Value
from .errors import ConfigError
from .ids import IdScheme, ToolFormat, chosen_tool_format
from .patterns import late_pattern
from .secret import name_key_header

# The words of each field, in one place and closed. A word that nobody gives a meaning to would otherwise be met by a
# user, as a request that silently lacks something.
ThinkingMode: TypeAlias = Literal["on", "off"]
MissingReasoning: TypeAlias = Literal["placeholder", "disable-thinking", "fail"]
TextCalls: TypeAlias = Literal["execute", "reask", "show"]
ForeignThinking: TypeAlias = Literal["drop", "text", "keep"]
HostPath: TypeAlias = Literal["auto", "native", "chat"]

# In order, because the nearest level is looked for by its place here. Which
# levels a model takes is its dialect's (field-guide/reasoning.md#efforts).
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""How hard to think, least first."""

# Vendors switch thinking in ways that exclude each other: the words of two of them in one request are a 400
# (field-guide/kimi.md#switching-thinking). So a dialect has exactly one control, and each wire knows only its own.
WIRES: dict[str, tuple[str, ...]] = {
    "openai-chat": (
        "none", "reasoning_effort", "thinking.type", "thinking.type+effort", "enable_thinking", "chat_template_kwargs",
        "reasoning",
    ),
    "openai-responses": ("none", "reasoning"),
    "anthropic": ("none", "budget", "adaptive", "either"),
    "gemini": ("none", "thinkingBudget", "thinkingLevel"),
    "ollama": ("none", "think"),
    "cohere": ("none", "token_budget"),
    "completion": ("none",),
}  # fmt: skip
"""Every wire, with its reasoning controls: the ways it has of asking for thinking."""

# Five names of one switch (field-guide/reasoning.md#keeping-it-all). `always` is no switch: such a model keeps
# everything, and so everything is sent back to it.
KEEPS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(WIRES, ("", "always")),
    "openai-chat": (
        "", "always", "thinking.keep", "thinking.clear_thinking", "preserve_thinking", "chat_template_kwargs",
        "reasoning_history",
    ),
    "completion": ("", "always", "template"),
}  # fmt: skip
"""Every wire, with the ways it has of asking that the reasoning of all turns be kept, not only that of the current tool loop."""

SchemaPass: TypeAlias = Literal["plain", "openai", "anthropic", "moonshot", "gemini"]
AnswerPass: TypeAlias = Literal["object", "openai", "closed", "gemini", "cohere", "grammar"]
AnswerWay: TypeAlias = Literal["schema", "grammar", "json", "tool"]
TextFormat: TypeAlias = Literal[
    "kimi", "kimi-k3", "hermes", "qwen", "qwen3-coder", "glm", "xml", "llama", "gemma", "deepseek", "mistral"
]
TemplateName: TypeAlias = Literal[
    "kimi-k2-0711", "kimi-k2", "kimi-k2-thinking", "kimi-k2.5", "kimi-k2.6", "kimi-k2.7-code", "kimi-k3", "chatml",
    "qwen", "llama3", "gemma", "mistral", "deepseek",
]  # fmt: skip
CompletionApi: TypeAlias = Literal["deepinfra", "openai", "llamacpp"]
MediaKind: TypeAlias = Literal["image", "audio", "video", "file"]
ForcedChoice: TypeAlias = Literal["required", "named"]
SamplingOption: TypeAlias = Literal[
    "temperature", "top_p", "stop", "seed", "presence_penalty", "frequency_penalty", "response_format"
]


class _FieldChecks:
    """Checks the fields of a struct that take `one` of some listed words, or `many`; `also` names the other fields that the check
    `more` of a struct looks at.

    What passed is remembered: a dialect is copied for each of many models, and for some requests, with these fields unchanged.
    """

    def __init__(
        self,
        one: Mapping[str, Collection[object]],
        many: Mapping[str, Collection[object]],
        also: tuple[str, ...] = (),
    ) -> None:
        self._one = one
        self._many = many
        self._values: Callable[[object], tuple[object, ...]] = attrgetter(*one, *many, *also)
        self._passed: set[tuple[object, ...]] = set()

    def check(self, struct: Any, more: Callable[[Any], None] | None = None) -> None:
        values = self._values(struct)
        try:
            if values in self._passed:
                return
        except TypeError:  # something unhashable, so wrong; the loops say what
            pass
        for name, known in self._one.items():
            _check_word(name, getattr(struct, name), known)
        for name, known in self._many.items():
            said = getattr(struct, name)
            if not isinstance(said, tuple):
                raise ConfigError(f"invalid {name} {said!r}; expected a tuple of {_listed(known)}")
            for word in said:
                _check_word(name, word, known)
        if more is not None:
            more(struct)
        # A program that makes dialects of a user's data must not fill memory with them.
        if len(self._passed) < 1024:
            self._passed.add(values)


def _check_word(name: str, said: object, known: Collection[object]) -> None:
    if said not in known:
        raise ConfigError(f"invalid {name} {said!r}; expected one of {_listed(known)}")


def _listed(words: Collection[object]) -> str:
    return ", ".join(str(word) or "''" for word in words)


class Reasoning(Value, frozen=True):
    """How reasoning is carried, echoed and asked for."""

    # In this order: a host that moved from one name to another sends both for a while.
    fields: tuple[str, ...] = ("reasoning_content", "reasoning", "reasoning_text")
    """Where an answer may carry it; the first non-empty one counts, so that a host that sends two is not doubled."""
    # `calls`: Moonshot and DeepSeek check messages with tool calls; `always`: Kimi K3 wants all
    # (field-guide/reasoning.md#who-wants-it-back).
    echo: Literal["never", "calls", "always"] = "never"
    """On which of its own assistant messages the host wants its reasoning back, while it thinks (`default_on`, or because it was asked to)."""
    field: str = "reasoning_content"
    """The key to echo under when the block does not remember its own."""
    fixed_field: bool = False
    """Echo under `field` even when the block arrived under another key (vLLM reads only `reasoning`)."""
    required: bool = False
    """An assistant tool-call message without the field is refused while thinking is on."""
    required_kept: bool = False
    """While the host keeps all reasoning (`keep`), so is an assistant message without calls."""
    # A space, since reports about the empty string conflict (field-guide/kimi.md#reasoning).
    placeholder: str = " "
    """Sent where the field is required and there is no reasoning."""
    signed: bool = False
    """Reasoning is bound to the model that made it by a signature or encryption."""
    unsigned: Literal["drop", "blank"] = "drop"
    """The host's own thinking without a signature, where the wire has a place for one: left out, or sent with a blank one."""
    tags: tuple[str, str] | None = None
    """The host leaves reasoning in the text between these tags."""
    # A template that ends with the opening tag leaves only the closing
    # one to the model (field-guide/text-calls.md#thinking-tags).
    starts_inside: bool = False
    """With `tags`: the answer begins inside thinking, with no opening tag."""
    details: bool = False
    """The host also sends (and wants back) structured `reasoning_details`."""
    default_on: bool = False
    """The model thinks unless told not to."""
    can_disable: bool = True
    """Thinking can be turned off."""
    control: str = "none"
    """How thinking is asked for: one of the controls of the dialect's wire (`WIRES`)."""
    efforts: tuple[str, ...] = ()
    """The effort levels it takes; others are sent as the nearest, with a note. Empty: as they were asked for."""
    effort_words: dict[str, str] | None = None
    """Levels that it does not take and that are sent as another than the nearest."""
    keep: str = ""
    """How the host is asked to keep the reasoning of all turns: one of the words of the dialect's wire (`KEEPS`). `always`: it
    does so by itself. Empty: it cannot be asked. While it is asked to, all of the model's own reasoning is echoed."""
    keeps: bool = False
    """Whether it is asked to, unless the caller says otherwise (`Options.keep_thinking`)."""
    # A host may serve one model over two wires. Reasoning in clear may cross between them; signatures may not.
    wires: tuple[str, ...] = ()
    """Other wires of the same host: plain reasoning made over them is the model's own here too."""

    def __post_init__(self) -> None:
        _REASONING.check(self)
        # Not in the table of checks: what may be sent depends on `efforts`.
        for asked, sent in (self.effort_words or {}).items():
            _check_word("effort_words", asked, EFFORTS)
            _check_word("effort_words", sent, self.efforts)


_REASONING = _FieldChecks(
    {
        "echo": ("never", "calls", "always"),
        "unsigned": ("drop", "blank"),
        "control": tuple(dict.fromkeys(control for controls in WIRES.values() for control in controls)),
        "keep": tuple(dict.fromkeys(word for words in KEEPS.values() for word in words)),
    },
    {"efforts": EFFORTS, "wires": tuple(WIRES)},
)


class Limits(Value, frozen=True):
    max_tools: int | None = None
    """How many tools a request may declare."""
    # OpenAI's rule, which most hosts share (field-guide/openai-chat.md#tools).
    tool_name_pattern: str = r"[A-Za-z0-9_-]{1,64}"
    """The regular expression that a tool's whole name must match; other names are rewritten."""
    tool_name_max: int = 64
    """How many characters a tool's name may have."""
    max_output: int | None = None
    """How many tokens an answer may have."""
    context: int | None = None
    """The window, in tokens."""

    def __post_init__(self) -> None:
        try:
            re.compile(self.tool_name_pattern)
        except (re.error, TypeError) as error:
            raise ConfigError(f"invalid tool_name_pattern {self.tool_name_pattern!r}: {error}") from None


class Dialect(Value, frozen=True):
    """One way of speaking a wire."""

    name: str
    wire: str
    # A name to show and to compare origins by. Nothing decides by it: all that differs between hosts is in the fields
    # below, and each default is what a plain host of the wire does.
    provider: str = ""
    # The scheme belongs to the model and its host together: Kimi's weights want their own ids on most hosts and take
    # any on Moonshot's (field-guide/kimi.md#ids).
    ids: IdScheme = "standard"
    """The shape of tool-call ids that it takes."""
    tool_format: ToolFormat = "openai"
    """How its models are used to tools being declared and called."""
    reasoning: Reasoning = Reasoning()
    """How it carries reasoning."""
    limits: Limits = Limits()
    """How much it takes."""
    schema: SchemaPass = "plain"
    """Whose rules the schemas of tool parameters are made to fit (core.schemas.PASSES)."""
    answer_ways: tuple[AnswerWay, ...] = ("schema", "tool")
    """How an answer is held to a JSON schema, best first: by the host's mode for `schema`s; by its `grammar`, which binds the
    model without telling it; by its mode for any `json`, the schema told in words; by a `tool` that must be called. Where none
    of these fits the request, in words alone."""
    answer_pass: AnswerPass = "object"
    """The schema pass for that mode (core.answer_schemas.PASSES)."""
    answer_beside_tools: bool = True
    """That mode is taken beside tools."""
    system_role: Literal["system", "developer", "instructions"] = "system"
    """The role of the system prompt, or the field that holds it."""
    # OpenAI renamed it, many hosts did not (field-guide/hosts.md#small-switches-of-chat-hosts).
    max_tokens_field: str = "max_tokens"
    """The field that limits an answer's length."""
    default_max_tokens: int | None = None
    """The limit that is sent if the caller gives none."""
    stream_usage: bool = True
    """Ask for usage in the stream (`stream_options.include_usage`)."""
    # Without a finish reason a stream was cut (field-guide/streams.md#endings),
    # so a host has to be known to never send one.
    sends_finish: bool = True
    """False only for hosts that never say a finish reason: then [DONE] or EOF is a normal end."""
    # Some hosts refuse an empty text beside calls
    # (field-guide/openai-chat.md#content-beside-calls), so it can be sent as null or left out.
    blank_content: Literal["keep", "null", "omit"] = "null"
    """Sent as an assistant's empty content beside tool calls."""
    tool_result_name: bool = False
    """Tool messages carry the tool's name."""
    # A tool message of the chat wire holds text only, so most hosts see a result's
    # image in the user message behind it (field-guide/openai-chat.md#images).
    tool_result_media: Literal["inline", "user", "none"] = "user"
    """Images in a tool result: in the tool message, in a user message behind the results, or not at all."""
    media: tuple[MediaKind, ...] = ("image",)
    """Kinds of media the model reads."""
    # What all of the large hosts read (field-guide/openai-chat.md#images).
    image_types: tuple[str, ...] = ("image/jpeg", "image/png", "image/gif", "image/webp")
    """The types of images it reads; any other is refused, and every later request with it."""
    file_ids: str | None = None
    """How the ids of the files that are kept at this host begin (a pattern); another host's id is not found here. None: not
    known."""
    forced_choice: tuple[ForcedChoice, ...] = ("required", "named")
    """The forced tool choices it takes."""
    # Kimi and Claude refuse a forced choice while they think (field-guide/kimi.md#tool-choice).
    forced_choice_thinking: tuple[ForcedChoice, ...] = ("required", "named")
    """The forced tool choices it takes while thinking."""
    sampling: tuple[SamplingOption, ...] = (
        "temperature",
        "top_p",
        "stop",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "response_format",
    )
    """The sampling options it takes; others are dropped with a note."""
    sampling_thinking: tuple[SamplingOption, ...] | None = None
    """Those it takes while thinking; None for the same."""
    exclusive_sampling: bool = False
    """`temperature` and `top_p` may not both be given."""
    merge_turns: bool = False
    """Consecutive messages of one role are refused and must be merged."""
    mid_system: bool = False
    """System messages may stand inside the conversation, and count from there on. Off unless it is known: strict chat
    templates refuse them, others move them to the front."""
    developer_role: bool = False
    """A system message may be called `developer`."""
    mid_tools: bool = False
    """Such a message may declare tools."""
    freeform: bool = False
    """Freeform tools and their grammars are understood."""
    namespaces: bool = False
    """Namespaces of tools are understood."""
    first_speaker_user: bool = False
    """The first message must be the user's."""
    parallel_option: bool = True
    """`parallel_tool_calls` is understood."""
    strict_tools: bool = False
    """`strict` on a tool is understood."""
    native_tools: bool = True
    """The host takes declared tools. Without it, tools go over plain text unless a native format is chosen by hand."""
    leaks: TextFormat | None = None
    """The text tool format this host is known to leak into text (on a completion wire: the one its model writes); a filter
    reads it back out."""
    arguments_object: bool = False
    """Tool-call arguments travel as a JSON object, not as text."""
    prefill_flag: str = ""
    """The key that marks a last assistant message as the beginning of the answer (`partial`, `prefix`)."""
    marks_last_answer: bool = False
    """A conversation that ends with an answer is refused unless that answer has the `prefill_flag`."""
    builtin_prefix: str = ""
    """Tools whose names begin so are the host's own and are named without a schema."""
    builtin_stops_thinking: bool = False
    """Built-in tools are refused while thinking is on."""
    required_word: str = "required"
    """How `tool_choice` says that some tool must be called."""
    seed_field: str = "seed"
    """The field that holds the seed."""
    user_field: str = "user"
    """Where the caller's id for the end user goes; empty where the host takes none."""
    extra_body: dict[str, Any] | None = None
    """Fields that go into the body of every request."""
    # A list of what is allowed, not of what is forbidden: the next client's new field must not become a 400.
    extras: tuple[str, ...] = ()
    """Fields of its wire that it takes and that we have no option for. A stranger's request keeps them on its way here, and
    loses all others: many hosts refuse what they do not know."""
    server_tools: dict[str, dict[str, Any]] | None = None
    """The tools that the host runs itself: what kind of tool (`web_search`, `code_execution`), and how it is asked for."""
    server_tools_alone: bool = False
    """Those are refused beside tools that the client runs."""
    headers: dict[str, str] | None = None
    """Headers that go with every request."""
    path: str = ""
    """Where requests go, below the endpoint's base; empty for the wire's own path. `{model}` is replaced by the model."""
    template: TemplateName | None = None
    """The chat template for a completion wire."""
    completion: CompletionApi = "openai"
    """Which form of raw completion the host speaks."""
    stop: tuple[str, ...] = ()
    """On a completion wire: the texts that end an answer and are not part of it."""
    native: Dialect | None = None
    """The host's other path to the same model, taken when a request needs nothing that only this one has."""

    def __post_init__(self) -> None:
        try:
            _DIALECT.check(self, _check_control_and_path)
        except ConfigError as error:
            raise ConfigError(f"dialect {self.name!r}: {error}") from None


def _check_control_and_path(dialect: Dialect) -> None:
    # Both words are valid somewhere, or the struct itself would not exist; here they must be valid on this wire.
    _check_word(f"reasoning.control for {dialect.wire}", dialect.reasoning.control, WIRES[dialect.wire])
    _check_word(f"reasoning.keep for {dialect.wire}", dialect.reasoning.keep, KEEPS[dialect.wire])
    # Compiled only where there is one: a start that knows no file ids loads less.
    if dialect.file_ids is not None:
        try:
            re.compile(dialect.file_ids)
        except re.error as error:
            raise ConfigError(f"invalid file_ids {dialect.file_ids!r}: {error}") from None
    for word in dialect.sampling_thinking or ():
        _check_word("sampling_thinking", word, get_args(SamplingOption))
    if dialect.path and not _PATH.fullmatch(dialect.path):
        raise ConfigError(f"invalid path {dialect.path!r}; expected /… with no other placeholder than {{model}}")


# The model is put into the path at the end, so a brace that means anything else
# is a mistake. A query belongs to the endpoint, which writes it for every path.
_PATH = late_pattern(r"/(?:[^{}\s?#]|\{model\})*")
_DIALECT = _FieldChecks(
    {
        "wire": WIRES,
        "ids": get_args(IdScheme),
        "tool_format": get_args(ToolFormat),
        "schema": get_args(SchemaPass),
        "answer_pass": get_args(AnswerPass),
        "system_role": ("system", "developer", "instructions"),
        "blank_content": ("keep", "null", "omit"),
        "tool_result_media": ("inline", "user", "none"),
        "leaks": (*get_args(TextFormat), None),
        "template": (*get_args(TemplateName), None),
        "completion": get_args(CompletionApi),
    },
    {
        "answer_ways": get_args(AnswerWay),
        "media": get_args(MediaKind),
        "forced_choice": get_args(ForcedChoice),
        "forced_choice_thinking": get_args(ForcedChoice),
        "sampling": get_args(SamplingOption),
    },
    # Everything that `_check_control_and_path` looks at is part of what
    # is remembered: two dialects that differ in it are checked apart.
    ("reasoning.control", "reasoning.keep", "sampling_thinking", "path", "file_ids"),
)


class Options(Value, frozen=True):
    """What the caller asks of one request; None leaves it to the model. A word that no model knows is refused here, where
    it was said: further on it would be bent to the nearest known one, or sent."""

    max_tokens: int | None = None
    """How many tokens the answer may have."""
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    """Texts at which the answer ends."""
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    thinking: ThinkingMode | None = None
    """`on` or `off`; True and False are read so."""
    effort: str | None = None
    """How hard the model thinks: `minimal`, `low`, `medium`, `high`, `xhigh` or `max`; the nearest that it takes is sent."""
    thinking_budget: int | None = None
    """How many tokens it may think."""
    keep_thinking: bool | None = None
    """Whether the host is to keep the model's reasoning of all turns, not only of the current tool loop; None leaves it to the
    dialect."""
    tool_choice: str | None = None
    """`auto`, `none`, `required`, or the name of a tool."""
    parallel_tool_calls: bool | None = None
    """Whether it may call several tools at once."""
    response_format: dict[str, Any] | None = None
    """In the words of OpenAI's chat, and sent as they are where the host takes them."""
    schema: dict[str, Any] | None = None
    """A JSON schema for the answer's text, which the host is held to in the best way that it has; instead of
    `response_format`. Whether the answer follows it is for the caller to check: `Session.send(schema=…)` does."""
    stream: bool = True
    """False asks for the answer in one piece."""
    missing_reasoning: MissingReasoning = "placeholder"
    """For a host that requires reasoning the history does not have: send a `placeholder`, `disable-thinking` for this request,
    or `fail` with MissingReasoning before anything is sent."""
    foreign_thinking: ForeignThinking = "drop"
    """Another model's reasoning: `drop` it, send it as plain `text`, or `keep` it as reasoning where the wire has a place."""
    tool_format: str | None = None
    """How tools are declared and called, such as `hermes`; None and `auto` leave it to the host. `qwen` is kept as `qwen-json`."""
    cache: bool = False
    """Mark cache breakpoints where the wire has them."""
    prefill: str | None = None
    """Let the answer begin with this (partial mode), where the wire can."""
    text_calls: TextCalls = "execute"
    """A call that a host leaked as text: `execute` runs it if its tool is declared; `reask` and `show` never run it but report
    it, for the caller to ask the model for a real call, or for a person to look at."""
    user: str | None = None
    previous_response_id: str | None = None
    """A stored response to continue, on OpenAI's Responses wire, where it fits the history."""
    path: HostPath | None = None
    """Which of a host's paths to take: `auto`, `native` or `chat`."""
    betas: tuple[str, ...] = ()
    """Features of the host that are turned on by name, where it has such names; elsewhere they mean nothing."""
    extra_body: dict[str, Any] | None = None
    """Fields that are put into the body as they are."""
    relay_to: str = ""
    """For a gateway: the wire of the client that this answer goes on to. The client judges it then: an answer that came whole is
    not an error because it has neither text nor a call, or because it ends with a word that clients of this wire know."""
    first_byte: float | None = None
    """How many seconds to wait for the first data of an answer, connecting included; then the next model of a chain is asked.
    None: as the client's `TransportOptions` say, like the next two."""
    idle: float | None = None
    """How many seconds a begun answer may bring no data."""
    total: float | None = None
    """How many seconds one model has from the request to the last byte, retries included."""

    def __post_init__(self) -> None:
        thinking: object = self.thinking
        # Callers of other libraries write True; a bool on the wire is
        # refused by some hosts (field-guide/kimi.md#switching-thinking).
        if isinstance(thinking, bool):
            force_setattr(self, "thinking", "on" if thinking else "off")
        if self.tool_format is not None:
            force_setattr(self, "tool_format", chosen_tool_format(self.tool_format))
        if self.first_byte is not None or self.idle is not None or self.total is not None:
            _check_seconds(self)
        _OPTIONS.check(self)


def _check_seconds(options: Options) -> None:
    for name in ("first_byte", "idle", "total"):
        seconds = getattr(options, name)
        if seconds is not None and not 0 < seconds < inf:
            raise ConfigError(f"invalid {name} {seconds!r}; expected seconds, more than 0")


_OPTIONS = _FieldChecks(
    {
        "thinking": (*get_args(ThinkingMode), None),
        "effort": (*EFFORTS, None),
        "missing_reasoning": get_args(MissingReasoning),
        "foreign_thinking": get_args(ForeignThinking),
        "text_calls": get_args(TextCalls),
        "relay_to": ("", *WIRES),
        "path": (*get_args(HostPath), None),
    },
    {},
)


class Place(Value, frozen=True):
    """A part of an address that differs from account to account: the variables that say it, and what it is otherwise."""

    env: tuple[str, ...]
    default: str = ""


class Endpoint(Value, frozen=True):
    """Where a provider is reached, and how it wants its key. No key is ever stored here.

    `{name}` in an address is filled from `places`; `{name-}` too, with a hyphen behind it, and stands for nothing where the
    place has its default (Google's `us-central1-aiplatform`, but `aiplatform` for `global`).
    """

    base_url: str
    key_env: tuple[str, ...] = ()
    base_env: tuple[str, ...] = ()
    auth: str = "bearer"
    """How a key is sent: `bearer`, `none`, or the name of the header that carries it, in lower case."""
    headers: dict[str, str] | None = None
    bearer_env: tuple[str, ...] = ()
    """Variables whose key goes as a bearer token whatever `auth` says."""
    base_tails: tuple[str, ...] = ()
    """What the addresses people know end with, where our base is shorter because the host has more than one path."""
    query: dict[str, str] | None = None
    """Parameters that every request carries in its URL (`api-version`)."""
    query_env: dict[str, tuple[str, ...]] | None = None
    """The variables that give such a parameter another value."""
    places: dict[str, Place] | None = None
    bearer_base: str = ""
    """The address for bearer tokens, where it is another than the one for keys."""
    command_bearer: bool = False
    """What `api_key_command` prints for this provider is a bearer token, unless the configuration says otherwise."""
    reports_cost: bool = False
    """Its answers say what they cost, so that no table needs to know."""

    def __post_init__(self) -> None:
        check_auth(self.auth)
        if self.auth not in _USUAL_AUTH:
            name_key_header(self.auth)
        for name, value in (self.query or {}).items():
            # They are put into URLs as they stand. What would need escaping
            # is refused, so there is no second way to write a request.
            if not _QUERY_TEXT.fullmatch(name) or not _QUERY_TEXT.fullmatch(value):
                raise ConfigError(
                    f"invalid query parameter {name!r}; its name and value may hold only A-Z a-z 0-9 . _ ~ -"
                )
        for base in (self.base_url, self.bearer_base):
            for name in _PLACE.findall(base):
                _check_word("place in an address", name, self.places or {})

    def at(self, path: str) -> str:
        """A request's path with this endpoint's query."""
        if not self.query:
            return path
        query = "&".join([f"{name}={value}" for name, value in self.query.items()])
        return f"{path}{'&' if '?' in path else '?'}{query}"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # rich prints values by this; without it a header with a key would be shown by the nicer of two reprs.
        return without_header_values(self)

    def __repr__(self) -> str:
        return f"Endpoint({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


_QUERY_TEXT = late_pattern(r"[A-Za-z0-9._~-]+")
_PLACE = late_pattern(r"\{(\w+)-?\}")
# Companies put gateways with headers of their own before their models, so any name is taken that can be one. A single
# word is far more often a scheme (`basic`) or a slip (`bearr`) than a header: only the usual ones of those are.
_USUAL_AUTH = ("bearer", "none", "api-key", "x-api-key", "x-goog-api-key")
_AUTH = late_pattern(r"authorization|apikey|token|[a-z0-9]+(?:[-_][a-z0-9]+)+")
_TAKEN = frozenset(
    "accept-encoding content-encoding content-length content-type keep-alive proxy-authorization proxy-connection "
    "transfer-encoding user-agent".split()
)


def check_auth(auth: str) -> None:
    """ConfigError unless a key can be sent so."""
    if auth not in _USUAL_AUTH and (not _AUTH.fullmatch(auth) or auth in _TAKEN):
        raise ConfigError(
            f"invalid auth {auth!r}; expected bearer, none, or the header that carries the key: authorization, apikey, "
            "token, or a name with a hyphen, such as x-api-key"
        )


def without_header_values(value: msgspec.Struct) -> list[tuple[str, Any]]:
    """The fields of a value for its repr. A configured header may be a secret: only its name is shown."""
    fields = msgspec.structs.asdict(value)
    headers = fields.get("headers")
    return list({**fields, "headers": headers and dict.fromkeys(headers, "***")}.items())
