"""Words of a command line that a person or a shell will read."""

from __future__ import annotations

import os
import shlex


def path_word(path: str | os.PathLike[str]) -> str:
    """A path as one word of a shell's command: blanks and quotes are parts of it, and a dash at its beginning makes no option."""
    text = os.fspath(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
