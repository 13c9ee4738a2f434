"""Every sentence of the README that can be run is run: the ten lines, the first thing to try, the figures, the links.

`python -m tests.test_readme` writes the figures anew, when there is a provider, a dialect or a wire more.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from midstream.cli.main import COMMANDS
from midstream.cli.sim import _best_known
from midstream.dialects.registry import REGISTRY
from midstream.doctor import SCENES
from midstream.testing import sim_server
from midstream.wires.registry import WIRES

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README, re.S)
    assert found is not None
    return found[1]


def test_the_ten_lines_run_on_the_doubles(tmp_path: Path) -> None:
    code = block("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    with sim_server() as sim:
        environ = {
            **os.environ,
            "MOONSHOT_BASE_URL": sim.base_url("moonshot"),
            "ANTHROPIC_BASE_URL": sim.base_url("anthropic"),
            "MIDSTREAM_HOME": str(tmp_path),
        }
        for name in ("MOONSHOT_API_BASE", "MOONSHOT_API_KEY", "KIMI_API_KEY", "ANTHROPIC_API_KEY"):
            environ.pop(name, None)
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code], env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("This is kimi-k2.5. You said: Why is the sky blue?")
        assert "dropped: thinking" in done.stdout and "You said: And at sunset?" in done.stdout
        assert sim.requests == 2 and not sim.refused


FIGURES = (
    r"\d+ hand-offs,\s+\d+ x \d+\s+dialects,\s+\d+ refused",
    r"\d+ providers by name,\s+\d+ dialects on \d+ wires",
)


def figures() -> tuple[str, str]:
    """What the README has to say about what there is. That `midstream sim matrix` says this of the hand-offs, with none refused, is
    a test in tests/cli/test_sim.py."""
    known = len(_best_known())
    handed_over = f"{known**2 * len(SCENES)} hand-offs, {known} x {known} dialects, 0 refused"
    providers, dialects = len(REGISTRY.providers), len(REGISTRY.dialects())
    return handed_over, f"{providers} providers by name, {dialects} dialects on {len(WIRES)} wires"


def test_the_figures_are_the_codes() -> None:
    said = [re.search(pattern, README) for pattern in FIGURES]
    told = tuple([" ".join(found[0].split()) for found in said if found])
    assert told == figures(), "python -m tests.test_readme writes them"


def test_what_is_said_about_installing_is_so() -> None:
    extras = re.findall(r"'\.\[(\w+)\]'", README)
    assert len(extras) >= 3 and set(extras) == set(PROJECT["optional-dependencies"])
    said = re.search(r"The extra `chat` brings [^(]*\(([^)]*)\).*? itself needs ([^.]*)\.", README, re.S)
    assert said is not None
    for words, wanted in zip(
        said.groups(), (PROJECT["optional-dependencies"]["chat"], PROJECT["dependencies"]), strict=True
    ):
        assert re.findall(r"[a-z_]{4,}", words) == [re.split(r"\W", each)[0] for each in wanted]
    assert f"Python {PROJECT['requires-python'].removeprefix('>=')} or newer" in README


def test_the_page_on_installing_has_every_extra_and_what_it_brings() -> None:
    page = (ROOT / "docs" / "start" / "install.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", page, re.M))
    assert set(rows) == set(PROJECT["optional-dependencies"])
    for extra, wanted in PROJECT["optional-dependencies"].items():
        assert [each for each in wanted if re.split(r"[^\w-]", each)[0] not in rows[extra]] == []


def test_the_first_thing_to_try_works(tmp_path: Path) -> None:
    said = re.search(r"^\$ midstream (chat -m sim/\S+)$", README, re.M)
    switch = re.search(r"`(/model sim/\S+)`", README)
    assert said is not None and switch is not None
    done = subprocess.run(
        [sys.executable, "-m", "midstream.cli.main", *said[1].split()],
        input=f"hello\n{switch[1]}\nand now?\n",
        env={**os.environ, "MIDSTREAM_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "You said: hello" in done.stdout and "You said: and now?" in done.stdout
    assert "dropped: thinking" in done.stderr


def test_every_command_and_link_is_there() -> None:
    for name in re.findall(r"(?:`|^\$ )midstream (\w+)", README, re.M):
        assert name in COMMANDS, name
    for target in re.findall(r"make (\w+) {2,}#", README):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.M), target
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) >= 5
    for link in links:
        assert (ROOT / link).exists(), link


def test_import_is_light() -> None:
    code = "import sys, midstream; sys.exit(bool({'asyncio', 'rich', 'click'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


if __name__ == "__main__":
    text = README
    for pattern, figure in zip(FIGURES, figures(), strict=True):
        text = re.sub(pattern, figure, text)
    (ROOT / "README.md").write_text(text, "utf-8")
