"""The same words name the same models for `ask -m`, `chat -m` and `/model`, and are answered with the same suggestions."""

from __future__ import annotations

from pathlib import Path

import pytest

from midstream.cli.main import USAGE
from midstream.cli.model_name import find_model
from midstream.client.catalog import Catalog
from midstream.client.config import Config, ModelConfig, ProviderConfig
from midstream.core.errors import UnknownModel
from midstream.sim.providers import sim_provider

from .conftest import Cli
from .test_commands import Script

SUGGESTED = {
    "moonshto/kimi-k2.5": "moonshot/kimi-k2.5",
    "smi/kimi-k2.5": "sim/kimi-k2.5",
    "sim:kimi": "",
    "kimi-k2.55": "moonshot/kimi-k2.5",
    "fsat": "fast",
    "anthropic/claud-sonnet-4-5": "",
    "sim/nothing-we-play": "",
}
"""A word, and what is suggested for it if it is not a model."""


@pytest.fixture
def script(environ: dict[str, str]) -> Script:
    return Script(environ)


@pytest.mark.parametrize("word", SUGGESTED)
def test_all_three_say_the_same(cli: Cli, script: Script, home: Path, word: str) -> None:
    home.mkdir()
    (home / "config.toml").write_text('[aliases]\nfast = "sim/gpt-4o"\n')
    asked = cli("ask", "-m", word, "Hello")
    _, chatted = script("Hello", args=("-m", word))
    code = script.code
    for start in ("sim/kimi-k2.5", "fast"):  # whether or not the doubles are running
        _, switched = script(f"/model {word}", args=("-m", start))
        said = [line for line in switched.splitlines() if line.startswith("midstream: ")]
        assert said == asked.stderr.splitlines()[-1:] or asked.exit_code == 0, switched
    assert chatted.splitlines()[-1:] == asked.stderr.splitlines()[-1:] or asked.exit_code == 0
    if SUGGESTED[word]:
        assert (asked.exit_code, code) == (USAGE, USAGE)
        assert f"did you mean {SUGGESTED[word]}" in asked.stderr.replace(" or ", " did you mean ")


CATALOG = {
    "kimi-k2.5": "moonshot/kimi-k2.5",
    "Kimi-K2.5": "moonshot/kimi-k2.5",
    " kimi-k2.5 ": "moonshot/kimi-k2.5",
    "claude-sonnet-4-5": "anthropic/claude-sonnet-4-5",
    "fast": "fast",
    "sim/kimi-k2.5": "sim/kimi-k2.5",
    "openrouter/some/model": "openrouter/some/model",
}


@pytest.mark.parametrize("word", CATALOG)
def test_a_bare_name_is_the_first_providers_that_lists_it(word: str) -> None:
    catalog = Catalog(Config(aliases={"fast": "sim/gpt-4o"}), environ={}, providers=[sim_provider("http://127.0.0.1")])
    assert find_model(catalog, word) == CATALOG[word]


def test_a_bare_name_goes_where_there_is_a_key() -> None:
    catalog = Catalog(Config(), environ={"DEEPINFRA_API_KEY": "k"}, providers=[sim_provider("http://127.0.0.1")])
    assert find_model(catalog, "kimi-k2.5") == "deepinfra/moonshotai/Kimi-K2.5"


def test_a_model_of_the_configuration_is_a_listed_one() -> None:
    work = Config(
        providers={"work": ProviderConfig(base_url="http://127.0.0.1/v1")},
        models={"work/Acme-7B": ModelConfig(tools=False), "gone/x": ModelConfig(), "work/kimi-k2.5": ModelConfig()},
    )
    catalog = Catalog(work, environ={}, providers=[sim_provider("http://127.0.0.1")])
    assert catalog.names()[:2] == ["work/Acme-7B", "work/kimi-k2.5"]
    assert find_model(catalog, "acme-7b") == "work/Acme-7B"
    assert find_model(catalog, "kimi-k2.5") == "work/kimi-k2.5"
    with pytest.raises(UnknownModel, match=r"did you mean work/Acme-7B\?"):
        find_model(catalog, "wrk/acme-7b")


def test_bare_names_work_everywhere(cli: Cli, script: Script, environ: dict[str, str]) -> None:
    environ["MOONSHOT_API_KEY"] = "k"
    assert "set ANTHROPIC_API_KEY" in cli("ask", "-m", "claude-sonnet-4-5", "Hello").stderr
    _, err = script("/model kimi-k2.5", "/model")
    assert err.count("model: moonshot/kimi-k2.5") == 2


def test_sim_can_be_chosen_as_a_provider_before_it_runs(script: Script, environ: dict[str, str]) -> None:
    environ["MOONSHOT_API_KEY"] = "k"
    out, err = script("/provider", "/provider sim", "Hello", args=("-m", "moonshot/kimi-k2.5"))
    assert "  sim: needs no key" in err and "model: sim/kimi-k2.5" in err
    assert out == "This is kimi-k2.5. You said: Hello\n"
