"""requirements/*.txt pin what pyproject.toml asks for, for every Python and system that midstream supports."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCKS = {
    line.split()[1]: line.split()[2:]
    for line in (ROOT / "scripts" / "lock").read_text("utf-8").splitlines()
    if line.startswith("compile ")
}
"""Each file that `make lock` writes, with the options that say what goes into it."""
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
SYSTEMS = [
    ("linux", "Linux", "x86_64"),
    ("linux", "Linux", "aarch64"),
    ("darwin", "Darwin", "arm64"),
    ("darwin", "Darwin", "x86_64"),
    ("win32", "Windows", "AMD64"),
]
ENVIRONMENTS = [
    {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": system,
        "platform_system": name,
        "platform_machine": machine,
        "os_name": "nt" if system == "win32" else "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": "",
    }
    for python in PYTHONS
    for system, name, machine in SYSTEMS
]


class Pin(NamedTuple):
    requirement: Requirement
    hashes: list[str]


def pins(lock: str) -> list[Pin]:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text("utf-8")
    entries = re.sub(r"^ *#.*\n", "", text, flags=re.M).replace("\\\n", " ").splitlines()
    found = []
    for entry in entries:
        requirement, *hashes = entry.split(" --hash=sha256:")
        found.append(Pin(Requirement(requirement), [digest.strip() for digest in hashes]))
    return found


def demanded(options: list[str]) -> list[Requirement]:
    """What pyproject.toml demands with these options of `uv pip compile`."""
    lists = [PROJECT["project"]["dependencies"]] if "pyproject.toml" in options else []
    extras = PROJECT["project"]["optional-dependencies"]
    if "--all-extras" in options:
        lists += extras.values()
    for option, name in itertools.pairwise(options):
        if option == "--group":
            lists.append(PROJECT["dependency-groups"][name])
        elif option == "--extra":
            lists.append(extras[name])
    return [Requirement(line) for each in lists for line in each]


def applies(requirement: Requirement, environment: dict[str, str]) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(environment)


def test_every_file_is_written_by_make_lock() -> None:
    written = {f"{lock}.txt" for lock in LOCKS} | {"constraints.txt"}
    assert {path.name for path in (ROOT / "requirements").iterdir()} == written


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_is_one_version_with_hashes_and_names_no_place(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text("utf-8")
    assert [line for line in text.splitlines() if re.search(r"://|--(?!hash=)|(?:^|[\s'\"=])[/~]", line)] == []
    for pin in pins(lock):
        assert re.fullmatch(r"==[\w.!+]+", str(pin.requirement.specifier)), pin.requirement
        assert pin.hashes, pin.requirement
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in pin.hashes), pin.requirement


@pytest.mark.parametrize("lock", LOCKS)
def test_what_pyproject_asks_for_is_pinned_once_on_every_python_and_system(lock: str) -> None:
    """Red after a change of pyproject.toml: run `make lock`."""
    found, asked = pins(lock), demanded(LOCKS[lock])
    assert asked
    for environment in ENVIRONMENTS:
        versions: dict[str, str] = {}
        for pin in found:
            if applies(pin.requirement, environment):
                name = canonicalize_name(pin.requirement.name)
                assert name not in versions, (name, environment)
                versions[name] = str(pin.requirement.specifier).removeprefix("==")
        for requirement in asked:
            if applies(requirement, environment):
                version = versions.get(canonicalize_name(requirement.name))
                assert version is not None and requirement.specifier.contains(version, prereleases=True), (
                    requirement,
                    version,
                    environment,
                )


def test_the_group_build_repeats_the_build_system() -> None:
    assert set(PROJECT["build-system"]["requires"]) <= set(PROJECT["dependency-groups"]["build"])
