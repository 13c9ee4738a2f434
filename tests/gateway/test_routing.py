"""From names to chains of models: one table of names, then permissions, weights, lists and exchange."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.client.catalog import Catalog
from midstream.client.config import Config, ProviderConfig
from midstream.core.errors import BadRequest, ConfigError, UnknownModel
from midstream.gateway.config import parse_config
from midstream.gateway.routing import LONGEST_NAME, Router, pattern_of
from midstream.gateway.tenants import LOCAL, Tenant
from midstream.sim.providers import sim_providers

ENVIRON = {"MOONSHOT_API_KEY": "x", "ANTHROPIC_API_KEY": "x"}
TOML = """
[aliases]
"claude-*" = "moonshot/kimi-k2-thinking"
"claude-sonnet-*" = "moonshot/kimi-k2.5"
"claude-sonnet-4-5" = "mistral/mistral-large-latest"
fast = ["groq/moonshotai/kimi-k2-instruct", "moonshot/kimi-k2.5"]
Loud = { models = ["moonshot/kimi-k2.5"], text_calls = "execute", missing_reasoning = "fail", display_name = "Very loud" }
split = { models = ["moonshot/kimi-k2.5", "anthropic/claude-sonnet-4-5", "mistral/mistral-large-latest"], weights = [3, 1, 0] }
dice = { models = ["moonshot/kimi-k2.5", "anthropic/claude-sonnet-4-5"], weights = [1, 1], sticky = false }
"""


def make_router(toml: str = TOML, environ: dict[str, str] | None = None, config: Config | None = None) -> Router:
    rows = [row for row in sim_providers("http://127.0.0.1:1") if row.name == "sim"]
    catalog = Catalog(config or Config(), environ=ENVIRON if environ is None else environ, providers=rows)
    return Router(parse_config(toml.encode(), "gateway.toml"), catalog)


ROUTER, TWIN = make_router(), make_router()
KIMI = "moonshot/kimi-k2.5"
MISTRAL = "mistral/mistral-large-latest"
CHAIN = "groq/moonshotai/kimi-k2-instruct", KIMI
NAMES = [
    ("claude-sonnet-4-5", (MISTRAL,)),  # an exact name beats patterns
    ("claude-sonnet-5", (KIMI,)),  # the longest pattern first
    ("claude-opus-5-5", ("moonshot/kimi-k2-thinking",)),
    ("CLAUDE-Sonnet-5", (KIMI,)),
    ("claude-sonnet-5[1m]", (KIMI,)),
    ("fast[1m]", CHAIN),
    (" fast ", CHAIN),
    ("models/fast", CHAIN),
    ("fast", CHAIN),
    ("FAST", CHAIN),
    ("anthropic/fast", CHAIN),
    ("anthropic/moonshot/kimi-k2.5", (KIMI,)),
    ("anthropic/sim/kimi-k2.5", ("sim/kimi-k2.5",)),
    ("anthropic/claude-sonnet-5", ("anthropic/claude-sonnet-5",)),  # a real model of Anthropic's
    ("anthropic/claude-sonnet-4-5", ("anthropic/claude-sonnet-4-5",)),  # though there is an alias without the prefix
    ("moonshot/kimi-k2.5", (KIMI,)),
    ("moonshot:kimi-k2.5", (KIMI,)),
    ("sim/kimi-k2.5", ("sim/kimi-k2.5",)),
    ("ollama/qwen3:4b", ("ollama/qwen3:4b",)),  # on this machine: needs no key
]


@pytest.mark.parametrize(("asked", "models"), NAMES)
def test_a_name_leads_to_its_models(asked: str, models: tuple[str, ...]) -> None:
    route = ROUTER.route(asked, LOCAL, "c")
    assert (route.asked, route.models) == (asked, models)
    assert ROUTER.route(asked, LOCAL, "c") == route


def test_without_anthropics_key_its_prefix_leads_to_a_pattern() -> None:
    router = make_router(environ={"MOONSHOT_API_KEY": "x"})
    assert router.route("anthropic/claude-sonnet-5", LOCAL).models == (KIMI,)
    assert router.route("anthropic/claude-sonnet-4-5", LOCAL).models == (MISTRAL,)


def test_a_listed_claude_id_leads_back() -> None:
    router = make_router('[aliases]\nfast = "moonshot/kimi-k2.5"')
    assert router.route("claude-fast", LOCAL).models == (KIMI,)


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("openai/gpt-5", "it has no key for openai: set OPENAI_API_KEY, or give it in config.toml. GET"),
        ("anthropic/openai/gpt-5", ""),
        ("fsat", "did you mean fast?"),
        ("kimi-k2.5", "kimi-k2.5"),
        ("", ""),
        ("[1m]", ""),
        ("models/", ""),
        ("anthropic/", ""),
        ("../../etc/passwd", ""),
        ("x" * 100_000, "..."),
        ("\ud800", ""),
        ("fast\n", "CHAIN"),
    ],
)
def test_an_unknown_name_says_what_was_meant(asked: str, meant: str) -> None:
    if meant == "CHAIN":
        assert ROUTER.route(asked, LOCAL).models == CHAIN
        return
    with pytest.raises(UnknownModel) as caught:
        ROUTER.route(asked, LOCAL)
    assert meant in str(caught.value) and "GET /v1/models" in str(caught.value)


def test_who_asks_for_a_double_that_is_not_there_is_told_how_to_get_it() -> None:
    router = Router(parse_config(b"", "gateway.toml"), Catalog(Config(), environ=ENVIRON))
    with pytest.raises(UnknownModel, match=r"where \[aliases\] or \[models\] allow in gateway.toml names them"):
        router.route("sim/kimi-k2.5", LOCAL)
    with pytest.raises(UnknownModel) as caught:
        router.route("simple", LOCAL)
    assert "doubles" not in str(caught.value)


@pytest.mark.parametrize(
    ("toml", "tenant"),
    [('[models]\nallow = ["moonshot/*"]', LOCAL), ("", Tenant("a", models=("moonshot/*",)))],
    ids=["not allowed to anybody", "a key for some models"],
)
def test_only_who_may_use_all_models_is_told_that_a_key_is_missing(toml: str, tenant: Tenant) -> None:
    with pytest.raises(UnknownModel) as caught:
        make_router(toml).route("openai/gpt-5", tenant)
    assert "OPENAI_API_KEY" not in str(caught.value)
    assert len(str(caught.value)) < 3 * LONGEST_NAME


def test_allow_decides_what_may_be_asked_for_directly() -> None:
    router = make_router(
        '[models]\nallow = ["moonshot/*", "openai/gpt-4o"]\n[aliases]\na = "anthropic/claude-sonnet-4-5"'
    )
    assert router.route("moonshot/kimi-k2.5", LOCAL).models == (KIMI,)
    assert router.route("openai/gpt-4o", LOCAL).models == ("openai/gpt-4o",)
    assert router.route("a", LOCAL).models == ("anthropic/claude-sonnet-4-5",)
    for name in ("anthropic/claude-sonnet-4-5", "openai/gpt-4o-mini", "sim/kimi-k2.5"):
        with pytest.raises(UnknownModel):
            router.route(name, LOCAL)
    with pytest.raises(UnknownModel):
        make_router("[models]\nallow = []").route("moonshot/kimi-k2.5", LOCAL)


def test_settings_come_from_the_key_the_alias_and_the_defaults() -> None:
    router = make_router(TOML + '[defaults]\ntext_calls = "reask"\nmissing_reasoning = "disable-thinking"\n')
    found = [
        (route.text_calls, route.missing_reasoning)
        for name in ("loud", "fast", KIMI)
        for tenant in (LOCAL, Tenant("t", text_calls="show"))
        for route in [router.route(name, tenant)]
    ]
    assert found == [
        ("execute", "fail"),
        ("show", "fail"),
        ("reask", "disable-thinking"),
        ("show", "disable-thinking"),
        ("reask", "disable-thinking"),
        ("show", "disable-thinking"),
    ]
    fields = make_router(
        TOML + '[defaults]\npass_fields = ["a"]\n[aliases.b]\nmodels = ["sim/x-gpt-4"]\npass_fields = []'
    )
    assert [fields.route(name, LOCAL, "c").fields for name in ("fast", "split", KIMI, "b")] == [("a",)] * 3 + [()]
    plain = ROUTER.route("fast", LOCAL)
    assert (plain.text_calls, plain.missing_reasoning) == ("show", "placeholder")


def test_a_clients_own_key_is_seen_by_one_provider_only() -> None:
    router = make_router(
        '[aliases]\na = ["moonshot/kimi-k2.5", "anthropic/claude-sonnet-4-5", "moonshot/kimi-k3"]\n'
        'b = { models = ["moonshot/kimi-k2.5", "moonshotx/x", "anthropic/claude-y"], weights = [0, 0, 1] }\n',
        config=Config(providers={"moonshotx": ProviderConfig(base_url="http://127.0.0.1:1")}),
    )
    assert len(router.route("a", LOCAL).models) == 3
    assert router.route("a", LOCAL, own_key=True).models == ("moonshot/kimi-k2.5", "moonshot/kimi-k3")
    assert router.route("b", LOCAL, "c", own_key=True).models == ("anthropic/claude-y",)
    assert router.route(KIMI, LOCAL, own_key=True).models == (KIMI,)


def test_an_alias_leads_to_the_full_names_of_its_models() -> None:
    router = make_router('[aliases]\na = "MOONSHOT:kimi-k2.5"\nb = "mine"', config=Config(aliases={"mine": KIMI}))
    assert router.route("a", LOCAL).models == router.route("b", LOCAL).models == (KIMI,)


PERMITTED = [
    (("fast",), "fast", True),
    (("FAST",), "fast", True),
    (("fast",), "anthropic/fast", True),
    (("fast",), "moonshot/kimi-k2.5", False),
    (("moonshot/*",), "moonshot/kimi-k2.5", True),
    (("moonshot/*",), "loud", True),  # every model behind it is allowed
    (("moonshot/*",), "fast", False),  # not every one is
    (("moonshot/*", "groq/*"), "fast", True),
    (("anthropic/*",), "anthropic/fast", False),  # a prefix that the client chose permits nothing
    (("anthropic/*",), "anthropic/moonshot/kimi-k2.5", False),
    (("claude-*",), "claude-sonnet-5", True),
    (("claude-*",), "anthropic/claude-sonnet-5", False),
    (("claude-sonnet-5",), "claude-sonnet-5", True),
    (("claude-sonnet-5",), "claude-sonnet-6", False),
    (("claude-sonnet-5*",), "claude-sonnet-5", False),  # another name could be made up in the same way
    (("claude-sonnet-*",), "claude-opus-5", False),
    ((), "fast", True),
    (("*",), "fast", True),
]


@pytest.mark.parametrize(("models", "asked", "permitted"), PERMITTED)
def test_a_key_may_use_what_it_lists(models: tuple[str, ...], asked: str, permitted: bool) -> None:
    tenant = Tenant("t", "key_1", models=models)
    if permitted:
        assert ROUTER.route(asked, tenant, "c").models
        return
    with pytest.raises(BadRequest) as caught:
        ROUTER.route(asked, tenant, "c")
    assert caught.value.status == 400 and models[0] in caught.value.message and asked in caught.value.message


def test_a_made_up_name_does_not_open_another_pattern() -> None:
    router = make_router('[aliases]\n"*-opus" = "anthropic/claude-opus-4-5"\n"claude-haiku-4-5" = "moonshot/kimi-k2.5"')
    haiku = Tenant("t", "key_1", models=("claude-haiku-*",))
    assert router.route("claude-haiku-4-5", haiku).models == (KIMI,)
    with pytest.raises(BadRequest):
        router.route("claude-haiku-opus", haiku)


def test_a_name_that_is_too_long_fits_no_pattern() -> None:
    router = make_router('[aliases]\n"*" = "moonshot/kimi-k2.5"')
    assert router.route("x" * LONGEST_NAME, LOCAL).models == (KIMI,)
    with pytest.raises(UnknownModel):
        router.route("x" * (LONGEST_NAME + 1), LOCAL)


def test_one_keys_permission_is_not_anothers() -> None:
    allowed, denied = Tenant("a", "1"), Tenant("b", "2", models=("fast",))
    for _ in range(2):
        assert ROUTER.route(KIMI, allowed).models == (KIMI,)
        with pytest.raises(BadRequest):
            ROUTER.route(KIMI, denied)


def test_weights_share_conversations_out() -> None:
    found = Counter(ROUTER.route("split", LOCAL, f"conversation {n}").models for n in range(4000))
    first, second = (KIMI, "anthropic/claude-sonnet-4-5", MISTRAL), ("anthropic/claude-sonnet-4-5", KIMI, MISTRAL)
    assert set(found) == {first, second}  # whose weight is 0 is a fallback only
    assert 2850 < found[first] < 3150  # three of four


@given(st.text(min_size=1, max_size=30))
def test_a_conversation_keeps_its_model(conversation: str) -> None:
    first = ROUTER.route("split", LOCAL, conversation)
    assert first == ROUTER.route("split", LOCAL, conversation) == TWIN.route("split", LOCAL, conversation)
    assert first.sticky


def test_a_conversation_keeps_its_model_in_another_process() -> None:
    code = (
        "from tests.gateway.test_routing import ROUTER, LOCAL\n"
        "print([ROUTER.route('split', LOCAL, f'{n}').models[0] for n in range(40)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = [ROUTER.route("split", LOCAL, f"{n}").models[0] for n in range(40)]
    assert done.stdout.strip() == str(here) and len(set(here)) == 2


def test_a_change_of_weights_moves_no_more_than_it_must() -> None:
    before, after = make_router(), make_router(TOML.replace("weights = [3, 1, 0]", "weights = [3, 2, 0]"))
    moved = Counter()
    for n in range(2000):
        was, now = [router.route("split", LOCAL, f"{n}").models[0] for router in (before, after)]
        moved[was, now] += was != now
    assert moved["anthropic/claude-sonnet-4-5", KIMI] == 0  # nobody leaves the model that gained
    assert 200 < moved[KIMI, "anthropic/claude-sonnet-4-5"] < 400  # 3/4 - 3/5 of 2000 is 300


def test_without_stickiness_each_request_is_placed_anew() -> None:
    found = Counter(ROUTER.route("dice", LOCAL, "same").models[0] for _ in range(400))
    assert len(found) == 2 and min(found.values()) > 140
    assert not ROUTER.route("dice", LOCAL, "same").sticky
    assert len({ROUTER.route("split", LOCAL, "").models[0] for _ in range(100)}) == 2  # nothing to keep it by


def test_lists_show_what_a_tenant_may_ask_for() -> None:
    listed = {each.id: each for each in ROUTER.listed(LOCAL)}
    assert list(listed)[:4] == ["claude-sonnet-4-5", "fast", "Loud", "split"]
    assert listed["claude-opus-5"].target == "moonshot/kimi-k2-thinking"  # a known name that fits a pattern
    assert "claude-*" not in listed and "openai/gpt-4o" not in listed  # a pattern; no key
    assert {KIMI, "sim/kimi-k2.5", "anthropic/claude-sonnet-4-5"} <= set(listed)
    assert not [name for name in listed if name.startswith("ollama/")]  # nobody spoke of it
    assert listed["Loud"].display_name == "Very loud" and listed["Loud"].target == KIMI
    assert listed[KIMI].display_name == "Kimi K2.5"
    assert listed["fast"].claude_id == "anthropic/fast" and listed["claude-sonnet-4-5"].claude_id == "claude-sonnet-4-5"
    some = [each.id for each in ROUTER.listed(Tenant("t", "k", models=("moonshot/*", "fast")))]
    assert some[:2] == ["fast", "Loud"]
    assert all(each.startswith(("moonshot/", "claude-")) for each in some[2:]) and len(some) > 3
    assert ROUTER.served() == list(listed)


def test_a_key_for_a_pattern_is_shown_the_names_that_fit() -> None:
    """The key that the team guide makes, and a picker that lists what it may use."""
    claude = Tenant("t", "k", models=("claude-*",))
    shown = [each.id for each in ROUTER.listed(claude)]
    assert "claude-sonnet-4-5" in shown and "claude-opus-5" in shown
    assert all(name.startswith("claude-") for name in shown)
    for name in shown:
        assert ROUTER.route(name, claude).models
    sonnets = [each.id for each in ROUTER.listed(Tenant("t", "k", models=("claude-sonnet-*",)))]
    assert sonnets and all(name.startswith("claude-sonnet-") for name in sonnets)
    # A pattern for whatever is asked lists no names: all of them would lead to one model.
    alone = make_router('[aliases]\n"*" = "moonshot/kimi-k2.5"\n')
    assert not [each for each in alone.listed(LOCAL) if each.alias]


def test_every_listed_id_leads_to_its_target() -> None:
    for each in ROUTER.listed(LOCAL):
        for name in (each.id, each.claude_id, f"{each.claude_id}[1m]"):
            assert each.target in ROUTER.route(name, LOCAL, "c").models, name
        assert each.claude_id.startswith(("claude", "anthropic"))


def test_hosts_and_aliases_of_the_operators_own_are_served() -> None:
    config = Config(
        providers={
            "work": ProviderConfig(base_url="http://127.0.0.1:8080/v1"),
            "ollama": ProviderConfig(like="ollama"),
        },
        aliases={"mine": "work/some-model"},
    )
    router = make_router("", config=config)
    assert router.route("work/anything", LOCAL).models == ("work/anything",)
    assert router.route("mine", LOCAL).models == ("work/some-model",)
    listed = [each.id for each in router.listed(LOCAL)]
    assert "mine" in listed and any(name.startswith("ollama/") for name in listed)


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        (
            '[aliases]\nfast = "mooonshot/kimi-k2.5"',
            "gateway.toml: aliases.fast: unknown provider 'mooonshot'; did you mean",
        ),
        ('[aliases]\n"a-*" = "kimi-k2.5"', "aliases.\"a-*\": 'kimi-k2.5' does not name a provider"),
        ('[aliases]\na = "moonshot/kimi-k2.5"\nb = "a"', "an alias leads to models, not to another alias"),
        ('[aliases]\na = ["moonshot/kimi-k2.5", "moonshot:kimi-k2.5"]', "aliases.a: two names lead to the same model"),
        ('[aliases]\na = "moonshot/kimi-k2.5"\nA = "moonshot/kimi-k3"', "aliases.A: this name is already there as 'a'"),
    ],
)
def test_an_alias_that_leads_nowhere_is_an_error_at_the_start(toml: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_router(toml)
    assert says in str(caught.value)


def test_a_configuration_is_exchanged_whole_or_not_at_all() -> None:
    router = make_router()
    assert router.route("fast", LOCAL).models == CHAIN
    with pytest.raises(ConfigError):
        router.replace(parse_config(b'[aliases]\nfast = "moonshot/kimi-k3"\nbad = "nowhere/x"', "gateway.toml"))
    assert router.route("fast", LOCAL).models == CHAIN and "bad" not in router.served()
    router.replace(parse_config(b'[aliases]\nfast = "moonshot/kimi-k3"', "gateway.toml"))
    assert router.route("fast", LOCAL).models == ("moonshot/kimi-k3",)
    assert router.config.aliases[0].models == ("moonshot/kimi-k3",)
    with pytest.raises(UnknownModel):
        router.route("split", LOCAL)


def test_names_that_clients_make_up_are_forgotten() -> None:
    router = make_router()
    for n in range(10_000):
        router.route(f"claude-{n}", LOCAL)
    assert len(router._table.routes) <= 4096


@given(st.text(max_size=40), st.sampled_from(["fast", "claude-*", "moonshot/*"]))
def test_any_name_gets_a_route_or_a_typed_refusal(asked: str, model: str) -> None:
    try:
        assert ROUTER.route(asked, Tenant("t", "k", models=(model,)), asked).models
    except (UnknownModel, BadRequest):
        pass


@given(st.text("ab*.[", max_size=8), st.text("ab.[", max_size=8))
def test_only_the_star_is_special_in_a_pattern(pattern: str, name: str) -> None:
    parts = pattern.split("*")
    fits = bool(pattern_of(pattern).fullmatch(name))
    if "*" not in pattern:
        assert fits == (pattern == name)
    elif fits:
        assert name.startswith(parts[0]) and name.endswith(parts[-1])
