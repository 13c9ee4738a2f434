"""The other way round: from what `revealed` writes to the text it was made of."""

from __future__ import annotations

import re

_SIGNED = re.compile(r"(?:\\u\{([0-9a-f]+)\}|([\u2400-\u2421\u23ce]))(?:×([0-9]+))?")
_SPECIAL = {"\u2421": "\x7f", "\u23ce": "\n"}
_ASCII = re.compile(r"\\u\{([0-9a-f]+)\}()(?:\{([0-9]+)\})?")


def read_back(shown: str, *, ascii_only: bool = False) -> str:
    return (_ASCII if ascii_only else _SIGNED).sub(_meant, shown)


def _meant(match: re.Match[str]) -> str:
    code, sign, count = match.groups()
    char = chr(int(code, 16)) if code else _SPECIAL.get(sign) or chr(ord(sign) - 0x2400)
    return char * int(count or 1)
