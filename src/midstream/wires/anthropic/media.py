"""Images and documents <-> Anthropic's `image` and `document` blocks."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Any

from ...core.blocks import Media
from ..media import mime_of_data, opened

# Other images are refused, so they are better told as text.
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
# Fields of a block, beside its source, that mean something to this host.
_KEYS = ("cache_control", "citations", "context", "title")
_PDF = "application/pdf"


def media_block(media: Media, kinds: tuple[str, ...]) -> dict[str, Any] | None:
    """The block for a medium, or None where a model that reads `kinds` has no place for it."""
    if media.kind not in kinds:
        return None
    media = opened(media)
    source = _source(media)
    if source is None:
        return None
    block: dict[str, Any] = {"type": "image" if media.kind == "image" else "document", "source": source}
    if media.name and media.kind == "file":
        block["title"] = media.name
    return {**block, **{key: value for key, value in (media.extra or {}).items() if key in _KEYS}}


def _source(media: Media) -> dict[str, Any] | None:
    data, url = media.data, media.url
    if data is None:
        if not url:
            return None
        if url.startswith(("https://", "http://")):
            return {"type": "url", "url": url}
        return {"type": "file", "file_id": url} if "://" not in url else None
    if media.kind == "image":
        # The host checks the type against the data, so a vague one (`image/*`) is settled by the data.
        mime = media.mime if media.mime in _IMAGES else mime_of_data(data)
        return {"type": "base64", "media_type": mime, "data": data} if mime in _IMAGES else None
    if media.mime == _PDF:
        return {"type": "base64", "media_type": _PDF, "data": data}
    # JSON has no place as a document, but is text to a model.
    if media.mime.startswith("text/") or media.mime == "application/json":
        text = _plain_text(data)
        return None if text is None else {"type": "text", "media_type": "text/plain", "data": text}
    return None


def _plain_text(data: str) -> str | None:
    try:
        return b64decode(data, validate=True).decode()
    except (Base64Error, ValueError):
        return None


def read_media(block: dict[str, Any]) -> Media | None:
    """The medium of an `image` or `document` block; None for a source that has no such form."""
    source = block.get("source")
    if not isinstance(source, dict):
        return None
    extra = {key: block[key] for key in _KEYS if key != "title" and block.get(key) is not None} or None
    title = block.get("title")
    name = title if isinstance(title, str) else None
    default = "image/*" if block.get("type") == "image" else _PDF
    match source:
        case {"type": "base64", "data": str(data)}:
            return Media(str(source.get("media_type") or default), data, None, name, extra)
        case {"type": "text", "data": str(data)}:
            return Media("text/plain", b64encode(data.encode("utf-8", "replace")).decode(), None, name, extra)
        # A URL has a scheme and a file id has none: the two must not be taken for each other on the way back.
        case {"type": "url", "url": str(url)} if "://" in url:
            return Media(default, None, url, name, extra)
        case {"type": "file", "file_id": str(url)} if "://" not in url:
            return Media(default, None, url, name, extra)
    return None
