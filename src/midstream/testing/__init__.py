"""For your tests: the strict doubles in a thread, answers you write yourself, and checks of a host of your own.

    with sim_server("Hello!", Answer(calls=(Call("get_time", {}),))) as sim:
        session = Session("openai/gpt-4o", client=sim.client())

Nothing here requires pytest; `pytest_plugins = ["midstream.testing.pytest_plugin"]` gives a `sim` fixture.
"""

from ..sim.answer import Answer, Call
from .agent_script import AgentScript, CallTool, ReadFile, RunCommand, WriteFile
from .conformance import CHECKS, Check, Outcome, Report, check_host, conformance
from .server import ScriptedModel, SimServer, sim_server

__all__ = [
    "CHECKS",
    "AgentScript",
    "Answer",
    "Call",
    "CallTool",
    "Check",
    "Outcome",
    "ReadFile",
    "Report",
    "RunCommand",
    "ScriptedModel",
    "SimServer",
    "WriteFile",
    "check_host",
    "conformance",
    "sim_server",
]
