"""Keys that the user stored: where they are, who may read them, and that nothing else shows them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from keyring import core as keyring_core
from keyring.backends.fail import Keyring as NoKeyring

import midstream
from midstream.agent.toolbox import Toolbox
from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import Config, LoadedConfig, ProviderConfig
from midstream.client.key_store import FILE, KEYRING, MAX_KEY, KeysExposed, KeyStore
from midstream.client.session import Session
from midstream.client.settings import list_settings
from midstream.core.blocks import ToolCall
from midstream.core.errors import ConfigError, MidstreamError, MissingKey, Unauthorized
from midstream.core.secret import Secret
from midstream.sim.server import Sim
from tests.client.memory_keyring import MemoryKeyring

KEY = "sk-canary-4a9f0c77d1Qz8mWx2"
_SOURCE = f"{Path(midstream.__file__).parent}{os.sep}"
"""Of the package itself: the clone's own folder may be called midstream, and so hold the tests."""


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr(keyring_core, "_keyring_backend", NoKeyring())
    return {"MIDSTREAM_HOME": str(tmp_path / "home")}


@pytest.fixture
def keyring(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> MemoryKeyring:
    backend = MemoryKeyring()
    monkeypatch.setattr(keyring_core, "_keyring_backend", backend)
    return backend


def catalog(environ: dict[str, str], **providers: ProviderConfig) -> Catalog:
    return Catalog(LoadedConfig(Config(providers=providers)), environ=environ)


def sent(environ: dict[str, str], model: str = "moonshot/kimi-k2.5", **providers: ProviderConfig) -> dict[str, str]:
    """The headers of a request, both ways of asking for them."""
    known = catalog(environ, **providers)
    target = known.resolve(model)
    headers = known.auth_headers(target).reveal()
    assert asyncio.run(known.authorize(target)).reveal() == headers
    return headers


def shown(error: BaseException) -> str:
    """All that an error shows, with the locals of every frame of midstream."""
    told: traceback.TracebackException | None = traceback.TracebackException.from_exception(error, capture_locals=True)
    found: list[str] = []
    while told is not None:
        frames = [f"{frame.locals}" for frame in told.stack if frame.filename.startswith(_SOURCE)]
        found += [*frames, *told.format_exception_only()]
        told = told.__cause__ or told.__context__
    return "\n".join(found)


def test_a_stored_key_is_sent_from_the_file(environ: dict[str, str]) -> None:
    store = KeyStore(environ)
    assert store.set("moonshot", Secret(KEY)) == FILE
    assert store.place("moonshot") == FILE and store.providers() == ["moonshot"]
    assert sent(environ) == {"authorization": f"Bearer {KEY}"}
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert store.path.parent.stat().st_mode & 0o777 == 0o700
    assert KeyStore(environ).get("moonshot") == Secret(KEY)
    assert store.remove("moonshot") == FILE and store.remove("moonshot") is None
    with pytest.raises(MissingKey):
        sent(environ)


def test_a_stored_key_goes_where_its_provider_wants_it(environ: dict[str, str]) -> None:
    KeyStore(environ).set("anthropic", Secret(KEY))
    assert sent(environ, "anthropic/claude-sonnet-4-5") == {"x-api-key": KEY}


def test_with_a_keyring_the_file_holds_no_key(environ: dict[str, str], keyring: MemoryKeyring) -> None:
    store = KeyStore(environ)
    assert store.set("moonshot", Secret(KEY)) == KEYRING
    assert keyring.kept == {("midstream", "moonshot"): KEY}
    assert json.loads(store.path.read_text()) == {"moonshot": {"keyring": True}}
    known = catalog(environ)
    for _ in range(3):
        assert known.auth_headers(known.resolve("moonshot/kimi-k2.5")).reveal() == {"authorization": f"Bearer {KEY}"}
    assert keyring.asked == 1, "a keyring is asked once, since it may ask its user"
    with pytest.raises(MissingKey):
        known.auth_headers(known.resolve("groq/x"))
    assert keyring.asked == 1, "a provider without a stored key does not touch the keyring"
    assert store.remove("moonshot") == KEYRING
    assert keyring.kept == {}


def test_a_key_moves_from_the_keyring_to_the_file(environ: dict[str, str], keyring: MemoryKeyring) -> None:
    store = KeyStore(environ)
    store.set("moonshot", Secret("sk-old"))
    assert store.set("moonshot", Secret(KEY), in_file=True) == FILE
    assert keyring.kept == {}
    assert sent(environ) == {"authorization": f"Bearer {KEY}"}


def test_a_new_key_counts_at_once_in_a_program_that_runs(environ: dict[str, str], keyring: MemoryKeyring) -> None:
    known, store = catalog(environ), KeyStore(environ)
    target = known.resolve("moonshot/kimi-k2.5")
    for where in (False, True):
        for key in ("sk-first", "sk-other"):
            store.set("moonshot", Secret(f"{key}-{where}"), in_file=where)
            assert known.auth_headers(target).reveal() == {"authorization": f"Bearer {key}-{where}"}


def test_a_keyring_that_protects_nothing_is_not_used(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring_core, "_keyring_backend", MemoryKeyring(usable=False))
    assert KeyStore(environ).set("moonshot", Secret(KEY)) == FILE


# who is asked, first to last
ORDER: list[tuple[str, dict[str, str], dict[str, ProviderConfig], str]] = [
    ("the environment", {"KIMI_API_KEY": "sk-env"}, {"moonshot": ProviderConfig(api_key_command="echo sk-printed")}, "sk-env"),
    ("a command", {}, {"moonshot": ProviderConfig(api_key_command="echo sk-printed")}, "sk-printed"),
    ("an empty variable is none", {"MOONSHOT_API_KEY": ""}, {}, KEY),
    ("the store", {}, {}, KEY),
]  # fmt: skip


@pytest.mark.parametrize(
    ("variables", "providers", "wanted"), [row[1:] for row in ORDER], ids=[row[0] for row in ORDER]
)
def test_the_environment_wins(
    environ: dict[str, str], variables: dict[str, str], providers: dict[str, ProviderConfig], wanted: str
) -> None:
    KeyStore(environ).set("moonshot", Secret(KEY))
    assert sent({**environ, **variables}, **providers) == {"authorization": f"Bearer {wanted}"}


def test_a_given_key_wins_and_a_config_of_the_callers_own_finds_no_stored_key(environ: dict[str, str]) -> None:
    KeyStore(environ).set("moonshot", Secret(KEY))
    known = catalog(environ)
    target = known.resolve("moonshot/kimi-k2.5")
    assert known.auth_headers(target, "mine").reveal() == {"authorization": "Bearer mine"}
    with pytest.raises(MissingKey):
        known.auth_headers(target, "")
    bare = Catalog(Config(), environ=environ)
    with pytest.raises(MissingKey):
        bare.auth_headers(target)


# stored under -> used by: the same host and the same key
REALMS = [
    ("openai", "openai-responses/gpt-5.2", True),
    ("openai-responses", "openai/gpt-4o", True),
    ("moonshot", "moonshot-anthropic/kimi-k2.5", True),
    ("moonshot", "moonshot-cn/kimi-k2.5", False),
    ("openai", "work/x", False),
    ("openai", "groq/x", False),
    ("work", "work/x", True),
]


@pytest.mark.parametrize(("stored", "model", "used"), REALMS)
def test_a_stored_key_serves_every_api_of_its_host_and_no_other_host(
    environ: dict[str, str], stored: str, model: str, used: bool
) -> None:
    KeyStore(environ).set(stored, Secret(KEY))
    work = ProviderConfig(like="openai", base_url="https://work.example/v1")
    if used:
        assert KEY in "".join(sent(environ, model, work=work).values())
    else:
        with pytest.raises(MissingKey):
            sent(environ, model, work=work)


def test_another_address_for_a_known_provider_gets_no_key_of_its_sister(environ: dict[str, str]) -> None:
    KeyStore(environ).set("openai-responses", Secret(KEY))
    with pytest.raises(MissingKey):
        sent(environ, "openai/gpt-4o", openai=ProviderConfig(base_url="https://elsewhere.example/v1"))


def test_a_file_that_others_could_read_is_closed_with_a_warning(environ: dict[str, str]) -> None:
    store = KeyStore(environ)
    store.set("moonshot", Secret(KEY))
    store.path.chmod(0o644)
    with pytest.warns(KeysExposed, match=r"could be read by others \(mode 0644\) and has mode 0600 now"):
        assert KeyStore(environ).get("moonshot") == Secret(KEY)
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert KeyStore(environ).get("moonshot") == Secret(KEY)  # and no second warning


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(environ: dict[str, str]) -> None:
    store = KeyStore(environ)
    store.set("moonshot", Secret(KEY))
    os.chown(store.path, 12345, 12345)
    with pytest.raises(ConfigError, match="belongs to another user"):
        KeyStore(environ).get("moonshot")


@pytest.mark.parametrize(
    "text", ["", "{", f'{{"moonshot": "{KEY}"}}', f'{{"moonshot": {{"kee": "{KEY}"}}}}', f'{{"moonshot": {{"key": ["{KEY}"]}}}}', "\udcff" + KEY]
)  # fmt: skip
def test_a_broken_file_is_named_and_not_shown(environ: dict[str, str], text: str) -> None:
    store = KeyStore(environ)
    store.path.parent.mkdir()
    store.path.write_bytes(text.encode("utf-8", "surrogateescape"))
    store.path.chmod(0o600)
    for act in (lambda: store.get("moonshot"), lambda: store.set("groq", Secret("sk-new"))):
        with pytest.raises(ConfigError, match=r"keys\.json") as caught:
            act()
        assert KEY not in shown(caught.value)
    assert store.path.read_bytes() == text.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("text", ["", "two words", "two\nlines", "schlüssel", "x" * (MAX_KEY + 1), "\x1b[31m"])
def test_what_cannot_be_a_key_is_not_stored(environ: dict[str, str], text: str) -> None:
    store = KeyStore(environ)
    with pytest.raises(ConfigError) as caught:
        store.set("moonshot", Secret(text))
    assert not text or text not in shown(caught.value)
    assert not store.path.exists()


def test_a_locked_keyring_says_what_to_do_and_no_key(environ: dict[str, str], keyring: MemoryKeyring) -> None:
    store = KeyStore(environ)
    store.set("moonshot", Secret(KEY))
    keyring.locked = True
    acts: list[tuple[type[MidstreamError], Callable[[], object]]] = [
        (ConfigError, lambda: store.set("groq", Secret(KEY))),
        (MissingKey, lambda: KeyStore(environ).get("moonshot")),
        (MissingKey, lambda: sent(environ)),
    ]
    for kind, act in acts:
        with pytest.raises(kind, match="--file") as caught:
            act()
        assert "KeyringLocked" in str(caught.value) and KEY not in shown(caught.value)
    assert store.place("groq") is None
    keyring.locked = False
    keyring.kept.clear()
    with pytest.raises(MissingKey, match="not in the keyring any more"):
        KeyStore(environ).get("moonshot")


def test_a_keyring_that_is_gone_says_so(
    environ: dict[str, str], keyring: MemoryKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    KeyStore(environ).set("moonshot", Secret(KEY))
    monkeypatch.setattr(keyring_core, "_keyring_backend", NoKeyring())
    with pytest.raises(MissingKey, match="keyring, which is not available here"):
        sent(environ)


def test_no_repr_shows_a_key(environ: dict[str, str]) -> None:
    store = KeyStore(environ)
    store.set("moonshot", Secret(KEY))
    known = catalog(environ)
    known.auth_headers(known.resolve("moonshot/kimi-k2.5"))
    for value in (store, store.get("moonshot"), vars(store), known, vars(known)):
        assert KEY not in repr(value) and KEY not in str(value)


def test_the_settings_name_the_place(environ: dict[str, str]) -> None:
    KeyStore(environ).set("moonshot", Secret(KEY))
    found = {each.name: each for each in list_settings(LoadedConfig(), environ)}
    assert found["providers.moonshot.api_key"].value == "(set)"
    assert found["providers.moonshot.api_key"].origin == FILE


def test_writers_at_the_same_time_lose_nothing(environ: dict[str, str]) -> None:
    names = [f"host{number}" for number in range(40)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: KeyStore(environ).set(name, Secret(f"sk-{name}")), names))
    store = KeyStore(environ)
    assert store.providers() == sorted(names)
    assert [store.get(name) for name in names] == [Secret(f"sk-{name}") for name in names]
    assert sorted(each.name for each in store.path.parent.iterdir()) == [FILE, f"{FILE}.lock"]


def test_a_link_to_the_file_stays_a_link(environ: dict[str, str], tmp_path: Path) -> None:
    store = KeyStore(environ)
    store.path.parent.mkdir()
    elsewhere = tmp_path / "dotfiles.json"
    store.path.symlink_to(elsewhere)
    store.set("moonshot", Secret(KEY))
    assert store.path.is_symlink() and KEY in elsewhere.read_text()
    assert elsewhere.stat().st_mode & 0o777 == 0o600


def test_a_request_carries_the_stored_key(environ: dict[str, str]) -> None:
    async def ask(key: str) -> str:
        KeyStore(environ).set("moonshot", Secret(key))
        async with Sim(key=KEY) as sim:
            known = Catalog(LoadedConfig(), environ={**environ, "MOONSHOT_BASE_URL": f"{sim.url}/moonshot"})
            async with Client(known) as client, Session("moonshot/kimi-k2.5", client=client) as session:
                return (await session.send("Hello")).text

    assert "Hello" in asyncio.run(ask(KEY))
    with pytest.raises(Unauthorized) as caught:
        asyncio.run(ask("sk-wrong-canary"))
    assert "sk-wrong-canary" not in shown(caught.value)


def test_no_tool_reads_the_file_of_the_keys(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the working folder is the home folder, and under another name."""
    monkeypatch.setenv("MIDSTREAM_HOME", environ["MIDSTREAM_HOME"])
    store = KeyStore(environ)
    store.set("moonshot", Secret(KEY))
    home = store.path.parent
    (home / "other.txt").write_text("canary of another file")
    os.link(store.path, home / "hard.txt")
    (home / "soft.txt").symlink_to(store.path)
    toolbox = Toolbox(["read_file", "grep"], workdir=home.parent)
    for tool, arguments in [
        ("read_file", {"path": "home/keys.json"}),
        ("read_file", {"path": "home/hard.txt"}),
        ("read_file", {"path": "home/soft.txt"}),
        ("grep", {"pattern": "canary", "path": "home"}),
    ]:
        result = asyncio.run(toolbox.run(ToolCall("c", tool, json.dumps(arguments))))
        assert KEY not in result.text and ("no tool reads" in result.text or "other.txt" in result.text), result


def test_importing_midstream_imports_no_keyring(environ: dict[str, str]) -> None:
    code = (
        "import sys, midstream; from midstream.client.catalog import Catalog; c = Catalog();"
        "c.key_source(c.resolve('moonshot/kimi-k2.5')); print('keyring' in sys.modules)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environ}, capture_output=True, text=True, check=True
    )
    assert told.stdout == "False\n"
