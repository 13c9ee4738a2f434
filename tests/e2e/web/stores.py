"""Stores full of what a page must bear: hostile text in every field, ten thousand conversations, one of ten thousand turns."""

from __future__ import annotations

import json
import sqlite3
import struct
import zlib
from base64 import b64encode
from pathlib import Path

from midstream.core.blocks import (
    Conversation,
    Media,
    Opaque,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResponse,
    Turn,
    Usage,
    human,
    tool_result,
)
from midstream.store import SqliteStore
from midstream.store.protocol import Entry

# Each would set the canary if anything of it ran.
_RUN = "window.canary=1"
HOSTILE = (
    f"<script>{_RUN}</script>",
    f"<img src=x onerror={_RUN}>",
    f"<svg onload={_RUN}>",
    f"[click](javascript:{_RUN})",
    f"![x](javascript:{_RUN})",
    f"[click]( JaVaScRiPt:{_RUN})",
    f"[x](data:text/html,<script>{_RUN}</script>)",
    f'"><script>{_RUN}</script><a href="',
    f"javascript:{_RUN}//https://ok.example/",
    f"```html\n<script>{_RUN}</script>\n```",
    f"| a | b |\n|---|---|\n| <script>{_RUN}</script> | {{{{constructor.constructor('{_RUN}')()}}}} |",
    "\u202egnp.exe\u202c \u2066hidden\u2069 \u200b\ufeff",
    "\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\x07link\x1b]8;;\x07 \x9b2J \r overwritten",
    "<style>*{display:none!important}</style>",
    f"<iframe srcdoc='<script>parent.canary=1</script>'></iframe><form action=javascript:{_RUN}><button>x",
    "</pre></code></div></body></html>",
    "__proto__ constructor prototype toString hasOwnProperty",
    "𝕏" * 50 + "\u0301" * 200,
)
LINE = "z" * 1_000_000
# Each is quick to write and, read by a careless expression, slow to find the end of.
BOMBS = (
    ">" * 50_000,
    "> " * 25_000,
    "a | b\n" + "|" * 59_000 + "x",
    "a | b\n" + " " * 50_000 + "x",
    "[" * 50_000,
    "![](" * 12_000,
    "*a " * 16_000,
    "**" * 25_000,
    "`" * 50_001,
    "- " * 25_000,
    "\n".join(["```"] * 14_900),
    "\n".join(["1. x"] * 10_000),
    "\n".join(["| a |", "|---|", *["| b |"] * 9_000]),
    "```js\n" + "/*" * 14_000 + "\n```",
    "```js\n" + '"\\' * 14_000 + "\n```",
    "```python\n" + "`" * 29_000 + "\n```",
    "https://" + "a" * 50_000,
    "_" * 50_000 + "x",
)
# What a browser takes for one sign, however long it is: no line is broken in it.
UNBROKEN = (
    "Z" + "\u0301\u0332\u0489" * 3_000,
    "\u1100" * 3_000,
    "\U0001f468\u200d" * 3_000,
    "\u0915\u094d" * 3_000,
    "\u0600" * 3_000,
    "\u2800\u00a0" * 3_000,
    "a" + "".join([chr(0xE0000 + ord(sign)) for sign in "obey me" * 400]),
)
ALL = "\n\n".join(HOSTILE)
STEERING = "\u202egnp.exe\x1b[2J\u2066"
"""What reorders a line and what steers a terminal: fit for names, too."""
_SVG = b64encode(f"<svg xmlns='http://www.w3.org/2000/svg'><script>{_RUN}</script></svg>".encode()).decode()


def hostile_store(path: Path) -> str:
    """A conversation with all of it in every field that holds text; its id."""
    origin = Origin(f"<b>{_RUN}{STEERING}", "openai-chat", f"<script>{_RUN}</script>{STEERING}")
    arguments = json.dumps({"__proto__": {"polluted": 1}, "constructor": ALL, "path": "x" * 2000})
    call = ToolCall("hist_tool_" + "x" * 24, f"<img src=x onerror={_RUN}>{STEERING}", arguments, raw_id=ALL)
    broken = ToolCall("hist_tool_" + "y" * 24, "__proto__", "{broken " + ALL)
    turns = (
        human(ALL, Media("image/svg+xml", _SVG, name=ALL), Media("image/png", _SVG), Media("text/html", _SVG), Media(url=f"javascript:{_RUN}")),
        Turn("ai", (Thinking(ALL, origin=origin), Text(ALL), call, broken), key="k", origin=origin, usage=Usage(1, 1)),
        Turn("tool", (ToolResponse(call.id, ALL, (Text(ALL), Media("image/svg+xml", _SVG)), is_error=True),)),
        Turn("system", (Text(ALL),), role="developer"),
        Turn("ai", (Text("x" * 1_000_000),), key="l", origin=origin, failure="truncated", response_model=ALL[:500]),
        Turn("ai", (Opaque(f"<script>{_RUN}</script>", {"__proto__": ALL, "x": [ALL]}, origin),), key="m", origin=origin),
        human("y" * 1_000_000),
    )  # fmt: skip
    store = SqliteStore(path)
    store.add(
        Entry(
            Conversation(
                (
                    human("bombs"),
                    *[
                        Turn("ai", (Text(each), Thinking(each, origin=origin)), key=str(at), origin=origin)
                        for at, each in enumerate(BOMBS)
                    ],
                )
            ),
            meta={"title": "bombs"},
        )
    )
    long = ToolCall("hist_tool_" + "z" * 24, LINE, json.dumps({LINE: LINE}), raw_id=LINE)
    lines = (
        human(LINE, Media("text/plain", "aGk=", name=LINE), Media(url="https://" + LINE)),
        Turn("ai", (Thinking(LINE, origin=origin), long), key="k", origin=Origin(LINE[:5000], "openai-chat", LINE[:5000]), usage=Usage(1, 1), failure=LINE[:5000]),
        Turn("tool", (ToolResponse(long.id, LINE, (Text(LINE),)),)),
        Turn("ai", (Text("```\n" + LINE + "\n```"),), key="l", origin=origin),
    )  # fmt: skip
    store.add(Entry(Conversation(lines, system=LINE), meta={"title": LINE}))
    wide = "wider " + " ".join(UNBROKEN)
    wide_call = ToolCall("hist_tool_" + "w" * 24, wide, json.dumps({wide: wide}), raw_id=wide)
    wider = (
        human(wide, Media("text/plain", "aGk=", name=wide)),
        Turn("ai", (Thinking(wide, origin=origin), Text(wide), wide_call), key="k", origin=Origin(wide, "openai-chat", wide), usage=Usage(2**200, -3), latency_ms=1e300),
        Turn("tool", (ToolResponse(wide_call.id, wide, (Text(wide),)),), ),
        Turn("ai", (Opaque(wide, {wide: wide}, origin), Text(f"- {wide}\n\n> {wide}\n\n| {wide} |\n|---|\n\n`{wide}`")), key="l", origin=origin, failure=wide, response_model=wide),
    )  # fmt: skip
    store.add(Entry(Conversation(wider, system=wide), meta={"title": wide}))
    # Ids and keys that every object of a browser has already, and lists that are longer than a call of a function may be.
    odd = [
        ToolCall(name, "read_file", json.dumps({"__proto__": {"polluted": 1}, "path": name, "lines": [*range(60_000)]}))
        for name in ("constructor", "__proto__", "toString")
    ]
    many = tuple([Text(f"piece {number}") for number in range(3_000)])
    said = (human("odd"), Turn("ai", tuple(odd), key="k", origin=origin), Turn("tool", tuple([tool_result(each, "read") for each in odd])), Turn("ai", many, key="l", origin=origin), human("so?"))  # fmt: skip
    store.add(Entry(Conversation(said), meta={"title": "odd"}))
    made = store.add(Entry(Conversation(turns, system=ALL), meta={"title": ALL}))
    store.fork(made, 2)
    store.close()
    return made


def full_store(path: Path, conversations: int = 10_000, turns: int = 10_000) -> str:
    """Many conversations and a long one; the long one's id."""
    origin = Origin("moonshot", "openai-chat", "kimi-k2.5")
    store = SqliteStore(path)
    # Not durable, for it is made for one test: ten thousand waits for a disk prove nothing.
    store._writer.execute("PRAGMA synchronous = OFF")
    for number in range(conversations):
        words = f"Conversation {number} about {('rivers', 'trains', 'snow', 'seats')[number % 4]} and needle{number}"
        said = (human(words), Turn("ai", (Text(f"An answer to {number}."),), origin=origin, usage=Usage(100, 20)))
        store.add(Entry(Conversation(said), created=1.76e9 + number * 60, updated=1.76e9 + number * 60))
    long: list[Turn] = []
    for number in range(turns // 4):
        call = ToolCall(f"hist_tool_{number:024d}", "read_file", json.dumps({"path": f"file{number}.md"}))
        long += [
            human(f"Question {number}: where is haystack{number}?"),
            Turn("ai", (Thinking("Let me see."), call), key=f"a{number}", origin=origin, usage=Usage(100, 20)),
            Turn("tool", (ToolResponse(call.id, "read_file", (Text(f"The words of file {number}.\n" * 3),)),)),
            Turn("ai", (Text(f"It is in **file{number}.md**.\n\n```python\nprint({number})\n```"),), key=f"b{number}", origin=origin, usage=Usage(100, 20)),
        ]  # fmt: skip
    made = store.add(Entry(Conversation(tuple(long)), meta={"title": "The long one"}, created=1.77e9, updated=1.77e9))
    store.close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA optimize")
    return made


def _png(side: int = 24) -> str:
    """A small square in one colour, as base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x0a\x67\x5e" * side) * side
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b64encode(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    ).decode()


def rich_store(path: Path) -> dict[str, str]:
    """A few conversations of two models and three days, with all that a turn can show: their ids."""
    kimi, claude = Origin("moonshot", "openai-chat", "kimi-k2.5"), Origin("anthropic", "anthropic", "claude-sonnet-4-5")
    store = SqliteStore(path)
    said = (
        human("What is in this picture, and how do I count its colours?", Media("image/png", _png(), name="square.png")),
        Turn(
            "ai",
            (Thinking("One colour.", origin=kimi), Text("One. In Python:\n\n```python\ndef colours(image):\n    return len(set(image))  # one\n```\n\nSee [the manual](https://docs.example/colours).")),
            key="a", origin=kimi, usage=Usage(1_000_000, 1_000_000), latency_ms=2_040.0, ttft_ms=120.4,
        ),
        human("Thank you."),
        Turn("ai", (Text("You are welcome."),), key="b", origin=kimi, usage=Usage(10, 5), latency_ms=300.0, ttft_ms=90.0),
    )  # fmt: skip
    small = (
        human("A short question"),
        Turn("ai", (Text("A short answer."),), key="c", origin=claude, usage=Usage(10, 5)),
    )
    both = (human("Ask both"), Turn("ai", (Text("One."),), key="d", origin=kimi, usage=Usage(9, 9)), human("And you?"), Turn("ai", (Text("Two."),), key="e", origin=claude, usage=Usage(9, 9)))  # fmt: skip
    ids = {
        "picture": store.add(Entry(Conversation(said), updated=1.76e9)),
        "small": store.add(Entry(Conversation(small), updated=1.76e9 + 86_400)),
        "both": store.add(Entry(Conversation(both), updated=1.76e9 + 2 * 86_400)),
    }
    store.close()
    return ids
