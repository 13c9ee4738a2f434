"""What hosts refuse about images: a type that they do not read, and a label that is not the one of the data."""

from __future__ import annotations

import re
from typing import Any

from ...wires.media import mime_of_data

_DATA_URL = re.compile(r"data:([^;,]*)[^,]{0,200},")


def is_unread(url: Any, types: tuple[str, ...]) -> bool:
    """Whether this is a data URL of an image of another type, by its label or by its data. An address is not looked at."""
    found = _DATA_URL.match(url) if isinstance(url, str) else None
    if found is None:
        return False
    # Data of no known kind passes: a double is shown many images that are only words.
    return found[1] not in types or (mime_of_data(url[found.end() :]) or found[1]) not in types


def real_type(source: dict[str, Any]) -> str:
    """The type of the image in a source with `data`; its own label where the data says nothing."""
    data = source.get("data")
    found = mime_of_data(data) if isinstance(data, str) else ""
    return found or str(source.get("media_type"))
