"""Who takes part: how each gateway is configured, started and asked.

All of them know the same four models (`work.WORKS`), each at its own address of the upstream, with one worker, and are asked
with a key. A gateway is configured as its own documentation says; what it does beside the work that it could be spared
(telemetry, price lists from the network, databases) is switched off.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from midstream.gateway.api_key import digest_of, make_key
from midstream.gateway.state import KeyRecord, open_state

from .work import CHAT_TO_MESSAGES, JSON, MESSAGES_TO_CHAT, PATHS, WORKS, Pair, Wire, Work, request_body

KEY = "sk-bench-0123456789abcdef0123456789abcdef"
OUR_KEY = make_key().key.reveal()
_HERE = Path(__file__).parent
ENVIRONMENT = Path(sys.prefix)
NPM = _HERE / "npm" / "node_modules"
LITELLM = Path(f"{sys.prefix}-litellm") / "bin" / "litellm"


class Setting(msgspec.Struct, frozen=True):
    """Where a gateway runs: a folder of its own, its port, and the upstream's address."""

    folder: Path
    port: int
    upstream: str


class Launch(msgspec.Struct, frozen=True):
    """How a gateway is started. `port_in` finds its port in what it prints, where it chooses one itself."""

    command: list[str]
    environ: dict[str, str] = {}
    port_in: str = ""


class NotInstalled(Exception):
    """What is missing, and how to get it."""


class Contender(msgspec.Struct, frozen=True):
    """A gateway. `path` and `model` say how it is asked for a work, where not as its client's wire usually is."""

    name: str
    launch: Callable[[Setting], Launch] | None
    pair: Pair = CHAT_TO_MESSAGES
    proxy: bool = False
    """It passes the upstream's own protocol through: it does not translate."""
    path: str = ""
    model: str = "{}"
    headers: Callable[[Setting, Work], dict[str, str]] | None = None
    key: str = KEY

    def request(self, setting: Setting, work: Work) -> bytes:
        """The request as it goes over the connection."""
        wire = self.pair.upstream if self.proxy else self.pair.client
        path = self.path or PATHS[wire]
        if self.proxy:
            path = work.url("", self.pair) + path
        body = request_body(wire, self.model.format(work.model), streamed=work.streamed)
        fields = {
            "Host": f"127.0.0.1:{setting.port}",
            "Content-Type": "application/json",
            "Authorization": f"Bearer {self.key}",
            "Content-Length": str(len(body)),
            **({"anthropic-version": "2023-06-01"} if wire == "messages" else {}),
            **(self.headers(setting, work) if self.headers else {}),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body


_LIKE: dict[Wire, str] = {"chat": "openai-compatible", "messages": "anthropic"}


def midstream(setting: Setting, pair: Pair) -> Launch:
    """With everything on that an operator would have on: a key with limits, prices, the vault, seals, a log line a request."""
    providers, aliases, prices = [], ["[keys]", "required = true", "[aliases]"], []
    for work in WORKS:
        url = work.url(setting.upstream, pair)
        providers += [f"[providers.{work.model}]", f'like = "{_LIKE[pair.upstream]}"', f'base_url = "{url}/v1"']
        providers += ['api_key_env = "BENCH_API_KEY"']
        prices += [f'[models."{work.model}/claude-sonnet-4-5"]', "input_price = 3.0", "output_price = 15.0"]
        aliases.append(f'{work.model} = "{work.model}/claude-sonnet-4-5"')
    (setting.folder / "config.toml").write_text("\n".join([*providers, *prices, ""]))
    (setting.folder / "gateway.toml").write_text("\n".join([*aliases, ""]))
    state = setting.folder / "gateway.db"
    asyncio.run(_add_key(str(state)))
    program = str(Path(sys.executable).with_name("midstream"))
    command = [program, "serve", "--config", str(setting.folder / "gateway.toml"), "--port", str(setting.port)]
    environ = {"MIDSTREAM_HOME": str(setting.folder), "BENCH_API_KEY": "k"}
    return Launch([*command, "--store", str(state), "--log-format", "json"], environ)


async def _add_key(url: str) -> None:
    limits = {"rate": 100_000_000, "concurrency": 5_000, "spend": 1e9}
    state = open_state(url)
    await state.open()
    await state.add_key(KeyRecord("key_bench", "bench", digest_of(OUR_KEY), name="bench", **limits))  # type: ignore[arg-type]
    await state.close()


def _litellm(setting: Setting) -> Launch:
    if not LITELLM.exists():
        raise NotInstalled("litellm[proxy] is not installed (make bench-gateway tries to)")
    models = [
        {"model_name": work.model, "litellm_params": {
            "model": "anthropic/claude-sonnet-4-5", "api_base": work.url(setting.upstream, CHAT_TO_MESSAGES), "api_key": "k",
        }}
        for work in WORKS
    ]  # fmt: skip
    config = setting.folder / "litellm.yaml"  # JSON is YAML
    settings = {"general_settings": {"master_key": KEY}, "litellm_settings": {"telemetry": False}}
    config.write_text(json.dumps({"model_list": models, **settings}))
    command = [str(LITELLM), "--config", str(config), "--host", "127.0.0.1", "--port", str(setting.port)]
    environ = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "DISABLE_ADMIN_UI": "True"}
    environ |= {
        "AIOHTTP_CONNECTOR_LIMIT": "2000",
        "AIOHTTP_CONNECTOR_LIMIT_PER_HOST": "2000",
    }  # 1,000 and 500 by default
    return Launch([*command, "--num_workers", "1", "--telemetry", "False"], environ)


def _portkey(setting: Setting) -> Launch:
    program = NPM / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    return Launch([_node(program), str(program), "--headless", f"--port={setting.port}"])


def _portkey_headers(setting: Setting, work: Work) -> dict[str, str]:
    host = work.url(setting.upstream, CHAT_TO_MESSAGES) + "/v1"
    return {"x-portkey-provider": "anthropic", "x-portkey-custom-host": host}


def _claude_code_router(setting: Setting) -> Launch:
    program = NPM / "@musistudio" / "claude-code-router" / "dist" / "cli.js"
    node = _node(program)
    providers = [
        {"name": work.model, "api_base_url": work.url(setting.upstream, MESSAGES_TO_CHAT) + PATHS["chat"], "api_key": "k",
         "models": ["m"]}
        for work in WORKS
    ]  # fmt: skip
    config = {
        "PORT": setting.port, "HOST": "127.0.0.1", "APIKEY": KEY, "LOG": False, "NON_INTERACTIVE_MODE": True,
        "Providers": providers, "Router": {"default": f"{JSON.model},m"},
    }  # fmt: skip
    home = setting.folder / ".claude-code-router"
    home.mkdir()
    (home / "config.json").write_text(json.dumps(config))
    return Launch([node, str(program), "start"])


def _node(program: Path) -> str:
    node = shutil.which("node")
    if node is None:
        raise NotInstalled("node is not installed (make e2e-tools)")
    if not program.exists():
        raise NotInstalled("its npm package is not installed (make bench-gateway tries to)")
    return node


def _tensorzero(setting: Setting) -> Launch:
    if not list(ENVIRONMENT.glob("lib/python*/site-packages/tensorzero")):
        raise NotInstalled("tensorzero is not installed (make bench-gateway tries to)")
    lines = ["[gateway]", "observability.enabled = false"]
    for work in WORKS:
        lines += [
            f"[models.{work.model}]",
            'routing = ["here"]',
            f"[models.{work.model}.providers.here]",
            'type = "anthropic"',
            'model_name = "claude-sonnet-4-5"',
            f'api_base = "{work.url(setting.upstream, CHAT_TO_MESSAGES)}/v1/"',
        ]
    config = setting.folder / "tensorzero.toml"
    config.write_text("\n".join(lines) + "\n")
    program = str(_HERE / "tensorzero_server.py")
    return Launch([sys.executable, program, str(config)], {"ANTHROPIC_API_KEY": "k"}, port_in=r"http://[\d.]+:(\d+)")


def _nginx(setting: Setting) -> Launch:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        raise NotInstalled("nginx is not installed (apt-get install nginx-light)")
    user = "user root;" if os.geteuid() == 0 else ""
    host = setting.upstream.removeprefix("http://")
    config = setting.folder / "nginx.conf"
    temps = " ".join(
        f"{kind}_temp_path {setting.folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config.write_text(
        f"daemon off; worker_processes 1; pid {setting.folder}/nginx.pid; error_log stderr error; {user}\n"
        "events { worker_connections 4096; }\n"
        f"http {{ access_log off; {temps} keepalive_requests 1000000;\n"
        f"  upstream here {{ server {host}; keepalive 1024; keepalive_requests 1000000; }}\n"
        f"  server {{ listen 127.0.0.1:{setting.port} backlog=2048;\n"
        '    location / { proxy_pass http://here; proxy_http_version 1.1; proxy_set_header Connection "";\n'
        "      proxy_buffering off; proxy_read_timeout 600s; } } }\n"
    )
    return Launch([program, "-p", str(setting.folder), "-c", str(config)])


DIRECT = "no gateway"
OURS, OURS_FROM_MESSAGES = "midstream", "midstream, Messages to chat"
TENSORZERO, PORTKEY, LITELLM_PROXY = "TensorZero", "Portkey", "litellm proxy"
ROUTER, NGINX = "claude-code-router, Messages to chat", "nginx, plain proxy"

CONTENDERS = (
    Contender(OURS, lambda setting: midstream(setting, CHAT_TO_MESSAGES), key=OUR_KEY),
    Contender(OURS_FROM_MESSAGES, lambda setting: midstream(setting, MESSAGES_TO_CHAT), MESSAGES_TO_CHAT, key=OUR_KEY),
    Contender(TENSORZERO, _tensorzero, path="/openai/v1/chat/completions", model="tensorzero::model_name::{}"),
    Contender(PORTKEY, _portkey, headers=_portkey_headers),
    Contender(LITELLM_PROXY, _litellm),
    Contender(ROUTER, _claude_code_router, MESSAGES_TO_CHAT, model="{},m"),
    Contender(NGINX, _nginx, proxy=True),
    Contender(DIRECT, None, proxy=True),
)


def port_in(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None
