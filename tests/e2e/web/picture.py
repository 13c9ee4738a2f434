"""`python -m tests.e2e.web.picture`: the README's picture, taken from the real page with the demo's conversation in it."""

from __future__ import annotations

import struct
import tempfile
import zlib
from pathlib import Path

from tests.e2e.web.browser import chromium, page_server

PLACE = Path(__file__).parents[3] / "docs" / "assets"


def take(folder: Path = PLACE) -> list[Path]:
    """The pictures, light and dark."""
    from playwright.sync_api import expect

    made = []
    with tempfile.TemporaryDirectory() as home, chromium() as browser:
        for scheme in ("light", "dark"):
            with page_server(Path(home)) as address:
                context = browser.new_context(viewport={"width": 1240, "height": 980}, color_scheme=scheme)
                page = context.new_page()
                page.goto(address)
                page.click(".row")
                page.click("text=The same turn on every wire")
                page.wait_for_selector(".pill")
                page.fill(".jump", "6")
                page.keyboard.press("Enter")
                expect(page.locator(".cell.left")).to_have_count(8)
                # The header of the page and its controls are known; what the two wires say is the picture.
                page.evaluate("window.scrollTo(0, document.querySelector('.columns').getBoundingClientRect().top - 70)")
                page.hover(".cell.left .pill >> nth=1")
                page.wait_for_timeout(400)
                path = folder / f"wires-{scheme}.png"
                page.screenshot(path=str(path), clip={"x": 0, "y": 60, "width": 1240, "height": 920})
                path.write_bytes(smaller(path.read_bytes()))
                made.append(path)
                context.close()
    return made


def smaller(png: bytes) -> bytes:
    """The same picture, packed harder: a browser is in a hurry."""
    made, at, packed = [png[:8]], 8, b""
    while at < len(png):
        (length,), kind = struct.unpack(">I", png[at : at + 4]), png[at + 4 : at + 8]
        data = png[at + 8 : at + 8 + length]
        at += 12 + length
        if kind == b"IDAT":
            packed += data
            continue
        if kind == b"IEND":
            made.append(_chunk(b"IDAT", zlib.compress(zlib.decompress(packed), 9)))
        made.append(_chunk(kind, data))
    return b"".join(made)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


if __name__ == "__main__":
    for path in take():
        print(path, path.stat().st_size)
