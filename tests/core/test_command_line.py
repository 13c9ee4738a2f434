"""Words of a command line, read back by a real shell."""

from __future__ import annotations

import subprocess
from pathlib import Path

from midstream.core.command_line import path_word

NAMES = (
    "plain.txt",
    "a b",
    "it's",
    'say "hi"',
    "größe",
    "-n",
    "-",
    "$HOME;`id`&*?",
    "two\nlines",
    "100%20#x",
    "~",
    "a\\b",
)


def test_a_path_is_one_word_and_no_option(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).write_text(f"[{name}]")
    command = " ".join(["cat", *map(path_word, NAMES)])
    read = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, check=True, timeout=20)
    assert read.stdout.decode() == "".join([f"[{name}]" for name in NAMES])
    assert path_word("plain.txt") == "plain.txt" and path_word(Path("a/-b")) == "a/-b"
