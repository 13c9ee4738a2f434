"""The JSON body of a request, put together from what is encoded already."""

from __future__ import annotations

from typing import Any


def merge_body(body: dict[str, Any], extra: dict[str, Any] | None) -> None:
    """The caller's own fields go last; an object joins the object that is there (`thinking` gains `keep`)."""
    for key, value in (extra or {}).items():
        known = body.get(key)
        body[key] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value


def join_body(head: bytes, items: list[bytes], tail: bytes) -> bytes:
    """Head, items with commas between them, and tail, in one copy, for a long history is most of a body. Uses `items` up."""
    if not items:
        return head + tail
    items[0] = head + items[0]
    items[-1] += tail
    return b",".join(items)
