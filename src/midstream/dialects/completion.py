"""Raw completion: a template for each family of models whose prompt we can write, and the hosts that take one.

The texts that end an answer, and whether it begins inside thinking, are the template's own (a test holds them to it; to ask
the template here would load it for everyone). `completions` is any host of OpenAI's `/v1/completions`; `deepinfra` and
`llamacpp` have a chat besides. llama.cpp is sent a raw prompt only for Kimi, whose published templates it numbers and trims
in its own way (field-guide/kimi-formats.md#which-reasoning-is-kept).
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..core.dialect import Dialect, Endpoint, Limits, Reasoning, TemplateName, TextFormat
from ..core.ids import IdScheme, ToolFormat
from . import efforts
from .families import K2, K2_THINKING, K3, K25, K26, K27_CODE, KIMI_TOOL_NAME
from .kimi import kimi_on
from .provider import Provider

_replace = msgspec.structs.replace
_TAGS = ("<think>", "</think>")
# Five kinds, by two questions: does the model think (never, unless told not to, always), and does its
# template keep the reasoning of earlier turns (no, always, or only if asked).
_PLAIN = Reasoning(tags=_TAGS)
_THINKS = Reasoning(tags=_TAGS, echo="always", default_on=True)
_ALWAYS = _replace(_THINKS, can_disable=False)
_KEEPS = _replace(_ALWAYS, keep="always")
_ASKED = _replace(_THINKS, keep="template")


class Family(msgspec.Struct, frozen=True):
    """Models that read one template: a pattern in their lower-cased names, and how their answers are read."""

    pattern: str
    template: TemplateName
    text_format: TextFormat
    tool_format: ToolFormat
    stop: tuple[str, ...]
    ids: IdScheme = "standard"
    reasoning: Reasoning = _PLAIN
    starts_inside: bool = False
    mid_system: bool = True
    """Its template prints a system message where it stands; others know none there, or move it to the front."""
    mid_tools: bool = False


# Engines stop on [EOT] too, though the documented stop list has no word of it (field-guide/raw-completion.md#deepinfras-native-path).
_KIMI_STOP = ("<|im_end|>", "[EOS]", "[EOT]")
_CHATML_STOP = ("<|im_end|>", "<|endoftext|>")
# In the order of `kimi_on`, row for row: `with_native` pairs the two by position.
KIMI_FAMILIES = (
    Family(
        K3,
        "kimi-k3",
        "kimi-k3",
        "kimi",
        ("<|end_of_msg|>",),
        "kimi-k3",
        _replace(_KEEPS, **efforts.KIMI_K3),
        True,
        mid_tools=True,
    ),
    Family(K27_CODE, "kimi-k2.7-code", "kimi", "kimi", _KIMI_STOP, "kimi", _KEEPS, True),
    Family(K26, "kimi-k2.6", "kimi", "kimi", _KIMI_STOP, "kimi", _ASKED, True),
    Family(K25, "kimi-k2.5", "kimi", "kimi", _KIMI_STOP, "kimi", _THINKS, True),
    Family(K2_THINKING, "kimi-k2-thinking", "kimi", "kimi", _KIMI_STOP, "kimi", _ALWAYS),
    Family(K2, "kimi-k2", "kimi", "kimi", _KIMI_STOP, "kimi"),
)
FAMILIES = (
    *KIMI_FAMILIES,
    Family(r"qwen|qwq", "qwen", "qwen", "qwen", _CHATML_STOP, reasoning=_ASKED),
    Family(r"llama-?[34]", "llama3", "llama", "llama", ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>")),
    Family(r"gemma", "gemma", "gemma", "gemma", ("<end_of_turn>", "<eos>"), mid_system=False),
    Family(r"stral|mixtral", "mistral", "mistral", "mistral", ("</s>",), mid_system=False),
    Family(r"deepseek", "deepseek", "deepseek", "deepseek", ("<｜end▁of▁sentence｜>",), mid_system=False),
    # For a name nobody knows: ChatML with Hermes' calls, which many fine-tunes use. It is a guess.
    Family("", "chatml", "hermes", "hermes", _CHATML_STOP),
)


def raw(provider: str, family: Family, **host: Any) -> Dialect:
    """The dialect of a family's models where `provider` completes a raw prompt."""
    return Dialect(
        f"{provider}-{family.template}", "completion", provider, ids=family.ids, tool_format=family.tool_format,
        leaks=family.text_format, template=family.template, media=(), parallel_option=False, forced_choice=(),
        answer_ways=("grammar",), answer_pass="grammar", answer_beside_tools=False,
        forced_choice_thinking=(), stop=family.stop, mid_system=family.mid_system, mid_tools=family.mid_tools,
        reasoning=_replace(family.reasoning, starts_inside=family.starts_inside), **host,
    )  # fmt: skip


def with_native(chat: tuple[tuple[str, Dialect], ...], **host: Any) -> tuple[tuple[str, Dialect], ...]:
    """Kimi's chat dialects of a host, each with the raw path to the same model beside it; reasoning is shared."""
    rows: list[tuple[str, Dialect]] = []
    for (pattern, dialect), family in zip(chat, KIMI_FAMILIES, strict=True):
        # `wires` on both sides: the model behind the two paths is
        # the same, so reasoning from one is its own on the other.
        native = raw(dialect.provider, family, limits=dialect.limits, **host)
        native = _replace(
            native, name=f"{dialect.name}-native", reasoning=_replace(native.reasoning, wires=(dialect.wire,))
        )
        shared = _replace(dialect.reasoning, wires=(native.wire,))
        rows.append((pattern, _replace(dialect, native=native, reasoning=shared)))
    return tuple(rows)


# Kimi's markers are special tokens: without this vLLM and SGLang leave them out of the text (field-guide/raw-completion.md#special-tokens).
_SHOWS_SPECIALS = {"skip_special_tokens": False}

COMPLETIONS = Provider(
    "completions",
    Endpoint("http://127.0.0.1:8000/v1", key_env=("COMPLETIONS_API_KEY",), base_env=("COMPLETIONS_BASE_URL",)),
    tuple(
        [
            (
                family.pattern,
                raw("completions", family, extra_body=_SHOWS_SPECIALS if family.ids != "standard" else None),
            )
            for family in FAMILIES
        ]
    ),
)

_KIMI_MARKERS = [
    "<think>", "</think>", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>",
]  # fmt: skip
_GRAMMAR: dict[str, Any] = {"answer_ways": ("grammar",), "answer_pass": "grammar", "answer_beside_tools": False}
_LLAMACPP_CHAT = Dialect("llamacpp", "openai-chat", "llamacpp", path="/v1/chat/completions", **_GRAMMAR)

LLAMACPP = Provider(
    "llamacpp",
    Endpoint(
        "http://127.0.0.1:8080",
        key_env=("LLAMACPP_API_KEY", "LLAMA_API_KEY"),
        base_env=("LLAMACPP_BASE_URL", "LLAMACPP_HOST"),
        base_tails=("/v1",),
    ),
    (
        # The server prints no control token unless it is told which to keep. Its chat leaves a marker that stands where
        # none belongs in the text.
        *with_native(
            kimi_on("llamacpp", path="/v1/chat/completions", **_GRAMMAR),
            completion="llamacpp",
            extra_body={"preserved_tokens": _KIMI_MARKERS},
            user_field="",
        ),
        (r"mistral|mixtral", _replace(_LLAMACPP_CHAT, name="llamacpp-mistral", ids="mistral")),
        ("", _LLAMACPP_CHAT),
    ),
    names=("llama.cpp", "llama-cpp"),
)

# DeepInfra has OpenAI's chat for all models, and a native raw path for those whose prompt we can write (field-guide/
# raw-completion.md#tool-choice). Without tools the native path is quicker and gives the thinking token by token; tools
# need the chat. `Options.path` overrides: on the native path Kimi's own text format calls.
_DEEPINFRA_CHAT = "/openai/chat/completions"
_DEEPINFRA_OUTPUT = 16384  # a hard cap for most models

_DEEPINFRA_KIMI = kimi_on(
    "deepinfra",
    reasoning={"control": "reasoning"},
    path=_DEEPINFRA_CHAT,
    limits=Limits(max_tools=128, tool_name_pattern=KIMI_TOOL_NAME, max_output=_DEEPINFRA_OUTPUT),
)
_DEEPINFRA_OTHER = Dialect(
    "deepinfra", "openai-chat", "deepinfra", path=_DEEPINFRA_CHAT, limits=Limits(max_output=_DEEPINFRA_OUTPUT)
)

DEEPINFRA = Provider(
    "deepinfra",
    Endpoint(
        "https://api.deepinfra.com/v1",
        key_env=("DEEPINFRA_API_KEY", "DEEPINFRA_TOKEN"),
        base_env=("DEEPINFRA_BASE_URL", "DEEPINFRA_API_BASE"),
        base_tails=("/openai", "/inference"),
        reports_cost=True,
    ),
    (*with_native(_DEEPINFRA_KIMI, completion="deepinfra"), ("", _DEEPINFRA_OTHER)),
    models=("moonshotai/Kimi-K2.5", "moonshotai/Kimi-K2-Thinking", "moonshotai/Kimi-K2-Instruct-0905"),
)

PROVIDERS = (DEEPINFRA, COMPLETIONS, LLAMACPP)
