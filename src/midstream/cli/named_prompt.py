"""System prompts by name: `--system @reviewer` is the file `reviewer.md` in a folder of prompts.

The folders are `prompts/` in the user's configuration and `.midstream/prompts/` in the project. The user's counts where both have the
name. A prompt that itself begins with @ is written with two: `--system '@@home …'`.
"""

from __future__ import annotations

from pathlib import Path

from ..agent.project import PROJECT_FOLDER, Project, TextFile, read_text
from ..client.config import config_home
from ..core.errors import LocalError, ToolFailed
from ..core.nearest import nearest

MARK = "@"
MAX_PROMPT = 256 * 1024
_ENDING = ".md"


def prompt_folders(project: Project) -> tuple[Path, Path]:
    """Where prompts are looked for: the user's own folder first."""
    return config_home() / "prompts", project.root / PROJECT_FOLDER / "prompts"


def prompt_files(project: Project) -> dict[str, Path]:
    """The files of all named prompts, by name."""
    found: dict[str, Path] = {}
    for folder in prompt_folders(project):
        try:
            paths = list(folder.iterdir())
        except OSError:
            continue
        for path in paths:
            if path.suffix == _ENDING:
                # The user's folder comes first, so a project cannot replace a prompt that the user relies on.
                found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def named_prompt(given: str, project: Project) -> tuple[str, Path | None]:
    """The prompt that `--system` means, and the file it is from, if it is named."""
    if not given.startswith(MARK):
        return given, None
    if given.startswith(MARK * 2):
        return given[1:], None
    name = given[1:].strip()
    files = prompt_files(project)
    path = files.get(name)
    if path is None:
        raise LocalError(
            f"no system prompt {given[:80]!r}: {_hint(name, files, project)}; a prompt that begins with @ is written @@"
        )
    try:
        file = _read(path, project)
    except ToolFailed as error:
        raise LocalError(f"the system prompt {path} does not count: {error}") from None
    if file is None or file.cut:
        raise LocalError(
            f"the system prompt {path} is {'gone' if file is None else f'larger than {MAX_PROMPT:,} bytes'}"
        )
    return file.text.strip(), path


def _read(path: Path, project: Project) -> TextFile | None:
    if path.parent == prompt_folders(project)[0]:
        return read_text(path, MAX_PROMPT)
    return read_text(path, MAX_PROMPT, boundary=project.root, owners=project.owners)


def _hint(name: str, files: dict[str, Path], project: Project) -> str:
    near = nearest(name, files, 1)
    if near:
        return f"did you mean {MARK}{near[0]}?"
    if files:
        return f"there are {', '.join([MARK + each for each in files])}"
    own, _ = prompt_folders(project)
    return f"write it to {own / (name.rpartition('/')[2] or 'name')}{_ENDING}"
