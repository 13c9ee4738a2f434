"""An MCP server that misbehaves on order, written against the protocol alone: no SDK, so that it starts in a moment.

Run as a script (`python -I -S scripted_server.py BEHAVIOUR …`). Without a behaviour it is a good server with an `echo`, an
`add`, a picture and so on; each behaviour is a way in which real servers fail.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

HOW = set(sys.argv[1:])
TINY_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS: list[dict[str, Any]] = [
    {"name": "echo", "description": "Say it again", "inputSchema": TEXT},
    {"name": "picture", "description": "A dot", "inputSchema": {"type": "object"}},
    {"name": "note", "description": "A resource inside a result", "inputSchema": {"type": "object"}},
    {"name": "slow.work", "description": "Reports progress", "inputSchema": {"type": "object"}},
    {"name": "wait", "description": "Never answers", "inputSchema": {"type": "object"}},
    {"name": "grow", "description": "One more tool from now on", "inputSchema": {"type": "object"}},
    {"name": "environment", "description": "What it was given", "inputSchema": {"type": "object"}},
    {"name": "fail", "description": "Fails", "inputSchema": {"type": "object"}},
]
CANCELLED: list[Any] = []


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


ODD = {
    "block": '{"content": [{"type": "text", "text": "known"}, {"type": "hologram", "data": "AAAA"}, 7]}',
    "annotations": '{"content": [{"type": "text", "text": "for all", "annotations": {"audience": ["nobody"]}}]}',
    "bytes": '{"content": [{"type": "text", "text": "caf\xe9"}]}',
    "surrogate": '{"content": [{"type": "text", "text": "cut \\ud83d here"}]}',
    "number": '{"content": [{"type": "text", "text": "long"}], "structuredContent": {"n": ' + "9" * 5000 + "}}",
    "structured": '{"structuredContent": {"a": 1}}',
    "nothing": "{}",
    "null": "null",
}


def odd(number: Any, kind: str) -> None:
    """A result that the protocol does not know."""
    raw('{"jsonrpc": "2.0", "id": ' + json.dumps(number) + ', "result": ' + ODD[kind] + "}")


def raw(line: str) -> None:
    """Send a line as it is, and not in UTF-8."""
    sys.stdout.buffer.write(line.encode("latin-1") + b"\n")
    sys.stdout.buffer.flush()


def text(*words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": word} for word in words]}


def listed() -> list[dict[str, Any]]:
    if "repeats-names" in HOW:
        return [*TOOLS, {**TOOLS[0], "description": "another one"}, TOOLS[1]]
    if "lies-in-its-schema" in HOW:
        deep: dict[str, Any] = {"type": "string"}
        for _ in range(70):
            deep = {"type": "object", "properties": {"x": deep}}
        bomb = {
            f"d{n}": {"type": "object", "properties": {k: {"$ref": f"#/$defs/d{n + 1}"} for k in "ab"}}
            for n in range(40)
        }
        return [
            TOOLS[0],
            {"name": "deep", "inputSchema": deep},
            {"name": "bomb", "inputSchema": {"type": "object", "$defs": {**bomb, "d40": {}}, "$ref": "#/$defs/d0"}},
            {"name": "nowhere", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}}},
            {"name": "odd", "inputSchema": {"type": ["array", 7], "required": "text", "properties": [1]}},
            {"name": "naïve name/with $igns " + "x" * 90, "inputSchema": {}},
            {"name": "output", "inputSchema": {"type": "object"}, "outputSchema": TEXT},
        ]
    if "nests-too-deep" in HOW:
        nested: dict[str, Any] = {}
        for _ in range(400):
            nested = {"properties": {"x": nested}}
        return [TOOLS[0], {"name": "nested", "inputSchema": nested}]
    if "breaks-the-protocol" in HOW:
        return [{"name": 7, "inputSchema": TEXT}, "tool", TOOLS[0]]
    return TOOLS


def call(number: Any, params: dict[str, Any]) -> dict[str, Any] | None:
    name, arguments = params["name"], params.get("arguments") or {}
    if "dies-in-a-call" in HOW:
        sys.stderr.write("Segmentation fault (core dumped)\n")
        sys.stderr.flush()
        os._exit(3)
    if "floods-a-result" in HOW:
        chunk = "x" * (1 << 20)
        head = json.dumps({"jsonrpc": "2.0", "id": number})[:-1]
        sys.stdout.write(head + ', "result": {"content": [{"type": "text", "text": "')
        for _ in range(100):
            sys.stdout.write(chunk)
        sys.stdout.write('"}]}}\n')
        sys.stdout.flush()
        return None
    if "floods-with-tiny-messages" in HOW:
        for _ in range(1000):
            raw("{}\n" * 33_000)
    if "floods-with-a-batch" in HOW:
        raw("[" + "{}," * 5_000_000 + "{}]")
    if "nests-lists" in HOW:
        raw("[" * 100_000 + "]" * 100_000)
    if "floods-with-messages" in HOW:
        line = json.dumps(
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "y" * 900}}
        )
        for _ in range(100_000):
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
    if name == "wait" or "hangs-in-a-call" in HOW:
        return None
    if name == "echo":
        return text(arguments.get("text", ""))
    if name == "picture":
        return {"content": [{"type": "image", "data": TINY_PNG, "mimeType": "image/png"}]}
    if name == "note":
        return {
            "content": [
                {"type": "resource", "resource": {"uri": "memo://insides", "text": "milk", "mimeType": "text/plain"}}
            ]
        }
    if name == "slow.work":
        token = (params.get("_meta") or {}).get("progressToken")
        for step in range(1, 9):
            send(
                {
                    "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": step, "total": 8, "message": f"step {step}"},
                }
            )
            time.sleep(0.15)
        return text("worked")
    if name == "grow":
        TOOLS.append({"name": "grown", "inputSchema": {"type": "object"}})
        send({"method": "notifications/tools/list_changed"})
        return text("grew")
    if name == "environment":
        return {**text(json.dumps(dict(os.environ))), "isError": "fails" in HOW}
    if name == "fail":
        return {**text("it is broken"), "isError": True}
    if name == "output":
        return {**text("unstructured"), "structuredContent": {"text": 7}}
    if name == "odd":
        odd(number, arguments["kind"])
        return None
    if name == "refuse":
        # The code that the SDK uses for a connection that has closed.
        send({"id": number, "error": {"code": -32000, "message": "out of credit"}})
        return None
    if name == "ask-back":
        send({"id": "back", "method": arguments["method"], "params": arguments["params"]})
        while "method" in (said := json.loads(sys.stdin.readline())):
            pass
        return text(json.dumps(said.get("error")))
    if name == "cancelled":
        return text(json.dumps(CANCELLED))
    return text("grown up")


def answer(method: str, number: Any, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}, "prompts": {}, "resources": {}},
            "serverInfo": {"name": "scripted", "version": "1.0"},
        }
    if method == "tools/list":
        return {"tools": listed()}
    if method == "prompts/list" and "hangs-in-a-list" in HOW:
        return None
    if method == "resources/list" and "lists-bad-resources" in HOW:
        return {"resources": [{"name": "no address"}, {"uri": "memo://shopping", "name": "Shopping list"}]}
    if method == "prompts/list":
        return {
            "prompts": [
                {"name": "review", "description": "Review it", "arguments": [{"name": "what", "required": True}]}
            ]
        }
    if method == "prompts/get":
        said = f"Please review {params['arguments']['what']}."
        return {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]}
    if method == "resources/list":
        return {"resources": [{"uri": "memo://shopping", "name": "Shopping list", "mimeType": "text/plain"}]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": "buy milk", "mimeType": "text/plain"}]}
    return call(number, params) if method == "tools/call" else None


def main() -> None:
    if "leaves-children" in HOW:
        for _ in range(2):
            subprocess.Popen(
                ["sleep", "600"], start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
    if "hangs-at-start" in HOW:
        time.sleep(3600)
    if "dies-at-start" in HOW:
        sys.stderr.write("cannot open database\n")
        sys.exit(4)
    if "writes-junk" in HOW:
        sys.stdout.write("Welcome to my server!\n\n[warn] not JSON {\n{broken json\n")
        sys.stdout.flush()
    if "floods-with-junk" in HOW:
        for _ in range(100):
            sys.stdout.write(("junk " * 200 + "\n") * 1024)
    if "floods-its-errors" in HOW:
        for _ in range(100):
            sys.stderr.write(("noise " * 170 + "\n") * 1024)
    sys.stderr.write(f"scripted server speaks, token={os.environ.get('SECRET_OF_SERVER', '')}\n")
    sys.stderr.flush()
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method", ""), message.get("id")
        if method == "notifications/cancelled":
            CANCELLED.append(message["params"]["requestId"])
            sys.stderr.write("a call was cancelled\n")
            sys.stderr.flush()
            continue
        if number is None:
            continue
        if "dies-at-a-newer-protocol" in HOW and method == "server/discover":
            sys.exit(1)
        if method == "server/discover" and "ignores-a-newer-protocol" in HOW:
            continue
        if "lacks-what-it-declares" in HOW and method in ("prompts/list", "resources/list"):
            send({"id": number, "error": {"code": -32601, "message": "Method not found"}})
            continue
        if method == "server/discover":
            send({"id": number, "error": {"code": -32601, "message": "no such method"}})
            continue
        found = answer(method, number, message.get("params") or {})
        if found is not None and "answers-in-batches" in HOW:
            sys.stdout.write("\ufeff" + json.dumps([{"jsonrpc": "2.0", "id": number, "result": found}]) + "\n")
            sys.stdout.flush()
        elif found is not None:
            send({"id": number, "result": found})
        if "changes-its-list" in HOW and method == "tools/list" and len(TOOLS) < 12:
            TOOLS.append({"name": f"more-{len(TOOLS)}", "inputSchema": {"type": "object"}})
            send({"method": "notifications/tools/list_changed"})


if __name__ == "__main__":
    main()
