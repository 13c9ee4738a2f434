"""On a package index the README's links lead to the site: none is relative, and each has a page or file behind it."""

from __future__ import annotations

import re
import tomllib

from .blocks import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
HOME = PROJECT["project"]["urls"]["Homepage"]


def published() -> str:
    """The README as the build writes it into the package."""
    text = (ROOT / "README.md").read_text("utf-8")
    for rule in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    return text


def test_every_link_is_whole_and_leads_to_something() -> None:
    found = re.findall(r"\]\(([^)\s]+)\)", published())
    assert len(found) >= 20
    for target in found:
        assert target.startswith(HOME), target
        path = target.removeprefix(HOME).partition("#")[0]
        if path.startswith("docs/") and path.endswith("/"):
            page = ROOT / path.rstrip("/")
            assert page.with_suffix(".md").is_file() or (page / "index.md").is_file(), target
        else:
            assert (ROOT / path).is_file(), target
