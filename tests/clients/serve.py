"""A gateway in a process of its own: `python -m tests.clients.serve GATEWAY_TOML`, until SIGTERM. Says where it is."""

from __future__ import annotations

import sys
from pathlib import Path

from midstream.gateway.assembly import AppOptions, make_app
from midstream.gateway.server import ServerOptions, serve


def main(config: str) -> int:
    app = make_app(AppOptions(config=Path(config), log_format="json", log_fd=2))
    return serve(app, ServerOptions(port=0, drain=1), ready=lambda url: print(f"ready {url}", flush=True))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
