"""Tools over plain text, for any model on any wire: declared in the system prompt, called and answered in words.

A wire's encoder is handed a conversation that holds no call and no result: TextToolWriter stands before its writer of turns
and makes each call a part of the answer's text and each result a part of the user's. So no wire knows of it, encoding stays
as incremental as the wire's own, and what is stored keeps its calls. The format's markers are taken from everyone else's words
(`marker_escaped`), because in them they could pass for a call or a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Generic, Self

import msgspec
from msgspec.structs import replace

from ..core.blocks import Block, Conversation, Media, Text, ToolCall, ToolResponse, Turn
from ..core.dialect import Options
from ..core.dialect import TextFormat as FormatName
from ..core.handoff import Note
from ..core.history import repair
from ..core.ids import STRATEGIES, ToolIdMapper
from ..core.tools import ToolSpec
from ..templates.prompt import Specials
from ..toolformats.format import TextFormat
from ..toolformats.registry import text_format
from .encode_context import EncodeContext, result_text
from .history_cache import W

# Models that were not trained on tools like to go on and make up the result.
_RESULTS = "The results come in the next message of the user, in the order of the calls. Wait for them; never write one yourself."


class TextTools(msgspec.Struct, frozen=True):
    """The tools of one request, and the format they are spoken of in."""

    name: FormatName
    format: TextFormat
    tools: tuple[ToolSpec, ...] = ()
    notes: tuple[Note, ...] = ()

    @classmethod
    def of(cls, name: FormatName, tools: Sequence[ToolSpec]) -> TextTools:
        """Without the tools that only their own host can run, or that only their own wire knows."""
        why = "is run by its provider; plain text cannot declare it"
        # A tool of another host has no schema that could be declared.
        theirs = [tool for tool in tools if tool.builtin is not None or (tool.extra and "tool" in tool.extra)]
        notes = [Note("dropped", "tool", "foreign_builtin", f"{tool.name} {why}") for tool in theirs]
        return cls(name, text_format(name), tuple([tool for tool in tools if tool not in theirs]), tuple(notes))

    def option_words(self, options: Options) -> tuple[Options, str, list[Note]]:
        """The options without what only declared tools have, the same in words for the prompt, and notes of it."""
        words: list[str] = []
        notes: list[Note] = []
        choice = options.tool_choice if self.tools else None
        if choice not in (None, "auto"):
            # What a request would say by `tool_choice` can only be asked for. Nothing enforces it, hence the note.
            if choice == "none":
                words.append("Do not call a tool in this answer.")
            elif choice == "required":
                words.append("You must call at least one tool in this answer.")
            else:
                words.append(f"You must call the tool {choice} in this answer.")
            why = f"tool_choice {choice} is said in words, since tools go over plain text"
            notes.append(Note("adapted", "option", "tool_choice_changed", why))
        if options.parallel_tool_calls is False and self.tools:
            words.append("Call one tool at a time.")
            why = "parallel_tool_calls is said in words, since tools go over plain text"
            notes.append(Note("adapted", "option", "option_changed", why, name="parallel_tool_calls"))
        if options.previous_response_id is not None:
            why = "previous_response_id: with tools over plain text the whole history is sent"
            notes.append(Note("dropped", "option", "response_not_continued", why))
        # With calls as text nothing on the wire knows of tools any more; a field about them would be refused.
        bare = replace(options, tool_choice=None, parallel_tool_calls=None, tool_format=None, previous_response_id=None)
        return bare, " ".join(words), notes

    def declared(self, conversation: Conversation, words: str = "") -> Conversation:
        """The conversation with its tools declared in the system prompt."""
        if not self.tools:
            return conversation
        # Behind the caller's own system prompt: what comes first in
        # a prompt is cached, and the tools change more often.
        declaration = "\n".join([self.format.declare(self.tools), _RESULTS, *([words] if words else ())])
        system = conversation.system
        if isinstance(system, str):
            return replace(conversation, system=f"{system}\n\n{declaration}" if system.strip() else declaration)
        return replace(conversation, system=(*system, Text(declaration)))

    def rewrite(self, conversation: Conversation, context: EncodeContext) -> tuple[Conversation, Sequence[int]]:
        """A lawful copy of a conversation in the reader's terms, with all of its calls and results as text, and the place of
        each turn."""
        repaired = repair(conversation.turns)
        context.notes += repaired.notes
        turns, places = context.plain_turns(repaired.turns, 0, repaired.places)
        written = _Rewriter(self.format, context).rewrite(turns, 0)
        return replace(conversation, turns=tuple(written)), places


class TextToolWriter(Generic[W]):
    """A wire's writer that is handed turns without calls and results: see `wires/history_cache.py: Writer`."""

    __slots__ = ("_rewriter", "context", "inner")

    def __init__(self, inner: W, format: TextFormat) -> None:
        self.inner = inner
        self.context = inner.context
        self._rewriter = _Rewriter(format, inner.context)

    @property
    def size(self) -> int:
        return self.inner.size

    def write(self, turns: Sequence[Turn], offset: int) -> None:
        self.inner.write(self._rewriter.rewrite(turns, offset), offset)

    def clone(self) -> Self:
        twin = object.__new__(type(self))
        twin.inner = self.inner.clone()
        twin.context = twin.inner.context
        twin._rewriter = self._rewriter.clone(twin.context)
        return twin


class _Rewriter:
    """Turns with calls and results -> turns of words, one for one."""

    __slots__ = ("_context", "_format", "_ids", "_numbers", "_specials")

    def __init__(self, format: TextFormat, context: EncodeContext) -> None:
        self._format = format
        self._context = context
        self._specials = _specials(format.name)
        scheme = STRATEGIES.get(format.ids)
        self._ids: ToolIdMapper | None = None if scheme is None else scheme.create_mapper()
        # K3 numbers results by the place of their call in its message.
        self._numbers: dict[str, str] = {}  # of the calls of the last answer

    def clone(self, context: EncodeContext) -> _Rewriter:
        twin = object.__new__(_Rewriter)
        twin._format, twin._context, twin._specials = self._format, context, self._specials
        twin._ids = None if self._ids is None else self._ids.clone()
        twin._numbers = self._numbers
        return twin

    def rewrite(self, turns: Sequence[Turn], offset: int) -> list[Turn]:
        context, rewritten = self._context, []
        # The context's turn is set by the loop itself: notes that are made inside say where.
        for context.turn, turn in enumerate(turns, offset):
            if turn.speaker == "ai":
                rewritten.append(self._answer(turn))
            elif turn.speaker == "tool":
                rewritten.append(self._results(turn))
            else:
                rewritten.append(self._said(turn))
        return rewritten

    def _said(self, turn: Turn) -> Turn:
        blocks = [self._plain(block) for block in turn.blocks]
        return turn if all(map(_same, blocks, turn.blocks)) else replace(turn, blocks=tuple(blocks))

    def _answer(self, turn: Turn) -> Turn:
        calls = turn.tool_calls
        if not calls:
            return self._said(turn)
        # Thinking and media stay blocks; only calls become words.
        before = [self._plain(block) for block in turn.blocks if type(block) is not ToolCall]
        calls = tuple([replace(call, arguments=self._context.arguments(call)) for call in calls])
        written = self._format.render_calls(calls, self._call_ids(calls))
        if any(type(block) is Text and block.text.strip() for block in before):
            written = self._format.between + written
        # An answer that ended with calls has, in the wire's terms, simply ended.
        return replace(turn, blocks=(*before, Text(written)), stop_reason="end_turn")

    def _call_ids(self, calls: Sequence[ToolCall]) -> list[str]:
        if self._ids is not None:
            return [self._ids.resolve_tool_call_id(call) for call in calls]
        if self._format.ids:
            self._numbers = {call.id: str(number) for number, call in enumerate(calls, 1)}
        return []

    def _results(self, turn: Turn) -> Turn:
        blocks: list[Block] = []
        for number, response in enumerate(turn.tool_responses):
            parts = self._context.result_parts(response)
            texts = [part.text for part in parts if type(part) is Text]
            others = [part for part in parts if type(part) is not Text]
            has_media = any(type(part) is Media for part in others)
            # The result's words are foreign: a web page may contain the format's own markers.
            text = self._result(response, texts, has_media)
            # One message for all results of a turn, each on a line of its own.
            blocks.append(Text(f"\n{text}" if number else text))
            if has_media:
                self._context.moves_media()
            blocks += others
        return replace(turn, speaker="human", blocks=_joined(blocks))

    def _result(self, response: ToolResponse, texts: Sequence[str], has_media: bool) -> str:
        # A format that says "error" itself needs no words for it.
        marked = replace(response, is_error=False) if self._format.marks_errors else response
        text = self._neutral(result_text(marked, texts, has_media))
        call_id = self._numbers.get(response.call_id, "")
        if self._ids is not None:
            call_id = self._ids.resolve_tool_response_id(response)
        return self._format.render_result(replace(response, content=(Text(text),)), call_id)

    def _plain(self, block: Block) -> Block:
        if type(block) is not Text:
            return block
        text = self._neutral(block.text)
        return block if text is block.text else replace(block, text=text)

    def _neutral(self, text: str) -> str:
        """The words without a marker of the format; the same object where there was none."""
        if self._specials is None:
            return text
        neutral = self._specials.neutralise(text)
        # By comparison: a text without markers is given back as the same object, so that nothing is copied or noted.
        if neutral == text:
            return text
        why = f"a marker of the tool format {self._format.name} stood in the text; it is sent broken"
        self._context.note("adapted", "text", "marker_escaped", why)
        return neutral


def _same(one: Block, other: Block) -> bool:
    return one is other


def _joined(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Neighbouring texts as one: some hosts would set them apart."""
    joined: list[Block] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if type(block) is Text and type(last) is Text:
            joined[-1] = Text(last.text + block.text)
        else:
            joined.append(block)
    return tuple(joined)


@lru_cache(maxsize=32)
def _specials(name: str) -> Specials | None:
    markers = text_format(name).markers
    # Longest first, or a marker that another one begins with would leave the rest of it behind.
    return Specials(*sorted(markers, key=len, reverse=True)) if markers else None
