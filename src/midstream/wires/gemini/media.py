"""Images, sound, video and files <-> Gemini's `inlineData` and `fileData` parts."""

from __future__ import annotations

from typing import Any

from ...core.blocks import Media
from ..media import plain_base64

_KEYS = ("videoMetadata", "mediaResolution", "partMetadata")


def media_part(media: Media) -> dict[str, Any] | None:
    """The part for a medium that the reader takes, or None where this wire has no place for it."""
    # `image/*` is our own word for "some image"; this host wants the type.
    mime = media.mime if "*" not in media.mime else ""
    kept = {key: value for key, value in (media.extra or {}).items() if key in _KEYS}
    if media.data is not None:
        # Without a type it is refused.
        return {"inlineData": {"mimeType": mime, "data": media.data}, **kept} if mime else None
    place = {"mimeType": mime, "fileUri": media.url} if mime else {"fileUri": media.url}
    return {"fileData": place, **kept}


def read_media(part: dict[str, Any]) -> Media | None:
    """The medium of a part with `inlineData` or `fileData`; None for any other."""
    extra = {key: value for key, value in part.items() if key in (*_KEYS, "thoughtSignature") and value is not None}
    match part:
        case {"inlineData": {"data": str(data), **rest}}:
            # Google's own SDK writes the alphabet for URLs, which this wire takes too and no other does.
            return Media(str(rest.get("mimeType") or ""), data=plain_base64(data) or data, extra=extra or None)
        case {"fileData": {"fileUri": str(uri), **rest}}:
            return Media(str(rest.get("mimeType") or ""), url=uri, extra=extra or None)
    return None
