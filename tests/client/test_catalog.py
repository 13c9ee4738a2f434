"""Names, keys and addresses: the caller's, then the environment's, then the configuration's, then the registry's."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from midstream.client.catalog import Catalog
from midstream.client.config import Config, ModelConfig, ProviderConfig
from midstream.codec import decode_stream, encode_request
from midstream.core.blocks import Conversation, Text, Turn
from midstream.core.errors import ConfigError, MissingKey, UnknownModel
from midstream.core.events import Done
from midstream.dialects.registry import REGISTRY
from tests.long_run import each_kind

WORK = Config(
    providers={
        "work": ProviderConfig(base_url="https://models.example/v1/"),
        "openai": ProviderConfig(base_url="https://proxy.example/v1"),
        "far": ProviderConfig(like="anthropic", base_url="https://far.example", api_key_env="FAR_TOKEN"),
        "near": ProviderConfig(like="anthropic", base_url="https://near.example"),
        "labelled": ProviderConfig(like="groq", headers={"x-team": "blue"}),
    },
    aliases={"fast": "groq/some-model", "w": "work/kimi-k2.5"},
    models={
        "w": ModelConfig(context=1234, input_price=1.0, output_price=2.0),
        "openai:gpt-4o": ModelConfig(input_price=5.0, output_price=6.0, cache_read_price=0.5),
        "nowhere/x": ModelConfig(context=1),
    },
)


def base(name: str, **environ: str) -> str:
    return Catalog(WORK, environ=environ).resolve(name).endpoint.base_url


def headers(name: str, **environ: str) -> dict[str, str]:
    catalog = Catalog(WORK, environ=environ)
    return catalog.auth_headers(catalog.resolve(name)).reveal()


def test_an_address_comes_from_the_environment_the_configuration_or_the_registry() -> None:
    assert base("mistral/mistral-large-latest") == "https://api.mistral.ai/v1"
    assert base("openai/gpt-4o") == "https://proxy.example/v1"
    assert base("openai/gpt-4o", OPENAI_BASE_URL="https://env.example/v1/") == "https://env.example/v1"
    assert base("work/x") == "https://models.example/v1"
    assert base("work/x", WORK_BASE_URL="https://env.example/v1") == "https://env.example/v1"


def _spelled(name: str) -> tuple[int, bool]:
    """How many variables name an address, and whether they are named after the provider."""
    variables = REGISTRY.providers[name].endpoint.base_env
    return len(variables), variables[0].startswith(name.upper())


@each_kind("name", [name for name, row in REGISTRY.providers.items() if row.endpoint.base_env], _spelled)
def test_both_spellings_of_the_address_are_read_for_every_provider(name: str) -> None:
    row = Catalog(Config(), environ={}).registry.providers[name]
    for variable in row.endpoint.base_env:
        stem = variable.removesuffix("_BASE_URL").removesuffix("_API_BASE")
        if stem != variable:
            assert {f"{stem}_BASE_URL", f"{stem}_API_BASE"} <= set(row.endpoint.base_env)


@pytest.mark.parametrize(
    "model, variable",
    [
        ("moonshot/kimi-k2.5", "MOONSHOT_API_KEY"),
        ("moonshot/kimi-k2.5", "MOONSHOTAI_API_KEY"),
        ("moonshot/kimi-k2.5", "KIMI_API_KEY"),
        ("openai/gpt-4o", "OPENAI_API_KEY"),
        ("deepinfra/moonshotai/Kimi-K2.5", "DEEPINFRA_API_KEY"),
        ("deepinfra/moonshotai/Kimi-K2.5", "DEEPINFRA_TOKEN"),
        ("mistral/mistral-large-latest", "MISTRAL_API_KEY"),
        ("groq/x", "GROQ_API_KEY"),
        ("openrouter/x/y", "OPENROUTER_API_KEY"),
        ("deepseek/deepseek-chat", "DEEPSEEK_API_KEY"),
        ("minimax/MiniMax-M2", "MINIMAX_API_KEY"),
        ("zai/glm-5", "ZAI_API_KEY"),
        ("fireworks/x", "FIREWORKS_API_KEY"),
        ("fireworks/x", "FIREWORKS_AI_API_KEY"),
        ("together/x", "TOGETHER_API_KEY"),
        ("together/x", "TOGETHERAI_API_KEY"),
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_AUTH_TOKEN"),
    ],
)
def test_every_usual_name_of_a_key_is_read_and_said(model: str, variable: str) -> None:
    assert headers(model, **{variable: "sk-canary"}) == {"authorization": "Bearer sk-canary"}
    catalog = Catalog(Config(), environ={variable: "sk-canary"})
    assert catalog.key_variable(catalog.resolve(model)) == variable


def test_keys_go_where_the_provider_wants_them() -> None:
    assert headers("anthropic/claude-sonnet-4-5", ANTHROPIC_API_KEY="k1") == {"x-api-key": "k1"}
    assert headers("gemini/gemini-2.5-flash", GEMINI_API_KEY="k1") == {"x-goog-api-key": "k1"}
    assert headers("gemini/gemini-2.5-flash", GOOGLE_API_KEY="k1") == {"x-goog-api-key": "k1"}
    catalog = Catalog(WORK, environ={"OPENAI_API_KEY": "theirs"})
    assert catalog.auth_headers(catalog.resolve("openai/gpt-4o"), "mine").reveal() == {"authorization": "Bearer mine"}


def test_a_key_goes_in_a_header_of_the_users_choice_and_nowhere_else() -> None:
    settings = ProviderConfig(base_url="https://gate.example/v1", auth="X-Company-Token")
    catalog = Catalog(Config(providers={"gate": settings}), environ={"GATE_API_KEY": "k1"})
    target = catalog.resolve("gate/some-model")
    assert catalog.auth_headers(target).reveal() == {"x-company-token": "k1"}
    assert catalog.shown_headers(target, "‹key›") == {"x-company-token": "‹key›"}


@pytest.mark.parametrize("like", ["openai-compatible", "vllm"])
def test_a_host_of_the_users_gets_its_reasoning_back_under_its_own_name(like: str) -> None:
    reasoning = {"fields": ["thoughts"], "field": "thoughts", "echo": "always", "default_on": True}
    settings = ProviderConfig(like=like, base_url="http://127.0.0.1:8080/v1", dialect={"reasoning": reasoning})
    target = Catalog(Config(providers={"mine": settings}), environ={}).resolve("mine/m")
    asked = Conversation((Turn("human", (Text("Well?"),)),))
    chunk = {"choices": [{"delta": {"thoughts": "Hm.", "content": "Yes."}, "finish_reason": "stop"}]}
    stream = b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n"
    said = list(decode_stream(stream, request=encode_request(target, asked)))[-1]
    assert isinstance(said, Done)
    turns = (*asked.turns, said.turn, Turn("human", (Text("Sure?"),)))
    sent = json.loads(encode_request(target, Conversation(turns)).body)["messages"][1]
    assert sent == {"role": "assistant", "content": "Yes.", "thoughts": "Hm."}


def test_a_misspelled_like_is_answered_with_what_was_meant() -> None:
    settings = ProviderConfig(like="vlm", base_url="http://127.0.0.1:8080/v1")
    with pytest.raises(
        ConfigError, match=r"mine\.like: unknown provider 'vlm'; did you mean vllm or .* Known: anthropic, "
    ):
        Catalog(Config(providers={"mine": settings}))


def test_the_first_name_of_a_key_wins_and_an_empty_one_is_none() -> None:
    both = {"MOONSHOT_API_KEY": "one", "KIMI_API_KEY": "two"}
    assert headers("moonshot/kimi-k2.5", **both) == {"authorization": "Bearer one"}
    assert headers("moonshot/kimi-k2.5", **{**both, "MOONSHOT_API_KEY": ""}) == {"authorization": "Bearer two"}


def test_a_missing_key_names_the_variables_to_set_and_this_machine_needs_none() -> None:
    with pytest.raises(MissingKey, match=r"set MOONSHOT_API_KEY \(or MOONSHOTAI_API_KEY, KIMI_API_KEY\)"):
        headers("moonshot/kimi-k2.5")
    with pytest.raises(MissingKey, match="set WORK_API_KEY"):
        headers("work/x")
    assert headers("work/x", WORK_BASE_URL="http://127.0.0.1:1/v1") == {}
    with pytest.raises(MissingKey):
        headers("work/x", WORK_BASE_URL="http://127.evil.example/v1")


def test_the_key_of_the_host_a_provider_is_like_never_goes_to_it() -> None:
    likes = {
        "ANTHROPIC_API_KEY": "k",
        "ANTHROPIC_AUTH_TOKEN": "k",
        "OPENAI_COMPATIBLE_API_KEY": "k",
        "GROQ_API_KEY": "k",
    }
    for name in ("far/claude-sonnet-4-5", "near/claude-sonnet-4-5", "work/x", "labelled/x"):
        with pytest.raises(MissingKey):
            headers(name, **likes)
    assert headers("far/claude-sonnet-4-5", FAR_TOKEN="mine") == {"x-api-key": "mine"}


def test_the_environment_is_read_at_the_call_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOONSHOT_API_KEY", raising=False)
    monkeypatch.delenv("MOONSHOT_BASE_URL", raising=False)
    catalog = Catalog(Config())
    monkeypatch.setenv("MOONSHOT_API_KEY", "late")
    monkeypatch.setenv("MOONSHOT_BASE_URL", "https://late.example/v1")
    target = catalog.resolve("moonshot/kimi-k2.5")
    assert catalog.auth_headers(target).reveal() == {"authorization": "Bearer late"}
    assert target.endpoint.base_url == "https://late.example/v1"


def test_a_fixed_catalog_keeps_the_environment_that_it_was_made_in() -> None:
    environ = {"MOONSHOT_API_KEY": "first", "MOONSHOT_BASE_URL": "https://first.example/v1"}
    fixed, other = Catalog(Config(), environ=environ, fixed=True), Catalog(Config(), environ=environ)

    def asked(catalog: Catalog) -> tuple[str, dict[str, str], dict[str, str] | None]:
        target = catalog.resolve("moonshot/kimi-k2.5")
        headers = asyncio.run(catalog.authorize(target)).reveal()
        at_hand = catalog.headers_at_hand(target)
        return target.endpoint.base_url, headers, None if at_hand is None else at_hand.reveal()

    first = ("https://first.example/v1", {"authorization": "Bearer first"})
    assert asked(fixed) == (*first, first[1])
    assert asked(other) == (*first, None)
    environ.update(MOONSHOT_API_KEY="second", MOONSHOT_BASE_URL="https://second.example/v1")
    assert asked(fixed) == (*first, first[1])
    assert asked(other) == ("https://second.example/v1", {"authorization": "Bearer second"}, None)


def test_headers_at_hand_are_of_one_endpoint_and_of_no_key_that_a_caller_brings() -> None:
    catalog = Catalog(Config(), environ={"MOONSHOT_API_KEY": "k", "DEEPSEEK_API_KEY": "d"}, fixed=True)
    target, other = catalog.resolve("moonshot/kimi-k2.5"), catalog.resolve("deepseek/deepseek-chat")
    assert asyncio.run(catalog.authorize(target, "mine")).reveal() == {"authorization": "Bearer mine"}
    assert catalog.headers_at_hand(target) is None
    asyncio.run(catalog.authorize(target))
    asyncio.run(catalog.authorize(other))
    found = [catalog.headers_at_hand(each) for each in (target, other)]
    assert [each and each.reveal() for each in found] == [{"authorization": "Bearer k"}, {"authorization": "Bearer d"}]
    # However many endpoints there are, no more than a bound is remembered.
    for number in range(600):
        endpoint = replace(target.endpoint, base_url=f"https://host{number}.example")
        asyncio.run(catalog.authorize(replace(target, endpoint=endpoint)))
    assert len(catalog._at_hand) <= 512


def test_a_provider_of_ones_own_speaks_like_its_model_and_owns_its_reasoning() -> None:
    catalog = Catalog(WORK, environ={})
    kimi = catalog.resolve("work/kimi-k2.5")
    assert kimi.dialect.ids == "kimi" and kimi.dialect.provider == "work"
    assert catalog.resolve("far/claude-sonnet-4-5").dialect.wire == "anthropic"
    assert catalog.resolve("labelled/x").endpoint.headers == {"x-team": "blue"}
    known = catalog.resolve("openai/gpt-4o")
    assert known.dialect == REGISTRY.resolve("openai/gpt-4o").dialect
    with pytest.raises(UnknownModel):
        catalog.resolve("openai/kimi-k2.5")  # a known provider still knows its family
    with pytest.raises(ConfigError, match=r"providers\.x\.like"):
        Catalog(Config(providers={"x": ProviderConfig(like="nobody")}), environ={})


def test_aliases_resolve_and_are_offered_first() -> None:
    catalog = Catalog(WORK, environ={})
    assert catalog.resolve("fast").name == "groq/some-model"
    assert catalog.names()[:2] == ["fast", "w"]


def test_a_double_is_not_taken_for_a_misspelled_provider() -> None:
    with pytest.raises(
        UnknownModel, match=r"unknown provider 'sim': .*midstream\.testing\.sim_server.*sim\.client\(\)"
    ) as told:
        Catalog(Config(), environ={}).resolve("sim/kimi-k2.5")
    assert "did you mean" not in str(told.value)


def test_figures_of_the_user_win_under_any_name_of_the_model() -> None:
    catalog = Catalog(WORK, environ={})
    work = catalog.resolve("work/kimi-k2.5")
    assert catalog.context_window(work) == 1234
    price = catalog.price(work)
    assert price is not None and (price.input, price.output, price.source) == (1.0, 2.0, "configuration")
    own = catalog.price(catalog.resolve("openai/gpt-4o"))
    assert own is not None and (own.input, own.cache_read, own.cache_write) == (5.0, 0.5, 5.0)
    assert catalog.price(catalog.resolve("openrouter/x/y")) is None
    assert catalog.context_window(catalog.resolve("openrouter/x/y")) is None
    assert catalog.context_window(catalog.resolve("moonshot/kimi-k2.5")) == 262_144
    strangers = {
        "gone/x": ModelConfig(context=1),
        "openai/gpt-4o": ModelConfig(context=2),
        "gone/y": ModelConfig(context=3),
    }
    others = Catalog(Config(models=strangers, aliases={"openai/gpt-4o": "openai/gpt-4.1"}), environ={})
    assert others.context_window(others.resolve("openai/gpt-4.1")) == 2
    assert others.context_window(others.resolve("moonshot/kimi-k2.5")) == 262_144


_FIGURES: dict[str, tuple[ModelConfig, tuple[float, ...] | None]] = {
    "nothing of it": (ModelConfig(tools=True), (2.5, 10.0, 1.25, 2.5)),
    "all of it": (ModelConfig(input_price=1, output_price=2), (1, 2, 1, 1)),
    "only the output": (ModelConfig(output_price=2), (2.5, 2, 1.25, 2.5)),
    "only the input": (ModelConfig(input_price=1), (1, 10.0, 1, 1)),
    "only the cache": (ModelConfig(cache_read_price=0), (2.5, 10.0, 0, 2.5)),
}


@pytest.mark.parametrize("case", _FIGURES)
def test_a_figure_that_the_user_did_not_give_comes_from_the_table(case: str) -> None:
    own, expected = _FIGURES[case]
    catalog = Catalog(Config(models={"openai/gpt-4o": own, "openrouter/x/y": own}), environ={})
    price = catalog.price(catalog.resolve("openai/gpt-4o"))
    assert price is not None and (price.input, price.output, price.cache_read, price.cache_write) == expected
    unknown = catalog.price(catalog.resolve("openrouter/x/y"))
    assert (unknown is None) == (case != "all of it")


def test_a_configured_header_is_named_in_no_repr_with_its_value() -> None:
    config = Config(providers={"work": ProviderConfig(base_url="http://w", headers={"x-team-key": "sk-canary-55"})})
    shown = f"{config!r} {config.providers!r} {Catalog(config, environ={}).resolve('work/x')!r}"
    assert "x-team-key" in shown and "http://w" in shown
    assert "sk-canary-55" not in shown
    rich = [
        *config.providers["work"].__rich_repr__(),
        *Catalog(config, environ={}).resolve("work/x").endpoint.__rich_repr__(),
    ]
    assert "x-team-key" in str(rich) and "sk-canary-55" not in str(rich)


def own(**settings: object) -> Catalog:
    return Catalog(Config(providers={"mine": ProviderConfig(base_url="https://a.example", **settings)}), environ={})  # type: ignore[arg-type]


def test_a_host_that_differs_from_the_one_it_is_like_says_how() -> None:
    fields = {
        "ids": "mistral",
        "media": ["image"],
        "reasoning": {"control": "enable_thinking"},
        "limits": {"max_tools": 8},
    }
    dialect = own(dialect=fields).resolve("mine/some-model").dialect
    like = REGISTRY.resolve("openai-compatible/some-model").dialect
    assert (dialect.ids, dialect.media, dialect.reasoning.control) == ("mistral", ("image",), "enable_thinking")
    assert dialect.limits.max_tools == 8 and dialect.limits.tool_name_pattern == like.limits.tool_name_pattern
    assert dialect.provider == "mine" and dialect.path == like.path
    known = Catalog(Config(providers={"groq": ProviderConfig(dialect={"stream_usage": False})}), environ={})
    assert not known.resolve("groq/x").dialect.stream_usage
    assert known.resolve("groq/x").dialect.provider == "groq"


MEDIA: list[tuple[tuple[str, ...] | None, tuple[str, ...] | None, tuple[str, ...]]] = [
    # what is said of the provider, of the model, and what the model reads then
    (None, None, ("image",)),
    ((), None, ()),
    (("image", "audio"), None, ("image", "audio")),
    (None, (), ()),
    ((), ("image",), ("image",)),
    (("image",), (), ()),
]


@pytest.mark.parametrize("provider, model, reads", MEDIA)
def test_which_media_a_model_reads_can_be_said_of_it_or_of_its_provider(
    provider: Any, model: Any, reads: tuple[str, ...]
) -> None:
    catalog = Catalog(
        Config(
            providers={"mine": ProviderConfig(base_url="http://127.0.0.1:1/v1", media=provider)},
            models={"eyes": ModelConfig(media=model)},
            aliases={"eyes": "mine/some-model"},
        ),
        environ={},
    )
    dialect = catalog.resolve("mine/some-model").dialect
    assert dialect.media == reads
    assert catalog.resolve("eyes").dialect is dialect, "the same value each time, for encoded histories are kept by it"
    assert catalog.resolve("mine/another").dialect.media == (("image",) if provider is None else provider)


@pytest.mark.parametrize(
    "fields, told",
    [
        ({"ids": "x"}, "providers.mine.dialect: "),
        ({"ids": "openai"}, "'openai'"),
        ({"reasoning": {"control": "budget"}}, "invalid reasoning.control for openai-chat 'budget'; expected one of none"),
        ({"reasoning": {"contrl": "none"}}, "providers.mine.dialect.reasoning: unknown field 'contrl'; expected one of fields"),
        ({"limits": 5}, "providers.mine.dialect: "),
        ({"idz": "kimi"}, "providers.mine.dialect: unknown field 'idz'; expected one of ids"),
        ({"wire": "anthropic"}, "unknown field 'wire'"),
        ({"provider": "openai"}, "unknown field 'provider'"),
        ({"path": "no-slash"}, "invalid path 'no-slash'"),
        ({"file_ids": "file-("}, "invalid file_ids 'file-('"),
        ({"stream_usage": "yes"}, "providers.mine.dialect: "),
    ],
)  # fmt: skip
def test_a_wrong_field_of_a_dialect_is_named_with_its_key(fields: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        own(dialect=fields)
    assert told in str(caught.value) and "providers.mine.dialect" in str(caught.value)


def test_a_wrong_query_is_named_with_its_provider() -> None:
    with pytest.raises(ConfigError, match=r"providers\.mine: invalid query parameter 'v'"):
        own(query={"v": "a b"})
    assert own(query={"v": "1"}).resolve("mine/m").endpoint.query == {"v": "1"}


NO_ADDRESS = {
    "azure/x": "AZURE_OPENAI_ENDPOINT or AZURE_OPENAI_RESOURCE or AZURE_RESOURCE_NAME, or base_url in [providers.azure]",
    "vertex/gemini-3-pro": "GOOGLE_CLOUD_PROJECT or GCLOUD_PROJECT, or base_url in [providers.vertex]",
}


@pytest.mark.parametrize("name", NO_ADDRESS)
def test_a_missing_part_of_an_address_names_where_it_can_be_said(name: str) -> None:
    """The variable of the whole address, and two of those that the part is read from."""
    endpoint = REGISTRY.providers[name.partition("/")[0]].endpoint
    catalog = Catalog(Config(), environ={(*endpoint.bearer_env, *endpoint.key_env)[0]: "token"})
    with pytest.raises(ConfigError) as caught:
        catalog.auth_headers(catalog.resolve(name))
    assert str(caught.value).endswith(NO_ADDRESS[name])


def test_keys_that_were_written_into_the_configuration_are_known() -> None:
    settings = ProviderConfig(
        base_url="https://gate.example/v1",
        headers={"x-own-secret": "Bearer in-a-header", "x-team": "blue-and-green"},
        query={"sig": "in-a-query", "u": "like-0123456789abcdef", "api-version": "2026-01-01-preview"},
    )
    found = Catalog(Config(providers={"gate": settings}), environ={}).keys_at_hand()
    assert {key.reveal() for key in found.values()} == {"in-a-header", "in-a-query", "like-0123456789abcdef"}


@pytest.mark.parametrize("value", ["1", "eu", "us-central1", "gpt-4o-mini-2024-07-18", "projects", "2025.10.01"])
def test_a_plain_value_of_a_query_is_no_key(value: str) -> None:
    # It would be taken out of everything that the page shows, and of what a command says to a model.
    settings = ProviderConfig(base_url="https://gate.example/v1", query={"where": value})
    assert Catalog(Config(providers={"gate": settings}), environ={}).keys_at_hand() == {}
