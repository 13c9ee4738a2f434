"""How a double misbehaves, by name: what goes wrong with a request, with the answer, or with the bytes of a chat answer.

A fault acts at one or more of these places. `on_request` changes the request that the model sees, `on_count` the part of it
that is counted, `on_answer` the answer, `write` the JSON of a chat answer, chunk by chunk. `429`, `500`, `cut`, `stall` and the refusals are the
server's own, which has the connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from ..core.blocks import Thinking, ToolCall, ToolResponse
from ..core.errors import LocalError
from ..toolformats.registry import FORMATS, text_format
from ..wires.request import ParsedRequest
from .answer import Answer, Call, Style

Json: TypeAlias = dict[str, Any]
_DATA = b"data: "
# Few enough for a probe of four rounds to notice.
_ROUNDS = 3
"""A double with the fault `tire` stops calling after this many rounds."""


class FaultContext(msgspec.Struct, frozen=True):
    """What an answer that goes wrong depends on."""

    request: ParsedRequest
    style: Style
    number: int
    """The number of this request, counted by the double."""

    @property
    def rounds(self) -> int:
        """How often tools were called in this conversation."""
        return sum(1 for turn in self.request.conversation.turns if turn.speaker == "ai" and turn.tool_calls)

    @property
    def ids(self) -> list[str]:
        """The ids of the history, as the client sent them."""
        return [call.raw_id or call.id for turn in self.request.conversation.turns for call in turn.tool_calls]


class WriteState(msgspec.Struct):
    """The state of one chat answer while it is written."""

    streamed: bool
    pieces: int = 0
    names: dict[int, str] = {}
    withheld: dict[int, str] = {}


class Fault(msgspec.Struct, frozen=True):
    """One way to misbehave; the callables say where it acts."""

    description: str
    on_request: Callable[[ParsedRequest], ParsedRequest] | None = None
    on_count: Callable[[ParsedRequest], ParsedRequest] | None = None
    on_answer: Callable[[Answer, FaultContext], Answer] | None = None
    write: Callable[[Json, WriteState], list[Json]] | None = None


def faulty_request(request: ParsedRequest, faults: Iterable[str]) -> ParsedRequest:
    """The request as the model sees it."""
    for fault in _each(faults):
        request = fault.on_request(request) if fault.on_request is not None else request
    return request


def counted_request(request: ParsedRequest, faults: Iterable[str]) -> ParsedRequest:
    """The part of the request that is counted."""
    for fault in _each(faults):
        request = fault.on_count(request) if fault.on_count is not None else request
    return request


def faulty_answer(answer: Answer, faults: Iterable[str], context: FaultContext) -> Answer:
    for fault in _each(faults):
        answer = fault.on_answer(answer, context) if fault.on_answer is not None else answer
    return answer


def changes_bytes(faults: Collection[str]) -> bool:
    """Whether any of them changes the bytes of an answer."""
    return any(fault.write is not None for fault in _each(faults))


def faulty_body(body: bytes, faults: Collection[str]) -> bytes:
    """A whole chat answer gone wrong."""
    # A fault may drop or double a chunk of a stream; a whole body stays one.
    (spoiled,) = _faulty_chunks([msgspec.json.decode(body)], faults, WriteState(False))
    return msgspec.json.encode(spoiled)


def faulty_stream(pieces: Iterable[bytes], faults: Collection[str]) -> list[bytes]:
    """The pieces of a chat stream gone wrong."""
    state = WriteState(True)
    out: list[bytes] = []
    for piece in pieces:
        # Comments and `[DONE]` pass as they are.
        if not piece.startswith(_DATA + b"{"):
            out.append(piece)
            continue
        chunks = _faulty_chunks([msgspec.json.decode(piece[len(_DATA) :])], faults, state)
        out += [_DATA + msgspec.json.encode(chunk) + b"\n\n" for chunk in chunks]
    return out


def _faulty_chunks(chunks: list[Json], faults: Collection[str], state: WriteState) -> list[Json]:
    for fault in _each(faults):
        if fault.write is not None:
            chunks = [each for chunk in chunks for each in fault.write(chunk, state)]
    return chunks


def _each(faults: Iterable[str]) -> list[Fault]:
    # In the order of the table, whatever the order they were asked for in: ids go before their indexes.
    wanted = set(faults)
    return [fault for name, fault in FAULTS.items() if name in wanted]


def check_fault(fault: str | int) -> str:
    """The name of a fault; LocalError if there is none."""
    if str(fault) not in FAULTS:
        raise LocalError(f"unknown fault {str(fault)!r}; expected one of {', '.join(FAULTS)}")
    return str(fault)


# What the model is told.


def _without(**fields: Any) -> Callable[[ParsedRequest], ParsedRequest]:
    """A request whose options were not read."""

    def hear(request: ParsedRequest) -> ParsedRequest:
        extra = {
            name: value
            for name, value in (request.options.extra_body or {}).items()
            # A choice that our options have no word for stays in its own wire's field.
            if "tool_choice" not in fields or name not in ("tool_choice", "toolConfig")
        }
        return replace(request, options=replace(request.options, extra_body=extra or None, **fields))

    return hear


def _forgets_results(request: ParsedRequest) -> ParsedRequest:
    turns = [
        replace(
            turn,
            blocks=tuple(
                [replace(block, content=()) if isinstance(block, ToolResponse) else block for block in turn.blocks]
            ),
        )
        for turn in request.conversation.turns
    ]
    return replace(request, conversation=replace(request.conversation, turns=tuple(turns)))


# What is counted.


def _forgets_reasoning(request: ParsedRequest) -> ParsedRequest:
    turns = [
        replace(turn, blocks=tuple([block for block in turn.blocks if not isinstance(block, Thinking)]))
        for turn in request.conversation.turns
    ]
    return replace(request, conversation=replace(request.conversation, turns=tuple(turns)))


def _forgets_system(request: ParsedRequest) -> ParsedRequest:
    turns = [turn for turn in request.conversation.turns if turn.speaker != "system"]
    return replace(request, conversation=replace(request.conversation, system="", turns=tuple(turns)))


def _forgets_tools(request: ParsedRequest) -> ParsedRequest:
    return replace(request, tools=())


# What is said.


def _leaks(name: str) -> Callable[[Answer, FaultContext], Answer]:
    """The calls as this format's markers in the text, as some hosts let them through."""

    def say(answer: Answer, context: FaultContext) -> Answer:
        if not answer.calls:
            return answer
        return replace(answer, text=_as_text(name, answer, context), calls=())

    return say


def _as_text(name: str, answer: Answer, context: FaultContext) -> str:
    first = context.style.first_call
    calls = [ToolCall(f"hist_tool_{number}", call.name, call.json) for number, call in enumerate(answer.calls)]
    ids = [f"functions.{call.name}:{first + number}" for number, call in enumerate(calls)]
    return text_format(name).answer(answer.text, calls, ids)


def _leaks_into_thinking(answer: Answer, context: FaultContext) -> Answer:
    if not answer.calls:
        return answer
    thinking = _as_text("kimi", replace(answer, text=answer.thinking or "I will look."), context)
    return replace(answer, thinking=thinking, text=answer.text or "Done.", calls=())


def _leaves_a_tag(answer: Answer, context: FaultContext) -> Answer:
    return replace(answer, text=f"I think so.</think>{answer.text}") if answer.text else answer


def _leaks_into_arguments(answer: Answer, context: FaultContext) -> Answer:
    calls = [
        replace(
            call,
            arguments={
                name: f"{value}<|tool_call_end|>" if isinstance(value, str) else value
                for name, value in call.arguments.items()
            },
        )
        for call in answer.calls
    ]
    return replace(answer, calls=tuple(calls))


def _announces(answer: Answer, context: FaultContext) -> Answer:
    if not answer.calls:
        return answer
    return replace(answer, text=f"I will now use {answer.calls[0].name}:", calls=())


def _says_nothing(answer: Answer, context: FaultContext) -> Answer:
    return replace(answer, text="", thinking=answer.thinking or "Let me think about it.", calls=())


def _tires(answer: Answer, context: FaultContext) -> Answer:
    if context.rounds < _ROUNDS or not answer.calls:
        return answer
    return replace(answer, text="That is all I found.", calls=())


def own_ids(style: Style) -> re.Pattern[str]:
    """The shape of the ids that a host gives its calls."""
    # The style makes one id with a name that cannot occur; its numbers and that name are then replaced by patterns.
    return re.compile(re.sub(r"\d+", r"\\d+", re.escape(style.call_id("\0", 0)).replace(re.escape("\0"), ".+")))


def _loses_calls_by_ids(answer: Answer, context: FaultContext) -> Answer:
    own = own_ids(context.style)
    if all(own.fullmatch(wire_id) for wire_id in context.ids) or not answer.calls:
        return answer
    return replace(answer, text="I have read it.", calls=())


def _breaks_schemas(answer: Answer, context: FaultContext) -> Answer:
    return replace(answer, calls=tuple([replace(call, arguments=_misfit(call)) for call in answer.calls]))


def _misfit(call: Call) -> Json:
    """Arguments with one value of another type, or an object that no schema of ours allows."""
    wrong = {
        name: [value] if isinstance(value, str | int | float) else "wrong" for name, value in call.arguments.items()
    }
    return wrong or {"unheard_of": [None]}


def _drifts(answer: Answer, context: FaultContext) -> Answer:
    # By the number of the request, not by chance: a double gives the same answers in each run.
    return replace(answer, input_tokens=answer.input_tokens + context.number)


# What is written, on a chat wire.


def _calls(chunk: Json) -> Iterable[Json]:
    for choice in chunk.get("choices", ()):
        for key in ("delta", "message"):
            yield from (choice.get(key) or {}).get("tool_calls") or ()


def _at_calls(change: Callable[[Json, WriteState], None]) -> Callable[[Json, WriteState], list[Json]]:
    def write(chunk: Json, state: WriteState) -> list[Json]:
        for call in _calls(chunk):
            change(call, state)
        return [chunk]

    return write


def _repeat_id(call: Json, state: WriteState) -> None:
    if "id" in call:
        call["id"] = "call_0"


def _restart_id(call: Json, state: WriteState) -> None:
    if "id" in call:
        call["id"] = f"call_{call.get('index', state.pieces)}"
        state.pieces += 0 if "index" in call else 1


def _rename_id(call: Json, state: WriteState) -> None:
    state.pieces += 1
    call["id"] = f"chatcmpl-tool-{state.pieces:04d}"


def _no_id(call: Json, state: WriteState) -> None:
    call.pop("id", None)


def _restart_index(call: Json, state: WriteState) -> None:
    if "index" in call:
        call["index"] = 0


def _shift_index(call: Json, state: WriteState) -> None:
    if "index" in call:
        call["index"] += 1


def _repeat_name(call: Json, state: WriteState) -> None:
    function, index = call.get("function") or {}, call.get("index", 0)
    if function.get("name"):
        state.names[index] = function["name"]
    elif state.streamed:
        function["name"] = state.names.get(index, "")


def _late_name(call: Json, state: WriteState) -> None:
    function, index = call.get("function") or {}, call.get("index", 0)
    if state.streamed and function.get("name"):
        state.withheld[index] = function.pop("name")
    elif index in state.withheld:
        function["name"] = state.withheld.pop(index)


def _cut_name(call: Json, state: WriteState) -> None:
    function = call.get("function") or {}
    if function.get("name"):
        function["name"] = function["name"][:-2]


def _break_json(call: Json, state: WriteState) -> None:
    function = call.get("function") or {}
    if isinstance(function.get("arguments"), str):
        function["arguments"] = function["arguments"].replace("{", "{,", 1)


def _merge_calls(chunk: Json, state: WriteState) -> list[Json]:
    """Two calls under one index, the second without id and name: their arguments run together."""
    for choice in chunk.get("choices", ()):
        message = choice.get("message") or {}
        calls: list[Json] = message.get("tool_calls") or []
        if len(calls) > 1:
            joined = "".join([call["function"]["arguments"] for call in calls])
            message["tool_calls"] = [{**calls[0], "function": {**calls[0]["function"], "arguments": joined}}]
        for call in (choice.get("delta") or {}).get("tool_calls") or ():
            # Of the first call nothing is changed: clients open it properly, and then the second one's pieces fall into it.
            if call.get("index"):
                call["index"] = 0
                call.pop("id", None)
                call.get("function", {}).pop("name", None)
    return [chunk]


def _finish(words: dict[str, str | None]) -> Callable[[Json, WriteState], list[Json]]:
    def write(chunk: Json, state: WriteState) -> list[Json]:
        for choice in chunk.get("choices", ()):
            said = choice.get("finish_reason")
            if said in words:
                choice["finish_reason"] = words[said]
        return [chunk]

    return write


def _no_usage(chunk: Json, state: WriteState) -> list[Json]:
    # The chunk that holds nothing else goes as a whole.
    if chunk.get("usage") and not chunk.get("choices"):
        return []
    chunk.pop("usage", None)
    for choice in chunk.get("choices", ()):
        choice.pop("usage", None)
    return [chunk]


def _double_usage(chunk: Json, state: WriteState) -> list[Json]:
    return [chunk, chunk] if state.streamed and chunk.get("usage") else [chunk]


def _wrong_sum(chunk: Json, state: WriteState) -> list[Json]:
    if chunk.get("usage"):
        chunk["usage"]["total_tokens"] += 7
    return [chunk]


def _other_when_plain(chunk: Json, state: WriteState) -> list[Json]:
    if not state.streamed:
        for number, call in enumerate(_calls(chunk)):
            call["id"] = f"chatcmpl-tool-{number}"
        for choice in chunk.get("choices", ()):
            choice["finish_reason"] = "eos" if choice.get("finish_reason") == "stop" else choice.get("finish_reason")
    return [chunk]


# One row for each; what is printed of them (docs, --help) is read from here. The order counts where two act together.
FAULTS: dict[str, Fault] = {
    "429": Fault("refused with Retry-After"),
    "500": Fault("an internal error"),
    "cut": Fault("the stream breaks off in the middle"),
    "stall": Fault("the stream goes silent in the middle"),
    "accept-anything": Fault("requests that the host should refuse are answered"),
    "refuse-own-ids": Fault("the ids that the host gave its own calls are refused when they are sent back"),
    "leak": Fault("tool calls arrive as Kimi's markers in the text, whatever the model", on_answer=_leaks("kimi")),
    **{
        f"leak-{name}": Fault(f"tool calls arrive as text in the format {name}", on_answer=_leaks(name)) for name in FORMATS
    },
    "leak-thinking": Fault("tool calls arrive as markers in the reasoning", on_answer=_leaks_into_thinking),
    "leak-arguments": Fault("a marker is left in the arguments of a call", on_answer=_leaks_into_arguments),
    "leak-tags": Fault("the tag that ends thinking is left in the text", on_answer=_leaves_a_tag),
    "announce": Fault("the model announces a call in words and stops", on_answer=_announces),
    "empty": Fault("the answer has reasoning and nothing else", on_answer=_says_nothing),
    "tire": Fault(f"the model stops calling after {_ROUNDS} rounds", on_answer=_tires),
    "lost-by-ids": Fault("the model stops calling once the history has ids that are not the host's own", on_answer=_loses_calls_by_ids),
    "deaf": Fault("tool results are ignored", on_request=_forgets_results),
    "broken-schema": Fault("the arguments of calls do not fit their schema", on_answer=_breaks_schemas),
    "ignore-choice": Fault("tool_choice is ignored", on_request=_without(tool_choice=None)),
    "ignore-limit": Fault("the token limit is ignored", on_request=_without(max_tokens=None)),
    "ignore-stop": Fault("stop words are ignored", on_request=_without(stop=())),
    "ignore-parallel": Fault("parallel_tool_calls is ignored", on_request=_without(parallel_tool_calls=None)),
    "ignore-format": Fault("response_format is ignored", on_request=_without(response_format=None, schema=None)),
    "ignore-echo": Fault("reasoning that is sent back is thrown away", on_count=_forgets_reasoning),
    "ignore-system": Fault("the system prompt is not counted", on_count=_forgets_system),
    "ignore-tools": Fault("declared tools are not counted", on_count=_forgets_tools),
    "drift-usage": Fault("the same prompt is counted differently each time", on_answer=_drifts),
    "repeat-ids": Fault("every call has the same id", write=_at_calls(_repeat_id)),
    "restart-ids": Fault("call ids start over with each answer", write=_at_calls(_restart_id)),
    "rename-ids": Fault("every piece of a call has a different id", write=_at_calls(_rename_id)),
    "no-ids": Fault("calls have no ids", write=_at_calls(_no_id)),
    "merge-index": Fault("two calls run together under one index", write=_merge_calls),
    "restart-index": Fault("every call has index 0", write=_at_calls(_restart_index)),
    "sparse-index": Fault("the first call has index 1", write=_at_calls(_shift_index)),
    "repeat-names": Fault("every piece of a call repeats its name", write=_at_calls(_repeat_name)),
    "late-names": Fault("the name of a call comes after its first piece", write=_at_calls(_late_name)),
    "cut-names": Fault("the last letters of a tool's name are missing", write=_at_calls(_cut_name)),
    "broken-json": Fault("the arguments of calls are not JSON", write=_at_calls(_break_json)),
    "no-finish": Fault("no finish reason is sent", write=_finish(dict.fromkeys(("stop", "tool_calls", "length")))),
    "wrong-finish": Fault("calls end with `stop`", write=_finish({"tool_calls": "stop"})),
    "false-finish": Fault("an answer without calls ends with `tool_calls`", write=_finish({"stop": "tool_calls"})),
    "no-usage": Fault("no tokens are counted", write=_no_usage),
    "double-usage": Fault("tokens are counted twice in one stream", write=_double_usage),
    "wrong-sum": Fault("the total is not the sum of its parts", write=_wrong_sum),
    "plain-differs": Fault("answers that are not streamed have other ids and finish reasons", write=_other_when_plain),
}  # fmt: skip
"""Every fault that a double can play."""
