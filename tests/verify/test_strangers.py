"""A dialect for a host that nobody has written one for: verified, added to the configuration, and then nothing is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from midstream.cli.main import main
from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import ProviderConfig, load_config
from midstream.client.session import Session
from midstream.core.blocks import Text, ToolResponse, Turn
from midstream.core.errors import ProviderError
from midstream.doctor.matrix import TOOLS, hand_offs
from midstream.sim.players import Player, make_players
from midstream.sim.server import Sim
from midstream.verify.discovery import DISCOVERY
from midstream.verify.interview import make_client
from midstream.verify.verification import Verification
from midstream.verify.verified import read_verified, to_toml
from tests.event_loops import run
from tests.long_run import LONG
from tests.verify.stage import asked, no_sleep
from tests.verify.strangers import DEMANDS, STRANGERS, demanding

# The histories of every maker, those of the whole matrix; without the long run one of each wire and of each way to carry reasoning.
MAKERS = (
    tuple(make_players())
    if LONG
    else ("moonshot-k2.5", "claude", "openai-responses-5", "mistral", "gemini", "deepseek-reasoner", "qwen", "ollama")
)
ASKED = "List the files and read a.txt, then read b.txt, then list the files, then read c.txt. What did you see?"
EXPECTED: dict[str, dict[str, Any]] = {
    "acme": {"ids": "mistral"},
    "mulberry": {"ids": "kimi", "reasoning": {"field": "thoughts", "echo": "calls", "required": True}},
    "juniper": {"max_tokens_field": "max_completion_tokens", "stream_usage": False, "leaks": "xml"},
}


async def four_rounds(client: Client, model: str) -> list[Turn]:
    """A tool loop over HTTP, through the session that users have."""
    session = Session(model, tools=TOOLS[:2], client=client, system="Be brief.")
    turns = [await session.send(ASKED)]
    while turns[-1].tool_calls and len(turns) < 8:
        answers = [ToolResponse(call.id, call.name, (Text("a.txt b.txt c.txt"),)) for call in turns[-1].tool_calls]
        await session.add(Turn("tool", tuple(answers)))
        turns.append(await session.send())
    return turns


def handed_over(catalog: Catalog, provider: str, stranger: str) -> tuple[int, int]:
    """Histories of all makers, and how many of them the host refuses as this provider's dialect writes them."""
    players = make_players()
    reader = Player(catalog.resolve(f"{provider}/lumen-1"), STRANGERS[stranger].host)
    found = list(hand_offs({maker: players[maker] for maker in MAKERS}, readers={provider: reader}))
    return len(found), sum(1 for each in found if each.problems)


@pytest.mark.parametrize("name", STRANGERS)
def test_verify_and_add_make_a_dialect_that_is_never_refused(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("MIDSTREAM_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    async def play() -> tuple[int, int]:
        async with Sim(strangers=STRANGERS.values()) as sim:
            (tmp_path / "config.toml").write_text(f'# mine\n[providers.{name}]\nbase_url = "{sim.url}/{name}"\n')
            plain = Catalog(load_config(tmp_path), environ={})
            async with make_client(plain) as client:
                before = await refusals(sim, client, f"{name}/lumen-1")
                verification = Verification(f"{name}/lumen-1", ("quick", "contract"))
                found = await verification.run(client, sleep=no_sleep)
            assert found.report.host.verdict("dialect.fits") == "fail"
            told = tmp_path / "verified.toml"
            told.write_text(to_toml(found.verified))
            added = CliRunner().invoke(main, ["models", "add", f"{name}-2", "--from", str(told), "--yes"])
            assert added.exit_code == 0, added.output
            catalog = Catalog(load_config(tmp_path), environ={})
            async with make_client(catalog) as client:
                after = await refusals(sim, client, f"{name}-2/lumen-1")
                again = Verification(f"{name}-2/lumen-1", ("contract",))
                assert (await again.run(client, sleep=no_sleep)).report.host.verdict("dialect.fits") == "pass"
            total, refused = handed_over(plain, name, name)
            assert handed_over(catalog, f"{name}-2", name) == (total, 0)
            # The leaky host refuses no shape of a history, only fields around it; those are refused in the rounds.
            assert refused > 0 or name == "juniper"
            return before, after

    before, after = run(play(), limit=300)
    assert before > 0 and after == 0
    text = (tmp_path / "config.toml").read_text()
    assert text.startswith("# mine\n") and f"[providers.{name}-2.dialect]" in text
    verified = read_verified(tmp_path / "verified.toml").dialect
    for field, value in EXPECTED[name].items():
        if isinstance(value, dict):
            assert {key: verified[field][key] for key in value} == value
        else:
            assert verified[field] == value


@pytest.mark.parametrize("name", DEMANDS)
def test_a_demand_is_found_by_trying(name: str) -> None:
    stranger, wanted = DEMANDS[name]

    async def play() -> dict[str, Any]:
        async with Sim(strangers=(stranger,)) as sim:
            providers = {"acme": ProviderConfig(base_url=f"{sim.url}/{stranger.name}")}
            found, judged = await asked(sim, "acme/lumen-1", [DISCOVERY], providers=providers)
            assert judged["dialect.fits"].verdict == "fail" and "unsolved" not in found.facts, found.facts
            return dict(found.facts["dialect"])

    changes = run(play())
    told = {field: value for field, value in changes.items() if field != "reasoning"}
    assert told == {field: value for field, value in wanted.items() if field != "reasoning"}
    assert wanted.get("reasoning", {}).items() <= changes.get("reasoning", {}).items()


def test_what_no_change_cures_is_said() -> None:
    def never(body: Any, traits: Any) -> Any:
        yield "this host is closed"

    async def play() -> None:
        async with Sim(strangers=(demanding("closed", never),)) as sim:
            providers = {"acme": ProviderConfig(base_url=f"{sim.url}/closed")}
            found, judged = await asked(sim, "acme/lumen-1", [DISCOVERY], providers=providers)
            assert "this host is closed" in found.facts["unsolved"] and not found.facts["dialect"]
            assert judged["dialect.fits"].verdict == "fail" and sim.requests < 200

    run(play())


async def refusals(sim: Sim, client: Client, model: str) -> int:
    """How often the host refuses in a tool loop of four rounds; a loop that cannot be finished counts once."""
    seen = sim.refusals
    try:
        turns = await four_rounds(client, model)
    except ProviderError:
        return sim.refusals - seen
    assert [len(turn.tool_calls) for turn in turns] == [2, 1, 1, 1, 0], turns
    return sim.refusals - seen
