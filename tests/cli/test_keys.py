"""`midstream keys`: set without showing, list without showing, remove."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from keyring import core as keyring_core
from keyring.backends.fail import Keyring as NoKeyring

from midstream.cli.gateway import needs_doubles
from midstream.cli.main import OK, USAGE
from midstream.client.catalog import Catalog
from midstream.gateway.config import GatewayConfig
from midstream.gateway.routing import Router
from tests.client.memory_keyring import MemoryKeyring

from .conftest import Cli
from .terminal import Terminal

KEY = "sk-canary-4a9f0c77d1Qz8mWx2"


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring_core, "_keyring_backend", NoKeyring())


def test_a_key_is_piped_in_listed_used_and_removed(cli: Cli, home: Path) -> None:
    stored = cli("keys", "set", "moonshot", "--stdin", stdin=f"{KEY}\n")
    assert stored.exit_code == OK
    assert (
        f"stored the key of moonshot in {home}/keys.json in plain text, in a file that only you can read"
        in stored.output
    )
    assert "not in a keyring" in stored.output
    assert json.loads((home / "keys.json").read_text()) == {"moonshot": {"key": KEY}}
    for listed in (cli("keys"), cli("keys", "list")):
        assert listed.output == f"moonshot             {home}/keys.json\nmoonshot-anthropic   {home}/keys.json\n"
    assert "stored in keys.json" in cli("models", "moonshot/kimi-k2.5").output
    shown = cli("config", "show", "--origin").output
    assert "providers.moonshot.api_key = (set)    # keys.json" in shown
    assert "default_model = moonshot/" in shown and "# the key of moonshot is stored" in shown
    removed = cli("keys", "remove", "moonshot")
    assert removed.output == f"removed the key of moonshot from {home}/keys.json\n"
    assert cli("keys").output.startswith("no keys; `midstream keys set PROVIDER` stores one")
    again = cli("keys", "remove", "moonshot")
    assert (again.exit_code, KEY in again.output) == (USAGE, False)


def test_with_a_keyring_it_says_so(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = MemoryKeyring()
    monkeypatch.setattr(keyring_core, "_keyring_backend", backend)
    stored = cli("keys", "set", "groq", "--stdin", stdin=KEY)
    assert stored.output == "stored the key of groq in the system's keyring (Memory)\n"
    assert cli("keys", "list", "--json").output == '{"provider":"groq","from":"keyring","stored":"keyring"}\n'
    assert KEY not in (home / "keys.json").read_text()
    assert "file that only you can read" in cli("keys", "set", "groq", "--file", "--stdin", stdin=KEY).output
    assert backend.kept == {}


def test_the_environment_comes_first_and_that_is_told(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "sk-environment")
    assert "note: GROQ_API_KEY comes first" in cli("keys", "set", "groq", "--stdin", stdin=KEY).output
    assert cli("keys").output == f"groq                 $GROQ_API_KEY (also stored in {home}/keys.json, not used)\n"
    assert "note: GROQ_API_KEY still gives groq a key" in cli("keys", "remove", "groq").output


REFUSED = [
    ("a key as an argument", ("set", "moonshot", KEY), "", "a key is not given as an argument"),
    ("two of them", ("set", "moonshot", KEY, "more"), "", "a key is not given as an argument"),
    ("an unknown provider", ("set", "moonshoot", "--stdin"), KEY, "did you mean moonshot"),
    ("an unknown one to remove", ("remove", "moonshoot"), "", "did you mean moonshot"),
    ("nothing piped in", ("set", "moonshot", "--stdin"), "", "it is empty"),
    ("more than a key", ("set", "moonshot", "--stdin"), f"{KEY} {KEY}", "without blanks"),
    ("a pipe without --stdin", ("set", "moonshot"), KEY, "add --stdin"),
]


@pytest.mark.parametrize(("args", "stdin", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_refused_says_what_to_do_and_repeats_no_key(
    cli: Cli, home: Path, args: tuple[str, ...], stdin: str, words: str
) -> None:
    result = cli("keys", *args, stdin=stdin)
    assert result.exit_code == USAGE
    assert words in result.output
    assert KEY not in result.output
    assert not (home / "keys.json").exists()


def test_a_spelling_of_a_provider_is_the_provider(cli: Cli, home: Path) -> None:
    assert "the key of moonshot in" in cli("keys", "set", "MoonshotAI", "--stdin", stdin=KEY).output
    assert "the key of moonshot from" in cli("keys", "remove", "moonshotai").output


def test_a_key_of_a_provider_that_is_gone_can_be_removed(cli: Cli, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text('[providers.work]\nbase_url = "https://work.example/v1"\n')
    assert cli("keys", "set", "work", "--stdin", stdin=KEY).exit_code == OK
    (home / "config.toml").unlink()
    assert "work                 stored, but no provider has this name any more" in cli("keys").output
    assert cli("keys", "remove", "work").exit_code == OK


def test_a_gateway_serves_what_has_a_stored_key(cli: Cli) -> None:
    assert needs_doubles(GatewayConfig(), Catalog())
    cli("keys", "set", "groq", "--stdin", stdin=KEY)
    catalog = Catalog()
    assert not needs_doubles(GatewayConfig(), catalog)
    listed = Router(GatewayConfig(), catalog).targets()
    assert listed == {name for name in catalog.names() if name.startswith("groq/")}


def test_a_missing_key_says_how_to_store_one(cli: Cli) -> None:
    result = cli("ask", "-m", "groq/x", "Hello")
    assert "midstream keys set groq" in result.stderr


def test_what_is_typed_is_not_shown(environ: dict[str, str], home: Path) -> None:
    environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
    terminal = Terminal("keys", "set", "moonshot", environ=environ)
    try:
        terminal.wait_for("Key of moonshot (not shown)")
        terminal.enter(KEY)
        terminal.wait_for_words("stored the key of moonshot in")
        assert terminal.wait_for_end() == OK
        assert KEY.encode() not in terminal.raw
    finally:
        terminal.close()
    assert json.loads((home / "keys.json").read_text()) == {"moonshot": {"key": KEY}}


def test_providers_and_stored_keys_are_completed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_MIDSTREAM_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "midstream keys set moon")
    monkeypatch.setenv("COMP_CWORD", "3")
    assert "plain,moonshot\n" in cli().output
    monkeypatch.setenv("COMP_WORDS", "midstream keys remove m")
    assert cli().output.strip() == ""
    monkeypatch.delenv("_MIDSTREAM_COMPLETE")
    cli("keys", "set", "mistral", "--stdin", stdin=KEY)
    monkeypatch.setenv("_MIDSTREAM_COMPLETE", "bash_complete")
    assert cli().output == "plain,mistral\n"
