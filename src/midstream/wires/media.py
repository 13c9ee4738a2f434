"""Media as every wire sees them: data URLs opened, vague types guessed, and the line of text for what cannot be sent."""

from __future__ import annotations

import re
from binascii import a2b_base64

from msgspec.structs import replace

from ..core.blocks import Media
from ..core.media_type import HEAD, type_of_content
from ..core.patterns import late_pattern

MEDIA_FOLLOWS = "Attached media from the tool results:"
SEE_MEDIA = "(see the attached media)"
# Other parameters may stand between the type and `base64`, such as a charset or a name.
_DATA_URL = late_pattern(r"data:([^;,]*)(?:;[^,]*)?;base64,", re.I)


def omitted(media: Media) -> str:
    """The line of text sent instead of a medium."""
    return f"[{media.kind} omitted{': ' + media.name if media.name else ''}]"


def opened(media: Media) -> Media:
    """The same medium with its data in `data`, where it came as a data URL."""
    if media.url is None or media.data is not None:
        return media
    found = _DATA_URL.match(media.url)
    if found is None:
        return media
    # The type inside the URL belongs to this data, the one beside it may be a guess.
    return Media(found[1] or media.mime, media.url[found.end() :], None, media.name, media.extra)


def settled(media: Media) -> Media | None:
    """The medium as any host reads it: its data as plain base64, under the type that the data has. None where nothing is there,
    or what is there is not base64."""
    media = opened(media)
    mime, data = media.mime, media.data
    if mime[:6].lower() == "image/":
        # Parameters mean nothing for an image, and for a sound they may.
        mime = mime.partition(";")[0].strip().lower()
        mime = _SPELLINGS.get(mime, mime)
    if data is not None:
        plain = plain_base64(data)
        # Every letter is base64's and only the length is not: cut data, or a name for it in somebody's log.
        if not data or (not plain and not _LETTERS.fullmatch(data)):
            return None
        real = mime_of_data(plain)
        # Rewritten only where something known comes out: what nobody can name is the host's to judge, as it came.
        data = plain if real else data
        # A label may be wrong, and hosts that compare it with the data refuse it (field-guide/anthropic-messages.md#images).
        # Elsewhere than in images it says more than the data: many kinds of files are ZIPs.
        if mime in _VAGUE or "*" in mime or mime.startswith("image/"):
            mime = real or mime
    elif not media.url:
        return None
    return media if data is media.data and mime == media.mime else replace(media, mime=mime, data=data)


# One class of characters and not groups of four: on megabytes those take seconds, and hundreds of megabytes.
_BASE64 = late_pattern(r"[A-Za-z0-9+/]*={0,2}")
_LETTERS = late_pattern(r"[A-Za-z0-9+/_\s-]*={0,2}\s*")
_BLANKS = late_pattern(r"\s+")
_PLAIN = str.maketrans("-_", "+/")
_SPELLINGS = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}
_VAGUE = ("", "application/octet-stream")
# Addresses of files that were uploaded to a host, which open only there, or with its key. A data URL that was not opened
# is not base64, and no host reads it.
_NOT_PUBLIC = late_pattern(r"ms://|gs://|https://generativelanguage\.googleapis\.com/|data:")


def plain_base64(data: str) -> str:
    """Base64 as every host reads it, of data with line breaks, without padding or in the alphabet for URLs; empty if it is none."""
    if len(data) % 4 == 0 and _BASE64.fullmatch(data):
        return data
    plain = _BLANKS.sub("", data).rstrip("=").translate(_PLAIN)
    # One character of a group of four is less than a byte.
    if len(plain) % 4 == 1 or not _BASE64.fullmatch(plain):
        return ""
    return plain + "=" * (-len(plain) % 4)


def text_of_file(media: Media) -> str | None:
    """The text of a text file; None for what is none, is empty, or is not here."""
    media = opened(media)
    # JSON is no text by its name, but to a model.
    if media.data is None or not (media.mime.startswith("text/") or media.mime == "application/json"):
        return None
    try:
        return a2b_base64(plain_base64(media.data)).decode() or None
    except ValueError:
        return None


# Media types whose name is not the word of OpenAI's wires for the format.
_AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav"}


def audio_format(media: Media) -> str:
    """The format of a sound, in the words of OpenAI's wires."""
    spelled = media.mime.partition("/")[2].partition(";")[0].strip()
    return _AUDIO_FORMATS.get(spelled, spelled)


def image_detail(media: Media) -> dict[str, str]:
    """How closely an image is to be looked at, in the words of the chat wire. Other fields are another wire's, and an unknown
    field or word is refused."""
    detail = (media.extra or {}).get("detail")
    return {"detail": detail} if detail in ("auto", "low", "high") else {}


def mime_of_data(data: str) -> str:
    """The media type that base64 data begins like; empty where nothing is known."""
    head = data[: HEAD // 3 * 4]
    try:
        # Base64 is cut at a whole group of four, or the rest could not be decoded.
        return type_of_content(a2b_base64(head[: len(head) // 4 * 4]))
    except ValueError:
        return ""


def is_public(url: str) -> bool:
    """Whether any host can fetch it, as far as its beginning says."""
    return _NOT_PUBLIC.match(url) is None


def is_address(url: str) -> bool:
    """Whether it names a place, not a file the host has: a file id has no scheme."""
    # Only the beginning: a file id is short, and data may be megabytes.
    return "://" in url[:32] or url.startswith("data:")
