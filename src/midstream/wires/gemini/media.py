"""Images, sound, video and files <-> Gemini's `inlineData` and `fileData` parts."""

from __future__ import annotations

from typing import Any

from ...core.blocks import Media
from ..media import mime_of_data, opened

_KEYS = ("videoMetadata", "mediaResolution", "partMetadata")


def media_part(media: Media, kinds: tuple[str, ...]) -> dict[str, Any] | None:
    """The part for a medium, or None where a model that reads `kinds` has no place for it."""
    if media.kind not in kinds:
        return None
    media = opened(media)
    # `image/*` is our own word for "some image"; this host wants the type.
    mime = media.mime if "*" not in media.mime else ""
    kept = {key: value for key, value in (media.extra or {}).items() if key in _KEYS}
    if media.data is not None:
        mime = mime or mime_of_data(media.data)
        # Without a type it is refused.
        return {"inlineData": {"mimeType": mime, "data": media.data}, **kept} if mime else None
    if not media.url:
        return None
    place = {"mimeType": mime, "fileUri": media.url} if mime else {"fileUri": media.url}
    return {"fileData": place, **kept}


def read_media(part: dict[str, Any]) -> Media | None:
    """The medium of a part with `inlineData` or `fileData`; None for any other."""
    extra = {key: value for key, value in part.items() if key in (*_KEYS, "thoughtSignature") and value is not None}
    match part:
        case {"inlineData": {"data": str(data), **rest}}:
            return Media(str(rest.get("mimeType") or ""), data=_plain_base64(data), extra=extra or None)
        case {"fileData": {"fileUri": str(uri), **rest}}:
            return Media(str(rest.get("mimeType") or ""), url=uri, extra=extra or None)
    return None


def _plain_base64(data: str) -> str:
    """Base64 in the alphabet that every host reads: Google's own SDK writes the one for URLs, which this wire takes too."""
    if "-" not in data and "_" not in data and len(data) % 4 == 0:
        return data
    plain = data.rstrip("=").translate(_PLAIN)
    return plain + "=" * (-len(plain) % 4)


_PLAIN = str.maketrans("-_", "+/")
