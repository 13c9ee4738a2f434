"""One conversation over five dialects that uses the reference MCP servers: run in an environment that has them.

`python -m tests.e2e.mcp_conversation NPM_BIN FOLDER` prints what came of it as one JSON object. Servers that are missing are
named in it, and the others are used.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from midstream import Agent, Approval, Client, McpServer, McpServers, Media, Session, Toolbox
from midstream.agent.mcp.offer_cache import OfferCache
from midstream.client.catalog import Catalog
from midstream.client.config import Config
from midstream.core.blocks import ToolResponse
from midstream.events import Stopped
from midstream.sim.server import Sim
from tests.agent.mcp.servers import DIALECTS, MARK


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        known = self.path == "/page"
        self.send_response(200 if known else 404)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<html><body><h1>Loopback</h1><p>the page was fetched</p></body></html>" if known else b"")

    def log_message(self, *_: Any) -> None: ...


def servers(npm: Path, folder: Path) -> tuple[list[McpServer], list[str]]:
    """Those that are installed, and the names of those that are not."""
    python = Path(sys.executable).parent
    programs = {
        "everything": (npm / "mcp-server-everything", ()),
        "files": (npm / "mcp-server-filesystem", (str(folder),)),
        "memory": (npm / "mcp-server-memory", ()),
        "time": (python / "mcp-server-time", ("--local-timezone", "UTC")),
        "fetch": (python / "mcp-server-fetch", ("--ignore-robots-txt", "--allow-private-ips")),
    }
    env = {MARK: folder.name, "MEMORY_FILE_PATH": str(folder / "memory.json")}
    found = [
        McpServer(name, command=(str(program), *words), env=env, start_timeout=60)
        for name, (program, words) in programs.items()
        if program.exists()
    ]
    return found, [name for name, (program, _) in programs.items() if not program.exists()]


def questions(folder: Path, page: str) -> dict[str, str]:
    """What is asked of each server; the scripted models call what they are told to."""
    return {
        "everything": "Call mcp__everything__echo with message 'number {n}', then call mcp__everything__get-tiny-image with x 1",
        "files": f"Call mcp__files__write_file with path '{folder}/note-{{n}}.txt' and content 'words {{n}}', then call "
        f"mcp__files__read_text_file with path '{folder}/note-{{n}}.txt'",
        "memory": "Call mcp__memory__create_entities with x 1, then call mcp__memory__read_graph with x 1",
        "time": "Call mcp__time__get_current_time with timezone 'Asia/Tokyo'",
        "fetch": f"Call mcp__fetch__fetch with url '{page}'",
    }


async def converse(npm: Path, folder: Path, page: str) -> dict[str, Any]:
    found, missing = servers(npm, folder)
    results: list[dict[str, Any]] = []
    async with Sim(strict="paranoid") as sim, McpServers(found, cache=OfferCache(folder / "cache")) as running:
        await running.ready()
        states = {name: each.fault or each.state for name, each in running.connections.items()}
        catalog = Catalog(Config(), environ={}, providers=sim.providers())
        async with Client(catalog) as client:
            session = Session(DIALECTS[0], client=client)
            agent = Agent(session, Toolbox([running], approve=Approval(allow=["mcp__*"])))
            asked = questions(folder, page)
            for number, model in enumerate(DIALECTS):
                session.use(model)
                for name in running.connections:
                    first = len(session.conversation.turns)
                    stopped = [
                        each
                        async for each in agent.run(asked[name].replace("{n}", str(number)))
                        if isinstance(each, Stopped)
                    ]
                    answers = [
                        block
                        for turn in session.conversation.turns[first:]
                        for block in turn.blocks
                        if isinstance(block, ToolResponse)
                    ]
                    results.append(
                        {
                            "model": model,
                            "server": name,
                            "stopped": stopped[-1].reason,
                            "texts": [each.text for each in answers],
                            "errors": [each.text for each in answers if each.is_error],
                            "media": sum(isinstance(part, Media) for each in answers for part in each.content),
                        }
                    )
        tools = {name: len(running.offer(name).tools) for name in running.connections}
        notices = running.take_notices()
    return {"missing": missing, "states": states, "tools": tools, "results": results, "notices": notices}


def main(npm: str, folder: str) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = f"http://127.0.0.1:{server.server_address[1]}/page"
    print(json.dumps(asyncio.run(converse(Path(npm), Path(folder), page))))


if __name__ == "__main__":
    main(*sys.argv[1:])
