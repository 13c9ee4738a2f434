from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from midstream.agent import search
from midstream.agent.paths import Folder
from midstream.agent.search import MAX_FILE, Pattern, Search
from midstream.core.errors import ToolFailed

TREE = {
    "README.md": "hello\n",
    "src/app.py": "import os\nclass App:\n    pass\n",
    "src/lib/deep.py": "class Deep(App):\n    pass\n",
    "src/web/a.ts": "class A {}\n",
    "src/web/b.tsx": "class B {}\r\n",
    ".github/ci.yml": "on: push\n",
    ".git/config": "class Git\n",
    "node_modules/x/index.js": "class X\n",
    "bin": "class\0binary\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    for name, text in TREE.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, newline="")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text("class Secret\n")
    (root / "out").symlink_to(outside)
    (root / "secret.py").symlink_to(outside / "secret.py")
    (root / "loop").symlink_to(".")
    (root / "alias.py").symlink_to("src/app.py")
    os.mkfifo(root / "fifo.py")
    return root


GLOBS = {
    "*.md": ["README.md"],
    "*.py": ["alias.py"],
    "**/*.py": ["alias.py", "src/app.py", "src/lib/deep.py"],
    "src/*.py": ["src/app.py"],
    "src/**": ["src/app.py", "src/lib/deep.py", "src/web/a.ts", "src/web/b.tsx"],
    "src/**/*.{ts,tsx}": ["src/web/a.ts", "src/web/b.tsx"],
    "**/[ab].ts*": ["src/web/a.ts", "src/web/b.tsx"],
    "**/?.ts": ["src/web/a.ts"],
    "**/**/**/**/deep.py": ["src/lib/deep.py"],
    "src/*/": ["src/lib/", "src/web/"],
    ".github/*": [".github/ci.yml"],
    "**/config": [],
    ".git/*": [".git/config"],
    "**/node_modules/**/*.js": ["node_modules/x/index.js"],
    "out/*": [],
    "{README.md,src/app.py}": ["README.md", "src/app.py"],
    "./README.md": ["README.md"],
    "nothing": [],
}


@pytest.mark.parametrize("pattern", GLOBS)
def test_glob(tree: Path, pattern: str) -> None:
    answer = Search(Folder(tree)).glob(pattern)
    assert answer == ("\n".join(GLOBS[pattern]) or "no files match")


def test_glob_below_a_directory_gives_paths_from_the_folder(tree: Path) -> None:
    assert Search(Folder(tree)).glob("*.ts", "src/web") == "src/web/a.ts"


@pytest.mark.parametrize("path", ["..", "out", "/etc", "~", "none", "README.md"])
def test_neither_glob_nor_grep_leaves_the_folder(tree: Path, path: str) -> None:
    with pytest.raises(ToolFailed):
        Search(Folder(tree)).glob("*", path)
    if path != "README.md":
        with pytest.raises(ToolFailed):
            asyncio.run(Search(Folder(tree)).grep(".", path))


@pytest.mark.parametrize("pattern", ["", "../*", "/etc/*", "~/*", "a\0", "{a,b}" * 10, "x" * 2000])
def test_a_glob_pattern_that_cannot_be_is_refused(tree: Path, pattern: str) -> None:
    with pytest.raises(ToolFailed):
        Search(Folder(tree)).glob(pattern)


def test_glob_is_bounded(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_RESULTS", 2)
    assert Search(Folder(tree)).glob("src/**") == "src/app.py\nsrc/lib/deep.py\n[the first 2; narrow the pattern]"
    monkeypatch.setattr(search, "MAX_ENTRIES", 3)
    assert "stopped after 3 entries" in Search(Folder(tree)).glob("**/*.tsx")


def test_many_stars_cost_no_more_than_one() -> None:
    pattern = Pattern("/".join(["**", "a"] * 100 + ["b"]))
    assert not pattern.matches("/".join(["a"] * 200))
    assert not Pattern("*a" * 200).matches("a" * 199)


def grep(tree: Path, *args: object, **kwargs: object) -> str:
    return asyncio.run(Search(Folder(tree), seconds=20).grep(*args, **kwargs))  # type: ignore[arg-type]


GREPS: dict[str, tuple[tuple[object, ...], list[str]]] = {
    "everywhere": (
        (r"^class \w",),
        [
            "src/app.py:2:class App:",
            "src/lib/deep.py:1:class Deep(App):",
            "src/web/a.ts:1:class A {}",
            "src/web/b.tsx:1:class B {}",
        ],
    ),
    "below a directory": ((r"class", "src/lib"), ["src/lib/deep.py:1:class Deep(App):"]),
    "in a file": ((r"class", "src/app.py"), ["src/app.py:2:class App:"]),
    "through a link inside": ((r"class", "alias.py"), ["src/app.py:2:class App:"]),
    "by name": ((r"class", ".", "*.ts"), ["src/web/a.ts:1:class A {}"]),
    "by path": ((r"class", ".", "src/**/*.{ts,tsx}"), ["src/web/a.ts:1:class A {}", "src/web/b.tsx:1:class B {}"]),
    "any case": ((r"HELLO", ".", "", True), ["README.md:1:hello"]),
    "nothing": ((r"no such thing",), ["no lines match"]),
    "what is passed over, when named": ((r"class", ".git"), [".git/config:1:class Git"]),
    "a limit": (
        (r"class", "src", "", False, 1),
        ["src/app.py:2:class App:", "[the first 1 line; narrow the pattern]"],
    ),
}


@pytest.mark.parametrize("case", GREPS)
def test_grep(tree: Path, case: str) -> None:
    arguments, lines = GREPS[case]
    assert grep(tree, *arguments).split("\n") == lines


@pytest.mark.parametrize("pattern", ["(", "[", "*", "", "\0", "\ud800", "x" * 2000, "(?P<a>x)(?P<a>y)"])
def test_a_pattern_that_is_none_is_refused_in_words(tree: Path, pattern: str) -> None:
    with pytest.raises(ToolFailed, match="pattern"):
        grep(tree, pattern)


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|a)*$", r"(.*a){30}$"])
def test_a_pattern_that_never_ends_is_ended(tree: Path, pattern: str) -> None:
    (tree / "evil").write_text("a" * 60 + "b\n")
    answer = asyncio.run(Search(Folder(tree), seconds=0.5).grep(pattern, "evil"))
    assert "stopped after 0.5 s while matching evil" in answer


def test_what_was_found_before_the_time_was_over_is_kept(tree: Path) -> None:
    (tree / "src/evil").write_text("a" * 60 + "b\n")
    answer = asyncio.run(Search(Folder(tree), seconds=1).grep(r"(a+)+$|App", "src"))
    assert answer.startswith("src/app.py:2:class App:\n[stopped")


def test_a_cancelled_grep_leaves_no_process(tree: Path) -> None:
    (tree / "evil").write_text("a" * 60 + "b\n")

    async def main() -> None:
        task = asyncio.ensure_future(Search(Folder(tree), seconds=600).grep("(a+)+$", "evil"))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    if children.exists():
        assert not [
            pid for pid in children.read_text().split() if b"matcher.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]


def test_long_lines_are_cut_around_the_match_and_large_files_are_passed_over(tree: Path) -> None:
    (tree / "long").write_text("x" * 10_000 + "needle" + "y" * 10_000 + "\n")
    (tree / "large").write_text("needle\n" + "x" * MAX_FILE)
    answer = grep(tree, "needle").split("\n")
    assert "needle" in answer[0]
    assert len(answer[0]) < 500
    assert answer[1:] == [f"[1 file(s) of more than {MAX_FILE} bytes were not searched]"]
