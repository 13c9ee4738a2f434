"""Commands that mean harm: none leaves a process behind, none hangs, none finds a key."""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from .unprivileged import answers, interpreter
from .unprivileged_bash import living

CASES: list[dict[str, Any]] = tomllib.loads(
    (Path(__file__).parents[1] / "data" / "hostile_commands.toml").read_text("utf-8")
)["case"]

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/limits").exists() or interpreter() is None,
    reason="NOT TESTED: needs Linux and a Python that the user nobody may run",
)


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 24


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_no_hostile_command_leaves_a_process_or_hangs(case: dict[str, Any]) -> None:
    if shutil.which(case.get("needs", "sh")) is None:
        pytest.skip(f"NOT TESTED: there is no {case['needs']} here")
    token = f"999.{int.from_bytes(os.urandom(8))}"
    command = case["command"].replace("{nap}", f"sleep {token}").replace("{python}", quote(interpreter() or ""))
    found = answers([{"command": command, "timeout": 2, "token": token}], {}, timeout=30)
    if case.get("killed"):
        # Nobody is left to wait for it: the watcher has a moment.
        assert found == []
        limit = time.monotonic() + 5
        while living(token) and time.monotonic() < limit:
            time.sleep(0.02)
    else:
        assert [each["left"] for each in found] == [[]]
    time.sleep(case.get("settles", 0))
    assert living(token) == []


def test_the_token_finds_what_is_alive() -> None:
    """The check above can fail: a process that does run is seen."""
    token = f"999.{int.from_bytes(os.urandom(8))}"
    # Until it is there: between its fork and its exec a process has the shell's name, or none.
    shown = f"sleep {token} & exec 2>&1; until grep -aq {token} /proc/$!/cmdline; do :; done; cat /proc/$!/cmdline"
    [found] = answers([{"command": shown, "timeout": 5, "token": "/python"}], {})
    assert token in found["answer"] and found["left"]


PLANTED = {
    # named as keys by the catalog and the configuration: no name or value here gives them away
    "MOONSHOT_API_KEY": "{canary}",
    "HF_API": "{canary}",
    "TEAM_VALUE": "{canary}",
    "COPY_OF_TEAM_VALUE": "prefix:{copied}",
    # by name
    "GITHUB_PAT": "{canary}",
    "DB_CONNECTION_STRING": "{canary}",
    "AWS_SECRET_ACCESS_KEY": "{canary}",
    "SIGNING_JWT": "{canary}",
    **dict.fromkeys(
        "OPENAI_KEY2 SSHPASS TOKEN1 STRIPE_SK MASTERKEY AWS_CREDS DB_PW CURL_USERPWD AUTHORIZATION "
        "GPG_PASSPHRASE1 WIFI_PSK BOTTOKEN_DEV SEED_PHRASE".split(),
        "{canary}",
    ),
    # by value
    "VALUE_01": "hf_{canary}",
    "VALUE_02": "AIza{canary}",
    "VALUE_03": "rk_live_{canary}",
    "VALUE_04": "sk_live_{canary}",
    "VALUE_05": "glpat-{canary}",
    "VALUE_06": "npm_{canary}",
    "VALUE_07": "pypi-{canary}",
    "VALUE_08": "eyJhbGciOiJIUzI1NiJ9.{canary}.c2ln",
    "VALUE_09": "-----BEGIN PRIVATE KEY-----\n{canary}\n-----END PRIVATE KEY-----",
    "VALUE_10": "xoxb-{canary}",
    "VALUE_11": "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={canary}==",
    "VALUE_12": "postgres://me:{canary}@db.example/x",
    "VALUE_13": "github_pat_{canary}",
    "VALUE_14": '{"type": "service_account", "private_key_id": "{canary}"}',
    "VALUE_15": "dckr_pat_{canary}",
    "VALUE_16": "sq0atp-{canary}",
    "VALUE_17": "glsa_{canary}",
    "VALUE_18": "secret_{canary}",
    "VALUE_19": "PMAK-{canary}",
    "VALUE_20": "doo_v1_{canary}",
    "VALUE_21": "123456789:AA{canary}",
    "VALUE_22": "AQ.{canary}",
    "VALUE_23": "Bearer {canary}",
    "VALUE_24": "me:{canary}@db.example:5432/x",
    "VALUE_25": "Xy{canary}Zz0",
}

HUNTS = {
    "env": "env; export -p; set",
    "the parent's environment": "tr '\\0' '\\n' </proc/$PPID/environ",
    "everybody's environment": "cat /proc/[0-9]*/environ | tr '\\0' '\\n'",
    "everybody's threads": "cat /proc/[0-9]*/task/*/environ | tr '\\0' '\\n'",
    "everybody's command line": "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'",
    "ps": "ps axewww; ps eww",
    "everybody's descriptors": "for f in /proc/[0-9]*/fd/*; do timeout 0.2 head -c 100000 $f </dev/null; done",
    "everybody's memory": (
        "{python} -c '\n"
        "import glob, sys\n"
        'for path in glob.glob("/proc/[0-9]*/maps"):\n'
        "    try:\n"
        '        maps = open(path).read().splitlines(); mem = open(path.replace("maps", "mem"), "rb", 0)\n'
        "    except OSError: continue\n"
        '    for line in maps:  # what it has written: the heap, the stack\n'
        "        start, end = [int(x, 16) for x in line.split()[0].split(\"-\")]\n"
        '        if "rw" not in line or end - start > 1 << 26: continue\n'
        "        try: mem.seek(start); data = mem.read(end - start)\n"
        "        except (OSError, ValueError, OverflowError): continue\n"
        '        at = data.find(b"CANARY")\n'
        "        while at >= 0: print(data[at:at + 40]); at = data.find(b\"CANARY\", at + 1)\n"
        "'"
    ),
}  # fmt: skip


def _planted(home: Path) -> tuple[dict[str, str], list[str]]:
    """Twenty keys and more, in the environment and in the configuration, and what each is known by."""
    canaries: list[str] = []
    planted: dict[str, str] = {}
    for name, value in PLANTED.items():
        canaries.append(f"CANARY{len(canaries):02d}{os.urandom(12).hex()}")
        planted[name] = value.replace("{canary}", canaries[-1]).replace("{copied}", planted.get("TEAM_VALUE", ""))
    (home / "config.toml").write_text(
        '[providers.team]\nbase_url = "https://models.example/v1"\napi_key_env = "TEAM_VALUE"\n'
        '[providers.other]\nbase_url = "https://other.example/v1"\napi_key_env = "HF_API"\n'
    )
    return planted, canaries


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that another user can read, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_no_planted_key_is_reachable_from_an_unprivileged_bash(home: Path) -> None:
    planted, canaries = _planted(home)
    assert len(planted) >= 20
    cases = [
        {"command": command.replace("{python}", quote(interpreter() or "")), "timeout": 20, "token": "no process"}
        for command in HUNTS.values()
    ]
    found = answers(cases, {**planted, "MIDSTREAM_HOME": str(home), "HARMLESS": "it is seen"}, timeout=200)
    assert "it is seen" in found[0]["answer"]
    told = "\n".join([each["answer"] for each in found])
    coded = [base64.b64encode(canary.encode()).decode().rstrip("=") for canary in canaries]
    assert [name for name, canary in zip(planted, canaries, strict=True) if canary in told] == []
    assert not any(code in told for code in coded)


def test_the_configuration_names_keys_that_look_like_none(home: Path) -> None:
    """So the check above can fail: without the configuration these two are passed on."""
    planted, canaries = _planted(home)
    [found] = answers([{"command": "env", "timeout": 10, "token": "no process"}], planted)
    assert {name for name, canary in zip(planted, canaries, strict=True) if canary in found["answer"]} == {
        "HF_API",
        "TEAM_VALUE",
    }
