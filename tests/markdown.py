"""What tests need to know of Markdown: the anchors of a page, its links, its blocks of code."""

from __future__ import annotations

import re

_FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.M | re.S)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page: str) -> set[str]:
    """The anchors of the headings, as code hosts and the site make them."""
    headings = re.findall(r"^#{1,6} +(.+?)\s*$", _FENCE.sub("", page), re.M)
    return {slug(heading) for heading in headings}


def slug(heading: str) -> str:
    words = re.sub(r"[^\w\s-]", "", re.sub(r"[`*]", "", heading)).strip().lower()
    return re.sub(r"\s+", "-", words)


def links(page: str) -> list[str]:
    """The targets of all links, those in blocks of code left out."""
    return _LINK.findall(_FENCE.sub("", page))
