"""Commands about what models are told beforehand: notes, skills, project instructions."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from typing import TYPE_CHECKING

from ...agent.memory import Memory
from ...core.errors import LocalError
from ...core.plural import pluralize
from ..slash import Words, command, words_of
from ..view import shortened

if TYPE_CHECKING:
    from ..chat import Chat

_SCOPES = ("user", "project")


def _skill_names(chat: Chat) -> Words:
    guidance = chat.workspace.guidance
    return [(skill.name, shortened(skill.description, 50)) for skill in guidance.skills.found]


@command("/remember [user|project] NOTE", "note something for later conversations", words_of(*_SCOPES))
async def _remember(chat: Chat, rest: str) -> None:
    first, _, note = rest.partition(" ")
    scope = first.rstrip(":") if first.rstrip(":") in _SCOPES and note.strip() else ""
    memory = _memory(chat, scope or "project")
    made = memory.add(note if scope else rest)
    shown = chat.workspace.guidance.project.shown(memory.path)
    chat.view.notice(f"noted in {shown}: {made.text}", "  new conversations are told it; this one is not (/memory)")


@command(
    "/memory [edit [user|project]|forget N]",
    "show the notes that new conversations are told",
    words_of("edit", "forget"),
)
async def _show(chat: Chat, rest: str) -> None:
    word, _, argument = rest.partition(" ")
    argument = argument.strip()
    if word == "edit":
        await _edit(chat, argument or "project")
    elif word == "forget":
        _forget(chat, argument)
    elif word:
        raise LocalError(
            f"invalid /memory {shortened(word, 40)!r}; expected edit, forget N, or nothing (/remember adds a note)"
        )
    else:
        _list(chat)


@command("/skills [NAME]", "list the skills and where they come from, or show one", _skill_names)
async def _skills(chat: Chat, name: str) -> None:
    guidance = chat.workspace.guidance
    skills, shown = guidance.skills, guidance.project.shown
    if name:
        chat.view.notice(*skills.read(skills.get(name)).split("\n"))
        return
    if not guidance.uses_skills:
        chat.view.notice(
            "skills are off in this chat: models are told none (--skills, or skills = true in config.toml)"
        )
    for skill in skills.found:
        chat.view.notice(f"  {skill.name} ({skill.scope}, {shown(skill.folder)}): {shortened(skill.description, 200)}")
        if skill.wants:
            chat.view.notice(f"    asks for {skill.wants}: not granted, its tools ask as usual")
    for broken in skills.broken:
        chat.view.notice(f"  not usable: {broken}")
    if not skills.found and not skills.broken:
        chat.view.notice("no skills; a folder with a SKILL.md in .midstream/skills/ is one")


@command("/instructions", "show the project instructions that new conversations are told")
async def _instructions(chat: Chat, _: str) -> None:
    guidance = chat.workspace.guidance
    found = guidance.instructions()
    if not guidance.uses_instructions:
        chat.view.notice("instructions are off in this chat (--instructions turns them on)")
    for file in found.files:
        chat.view.notice(
            f"{guidance.project.shown(file.path)}:", *[f"  {line}" for line in file.text.rstrip().split("\n")]
        )
    chat.view.notice(*[f"ignored: {each}" for each in found.ignored])
    if not found.files and not found.ignored:
        chat.view.notice("no AGENTS.md or CLAUDE.md from here upwards")


def _list(chat: Chat) -> None:
    guidance = chat.workspace.guidance
    if not guidance.uses_memory:
        chat.view.notice("memory is off in this chat: models are told none of it (--memory turns it on)")
    number = 0
    for memory in guidance.memories:
        notes = memory.notes()
        chat.view.notice(
            f"{memory.scope}: {guidance.project.shown(memory.path)} ({pluralize(len(notes), 'note') if notes else 'no notes'})"
        )
        for note in notes:
            number += 1
            chat.view.notice(f"  {number}. {note}")
        if left := len(notes) - len(memory.told()):
            chat.view.notice(f"  the first {left} are not told: there are too many")
        if other := memory.other_lines():
            chat.view.notice(f'  {pluralize(other, "line")} not told: a note begins with "- "')


def _forget(chat: Chat, argument: str) -> None:
    if not argument.isdecimal() or len(argument) > 6:
        raise LocalError("/memory forget N wants the number of a note; /memory shows them")
    number = int(argument)
    for memory in chat.workspace.guidance.memories:
        count = len(memory.notes())
        if 1 <= number <= count:
            gone = memory.forget(number)
            chat.view.notice(f"forgotten: {gone.text}", "  conversations that were told it still know it")
            return
        number -= count
    raise LocalError(f"no note {argument}; /memory shows them")


async def _edit(chat: Chat, scope: str) -> None:
    if scope not in _SCOPES:
        raise LocalError(f"invalid memory {shortened(scope, 40)!r}; expected {' or '.join(_SCOPES)}")
    path = _memory(chat, scope).make()
    editor = (os.environ.get("VISUAL") or os.environ.get("EDITOR") or "").strip()
    if not editor or not chat.interactive:
        raise LocalError(f"{'set EDITOR, or edit' if not editor else 'no terminal; edit'} {path} yourself")
    with chat.lend_terminal():
        try:
            # Words for a shell, as git takes them (`code --wait`); or the path of a program, whatever is in it.
            words = [editor] if shutil.which(editor) else shlex.split(editor)
            process = await asyncio.create_subprocess_exec(*words, os.fspath(path))
        except (OSError, ValueError) as error:
            raise LocalError(f"cannot start the editor {editor!r}: {error}; set EDITOR") from None
        code = await process.wait()
    if code:
        raise LocalError(f"the editor ended with {code}; the notes are in {path}")
    _list(chat)


def _memory(chat: Chat, scope: str) -> Memory:
    return next(memory for memory in chat.workspace.guidance.memories if memory.scope == scope)
