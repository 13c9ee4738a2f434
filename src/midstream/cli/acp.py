"""`midstream acp`: midstream as an agent for editors, over the Agent Client Protocol on stdin and stdout."""

from __future__ import annotations

from typing import Any

import click

from ..core.errors import ConfigError
from .options import Settings, agent_options, tool_option
from .running import run

_EPILOG = """\b
Zed, in its settings.json:
  {"agent_servers": {"midstream": {"command": "midstream", "args": ["acp", "-m", "moonshot/kimi-k2.5"], "env": {}}}}

\b
The editor shows the conversation and asks before tools write or run. The model is one of the session's options there;
sessions are stored like those of `midstream chat`, which can continue them, and the other way round (docs/acp.md)."""


@click.command(epilog=_EPILOG)
@tool_option("Only this tool (default: all); repeatable.", default=("all",))
@agent_options
def acp(**given: Any) -> None:
    """Be an agent for Zed and other editors (Agent Client Protocol, on stdin and stdout)."""
    try:
        from .acp_agent import serve  # imports the protocol's library, which takes most of a second
    except ImportError as error:
        raise ConfigError(
            f"midstream acp needs {error.name}, which is not installed: pip install '.[acp]' in midstream's checkout"
        ) from None
    run(serve(Settings(is_chat=True, **given)))
