"""Reasoning that travels inside a client: encrypted and authenticated, bound to its tenant, with its maker inside.

A seal is base64 without padding, in an alphabet that survives clients which decode and write it again: `midseal1`, the label
of its key, a nonce, and AES-256-GCM over what is kept of a turn, compressed where that is shorter. The tenant and the version
are authenticated beside it. What does not open is None, whatever is wrong with it: nothing of it is ever believed.
A seal has an end to its size, for clients and proxies have limits; what is larger is not sealed and belongs in the vault.
"""

from __future__ import annotations

import os
import zlib
from base64 import b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ..core.blocks import SEAL, Thinking
from ..core.errors import LocalError
from ..core.kept_turn import KeptTurn, decode_kept, encode_kept
from .state.protocol import SealKey

if TYPE_CHECKING:
    from .state.protocol import GatewayState

# Part of the base64 text itself, so that a seal is recognized before it is decoded, and by anybody who reads a log.
PREFIX = SEAL
"""How every seal begins, in every version."""
ROTATED_AFTER = 30 * 86_400.0
"""For how many seconds a key seals."""
OPENS_FOR = 90 * 86_400.0
"""For how many seconds more a retired key opens."""
LONGEST = 48 * 1024
"""Characters. Some clients read a stream by lines, and 64 KiB is a common limit of one."""
_VERSION = b"midseal1"
# The version is part of the bytes: eight characters of base64 are exactly six bytes.
_MAGIC = b64decode(_VERSION)
_LABEL, _NONCE, _TAG = 6, 12, 16
_HEAD = len(_MAGIC) + _LABEL + _NONCE
_COMPRESSED_FROM = 256
_MOST = 4 * 1024 * 1024
"""What a compressed seal may open to, though nobody but us can make one."""
_RELOADED_AFTER = 1.0


class Sealer:
    """Seals and opens. `refresh` has to be called before the first seal, and from time to time (an hour will do)."""

    def __init__(self, *, longest: int = LONGEST) -> None:
        self._longest = longest
        self._ciphers: dict[bytes, AESGCM] = {}
        self._current: tuple[bytes, AESGCM] | None = None
        self._state: GatewayState | None = None
        self._read = float("-inf")

    async def refresh(self, state: GatewayState, now: float) -> None:
        """Read the keys, make a new one if the newest has served its time, and forget those that no longer open."""
        self._state = state
        keys = await state.seal_keys()
        current = [key for key in keys if key.retired is None]
        # `all` of none is true: the first start makes the first key.
        if all(now - key.created >= ROTATED_AFTER for key in current):
            await state.add_seal_key(SealKey(os.urandom(8).hex(), os.urandom(32), now))
            # Read again: another process may have made one at the
            # same time, and the newest of all is used by everybody.
            keys = await state.seal_keys()
        if any(key.retired is not None and now - key.retired >= OPENS_FOR for key in keys):
            await state.delete_seal_keys(now - OPENS_FOR)
        self._learn(keys, now)

    async def learn(self, sealed: str, now: float) -> None:
        """Read the keys again if this seal names one that is not known: another process may have made it. At most once a
        second, for anybody can write a seal with any label."""
        if self._state is None or now - self._read < _RELOADED_AFTER:
            return
        raw = _raw(sealed)
        if raw is not None and raw[len(_MAGIC) :][:_LABEL] not in self._ciphers:
            self._learn(await self._state.seal_keys(), now)

    def _learn(self, keys: list[SealKey], now: float) -> None:
        alive = [key for key in keys if key.retired is None or now - key.retired < OPENS_FOR]
        self._ciphers = {_label(key): AESGCM(key.secret) for key in alive}
        current = [key for key in alive if key.retired is None] or alive
        newest = max(current, key=lambda key: (key.created, key.id), default=None)
        self._current = None if newest is None else (_label(newest), self._ciphers[_label(newest)])
        self._read = now

    def seal(self, tenant: str, thinking: Thinking) -> str:
        """Raises LocalError for what is too large; `seal_kept` says None."""
        sealed = self.seal_kept(tenant, KeptTurn(thinking.origin, (thinking,)))
        if sealed is None:
            raise LocalError(f"the reasoning is too large to be sealed: a seal has at most {self._longest} characters")
        return sealed

    def open(self, tenant: str, sealed: str) -> Thinking | None:
        kept = self.open_kept(tenant, sealed)
        return kept.thinking[0] if kept is not None and kept.thinking else None

    def seal_kept(self, tenant: str, kept: KeptTurn) -> str | None:
        """None for what is too large, or cannot be written."""
        if self._current is None:
            raise LocalError("the sealer has no key yet: await refresh(state, now) first")
        data = encode_kept(kept)
        if data is None:
            return None
        form = 0
        # Short texts hardly shrink, and most seals are of a paragraph or more.
        if len(data) >= _COMPRESSED_FROM:
            packed = zlib.compress(data, 6)
            if len(packed) < len(data):
                data, form = packed, 1
        padding = -(_HEAD + 1 + len(data) + _TAG) % 3  # so that base64 needs none
        if (_HEAD + 1 + len(data) + _TAG + padding) // 3 * 4 > self._longest:
            return None
        label, cipher = self._current
        # Random: processes share a key and could not share a counter. 96
        # bits and rotation after a month keep repetitions out of reach.
        nonce = os.urandom(_NONCE)
        # One byte says how to read the rest: compressed or not, and how many bytes at the end to drop.
        plain = bytes((form | padding << 4,)) + data + bytes(padding)
        raw = _MAGIC + label + nonce + cipher.encrypt(nonce, plain, _bound(tenant))
        return urlsafe_b64encode(raw).decode()

    def open_kept(self, tenant: str, sealed: str) -> KeptTurn | None:
        """None for whatever was not sealed here, for this tenant, under a key that still opens."""
        raw = _raw(sealed)
        if raw is None or len(raw) <= _HEAD + _TAG or not raw.startswith(_MAGIC):
            return None
        cipher = self._ciphers.get(raw[len(_MAGIC) : len(_MAGIC) + _LABEL])
        if cipher is None:
            return None
        try:
            plain = cipher.decrypt(raw[_HEAD - _NONCE : _HEAD], raw[_HEAD:], _bound(tenant))
        # Forged, of another tenant, or changed on the way: which of them is nobody's business.
        except InvalidTag:
            return None
        data = plain[1 : len(plain) - (plain[0] >> 4)]
        if plain[0] & 1:
            unpacker = zlib.decompressobj()
            try:
                data = unpacker.decompress(data, _MOST)
            except zlib.error:
                return None
            if unpacker.unconsumed_tail:
                return None
        return decode_kept(data)

    @staticmethod
    def is_seal(text: str) -> bool:
        """Whether it claims to be a seal, of any version; whether it is one, only opening it says."""
        return text.startswith(PREFIX)


def _label(key: SealKey) -> bytes:
    return sha256(key.id.encode()).digest()[:_LABEL]


def _bound(tenant: str) -> bytes:
    return _VERSION + b"|" + tenant.encode("utf-8", "surrogatepass")


def _raw(sealed: str) -> bytes | None:
    try:
        # Both alphabets: clients decode signatures and write them again in the one they prefer.
        return b64decode(sealed.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:  # binascii.Error is one; so is a text with other characters
        return None
