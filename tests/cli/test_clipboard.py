"""The image on the clipboard, from the tools of each desktop (small programs in their place)."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from midstream.cli.clipboard import clipboard_image
from midstream.core.errors import LocalError

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    (tmp_path / "image").write_bytes(PNG)
    (tmp_path / "image64").write_bytes(base64.b64encode(PNG) + b"\r\n")
    return tmp_path


def install(folder: Path, name: str, script: str) -> dict[str, str]:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


# program, its script ({} is its folder), the environment, the platform
DESKTOPS = [
    ("wl-paste", 'case "$*" in *list*) echo text/html; echo image/png;; *"--type image/png") cat {}/image;; *) exit 1;; esac', "WAYLAND_DISPLAY", "linux"),
    ("xclip", 'case "$*" in *TARGETS*) echo image/png;; *"-t image/png -o") cat {}/image;; *) exit 1;; esac', "DISPLAY", "linux"),
    ("powershell.exe", "cat {}/image64", "WSL_DISTRO_NAME", "linux"),
    ("powershell.exe", "cat {}/image64", "", "win32"),
    ("pngpaste", '[ "$1" = - ] && cat {}/image', "", "darwin"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "script", "variable", "platform"), DESKTOPS)
def test_each_desktop_gives_the_image(tools: Path, program: str, script: str, variable: str, platform: str) -> None:
    environ = install(tools, program, script.replace("{}", str(tools)))
    assert clipboard_image({**environ, **({variable: "1"} if variable else {})}, platform) == PNG


@pytest.mark.parametrize(
    ("program", "script", "variable"),
    [
        ("wl-paste", "echo text/plain", "WAYLAND_DISPLAY"),
        ("wl-paste", "exit 1", "WAYLAND_DISPLAY"),
        ("xclip", 'case "$*" in *TARGETS*) echo image/png;; *) exit 1;; esac', "DISPLAY"),
        ("powershell.exe", "echo nonsense!", "WSL_DISTRO_NAME"),
    ],
)
def test_a_clipboard_without_an_image_says_so(tools: Path, program: str, script: str, variable: str) -> None:
    with pytest.raises(LocalError, match="no image on the clipboard"):
        clipboard_image({**install(tools, program, script), variable: "1"}, "linux")


def test_a_missing_tool_is_named(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"needs wl-paste or xclip, which is not installed"):
        clipboard_image({"PATH": str(tmp_path), "WAYLAND_DISPLAY": "1", "DISPLAY": ":0"}, "linux")
    with pytest.raises(LocalError, match="needs pngpaste"):
        clipboard_image({"PATH": str(tmp_path)}, "darwin")
    with pytest.raises(LocalError, match="no desktop session"):
        clipboard_image({"PATH": os.defpath}, "linux")


def test_a_clipboard_without_end_is_cut(tools: Path) -> None:
    environ = install(tools, "pngpaste", "exec cat /dev/zero")
    with pytest.raises(LocalError, match="larger than 20 MB"):
        clipboard_image(environ, "darwin")
