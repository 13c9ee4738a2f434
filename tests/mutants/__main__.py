"""`python -m tests.mutants`: draw a sample of mutants, run for each the tests that reach its line, list those that survive.

First the whole suite runs once, to learn which tests reach which lines (kept in `.mutants/`; `--learn` does it again). Then each mutant is
written into a copy of the source, and the quickest tests that reach it run until one fails. A mutant counts as noticed if a test fails, or if
the tests take several times as long as they should. Survivors that are known to mean the same are listed with a reason in
`tests/data/mutants.toml`, by their line's text.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
import tomllib
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import coverage

from .points import Mutant, mutants
from .reached import FOLDER

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".mutants"
PACKAGES = ("core", "wires", "transport", "agent", "store", "client")
BUDGET = 25.0
"""Seconds of tests for one mutant, as they took when they were timed; the quickest go first."""
GOAL = 92.0


class Map:
    """Which test functions reach a line, and how long each takes."""

    def __init__(self, folder: Path) -> None:
        self.seconds: dict[str, float] = {}
        for path in folder.glob("seconds.*"):
            for line in path.read_text("utf-8").splitlines():
                seconds, _, function = line.partition(" ")
                self.seconds[function] = self.seconds.get(function, 0.0) + float(seconds)
        self._lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for path in folder.glob("reached.*"):
            data = coverage.CoverageData(str(path))
            data.read()
            for file in data.measured_files():
                name = str(Path(file).relative_to(ROOT))
                for line, contexts in data.contexts_by_lineno(file).items():
                    self._lines[name][line].update([each for each in contexts if each])

    def tests(self, mutant: Mutant) -> list[str]:
        lines = self._lines.get(mutant.path, {})
        found = lines.get(mutant.line) or set()
        if not found:  # reached only when the module is loaded, or in another process: whoever reaches the module
            found = set().union(*lines.values()) if lines else set()
        chosen, spent = [], 0.0
        for function in sorted(found, key=lambda each: self.seconds.get(each, 1.0)):
            spent += self.seconds.get(function, 1.0)
            if chosen and spent > BUDGET:
                break
            chosen.append(function)
        return chosen


def learn(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print("mutants: running the whole suite once, to learn which tests reach which lines …", flush=True)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "auto", "-p", "tests.mutants.reached", "--no-header", "tests"],
        cwd=ROOT, env={**os.environ, FOLDER: str(folder)}, check=False,
    )  # fmt: skip


def sample(count: int, seed: int) -> list[Mutant]:
    """The same number of each package, as far as they have so many."""
    drawn: list[Mutant] = []
    roll = random.Random(seed)
    for place, package in enumerate(PACKAGES):
        share = count // len(PACKAGES) + (place < count % len(PACKAGES))
        found = [
            make
            for path in sorted((ROOT / "src" / "midstream" / package).rglob("*.py"))
            for make in mutants(path, ROOT)
        ]
        drawn += [make() for make in roll.sample(found, min(share, len(found)))]
    return drawn


def copy_of_the_source(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", folder / "src", ignore=ignore)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=ignore)
    for name in (
        "pyproject.toml",
        "docs",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "Makefile",
        "examples",
        "benchmarks",
    ):
        if (ROOT / name).exists():
            (folder / name).symlink_to(ROOT / name)
    shared = ROOT.parent / "shared"
    if shared.is_dir() and not (folder.parent / "shared").exists():
        (folder.parent / "shared").symlink_to(shared)


def noticed(mutant: Mutant, tests: list[str], folder: Path) -> str:
    """The first line of who noticed it; nothing if nobody did."""
    if not tests:
        return ""
    target = folder / mutant.path
    kept = target.read_text("utf-8")
    target.write_text(mutant.source, "utf-8")
    environ = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--tb=no", *tests],
            cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=4 * BUDGET + 60,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "took too long"
    finally:
        target.write_text(kept, "utf-8")
    if done.returncode == 0:
        return ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else f"pytest ended with {done.returncode}"


def known() -> dict[tuple[str, str, str], str]:
    path = ROOT / "tests" / "data" / "mutants.toml"
    rows = tomllib.loads(path.read_text("utf-8")).get("same", []) if path.is_file() else []
    return {(row["path"], row["code"], row["what"]): row["why"] for row in rows}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--learn", action="store_true", help="run the suite again to learn which tests reach which lines"
    )
    given = parser.parse_args()
    if given.learn or not list(WORK.glob("map/seconds.*")):
        learn(WORK / "map")
    reached = Map(WORK / "map")
    drawn = sample(given.count, given.seed)
    folders = [WORK / f"job{number}" / "midstream" for number in range(given.jobs)]
    for folder in folders:
        copy_of_the_source(folder)
    free = list(folders)
    same = known()
    survivors: list[str] = []
    counted = {package: [0, 0] for package in PACKAGES}
    began = time.monotonic()

    def judge(mutant: Mutant) -> tuple[Mutant, str]:
        folder = free.pop()
        try:
            return mutant, noticed(mutant, reached.tests(mutant), folder)
        finally:
            free.append(folder)

    with ThreadPoolExecutor(given.jobs) as pool:
        for number, (mutant, by) in enumerate(pool.map(judge, drawn), 1):
            package = mutant.path.split("/")[2]
            code = (ROOT / mutant.path).read_text("utf-8").splitlines()[mutant.line - 1].strip()
            why = same.get((mutant.path, code, mutant.what), "") if not by else ""
            if why:
                survivors.append(f"means the same: {mutant.path}:{mutant.line}: {mutant.what}: {code} ({why})")
            else:
                counted[package][1] += 1
                counted[package][0] += bool(by)
                if not by:
                    survivors.append(f"survived: {mutant.path}:{mutant.line}: {mutant.what}: {code}")
            print(
                f"{number}/{len(drawn)} {'noticed' if by else 'same' if why else 'SURVIVED'} {mutant.path}:{mutant.line}: {mutant.what}",
                flush=True,
            )
    found, all_of_them = (sum([each[place] for each in counted.values()]) for place in (0, 1))
    share = 100 * found / max(1, all_of_them)
    print(
        f"\n{found} of {all_of_them} noticed, {share:.1f} % (goal {GOAL:g} %), in {(time.monotonic() - began) / 60:.0f} minutes"
    )
    print(", ".join([f"{package} {some}/{every}" for package, (some, every) in counted.items()]))
    print(*survivors, sep="\n")
    return 0 if share >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
