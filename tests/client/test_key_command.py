"""`api_key_command`: run when needed, kept until it expires, renewed after a 401, bounded, and never told to anybody."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import Config, LoadedConfig, ProviderConfig, load_config
from midstream.client.key_command import MAX_OUTPUT, KeyCommand
from midstream.client.settings import HIDDEN, list_settings
from midstream.core.errors import ConfigError, MissingKey, Unauthorized
from midstream.sim.answer import Answer, Style
from midstream.sim.speech import speak_whole
from midstream.transport import RetryPolicy, TransportOptions
from tests.transport.loopback import Seen, Server, Wire

CANARY = "canary-7f3a9c51d2"


class Clock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Script:
    """A program on disk that counts its runs: `{run}` in what it prints is the number of this one."""

    def __init__(self, folder: Path, prints: str, *, stderr: str = "", code: int = 0, body: str = "") -> None:
        self._count = folder / "runs"
        self._path = folder / "key.py"
        self._path.write_text(
            "import sys\n"
            f"with open({str(self._count)!r}, 'a') as runs: runs.write('x')\n"
            f"run = len(open({str(self._count)!r}).read())\n"
            f"{body}\n"
            f"sys.stdout.write({prints!r}.replace('{{run}}', str(run)))\n"
            f"sys.stderr.write({stderr!r})\n"
            f"sys.exit({code})\n"
        )

    @property
    def command(self) -> list[str]:
        return [sys.executable, str(self._path)]

    @property
    def runs(self) -> int:
        return len(self._count.read_text()) if self._count.exists() else 0

    def key(self, ttl: float = 300.0, **options: Any) -> KeyCommand:
        return KeyCommand("p", self.command, ttl, **options)


def failure(command: KeyCommand) -> str:
    with pytest.raises(MissingKey) as caught:
        command.get()
    assert CANARY not in str(caught.value) and CANARY not in repr(command)
    return str(caught.value)


def test_a_command_runs_once_until_its_key_expires(tmp_path: Path) -> None:
    clock, script = Clock(), Script(tmp_path, "key-{run}\n")
    command = script.key(ttl=100, clock=clock)
    assert [command.get().reveal(), command.get().reveal()] == ["key-1", "key-1"]
    clock.now += 89
    assert command.get().reveal() == "key-1"
    clock.now += 2  # a tenth of its life is left: renewed before a request could meet its end
    assert command.get().reveal() == "key-2"
    assert script.runs == 2


def test_a_ttl_of_nothing_runs_it_each_time(tmp_path: Path) -> None:
    script = Script(tmp_path, "key-{run}")
    command = script.key(ttl=0, clock=Clock())
    assert [command.get().reveal(), command.get().reveal()] == ["key-1", "key-2"]


NOW = 1_000_000.0


@pytest.mark.parametrize(
    "fields, lasts",
    [
        ({"token": CANARY, "expires_in": 1000}, 1000),
        ({"access_token": CANARY, "expires_in": "1000"}, 1000),
        ({"accessToken": CANARY, "expires_on": NOW + 1000, "expiresOn": "1999-01-01 00:00:00"}, 1000),
        ({"accessToken": CANARY, "expiresOn": datetime.fromtimestamp(NOW + 1000).isoformat(" ")}, 1000),
        ({"token": CANARY, "expiry": "1970-01-12T14:03:20Z"}, 1000),
        ({"status": {"token": CANARY, "expirationTimestamp": "1970-01-12T14:03:20+00:00"}}, 1000),
        ({"token": CANARY}, 300),
        ({"token": CANARY, "expires_in": True}, 300),
        ({"token": CANARY, "expiry": "soon"}, 300),
        ({"token": CANARY, "expires_in": -5, "expiry": 1e300}, 300),
    ],
)
def test_json_says_the_key_and_when_it_expires(tmp_path: Path, fields: dict[str, Any], lasts: float) -> None:
    clock = Clock(NOW)
    script = Script(tmp_path, msgspec.json.encode(fields).decode())
    command = script.key(clock=clock)
    margin = min(60, lasts / 10)
    assert command.get().reveal() == CANARY
    clock.now = NOW + lasts - margin - 1
    assert command.get().reveal() == CANARY and script.runs == 1
    clock.now = NOW + lasts - margin
    assert command.get().reveal() == CANARY and script.runs == 2


@pytest.mark.parametrize(
    "prints, told",
    [
        ("", "printed nothing"),
        ("  \n", "printed nothing"),
        ("{}", "printed a JSON object without a key"),
        ('{"token": 5}', "printed a JSON object without a key"),
        ('{"token"', "printed a JSON object without a key"),
        (f"Welcome!\n{CANARY}\n", "printed more than a key"),
        (f"{CANARY} {CANARY}", "printed more than a key"),
        (f'{{"token": "{CANARY}\\r\\nx: y"}}', "printed more than a key"),
        ("ключ", "printed more than a key"),
    ],
)
def test_output_that_is_not_a_key_is_refused_and_not_quoted(tmp_path: Path, prints: str, told: str) -> None:
    assert f"no key for p: its api_key_command {told}" in failure(Script(tmp_path, prints).key())


def test_a_failure_tells_the_code_and_the_first_line_without_the_key(tmp_path: Path) -> None:
    script = Script(tmp_path, CANARY, stderr=f"\x1b[31mnot logged in: {CANARY}\nTraceback …\n", code=3)
    told = failure(script.key())
    assert told == "no key for p: its api_key_command ended with code 3: ␛[31mnot logged in: ***"
    long = Script(tmp_path, "", stderr="e" * 5000, code=1)
    assert len(failure(long.key())) < 300
    assert script.runs == 2  # the count is the folder's: neither failure was kept as a key


def test_a_command_that_is_not_there_says_so_without_its_arguments() -> None:
    told = failure(KeyCommand("p", ["/nowhere/at-all", CANARY]))
    assert "could not be started: No such file or directory" in told


def test_too_much_output_and_too_much_time_end_the_command(tmp_path: Path) -> None:
    endless = Script(tmp_path, "", body="while True: sys.stdout.write('x' * 65536)")
    assert f"printed more than {MAX_OUTPUT} bytes" in failure(endless.key())
    # it waits for a pipe that stays open with it: only its end, or ours, ends it
    stuck = Script(tmp_path, "", body="import os; r, w = os.pipe(); os.read(r, 1)")
    assert "did not finish in 0.3 s" in failure(stuck.key(timeout=0.3))


def test_what_a_command_leaves_running_does_not_hold_up_the_key(tmp_path: Path) -> None:
    body = "import os\nif os.fork() == 0:\n    r, w = os.pipe(); os.read(r, 1)"
    assert Script(tmp_path, CANARY, body=body).key().get().reveal() == CANARY


def test_a_string_is_for_the_shell_and_a_list_is_not(tmp_path: Path) -> None:
    assert KeyCommand("p", "printf %s-%s a b").get().reveal() == "a-b"
    assert KeyCommand("p", ["printf", "%s", "$(whoami)"]).get().reveal() == "$(whoami)"


def test_callers_that_come_together_share_a_run(tmp_path: Path) -> None:
    script = Script(tmp_path, "key-{run}")
    command = script.key()
    keys: list[str] = []
    threads = [threading.Thread(target=lambda: keys.append(command.get().reveal())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert keys == ["key-1"] * 8 and script.runs == 1


def test_a_caller_that_is_cancelled_ends_the_command(tmp_path: Path) -> None:
    began = tmp_path / "began"
    os.mkfifo(began)
    body = f"import os\nwith open({str(began)!r}, 'w') as fifo: fifo.write(str(os.getpid()))\nr, w = os.pipe(); os.read(r, 1)"
    command = Script(tmp_path, "", body=body).key(timeout=3600)
    pids: list[int] = []

    async def main() -> None:
        task = asyncio.create_task(command.fetch())
        pids.append(int(await asyncio.to_thread(began.read_bytes)))  # ends when the command has written it
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    # A loop that ends waits for its threads, and so for the command.
    loop = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    loop.start()
    loop.join(30)
    if loop.is_alive():
        os.kill(pids[0], signal.SIGKILL)
        pytest.fail("the command went on")


# With a host.


def catalog(script: Script, **settings: Any) -> Catalog:
    row = ProviderConfig(api_key_command=tuple(script.command), **settings)
    return Catalog(Config(providers={"mine": row}), environ={})


def served(script: Script, good: set[str], *, requests: int = 1, **settings: Any) -> tuple[list[str], list[Any]]:
    """The keys a host saw that takes only `good`, and what came of each of our requests."""

    async def serve(wire: Wire, seen: Seen) -> None:
        if seen.headers.get("authorization", "").removeprefix("Bearer ") in good:
            await wire.answer(
                speak_whole("openai-chat", Answer("hi"), Style("m")), 200, "content-type: application/json"
            )
        else:
            key = seen.headers.get("authorization", "")
            body = msgspec.json.encode({"error": {"message": f"bad key {key}"}})
            await wire.answer(body, 401, "content-type: application/json")

    async def main() -> tuple[list[str], list[Any]]:
        outcomes: list[Any] = []
        async with Server(serve) as server:
            options = TransportOptions(retry=RetryPolicy(max_retries=0))
            async with Client(catalog(script, base_url=server.base, **settings), transport=options) as client:
                for _ in range(requests):
                    try:
                        outcomes.append((await client.complete("mine/m", "hello")).text)
                    except (Unauthorized, MissingKey) as error:
                        outcomes.append(error)
            return [seen.headers.get("authorization", "") for seen in server.seen], outcomes

    return asyncio.run(main())


def test_a_key_is_used_again_for_the_next_request(tmp_path: Path) -> None:
    script = Script(tmp_path, "key-{run}")
    seen, outcomes = served(script, {"key-1"}, requests=3)
    assert seen == ["Bearer key-1"] * 3 and outcomes == ["hi"] * 3 and script.runs == 1


def test_a_refused_key_is_renewed_once(tmp_path: Path) -> None:
    script = Script(tmp_path, "key-{run}")
    seen, outcomes = served(script, {"key-2"}, requests=2)
    assert seen == ["Bearer key-1", "Bearer key-2", "Bearer key-2"] and outcomes == ["hi"] * 2


def test_a_second_refusal_is_the_callers_and_tells_no_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    script = Script(tmp_path, CANARY + "-{run}")
    seen, outcomes = served(script, set())
    assert len(seen) == 2 and script.runs == 2
    error = outcomes[0]
    assert isinstance(error, Unauthorized) and CANARY not in f"{error} {error!r} {error.__cause__} {error.__context__}"
    assert CANARY not in caplog.text


def test_the_same_key_again_is_not_sent_again(tmp_path: Path) -> None:
    script = Script(tmp_path, CANARY)
    seen, outcomes = served(script, set())
    assert len(seen) == 1 and script.runs == 2 and isinstance(outcomes[0], Unauthorized)


def test_a_command_that_fails_sends_nothing(tmp_path: Path) -> None:
    seen, outcomes = served(Script(tmp_path, "", code=1), set())
    assert seen == [] and isinstance(outcomes[0], MissingKey)


def test_the_caller_and_the_environment_come_before_the_command(tmp_path: Path) -> None:
    script = Script(tmp_path, "from-command")
    settings = Config(providers={"openai": ProviderConfig(api_key_command=tuple(script.command))})
    known = Catalog(settings, environ={"OPENAI_API_KEY": "from-variable"})
    target = known.resolve("openai/gpt-4o")
    assert known.key_source(target) == "OPENAI_API_KEY"
    assert known.auth_headers(target).reveal() == {"authorization": "Bearer from-variable"}
    alone = Catalog(settings, environ={})
    assert alone.key_source(target) == "api_key_command"
    assert alone.auth_headers(target, "mine").reveal() == {"authorization": "Bearer mine"}
    alone.check_key(target)
    assert script.runs == 0
    assert alone.auth_headers(target).reveal() == {"authorization": "Bearer from-command"}


@pytest.mark.parametrize("base", ["", 'base_url = "http://127.0.0.1:1/v1"\n'])
def test_a_project_that_is_not_trusted_may_not_run_a_program(tmp_path: Path, base: str) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir(), project.mkdir()
    text = f'[providers.mine]\n{base}api_key_command = ["touch", "ran"]\n'
    (project / ".midstream.toml").write_text(text)
    with pytest.raises(
        ConfigError, match=r"providers.mine decides where a key is sent, and this project is not trusted"
    ):
        load_config(project, {"MIDSTREAM_HOME": str(home)})
    (home / "config.toml").write_text(f'trusted_projects = ["{project}"]')
    assert load_config(project, {"MIDSTREAM_HOME": str(home)}).config.providers["mine"].api_key_command
    assert not (project / "ran").exists()


def test_a_command_is_shown_nowhere(tmp_path: Path) -> None:
    settings = Config(
        providers={"mine": ProviderConfig(api_key_command=("vault", CANARY), base_url="https://a.example")}
    )
    loaded = LoadedConfig(settings, {"providers.mine.api_key_command": "config.toml"}, ("config.toml",))
    listed = {setting.name: setting.value for setting in list_settings(loaded, {})}
    assert listed["providers.mine.api_key_command"] == HIDDEN
    assert CANARY not in repr(settings)


@pytest.mark.parametrize(
    "text, told",
    [
        ("api_key_command = 5", "api_key_command"),
        ("api_key_command = [5]", "api_key_command"),
        ("api_key_ttl = -1", "api_key_ttl"),
        ('auth = "basic"', "config.toml: [providers.mine]: invalid auth 'basic'; expected bearer, none, or the header"),
    ],
)
def test_settings_of_the_wrong_kind_name_their_key(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "config.toml").write_text(f"[providers.mine]\n{text}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path, {"MIDSTREAM_HOME": str(tmp_path)})
    assert told in str(caught.value)
