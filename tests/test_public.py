"""The public names: which, where they live, what importing them costs, and that editors and the documentation know them."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import midstream
from midstream.core import errors as core_errors
from midstream.core import events as core_events
from midstream.testing import sim_server
from midstream.wires.registry import WIRES
from tests.long_run import each_kind

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
NAMES = """
Agent Approval ApprovalRequest Breaker Catalog Client Compaction Conversation Decision Event Grammar McpServer McpServers Media MidstreamError Note Opaque Options Origin Parsed ParsedReply ProviderError Reply Request Resolved RetryPolicy
RunLimits RunResult Sandbox Session SwitchReport SyncAgent SyncSession Text Thinking Tool ToolCall ToolResponse ToolSpec Toolbox TransportOptions Turn Usage adapters
complete complete_sync decode_response decode_stream encode_request errors events human ids make_decoder mint_turn_key reduce
resolve stream stream_sync tool tool_result
""".split()
MODULES = ("adapters", "errors", "events", "ids")


def test_the_public_names_are_these() -> None:
    assert midstream.__all__ == NAMES


@each_kind("name", NAMES, lambda name: type(getattr(midstream, name)))
def test_every_name_is_there_listed_and_explained(name: str) -> None:
    value = getattr(midstream, name)
    assert value is getattr(midstream, name) and name in dir(midstream)
    if isinstance(value, type | ModuleType) or callable(value):
        assert value.__doc__ and "Struct" not in value.__doc__, f"{name} has no docstring"


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_a_public_module_is_there_and_listed(module: str) -> None:
    found = importlib.import_module(f"midstream.{module}")
    assert sorted(found.__all__) == sorted(set(found.__all__))
    for name in found.__all__:
        assert getattr(found, name) is not None and name in dir(found)
        assert not isinstance(value := getattr(found, name), type) or value.__doc__, f"{module}.{name} has no docstring"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = found.nonsense


@pytest.mark.parametrize("core", [core_errors, core_events])
def test_whatever_a_caller_matches_on_is_public(core: ModuleType) -> None:
    public = importlib.import_module(core.__name__.replace(".core", ""))
    made = {name for name, value in vars(core).items() if isinstance(value, type) and value.__module__ == core.__name__}
    assert {name for name in made if not name.startswith("_")} <= set(public.__all__)


def test_a_name_that_is_not_there_says_so() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = midstream.nonsense  # type: ignore[attr-defined]


def test_importing_the_package_pulls_in_nothing_heavy() -> None:
    program = (
        "import sys; import midstream, midstream.adapters, midstream.errors, midstream.events, midstream.ids\n"
        "from midstream import Conversation, encode_request\n"
        "print([name for name in ('aiohttp', 'asyncio', 'click', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def loaded(program: str) -> set[str]:
    """The modules that a fresh interpreter has after this program, and lacks without it."""
    code = f"import sys; before = set(sys.modules)\n{program}\nprint(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


EXTRAS = (
    "opentelemetry", "openai", "llm", "pydantic_ai", "agents", "langchain_core", "mcp", "mcp_types", "acp",
    "pydantic", "httpx", "httpx2", "anyio",
)  # fmt: skip
"""What extras and adapters bring, and nobody pays for before using it; tests/e2e has them all installed."""
USES = (
    "import midstream, midstream.adapters; from midstream import Agent, Client, Session, SyncSession, Toolbox",
    "from midstream import Session; Session('moonshot/kimi-k2.5')",
    "import midstream.cli.main, midstream.cli.ask",
    "from midstream.adapters import ai_sdk, backend, history, openai_wires",
)
RARE = {"email.utils", "html", "tomllib", "difflib", "sqlite3", "click", "rich", "prompt_toolkit", "aiohttp"}
# What only a request needs: the event loop and what it brings, TLS, llhttp, digests, commands that print a key.
OF_A_REQUEST = {"asyncio", "logging", "socket", "ssl", "subprocess", "hashlib", "random", "httptools", "uvloop"}


def test_a_session_loads_no_archive_formats() -> None:
    """tempfile and shutil bring bz2 and lzma along; only a store that cannot be written needs them."""
    assert not loaded("import midstream; midstream.Session") & {"tempfile", "shutil", "bz2", "lzma"}


def test_a_question_loads_no_commands_and_nothing_that_only_they_need() -> None:
    found = loaded("import midstream.cli.main, midstream.cli.ask")
    assert not found & {"midstream.agent.bash", "midstream.agent.sandbox", "midstream.agent.search"}
    assert not found & {"shutil", "difflib", "secrets", "json"}


@pytest.mark.parametrize("program", USES)
def test_no_extra_is_imported_before_it_is_used(program: str) -> None:
    found = loaded(program)
    assert not {name for name in found if name.split(".")[0] in EXTRAS}
    # The part of ours that needs one is not loaded either: it would be paid for by everybody.
    assert not found & {"midstream.telemetry.telemetry", "midstream.telemetry.conventions"}
    if "adapters import" not in program:
        assert not {name for name in found if name.startswith("midstream.adapters.")}


def test_a_client_loads_no_wire_and_nothing_that_most_programs_never_need() -> None:
    found = loaded("from midstream import Client")
    assert not found & (RARE | OF_A_REQUEST | {"json", "midstream.client.answer_type"})
    rooms = {
        name
        for name in found
        if name.startswith("midstream.wires.") and name.endswith((".encode", ".decode", ".parse"))
    }
    assert not rooms
    assert not {
        name
        for name in found
        if name.startswith(
            (
                "midstream.agent",
                "midstream.store",
                "midstream.sim",
                "midstream.cli.",
                "midstream.templates",
                "midstream.toolformats",
            )
        )
    }


@pytest.mark.parametrize("wire", sorted(WIRES))
def test_a_wire_loads_alone(wire: str) -> None:
    found = loaded(f"from midstream import make_decoder; make_decoder(wire={wire!r}, turn_key='t')")
    rooms = {
        name.split(".")[2]
        for name in found
        if name.startswith("midstream.wires.") and name.endswith((".decode", ".shapes"))
    }
    beside = {"openai_chat"} if wire == "completion" else set()  # it counts tokens as that one does
    assert rooms == {WIRES[wire].package.rpartition(".")[2]} | beside
    assert not found & RARE


@pytest.mark.long
def test_a_type_checker_knows_every_name_and_no_other() -> None:
    """In one run: every public name, and three that do not exist."""
    lines = [f"from midstream import {name} as _{name}" for name in NAMES]
    for module in MODULES:
        names = importlib.import_module(f"midstream.{module}").__all__
        lines += [f"from midstream.{module} import {name} as _{module}_{name}" for name in names]
    missing = [
        "from midstream import Sesion",
        "from midstream.events import Dome",
        "from midstream.adapters import kimi",
    ]
    own = ["--config-file", os.devnull, "--cache-dir", str(ROOT / ".mypy_cache" / "public")]
    command = [sys.executable, "-m", "mypy", *own, "--strict", "-c", "\n".join([*lines, *missing])]
    environ = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    found = re.findall(r"has no attribute \"(\w+)\"", done.stdout)
    assert found == ["Sesion", "Dome", "kimi"], done.stdout
    assert "Found 3 errors" in done.stdout, done.stdout


def test_the_reference_names_everything_public() -> None:
    reference = "".join([(DOCS / name).read_text("utf-8") for name in ("api.md", "api-modules.md", "adapters.md")])
    for module in ("", *MODULES):
        home = importlib.import_module(f"midstream.{module}".rstrip("."))
        missing = [name for name in home.__all__ if not re.search(rf"`(?:midstream\.)?{name}\b", reference)]
        assert not missing, f"docs/api.md does not mention {missing} of midstream.{module}"


def test_the_reference_gives_every_kind_of_error() -> None:
    told = dict(re.findall(r"`(\w+)` \[`(\w+)`\]", (DOCS / "api-modules.md").read_text("utf-8")))
    there = {kind.__name__: name for name, kind in core_errors.KINDS.items() if kind.__module__ == core_errors.__name__}
    assert told == there


def _examples() -> list[tuple[str, str]]:
    return [
        (f"{path.name} {number}", code)
        for path in (DOCS / "api.md", DOCS / "adapters.md")
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), re.S), 1)
    ]


@pytest.mark.parametrize("code", [code for _, code in _examples()], ids=[name for name, _ in _examples()])
def test_the_examples_of_the_reference_run(code: str, tmp_path: Path) -> None:
    with sim_server() as sim:
        environ = {
            **os.environ,
            "MOONSHOT_BASE_URL": sim.base_url("moonshot"),
            "ANTHROPIC_BASE_URL": sim.base_url("anthropic"),
            "MIDSTREAM_HOME": str(tmp_path),
        }
        for name in ("MOONSHOT_API_BASE", "MOONSHOT_API_KEY", "KIMI_API_KEY", "ANTHROPIC_API_KEY"):
            environ.pop(name, None)
        command = [sys.executable, "-W", "error", "-c", code]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() and not sim.refused


def test_the_links_of_the_reference_lead_somewhere() -> None:
    for path in (DOCS / "api.md", DOCS / "adapters.md"):
        for link in re.findall(r"\]\(([^)]+)\)", path.read_text("utf-8")):
            assert (DOCS / link.partition("#")[0]).exists(), link  # tests/docs/test_reference.py opens anchors
