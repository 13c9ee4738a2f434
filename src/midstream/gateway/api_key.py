"""The gateway's own keys: `msk_`, 43 characters of randomness, 6 of a checksum.

The checksum tells a mistyped or cut key from one that does not exist, without a look into the store. Only the SHA-256 of a key
is stored; a key has 256 random bits, so a slow hash would add nothing.
"""

from __future__ import annotations

import secrets
from hashlib import sha256
from typing import NamedTuple
from zlib import crc32

from ..core.secret import Secret

PREFIX = "msk_"
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM_BYTES = 32
_BODY = 43  # 62 ** 43 > 256 ** 32
_CHECKSUM = 6
LENGTH = len(PREFIX) + _BODY + _CHECKSUM


class NewKey(NamedTuple):
    """A key, shown once; its id, which ends with the key's last four characters; and the digest that is stored."""

    key: Secret
    id: str
    digest: bytes


def make_key() -> NewKey:
    # Letters and digits only, so that a double click selects all of it and no shell or URL needs quotes.
    body = _base62(int.from_bytes(secrets.token_bytes(_RANDOM_BYTES), "big"), _BODY)
    key = f"{PREFIX}{body}{_checksum(body)}"
    tag = "".join([secrets.choice(_ALPHABET) for _ in range(8)])
    return NewKey(Secret(key), f"key_{tag}_{key[-4:]}", digest_of(key))


def digest_of(key: str) -> bytes:
    # `surrogatepass`, since what a client presents may be anything; the digest only has to exist.
    return sha256(key.encode("utf-8", "surrogatepass")).digest()


def last_four(id: str) -> str:
    """The last four characters of the key with this id."""
    return id.rpartition("_")[2]


def fault_of(key: str) -> str | None:
    """Why this cannot be one of our keys, or None if it can."""
    # The likeliest mistake first: people put their provider's key here.
    if not key.startswith(PREFIX):
        return f"it is not a key of this gateway: they begin with {PREFIX}"
    body, checksum = key[len(PREFIX) : -_CHECKSUM], key[-_CHECKSUM:]
    if len(key) != LENGTH:
        return f"it has {len(key)} characters instead of {LENGTH}: it was probably cut or pasted twice"
    if _checksum(body) != checksum:
        return "its checksum is wrong: it was probably mistyped"
    return None


def _checksum(body: str) -> str:
    return _base62(crc32(body.encode()), _CHECKSUM)


def _base62(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
