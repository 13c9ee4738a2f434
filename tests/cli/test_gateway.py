"""`midstream gateway` and `midstream serve`: keys, checks, what points clients here, and the program as it runs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from midstream.cli.client_setup import KEY_VARIABLE, NO_KEY, SETUPS, Address, exports, overview
from midstream.cli.gateway import binds_loopback
from midstream.gateway.api_key import PREFIX, fault_of
from midstream.gateway.spend import window_key
from midstream.gateway.state import open_state
from tests.long_run import each_once

from .conftest import Cli

SIM = '[aliases]\nfast = "sim/kimi-k2.5"\n"claude-*" = "sim/claude-sonnet-5"\n'


def create(cli: Cli, *flags: str) -> tuple[str, str]:
    """A key and its id."""
    result = cli("gateway", "keys", "create", *flags)
    assert result.exit_code == 0 and "MIDSTREAM_KEY" in result.stderr, result.stderr
    return result.stdout.strip(), result.stderr.partition(":")[0]


def test_a_key_is_shown_once(cli: Cli, home: Path) -> None:
    key, id = create(
        cli,
        *("--name", "ci", "--tenant", "acme", "--models", "claude-*, best", "--models", "fast", "--rate", "60"),
        *("--concurrency", "4", "--spend", "20/month", "--expires", "90d", "--text-calls", "reask"),
    )
    assert key.startswith(PREFIX) and fault_of(key) is None and id.startswith("key_") and id.endswith(key[-4:])
    listed = cli("gateway", "keys", "list").stdout
    for words in (id, "ci", "acme", f"…{key[-4:]}", "claude-*, best, fast", "60 requests a minute", "4 at once"):
        assert words in listed
    for words in ("$20 a month", "until 20", "text calls: reask", "$0.00"):
        assert words in listed
    assert key not in listed
    row = json.loads(cli("gateway", "keys", "list", "--json").stdout)
    assert row["state"] == "active" and row["last_four"] == key[-4:] and "digest" not in row
    assert abs(row["expires"] - time.time() - 90 * 86_400) < 600
    written = b"".join(path.read_bytes() for path in home.iterdir() if path.is_file())
    assert key.encode() not in written and b"acme" in written


def test_a_key_needs_only_a_name(cli: Cli) -> None:
    _, id = create(cli, "--name", "me")
    row = json.loads(cli("gateway", "keys", "list", "--json").stdout)
    assert (row["id"], row["name"], row["tenant"], row["models"]) == (id, "me", "me", [])
    assert row["rate"] is row["concurrency"] is row["spend"] is row["expires"] is None


def test_two_keys_share_a_tenant_only_if_that_is_said(cli: Cli) -> None:
    create(cli, "--name", "me")
    for name in ("me", "local"):
        result = cli("gateway", "keys", "create", "--name", name)
        assert result.exit_code == 1 and f"--tenant {name}" in result.stderr and not result.stdout
    create(cli, "--name", "me", "--tenant", "me")
    create(cli, "--name", "me", "--tenant", "other")


def test_the_list_shows_the_limits_of_the_configuration_too(cli: Cli, tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text(f'[state]\nurl = "{tmp_path}/x.db"\n[keys]\nrate = 7\nspend = "3/day"\n')
    _, id = create(cli, "--name", "me", "--config", str(config))

    async def spend() -> None:
        state = open_state(f"{tmp_path}/x.db")
        await state.open()
        await state.add_spend({(id, window_key("day", time.time())): 1_250_000})
        await state.close()

    asyncio.run(spend())
    listed = cli("gateway", "keys", "list", "--config", str(config)).stdout
    assert "7 requests a minute" in listed and "$3 a day" in listed and "$1.25" in listed


def test_a_key_is_revoked(cli: Cli) -> None:
    _, id = create(cli, "--name", "me")
    assert f"{id} is revoked" in cli("gateway", "keys", "revoke", id).stdout
    assert "revoked 20" in cli("gateway", "keys", "list").stdout
    for unknown in (id, "key_nobody"):
        result = cli("gateway", "keys", "revoke", unknown)
        assert result.exit_code == 1 and unknown in result.stderr and "keys list" in result.stderr


@pytest.mark.parametrize(
    "command",
    [("gateway", "keys", "list"), ("serve", "--host", "0.0.0.0"), ("gateway", "keys", "revoke", "me")],
    ids=["list", "serve", "revoke"],
)
def test_advice_speaks_of_the_same_keys(cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
    config = tmp_path / "the gateway.toml"
    config.write_text(f'[state]\nurl = "{tmp_path}/one.db"\n')
    store = str(tmp_path / "two.db")
    assert f"--config '{config}'" in cli(*command, "--config", str(config)).stderr
    assert f"--store {store}" in cli(*command, "--store", store).stderr


def test_a_model_is_for_a_client_that_is_printed(cli: Cli) -> None:
    result = cli("serve", "-m", "sim/kimi-k2.5", "--port", "0", "--host", "0.0.0.0")
    assert result.exit_code == 2 and "--model goes with --print" in result.stderr


def test_without_keys_the_list_says_how_to_make_one(cli: Cli) -> None:
    result = cli("gateway", "keys", "list")
    assert result.exit_code == 0 and "keys create" in result.stderr and not result.stdout


def test_keys_are_kept_where_the_configuration_says(cli: Cli, tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text(f'[state]\nurl = "{tmp_path}/one.db"\n')
    create(cli, "--name", "one", "--config", str(config))
    create(cli, "--name", "two", "--store", str(tmp_path / "two.db"))
    assert (tmp_path / "one.db").exists() and (tmp_path / "two.db").exists()
    assert "one" in cli("gateway", "keys", "list", "--config", str(config)).stdout
    both = cli("gateway", "keys", "list", "--config", str(config), "--store", str(tmp_path / "two.db")).stdout
    assert "two" in both and "one" not in both


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ((), "--name"),
        (("--name", " "), "printable"),
        (("--name", "a\nb"), "printable"),
        (("--name", "a", "--rate", "0"), "--rate"),
        (("--name", "a", "--concurrency", "x"), "--concurrency"),
        (("--name", "a", "--spend", "20/week"), "20/month"),
        (("--name", "a", "--expires", "0d"), "90d"),
        (("--name", "a", "--expires", "tomorrow"), "90d"),
        (("--name", "a", "--expires", "2020-01-01"), "a day to come"),
        (("--name", "a", "--text-calls", "run"), "execute"),
    ],
)
def test_a_mistake_in_a_key_is_a_usage_error(cli: Cli, flags: tuple[str, ...], says: str) -> None:
    result = cli("gateway", "keys", "create", *flags)
    assert result.exit_code == 2 and says in result.stderr and PREFIX not in result.stdout


def test_a_key_can_end_after_a_day(cli: Cli) -> None:
    create(cli, "--name", "a", "--expires", "2099-01-31")
    assert "until 2099-02-01 00:00 UTC" in cli("gateway", "keys", "list").stdout


def test_a_check_shows_where_each_name_leads(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOONSHOT_API_KEY", "secret-value")
    Path("gateway.toml").write_text(
        '[aliases]\n"claude-*" = ["moonshot/kimi-k2.5", "groq/moonshotai/kimi-k2-instruct"]\n'
        'split = { models = ["moonshot/kimi-k2.5", "sim/kimi-k2.5"], weights = [3, 1] }\n[server]\nhost = "0.0.0.0"\n'
    )
    result = cli("gateway", "check", "gateway.toml")
    assert result.exit_code == 0
    assert "claude-*  ->  moonshot/kimi-k2.5, then groq/moonshotai/kimi-k2-instruct" in result.stdout
    assert "moonshot/kimi-k2.5 (75 %), sim/kimi-k2.5 (25 %); one for each conversation" in result.stdout
    assert "By their own names: moonshot/" in result.stdout and "every request needs a key" in result.stdout
    assert "no key for groq: set GROQ_API_KEY" in result.stderr and "needed by claude-*" in result.stderr
    assert "secret-value" not in result.output


@each_once(
    ("command", [("gateway", "check"), ("serve", "--print", "claude", "--config"), ("serve", "--config")]),
    (
        "toml, says",
        [
            ("[server]\nprot = 1", "gateway.toml, line 2: server.prot: unknown setting; did you mean port?"),
            ('[aliases]\na = "mooonshot/x"', "unknown provider 'mooonshot'"),
        ],
    ),
)
def test_a_bad_configuration_is_one_line(cli: Cli, command: tuple[str, ...], toml: str, says: str) -> None:
    Path("gateway.toml").write_text(toml)
    result = cli(*command, "gateway.toml")
    assert result.exit_code == 1 and says in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "gateway.example", "2001:db8::1"])
def test_what_others_can_reach_needs_a_key(cli: Cli, host: str) -> None:
    result = cli("serve", "--host", host, "--port", "0")
    assert result.exit_code == 1
    assert host in result.stderr and "midstream gateway keys create" in result.stderr and "127.0.0.1" in result.stderr
    _, id = create(cli, "--name", "me")
    cli("gateway", "keys", "revoke", id)
    assert cli("serve", "--host", host, "--port", "0").exit_code == 1  # a revoked one does not count


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("localhost", True), ("LOCALHOST", True)]
    + [(host, False) for host in ("0.0.0.0", "::", "", "localhost.example", "10.0.0.1", "::ffff:10.0.0.1", "0")],
)
def test_what_only_this_machine_can_reach(host: str, loopback: bool) -> None:
    assert binds_loopback(host) == loopback


URL = "http://127.0.0.1:4000"
EXPECTED = {
    "claude": {
        "ANTHROPIC_BASE_URL": URL,
        "ANTHROPIC_AUTH_TOKEN": NO_KEY,
        "ANTHROPIC_API_KEY": None,
        "ANTHROPIC_MODEL": "sim/kimi-k2.5",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": "sim/kimi-k2.5",
    },
    "codex": {KEY_VARIABLE: NO_KEY},
    "gemini": {
        "GOOGLE_GEMINI_BASE_URL": URL,
        "GEMINI_API_KEY": NO_KEY,
        "GEMINI_MODEL": "sim/kimi-k2.5",
        "GOOGLE_API_KEY": None,
    },
    "kimi": {"KIMI_MODEL_NAME": "sim/kimi-k2.5", "KIMI_MODEL_BASE_URL": f"{URL}/v1", "KIMI_MODEL_API_KEY": NO_KEY},
    "opencode": {KEY_VARIABLE: NO_KEY},
    "pi": {KEY_VARIABLE: NO_KEY},
    "qwen": {"OPENAI_BASE_URL": f"{URL}/v1", "OPENAI_API_KEY": NO_KEY, "OPENAI_MODEL": "sim/kimi-k2.5"},
    "openai": {"OPENAI_BASE_URL": f"{URL}/v1", "OPENAI_API_KEY": NO_KEY},
    "anthropic": {"ANTHROPIC_BASE_URL": URL, "ANTHROPIC_API_KEY": NO_KEY, "ANTHROPIC_AUTH_TOKEN": None},
    "google": {"GOOGLE_GEMINI_BASE_URL": URL, "GEMINI_API_KEY": NO_KEY, "GOOGLE_API_KEY": None},
}


def evaluated(script: str, tmp_path: Path, after: str = "env -0", **environ: str) -> str:
    """What a shell prints after `eval` of these lines."""
    base = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "ANTHROPIC_API_KEY": "old",
        "ANTHROPIC_AUTH_TOKEN": "old",
    }
    base |= {"GOOGLE_API_KEY": "old", "SCRIPT": script}
    done = subprocess.run(
        ["sh", "-euc", f'eval "$SCRIPT"; unset SCRIPT; {after}'],
        env=base | environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stderr == ""
    return done.stdout


def variables(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.split("\0") if line)


def test_every_client_is_expected() -> None:
    assert set(EXPECTED) == set(SETUPS)


@pytest.mark.parametrize("name", list(SETUPS))
def test_print_gives_what_eval_takes(cli: Cli, name: str, tmp_path: Path) -> None:
    result = cli("serve", "--print", name)
    assert result.exit_code == 0 and not result.stderr
    found = variables(evaluated(result.stdout, tmp_path))
    assert {variable: found.get(variable) for variable in EXPECTED[name]} == EXPECTED[name]
    keyed = variables(evaluated(result.stdout, tmp_path, **{KEY_VARIABLE: "msk_1"}))
    wanted = {variable: "msk_1" for variable, value in EXPECTED[name].items() if value == NO_KEY}
    assert {variable: keyed[variable] for variable in wanted} == wanted and wanted


def test_print_speaks_of_the_address_and_model_that_were_given(cli: Cli) -> None:
    text = cli("serve", "--print", "openai", "--host", "::1", "--port", "80").stdout
    assert "http://[::1]:80/v1" in text
    assert "http://127.0.0.1:4000" in cli("serve", "--print", "claude", "--host", "0.0.0.0").stdout
    assert "ANTHROPIC_MODEL=sim/gpt-4o" in cli("serve", "--print", "claude", "-m", "sim/gpt-4o").stdout
    assert cli("serve", "--print", "claude", "-m", "nobody/knows").exit_code == 2


def test_claude_code_keeps_its_names_where_they_are_served(cli: Cli) -> None:
    Path("gateway.toml").write_text(SIM)
    text = cli("serve", "--print", "claude", "--config", "gateway.toml").stdout
    assert "ANTHROPIC_BASE_URL" in text and "ANTHROPIC_MODEL" not in text
    assert "OPENAI_MODEL=fast" in cli("serve", "--print", "qwen", "--config", "gateway.toml").stdout


@pytest.mark.parametrize(
    ("pattern", "instead"),
    [
        ("claude-*", {}),
        ("claude-sonnet-*", {"OPUS": "claude-sonnet-4-5", "HAIKU": "claude-sonnet-4-5"}),
        ("claude-haiku-*", {"OPUS": "claude-haiku-4-5", "SONNET": "claude-haiku-4-5"}),
        ("fast", {"OPUS": "fast", "SONNET": "fast", "HAIKU": "fast"}),
    ],
)
def test_claude_code_asks_for_no_name_that_is_not_served(cli: Cli, pattern: str, instead: dict[str, str]) -> None:
    Path("gateway.toml").write_text(f'[aliases]\n"{pattern}" = "sim/kimi-k2.5"\n')
    text = cli("serve", "--print", "claude", "--config", "gateway.toml").stdout
    found = dict(re.findall(r"ANTHROPIC_DEFAULT_(\w+)_MODEL=(.*)", text))
    assert found == instead


def test_print_knows_its_clients(cli: Cli) -> None:
    result = cli("serve", "--print", "cursor")
    assert result.exit_code == 2 and "claude, codex" in result.stderr


NASTY = 'it\'s $HOME `id` "x" \\ {y}'


@pytest.mark.parametrize("name", list(SETUPS))
def test_a_models_name_is_never_run_by_the_shell(name: str, tmp_path: Path) -> None:
    text = exports(name, Address(URL, NASTY))
    found = variables(evaluated(text, tmp_path))
    models = [value for variable, value in found.items() if variable.endswith(("_MODEL", "MODEL_NAME"))]
    assert all(value == NASTY for value in models)
    if name == "opencode":
        assert json.loads(found["OPENCODE_CONFIG_CONTENT"])["model"] == f"midstream/{NASTY}"
    if name == "gemini":
        settings = Path(found["GEMINI_CLI_HOME"], ".gemini/settings.json")
        assert json.loads(settings.read_text())["security"]["auth"]["selectedType"] == "gemini-api-key"
        settings.write_text("{}")
        evaluated(text, tmp_path)
        assert settings.read_text() == "{}"  # what a person changed there stays
    if name == "pi":
        written = json.loads((tmp_path / ".local/state/midstream/pi/models.json").read_text())
        assert written["providers"]["midstream"]["models"] == [{"id": NASTY}]
        assert written["providers"]["midstream"]["baseUrl"] == f"{URL}/v1"
    if name == "codex":
        (tmp_path / "codex").write_text('#!/bin/sh\nprintf "%s\\0" "$@"\n')
        (tmp_path / "codex").chmod(0o700)
        said = evaluated(text, tmp_path, "codex exec 'the task'", PATH=f"{tmp_path}:{os.environ['PATH']}").split("\0")
        assert said[:2] == ["-m", NASTY] and said[-3:] == ["exec", "the task", ""]
        assert f"model_providers.midstream.base_url={URL}/v1" in said and "model_provider=midstream" in said


def test_gemini_cli_signs_in_by_its_key_and_keeps_what_the_user_changes(tmp_path: Path) -> None:
    text = exports("gemini", Address(URL, "sim/kimi-k2.5"))
    home = Path(variables(evaluated(text, tmp_path))["GEMINI_CLI_HOME"])
    settings = home / ".gemini" / "settings.json"
    assert json.loads(settings.read_text()) == {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    settings.write_text("changed")
    evaluated(text, tmp_path)
    assert settings.read_text() == "changed"


def test_the_overview_names_every_client_and_no_key() -> None:
    to = Address(URL, "sim/kimi-k2.5")
    for closed in (False, True):
        text = overview(to, " --port 1", closed)
        assert all(setup.title in text for setup in SETUPS.values()) and "curl " in text
        assert 'eval "$(midstream serve --port 1 --print claude)"; claude' in text
        assert (f"Bearer ${KEY_VARIABLE}" in text) == closed == (f'api_key="{NO_KEY}"' not in text)


def test_other_commands_import_no_gateway(environ: dict[str, str]) -> None:
    code = (
        "import sys\nfrom midstream.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print([name for name in sys.modules if name.startswith(('midstream.gateway', 'uvicorn', 'starlette', 'cryptography'))])"
    )
    for args in (["models", "kimi"], ["ask", "Hi", "-m", "sim/kimi-k2.5", "--no-store"], ["--help"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *args], env=environ, capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stdout.endswith("[]\n"), done.stdout[-300:]


def test_keys_need_no_server(environ: dict[str, str]) -> None:
    code = (
        "import sys\nfor name in ('uvicorn', 'starlette', 'cryptography', 'prometheus_client'):\n    sys.modules[name] = None\n"
        "from midstream.cli.main import main\nmain(sys.argv[1:])"
    )

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *args], env=environ, capture_output=True, text=True, timeout=60, check=False
        )

    assert run("gateway", "keys", "create", "--name", "me").returncode == 0
    served = run("serve", "--port", "0")
    assert served.returncode == 1 and "pip install '.[gateway]' in midstream's checkout" in served.stderr


class Running:
    """The program as it runs: its address, and what it says."""

    def __init__(self, process: subprocess.Popen[str], err: Path) -> None:
        self.process = process
        self._err = err
        self.url = self.says(r"gateway at (http://\S+);")

    def says(self, pattern: str) -> str:
        """Wait until it has said this, within reason."""
        for _ in range(600):
            match = re.search(pattern, self._err.read_text())
            if match:
                return match[match.lastindex or 0]
            assert self.process.poll() is None, self._err.read_text()
            time.sleep(0.05)
        raise AssertionError(f"it never said {pattern}: {self._err.read_text()}")

    def ask(self, model: str = "sim/kimi-k2.5", **headers: str) -> tuple[int, Any]:
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Hello"}]}).encode()
        request = urllib.request.Request(
            f"{self.url}/v1/chat/completions", body, {"content-type": "application/json", **headers}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def model(self, asked: str) -> str:
        status, body = self.ask(asked)
        assert status == 200, body
        return str(body["choices"][0]["message"]["content"])


@contextmanager
def running(environ: dict[str, str], tmp_path: Path, *args: str) -> Iterator[Running]:
    err = tmp_path / "stderr"
    out: IO[str]
    with (tmp_path / "stdout").open("w") as out, err.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "midstream.cli.main", "serve", "--port", "0", *args],
            env=environ,
            stdout=out,
            stderr=errors,
            text=True,
        )
    try:
        gateway = Running(process, err)
        yield gateway
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait(30)


def test_without_anything_it_serves_the_scripted_models(environ: dict[str, str], tmp_path: Path) -> None:
    with running(environ, tmp_path) as gateway:
        gateway.says("Press Ctrl-C")
        told = (tmp_path / "stderr").read_text()
        assert (
            "nothing leaves this machine" in told
            and "sim/ models" in told
            and "no key is needed" in told
            and gateway.url in told
        )
        assert "kimi-k2.5" in gateway.model("sim/kimi-k2.5")
        assert gateway.ask("moonshot/kimi-k2.5")[0] == 404  # nobody has a key, and no double stands in for it
        assert gateway.ask(authorization="Bearer whatever")[0] == 200
    logged = [json.loads(line) for line in (tmp_path / "stdout").read_text().splitlines()]
    assert [line["status"] for line in logged] == [200, 404, 200] and "whatever" not in str(logged)


def test_doubles_beside_a_real_host_do_not_promise_that_nothing_leaves(environ: dict[str, str], tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text('[models]\nallow = ["sim/*", "moonshot/*"]\n')
    with running({**environ, "MOONSHOT_API_KEY": "x"}, tmp_path, "--config", str(config)) as gateway:
        gateway.says("Press Ctrl-C")
        told = (tmp_path / "stderr").read_text()
        assert "nothing leaves" not in told and "No provider's key" not in told
        assert "kimi-k2.5" in gateway.model("sim/kimi-k2.5")


def test_keys_and_a_new_configuration_count_while_it_runs(cli: Cli, environ: dict[str, str], tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text(SIM)
    with running(environ, tmp_path, "--config", str(config), "--log-format", "none") as gateway:
        assert "kimi-k2.5" in gateway.model("fast")
        config.write_text('[aliases]\nfast = "sim/gpt-4o"\n[vault]\nkeep_days = 1\n')
        gateway.process.send_signal(signal.SIGHUP)
        gateway.says("(?m)^midstream: reloaded$")
        gateway.says(r"\[vault\] changed too: restart the gateway to apply that")
        assert "gpt-4o" in gateway.model("fast") and gateway.ask("claude-x")[0] == 404
        config.write_text('[aliases]\nfast = "sim/kimi-k3"\nbad = 3\n')
        gateway.process.send_signal(signal.SIGHUP)
        gateway.says("not reloaded: .*line 3: aliases.bad: expected a model")
        assert "gpt-4o" in gateway.model("fast")
        key, _ = create(cli, "--name", "me", "--models", "fast")
        for _ in range(200):
            if gateway.ask("fast")[0] == 401:
                break
            time.sleep(0.05)
        assert gateway.ask("fast")[0] == 401  # the first key closes it
        gateway.says("from now on every request needs a key")
        assert gateway.ask("fast", authorization=f"Bearer {key}")[0] == 200
        status, body = gateway.ask("sim/kimi-k2.5", **{"x-api-key": key})
        assert status == 400 and "may not use" in body["error"]["message"]
    assert (tmp_path / "stdout").read_text() == ""


def test_several_processes_serve_one_address(cli: Cli, environ: dict[str, str], tmp_path: Path) -> None:
    key, _ = create(cli, "--name", "me", "--rate", "20")
    with running(environ, tmp_path, "--workers", "2") as gateway:
        assert "2 processes on one SQLite file" in (tmp_path / "stderr").read_text()
        assert "every request needs a key" in (tmp_path / "stderr").read_text()
        found = [gateway.ask(authorization=f"Bearer {key}")[0] for _ in range(50)]
        # Within one minute at most 20 + 2 x 1; a new minute may begin in between.
        assert set(found) == {200, 429} and 20 <= found.count(200) <= 44
