"""What a request is encoded with: the dialect, the options, and the ids, names and notes gathered on the way.

It holds what all wires do alike: foreign and missing reasoning, media of tool results, blocks that cannot be sent, options
a host does not take. Everything that is changed or left out leaves a Note.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from msgspec.structs import replace

from ..core.blocks import Block, Media, Opaque, Origin, Text, Thinking, ToolCall, ToolResponse, Turn
from ..core.dialect import Dialect, Limits, Options
from ..core.errors import InvalidSchema, MissingReasoning
from ..core.handoff import Action, Note, NoteCode
from ..core.ids import ToolIdMapper, scheme_for
from ..core.refs import MAX_SIZE
from ..core.schemas import PASSES
from ..core.tools import ToolSpec, modern_call
from .lenient_json import arguments_text, json_value
from .media import SEE_MEDIA, is_public, omitted, settled
from .plain_tools import compiled, plain_call, plain_tool, rewritten
from .reasoning import effort_for, keeps_thinking, maker, requires_every_turn, same_origin, thinking_on

# A tag and not plain words, so that a model can tell an instruction from what the user wrote.
INSTRUCTION_TAG = "system-instruction"
"""What a system turn stands in where it has to be sent in the user's name."""


class ToolNames:
    """Names of one request: `wire(name)` on the way out, `changed` for the way back."""

    __slots__ = ("_back", "_forth", "_limits", "_pattern")

    def __init__(self, limits: Limits) -> None:
        self._pattern = compiled(limits.tool_name_pattern)
        self._limits = limits
        self._forth: dict[str, str] = {}
        self._back: dict[str, str] = {}

    # The pattern is asked once for each name: a history repeats a few names many times.
    def wire(self, name: str) -> str:
        known = self._forth.get(name)
        if known is None:
            known = self._forth[name] = name if self._pattern.fullmatch(name) else rewritten(name, name, self._limits)
            if known != name:
                self._back[known] = name
        return known

    @property
    def changed(self) -> dict[str, str] | None:
        """Wire name -> own name, for the names that had to change."""
        return dict(self._back) or None

    def clone(self) -> ToolNames:
        twin = ToolNames.__new__(ToolNames)
        twin._pattern, twin._limits = self._pattern, self._limits
        twin._forth, twin._back = self._forth.copy(), self._back.copy()
        return twin


T = TypeVar("T")
Fate: TypeAlias = Literal["keep", "text", "drop"]
SAMPLING = ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty")


# What a wire does not decide by itself. Each question (may this go back? is that option
# taken?) is answered once, here, from fields of the dialect, and a wire's encoder only
# asks. So no wire forgets a note, and all of them treat a stranger's reasoning alike.
class EncodeContext:
    """The state of encoding one request. The history has one context, kept with it in the cache; `around` makes the one for the
    rest of the body, with the same ids and names. `turn` is the turn being written, `thinking` whether the reader will think,
    `echo` on which messages its own reasoning goes back to it, `lacks_reasoning` that a placeholder for reasoning had to be
    used, `lead` how many turns at the beginning go with the system prompt."""

    __slots__ = (
        "_every_turn", "_grown", "_plain_names", "dialect", "echo", "ids", "lacks_reasoning", "lead", "model", "names", "notes", "options", "thinking",
        "turn",
    )  # fmt: skip

    def __init__(self, dialect: Dialect, options: Options, model: str, lead: int = 0) -> None:
        self.dialect = dialect
        self.options = options
        self.model = model
        # Ids are minted as calls are met, in order; the mapper lives as long as the history's checkpoint.
        self.ids: ToolIdMapper = scheme_for(dialect.ids, options.tool_format).create_mapper()
        self.names = ToolNames(dialect.limits)
        self.notes: list[Note] = []
        self.turn: int | None = None
        self.thinking = thinking_on(dialect, options)
        # While a host is asked to keep all reasoning, all of it has to be sent.
        self.echo = "always" if keeps_thinking(dialect, options) else dialect.reasoning.echo
        self.lacks_reasoning = False
        self._every_turn = requires_every_turn(dialect, options)
        self.lead = lead
        self._grown = 0  # by how much the schemas of tools became longer
        self._plain_names: dict[str, str] = {}  # of calls whose name is another here, for their results

    def clone(self) -> EncodeContext:
        """An independent copy."""
        twin = self.around(self.options)
        twin.ids = self.ids.clone()
        twin.names = self.names.clone()
        twin.notes = self.notes.copy()
        twin.turn = self.turn
        twin._grown = self._grown
        twin._plain_names = self._plain_names.copy()
        return twin

    def around(self, options: Options) -> EncodeContext:
        """The context of everything but the history: the same ids and names, notes of its own, about no turn."""
        # Without `__init__`: it would make a mapper and names that are thrown away at once.
        outer = object.__new__(EncodeContext)
        outer.dialect, outer.options, outer.model = self.dialect, options, self.model
        outer.ids, outer.names = self.ids, self.names
        outer.notes = []
        outer.turn = None
        outer.thinking = thinking_on(self.dialect, options)
        outer.echo = self.echo
        outer.lacks_reasoning = self.lacks_reasoning
        outer._every_turn = self._every_turn
        outer.lead = self.lead
        outer._grown = 0
        outer._plain_names = self._plain_names
        return outer

    def note(self, action: Action, what: str, code: NoteCode, why: str, name: str = "") -> None:
        self.notes.append(Note(action, what, code, why, self.turn, name=name))

    # The history.

    def plain_turns(
        self, turns: Sequence[Turn], start: int, places: Sequence[int] | None = None
    ) -> tuple[list[Turn], list[int]]:
        """Lawful turns in the terms of the reader, and the place of each in the conversation.

        System turns that it takes nowhere but at the front become the user's, marked; freeform calls and those of a
        namespace become what it has instead. What goes with the system prompt is left out.
        """
        out: list[Turn] = []
        kept: list[int] = []
        for at, turn in enumerate(turns):
            place = start + at if places is None else places[at]
            if (turn.tools or place < self.lead) and self.left_out(turn, place):
                continue
            # The everyday turn is the user's, and needs nothing.
            if turn.speaker != "human" or turn.role:
                self.turn = start + len(out)
                turn = self._plain(turn)
            out.append(turn)
            kept.append(place)
        return out, kept

    def left_out(self, turn: Turn, place: int) -> bool:
        """Whether a turn goes with the system prompt, or only declares tools, which are sent with the request's."""
        if place < self.lead and turn.is_instruction:
            return True
        return bool(turn.tools) and not turn.blocks and not self.dialect.mid_tools

    def _plain(self, turn: Turn) -> Turn:
        if turn.speaker == "ai":
            return self._plain_answer(turn)
        if turn.speaker == "tool":
            known = self._plain_names
            # Results carry a tool's name on some wires, and it has to be the one that the call was sent under.
            if not known or not any(response.call_id in known for response in turn.tool_responses):
                return turn
            renamed = [
                replace(block, name=known.get(block.call_id, block.name)) if type(block) is ToolResponse else block
                for block in turn.blocks
            ]
            return replace(turn, blocks=tuple(renamed))
        return self._instruction(turn) if turn.is_instruction else turn

    def _plain_answer(self, turn: Turn) -> Turn:
        blocks: list[Block] | None = None
        for at, block in enumerate(turn.blocks):
            # The everyday call needs nothing.
            if type(block) is not ToolCall or not (block.extra or block.namespace or block.kind != "function"):
                continue
            call = modern_call(block)
            plain = plain_call(call, self.dialect)
            if plain.name != call.name:
                self._plain_names[call.id] = plain.name
            if plain.kind != call.kind:
                why = f"{call.name} takes plain text, which is sent as a call of a function here"
                self.note("adapted", "tool_call", "freeform_as_function", why)
            if plain is not block:
                blocks = list(turn.blocks) if blocks is None else blocks
                blocks[at] = plain
        return turn if blocks is None else replace(turn, blocks=tuple(blocks))

    def _instruction(self, turn: Turn) -> Turn:
        """A system turn as this reader takes one."""
        dialect = self.dialect
        # Most chat templates take a system message at the front only: some refuse a later one, others move it there
        # silently (field-guide/openai-chat.md#roles).
        if not dialect.mid_system:
            return self.folded(turn)
        if turn.role == "developer" and not dialect.developer_role:
            self.note("adapted", "turn", "role_changed", "a developer message is sent as a system message here")
            turn = replace(turn, role="")
        return turn if turn.speaker == "system" else replace(turn, speaker="system")

    def folded(self, turn: Turn) -> Turn:
        """A system turn in the user's name, where it stands; the words around it say whose it is."""
        said = [block for block in turn.blocks if type(block) is not Text or block.text.strip()]
        if said:
            why = "a system message inside the conversation is sent as the user's, marked as the system's"
            self.note("adapted", "turn", "system_folded", why)
            opening, closing = f"<{INSTRUCTION_TAG}>\n", f"\n</{INSTRUCTION_TAG}>"
            first, last = said[0], said[-1]
            # Inside the first and last text, if they are texts: a part
            # of its own could be set apart or dropped as blank.
            if type(first) is Text:
                said[0] = first = replace(first, text=opening + first.text)
            else:
                said.insert(0, Text(opening.rstrip()))
            last = said[-1]
            if type(last) is Text:
                said[-1] = replace(last, text=last.text + closing)
            else:
                said.append(Text(closing.lstrip()))
        return Turn("human", tuple(said), key=turn.key, extra=turn.extra)

    def made_here(self, origin: Origin | None, *, same_model: bool = False) -> bool:
        """Whether the reader's host (or the very model) made it, so that ids and signatures in it mean something there."""
        return origin is not None and same_origin(origin, self.dialect, self.model if same_model else None)

    def is_own_part(self, block: Opaque) -> bool:
        """Whether this is a content part of the reader's own wire, which goes back as it came."""
        return block.kind == "part" and (block.origin is None or block.origin.wire == self.dialect.wire)

    def foreign_thinking(self, block: Thinking, *, keeps: bool = True, unsigned: bool = False) -> Fate:
        """What becomes of thinking that cannot go back as the reader's own: the caller's policy decides.

        `keeps`: the wire has a place for another model's. `unsigned`: it is the reader's own, without its signature.
        """
        policy = self.options.foreign_thinking
        # An unsigned block of the reader's own cannot be kept as reasoning: the host would refuse it.
        if policy == "keep" and block.text and not unsigned:
            if keeps:
                return "keep"
            self.note("dropped", "thinking", "reasoning_not_accepted", "this model accepts no reasoning from others")
        # As text only if asked: models begin to imitate what they read
        # (field-guide/reasoning.md#who-refuses-what-is-not-its-own).
        elif policy == "text" and block.text.strip():
            self.note("adapted", "thinking", "thinking_as_text", f"reasoning of {maker(block)} is sent as plain text")
            return "text"
        elif unsigned:
            self.note("dropped", "thinking", "unsigned_thinking", "the reasoning has no signature")
        else:
            why = f"reasoning belongs to {maker(block)}; not sent to other models"
            self.note("dropped", "thinking", "foreign_thinking", why)
        return "drop"

    def thinking_fate(self, block: Thinking, *, own: bool) -> Fate:
        """What becomes of thinking on a wire that takes any model's: the reader's own goes back, if it wants it back."""
        if not own:
            return self.foreign_thinking(block)
        if self.dialect.reasoning.echo == "never":
            self.not_echoed(block)
            return "drop"
        return "keep"

    def not_echoed(self, block: Thinking) -> None:
        """The reader's own thinking, which it does not want back here."""
        # Nothing is lost with an empty block, so nobody is told.
        if block.text:
            why = f"{self.dialect.name} does not take its own reasoning back on this message"
            self.note("dropped", "thinking", "thinking_not_echoed", why)

    def requires_reasoning(self, calls: bool) -> bool:
        """Whether the reader refuses an answer without reasoning, one with calls or one without."""
        return self.thinking and (self.dialect.reasoning.required if calls else self._every_turn)

    def missing_reasoning(self, lack: str = "reasoning", what: str = "thinking") -> str:
        """The placeholder for what the reader requires of a turn, unless the caller wants to fail instead."""
        rules, name = self.dialect.reasoning, self.dialect.name
        # Before anything is sent, so that a caller who wants no placeholder can choose otherwise.
        if self.options.missing_reasoning == "fail":
            choices = "placeholder or disable-thinking" if rules.can_disable else "placeholder"
            where = "the prefill" if self.turn is None else f"turn {self.turn}"
            raise MissingReasoning(
                f"{where} is without {lack}, which {name} requires: set missing_reasoning to {choices}"
            )
        self.lacks_reasoning = True
        why = f"{lack} required by {name} is missing; sent a placeholder instead"
        self.note("adapted", what, "missing_reasoning", why)
        return rules.placeholder

    def arguments(self, call: ToolCall) -> str:
        """The arguments as the text of a JSON object, which every wire requires: anything else goes inside of one."""
        # MiniMax refuses anything else (field-guide/openai-chat.md#calls),
        # and wires with objects have no way to say it.
        arguments = arguments_text(call.arguments)
        if arguments is None:
            why = f"the arguments of {call.name} are not a JSON object; sent as {{_raw}}"
            self.note("adapted", "tool_call", "broken_arguments", why)
            return json_value({"_raw": call.arguments}).decode()
        return arguments

    def misplaced(self, block: Block, where: str = "a user message") -> None:
        tag = str(block.__struct_config__.tag)
        self.note("dropped", tag, "misplaced_block", f"a {tag} block cannot be sent in {where}")

    def foreign_block(self, block: Opaque) -> None:
        self.note("dropped", "opaque", "foreign_block", f"{block.kind} can be sent only to the host that made it")

    def readable(self, media: Media) -> Media | None:
        """The medium as the reader takes it, under its real type; None where it does not."""
        found = settled(media)
        if found is None or found.kind not in self.dialect.media:
            return None
        away = found.data is None
        if away and not self._is_here(found.url or ""):
            return None
        # What is at an address may be called `image/*`: the host will see what it is.
        if found.kind != "image" or (away and "*" in found.mime):
            return found
        return found if found.mime in self.dialect.image_types else None

    def _is_here(self, url: str) -> bool:
        """Whether the reader can open this address, or has a file of this id."""
        known = self.dialect.file_ids
        if known is not None and re.match(known, url):
            return True
        return is_public(url) and (known is None or url.startswith(("https://", "http://")))

    def unreadable(self, media: Media) -> str:
        """The line of text sent instead of a medium that the reader does not read."""
        found = settled(media)
        if found is None:
            why = "its data is not base64" if media.data or media.url else "it has no data and no address"
        elif found.data is None and not self._is_here(found.url or ""):
            why = "this host cannot open its address or has no file of this id"
        else:
            why = f"this model does not read {found.mime or found.kind}"
        self.note("dropped", "media", "unsupported_media", f"{why}; sent a placeholder instead")
        return omitted(found or media)

    def blank_turn(self) -> None:
        self.note("dropped", "turn", "blank_turn", "nothing in this turn can be sent")

    def first_turn(self) -> None:
        self.note(
            "adapted", "turn", "first_turn", "the first message must come from the user; sent a placeholder first"
        )

    def result_parts(self, response: ToolResponse) -> Sequence[Text | Media | Opaque]:
        """The parts of a tool result, media as text where a result may carry none and nothing may follow it."""
        if self.dialect.tool_result_media != "none":
            return response.content
        return [Text(self.unreadable(part)) if type(part) is Media else part for part in response.content]

    def moves_media(self) -> bool:
        """Whether a medium of a tool result goes to a user message after the results."""
        if self.dialect.tool_result_media != "user":
            return False
        self.note("adapted", "media", "moved_media", "media of a tool result are sent in a user message after it")
        return True

    # Everything else in the request.

    def disable_thinking(self, why: str) -> bool:
        """Turn thinking off in this request, if that can be; whether it was."""
        # A model that always thinks is not asked to stop: the word would be refused.
        if not self.dialect.reasoning.can_disable:
            return False
        self.thinking = False
        self.note("adapted", "option", "thinking_disabled", f"thinking is off in this request: {why}")
        return True

    def option_dropped(self, name: str, why: str) -> None:
        self.note("dropped", "option", "unsupported_option", why, name)

    def option_changed(self, name: str, why: str) -> None:
        self.note("adapted", "option", "option_changed", why, name)

    def effort(self, asked: str) -> str:
        """What is sent for an effort; one that the model does not take is told."""
        sent = effort_for(asked, self.dialect.reasoning)
        if sent != asked:
            why = f"effort {asked} is sent as {sent}: this model takes {', '.join(self.dialect.reasoning.efforts)}"
            self.note("adapted", "option", "thinking_changed", why)
        return sent

    def no_effort(self) -> None:
        """The reader takes no effort at all."""
        if self.options.effort not in (None, "none"):
            self.option_dropped("effort", f"effort: {self.dialect.name} takes none")

    def no_budget(self) -> None:
        """The reader takes no number of tokens to think with."""
        if self.options.thinking_budget is not None and self.thinking:
            self.option_dropped("thinking_budget", f"thinking_budget: {self.dialect.name} takes none")

    def always_thinks(self, sent: str = "") -> None:
        """Thinking was to be off, and the reader cannot stop."""
        why = f"this model cannot stop thinking{f'; sent {sent}, the least allowed' if sent else ''}"
        self.note("adapted", "option", "thinking_changed", why)

    def budget_within(self, budget: int, limit: int | None, least: int) -> int:
        """A thinking budget that leaves a quarter of the caller's token limit for the answer, as both come out of it; 0 where
        the limit is too small for the `least` budget that the host takes."""
        # Below the limit there is room for an answer, however small.
        if limit is None or budget < limit:
            return budget
        # Thinking and answer share the limit (field-guide/kimi.md#sampling): a quarter is kept for the answer.
        room = max(limit - max(limit // 4, 1), least)
        if room >= limit:
            return 0
        why = f"a thinking budget of {budget} tokens is sent as {room}, to leave room for the answer in max_tokens {limit}"
        self.note("adapted", "option", "thinking_changed", why)
        return room

    def user(self) -> str | None:
        """The id of the end user, where the host takes one."""
        asked = self.options.user
        if asked is not None and not self.dialect.user_field:
            self.option_dropped("user", "user is not supported here")
            return None
        return asked

    def kept_thinking(self) -> None:
        """Tell a caller who wants another than this host does, of what cannot be asked of it."""
        keep, asked = self.dialect.reasoning.keep, self.options.keep_thinking
        if asked and not keep:
            self.option_dropped(
                "keep_thinking", "keep_thinking: this host cannot be asked to keep the reasoning of earlier turns"
            )
        elif asked is False and keep == "always":
            self.option_dropped(
                "keep_thinking",
                "keep_thinking: this model keeps the reasoning of all turns, and cannot be asked not to",
            )

    def forced_choice(self, choice: str) -> Literal["required", "named", "auto"]:
        """The kind of a forced tool choice, or `auto` where the host refuses that kind."""
        kind: Literal["required", "named"] = "required" if choice == "required" else "named"
        dialect = self.dialect
        if kind in (dialect.forced_choice_thinking if self.thinking else dialect.forced_choice):
            return kind
        # Whether the kind is refused altogether or only while thinking decides what a caller can do about it.
        while_thinking = " while thinking" if kind in dialect.forced_choice else ""
        why = f"a {kind} tool choice is refused here{while_thinking}; sent as auto"
        self.note("adapted", "option", "tool_choice_changed", why)
        return "auto"

    def parallel_calls(self) -> dict[str, Any]:
        """`parallel_tool_calls`, where it was asked for and is understood."""
        asked = self.options.parallel_tool_calls
        if asked is None:
            return {}
        if self.dialect.parallel_option:
            return {"parallel_tool_calls": asked}
        self.option_dropped("parallel_tool_calls", "parallel_tool_calls is not supported here")
        return {}

    def plain_tool(self, tool: ToolSpec) -> ToolSpec:
        """The tool as the reader can be told of it; what differs is noted."""
        plain = plain_tool(tool, self.dialect)
        if plain.name != tool.name:
            self.note("adapted", "tool", "tool_renamed", f"{tool.qualified_name} is called {plain.name} here")
        if plain.kind != tool.kind:
            why = f"{tool.name} takes plain text; sent as a function with one string parameter"
            self.note("adapted", "tool", "freeform_as_function", why)
        return plain

    def host_tool(self, tool: ToolSpec) -> dict[str, Any] | None:
        """A kind of tool that only its own wire knows, if this is it; for any other reader it is left out, with a note."""
        given = tool.extra.get("tool") if tool.extra else None
        if not isinstance(given, dict):
            return None
        # A record of an older version does not say which wire: it was this one.
        if tool.extra is not None and tool.extra.get("wire", self.dialect.wire) == self.dialect.wire:
            return given
        self.foreign_builtin(tool)
        return {}

    def declared_name(self, tool: ToolSpec) -> str:
        name = self.names.wire(tool.name)
        if name != tool.name:
            self.note("adapted", "tool", "tool_renamed", f"{tool.name} is called {name} here")
        return name

    def declare(self, tool: ToolSpec, *, schema_field: str = "parameters") -> dict[str, Any]:
        """Name, description and schema of a function."""
        described: dict[str, Any] = {"name": self.declared_name(tool)}
        if tool.description:
            described["description"] = tool.description
        given = tool.parameters or {}
        schema = described[schema_field] = PASSES[self.dialect.schema](given)
        # A few definitions that refer to each other twice make a large schema of a small one. Each has its limit; so have all.
        # Measured as JSON, before and after: only growth counts, since what a caller wrote is the caller's business.
        self._grown += max(0, len(json_value(schema)) - len(json_value(given)))
        if self._grown > MAX_SIZE:
            raise InvalidSchema("the schemas of the tools are too large together once their references are followed")
        return described

    def within_limit(self, tools: Sequence[T]) -> Sequence[T]:
        limit = self.dialect.limits.max_tools
        if limit is None or len(tools) <= limit:
            return tools
        why = f"this host takes at most {limit} tools; the last {len(tools) - limit} are left out"
        self.note("dropped", "tool", "too_many_tools", why)
        # The last ones go: tools are listed by importance, if by anything.
        return tools[:limit]

    def foreign_builtin(self, tool: ToolSpec) -> None:
        what = tool.builtin or tool.name
        self.note("dropped", "tool", "foreign_builtin", f"{what} is a built-in tool of another host")

    def token_limit(self) -> int | None:
        """How long the answer may be, as far as the model can go; None leaves it to the host."""
        limit = self.options.max_tokens or self.dialect.default_max_tokens
        return None if limit is None else self.capped(limit)

    def capped(self, limit: int) -> int:
        most = self.dialect.limits.max_output
        if most is None or limit <= most:
            return limit
        self.note(
            "adapted", "option", "max_tokens_changed", f"max_tokens {limit} is above this model's limit of {most}"
        )
        return most

    def sampling(self, names: Sequence[str] = SAMPLING, spelled: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The values of the named options, under their own names or as they are `spelled` here."""
        fields: dict[str, Any] = {}
        for name in names:
            value = getattr(self.options, name)
            if value is not None and value != () and self.takes(name):
                fields[spelled.get(name, name) if spelled else name] = value
        return fields

    def takes(self, name: str) -> bool:
        """Whether the reader takes a sampling option that was given; told if not."""
        allowed = self.dialect.sampling
        # While thinking some models take fewer (field-guide/anthropic-messages.md#thinking).
        if self.thinking and self.dialect.sampling_thinking is not None:
            allowed = self.dialect.sampling_thinking
        if name in allowed:
            return True
        while_thinking = " while it thinks" if name in self.dialect.sampling else ""
        self.option_dropped(name, f"{name} cannot be set for this model{while_thinking}")
        return False

    def answer_schema(self) -> tuple[str, dict[str, Any] | None]:
        """The kind of `response_format` that was asked for (empty for plain text), and its JSON schema."""
        asked = self.options.response_format
        kind = asked.get("type") if asked else None
        if asked is None or kind == "text" or not self.takes("response_format"):
            return "", None
        # The schema stands in a wrapper on OpenAI's wires, and directly in the format elsewhere.
        inner = asked.get("json_schema", asked)
        schema = inner.get("schema") if kind == "json_schema" and isinstance(inner, dict) else None
        return str(kind), schema


class TurnWriter(Protocol):
    """A writer of one turn at a time."""

    context: EncodeContext

    def human(self, turn: Turn) -> None: ...

    def system(self, turn: Turn) -> None: ...

    def answer(self, turn: Turn) -> None: ...

    def results(self, blocks: Sequence[Block]) -> None: ...


def write_turns(writer: TurnWriter, turns: Sequence[Turn], offset: int) -> None:
    """Write lawful turns in their order; notes are about the turn being written."""
    context = writer.context
    for context.turn, turn in enumerate(turns, offset):
        if turn.speaker == "human":
            writer.human(turn)
        elif turn.speaker == "ai":
            writer.answer(turn)
        elif turn.speaker == "tool":
            writer.results(turn.blocks)
        else:
            writer.system(turn)


def result_text(response: ToolResponse, texts: Sequence[str], has_media: bool = False) -> str:
    """The text of a tool result, for wires without an error flag: a failed one says so, unless it does already."""
    text = "\n".join(texts) or (SEE_MEDIA if has_media else "")
    # Looked for in the beginning only: a result may speak of errors without being one.
    return f"Error: {text}" if response.is_error and "error" not in text[:40].lower() else text
