"""`python -m tests.mutants`: draw a sample of mutants, run for each the tests that reach its line, list those that survive.

First the whole suite runs once, to learn which tests reach which lines (kept in `.mutants/`; `--learn` does it again, and with `--tests`
adds what these tests reach). A run that gets stuck is ended, says where, and leaves what was known. Then each mutant is written into a copy of the source, and the quickest tests that reach it run until one fails.
A mutant counts as noticed if a test fails that passes without it, or if the tests take several times as long as they do without it. Survivors that
are known to mean the same are listed with a reason in `tests/data/mutants.toml`, by their line's text.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

from .points import Mutant, Point, mutant, points
from .reached import FOLDER, Reach

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".mutants"
PACKAGES = ("core", "wires", "transport", "agent", "store", "client")
BUDGET = 60.0
"""Seconds of tests for one mutant, the quickest first, as they took under the trace: several times as long as without."""
SPARE = 60.0
"""Seconds that the tests of a mutant may take beyond twice their time, for a busy machine and for pytest to start."""
STUCK = 600.0
"""Seconds without a new test after which the run that learns is ended: a test that hangs is ended sooner, by its own limit."""
GOAL = 92.0


ELSEWHERE = ("src/midstream/store/postgres.py", "src/midstream/store/postgres_server.py")
"""Modules whose tests need a server: `make test-e2e` has them."""
LOADING = (
    "tests/test_laws.py::test_values_are_frozen",
    "tests/test_defaults.py::test_what_is_not_said_means_what_it_meant",
)
"""Tests of what modules hold once they are loaded."""
QUICK = 1.0
"""Seconds below which a test is not tried again without the mutant: it waits for nothing, and it passed when it was timed."""


class Map:
    """Which test functions reach a line, and how long each takes."""

    def __init__(self, folder: Path) -> None:
        measured: dict[str, tuple[float, int, float]] = {}
        self._lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for path in folder.glob("reached.*.jsonl"):
            for reach in msgspec.json.Decoder(Reach).decode_lines(path.read_bytes()):
                seconds, ran, _ = measured.get(reach.function, (0.0, 0, 0.0))
                measured[reach.function] = (seconds + reach.seconds, ran + reach.ran, reach.whole)
                for module, lines in reach.lines.items():
                    for line in lines:
                        self._lines[f"src/midstream/{module}"][line].add(reach.function)
        # As if all its cases and examples had been run.
        self.seconds = {function: seconds * whole / max(1, ran) for function, (seconds, ran, whole) in measured.items()}

    def _quickest(self, function: str) -> tuple[float, str]:
        return self.seconds.get(function, 1.0), function

    def tests(self, mutant: Mutant, budget: float) -> tuple[list[str], float]:
        """The tests to run, the quickest first, and the seconds that they took."""
        lines = self._lines.get(mutant.path, {})
        found = lines.get(mutant.line) or set().union(
            *[lines.get(line, ()) for line in _body(ROOT / mutant.path, mutant.line)]
        )
        if found:
            ordered = sorted(found, key=self._quickest)
            if not _is_in_function(ROOT / mutant.path, mutant.line):  # loaded by a test, but it means something to all
                ordered = [*LOADING, *ordered]
        else:
            # Reached only when the module is loaded, or in another process. First whoever uses the name that is set there, in the module or by
            # naming it in a test; then whoever reaches the module, one of each file first.
            names, used = _set_there(ROOT / mutant.path, mutant.line)
            users = set().union(*[lines.get(line, ()) for line in used])
            users |= {function for function in self.seconds if any(name in _words(function) for name in names)}
            ordered = sorted(set().union(*lines.values()), key=self._quickest)
            firsts = {function.partition("::")[0]: function for function in reversed(ordered)}
            ordered = [
                *LOADING,
                *sorted(users, key=self._quickest),
                *sorted(firsts.values(), key=self._quickest),
                *ordered,
            ]
        chosen: list[str] = []
        spent = 0.0
        for function in dict.fromkeys(ordered):
            if chosen and spent + self.seconds.get(function, 1.0) > budget:
                break
            spent += self.seconds.get(function, 1.0)
            chosen.append(function)
        return chosen, spent


def _body(path: Path, line: int) -> range:
    """The lines of the function whose signature holds this one: its defaults are set when the module is loaded, and matter here."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno <= line < node.body[0].lineno:
            return range(node.body[0].lineno, (node.end_lineno or 0) + 1)
    return range(0)


def _set_there(path: Path, line: int) -> tuple[set[str], set[int]]:
    """The names that the statement at this line of a module sets, and the lines of the module that use them."""
    tree = ast.parse(path.read_bytes())
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.lineno <= line <= (node.end_lineno or 0):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    used = {
        each.lineno
        for each in ast.walk(tree)
        if isinstance(each, ast.Name) and each.id in names and isinstance(each.ctx, ast.Load)
    }
    return names, used


@cache
def _words(function: str) -> frozenset[str]:
    """The words of the file that a test function is in."""
    path = ROOT / function.partition("::")[0]
    return frozenset(re.findall(r"\w+", path.read_text("utf-8"))) if path.is_file() else frozenset()


def _is_in_function(path: Path, line: int) -> bool:
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return any(node.body[0].lineno <= line <= (node.end_lineno or 0) for node in functions)


def learn(folder: Path, tests: list[str]) -> None:
    """Run the tests under the trace, and put what they reach into the folder once all of them have run."""
    print(
        f"mutants: running {' '.join(tests) or 'the whole suite'}, to learn which tests reach which lines …", flush=True
    )
    fresh = folder.parent / "learning"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "-p", "tests.mutants.reached", "--no-header"]
    code = run_watched([*command, *(tests or ["tests"])], fresh)
    if code not in (0, 1):  # 1: some tests failed, which also reach lines
        raise SystemExit(f"mutants: the tests did not run to their end (pytest ended with {code}); nothing was learned")
    if not tests:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    for path in fresh.glob("reached.*.jsonl"):
        path.rename(folder / f"{path.stem}.{time.time_ns()}.jsonl")  # another run may have had a process of that number
    shutil.rmtree(fresh)


def _environ() -> dict[str, str]:
    """The tests are those of `make test`: what only the long run tries is no evidence that they notice."""
    return {name: value for name, value in os.environ.items() if name not in ("MIDSTREAM_LONG", "MIDSTREAM_EXAMPLES")}


def run_watched(command: list[str], folder: Path, patience: float = STUCK) -> int:
    """Run the tests, and end them, with the stacks of their threads, if no process begins another one for so long."""
    process = subprocess.Popen(command, cwd=ROOT, env={**_environ(), FOLDER: str(folder)}, start_new_session=True)
    began = time.time()
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(min(patience, 5.0))
            running = list(folder.glob("running.*"))
            if time.time() - max([began, *[path.stat().st_mtime for path in running]]) > patience:
                names = [path.read_text("utf-8") for path in running] or ["collecting the tests"]
                os.killpg(process.pid, signal.SIGABRT)  # pytest has faulthandler print the stacks
                with suppress(subprocess.TimeoutExpired):
                    process.wait(5.0)
                raise SystemExit(
                    "\n  ".join([f"mutants: stuck for {patience:g} s, nothing was learned; running were:", *names])
                )
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the workers too, if pytest has ended and they have not
        process.wait()


@cache
def _places(package: str) -> list[tuple[Path, Point]]:
    folder = ROOT / "src" / "midstream" / package
    paths = [path for path in sorted(folder.rglob("*.py")) if str(path.relative_to(ROOT)) not in ELSEWHERE]
    return [(path, point) for path in paths for point in points(path.read_bytes())]


def sample(count: int, seed: int, packages: Sequence[str] = PACKAGES) -> list[Mutant]:
    """The same number of each package, as far as they have so many."""
    drawn: list[Mutant] = []
    for place, package in enumerate(packages):
        share = count // len(packages) + (place < count % len(packages))
        found = _places(package)
        roll = random.Random(f"{seed} {package}")  # so that a change in one package draws no others elsewhere
        drawn += [mutant(path, ROOT, point) for path, point in roll.sample(found, min(share, len(found)))]
    return drawn


def copy_of_the_source(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # With their compiled forms, which stay valid beside a copy of the same age; a changed module is newer, and compiled again.
    shutil.copytree(ROOT / "src", folder / "src")
    shutil.copytree(ROOT / "tests", folder / "tests")
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


class Judge:
    """Runs the tests of one mutant after the other, each in a free copy of the source."""

    def __init__(self, reached: Map, jobs: int, budget: float) -> None:
        self._reached, self._budget = reached, budget
        self._free = [WORK / f"job{number}" / "midstream" for number in range(jobs)]
        for folder in self._free:
            copy_of_the_source(folder)
        self._passes: dict[str, bool] = {}

    def __call__(self, mutant: Mutant) -> tuple[Mutant, str]:
        """Who noticed it; nothing if nobody did."""
        folder = self._free.pop()
        try:
            return mutant, self._noticed(mutant, folder)
        finally:
            self._free.append(folder)

    def _noticed(self, mutant: Mutant, folder: Path) -> str:
        tests, seconds = self._reached.tests(mutant, self._budget)
        target = folder / mutant.path
        kept = target.read_text("utf-8")
        while tests:
            target.write_text(mutant.source, "utf-8")
            try:
                failed = _first_failure(tests, folder, 2 * seconds + SPARE)
            finally:
                target.write_text(kept, "utf-8")
            if not failed:
                return ""
            if failed not in tests:
                # Too late, or a file that cannot be loaded: not the mutant's doing if it is so without it.
                inside = [test for test in tests if test.partition("::")[0] == failed]
                return "" if _first_failure(inside or tests, folder, 2 * seconds + SPARE) else failed
            if self._passes_without(failed, folder):
                return failed
            tests.remove(failed)  # it fails by itself, on this machine, today
        return ""

    def _passes_without(self, test: str, folder: Path) -> bool:
        if self._reached.seconds.get(test, QUICK) < QUICK:
            return True
        if test not in self._passes:
            self._passes[test] = not _first_failure([test], folder, BUDGET + SPARE)
        return self._passes[test]


def _first_failure(tests: list[str], folder: Path, timeout: float) -> str:
    """The test that failed, or how else it ended; nothing if all passed."""
    environ = {**_environ(), "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--tb=no", *tests],
            cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=timeout,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "took too long"
    if done.returncode == 0:
        return ""
    failed = [line.split(" ")[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0].partition("[")[0] if failed else f"pytest ended with {done.returncode}"


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
        "--budget", type=float, default=BUDGET, help="seconds of tests for one mutant, the quickest first"
    )
    parser.add_argument(
        "--packages", nargs="+", default=PACKAGES, help=f"where to draw from; {', '.join(PACKAGES)} unless given"
    )
    parser.add_argument("--only", default="", help="of those drawn, judge those whose path:line holds this text")
    parser.add_argument(
        "--learn", action="store_true", help="run the suite again to learn which tests reach which lines"
    )
    parser.add_argument("--tests", nargs="+", default=[], help="with --learn: run only these, and add what they reach")
    given = parser.parse_args()
    if given.learn or not list(WORK.glob("map/reached.*.jsonl")):
        learn(WORK / "map", given.tests)
    drawn = [
        each for each in sample(given.count, given.seed, given.packages) if given.only in f"{each.path}:{each.line}"
    ]
    judge = Judge(Map(WORK / "map"), given.jobs, given.budget)
    same = known()
    survivors: list[str] = []
    counted = {package: [0, 0] for package in given.packages}
    began = time.monotonic()

    with ThreadPoolExecutor(given.jobs) as pool:
        for number, (each, by) in enumerate(pool.map(judge, drawn), 1):
            package = each.path.split("/")[2]
            code = (ROOT / each.path).read_text("utf-8").splitlines()[each.line - 1].strip()
            why = same.get((each.path, code, each.what), "") if not by else ""
            if why:
                survivors.append(f"means the same: {each.path}:{each.line}: {each.what}: {code} ({why})")
            else:
                counted[package][1] += 1
                counted[package][0] += bool(by)
                if not by:
                    survivors.append(f"survived: {each.path}:{each.line}: {each.what}: {code}")
            print(
                f"{number}/{len(drawn)} {'noticed' if by else 'same' if why else 'SURVIVED'} {each.path}:{each.line}: {each.what}"
                + (f" ({by})" if by else ""),
                flush=True,
            )
    found, all_of_them = (sum([some[place] for some in counted.values()]) for place in (0, 1))
    share = 100 * found / max(1, all_of_them)
    print(
        f"\n{found} of {all_of_them} noticed, {share:.1f} % (goal {GOAL:g} %), in {(time.monotonic() - began) / 60:.0f} minutes"
    )
    print(", ".join([f"{package} {some}/{every}" for package, (some, every) in counted.items()]))
    print(*survivors, sep="\n")
    return 0 if share >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
