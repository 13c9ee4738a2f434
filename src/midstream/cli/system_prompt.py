"""What a model is told before a conversation: the user's system prompt, project instructions, memory and skills.

It is put together once, for a new conversation, and stored with it: what a running conversation was told is never
rewritten, so that its prefix stays as it was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..agent.instructions import Instructions, find_instructions
from ..agent.memory import Memory, memory_text, remember_tool
from ..agent.project import Project
from ..agent.skills import Skills, find_skills, skill_tool
from ..agent.tool import Tool
from ..client.config import Config, config_home
from ..core.blocks import Value
from ..core.errors import ToolFailed
from .named_prompt import named_prompt
from .options import Settings


class SystemPrompt(Value, frozen=True):
    """The text, the user's own part of it, where the rest comes from (a line each), and what was left out and why."""

    text: str
    own: str = ""
    sources: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


class Guidance:
    """What the settings, the configuration and the files of a folder say about a conversation there."""

    def __init__(self, settings: Settings, config: Config | None = None, folder: str | Path = ".") -> None:
        config = config or Config()
        self.project = Project(folder)
        agent = settings.is_chat or bool(settings.tools)
        self.uses_instructions = _chosen(settings.instructions, config.instructions, agent)
        self.uses_memory = _chosen(settings.memory, config.memory, agent)
        # A skill can only be read with its tool.
        self.uses_skills = _chosen(settings.skills, config.skills, agent) and "skill" in settings.tools
        self._given = settings.system
        self.memories = (Memory.of_user(), Memory.of_project(self.project))
        self._skills: Skills | None = None

    @property
    def skills(self) -> Skills:
        """The skills there were when the last conversation began."""
        if self._skills is None:
            self._skills = find_skills(self.project, config_home() / "skills")
        return self._skills

    def skill_folders(self) -> list[str]:
        """The folders that a sandboxed command may read, because the scripts of skills are there. One of a project counts
        where it stands among skills: a link to another folder of the project does not open that."""
        found = self.skills.found if self.uses_skills else ()
        return [each.folder for each in found if each.scope == "user" or Path(each.folder).parent.name == "skills"]

    def instructions(self) -> Instructions:
        """The project instructions as they are now."""
        return find_instructions(self.project, config_home())

    def system_prompt(self, own: str | None = None) -> SystemPrompt:
        """The system prompt of a new conversation; `own` is the user's part, by default what `--system` says."""
        sources: list[str] = []
        ignored: list[str] = []
        if own is None:
            own, path = named_prompt(self._given, self.project)
            if path is not None:
                sources.append(f"system prompt: {self.project.shown(path)}")
        # The user's own words first; what follows says of itself that it counts for less.
        parts = [own]
        if self.uses_instructions:
            found = self.instructions()
            ignored += found.ignored
            parts.append(found.text(self.project))
            if found.files:
                sources.append(f"instructions: {found.summary(self.project)}")
        if self.uses_memory:
            readable = [memory for memory in self.memories if self._is_readable(memory, ignored)]
            parts.append(memory_text(readable))
            counts = [f"{len(notes)} of the {each.scope}" for each in readable if (notes := each.told())]
            if counts:
                sources.append(f"notes: {', '.join(counts)} (/memory)")
        if self.uses_skills:
            self._skills = None  # there may be others by now
            parts.append(self.skills.text())
            if names := [skill.name for skill in self.skills.found]:
                sources.append(f"skills: {', '.join(names[:8])}{' …' if len(names) > 8 else ''} (/skills)")
            ignored += self.skills.broken
        text = "\n\n".join([part for part in parts if part])
        return SystemPrompt(text, own, tuple(sources), tuple(ignored))

    def tools(self, names: Sequence[str]) -> list[Tool | Callable[..., Any] | str]:
        """The tools of these names; those of memory and skills only where there is something for them to do."""
        found: list[Tool | Callable[..., Any] | str] = []
        for name in names:
            if name == "remember":
                found += [remember_tool(self.memories)] if self.uses_memory else []
            elif name == "mcp":
                continue  # a source of tools, which the workspace opens
            elif name == "skill":
                found += [skill_tool(lambda: self.skills)] if self.uses_skills and self.skills.found else []
            else:
                found.append(name)
        return found

    @staticmethod
    def _is_readable(memory: Memory, ignored: list[str]) -> bool:
        try:
            memory.notes()
        except ToolFailed as error:
            ignored.append(str(error))
            return False
        return True


def system_prompt(settings: Settings, folder: str | Path = ".", config: Config | None = None) -> SystemPrompt:
    """The system prompt of a new conversation in this folder."""
    return Guidance(settings, config, folder).system_prompt()


def _chosen(flag: bool | None, setting: bool | None, otherwise: bool) -> bool:
    """A flag counts before the configuration, and that before the default."""
    if flag is not None:
        return flag
    return otherwise if setting is None else setting
