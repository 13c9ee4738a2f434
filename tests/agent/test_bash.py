from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.agent import supervisor
from midstream.agent.bash import MAX_COMMAND, Bash, Capped
from midstream.agent.paths import Folder
from midstream.agent.processes import child_environment
from midstream.core.errors import ToolFailed

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the bash tool needs Linux")


class Shell:
    """The tool, and a mark by which every process it ever starts can be found."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mark = f"MARK_{os.urandom(8).hex()}"
        self.tool = Bash(Folder(root))

    def run(self, command: str, timeout: float = 20) -> str:
        try:
            return asyncio.run(self.tool.bash(command, timeout))
        except ToolFailed as error:
            return f"FAILED {error}"

    def left(self) -> list[str]:
        """Living processes that carry the mark."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and self.mark.encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().decode())
            except OSError:
                continue
        return [line for line in found if line]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    made = Shell(tmp_path)
    monkeypatch.setenv(made.mark, "1")
    yield made
    assert made.left() == []


ANSWERS = {
    "output": ("echo hi", "hi"),
    "both streams in order": ("echo a; echo b >&2; echo c", "a\nb\nc"),
    "nothing": ("true", "(no output, exit code 0)"),
    "an exit code": ("echo x; exit 3", "x\n[exit code 3]"),
    "no such command": ("no_such_command_here 2>/dev/null", "[exit code 127]"),
    "a signal": ("kill -KILL $$", "[ended by signal 9 (SIGKILL)]"),
    "bash, not sh": ("a=(1 2); echo ${a[1]}; [[ x == x ]] && echo y", "2\ny"),
    "no input": ("cat; read line; echo got $?", "got 1"),
    "no terminal": ("exec 2>/dev/null; echo x >/dev/tty && echo tty || echo none", "none"),
    "bytes that are not text": (r"printf 'a\377b'", "a\ufffdb"),
    "pipes that break": ("yes | head -1", "y"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_a_command_answers(shell: Shell, case: str) -> None:
    command, answer = ANSWERS[case]
    assert shell.run(command) == answer


def test_it_runs_in_the_folder(shell: Shell) -> None:
    assert shell.run("pwd -P") == os.path.realpath(shell.root)


def test_it_has_a_session_and_a_group_of_its_own(shell: Shell) -> None:
    pid, group, session = shell.run("cut -d' ' -f1,5,6 /proc/$$/stat").split()
    assert pid == group == session
    assert int(session) != os.getsid(0)


# Each would hang or leave something behind. Ended by the timeout of one second, or at once.
HANGING = {
    "sleep": "sleep 999",
    "yes": "yes",
    "a loop that ignores the signal": "trap '' TERM INT HUP; while :; do sleep 1; done",
    "two hundred children": "for i in $(seq 200); do sleep 999 & done; wait",
    "a bounded fork bomb": "f() { [ $1 -gt 0 ] && { f $(($1-1)) & f $(($1-1)) & }; sleep 999; }; f 5",
    "a stopped process": "kill -STOP $$",
    "a busy loop": "while :; do :; done",
    "a fifo": "mkfifo f && cat f",
}
LEAVING = {
    "a child that holds the pipe": "sleep 999 & echo done",
    "a child without the pipe": "sleep 999 >/dev/null 2>&1 & echo done",
    "nohup": "nohup sleep 999 >/dev/null 2>&1 & echo done",
    "disowned": "sleep 999 & disown; echo done",
    "a session of its own": "setsid sleep 999 & echo done",
    "a daemon forked twice": "(setsid bash -c 'setsid sleep 999 & exit' &) ; sleep 0.1; echo done",
    "a daemon without its environment": "(env -i setsid bash -c 'sleep 999 & exit' &) ; sleep 0.1; echo done",
    "a daemon that ignores the signal": "setsid bash -c 'trap \"\" TERM; while :; do sleep 1; done' & sleep 0.1; echo done",
}


@pytest.mark.parametrize("case", HANGING)
def test_what_hangs_is_ended_in_time_with_all_it_started(shell: Shell, case: str) -> None:
    started = time.monotonic()
    answer = shell.run(HANGING[case], 1)
    # The promise is the timeout and two seconds; a busy machine gets more, and a hang would last 999.
    assert time.monotonic() - started <= 1 + 10
    assert answer.startswith("FAILED")
    assert "did not end within 1 s" in answer
    assert len(answer) < 70_000


@pytest.mark.parametrize("case", LEAVING)
def test_what_is_left_behind_is_ended_with_the_command(shell: Shell, case: str) -> None:
    answer = shell.run(LEAVING[case])
    assert answer.startswith("done\n[")
    assert "were ended with the command" in answer
    assert not _sleeping_below(shell)


def test_a_daemon_that_left_its_environment_behind_is_ended_too(shell: Shell) -> None:
    """No mark can find it, so its own pid must tell."""
    shell.run("(env -i setsid bash -c 'sleep 999 & echo $! > pid' &) ; sleep 0.2")
    pid = int((shell.root / "pid").read_text())
    assert not _lives(pid)


def _sleeping_below(shell: Shell) -> list[str]:
    """Processes that work in the test's folder, whatever their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink() == shell.root.resolve():
                found.append(entry.name)
        except OSError:
            continue
    return found


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_killing_the_supervisor_leaves_nothing_either(shell: Shell) -> None:
    answer = shell.run("sleep 999 & setsid sleep 999 & kill -KILL $PPID; sleep 999", 5)
    assert "supervises the command" in answer


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can write to a descriptor of the supervisor")
def test_a_forged_report_does_not_help_when_all_watchers_are_killed(shell: Shell) -> None:
    """The forger is believed about the exit code, and about nothing else."""
    answer = shell.run(
        "(env -i setsid bash -c 'echo $$ > pid; exec sleep 999' &); sleep 0.2; echo 'exit 0 0' >/proc/$PPID/fd/2; "
        'for p in /proc/[0-9]*; do grep -qs "$MIDSTREAM_RUN" $p/cmdline && kill -9 ${p#/proc/}; done; sleep 999',
        5,
    )
    assert "FAILED" not in answer
    assert not _lives(int((shell.root / "pid").read_text()))


def test_a_cancelled_command_is_gone_before_the_cancellation_arrives(shell: Shell) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(shell.tool.bash("trap '' TERM; touch started; setsid sleep 999 & sleep 999"))
        while not (shell.root / "started").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()  # an impatient user
        with pytest.raises(asyncio.CancelledError):
            await task
        assert shell.left() == []

    asyncio.run(main())


def test_if_we_are_killed_the_command_dies_with_us(shell: Shell) -> None:
    script = (
        "import asyncio; from midstream.agent.bash import Bash; from midstream.agent.paths import Folder\n"
        "asyncio.run(Bash(Folder('.')).bash('touch started; setsid sleep 999 & sleep 999'))"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=shell.root) as process:
        while not (shell.root / "started").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 3
    while shell.left() and time.monotonic() < deadline:
        time.sleep(0.02)


def test_no_descriptor_is_left_open(shell: Shell) -> None:
    fds = Path("/proc/self/fd")
    gc.collect()  # folders of other tests
    before = len(list(fds.iterdir()))
    shell.run("sleep 999", 0.1)
    shell.run("echo x")
    assert len(list(fds.iterdir())) == before


def test_output_is_capped_with_its_head_and_tail(shell: Shell) -> None:
    answer = shell.run("echo first; seq 200000; echo last")
    assert answer.startswith("first\n1\n2\n")
    assert answer.endswith("200000\nlast")
    assert "bytes of output cut" in answer
    assert len(answer) <= 64 * 1024 + 100


@given(st.lists(st.binary(max_size=40)), st.integers(2, 50))
def test_the_cap_keeps_the_beginning_and_the_end(chunks: list[bytes], limit: int) -> None:
    capped = Capped(limit)
    for chunk in chunks:
        capped.add(chunk)
        assert len(capped._head) + len(capped._tail) <= 2 * limit
    data = b"".join(chunks)
    half = limit // 2
    if len(data) <= 2 * half:
        assert capped.text() == data.decode("utf-8", "replace")
    else:
        head, _, rest = capped.text().partition("\n[… ")
        count, _, tail = rest.partition(" bytes of output cut …]\n")
        assert head == data[:half].decode("utf-8", "replace")
        assert tail == data[-half:].decode("utf-8", "replace")
        assert int(count) == len(data) - 2 * half


REFUSED = {
    "empty": ("  ", 1.0),
    "nul": ("echo a\0b", 1.0),
    "surrogate": ("echo \ud800", 1.0),
    "long": ("x" * (MAX_COMMAND + 1), 1.0),
    "no time": ("echo", 0.0),
    "negative time": ("echo", -1.0),
    "too much time": ("echo", 1e9),
    "no number": ("echo", float("nan")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_run_is_refused_in_words(shell: Shell, case: str) -> None:
    command, timeout = REFUSED[case]
    assert shell.run(command, timeout).startswith("FAILED ")


SECRETS = {
    "OPENAI_API_KEY": "x",
    "MOONSHOT_API_KEY": "x",
    "ANTHROPIC_AUTH_TOKEN": "x",
    "ANTHROPIC_CUSTOM_HEADERS": "x",
    "DEEPINFRA_TOKEN": "x",
    "GITHUB_TOKEN": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SESSION_TOKEN": "x",
    "GOOGLE_APPLICATION_CREDENTIALS": "x",
    "PGPASSWORD": "correct-horse",
    "MYSQL_PWD": "x",
    "my_secret": "x",
    "apikey": "x",
    "DATABASE_URL": "postgres://me:hunter2@db/x",
    "SOMETHING": "sk-abcdefghijklmnopqrstuv",
    "BASH_ENV": "evil.sh",
    "ENV": "evil.sh",
    "GITHUB_PAT": "x",
    "AZURE_STORAGE_CONNECTION_STRING": "x",
    "SLACK_WEBHOOK": "x",
    "V1": "hf_abcdefghijklmnopqrstuv",
    "V2": "AIzaSyabcdefghijklmnopqrstuv",
    "V3": "rk_live_abcdefghijkl",
    "V4": "glpat-abcdefghijklmnopqrst",
    "V5": "npm_abcdefghijklmnopqrstuvwxyz0123456789",
    "V6": "pypi-AgEIcHlwaS5vcmcabcdef",
    "V7": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
    "V8": "-----BEGIN OPENSSH PRIVATE KEY-----",
    "V9": "Endpoint=sb://x/;SharedAccessKeyName=a;SharedAccessKey=b",
    "V10": "Server=db;User=me;Password=hunter2",
    "V11": "https://abcdefghijklmnopqrstuvwx@git.example/x.git",
    "V12": "see ghp_abcdefghijklmnopqrstuv here",
    "V13": '{"type": "service_account"}',
    "V14": "ASIAABCDEFGHIJKLMNOP",
    "COPY": "see correct-horse there",
    "SHORT_PASSWORD": "hunter42",
    "COPY_OF_SHORT": "see hunter42 there",
    "SHORTER_PASSWORD": "hunter7",
}
HARMLESS = {
    "PATH": "/bin",
    "HOME": "/root",
    "PWD": "/",
    "SSH_AUTH_SOCK": "/run/agent",
    "KEYBOARD": "us",
    "MONKEY": "x",
    "TOKENIZERS_PARALLELISM": "false",
    "HTTPS_PROXY": "http://proxy:3128",
    "AUTHOR": "me",
    "LANG": "C.UTF-8",
    "MANPATH": "/usr/share/man",
    "LS_COLORS": "rs=0:di=01;34:ln=01;36",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/1000/bus",
    "npm_config_cache": "/home/me/.npm",
    "TASK": "sk-ip",
    "PIP_INDEX_URL": "https://pypi.example/simple",
    "GIT_AUTHOR_EMAIL": "me@example.com",
    "REPO": "ssh://git@github.com/me/x",
    "BY_CHANCE": "see hunter7 there",
}


def test_secrets_are_not_passed_on() -> None:
    passed = child_environment({**SECRETS, **HARMLESS})
    assert {name for name in SECRETS if name in passed} == set()
    assert {name for name in HARMLESS if name not in passed} == set()
    assert child_environment(SECRETS, keep=["GITHUB_TOKEN"])["GITHUB_TOKEN"] == "x"


def test_a_command_and_its_supervisor_see_no_secret(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOONSHOT_API_KEY", "canary-value")
    assert "canary-value" not in shell.run(
        "env; tr '\\0' '\\n' < /proc/$PPID/environ; tr '\\0' '\\n' </proc/$PPID/cmdline | head -5"
    )


class Clock:
    """In place of the supervisor's `time`: nothing but its sleep takes time."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(supervisor, "time", made)
    return made


SWEEPS = {
    "nothing there": ([], 3, 0),
    "one that is missed once": ([[], [7], [], [8]], 7, 2),
    "one found after two looks in vain": ([[], [], [7, 8]], 6, 2),
}


@pytest.mark.parametrize("case", SWEEPS)
def test_the_watcher_looks_until_it_finds_nothing_three_times(
    case: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, looks, kills = SWEEPS[case]
    found = iter([*there, [], [], []])
    looked: list[str] = []
    killed: list[int] = []

    def marked(marker: str) -> list[int]:
        looked.append(marker)
        return next(found)  # there is no more of it than it may look for

    monkeypatch.setattr(supervisor, "marked", marked)
    monkeypatch.setattr(supervisor, "ended", lambda pid: False)
    monkeypatch.setattr(supervisor, "send", lambda pids, number: killed.extend(pids))
    supervisor.sweep("mark")
    assert (len(looked), len(killed)) == (looks, kills)


def test_the_watcher_gives_up(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no signal ends must not keep it for ever."""
    killed: list[int] = []

    def send(pids: list[int], number: int) -> None:
        assert clock.now < 100 + supervisor.GIVE_UP
        killed.extend(pids)

    monkeypatch.setattr(supervisor, "marked", lambda marker: [7])
    monkeypatch.setattr(supervisor, "ended", lambda pid: False)
    monkeypatch.setattr(supervisor, "send", send)
    supervisor.sweep("mark")
    assert len(killed) > 100


@pytest.mark.parametrize(("after", "told"), [(0.0, "exit 0"), (1.45, "exit 0"), (1.6, None)])
def test_the_guard_waits_as_long_as_its_supervisor_may_take(
    after: float, told: str | None, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert supervisor.GRACE + supervisor.GIVE_UP == 1.4
    monkeypatch.setattr(supervisor, "ending", lambda child: "exit 0" if clock.now >= 100 + after else None)
    assert supervisor.last_word(7) == told


@pytest.mark.parametrize(
    ("status", "told"), [(None, None), (0, "exit 0"), (3 << 8, "exit 3"), (9, "signal 9"), (15 | 0x80, "signal 15")]
)
def test_how_a_command_ended(status: int | None, told: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "reap", lambda child: status)
    assert supervisor.ending(7) == told
