"""`midstream verify` and `midstream models add` in the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from midstream.cli.main import main
from midstream.client.config import load_config
from midstream.testing import SimServer, sim_server

VERIFIED = """
version = 1
suites = ["contract"]
checked = "2026-11-17"
[host]
model = "lumen-1"
like = "openai-compatible"
wire = "openai-chat"
base_url = "http://127.0.0.1:9/v1"
auth = "bearer"
api_key_env = "LUMEN_KEY"
[facts]
id_shape = "nine"
[dialect]
ids = "mistral"
reasoning = { field = "thoughts", echo = "calls" }
[checks]
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIDSTREAM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture(scope="module")
def sim() -> Iterator[SimServer]:
    with sim_server() as server:
        yield server


def midstream(*words: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(main, words, input=typed)


def test_a_double_needs_no_question(tmp_path: Path) -> None:
    done = midstream("verify", "sim/kimi-k2.5", "--html", "r.html", "--json", "r.json", "--toml", "v.toml")
    assert done.exit_code == 0, done.output
    assert "sim/kimi-k2.5: 29 pass, 0 fail, 1 not offered, 0 not sure" in done.output
    assert json.loads((tmp_path / "r.json").read_text())["host"]["model"] == "sim/kimi-k2.5"
    assert "<svg" in (tmp_path / "r.html").read_text() and "[facts]" in (tmp_path / "v.toml").read_text()


def test_json_alone_on_standard_output() -> None:
    done = midstream("verify", "sim/gpt-4o", "--suite", "loop", "--json", "-")
    assert json.loads(done.stdout)["suites"] == ["loop"]


def test_a_failure_is_1(monkeypatch: pytest.MonkeyPatch) -> None:
    with sim_server(always=["leak"]) as leaky:
        monkeypatch.setenv("OPENAI_BASE_URL", leaky.base_url("openai"))
        monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
        done = midstream("verify", "openai/gpt-4o")
        assert done.exit_code == 1 and "FAIL leak.text" in done.output
        assert "sk-canary-0123456789" not in done.output


def test_money_is_spoken_of_before_anything_is_sent(sim: SimServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOONSHOT_API_KEY", "sk-x")
    before = sim.requests
    unasked = midstream("verify", "moonshot/kimi-k2.5")
    assert (
        unasked.exit_code == 2
        and "say --max-cost USD" in unasked.output
        and "15 requests, about $0.0" in unasked.output
    )
    dear = midstream("verify", "moonshot/kimi-k2.5", "--suite", "contract", "--runs", "100", "--max-cost", "0.01")
    assert dear.exit_code == 2 and "more than --max-cost 0.01 allows" in dear.output
    assert sim.requests == before


def test_no_key_and_no_such_model_and_no_such_suite() -> None:
    assert "no key for moonshot" in midstream("verify", "moonshot/kimi-k2.5").output
    assert midstream("verify", "nobody/x").exit_code == 2
    assert "unknown suite 'slow'" in midstream("verify", "sim/gpt-4o", "--suite", "slow").output


def test_models_are_still_listed() -> None:
    assert "moonshot/kimi-k3" in midstream("models", "kimi-k3").output
    assert "moonshot/kimi-k3" in midstream("models").output
    assert json.loads(midstream("models", "--json", "moonshot/kimi-k3").stdout.splitlines()[0])["wire"] == "openai-chat"
    assert "add" in midstream("models", "--help").output


def test_a_verified_host_is_shown_and_written_when_the_user_says_so(home: Path, tmp_path: Path) -> None:
    source = tmp_path / "verified.toml"
    source.write_text(VERIFIED)
    config = home / "config.toml"
    refused = midstream("models", "add", "acme", "--from", str(source))
    assert refused.exit_code == 2 and "add --yes" in refused.output and not config.exists()
    added = midstream("models", "add", "acme", "--from", str(source), "--yes")
    assert added.exit_code == 0, added.output
    assert "[providers.acme.dialect]" in added.output and config.stat().st_mode & 0o777 == 0o600
    provider = load_config(tmp_path).config.providers["acme"]
    assert (provider.base_url, provider.api_key_env) == ("http://127.0.0.1:9/v1", "LUMEN_KEY")
    assert provider.dialect == {"ids": "mistral", "reasoning": {"field": "thoughts", "echo": "calls"}}
    again = midstream("models", "add", "acme", "--from", str(source), "--yes")
    assert again.exit_code == 1 and "is already in your configuration" in again.output


def test_what_the_user_wrote_stays_as_it_was(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    mine = '# my settings\ndefault_model = "sim/gpt-4o"   # cheap'
    (home / "config.toml").write_text(mine)
    (tmp_path / "verified.toml").write_text(VERIFIED)
    assert (
        midstream(
            "models", "add", "acme", "--from", "verified.toml", "--base-url", "http://127.0.0.1:8/v1", "--yes"
        ).exit_code
        == 0
    )
    text = (home / "config.toml").read_text()
    assert text.startswith(mine + "\n\n") and load_config(tmp_path).config.default_model == "sim/gpt-4o"
    assert load_config(tmp_path).config.providers["acme"].base_url == "http://127.0.0.1:8/v1"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("moonshot", VERIFIED, "is a provider that midstream already knows"),
        ("a/b", VERIFIED, "invalid name 'a/b'"),
        ("acme", VERIFIED.replace('"mistral"', '"nonsense"'), "Invalid enum value 'nonsense'"),
        ("acme", VERIFIED.replace("openai-compatible", "nobody"), "unknown provider 'nobody'"),
        ("acme", "version = 1", "expected a file that `midstream verify --toml` wrote"),
        ("acme", VERIFIED + '[evil]\nkey = "x"', "expected a file that"),
    ],
)
def test_a_wrong_name_or_file_changes_nothing(name: str, text: str, words: str, home: Path, tmp_path: Path) -> None:
    (tmp_path / "verified.toml").write_text(text)
    done = midstream("models", "add", name, "--from", "verified.toml", "--yes")
    assert done.exit_code == 1 and words in done.output and not (home / "config.toml").exists()


def test_a_host_that_fails_is_75_and_resumed_when_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
    monkeypatch.setattr("midstream.verify.interview._WAIT", 0.0)
    words = ("verify", "openai/gpt-4o", "--suite", "quick", "--suite", "loop", "--concurrency", "1")
    # What is asked first is answered; from there on, nothing is.
    with sim_server(faults=["ignore-format"] * 6 + ["500"] * 200) as broken:
        monkeypatch.setenv("OPENAI_BASE_URL", broken.base_url("openai"))
        done = midstream(*words)
        assert done.exit_code == 75 and "Not finished: " in done.output, done.output
        assert "could not finish: failed 3 times" in done.output
    with sim_server() as back:
        monkeypatch.setenv("OPENAI_BASE_URL", back.base_url("openai"))
        again = midstream(*words, "--resume")
        assert again.exit_code == 0 and 0 < back.requests < 24, again.output
        # It is over: the next one begins anew.
        assert midstream(*words, "--resume").exit_code == 0 and back.requests > 24
