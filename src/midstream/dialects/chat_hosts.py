"""Hosts of the OpenAI chat wire: one value, one row each. Sources:
field-guide/hosts.md#small-switches-of-chat-hosts, field-guide/hosts.md#kimi-host-by-host, field-guide/tool-ids.md#who-demands-what.

To add a host that follows OpenAI, write one `_host(...)` row below and one line in tests/data/dialects/providers.json.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..core.dialect import Dialect, Endpoint, Limits, Place, Reasoning, SamplingOption
from . import efforts
from .kimi import kimi_on
from .provider import Provider

_replace = msgspec.structs.replace
_WIRE = "openai-chat"


def _keys(name: str, *more: str) -> dict[str, Any]:
    # Users have set either spelling of the address: SDKs say BASE_URL, litellm's family API_BASE
    # (field-guide/names.md#environment-variables).
    stem = name.upper().replace("-", "_")
    return {
        "key_env": (f"{stem}_API_KEY", *more),
        "base_env": (f"{stem}_BASE_URL", f"{stem}_API_BASE"),
    }


# The measure for all others: what a row below does not say is what the defaults of `Dialect` say, and those are the
# careful reading of this wire, without OpenAI's newer fields (field-guide/hosts.md#small-switches-of-chat-hosts).
OPENAI = Dialect(
    "openai",
    _WIRE,
    "openai",
    schema="openai",
    answer_pass="openai",
    max_tokens_field="max_completion_tokens",
    strict_tools=True,
    mid_system=True,
    developer_role=True,
    freeform=True,
    media=("image", "audio", "file"),
    file_ids=r"file-|assistant-",
    limits=Limits(max_tools=128),
    reasoning=Reasoning(control="reasoning_effort"),
    extras=(
        "logit_bias", "logprobs", "metadata", "prediction", "prompt_cache_key", "prompt_cache_retention",
        "safety_identifier", "service_tier", "top_logprobs", "verbosity",
    ),
)  # fmt: skip
"""A model or deployment whose kind its name does not tell."""
# Told by the name, since the API does not say it: reasoning models refuse sampling options, the `-chat`
# variants of the same generation do not. `(?:^|/)` keeps `o3` from being found inside another word.
REASONING_MODELS = r"gpt-(?:[5-9]|oss)(?!.*chat)|(?:^|/)o\d|codex|computer-use"
_OTHER_MODELS = r"gpt-[34]|chat"
# These do not think unless they are asked to, and take sampling options only while they do not.
_ASKED_TO_THINK = r"gpt-5\.[1-4](?!.*(?:codex|pro|chat))"
_THINKING_SAMPLING: tuple[SamplingOption, ...] = ("seed", "response_format")


def _openai(name: str, provider: str, **fields: Any) -> tuple[tuple[str, Dialect], ...]:
    """OpenAI's models, where they reason and where they do not."""
    unknown = _replace(OPENAI, name=name, provider=provider, **fields)
    plain = _replace(unknown, name=f"{name}-plain", reasoning=Reasoning())
    asked = _replace(unknown, name=f"{name}-5.1", sampling_thinking=_THINKING_SAMPLING)
    thinks = _replace(
        unknown,
        name=f"{name}-reasoning",
        reasoning=_replace(OPENAI.reasoning, default_on=True),
        sampling=_THINKING_SAMPLING,
    )
    # `_ASKED_TO_THINK` is part of `REASONING_MODELS`, so it comes first.
    return ((_ASKED_TO_THINK, asked), (REASONING_MODELS, thinks), (_OTHER_MODELS, plain), ("", unknown))


# The strictest of the hosts: nine-character ids (field-guide/tool-ids.md#who-demands-what), and 422 for any
# field it does not know (field-guide/hosts.md#mistral).
MISTRAL = Dialect(
    "mistral",
    _WIRE,
    "mistral",
    ids="mistral",
    tool_format="mistral",
    tool_result_name=True,
    stream_usage=False,  # unknown body fields are refused with 422; usage comes unasked
    required_word="any",
    seed_field="random_seed",
    prefill_flag="prefix",
    marks_last_answer=True,
    blank_content="keep",
    user_field="",
    limits=Limits(max_tools=128),
)
MISTRAL_EFFORT = _replace(MISTRAL, name="mistral-effort", reasoning=Reasoning(control="reasoning_effort"))
# `placeholder=""`: the field must be there on tool turns even if empty, and empty is enough
# (field-guide/reasoning.md#who-wants-it-back).
_DEEPSEEK_REASONING = Reasoning(
    echo="calls", required=True, placeholder="", control="thinking.type+effort", keep="always",
    **efforts.DEEPSEEK_V4,
)  # fmt: skip
DEEPSEEK = Dialect(
    "deepseek",
    _WIRE,
    "deepseek",
    answer_ways=("json",),
    tool_format="deepseek",
    media=(),
    reasoning=_DEEPSEEK_REASONING,
    sampling_thinking=("stop", "seed", "response_format"),  # the others are ignored then
    parallel_option=False,
    user_field="",
    prefill_flag="prefix",
    blank_content="keep",
    limits=Limits(max_tools=128),
)
DEEPSEEK_REASONER = _replace(
    DEEPSEEK, name="deepseek-reasoner", reasoning=_replace(_DEEPSEEK_REASONING, default_on=True)
)
QWEN = Dialect(
    "qwen",
    _WIRE,
    "qwen",
    answer_ways=("tool",),  # a JSON mode too, which some models have and none while it thinks
    tool_format="qwen",
    reasoning=Reasoning(control="enable_thinking"),
    blank_content="keep",
    forced_choice=("named",),
    forced_choice_thinking=(),
    user_field="",
)
# Off by default at the host, and on in the vendor's own client: what is not kept is thought again.
QWEN_KEEPS = _replace(QWEN, name="qwen-keeps", reasoning=_replace(QWEN.reasoning, keep="preserve_thinking", keeps=True))
ZAI = Dialect(
    "zai",
    _WIRE,
    "zai",
    answer_ways=("json",),
    tool_format="qwen",
    reasoning=Reasoning(echo="always", control="thinking.type", default_on=True),
    blank_content="omit",  # an empty text block is refused (code 1213)
    forced_choice=(),
    forced_choice_thinking=(),
    sampling=("temperature", "top_p", "stop", "response_format"),
    parallel_option=False,
    user_field="",
)
# Unless it is told to keep all reasoning, the host clears that of earlier turns (field-guide/reasoning.md#keeping-it-all).
_ZAI_KEEPS = _replace(ZAI.reasoning, keep="thinking.clear_thinking", keeps=True)
ZAI_KEEPS = _replace(ZAI, name="zai-keeps", reasoning=_ZAI_KEEPS)
_ZAI_EFFORT = _replace(_ZAI_KEEPS, control="thinking.type+effort")
ZAI_EFFORT = _replace(ZAI, name="zai-effort", reasoning=_ZAI_EFFORT)
# From GLM-5.3 on `disabled` is refused or ignored (field-guide/hosts.md#zai).
ZAI_ALWAYS = _replace(ZAI, name="zai-always", reasoning=_replace(_ZAI_EFFORT, can_disable=False))
# `reasoning_split` asks for reasoning in a field of its own; the tags are for answers in which it stays in the text
# all the same. All of the assistant's content goes back, thinking included (field-guide/hosts.md#minimax).
MINIMAX = Dialect(
    "minimax",
    _WIRE,
    "minimax",
    answer_ways=(),  # response_format is documented for an older model only
    reasoning=Reasoning(
        fields=("reasoning_content", "reasoning_details"), echo="always", required=True, default_on=True,
        can_disable=False, details=True, tags=("<think>", "</think>"), keep="always",
    ),
    extra_body={"reasoning_split": True},
    media=(),
    blank_content="keep",
    parallel_option=False,
    user_field="",
)  # fmt: skip
IMAGE_TYPES_XAI = ("image/jpeg", "image/png")  # all that its guide on image understanding names
XAI = Dialect(
    "xai",
    _WIRE,
    "xai",
    sampling=("temperature", "top_p", "seed", "response_format"),  # grok-4 refuses stop and the penalties
    mid_system=True,  # "no role order limitation"
    image_types=IMAGE_TYPES_XAI,
)
XAI_EFFORT_MODELS = r"grok-3-mini|grok-(?:4\.[3-9]|[5-9])(?!.*non-reasoning)"
XAI_EFFORT = _replace(XAI, name="xai-effort", reasoning=Reasoning(control="reasoning_effort", default_on=True))
# No control: a field that asks for thinking is known only for gpt-oss here, which has its own row below.
CEREBRAS = Dialect("cerebras", _WIRE, "cerebras", media=(), reasoning=Reasoning(field="reasoning"))
_OSS = Reasoning(field="reasoning", default_on=True, can_disable=False, control="reasoning_effort", **efforts.GPT_OSS)
_OPENROUTER_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")  # for all models alike; the host maps them
_OPENROUTER_REASONING = Reasoning(
    fields=("reasoning", "reasoning_content"), field="reasoning", echo="always", details=True, control="reasoning",
    efforts=_OPENROUTER_EFFORTS,
)  # fmt: skip
OPENROUTER = Dialect(
    "openrouter",
    _WIRE,
    "openrouter",
    reasoning=_OPENROUTER_REASONING,
    media=("image", "file", "audio"),
    extras=("cache_control",),
)


def _host(
    name: str,
    base_url: str,
    *keys: str,
    headers: dict[str, str] | None = None,
    kimi: dict[str, Any] | None = None,
    **dialect: Any,
) -> Provider:
    """A host that serves many people's models, Kimi among them. Its key is in `NAME_API_KEY` or one of `keys`; `headers` go
    with every request; `kimi` is what it does differently for Kimi, `dialect` for all others."""
    plain = Dialect(name, _WIRE, name, **dialect)
    endpoint = Endpoint(base_url, headers=headers, **_keys(name, *keys))
    # Kimi first: what its weights need (ids above all) holds on
    # every host, and the rest of the row is about other models.
    return Provider(name, endpoint, (*kimi_on(name, **(kimi or {})), *_oss_on(plain), ("", plain)))


def _oss_on(plain: Dialect) -> tuple[tuple[str, Dialect], ...]:
    """gpt-oss on a host that takes its efforts: it always thinks, and knows no other levels."""
    if plain.reasoning.control != "reasoning_effort":
        return ()
    return ((r"gpt-oss", _replace(plain, name=f"{plain.name}-gpt-oss", reasoning=_OSS)),)


# Servers of open models make a grammar of the schema; most do not show it to the model.
_GRAMMAR: dict[str, Any] = {"answer_ways": ("grammar",), "answer_pass": "grammar", "answer_beside_tools": False}
GENERIC = Dialect("openai-compatible", _WIRE, "openai-compatible", **_GRAMMAR)

# Azure: a resource has an address of its own, and a model is called by the name of its deployment. A key goes in `api-key`,
# a token of Entra ID as bearer. The v1 path needs no api-version; the older one names the deployment in the path.
AZURE_ENDPOINT = Endpoint(
    "https://{resource}.openai.azure.com",
    key_env=("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
    bearer_env=("AZURE_OPENAI_AD_TOKEN", "AZURE_AD_TOKEN"),
    base_env=("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_BASE_URL", "AZURE_API_BASE"),
    base_tails=("/openai/v1", "/openai"),
    auth="api-key",
    places={"resource": Place(("AZURE_OPENAI_RESOURCE", "AZURE_RESOURCE_NAME"))},
    command_bearer=True,
)
AZURE_MODELS = ("gpt-5.1", "gpt-5-mini", "gpt-4.1", "gpt-4.1-mini", "gpt-4o", "o4-mini")
_UNASKED: dict[str, Any] = {"reasoning": {"control": "none"}}  # no field that asks for thinking is documented
_AZURE_VERSION = "2024-10-21"  # the last of the dated versions that is no preview


def _azure(name: str, path: str) -> tuple[tuple[str, Dialect], ...]:
    """OpenAI's models, and those of others that Azure serves the same way."""
    plain = Dialect(name, _WIRE, "azure", path=path)
    return (
        # Both kinds of address are one provider: reasoning made at one is the model's own at the other.
        *[(pattern, _replace(dialect, provider="azure")) for pattern, dialect in kimi_on(name, path=path, **_UNASKED)],
        (
            r"mistral|mixtral|ministral|codestral",
            _replace(plain, name=f"{name}-mistral", ids="mistral", user_field=""),
        ),
        # Before OpenAI's rows, whose last one takes any name: a deployment
        # may be called anything, and is then taken for OpenAI's.
        (r"deepseek|grok|llama|phi|qwen", plain),
        *_openai(f"{name}-openai", "azure", path=path),
    )


# Bedrock's gpt-oss leaves its reasoning in the text, in tags of its own.
_BEDROCK_OSS = Reasoning(
    tags=("<reasoning>", "</reasoning>"), default_on=True, can_disable=False, control="reasoning_effort",
    **efforts.GPT_OSS,
)  # fmt: skip


_BEDROCK = Dialect("bedrock", _WIRE, "bedrock", answer_ways=("tool",))
_BEDROCK_DIALECTS = (
    *kimi_on("bedrock", answer_ways=("tool",), **_UNASKED),
    (r"gpt-oss", _replace(_BEDROCK, name="bedrock-gpt-oss", reasoning=_BEDROCK_OSS, media=())),
    (r"mistral|ministral|voxtral", _replace(_BEDROCK, name="bedrock-mistral", ids="mistral", user_field="")),
    ("", _BEDROCK),
)


def _bedrock(name: str, base_url: str, *models: str) -> Provider:
    """Amazon Bedrock by its API key: one of the addresses that speak OpenAI's chat."""
    stem = name.upper().replace("-", "_")
    endpoint = Endpoint(
        base_url,
        key_env=("AWS_BEARER_TOKEN_BEDROCK", "BEDROCK_API_KEY"),
        base_env=(f"{stem}_BASE_URL", f"{stem}_API_BASE"),
        places={"region": Place(("AWS_REGION", "AWS_DEFAULT_REGION"))},
    )
    return Provider(name, endpoint, _BEDROCK_DIALECTS, models=models)


# One row per provider. A vendor's own row has a `family`, so that a misspelt model is refused here with a
# suggestion instead of by the host; hosts of other people's models take any name. `models` is only what is
# suggested and completed. Within a row the first pattern that fits wins; "" is the rest.
PROVIDERS = (
    Provider(
        "openai",
        Endpoint("https://api.openai.com/v1", **_keys("openai")),
        _openai("openai", "openai"),
        models=("gpt-5.2", "gpt-5.1", "gpt-5", "gpt-5-mini", "gpt-4.1", "gpt-4.1-mini", "gpt-4o", "gpt-4o-mini", "o3", "o4-mini"),
        family=r"^(?:gpt|o\d|chatgpt|codex|ft:|computer)",
    ),
    Provider(
        "mistral",
        Endpoint("https://api.mistral.ai/v1", **_keys("mistral")),
        ((r"mistral-(?:small-(?:latest|2603|4)|medium-3[-.]5|large-4)", MISTRAL_EFFORT), ("", MISTRAL)),
        models=("mistral-large-latest", "mistral-medium-latest", "mistral-small-latest", "codestral-latest",
                "devstral-medium-latest", "magistral-medium-latest", "ministral-8b-latest", "pixtral-large-latest"),
        family=r"stral|mixtral|pixtral|voxtral",
    ),
    Provider(
        "deepseek",
        Endpoint("https://api.deepseek.com/v1", **_keys("deepseek")),
        ((r"reasoner|v4", DEEPSEEK_REASONER), ("", DEEPSEEK)),
        models=("deepseek-chat", "deepseek-reasoner"),
        family=r"deepseek",
    ),
    Provider(
        "qwen",
        Endpoint("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", **_keys("dashscope", "QWEN_API_KEY")),
        # Behind DashScope Kimi's thinking is switched and kept with Qwen's words
        # (field-guide/reasoning.md#keeping-it-all).
        (*kimi_on("qwen", answer_ways=("tool",), reasoning={"control": "enable_thinking", "keep": "preserve_thinking"}),
         (r"qwen3\.[6-9].*(?:plus|max)", QWEN_KEEPS), ("", QWEN)),
        models=("qwen3.7-max", "qwen3.6-plus", "qwen3-max", "qwen3-coder-plus", "qwen-plus", "qwen-turbo", "qwq-plus"),
        family=r"qw|kimi|glm|deepseek",
        names=("dashscope", "alibaba"),
    ),
    Provider(
        "zai",
        Endpoint("https://api.z.ai/api/paas/v4", **_keys("zai", "ZHIPU_API_KEY", "GLM_API_KEY")),
        # `glm-5` also fits 5.2 and 5.3, so the later versions are asked first.
        ((r"glm-(?:5\.[3-9]|[6-9])", ZAI_ALWAYS), (r"glm-5\.2", ZAI_EFFORT), (r"glm-(?:4\.[7-9]|5)", ZAI_KEEPS), ("", ZAI)),
        models=("glm-5.3", "glm-5.2", "glm-5", "glm-4.7", "glm-4.6", "glm-4.5-air", "glm-4.5-flash"),
        family=r"glm|codegeex|cogview",
        names=("glm", "zhipu"),
    ),
    Provider(
        "minimax",
        Endpoint("https://api.minimax.io/v1", **_keys("minimax")),
        (("", MINIMAX),),
        models=("MiniMax-M3", "MiniMax-M2.5", "MiniMax-M2.1", "MiniMax-M2"),
        family=r"minimax|abab",
    ),
    Provider(
        "xai",
        Endpoint("https://api.x.ai/v1", **_keys("xai")),
        ((XAI_EFFORT_MODELS, XAI_EFFORT), ("", XAI)),
        models=("grok-4", "grok-4-fast", "grok-3", "grok-3-mini", "grok-code-fast-1"),
        family=r"grok",
        names=("grok",),
    ),
    Provider(
        "cerebras",
        Endpoint("https://api.cerebras.ai/v1", **_keys("cerebras")),
        (*kimi_on("cerebras", reasoning={"field": "reasoning"}),
         (r"gpt-oss", _replace(CEREBRAS, name="cerebras-gpt-oss", reasoning=_OSS)), ("", CEREBRAS)),
    ),
    Provider(
        "openrouter",
        Endpoint("https://openrouter.ai/api/v1", **_keys("openrouter"), reports_cost=True),
        (
            *kimi_on("openrouter", reasoning={"fields": ("reasoning", "reasoning_content"), "field": "reasoning",
                                              "details": True, "control": "reasoning", "efforts": _OPENROUTER_EFFORTS}),
            # The router passes ids on, and Mistral behind it still wants nine characters.
            (r"mistral|mixtral|codestral|devstral|magistral", _replace(OPENROUTER, name="openrouter-mistral", ids="mistral")),
            ("", OPENROUTER),
        ),
        models=("moonshotai/kimi-k2.5", "moonshotai/kimi-k2-thinking", "anthropic/claude-sonnet-4.5", "openai/gpt-5.2"),
    ),
    Provider(
        "azure",
        AZURE_ENDPOINT,
        _azure("azure", "/openai/v1/chat/completions"),
        models=AZURE_MODELS,
        names=("azure-openai",),
    ),
    Provider(
        "azure-deployment",
        _replace(
            AZURE_ENDPOINT,
            query={"api-version": _AZURE_VERSION},
            query_env={"api-version": ("OPENAI_API_VERSION", "AZURE_OPENAI_API_VERSION", "AZURE_API_VERSION")},
        ),
        _azure("azure-deployment", "/openai/deployments/{model}/chat/completions"),
        models=AZURE_MODELS,
    ),
    _bedrock("bedrock", "https://bedrock-runtime.{region}.amazonaws.com/openai/v1",
             "openai.gpt-oss-120b-1:0", "openai.gpt-oss-20b-1:0"),
    _bedrock("bedrock-mantle", "https://bedrock-mantle.{region}.api.aws/v1", "openai.gpt-oss-120b", "openai.gpt-oss-20b"),
    # vLLM reads only `reasoning` in requests and answers under it (field-guide/reasoning.md#fields).
    _host("vllm", "http://127.0.0.1:8000/v1", **_GRAMMAR, kimi={**_GRAMMAR, "reasoning": {"field": "reasoning", "fixed_field": True,
                                                                   "fields": ("reasoning", "reasoning_content")}},
          reasoning=Reasoning(field="reasoning", fixed_field=True, control="chat_template_kwargs", keep="chat_template_kwargs")),
    _host("sglang", "http://127.0.0.1:30000/v1", **_GRAMMAR, kimi=_GRAMMAR,
          reasoning=Reasoning(control="chat_template_kwargs", keep="chat_template_kwargs")),
    # A mode for schemas is documented for some of its models; tools work with all.
    _host("groq", "https://api.groq.com/openai/v1", answer_ways=("tool",), kimi={"answer_ways": ("tool",), "reasoning": {"field": "reasoning", "control": "none"}},
          reasoning=Reasoning(field="reasoning", control="reasoning_effort", efforts=("none", "low", "medium", "high"))),
    _host("together", "https://api.together.xyz/v1", "TOGETHERAI_API_KEY", "TOGETHER_AI_API_KEY",
          kimi={"reasoning": {"field": "reasoning"}}),
    _host("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_AI_API_KEY",
          kimi={"reasoning": {"control": "reasoning_effort", "keep": "reasoning_history"}}),
    _host("baseten", "https://inference.baseten.co/v1", kimi={"reasoning": {"control": "reasoning_effort"}}),
    _host("novita", "https://api.novita.ai/v3/openai"),
    _host("huggingface", "https://router.huggingface.co/v1", "HF_TOKEN"),
    Provider(
        "openai-compatible",
        Endpoint("http://127.0.0.1:8080/v1", key_env=("OPENAI_COMPATIBLE_API_KEY",), base_env=("OPENAI_COMPATIBLE_BASE_URL",)),
        (*kimi_on("openai-compatible", **_GRAMMAR), (r"mistral|mixtral", _replace(GENERIC, name="openai-compatible-mistral", ids="mistral")),
         ("", GENERIC)),
        names=("compatible", "local"),
    ),
)  # fmt: skip
