"""Budgets rest on prices: a listed model has its own, and what one without a price counts is the operator's to say."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from midstream.cli.main import main
from midstream.client.catalog import Catalog
from midstream.client.config import Config, ProviderConfig
from midstream.client.prices import price_of
from midstream.core.blocks import Usage
from midstream.gateway.config import load_config, parse_config
from midstream.gateway.routing import Router, tell_unpriced
from tests.gateway.serving import asynchronous, gate
from tests.gateway.test_hostile import keyed, running
from tests.gateway.upstream import upstream

CHAT = {"messages": [{"role": "user", "content": "hi"}]}
PATH = "/v1/chat/completions"
CHAIN = '[aliases]\nx = ["rude/new", "anthropic/claude-opus-5"]\n'


@asynchronous
async def test_a_budget_holds_for_a_listed_model() -> None:
    async with gate() as gateway:
        id, key = await keyed(gateway, spend=0.0001, spend_window="total")
        body = {"model": "anthropic/claude-opus-5", **CHAT}
        assert [(await gateway.post(PATH, body, **key))[0] for _ in range(4)] == [200, 429, 429, 429]
        await running(gateway).limiter.sync()
        assert await running(gateway).state.spend(id, "total") > 100  # micro-dollars


@pytest.mark.parametrize(
    ("setting", "statuses"),
    [("", [200, 200, 200]), ('unpriced = "free"', [200, 200, 200]), ('unpriced = "refuse"', [400, 400, 400])],
    ids=["default", "free", "refuse"],
)
@asynchronous
async def test_what_a_model_without_a_price_counts(setting: str, statuses: list[int]) -> None:
    async with upstream() as rude, gate(f"[keys]\n{setting}", more=[rude.provider()]) as gateway:
        _, key = await keyed(gateway, spend=0.0001, spend_window="total")
        answers = [await gateway.post(PATH, {"model": "rude/new", **CHAT}, **key) for _ in statuses]
        assert [status for status, _, _ in answers] == statuses
        if "refuse" in setting:
            assert answers[0][2]["error"]["code"] == "model_unpriced" and "input_price" in str(answers[0][2])
            assert rude.asked == []
            # A key without a budget is not asked what it costs.
            _, free = await keyed(gateway)
            assert (await gateway.post(PATH, {"model": "rude/new", **CHAT}, **free))[0] == 200


@asynchronous
async def test_the_dearest_model_here_stands_in() -> None:
    usage = Usage(1_000_000, 1_000_000)
    async with upstream() as rude, gate(CHAIN, more=[rude.provider()]) as gateway:
        app = running(gateway)
        target = app.client.catalog.resolve("rude/new")
        assert app.cost(target, usage) is None
        app.router.replace(parse_config((CHAIN + '[keys]\nunpriced = "dearest"').encode(), "gateway.toml"))
        app.forget_prices()
        served = [price_of(*name.split("/", 1)) for name in app.router.targets()]  # type: ignore[arg-type]
        dearest = app.cost(target, usage)
        assert dearest is not None and dearest == max(price.cost(usage) for price in served if price is not None)


@asynchronous
async def test_a_chain_goes_on_with_what_has_a_price() -> None:
    async with upstream() as rude, gate(CHAIN + '[keys]\nunpriced = "refuse"', more=[rude.provider()]) as gateway:
        _, key = await keyed(gateway, spend=1.0, spend_window="total")
        status, headers, _ = await gateway.post(PATH, {"model": "x", **CHAT}, **key)
        assert (status, headers["x-midstream-model"], rude.asked) == (200, "anthropic/claude-opus-5", [])


@pytest.mark.parametrize(
    ("name", "known"),
    [("openrouter/new/model", True), ("deepinfra/new/model", True), ("own/new", True), ("work/new", False)],
)
def test_a_host_that_says_what_it_costs_needs_no_price(name: str, known: bool) -> None:
    config = Config(providers={"own": ProviderConfig(like="openrouter"), "work": ProviderConfig()})
    catalog = Catalog(config, environ={})
    assert catalog.has_price(catalog.resolve(name)) is known


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIDSTREAM_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.toml").write_text('[providers.work]\nbase_url = "http://127.0.0.1:9/v1"\nauth = "none"\n')
    (tmp_path / "gateway.toml").write_text(
        '[aliases]\nfast = "work/new"\nbest = "anthropic/claude-opus-5"\n[state]\nurl = "gateway.db"\n'
    )
    return tmp_path


def run(*args: str) -> str:
    result = CliRunner().invoke(main, ["gateway", *args])
    assert result.exit_code == 0, result.output
    return result.output


def test_models_without_a_price_are_named(home: Path) -> None:
    checked = run("check", "gateway.toml")
    assert "No price is known of work/new: what they answer counts nothing against a budget." in checked
    run("keys", "create", "--name", "ci", "--spend", "1/day")
    run("keys", "create", "--name", "best", "--spend", "1/day", "--models", "best")
    run("keys", "create", "--name", "me")
    told = [line for line in run("keys", "list").splitlines() if "no price is known" in line]
    assert len(told) == 1 and "has a budget, and no price is known of work/new" in told[0]
    assert run("keys", "list", "--json").count('"unpriced":["work/new"]') == 1
    priced = '[models."work/new"]\ninput_price = 0\noutput_price = 0\n'
    (home / "config.toml").write_text((home / "config.toml").read_text() + priced)
    assert "rice is known" not in run("check", "gateway.toml") + run("keys", "list")


def test_they_are_named_at_the_start_and_after_a_reload(home: Path) -> None:
    router = Router(load_config(home / "gateway.toml"), Catalog())
    assert "work/new: what they answer counts nothing" in tell_unpriced(router)
    router.replace(parse_config(b"[aliases]\nfast = 'work/new'\n[keys]\nunpriced = 'refuse'", "gateway.toml"))
    assert "work/new: keys with a budget may not use them" in tell_unpriced(router)
    router.replace(parse_config(b"[aliases]\nbest = 'anthropic/claude-opus-5'", "gateway.toml"))
    assert "work/new" not in tell_unpriced(router)
