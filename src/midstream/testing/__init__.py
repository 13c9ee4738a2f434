"""For your tests: the strict doubles in a thread, answers you write yourself, and checks of a host of your own.

    with sim_server("Hello!", Answer(calls=(Call("get_time", {}),))) as sim:
        session = Session("openai/gpt-4o", client=sim.client())

`record_server` and `replay_server` do the same for programs in other languages, with a host's own answers. Nothing here requires
pytest; `pytest_plugins = ["midstream.testing.pytest_plugin"]` gives the fixtures `sim` and `cassette`.
"""

from ..doctor.recorded_answer import read_recording
from ..sim.answer import Answer, Call
from .agent_script import AgentScript, CallTool, ReadFile, RunCommand, WriteFile
from .conformance import CHECKS, Check, Outcome, Report, check_host, conformance
from .recording_server import RecordServer, ReplayServer, record_server, replay_server
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
    "RecordServer",
    "ReplayServer",
    "Report",
    "RunCommand",
    "ScriptedModel",
    "SimServer",
    "WriteFile",
    "check_host",
    "conformance",
    "read_recording",
    "record_server",
    "replay_server",
    "sim_server",
]
