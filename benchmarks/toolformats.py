"""How the text filters' cost grows: each hostile text is read at 1, 2 and 4 MB, whole and in small deltas.

Run `python -m benchmarks.toolformats`. Times are of the processor. Doubling the text should
double the time (ratio about 2); no text may take more than a second a MB.
"""

from __future__ import annotations

import sys
import time

from midstream.core.errors import LimitExceeded
from midstream.core.tools import ToolSpec
from midstream.toolformats.registry import FORMATS, get_filter, think_filter

MB = 1024 * 1024
TOOLS = (ToolSpec("f", "", {"type": "object", "properties": {"a": {"type": "string"}}}),)

_KIMI_ARGS = "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
_DS_ARGS = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"
HOSTILE: dict[str, tuple[str, str]] = {
    "plain words": ("", "the quick brown fox "),
    "angle brackets": ("", "<"),
    "half markers": ("", "<|tool_call_"),
    "square brackets": ("", "["),
    "braces": ("", "{"),
    "backticks": ("", "`"),
    "spaces": ("", " "),
    "kimi openers": ("", "<|tool_call_begin|>"),
    "kimi sections": ("", "<|tool_calls_section_begin|><|tool_calls_section_end|>"),
    "kimi quotes": (_KIMI_ARGS, '"'),
    "kimi escapes": (_KIMI_ARGS + '{"', "\\"),
    "kimi ends in a string": (_KIMI_ARGS + '{"a": "', "<|tool_call_end|>"),
    "kimi odd quotes": ("", _KIMI_ARGS + '{"a": "5" x"}<|tool_call_end|>'),
    "kimi escaped quotes": (_KIMI_ARGS + '"', "<|tool_call_end|>" + _KIMI_ARGS + '\\"'),
    "kimi unknown ids": ("", _KIMI_ARGS.replace("functions.f:0", "3") + '{"b": 1}<|tool_call_end|>'),
    "think tags": ("", "<think></think>"),
    "think opens": ("", "<think>"),
    "tool_call openers": ("", "<tool_call>"),
    "tool_call json": ("", '<tool_call>{"name": "f", "arguments": {}}</tool_call>'),
    "tool_call names": ("", "<tool_call>f <"),
    "tool_call brackets": ("<tool_call>", "["),
    "functions": ("", "<function=f>"),
    "parameters": ("<tool_call><function=f>", "<parameter=a>"),
    "arg keys": ("<tool_call>f\n", "<arg_key>a</arg_key>"),
    "children": ("<tool_call>f\n", "<a><b></a>"),
    "invokes": ("", '<invoke name="f">'),
    "use tags": ("", "<use "),
    "use quotes": ("", "<use \"'"),
    "tools": ("", "<tool><name>"),
    "xml parameters": ('<invoke name="f">', '<parameter name="a">'),
    "entities": ('<invoke name="f"><parameter name="a">', "&amp;"),
    "llama object": ('{"name": "f", "parameters": {"a": "', "x"),
    "llama objects": ("", '{"name": "f", "parameters": {}}; '),
    "llama brackets": ('{"name": ', "["),
    "pythonic": ("[f(a=[", "'x',"),
    "pythonic escapes": ("[f(a='", "\\x"),
    "tool requests": ("", "[TOOL_REQUEST]"),
    "named objects": ("", '{"name"'),
    "tool code": ("```tool_code\n", "f(a=1);"),
    "deepseek openers": ("", "<｜tool▁call▁begin｜>"),
    "deepseek quotes": (_DS_ARGS, '"'),
    "mistral openers": ("", "[TOOL_CALLS]"),
    "mistral names": ("[TOOL_CALLS]", "f[ARGS]"),
    "k3 opens": ("", "<|open|>"),
    "k3 calls": ("<|open|>tools<|sep|>", '<|open|>call tool="f" index="1"<|sep|>'),
    "k3 arguments": ('<|open|>call tool="f"<|sep|>', '<|open|>argument key="a" type="number"<|sep|>'),
}


# The formats whose grammar a text attacks; a text of no group attacks them all.
GROUPS: dict[str, tuple[str, ...]] = {
    "kimi": ("kimi",),
    "tool_call": ("hermes", "qwen3-coder", "glm"),
    "functions": ("qwen3-coder",),
    "parameters": ("qwen3-coder",),
    "arg": ("glm",),
    "children": ("glm",),
    "invokes": ("xml",),
    "use": ("xml",),
    "tools": ("xml",),
    "xml": ("xml",),
    "entities": ("xml",),
    "llama": ("llama",),
    "pythonic": ("llama",),
    "tool": ("gemma",),
    "named": ("gemma",),
    "deepseek": ("deepseek",),
    "mistral": ("mistral",),
    "k3": ("kimi-k3",),
}


def seconds(name: str, text: str, delta: int) -> float:
    filter = think_filter() if name == "think" else get_filter(name, TOOLS, tags=("<think>", "</think>"))
    start = time.process_time()
    try:
        for at in range(0, len(text), delta):
            filter.feed(text[at : at + delta])
        filter.close()
    except LimitExceeded:
        pass
    return time.process_time() - start


def main() -> int:
    worst = 0.0
    print(f"{'format':12} {'text':24} {'delta':>8} {'1 MB':>8} {'2 MB':>8} {'4 MB':>8} {'x2':>6} {'x2':>6}")
    for label, (head, piece) in HOSTILE.items():
        for name in GROUPS.get(label.split()[0], ("think", *FORMATS)):
            for delta in (4 * MB, 16):
                times = []
                for size in (MB, 2 * MB, 4 * MB):
                    text = head + piece * (size // len(piece))
                    times.append(seconds(name, text, delta))
                a, b, c = times
                worst = max(worst, c / 4)
                flag = " <--" if c / 4 > 1 or (c > 1 and c / b > 2.7) else ""
                row = f"{name:12} {label:24} {delta:8} {a:8.3f} {b:8.3f} {c:8.3f} {b / a:6.2f} {c / b:6.2f}{flag}"
                print(row, flush=True)
    print(f"worst: {worst:.3f} s a MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
