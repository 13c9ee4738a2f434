"""Media as every wire sees them: data URLs opened, vague types guessed, and the line of text for what cannot be sent."""

from __future__ import annotations

import re
from binascii import a2b_base64

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


def mime_of_data(data: str) -> str:
    """The media type that base64 data begins like; empty where nothing is known."""
    head = data[: HEAD // 3 * 4]
    try:
        # Base64 is cut at a whole group of four, or the rest could not be decoded.
        return type_of_content(a2b_base64(head[: len(head) // 4 * 4]))
    except ValueError:
        return ""


def is_address(url: str) -> bool:
    """Whether it names a place, not a file the host has: a file id has no scheme."""
    # Only the beginning: a file id is short, and data may be megabytes.
    return "://" in url[:32] or url.startswith("data:")
