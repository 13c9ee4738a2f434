"""Keys taken out of what a peer echoes, whole and cut short."""

from __future__ import annotations

import itertools
import re

import pytest

from midstream.core.blocks import Turn
from midstream.core.errors import ProviderError, RateLimited, RetriesExhausted
from midstream.core.events import ErrorEvent, ErrorInfo
from midstream.transport import secrets
from midstream.transport.secrets import Secrets
from tests.long_run import each_once
from tests.regex_steps import search_steps

KEY = "sk-canary-4a9f0c77d1"
SECRETS = Secrets({"authorization": f"Bearer {KEY}"})
LONG_KEY = "sk-canary-0123456789abcdef"
LONG_SECRETS = Secrets({"authorization": f"Bearer {LONG_KEY}"})


def _one_veil(text: str) -> str:
    """Neighbouring keys may share one veil."""
    return re.sub(r"(?:\*\*\*)+", "***", text)


@each_once(
    ("size", range(12, len(KEY) + 1)),
    (
        "before, after",
        [
            ("", ""),
            ("bad key ", ""),
            ("bad key ", "…"),
            ("", " is bad"),
            ("<", ">"),
            (KEY, ""),
            ("sk-canary-4a", " x"),
            ("", KEY),
        ],
    ),
)
def test_a_beginning_of_a_key_is_taken_out_and_nothing_beside_it(size: int, before: str, after: str) -> None:
    """A message that was cut may end anywhere within a key, and an echo may be cut and go on."""
    veiled = [part.replace(KEY, "***").replace("sk-canary-4a", "***") for part in (before, after)]
    scrubbed = SECRETS.scrub_text(f"{before}{KEY[:size]}{after}")
    assert _one_veil(scrubbed) == _one_veil(f"{veiled[0]}***{veiled[1]}")


@pytest.mark.parametrize("other", ["0", "-", "é", "\x00"])
def test_a_beginning_ends_where_the_letters_differ(other: str) -> None:
    for size in range(12, len(KEY)):
        if not KEY[size:].startswith(other):
            assert SECRETS.scrub_text(f"{KEY[:size]}{other}{KEY[size + 1 :]}.") == f"***{other}{KEY[size + 1 :]}."


def test_several_beginnings_in_one_message() -> None:
    said = " or ".join([KEY[:size] for size in range(12, len(KEY) + 1)])
    assert SECRETS.scrub_text(said) == " or ".join(["***"] * (len(KEY) - 11))


@pytest.mark.parametrize("size", range(1, 12))
def test_what_is_too_short_to_tell_stays(size: int) -> None:
    assert SECRETS.scrub_text(KEY[:size]) == KEY[:size]


def quoting() -> ProviderError:
    quoted = f"wrong: {LONG_KEY}"
    return RateLimited(quoted, status=429, code=quoted, type=quoted, request_id=quoted)


def test_every_text_of_an_event_is_scrubbed_and_so_are_the_attempts_behind_it() -> None:
    info = ErrorInfo.of(RetriesExhausted("all failed", [quoting(), quoting()]))
    for told in (ErrorInfo.of(quoting()), info):
        scrubbed = LONG_SECRETS.scrub_event(ErrorEvent(told, Turn("ai")))
        assert LONG_KEY in repr(told) and LONG_KEY not in repr(scrubbed)
        assert type(scrubbed.to_exception()) is type(told.to_exception())


def test_every_text_of_an_exception_is_scrubbed() -> None:
    error = LONG_SECRETS.scrub_error(quoting())
    assert LONG_KEY not in f"{error!r} {error} {vars(error)}" and error.request_id == "wrong: ***"


WRITINGS = {
    "\\u": lambda code: f"\\u{code:04x}",
    "\\U": lambda code: f"\\U{code:08x}",
    "\\u{}": lambda code: f"\\u{{{code:x}}}",
    "\\x": lambda code: f"\\x{code:02x}",
    "octal": lambda code: f"\\{code:03o}",
    "percent": lambda code: f"%{code:02x}",
    "percent twice": lambda code: f"%25{code:02x}",
    "%u": lambda code: f"%u{code:04x}",
    "decimal": lambda code: f"&#{code};",
    "hexadecimal": lambda code: f"&#x{code:x};",
}


@pytest.mark.parametrize("writing", WRITINGS)
def test_a_key_is_found_however_its_characters_are_written(writing: str) -> None:
    """Each of them, and every second one only."""
    write = WRITINGS[writing]
    for step in (1, 2):
        written = "".join([write(ord(each)) if at % step == 0 else each for at, each in enumerate(LONG_KEY)])
        scrubbed = LONG_SECRETS.scrub(f"bad key: {written} !".encode()).decode()
        assert _one_veil(scrubbed) == "bad key: *** !"


# What a peer can repeat without end, between what may stand before and after it.
RUNS = ("\\", "\\\\x", "\\n", "%", "%25", "25", "0", "&", "amp;", "&amp;", "#38;", "=", " ", "a")
BEFORE = ("", "&", "&#", "&#x", "&amp;#", "%", "\\u{", "\\\\\\u{")
AFTER = ("", "x", "!", ";")


@pytest.mark.parametrize("pattern", [secrets._WRITTEN, secrets._MAIL_WRITTEN], ids=["read", "letters"])
def test_twice_the_text_is_twice_the_work(pattern: str) -> None:
    """A host quotes what a client sent, and its error is scrubbed on the loop that serves everybody."""
    for before, run, after in itertools.product(BEFORE, RUNS, AFTER):
        once, twice = [search_steps(pattern, before + run * count + after) for count in (40, 80)]
        assert twice < 2.2 * once, (before, run, after, once, twice)


def test_a_key_is_found_behind_a_long_run() -> None:
    for run in RUNS:
        assert LONG_SECRETS.scrub_text(f"&{run * 3000} {LONG_KEY}") == f"&{run * 3000} ***"


def test_a_number_with_any_zeros_is_a_character() -> None:
    """`int` refuses more than 4,300 decimal digits."""
    for write in ("&#{zeros}{code};", "&#x{zeros}{code:x};", "\\u{{{zeros}{code:x}}}"):
        written = "".join([write.format(zeros="0" * 5000, code=ord(each)) for each in LONG_KEY])
        assert _one_veil(LONG_SECRETS.scrub_text(f"bad key: {written} !")) == "bad key: *** !"
    assert LONG_SECRETS.scrub_text(f"&#{'0' * 5000};") == f"&#{'0' * 5000};"
