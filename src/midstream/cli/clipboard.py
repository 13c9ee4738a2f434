"""The image that is on the clipboard, by the tool that this desktop has for it."""

from __future__ import annotations

import base64
import binascii
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple

from ..core.errors import LocalError
from .attachment import MAX_MEDIA, shown_size

_SECONDS = 10.0
_IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")
_POWERSHELL = (
    "Add-Type -AssemblyName System.Windows.Forms,System.Drawing; $i=[Windows.Forms.Clipboard]::GetImage(); "
    "if($i){$m=New-Object IO.MemoryStream; $i.Save($m,[Drawing.Imaging.ImageFormat]::Png); "
    "[Convert]::ToBase64String($m.ToArray())}"
)


class _Tool(NamedTuple):
    """A program that gives out the clipboard: `kinds` lists what is on it, `read` one of them (`{mime}` is filled in)."""

    program: str
    read: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    is_base64: bool = False


_WAYLAND = _Tool("wl-paste", ("--no-newline", "--type", "{mime}"), ("--list-types",))
_X11 = _Tool(
    "xclip", ("-selection", "clipboard", "-t", "{mime}", "-o"), ("-selection", "clipboard", "-t", "TARGETS", "-o")
)
_MAC = _Tool("pngpaste", ("-",))
_WINDOWS = _Tool("powershell.exe", ("-NoProfile", "-STA", "-Command", _POWERSHELL), is_base64=True)


def clipboard_image(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> bytes:
    """The image on the clipboard; LocalError says what is missing."""
    environ = os.environ if environ is None else environ
    wanted = _tools(environ, platform)
    for tool in wanted:
        program = shutil.which(tool.program, path=environ.get("PATH"))
        if program is not None:
            return _image(tool, program, environ)
    if not wanted:
        raise LocalError("there is no clipboard here: no desktop session; attach a file with /attach FILE")
    names = " or ".join([tool.program for tool in wanted])
    raise LocalError(
        f"an image from the clipboard needs {names}, which is not installed; attach a file with /attach FILE"
    )


def _tools(environ: Mapping[str, str], platform: str) -> list[_Tool]:
    if platform == "darwin":
        return [_MAC]
    if platform == "win32":
        return [_WINDOWS]
    return [
        # Wayland first: under it DISPLAY is mostly set too, for older programs.
        *([_WAYLAND] if environ.get("WAYLAND_DISPLAY") else []),
        *([_X11] if environ.get("DISPLAY") else []),
        *([_WINDOWS] if environ.get("WSL_DISTRO_NAME") else []),
    ]


def _image(tool: _Tool, program: str, environ: Mapping[str, str]) -> bytes:
    mime = _IMAGES[0]
    if tool.kinds:
        there = _run([program, *tool.kinds], environ).decode("utf-8", "replace").split()
        mime = next((each for each in _IMAGES if each in there), "")
        if not mime:
            raise LocalError("there is no image on the clipboard")
    data = _run([program, *[word.format(mime=mime) if "{mime}" in word else word for word in tool.read]], environ)
    if tool.is_base64:
        try:
            data = base64.b64decode(data.strip(), validate=True)
        except (binascii.Error, ValueError):
            data = b""
    if not data:
        raise LocalError("there is no image on the clipboard")
    return data


def _run(command: list[str], environ: Mapping[str, str]) -> bytes:
    """What the program prints, within bounds; nothing if it fails, as these do when there is no image."""
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=dict(environ)
        )
    except OSError as error:
        raise LocalError(f"{command[0]} could not be started: {error.strerror}") from None
    with process:
        import threading

        # A program that holds the clipboard may hang, and with it whoever asks for its content.
        timer = threading.Timer(_SECONDS, process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            most = MAX_MEDIA * 4 // 3 + 16  # it may be base64
            data = process.stdout.read(most + 1)
            if len(data) > most:
                process.kill()
                raise LocalError(f"the image on the clipboard is larger than {shown_size(MAX_MEDIA)}")
            return data if process.wait() == 0 else b""
        finally:
            timer.cancel()
