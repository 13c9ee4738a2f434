"""The last step before a server's program: give it an input and an error output of its own, and become it.

Run as a script in the place of a shell (`python -I -S launcher.py IN ERROR -c ARGV`), so it imports nothing of midstream. The
supervisor gives its command no input and joins its two outputs; a shell's own redirection takes only descriptors below ten.
"""

from __future__ import annotations

import json
import os
import sys

NOT_FOUND = 127


def main(input_fd: int, error_fd: int, argv: list[str]) -> None:
    os.dup2(input_fd, 0)
    os.dup2(error_fd, 2)
    for fd in (input_fd, error_fd):
        os.close(fd)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.stderr.write(f"cannot run {argv[0]}: {error.strerror}\n")
        sys.exit(NOT_FOUND)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[4]))
