"""What the documentation names is there: every path, every name in a module, every layer and package, every link."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, SimpleNamespace

import msgspec
import pytest

from midstream import Client, Conversation, Session, ToolSpec, Turn, decode_stream, human, tool_result, toolformats
from midstream.cli import (
    commands,  # noqa: F401  (registers the slash commands)
    slash,
)
from midstream.cli.slash import COMMANDS
from midstream.dialects import chat_hosts
from midstream.testing import Answer, Call, sim_server
from midstream.toolformats import registry

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "midstream"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WALKS = [ROOT / "docs" / "explanation" / name for name in ("an-answer-comes-in.md", "a-request-goes-out.md")]
RECIPES = ROOT / "docs" / "project" / "extending.md"
MAP = [ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md", RECIPES, *WALKS]
"""The pages that lead a reader through the source: everything they name is looked up."""
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
PATH = re.compile(r"(?P<path>[\w.-]+(?:/[\w.-]+)*(?:\.py|\.json|\.toml|\.md|/))(?:: (?P<name>\w+(?:\.\w+)*))?")
ELSEWHERE = {"config.toml", ".clients/results.md", "my_format.py", "MY_FORMAT", "ACME_API_KEY"}
"""The user's file, what a run writes, and the names of examples."""
DEFINED = set(
    re.findall(
        r"^\s*(?:class|def|async def) (\w+)|^(\w+)(?:: [^=\n]+)? = ",
        "\n".join(path.read_text("utf-8") for path in SOURCE.rglob("*.py")),
        re.M,
    )
)
NAMES = {name for pair in DEFINED for name in pair if name}


def spans(page: Path) -> list[str]:
    """What the page says in code: single back quotes, the fenced blocks left out."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text("utf-8"), flags=re.M | re.S)
    assert [line for line in text.splitlines() if line.count("`") % 2] == [], "a name is broken over two lines"
    return re.findall(r"`([^`\n]+)`", text)


def references(page: Path) -> list[tuple[str, str | None]]:
    found = [PATH.fullmatch(span) for span in spans(page)]
    return [(match["path"], match["name"]) for match in found if match]


def place(path: str) -> Path | None:
    """A path of the repository, or one below src/midstream."""
    return next((base / path for base in (ROOT, SOURCE) if (base / path).exists()), None)


@pytest.mark.parametrize("page", MAP, ids=lambda page: page.name)
def test_every_path_is_there(page: Path) -> None:
    found = references(page)
    assert len(found) >= 10
    assert [path for path, _ in found if place(path) is None and path not in ELSEWHERE] == []


@pytest.mark.parametrize("page", MAP, ids=lambda page: page.name)
def test_every_name_is_in_the_module_it_is_said_to_be_in(page: Path) -> None:
    missing: list[str] = []
    for path, name in references(page):
        if name is None or not path.endswith(".py") or not (SOURCE / path).exists():
            continue
        value: object = importlib.import_module("midstream." + path.removesuffix(".py").replace("/", "."))
        for part in name.split("."):
            value = getattr(value, part, None)
        if value is None:
            missing.append(f"{path}: {name}")
    assert missing == []


@pytest.mark.parametrize("page", MAP, ids=lambda page: page.name)
def test_every_class_and_constant_named_alone_is_defined_somewhere(page: Path) -> None:
    alone = [span for span in spans(page) if re.fullmatch(r"[A-Z]\w*(?:\.\w+)?", span) and place(span) is None]
    assert [span for span in alone if not NAMES.issuperset(span.split(".")[:1]) and span not in ELSEWHERE] == []


def test_what_the_changelog_calls_the_new_names_are_the_names() -> None:
    table = re.findall(r"^\| .* \| (.*) \|$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    found = [name for row in table for name in re.findall(r"`(midstream(?:\.\w+)+)`", row)]
    assert len(found) >= 10
    assert [name for name in found if not _resolves(name)] == []


COMING = (ROOT / "docs" / "coming-from" / "agents.md").read_text("utf-8")


@pytest.mark.parametrize("program", ["llxprt", "OpenClaw", "Colibri", "Alfred"])
def test_whoever_comes_from_another_program_finds_every_name(program: str) -> None:
    told = COMING.partition(f"## {program}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*) \| (.*) \|$", told, re.M)
    assert len(rows) >= 10 and len({theirs for theirs, _ in rows}) == len(rows)
    ours = [re.findall(r"`(midstream(?:\.\w+)+)`", here) for _, here in rows]
    assert [theirs for (theirs, _), names in zip(rows, ours, strict=True) if not names] == []
    assert [name for names in ours for name in names if not _resolves(name)] == []


def _resolves(name: str) -> bool:
    try:
        return pkgutil.resolve_name(name) is not None
    except (ImportError, AttributeError):
        return False


def read(page: Path) -> str:
    return page.read_text("utf-8")


def section(title: str) -> str:
    (found,) = [page for page in map(read, WALKS) if page.startswith(f"# {title}\n")]
    return found


def steps(title: str) -> list[tuple[str, str]]:
    """The functions in the second column of a walk."""
    rows = re.findall(r"^\| \d+ \| `([\w/]+\.py): ([\w.]+)` \|", section(title), re.M)
    assert len(rows) == 12
    return [(path, name) for path, name in rows if _is_function(path, name)]


def _is_function(path: str, name: str) -> bool:
    return callable(found := _look_up(path, name)) and not isinstance(found, type)


def _look_up(path: str, name: str) -> object:
    return pkgutil.resolve_name(f"midstream.{path.removesuffix('.py').replace('/', '.')}:{name}")


@contextmanager
def entered() -> Iterator[list[tuple[str, str]]]:
    """The functions of midstream in the order in which this thread enters them."""
    found: list[tuple[str, str]] = []

    def see(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(f"{SOURCE}/"):
            found.append((code.co_filename.removeprefix(f"{SOURCE}/"), code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        yield found
    finally:
        sys.setprofile(before)


def lost_at(walk: list[tuple[str, str]], seen: list[tuple[str, str]]) -> tuple[str, str] | None:
    """The first step of a walk that was not taken behind the one before it."""
    rest = iter(seen)
    return next((step for step in walk if step not in rest), None)


KIMI = "moonshot/kimi-k2.5"
CALLS = Answer("Let me look.", "Two at once.", (Call("read_file", {"path": "a"}), Call("read_file", {"path": "b"})))
TOOL = ToolSpec("read_file", "Read a file", {"type": "object", "properties": {"path": {"type": "string"}}})


def test_the_walks_are_taken_as_they_are_told() -> None:
    async def walk(client: Client) -> None:
        async with client, Session(KIMI, tools=[TOOL], client=client) as session:
            with entered() as seen:
                turn = await session.send("Read a and b")
            assert lost_at(steps("An answer comes in"), seen) is None
            await session.add(Turn("tool", tuple([tool_result(call, "x") for call in turn.tool_calls])))
            with entered() as seen:
                session.switch_model("anthropic/claude-sonnet-4-5")
                await session.send()
            assert lost_at(steps("A request goes out"), seen) is None

    with sim_server(CALLS, "Done.") as sim:
        asyncio.run(walk(sim.client()))
        sent = [block["id"] for block in sim.seen[1].body["messages"][1]["content"] if block["type"] == "tool_use"]
        assert len(set(sent)) == 2 and all(id.startswith("toolu_") for id in sent) and not sim.refused


def test_a_cut_stream_becomes_an_error_where_it_is_said_to() -> None:
    told = section("An answer comes in").partition("**If the stream is cut**")[2]
    named = [(path, name) for path, name in re.findall(r"`([\w/]+\.py): ([\w.]+)`", told) if _is_function(path, name)]
    assert len(named) >= 6

    async def walk(client: Client) -> list[Turn]:
        async with client, Session(KIMI, client=client) as session:
            await session.send("Hello")
            await session.send("Once more")
            return list(session.conversation.turns)

    with sim_server(faults=["cut"]) as sim, entered() as seen:
        lost = asyncio.run(walk(sim.client()))[1]
        *_, last = decode_stream(b'data: {"id": "1", "choices": [{"delta": {"content": "Hel"}}]}\n\n')
    assert lost.failure == last.turn.failure == "truncated"
    assert set(named) <= set(seen), set(named) - set(seen)


def recipe(opening: str) -> str:
    """The Python of a recipe in docs/project/extending.md, by the words it opens with."""
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", RECIPES.read_text("utf-8"), re.M | re.S)
    found = [textwrap.dedent(code) for _, code in blocks if code.strip().startswith(opening)]
    assert len(found) == 1
    return found[0]


def test_the_row_of_the_recipe_is_a_provider() -> None:
    row = eval(recipe("_host").strip().removesuffix(","), vars(chat_hosts))
    assert row.name == "acme" and row.dialect_for("any-model").wire == "openai-chat"


def test_the_text_format_of_the_recipe_reads_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    scope: dict[str, object] = {}
    for module in pkgutil.iter_modules(toolformats.__path__, "midstream.toolformats."):
        scope.update(vars(importlib.import_module(module.name)))
    scope |= {"_CALLS": "<calls>", "declare": None, "render_calls": None, "render_result": None}
    exec(recipe("def script"), scope)
    monkeypatch.setattr(registry, "text_format", lambda name: scope[name.upper().replace("-", "_")])
    text = (
        'Look: <calls>[{"name": "now", "arguments": {}}] and <calls> is a marker, `<calls>[]` too.\n\n<calls>[{"name"'
    )
    for portions in ([text], list(text)):
        filter = registry.get_filter("my-format")
        found = [msgspec.to_builtins(each) for portion in portions for each in filter.feed(portion)]
        found += [msgspec.to_builtins(each) for each in filter.close()]
        said = "".join([each["text"] for each in found if each["type"] == "text"])
        assert said == "Look:  and <calls> is a marker, `<calls>[]` too.\n\n"
        assert [each["name"] for each in found if each["type"] == "call"] == ["now"]
        assert found[-1]["type"] == "problem"


def test_the_slash_command_of_the_recipe_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slash, "COMMANDS", [])
    exec(recipe("@command"), dict(vars(slash)))
    (command,) = slash.COMMANDS
    notices: list[str] = []
    chat = SimpleNamespace(
        view=SimpleNamespace(notice=notices.append),
        session=SimpleNamespace(conversation=Conversation((human("Hello"),))),
    )
    asyncio.run(command.run(chat, ""))
    assert command.usage == "/count" and notices == ["turns: 1"]


def test_the_example_of_the_doubles_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "doubles.md").read_text("utf-8")
    files = re.findall(r"^`(\w+\.py)`:\n\n```python\n(.*?)^```", page, re.M | re.S)
    assert [name for name, _ in files] == ["conftest.py", "test_my_program.py"]
    for name, code in files:
        (tmp_path / name).write_text(code, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert "3 passed" in done.stdout, done.stdout


def test_the_picture_shows_the_layers_as_the_linter_checks_them() -> None:
    picture = re.search(r"^ {4}cli .*?(?=```)", MAP[0].read_text("utf-8"), re.M | re.S)
    assert picture is not None
    rows = [re.split(r" {2,}", line.strip())[0] for line in picture[0].splitlines()]
    drawn = [{name.strip(" *") for name in row.split("|")} for row in rows]
    starred = {name.strip(" *") for row in rows for name in row.split("|") if "*" in name}
    layers, pure = PROJECT["tool"]["importlinter"]["contracts"][:2]
    linted = [{name.strip(" ()") for name in layer.split("|")} for layer in layers["layers"]]
    there = [{name for name in layer if (SOURCE / name).is_dir()} for layer in linted]
    assert drawn == [layer for layer in there if layer]
    assert starred == {name.removeprefix("midstream.") for name in pure["source_modules"]}


def test_every_package_has_its_line() -> None:
    rows = re.findall(r"^\| `(\w+)/` \|", MAP[0].read_text("utf-8"), re.M)
    packages = [path.parent.name for path in SOURCE.glob("*/__init__.py")]
    assert sorted(rows) == sorted(packages)


def test_every_room_of_every_wire_is_explained() -> None:
    """A module that two wires have is a room, and a room has a line here."""
    modules = [path.stem for path in (SOURCE / "wires").glob("*/*.py") if path.stem != "__init__"]
    wires = len(list((SOURCE / "wires").glob("*/__init__.py")))
    rooms = {name for name in modules if modules.count(name) >= wires - 1}
    assert rooms >= {"shapes", "encode", "decode", "parse", "wire"}
    for page in (MAP[0], RECIPES):
        said = set(spans(page))
        assert {room for room in rooms if room not in said and f"{room}.py" not in said} == set(), page.name


def test_every_page_is_reachable_from_the_readme() -> None:
    seen: set[Path] = set()
    due = [ROOT / "README.md"]
    while due:
        page = due.pop().resolve()
        if page in seen or not page.exists():
            continue
        seen.add(page)
        if page.is_dir():
            due += page.glob("*.md")
        elif page.suffix == ".md":
            due += [page.parent / link for link in re.findall(r"\]\(([^)#\s:]+)[^)]*\)", page.read_text("utf-8"))]
    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in seen] == []


@pytest.mark.parametrize("name", ["README.md", "docs/architecture.md"])
def test_every_slash_command_exists(name: str) -> None:
    known = {f"/{command.name}" for command in COMMANDS}
    said = set(re.findall(r"`(/[a-z]+)(?: [^`]*)?`", (ROOT / name).read_text("utf-8")))
    assert said <= known, said - known
