"""`midstream record`, `midstream replay`, and `--record` of the commands that talk."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from midstream.recording import Cassette
from midstream.testing import sim_server

from .conftest import Cli

SECRET = "sk-canary-7f3a90b2c4d1e6f8"


@pytest.fixture
def cassette(cli: Cli) -> Path:
    done = cli("ask", "hello there", "-m", "sim/kimi-k2.5", "--no-store", "--record", "cassettes")
    assert done.exit_code == 0, done.output
    return Path("cassettes")


def test_ask_records_and_the_recording_is_shown(cli: Cli, cassette: Path) -> None:
    (file,) = Cassette(cassette).files()
    shown = cli("record", "show", "cassettes")
    assert shown.exit_code == 0
    first, *rest = shown.stdout.splitlines()
    assert re.fullmatch(
        rf"{re.escape(file.name)}  sim:moonshot/kimi-k2\.5  200, [\d,]+ bytes in \d+ chunks?, .* s, clean", first
    )
    assert rest == ["    This is kimi-k2.5. You said: hello there"]
    read = json.loads(cli("record", "show", str(file), "--json").stdout)
    assert read["ending"] == "clean" and read["turn"]["blocks"][-1]["text"].endswith("hello there")


def test_a_chat_records_too(cli: Cli) -> None:
    words = ["chat", "-m", "sim/kimi-k2.5", "--no-store", "--record", "c"]
    subprocess.run(
        [sys.executable, "-m", "midstream.cli.main", *words], input=b"one\ntwo\n", check=True, capture_output=True
    )
    assert len(Cassette("c").files()) == 2


def test_a_place_that_cannot_be_written_is_told_and_the_answer_is_given(cli: Cli) -> None:
    done = cli("ask", "hello", "-m", "sim/kimi-k2.5", "--no-store", "--record", "notes.txt/below")
    assert done.exit_code == 0 and "You said: hello" in done.stdout
    assert "midstream: " in done.stderr and "notes.txt" in done.stderr


def test_own_patterns_are_taken_out_too(cli: Cli) -> None:
    words = ("ask", "my number is acct_77", "-m", "sim/kimi-k2.5", "--no-store", "--record", "c")
    done = cli(*words, "--scrub", r"acct_\d+")
    assert done.exit_code == 0 and "acct_77" in done.stdout
    (file,) = Cassette("c").files()
    assert "acct_" not in file.read_text()
    assert "not a regular expression" in cli(*words, "--scrub", "(").stderr


def test_a_recording_becomes_a_test(cli: Cli, cassette: Path) -> None:
    (file,) = Cassette(cassette).files()
    lines = file.read_text().splitlines()
    cut = {"end": "cut", "at_us": 1, "error": {"kind": "truncated", "message": "the connection was lost"}}
    at, kind, text = json.loads(lines[3])
    half = json.dumps([at, kind, text[: len(text) // 2]])
    file.write_text("\n".join([*lines[:3], half, json.dumps(cut)]) + "\n")
    made = Path("-it's mine", "test_cut.py")
    made.parent.mkdir()
    done = cli("record", "test", str(file), "-o", str(made), "--name", "a cut answer")
    assert done.exit_code == 0, done.output
    source = made.read_text()
    assert "def test_a_cut_answer(pace" in source and "kind == 'truncated'" in source
    # As it is printed, by a shell.
    command = done.stdout.strip().partition(": run it with ")[2]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "PYTEST_ADDOPTS": "-q -p no:cacheprovider --rootdir ."}

    def tried() -> str:
        done = subprocess.run(["sh", "-c", command], env=environ, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    assert "3 passed" in tried()
    # It can fail.
    made.write_text(source.replace("'truncated'", "'empty'"))
    assert "3 failed" in tried()
    again = cli("record", "test", str(file), "-o", str(made))
    assert again.exit_code == 1 and "--output" in again.stderr


def test_a_recording_of_a_stranger_is_data(cli: Cli, cassette: Path) -> None:
    """A test that is made of it runs nothing that it says."""
    (file,) = Cassette(cassette).files()
    evil = '"""\\nopen("owned", "w")\\n"""'
    file.write_text(
        file.read_text()
        .replace("sim:moonshot/kimi-k2.5", json.dumps(f"x/{evil}")[1:-1])
        .replace("hello there", evil.replace('"', "'"))
    )
    assert cli("record", "test", str(file), "-o", "test_evil.py").exit_code == 0
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "test_evil.py"]
    assert "3 passed" in subprocess.run(pytest_, capture_output=True, text=True, check=False).stdout
    assert not Path("owned").exists()


def test_the_doctor_reads_cassettes(cli: Cli, cassette: Path) -> None:
    (file,) = Cassette(cassette).files()
    for target in ("cassettes", str(file)):
        done = cli("doctor", target, "--look")
        assert done.exit_code == 0, done.output
        assert f"{file.name}: moonshot/kimi-k2.5" in done.stdout and "Nothing is broken." in done.stdout
        assert "ended with end_turn" in done.stdout
    # A healed copy beside a recording is not one.
    Path("cassettes/0001-x.jsonl.healed.jsonl").write_text("{}\n")
    assert cli("record", "show", "cassettes").exit_code == 0
    Path("empty").mkdir()
    assert "there are no recordings of answers in 'empty'" in cli("doctor", "empty").stderr


def test_the_doctor_tells_what_an_answer_comes_to(cli: Cli) -> None:
    with sim_server(faults=["500"]) as sim:
        os.environ["MOONSHOT_BASE_URL"] = sim.base_url("moonshot")
        try:
            cli("keys")
            done = cli("ask", "hello", "-m", "moonshot/kimi-k2.5", "--no-store", "--record", "c")
        finally:
            del os.environ["MOONSHOT_BASE_URL"]
    if not Path("c").exists():
        pytest.fail(done.output)
    told = cli("doctor", "c", "--look")
    assert "The answer: " in told.stdout and "internal error" in told.stdout


def test_in_and_out(cli: Cli, cassette: Path) -> None:
    assert "1 of 1 recordings" in cli("record", "export", "cassettes", "--as", "corpus", "-o", "cases").stdout
    assert (
        "1 recordings in back" in cli("record", "import", *map(str, Path("cases").iterdir()), "--into", "back").stdout
    )
    assert next(Cassette("back").read())[1].body == next(Cassette("cassettes").read())[1].body
    assert "1 of 1 recordings" in cli("record", "export", "cassettes", "--as", "vcr", "-o", "v.yaml").stdout
    assert json.loads(Path("v.yaml").read_text())["version"] == 1
    Path("x.json").write_text("[]")
    assert "x.json is not a corpus case" in cli("record", "import", "x.json", "--into", "back").stderr
    assert "there are no recordings" in cli("record", "show", ".").stderr


@contextmanager
def _running(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, and the address it shows."""
    process = subprocess.Popen(
        [sys.executable, "-m", "midstream.cli.main", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+[^\s:,]*(?=[,:\s]*(?:$|with))", process.stdout.readline())
        assert found is not None
        yield process, found[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def _post(url: str) -> bytes:
    body = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}).encode()
    headers = {"authorization": f"Bearer {SECRET}", "content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
        data: bytes = answer.read()
        return data


def test_served_recorded_and_replayed(cli: Cli) -> None:
    with sim_server("fine") as sim:
        with _running("record", "serve", sim.base_url("openai"), "--into", "c", "--port", "0") as (process, url):
            first = _post(f"{url}/chat/completions")
            assert process.stdout is not None
            assert process.stdout.readline().startswith("Press Ctrl-C")
            assert "0001-127.0.0.1-chat-completions.jsonl" in process.stdout.readline()
        assert process.returncode == 0
    with _running("replay", "serve", "c", "--port", "0") as (process, url):
        assert _post(f"{url}/openai/chat/completions") == first
    assert process.returncode == 0
    assert SECRET not in "".join([file.read_text() for file in Cassette("c").files()])


def test_what_was_taken_out_is_taken_out_of_replayed_requests(cli: Cli) -> None:
    scrub = ("--scrub", "h(i)")
    with (
        sim_server("fine") as sim,
        _running("record", "serve", sim.base_url("openai"), "--into", "c", "--port", "0", *scrub) as (_, url),
    ):
        first = _post(f"{url}/chat/completions")
    (file,) = Cassette("c").files()
    assert '"content":"h***"' in file.read_text()
    with _running("replay", "serve", "c", "--port", "0", *scrub) as (_, url):
        assert _post(f"{url}/openai/chat/completions") == first
    with (
        _running("replay", "serve", "c", "--port", "0") as (_, url),
        pytest.raises(urllib.error.HTTPError, match="404"),
    ):
        _post(f"{url}/openai/chat/completions")


def test_help_of_both(cli: Cli) -> None:
    for words in (("record",), ("record", "serve"), ("record", "test"), ("replay", "serve")):
        assert cli(*words, "--help").exit_code == 0
    assert "not a regular expression" in cli("record", "serve", "openai", "--into", "c", "--scrub", "(").stderr
    assert "unknown provider 'opnai'" in cli("record", "serve", "opnai", "--into", "c").stderr
