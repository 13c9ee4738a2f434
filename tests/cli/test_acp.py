"""`midstream acp`, driven by the protocol's official client library as an editor would: a whole session over a real pipe."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from acp import PROTOCOL_VERSION, RequestError, run_agent, spawn_agent_process, text_block
from acp.client.connection import ClientSideConnection
from acp.helpers import embedded_text_resource, image_block, resource_block, resource_link_block
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    EnvVariable,
    FileSystemCapabilities,
    HttpHeader,
    HttpMcpServer,
    McpServerStdio,
    ReadTextFileResponse,
    RequestPermissionResponse,
    SseMcpServer,
    WriteTextFileResponse,
)

from midstream.agent.mcp.offer import canonical_name
from midstream.cli.acp_agent import EditorAgent
from midstream.cli.acp_session import _servers
from midstream.cli.editor_chat import COMMANDS
from midstream.cli.options import TOOLS, Settings
from midstream.cli.slash import COMMANDS as ALL
from midstream.core.errors import LocalError
from midstream.store import SqliteStore
from tests.agent.mcp.servers import SCRIPT, TINY, processes_with
from tests.agent.unprivileged_bash import living

MODEL = "sim/kimi-k2.5"
WRITE = "Call write_file with path 'made.txt' and content 'by an editor'"
EDIT = "Call edit_file with path 'notes.txt' and old_string 'milk' and new_string 'bread'"


class Editor:
    """A client that records what it is shown, answers questions as it is told, and may have files open."""

    def __init__(self, answer: str = "once", files: dict[str, str] | None = None) -> None:
        self.answer = answer
        self.files = files
        self.updates: list[Any] = []
        self.asked: list[Any] = []
        self.happened = asyncio.Condition()

    def on_connect(self, conn: Any) -> None: ...

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        async with self.happened:
            self.happened.notify_all()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **_: Any
    ) -> RequestPermissionResponse:
        self.asked.append((tool_call, [each.option_id for each in options]))
        async with self.happened:
            self.happened.notify_all()
        if self.answer == "never":
            await asyncio.Event().wait()
        if self.answer == "cancel":
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=self.answer))

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> ReadTextFileResponse:
        if self.files is None or path not in self.files:
            raise RequestError(-32002, "not open here")
        return ReadTextFileResponse(content=self.files[path])

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> WriteTextFileResponse:
        assert self.files is not None
        self.files[path] = content
        return WriteTextFileResponse()

    def kinds(self) -> list[str]:
        return [each.session_update for each in self.updates]

    def said(self, kind: str = "agent_message_chunk") -> str:
        return "".join([each.content.text for each in self.updates if each.session_update == kind])

    def calls(self) -> list[Any]:
        return [each for each in self.updates if each.session_update.startswith("tool_call")]

    def commands(self) -> list[str]:
        """The commands that it was told of last."""
        told = [each for each in self.updates if each.session_update == "available_commands_update"]
        return [each.name for each in told[-1].available_commands] if told else []

    async def until(self, kind: str) -> None:
        async with self.happened:
            await self.happened.wait_for(lambda: kind in self.kinds())


@asynccontextmanager
async def running(editor: Editor) -> AsyncIterator[ClientSideConnection]:
    """The agent in this process, at the other end of a socket."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    agent_reader, agent_writer = await asyncio.open_connection(sock=theirs)
    agent = EditorAgent(Settings(model=MODEL, tools=TOOLS, is_chat=True))
    serving = asyncio.create_task(run_agent(agent, agent_writer, agent_reader, use_unstable_protocol=True))  # type: ignore[arg-type]
    connection = ClientSideConnection(editor, writer, reader, use_unstable_protocol=True)  # type: ignore[arg-type]
    try:
        await begun(connection, editor)
        yield connection
    finally:
        await connection.close()
        await agent.close()
        for each in (writer, agent_writer):
            each.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@asynccontextmanager
async def started(editor: Editor) -> AsyncIterator[ClientSideConnection]:
    """The agent as an editor starts it."""
    environ = {**os.environ, "MIDSTREAM_SIM_DELAY": "0"}
    command = [sys.executable, "-m", "midstream.cli.main", "acp", "-m", MODEL]
    async with spawn_agent_process(editor, *command, env=environ, use_unstable_protocol=True) as (agent, _):  # type: ignore[arg-type]
        await begun(agent, editor)
        yield agent


async def begun(agent: ClientSideConnection, editor: Editor) -> None:
    can = ClientCapabilities()
    if editor.files is not None:
        can = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True, write_text_file=True))
    answer = await agent.initialize(protocol_version=PROTOCOL_VERSION, client_capabilities=can)
    assert answer.agent_info is not None and answer.agent_info.name == "midstream"
    assert answer.agent_capabilities is not None and answer.agent_capabilities.load_session


def here() -> str:
    return str(Path.cwd())


def test_a_whole_session_with_approval_switch_and_cancel(home: Path) -> None:
    async def main() -> str:
        editor = Editor()
        async with started(editor) as agent:
            session = await agent.new_session(cwd=here(), mcp_servers=[])
            assert session.config_options is not None
            model = session.config_options[0]
            assert (model.id, model.category, model.current_value) == ("model", "model", MODEL)
            await editor.until("available_commands_update")
            # Approval, with the diff before and after it.
            done = await agent.prompt(session_id=session.session_id, prompt=[text_block(EDIT)])
            assert done.stop_reason == "end_turn" and done.usage is not None and done.usage.output_tokens > 0
            ((asked, options),) = editor.asked
            assert options == ["once", "always", "no"] and asked.kind == "edit"
            (diff,) = asked.content
            assert (diff.path, diff.old_text, diff.new_text) == (f"{here()}/notes.txt", "buy milk\n", "buy bread\n")
            start, *steps = editor.calls()
            assert start.status == "pending" and start.locations[0].path == f"{here()}/notes.txt"
            assert start.tool_call_id == asked.tool_call_id and steps[-1].status == "completed"
            assert any(each.content and each.content[0].type == "diff" for each in steps)
            assert "edit_file says: edited notes.txt" in editor.said()
            assert "I will call edit_file" in editor.said("agent_thought_chunk")
            # Another model goes on with it, and the user is told what it sees.
            switched = await agent.set_config_option(
                config_id="model", session_id=session.session_id, value="sim/claude-sonnet-4-5"
            )
            assert switched is not None and switched.config_options[0].current_value == "sim/claude-sonnet-4-5"
            assert "reasoning belongs to kimi-k2.5" in editor.said("agent_thought_chunk")
            await agent.prompt(session_id=session.session_id, prompt=[text_block("Who are you?")])
            assert "This is claude-sonnet-4-5" in editor.said()
            # A command that runs is stopped, and the answer says so.
            editor.updates.clear()
            asking = asyncio.create_task(
                agent.prompt(session_id=session.session_id, prompt=[text_block("Call bash with command 'sleep 77.77'")])
            )
            async with editor.happened:
                await editor.happened.wait_for(lambda: any(each.status == "in_progress" for each in editor.calls()))
                # Asked about by now, and running.
                await editor.happened.wait_for(lambda: len(editor.asked) == 2)
            await agent.cancel(session_id=session.session_id)
            assert (await asking).stop_reason == "cancelled"
            # The history is sound all the same: the next answer comes.
            assert (
                await agent.prompt(session_id=session.session_id, prompt=[text_block("Hello")])
            ).stop_reason == "end_turn"
            return str(session.session_id)

    session_id = asyncio.run(main())
    assert Path("notes.txt").read_text() == "buy bread\n"
    assert not living("77.77")
    store = SqliteStore(home / "conversations.db")
    conversation = store.load(session_id)
    store.close()
    assert [turn.speaker for turn in conversation.turns][:4] == ["human", "ai", "tool", "ai"]
    assert "interrupted" in conversation.turns[-3].blocks[0].text  # type: ignore[union-attr]


def test_a_stored_session_is_listed_loaded_and_replayed(home: Path) -> None:
    async def main() -> None:
        editor = Editor()
        async with running(editor) as agent:
            session = await agent.new_session(cwd=here(), mcp_servers=[])
            await agent.prompt(session_id=session.session_id, prompt=[text_block(WRITE)])
            await agent.set_config_option(
                config_id="model", session_id=session.session_id, value="sim/gemini-2.5-flash"
            )
            await agent.prompt(session_id=session.session_id, prompt=[text_block("Thanks")])
        again = Editor()
        async with running(again) as agent:
            listed = await agent.list_sessions(cwd=here())
            assert [each.session_id for each in listed.sessions] == [session.session_id]
            assert listed.sessions[0].cwd == here() and "write_file" in (listed.sessions[0].title or "")
            assert not (await agent.list_sessions(cwd="/somewhere/else")).sessions
            loaded = await agent.load_session(cwd=here(), session_id=session.session_id, mcp_servers=[])
            assert loaded is not None and loaded.config_options is not None
            assert loaded.config_options[0].current_value == "sim/gemini-2.5-flash"
            assert again.said("user_message_chunk").startswith("Call write_file")
            assert "write_file says: created made.txt" in again.said() and again.calls()[-1].status == "completed"
            # In the order in which it happened: a thought comes before what was said after it.
            shown = [kind for kind in again.kinds() if kind != "available_commands_update"]
            assert shown[:5] == [
                "user_message_chunk", "agent_thought_chunk", "agent_message_chunk", "tool_call", "tool_call_update",
            ]  # fmt: skip
            again.updates.clear()
            await agent.prompt(session_id=session.session_id, prompt=[text_block("Still there?")])
            assert "This is gemini-2.5-flash" in again.said()
            resumed = await agent.resume_session(cwd=here(), session_id=session.session_id, mcp_servers=[])
            assert resumed.config_options is not None
            with pytest.raises(RequestError, match="no conversation id starts with"):
                await agent.load_session(cwd=here(), session_id="beefbeef", mcp_servers=[])

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "calls", "questions", "written"),
    [("once", 2, 2, True), ("always", 2, 1, True), ("no", 1, 1, False), ("cancel", 1, 1, False)],
)
def test_answers_to_a_question(home: Path, answer: str, calls: int, questions: int, written: bool) -> None:
    async def main() -> Editor:
        editor = Editor(answer)
        async with running(editor) as agent:
            session = await agent.new_session(cwd=here(), mcp_servers=[])
            for number in range(calls):
                await agent.prompt(
                    session_id=session.session_id, prompt=[text_block(WRITE.replace("made", f"made{number}"))]
                )
        return editor

    editor = asyncio.run(main())
    assert len(editor.asked) == questions and Path("made0.txt").exists() is written
    if not written:
        assert "not allowed, nothing was run" in editor.said() and editor.calls()[-1].status == "failed"


def test_files_that_are_open_in_the_editor(home: Path) -> None:
    """Unsaved text is what the model reads and edits, and the editor writes."""
    path = f"{here()}/notes.txt"

    async def main() -> Editor:
        editor = Editor(files={path: "buy milk and honey\n"})
        async with running(editor) as agent:
            session = await agent.new_session(cwd=here(), mcp_servers=[])
            asked = f"Call read_file with path 'notes.txt', then {EDIT[0].lower()}{EDIT[1:]}, then {WRITE[0].lower()}{WRITE[1:]}"
            await agent.prompt(session_id=session.session_id, prompt=[text_block(asked)])
        return editor

    editor = asyncio.run(main())
    assert "read_file says: buy milk and honey" in editor.said()
    assert editor.files == {path: "buy bread and honey\n", f"{here()}/made.txt": "by an editor"}
    assert Path("notes.txt").read_text() == "buy milk\n"
    assert editor.asked[0][0].content[0].old_text == "buy milk and honey\n"


def test_what_a_message_takes_along(home: Path) -> None:
    embedded, linked = (Path(name).absolute().as_uri() for name in ("a b.txt", "it's c#d.txt"))

    async def main() -> Editor:
        editor = Editor()
        async with running(editor) as agent:
            session = await agent.new_session(cwd=here(), mcp_servers=[])
            prompt = [
                text_block("What do you see?"),
                image_block(TINY, "image/png"),
                resource_block(embedded_text_resource(embedded, "the words of a b")),
                resource_link_block("c", linked),
                resource_link_block("e", "https://pages.example/e?f=g"),
            ]
            await agent.prompt(session_id=session.session_id, prompt=prompt)
        return editor

    assert asyncio.run(main()).said()
    store = SqliteStore(home / "conversations.db")
    (first, *_) = store.load(store.list(1)[0].id).turns
    store.close()
    assert f"[attached file: {here()}/a b.txt]" in first.text and "the words of a b" in first.text
    assert f'@"{here()}/it\'s c#d.txt"' in first.text and "@https://pages.example/e?f=g" in first.text
    assert [block.mime for block in first.blocks if hasattr(block, "mime")] == ["image/png"]


def test_servers_that_the_editor_names_and_their_prompts(home: Path) -> None:
    async def main() -> Editor:
        editor = Editor()
        async with running(editor) as agent:
            toy = McpServerStdio(
                name="The Toy",
                command=sys.executable,
                args=["-I", "-S", SCRIPT],
                env=[EnvVariable(name="A", value="b")],
            )
            session = await agent.new_session(cwd=here(), mcp_servers=[toy])
            # The editor hears of its prompts when it has started, before anything was asked.
            async with editor.happened:
                await editor.happened.wait_for(lambda: "mcp__The-Toy__review" in editor.commands())
            asked = "Call mcp__The-Toy__echo with text 'by an editor'"
            await agent.prompt(session_id=session.session_id, prompt=[text_block(asked)])
            await agent.prompt(session_id=session.session_id, prompt=[text_block("/mcp__The-Toy__review 'it all'")])
            await agent.prompt(session_id=session.session_id, prompt=[text_block("/mcp")])
        return editor

    editor = asyncio.run(main())
    assert "mcp__The-Toy__echo says: by an editor" in editor.said() and len(editor.asked) == 1
    assert "You said: Please review it all." in editor.said()
    assert "The-Toy: ready · 8 tools" in editor.said()


def test_every_kind_of_server_that_an_editor_may_name() -> None:
    """Its values are what they are: the editor has put its own variables in by now."""
    remote = HttpMcpServer(
        type="http", name="far", url="https://far.example/mcp", headers=[HttpHeader(name="X-Key", value="a${B}c")]
    )
    local = McpServerStdio(name="a b", command="run", args=["$${X}"], env=[EnvVariable(name="E", value="${X}")])
    far, near = [each.filled({}.get) for each in _servers([remote, local], Path("/srv/project"))]
    assert (far.url, far.headers, far.name) == ("https://far.example/mcp", {"X-Key": "a${B}c"}, "far")
    assert (near.argv, near.env, near.cwd, near.name) == (("run", "$${X}"), {"E": "${X}"}, "/srv/project", "a-b")
    with pytest.raises(LocalError, match="only stdio and http servers"):
        _servers([SseMcpServer(type="sse", name="old", url="https://old.example/sse", headers=[])], Path("/srv"))


def test_progress_of_a_server_s_tool_is_shown(home: Path) -> None:
    async def main() -> Editor:
        editor = Editor()
        async with running(editor) as agent:
            toy = McpServerStdio(name="toy", command=sys.executable, args=["-I", "-S", SCRIPT], env=[])
            session = await agent.new_session(cwd=here(), mcp_servers=[toy])
            asked = f"Call {canonical_name('toy', 'slow.work')} with x 1"
            await agent.prompt(session_id=session.session_id, prompt=[text_block(asked)])
        return editor

    calls = asyncio.run(main()).calls()
    told = [each.content[0].content.text for each in calls if each.status == "in_progress" and each.content]
    assert told == [f"{step} of 8: step {step}" for step in range(1, 9)] and calls[-1].status == "completed"


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("in the middle of a text", "Tell me " + "a long story " * 200),
        ("while it is asked", WRITE),
        ("while a command runs", "Call bash with command 'sleep 600'"),
    ],
)
def test_an_answer_is_cancelled(home: Path, monkeypatch: pytest.MonkeyPatch, when: str, said: str) -> None:
    """What has arrived is kept, nothing runs, every call has ended for the editor, and the next message is answered."""
    asks, talks = when == "while it is asked", when == "in the middle of a text"
    monkeypatch.setenv("MIDSTREAM_SIM_DELAY", "0.05" if talks else "0")

    def reached(editor: Editor) -> bool:
        if asks or talks:
            return bool(editor.asked if asks else editor.said())
        return any(each.status == "in_progress" for each in editor.calls()) and bool(editor.asked)

    async def main() -> None:
        editor = Editor("never" if asks else "once")
        async with running(editor) as agent:
            session = await agent.new_session(cwd=here(), mcp_servers=[])
            asking = asyncio.create_task(agent.prompt(session_id=session.session_id, prompt=[text_block(said)]))
            async with editor.happened:
                await editor.happened.wait_for(lambda: reached(editor))
            await agent.cancel(session_id=session.session_id)
            assert (await asking).stop_reason == "cancelled"
            assert len(editor.said()) < 1000
            statuses = {each.tool_call_id: each.status for each in editor.calls()}
            assert list(statuses.values()) == ([] if talks else ["failed"])
            monkeypatch.setenv("MIDSTREAM_SIM_DELAY", "0")
            again = await agent.prompt(session_id=session.session_id, prompt=[text_block("Hello")])
            assert again.stop_reason == "end_turn"

    asyncio.run(main())
    assert not Path("made.txt").exists()


def test_it_ends_without_a_word_when_the_editor_closes_it(home: Path) -> None:
    command = [sys.executable, "-m", "midstream.cli.main", "acp", "-m", MODEL]
    done = subprocess.run(command, input=b"", capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("end", ["closes our input", "kills us"])
def test_nothing_is_left_when_the_editor_goes_away(home: Path, end: str) -> None:
    mark = secrets.token_hex(8)

    async def main() -> None:
        editor = Editor()
        environ = {**os.environ, "MIDSTREAM_SIM_DELAY": "0", "MIDSTREAM_TEST_EDITOR": mark}
        command = [sys.executable, "-m", "midstream.cli.main", "acp", "-m", MODEL]
        async with spawn_agent_process(editor, *command, env=environ, use_unstable_protocol=True) as (agent, process):  # type: ignore[arg-type]
            await begun(agent, editor)
            session = await agent.new_session(cwd=here(), mcp_servers=[])
            asked = "Call bash with command 'sleep 600'"
            asking = asyncio.create_task(agent.prompt(session_id=session.session_id, prompt=[text_block(asked)]))
            # Only root sees the variables of `midstream` itself, which hides its memory while a command runs.
            while not {*processes_with(f"MIDSTREAM_TEST_EDITOR={mark}", seconds=0)} - {process.pid}:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            if end == "kills us":
                process.kill()
            else:
                assert process.stdin is not None
                process.stdin.close()
            await process.wait()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(main())
    assert not processes_with(f"MIDSTREAM_TEST_EDITOR={mark}")


def test_every_command_that_is_offered_works(home: Path) -> None:
    async def main() -> tuple[Editor, list[str]]:
        editor = Editor()
        async with running(editor) as agent:
            session = await agent.new_session(cwd=here(), mcp_servers=[])
            await editor.until("available_commands_update")
            offered = editor.commands()
            for name in offered:
                await agent.prompt(session_id=session.session_id, prompt=[text_block(f"/{name}")])
            with pytest.raises(RequestError, match="unknown model"):
                await agent.prompt(session_id=session.session_id, prompt=[text_block("/model nobody/x")])
            await agent.prompt(session_id=session.session_id, prompt=[text_block("/model sim/gpt-4o")])
            # What is no command of ours is for the model.
            await agent.prompt(session_id=session.session_id, prompt=[text_block("/etc/hosts has what?")])
        return editor, offered

    editor, offered = asyncio.run(main())
    assert offered == [each.name for each in COMMANDS] and {each.name for each in COMMANDS} <= {
        each.name for each in ALL
    }
    assert "model: sim/gpt-4o" in editor.said() and "config_option_update" in editor.kinds()
    assert "You said: /etc/hosts has what?" in editor.said()


REFUSED = [
    ("prompt", {"session_id": "none", "prompt": [text_block("x")]}, "no session 'none' is open"),
    ("set_config_option", {"session_id": "none", "config_id": "model", "value": "x"}, "no session 'none' is open"),
    ("new_session", {"cwd": "relative", "mcp_servers": []}, "absolute path of a folder"),
    ("new_session", {"cwd": "/no/such/folder", "mcp_servers": []}, "absolute path of a folder"),
]


def test_requests_that_cannot_be_done_are_errors_with_words(home: Path) -> None:
    async def main() -> None:
        editor = Editor()
        async with running(editor) as agent:
            for method, arguments, words in REFUSED:
                with pytest.raises(RequestError, match=words):
                    await getattr(agent, method)(**arguments)
            session = await agent.new_session(cwd=here(), mcp_servers=[])
            for config_id, value, words in (("model", "moonshot/kimi-k2.5", "no key"), ("nothing", "x", "no option")):
                with pytest.raises(RequestError, match=words):
                    await agent.set_config_option(config_id=config_id, session_id=session.session_id, value=value)

    asyncio.run(main())


def test_the_library_is_not_loaded_by_other_commands(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "midstream.cli.main", "ask", "-m", MODEL, "Hello"],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert not loaded & {"acp", "mcp", "mcp_types", "pydantic", "anyio", "midstream.agent.mcp"}
