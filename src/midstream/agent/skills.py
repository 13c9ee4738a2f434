"""Skills: folders with a SKILL.md, whose name and description every model is told, and whose text it reads when it needs it.

They are found in the user's configuration (`skills/`) and in the project (`.midstream/skills/`, `.agents/skills/`, `.claude/skills/`). The list
stands in the system prompt of a new conversation; the declaration of the tool `skill` is always the same, so that a new
skill changes nothing that was sent. A skill is text and grants nothing: its files are read inside its folder only, its scripts
run through bash like any other command, and `allowed-tools` is shown and not honoured. docs/skills.md describes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ..core.blocks import Value
from ..core.command_line import path_word
from ..core.errors import ConfigError, MidstreamError, ToolFailed
from ..core.nearest import nearest
from ..core.patterns import late_pattern
from ..core.visible import visible
from .files import Files
from .front_matter import split_front_matter
from .paths import Folder
from .project import PROJECT_FOLDER, Project, TextFile, marked, read_text
from .tool import Tool

SKILL_FILE = "SKILL.md"
# Ours first, then the places that other agents use, so that a project's skills work without being copied.
PLACES = (f"{PROJECT_FOLDER}/skills", ".agents/skills", ".claude/skills")
# Everything here is read at the start of a conversation, and the list is in every prompt: all of it is bounded.
MAX_FILE = 128 * 1024
MAX_SKILLS = 100
MAX_ENTRIES = 1000
MAX_DESCRIPTION = 1024
MAX_LISTED = 12 * 1024
MAX_FILES = 100
MAX_DEPTH = 5

_NAME = late_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
_INTRODUCTION = (
    "Skills: instructions and files for particular tasks. If a task fits one, read it with the tool `skill` before you begin. "
    "A skill cannot allow a tool anything: its scripts run with bash, which asks as usual."
)


class Skill(Value, frozen=True):
    """A skill that can be used. `folder` is its real path; `wants` what its `allowed-tools` says, which is not granted."""

    name: str
    description: str
    folder: str
    scope: Literal["user", "project"]
    wants: str = ""


class Skills(Value, frozen=True):
    """The skills that were found, by name, and what is wrong with the others."""

    found: tuple[Skill, ...] = ()
    broken: tuple[str, ...] = ()

    def text(self) -> str:
        """What a model is told; "" if there are none. What does not fit is listed by the tool."""
        lines: list[str] = []
        size = 0
        for skill in self.found:
            line = f"- {skill.name}: {skill.description}"
            size += len(line) + 1
            if size > MAX_LISTED:
                lines.append(
                    f"- and {len(self.found) - len(lines)} more: the tool `skill` without a name lists them all"
                )
                break
            lines.append(line)
        return f"{_INTRODUCTION}\n\n" + marked("skills", "the user and the project", "\n".join(lines)) if lines else ""

    def get(self, name: str) -> Skill:
        """The skill of this name, or ToolFailed with the names there are."""
        # Models write names as they stand in a sentence, with a capital.
        skill = next((each for each in self.found if each.name.casefold() == name.strip().casefold()), None)
        if skill is None:
            names = [each.name for each in self.found]
            near = nearest(name[:64], names, 1)
            hint = f"did you mean {near[0]}?" if near else f"the skills are: {', '.join(names) or '(none)'}"
            raise ToolFailed(f"no skill {name[:64]!r}; {hint}")
        return skill

    def read(self, skill: Skill) -> str:
        """The text of a skill, with its folder and its files."""
        folder = Path(skill.folder)
        # Checked again at each use: a folder that became a link since it was found leads somewhere else.
        if not folder.is_dir() or os.path.realpath(folder) != skill.folder:
            raise ToolFailed(f"the folder of the skill {skill.name} is not where it was found")
        _, body = split_front_matter(_read_skill(folder, (0, folder.stat().st_uid)).text)
        files = [each for each in _files(skill.folder) if each != SKILL_FILE]
        told = "; ".join([visible(" ".join(each.split())) for each in files[:MAX_FILES]])
        more = f"; and {len(files) - MAX_FILES} more" if len(files) > MAX_FILES else ""
        about = f"The skill {skill.name} is in {path_word(visible(skill.folder))}"
        about += f", with these files: {told}{more}. Read one with `skill`; run a script with bash." if files else "."
        return f"{about}\n\n{body}"

    def read_file(self, skill: Skill, path: str, offset: int = 1) -> str:
        """A text file of a skill, from a line on."""
        if os.path.realpath(skill.folder) != skill.folder:
            raise ToolFailed(f"the folder of the skill {skill.name} is not where it was found")
        try:
            folder = Folder(skill.folder)
        except ConfigError as error:
            raise ToolFailed(f"the skill {skill.name} cannot be read: {error}") from None
        try:
            return Files(folder, max_read=MAX_FILE).read_file(path, offset)
        finally:
            folder.close()


def find_skills(project: Project | None = None, own: Path | None = None) -> Skills:
    """The skills in the folder `own`, which is the user's, and in a project.

    Where two have a name, the user's counts, then the nearest one; the other is told among the broken ones.
    """
    found: dict[str, Skill] = {}
    broken: list[str] = []
    for place, boundary in _places(project, own):
        scope: Literal["user", "project"] = "user" if boundary is None else "project"
        for folder in _entries(place, broken):
            if not os.path.lexists(folder / SKILL_FILE):
                continue
            try:
                skill = _skill(folder, boundary, project, scope)
            except MidstreamError as error:
                broken.append(f"{folder}: {error}")
                continue
            other = found.get(skill.name.casefold())
            if other is not None:
                broken.append(f"{folder}: not used, because {other.folder} has the same name {skill.name!r}")
            elif len(found) >= MAX_SKILLS:
                broken.append(f"{folder}: not used; there are more than {MAX_SKILLS} skills")
            else:
                found[skill.name.casefold()] = skill
    return Skills(tuple(sorted(found.values(), key=lambda skill: skill.name)), tuple(broken))


def skill_tool(skills: Skills | Callable[[], Skills]) -> Tool:
    """The tool by which a model reads skills, or those that a function gives at the time. It reads only, so it does not ask."""

    def skill(
        name: Annotated[str, "The name of a skill; empty to list them all."] = "",
        file: Annotated[str, "A file of the skill, relative to its folder; empty for the skill itself."] = "",
        offset: Annotated[int, msgspec.Meta(ge=1, description="First line of the file to read, counted from 1.")] = 1,
    ) -> str:
        """Read a skill: instructions for a particular task, and the files that belong to it."""
        known = skills if isinstance(skills, Skills) else skills()
        if not name.strip():
            return "\n".join([f"- {each.name}: {each.description}" for each in known.found]) or "there are no skills"
        chosen = known.get(name)
        return known.read_file(chosen, file, offset) if file else known.read(chosen)

    return Tool.from_function(skill)


def _places(project: Project | None, own: Path | None) -> Iterator[tuple[Path, Path | None]]:
    """The folders that hold skills, each with the folder that links in it may not leave (None: the user's own)."""
    if own is not None:
        yield own, None
    if project is not None:
        for level in reversed(project.levels):
            # Not from folders above the project, where instructions
            # may come from: skills bring files and scripts along.
            if level == project.root or project.root in level.parents:
                for place in PLACES:
                    yield level / place, project.root


def _entries(place: Path, broken: list[str]) -> list[Path]:
    try:
        with os.scandir(place) as entries:
            found = [entry.name for _, entry in zip(range(MAX_ENTRIES + 1), entries, strict=False)]
    except OSError as error:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            broken.append(f"{place}: {error.strerror}")
        return []
    if len(found) > MAX_ENTRIES:
        broken.append(f"{place}: not read, because it has more than {MAX_ENTRIES:,} entries")
        return []
    return [place / name for name in sorted(found) if not name.startswith(".")]


def _skill(folder: Path, boundary: Path | None, project: Project | None, scope: Literal["user", "project"]) -> Skill:
    real = Path(os.path.realpath(folder))
    if boundary is not None and not real.is_relative_to(boundary):
        raise ToolFailed("a link leads out of the project")
    file = _read_skill(real, project.owners if project is not None else (0,))
    values, _ = split_front_matter(file.text)
    name = values.get("name") or folder.name
    if not _NAME.match(name):
        raise ToolFailed(f"invalid name {visible(name[:64])!r}; expected 1 to 64 letters, digits, - and _")
    description = visible(" ".join(values.get("description", "").split()))
    if not description:
        raise ToolFailed("it has no description, by which a model could know when to use it")
    if len(description) > MAX_DESCRIPTION:
        description = description[: MAX_DESCRIPTION - 1] + "…"
    wants = visible(" ".join(values.get("allowed-tools", "").split()))[:200]
    return Skill(name, description, os.fspath(real), scope, wants)


def _read_skill(folder: Path, owners: Collection[int]) -> TextFile:
    """SKILL.md, which no link may lead out of its folder to."""
    file = read_text(folder / SKILL_FILE, MAX_FILE, boundary=folder, owners=owners)
    if file is None:
        raise ToolFailed(f"{folder / SKILL_FILE} is no longer there")
    if file.cut:
        raise ToolFailed(
            f"{SKILL_FILE} is larger than {MAX_FILE:,} bytes; move parts of it to other files of the skill"
        )
    return file


def _files(folder: str) -> list[str]:
    """The files below a folder, bounded in number and depth; links are not followed."""
    found: list[str] = []
    for where, folders, files in os.walk(folder):
        deep = os.path.relpath(where, folder).count("/") + 1
        # In place: `os.walk` goes on with what is left in this list.
        folders[:] = sorted(each for each in folders if not each.startswith(".")) if deep < MAX_DEPTH else []
        found += [os.path.relpath(os.path.join(where, name), folder) for name in sorted(files)]  # noqa: PTH118 - text
        if len(found) > MAX_ENTRIES:
            break
    return found
