"""Images and documents <-> Anthropic's `image` and `document` blocks."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from ...core.blocks import Media
from ..media import text_of_file

# Fields of a block, beside its source, that mean something to this host.
_KEYS = ("cache_control", "citations", "context", "title")
_PDF = "application/pdf"


def media_block(media: Media) -> dict[str, Any] | None:
    """The block for a medium that the reader takes, or None where this wire has no place for it."""
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
    if media.kind == "image" or media.mime == _PDF:
        return {"type": "base64", "media_type": media.mime, "data": data}
    text = text_of_file(media)
    return None if text is None else {"type": "text", "media_type": "text/plain", "data": text}


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
