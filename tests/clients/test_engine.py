"""Every agent with a real llama.cpp server behind the gateway: the protocol alone, for the model is a few thousand random weights.

Its template and weights make it begin a call until it has read two results, then say a word; which tool it calls, and with what,
chance decides within the grammar that the engine makes of the agent's own schemas. So the agents run as nobody.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.agents import AGENTS, FOLDER, ROOT, Agent, run
from tests.clients.conftest import Result
from tests.clients.gateway import Gateway, gateway_process
from tests.e2e.conftest import served_model
from tests.e2e.tiny_model import CHAT_TEMPLATE, SPECIALS, write_tiny_model

KEY = "the engine's key"
NOBODY = 65534
_PATIENCE = 600.0
_CONTEXT = 131072
_SURE = 40.0
_BEGIN = "<|im_assistant|>assistant<|im_middle|>"
_ENOUGH = "{%- if messages | selectattr('role', 'equalto', 'tool') | list | length > 1 -%}[BOS]{%- endif -%}"
_LIKELY = {**dict.fromkeys(SPECIALS, -12.0), "[EOS]": 4.0}
_FOLLOWS = {
    "<|im_middle|>": {"<|tool_calls_section_begin|>": _SURE},
    "<|tool_calls_section_begin|>": {"<|tool_call_begin|>": _SURE},
    **{digit: {"<|tool_call_argument_begin|>": _SURE} for digit in "0123456789"},
    "}": {"<|tool_call_end|>": _SURE},
    "<|tool_call_end|>": {"<|tool_calls_section_end|>": _SURE},
    "<|tool_calls_section_end|>": {"[EOS]": _SURE},
    "[BOS]": {"[EOS]": -_SURE},  # no empty answer
}


def _words() -> list[str]:
    """The words of our own pages: prompts of agents are long, and about the same things."""
    text = "".join([page.read_text("utf-8") for page in sorted((ROOT / "docs").glob("*.md"))])
    return [word for word, _ in Counter(re.findall(r"(?<= )[A-Za-z]+", text)).most_common(2000)]


@pytest.fixture(scope="module")
def engine_gateway(alone: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway before the engine."""
    if not alone:
        pytest.skip(
            "DID NOT RUN: a model that calls tools by chance is let loose only by root, on a network of its own"
        )
    if not all(folder.stat().st_mode & 0o001 for folder in (FOLDER, *FOLDER.parents)):
        pytest.skip("DID NOT RUN: nobody may enter the folder of the agents")
    folder = tmp_path_factory.mktemp("engine")
    template = CHAT_TEMPLATE.replace(_BEGIN + "{%- endif", f"{_BEGIN}{_ENOUGH}{{%- endif")
    assert template != CHAT_TEMPLATE
    model = write_tiny_model(
        folder / "caller.gguf",
        context=_CONTEXT,
        likely=_LIKELY,
        follows=_FOLLOWS,
        template=template,
        vocabulary=_words(),
    )
    with served_model(model, KEY) as engine:
        environment = {"LLAMACPP_BASE_URL": engine, "LLAMACPP_API_KEY": KEY}
        with gateway_process(folder, '[aliases]\nkimi-k2 = "llamacpp/kimi-k2"\n', environment) as running:
            yield running


@pytest.mark.parametrize("agent", AGENTS, ids=[agent.name for agent in AGENTS])
def test_a_real_engine(agent: Agent, engine_gateway: Gateway, results: list[Result]) -> None:
    if not agent.installed:
        pytest.skip(f"DID NOT RUN: {agent.name} is not installed")
    before = len(engine_gateway.requests())
    with tempfile.TemporaryDirectory(prefix="midstream-agent-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        home, work = folder / "home", folder / "work"
        home.mkdir()
        work.mkdir()
        ran = run(
            agent,
            "Do something.",
            url=engine_gateway.url,
            model="kimi-k2",
            home=home,
            work=work,
            patience=_PATIENCE,
            user=NOBODY,
        )
    answers = engine_gateway.requests()[before:]
    refused = [line for line in answers if line["status"] != 200]
    rounds = len([line for line in answers if line["status"] == 200]) - 1
    results.append(
        Result(agent.name, "llama.cpp, a real engine", rounds, len(answers), len(refused), "-", None, ran.seconds)
    )
    assert not refused, (refused, ran.output)
    assert rounds >= 1, ran.output
    assert ran.status == 0, ran.output
