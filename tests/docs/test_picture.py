"""The picture of the demo shows what the demo prints."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from .picture import PICTURE, chosen, drawn, plain, played


def without_ids(text: str) -> str:
    """What a run makes up (the seed of the ids) left out, and the order of results that arrive at once."""
    text = re.sub(r"(hist_tool_|toolu_|call_)[\w-]{24}", r"\1*", text)
    return re.sub(r"(mistral-large-latestas)\w{9}$", r"\1*", text, flags=re.M)


def test_the_picture_is_of_the_demo() -> None:
    said = [
        "".join(["".join((span.text or "").split()) for span in row])
        for row in ElementTree.fromstring(PICTURE.read_text("utf-8")).iter("{http://www.w3.org/2000/svg}text")
        if len(row)
    ]
    now = ["".join(plain(line).split()) for line in chosen(played()) if line.strip()]
    assert sorted([without_ids(line) for line in said]) == sorted([without_ids(line) for line in now])


def test_the_picture_needs_nothing_from_elsewhere() -> None:
    picture = PICTURE.read_text("utf-8")
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(|<script", picture)
    assert len(picture) < 40_000 and ElementTree.fromstring(drawn(["a", "b"])) is not None
