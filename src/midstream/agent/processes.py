"""Child processes: how their output is read, and which environment variables they get.

A variable is withheld if the catalog or the configuration names it as a key, if its name or its value looks like a secret,
or if its value contains one that was withheld by name (`BACKUP=$OPENAI_API_KEY`).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from pathlib import Path

from ..client.catalog import Catalog
from ..client.config import Config, load_config
from ..core.errors import ConfigError

CHUNK = 1 << 16


def held(data: bytes) -> int:
    """A descriptor to read the data from, which a child inherits if it is passed on. Not a pipe, which holds less."""
    fd = os.memfd_create("midstream")
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


class PipeReader:
    """The reading end of a pipe on the event loop: hands each chunk to `take` until the end, or until closed; then sets `done`.

    It can be closed although somebody still holds the other end. asyncio's own subprocess streams wait for that end to
    close, so a process that was handed the pipe could make us wait forever.
    """

    def __init__(self, fd: int, take: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._take = take
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._on_ready)

    def close(self) -> None:
        if not self.done.done():
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self.done.set_result(None)

    def _on_ready(self) -> None:
        try:
            data = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return
        if data:
            self._take(data)
        else:
            self.close()


# Names of variables. To the careful side: a variable too few is a command that says
# what it misses, a key too many is a key in a model's context. The exceptions in
# the lookbehinds (MONKEY, HOTKEY, COMPASS, BYPASS) are words that merely end so.
_SECRET_NAME = (
    r"(?:^|_)(?:KEY|KEYS|TOKEN|TOKENS|SECRET|SECRETS|PASS|CREDS?|CREDENTIALS?|COOKIES?|AUTH|PWD|PW|PSK|DSN|HEADERS|SK|OTP|TOTP|SALT"
    r"|PAT|PATS|JWT|BEARER|SAS|MNEMONIC|WEBHOOK|PRIVATE|UNSEAL)\d*(?:_|$)"
    r"|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|PASSWORD|PASSWD|PASSPHRASE|PASSCODE|SECRET|OAUTH|AUTHORIZATION|COOKIE|SEED_?PHRASE|CONN(?:ECTION)?_?STR"
    r"|(?:(?<!MON)(?<!HOT)KEYS?|TOKENS?|(?<!COM)(?<!BY)PASS|PWD)\d*(?:$|_)"
)
# How issuers' keys start, each followed by enough characters to be one.
_ISSUED = (
    r"sk-[\w-]{16}",
    r"[rs]k_(?:live|test)_\w{8}",
    r"whsec_\w{16}",
    r"gh[pousr]_\w{16}",
    r"github_pat_\w{16}",
    r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-[\w-]{16}",
    r"hf_\w{16}",
    r"gsk_\w{16}",
    r"r8_\w{16}",
    r"(?:xai|pplx|nvapi|csk|fw|tgp_v1|jina)[-_][\w-]{20}",
    r"AIza[\w-]{20}",
    r"ya29\.[\w-]{16}",
    r"GOCSPX-[\w-]{16}",
    r"npm_[A-Za-z0-9]{30}",
    r"pypi-[\w-]{16}",
    r"xox[a-z]-[\w-]{8}",
    r"xapp-[\w-]{8}",
    r"(?:AKIA|ASIA)[0-9A-Z]{16}",
    r"SG\.[\w-]{16}",
    r"do[opr]_v1_\w{16}",
    r"shp(?:at|ca|pa|ss)_\w{16}",
    r"dapi[0-9a-f]{30}",
    r"hvs\.[\w-]{16}",
    r"lin_api_\w{16}",
    r"ATATT3[\w-]{16}",
    r"AGE-SECRET-KEY-1\w{16}",
    r"sk_[0-9a-f]{32}",
    r"sq0[a-z]{3}-[\w-]{16}",
    r"(?:figd|ntn|secret|dckr_pat|dckr_oat|rubygems|glsa|glc|sntry[su]|ph[cx]|nfp|fm[12]|re|sbp|pscale_(?:tkn|pw|oauth)|lsv2_[a-z]{2}|e2b)_[\w-]{20}",
    r"(?:PMAK|NRAK|CFPAT|tvly|key|fc|pa|ak|sk)-[\w-]{24}",
    r"ABSK[A-Za-z0-9]{20}",
    r"AQ\.[\w-]{20}",
    r"(?:SK|AC)[0-9a-f]{32}",
    r"\d{8,10}:AA[\w-]{30}",  # a bot of Telegram
    r"[\w-]{23,28}\.[\w-]{6}\.[\w-]{27}",  # one of Discord
    r"\w{14}\.atlasv1\.[\w-]{16}",
    r"(?i:bearer|basic) [\w.~+/-]{16}",
    r"eyJ[\w-]{8,}\.[\w-]{8,}\.",  # a JSON web token
)
_SECRET_VALUES = (
    rf"(?<![A-Za-z0-9])(?:{'|'.join(_ISSUED)})",
    r"(?i)[a-z][a-z0-9+.-]*://[^/\s:@]*:[^\s@]+@",  # a URL with a password
    r"://[^/\s:@]{16,}@",  # or with a token for a user
    r"\A[^/\s:@]+:[^/\s:@]+@[\w.-]+(?::\d+)?(?:/|\Z)",  # the same without a scheme
    r"-----BEGIN [A-Z0-9 ]+-----",
    # One word of letters in both cases and digits, too long to be anything else.
    r"\A(?=\D*\d)(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?:[A-Za-z0-9_+=-]{36,}|[A-Za-z0-9+][A-Za-z0-9+/=]{39})\Z",
    r"(?i)(?:account_?key|shared_?access_?(?:key|signature)|password|passwd|pwd|secret|token|api[_-]?key)[\"']?\s*[=:]\s*\S",
    r"[?&]sig=|\"private_key\"|\"service_account\"|hooks\.slack\.com/services/|/api/webhooks/\d",
)
_NOT_SECRET = frozenset({"SSH_AUTH_SOCK", "PWD", "OLDPWD"})
_TELLING = 8  # a shorter key may appear in other values by chance
# A shell runs these files before the command.
_STARTUP_FILES = frozenset({"BASH_ENV", "ENV"})
# Pagers and prompts expect a person at a screen.
_NOBODY_THERE = {"TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}


def child_environment(
    environment: Mapping[str, str], keep: Iterable[str] = (), key_names: Collection[str] = ()
) -> dict[str, str]:
    """The environment without keys and what looks like a secret, with settings for a program that nobody watches."""
    kept = frozenset(keep)
    hidden = {
        name
        for name, value in environment.items()
        if name in key_names or name in _STARTUP_FILES or looks_secret(name, value)
    }
    # The same key is often set twice, the second time under a name that gives nothing away.
    values = [environment[name] for name in hidden - _STARTUP_FILES - kept]
    known = [
        value for value in values if len(value) >= _TELLING and not value.startswith("/")
    ]  # a path to a secret is not one
    passed = {
        name: value
        for name, value in environment.items()
        if name in kept or (name not in hidden and not any(secret in value for secret in known))
    }
    return {**passed, **_NOBODY_THERE}


def looks_secret(name: str, value: str) -> bool:
    if name in _NOT_SECRET:
        return False
    of_names, of_values = _patterns()
    return bool(of_names.search(name)) or any(pattern.search(value) for pattern in of_values)


@cache
def _patterns() -> tuple[re.Pattern[str], tuple[re.Pattern[str], ...]]:
    """Compiled when a command is first run, which most conversations never do."""
    return re.compile(_SECRET_NAME, re.IGNORECASE), tuple(re.compile(pattern) for pattern in _SECRET_VALUES)


def known_key_names(folder: str) -> frozenset[str]:
    """The variables that the catalog and the configuration of this folder name as keys."""
    try:
        catalog = Catalog(load_config(Path(folder)))
    except ConfigError:
        catalog = Catalog(Config())  # what is wrong with it is reported where its settings are read
    return catalog.key_names()
