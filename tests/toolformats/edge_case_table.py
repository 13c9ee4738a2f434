"""What the kimi filter makes of the inputs that other engines disagree on, as the table in docs/kimi-text-edge-cases.md.

Run `python -m tests.toolformats.edge_case_table` from the repository root to write it anew.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from midstream.toolformats.registry import get_filter, leak_filter
from tests.shared_data import vectors

from .feeding import Outcome, feed, outcome, tool

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kimi-text-edge-cases.md"
TOOLS = (tool("read", path="string"), tool("echo", t="string"), tool("list-files", dir="string"))

# Case: (what is odd about it, why it comes out as it does)
CASES: dict[str, tuple[str, str]] = {
    "dotted_name": ("id `functions.fs.read:0`", "`fs.read` is not `read`: reported, nothing runs"),
    "colon_in_name": ("id `functions.ns:read:0`", "`ns:read` is not `read`: reported, nothing runs"),
    "hyphen_name": ("id `functions.list-files:0`", "a name like any other"),
    "slash_name": ("id `functions.mcp/read:0`", "`mcp/read` is not `read`: reported, nothing runs"),
    "space_in_name": ("id `functions.read file:0`", "no declared tool: reported, nothing runs"),
    "no_prefix": ("id `read:0`", "what Moonshot's own API sends"),
    "no_index": ("id `functions.read`", "the name is declared"),
    "negative_index": ("id `functions.read:-1`", "the number does not matter"),
    "big_index": ("id `functions.read:173`", "the number does not matter"),
    "bare_counter": ("id `3`", "only `read` takes these arguments"),
    "call_uuid": ("id `call_59ad…`", "only `read` takes these arguments"),
    "callNNN": ("id `call00003`", "only `read` takes these arguments"),
    "functionsname_n": ("id `functionsread5`", "a sanitised id; only `read` fits"),
    "functions_underscore": ("id `functions_read_1`", "a sanitised id; only `read` fits"),
    "toolu": ("id `toolu_01AbC`", "only `read` takes these arguments"),
    "singular_section": ("`<|tool_call_section_begin|>`", "read like the plural"),
    "no_section": ("no section markers", "a call needs none"),
    "no_section_end": ("no end of the section", "the stream's end ends it"),
    "no_call_end": ("no end of the call", "the section's end ends it"),
    "truncated_args": (
        "the arguments stop in a string",
        "kept as they came: no JSON, so nothing runs and the model is told",
    ),
    "empty_args": ("no arguments", "no arguments are `{}`"),
    "array_args": ("arguments are a list", "kept as they came: not an object, so nothing runs and the model is told"),
    "null_args": ("arguments are null", "kept as they came: not an object, so nothing runs and the model is told"),
    "double_encoded": ("arguments are a JSON string of JSON", "unwrapped"),
    "marker_in_string": ("`<|tool_call_end|>` inside a JSON string", "inside a string it is data"),
    "section_marker_in_string": ("`<|tool_calls_section_end|>` inside a JSON string", "inside a string it is data"),
    "think_unclosed": ("the section inside unclosed `<think>`", "the section ends the thinking"),
    "think_implicit": ("thinking opened by the prompt", "with `starts_inside`"),
    "two_think": ("two thinking blocks", "models think more than once"),
    "text_after": ("text after the section", "kept"),
    "text_between": ("text between two sections", "kept"),
    "duplicate_ids": ("one id twice", "two calls; canonical ids tell them apart"),
    "im_end_tail": ("`<|im_end|>` at the end", "the end of the message is not text"),
    "unicode": ("letters beyond ASCII", "as they came"),
    "newlines_everywhere": ("line breaks around every marker", "layout"),
}

_HEAD = """# Kimi tool calls in text: the cases engines disagree on

What midstream makes of 35 inputs on which vLLM, SGLang and llama.cpp differ, with the tools `read(path)`, `echo(t)` and
`list-files(dir)` declared and calls of declared tools allowed (`execute`). Nothing is dropped in silence, and no marker reaches
the text unless the text quotes it. This page is written by `python -m tests.toolformats.edge_case_table` and checked by the tests.

| case | input | text | thinking | calls | reported | why |
|---|---|---|---|---|---|---|
"""


def read(name: str, vector: dict[str, Any], *, guarded: bool = True) -> Outcome:
    make = leak_filter if guarded else get_filter
    filter = make("kimi", TOOLS, tags=("<think>", "</think>"), starts_inside=name == "think_implicit")
    return outcome(feed(filter, [vector["input"]["text"]]))


def page() -> str:
    rows = []
    for identity, vector in vectors("kimi/cross-parser-edge-cases.json").items():
        name = identity.removeprefix("edge-")
        odd, why = CASES[name]
        found = read(name, vector)
        calls = ", ".join([f"{call} {arguments}" for call, arguments, _ in found.calls])
        reported = "; ".join([problem.why for problem in found.problems])
        cells = (name, odd, _code(found.text), _code(found.thinking), _code(calls), reported, why)
        rows.append("| " + " | ".join([cell.replace("|", "\\|") for cell in cells]) + " |\n")
    return _HEAD + "".join(rows)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
