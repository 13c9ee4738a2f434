"""The files that run the gateway elsewhere say what the command knows. (No image is built here.)"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from midstream.cli.main import main

ROOT = Path(__file__).parents[2]
FILES = ("Dockerfile", "compose.yaml", "docs/gateway.md")


@pytest.mark.parametrize("name", FILES)
def test_commands_and_options_exist(name: str) -> None:
    text = (ROOT / name).read_text("utf-8").replace('", "', " ")
    commands = re.findall(
        r"\bmidstream ((?:gateway )?(?:serve|keys \w+|check))((?: --?[\w-]+(?:[ =][^\s\"]+)?)*)", text
    )
    assert commands
    for command, options in commands:
        told = CliRunner().invoke(main, [*command.split(), "--help"])
        assert told.exit_code == 0, command
        for option in re.findall(r"--[\w-]+", options):
            assert option in told.output, (command, option)


def test_the_image_has_the_extras_it_names() -> None:
    extras = re.findall(r"\.\[([\w,]+)\]", (ROOT / "Dockerfile").read_text("utf-8"))
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert extras and all(name in known for each in extras for name in each.split(","))
