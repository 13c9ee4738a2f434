"""OpenAI chat answers -> events: streams and whole bodies through one reading of choice 0.

Reasoning is taken from the first field that has any, never twice. Tool deltas are routed by wires/tool_deltas. The end is a
finish reason; [DONE] or EOF without one is `truncated`, unless the dialect's host never sends one, or the answer is one whole
body. What stands where text belongs and is none (an object, a list of plain values) is its JSON as text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ...core.blocks import Media, Opaque, Turn, Usage
from ...core.errors import ProviderError, TruncatedStream
from ...toolformats.apply import FilteredText
from ...toolformats.findings import TextFilter
from ..decode_context import DecodeContext
from ..lenient_json import convert_leniently, decode_object, text_of, token_count
from ..provider_errors import is_error, provider_error, told_error
from ..sse import SSEParser
from ..stencil import Template, is_empty
from ..stop_reasons import later_stop, settled_stop
from ..stream_decoder import StreamDecoder
from ..tool_deltas import ToolDelta, ToolDeltaRouter
from .shapes import Call, Choice, Chunk, Message

# What hosts say for the same few endings. A word that is not here is kept as it is.
STOP_REASONS = {
    "stop": "end_turn",
    "eos": "end_turn",
    "end_turn": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}

# Types that the lenient reading insists on. A field of another
# type is made text or dropped: none of these is worth an answer.
_CHUNK_TYPES: dict[str, type | tuple[type, ...]] = {
    "created": (int, float),
    "id": str, "model": str, "object": str, "usage": dict, "x_groq": dict, "citations": list, "search_results": list,
}  # fmt: skip
_decode_chunk = msgspec.json.Decoder(Chunk).decode
# In order of how common they are; the first that has text counts.
# Hosts send two at once (field-guide/reasoning.md#fields).
_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
# Fields that a host may cut in the middle of a character.
_MAY_SPLIT = frozenset({*_REASONING_FIELDS, "content", "refusal", "text", "arguments"})
_PARTS = ("text", "thinking", "image_url")


def stop_reason(raw: str | None, calls: int) -> str:
    """The host's word in ours. Calls that end with a plain `stop` are still calls; without a call nothing waits for one."""
    # Never said: a host that ends without a word.
    if not raw:
        return "unknown"
    return settled_stop(STOP_REASONS.get(raw, raw), calls)


def read_chunk(data: bytes) -> Chunk:
    """Typed and fast, or lenient and slow; MalformedStream if it is no chunk."""
    # Typed decoding is what makes a chunk cheap. Everything odd is an exception to it, literally.
    try:
        return _decode_chunk(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        value = decode_object(data, "a chunk object", _MAY_SPLIT)
        return convert_leniently(_softened(value), Chunk)


def make_decoder(context: DecodeContext) -> StreamDecoder:
    reader = ChatStreamReader(context, context.text_filter(), context.reasoning_filter())
    return StreamDecoder(reader, SSEParser(limit=context.limit), limit=context.limit, template=reader.template)


def text_answer(context: DecodeContext, body: bytes) -> Turn | None:
    """See DecodeContext.text_answer."""
    try:
        chunk = _decode_chunk(body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    choice = chunk.choices[0] if chunk.choices is not None and len(chunk.choices) == 1 else None
    message = choice.message if choice is not None else None
    if choice is None or message is None or type(message.content) is not str or _says_more(chunk, choice, message):
        return None
    builder = context.builder()
    if chunk.usage:
        builder.usage = read_usage(chunk.usage)
    raw = choice.finish_reason
    return builder.text_answer(message.content, stop_reason(raw, 0), raw, chunk.model or "", chunk.id)


def _says_more(chunk: Chunk, choice: Choice, message: Message) -> bool:
    """Whether there is anything in a whole answer beside its text, its end and the top's usage."""
    return bool(
        chunk.error is not None
        or chunk.x_groq is not None
        or chunk.citations
        or chunk.search_results
        or choice.index
        or choice.error is not None
        or choice.usage is not None
        or not choice.finish_reason
        or choice.finish_reason == "error"
        or message.tool_calls
        or message.refusal
        or message.function_call is not None
        or message.annotations
        or message.images
        or message.audio
        or message.reasoning_details
        or any(getattr(message, field) is not None for field in _REASONING_FIELDS)
    )


class ChatStreamReader:
    """Reads chunks, or the one body that stands for them all."""

    __slots__ = (
        "_calls", "_details", "_dialect", "_filter", "_finish", "_for_own_client", "_is_whole", "_make_reasoning_filter", "_other_fields",
        "_reasoning_text", "_seen", "_sources", "_usage", "builder",
    )  # fmt: skip

    def __init__(
        self,
        context: DecodeContext,
        text_filter: TextFilter | None = None,
        reasoning_filter: Callable[[], TextFilter] | None = None,
    ) -> None:
        self._dialect = context.dialect
        self._for_own_client = context.for_own_client
        # Names of a user's own host, which no typed shape can have: its chunks are read in a slower way.
        self._other_fields = [name for name in context.dialect.reasoning.fields if name not in _REASONING_FIELDS]
        self.builder = context.builder()
        self._calls = ToolDeltaRouter(self.builder, context.wire_names, context.tool_names)
        self._filter = FilteredText(self.builder, text_filter) if text_filter is not None else None
        self._make_reasoning_filter = reasoning_filter
        self._reasoning_text: FilteredText | None = None
        self._details: list[Any] = []
        self._finish: str | None = None
        self._usage: dict[str, Any] | None = None
        self._sources: dict[str, list[Any]] = {}
        # Set by the first real chunk: before it, an empty `choices` proves nothing.
        self._seen = False  # a chunk has come
        self._is_whole = False

    @property
    def end_was_said(self) -> bool:
        return bool(self._finish)

    def event(self, data: bytes, name: str) -> None:
        if name == "error":
            raise told_error(data, self._dialect.provider)
        if self._other_fields:
            data = _with_usual_fields(data, self._other_fields)
        try:
            chunk = _decode_chunk(data)
        except (msgspec.DecodeError, RecursionError, ValueError):
            chunk = read_chunk(data)
            # Only the lenient reading lets half characters through, so only from here on has anybody to look for them.
            self._halves()
        self._chunk(chunk)

    def template(self, data: bytes, name: str) -> Template | None:
        """A chunk of one text, of reasoning or of arguments, and nothing else."""
        if self._other_fields:
            return None
        try:
            chunk = _decode_chunk(data)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return None
        choices = chunk.choices
        message = choices[0].delta if choices and len(choices) == 1 else None
        # Only one choice, and only the first: others were not asked for.
        if not self._seen or message is None or not choices or choices[0].index:
            return None
        # Timestamps and ids differ or repeat without meaning. Left out, so that they do not stop a stencil.
        chunk.id = chunk.created = chunk.model = chunk.object = None  # not looked at once the answer has begun
        if not is_empty(chunk, but="choices") or not is_empty(choices[0], but="delta"):
            return None

        if message.content and is_empty(message, but="content"):
            return Template(chunk, message, "content", self._content, self._all_content)
        field = next((name for name in _REASONING_FIELDS if getattr(message, name)), "")
        if field and is_empty(message, but=field):
            return Template(chunk, message, field, lambda text: self._reason(message, field, text), self._all_reasoning)
        calls = message.tool_calls
        function = calls[0].function if calls and len(calls) == 1 else None
        if not calls or function is None or not is_empty(message, but="tool_calls"):
            return None
        # The index is taken out for the check that nothing else is there, and put back.
        index, calls[0].index = calls[0].index, None
        if index is None or not is_empty(calls[0], but="function") or not is_empty(function, but="arguments"):
            return None
        calls[0].index = index

        def tell(text: str) -> None:
            # The fast way only where no reasoning is open: its filter may hold something back that comes first.
            if self._reasoning_text is None and self._calls.more(index, text):
                return
            function.arguments = text
            self._message(message)

        return Template(chunk, function, "arguments", tell, lambda texts: self._all_arguments(index, texts))

    def _all_content(self, texts: list[str]) -> bool:
        if self._reasoning_text is not None:
            return False
        return self.builder.all_text(texts) if self._filter is None else self._filter.feed_all(texts)

    def _all_reasoning(self, texts: list[str]) -> bool:
        if self._reasoning_text is not None:
            return self._reasoning_text.feed_all(texts)
        return self._make_reasoning_filter is None and self.builder.all_thinking(texts) is not None

    def _reason(self, message: Message, field: str, text: str) -> None:
        setattr(message, field, text)
        self._reasoning(message)

    def _all_arguments(self, index: int, texts: list[str]) -> bool:
        return self._reasoning_text is None and self._calls.all_more(index, texts)

    def whole(self, body: bytes) -> None:
        self._is_whole = True
        self._halves()
        self._chunk(read_chunk(_with_usual_fields(body, self._other_fields) if self._other_fields else body))

    def _halves(self) -> None:
        """From here on texts may begin or end in the middle of a character: filters must see every piece."""
        self.builder.split_surrogates = True
        for filtered in (self._filter, self._reasoning_text):
            if filtered is not None:
                filtered.alarm = ""

    def _chunk(self, chunk: Chunk) -> None:
        builder = self.builder
        choices = chunk.choices
        if chunk.error is not None and is_error(chunk.error, beside=choices):
            raise self._refusal(chunk.error)
        if choices is None and (chunk.detail or chunk.object == "error"):
            raise self._refusal(msgspec.to_builtins(chunk))
        # Other hosts send a first chunk with nothing but an id, which is a beginning as well.
        if not self._seen and (choices or chunk.id):  # Azure first sends filter results under no name
            self._seen = True
            builder.start(chunk.model or "", chunk.id)
        # Three places, one figure: it is set, never added up (field-guide/streams.md#usage).
        if chunk.usage is not None:
            self._count(chunk.usage)
        elif chunk.x_groq is not None and isinstance(chunk.x_groq.get("usage"), dict):
            self._count(chunk.x_groq["usage"])
        if chunk.citations:  # xAI and Perplexity: of the whole answer, repeated in every chunk
            self._sources["citations"] = chunk.citations
        if chunk.search_results:
            self._sources["search_results"] = chunk.search_results
        if choices:
            for choice in choices:
                # Choice 0. A host that sends more was asked for one.
                if not choice.index:
                    self._choice(choice)

    def _count(self, usage: dict[str, Any]) -> None:
        """The last usage counts, but one that counts nothing does not unsay another."""
        if self._usage is None or has_counts(usage):
            self._usage = usage

    def _choice(self, choice: Choice) -> None:
        # Perplexity sends both: in a stream `message` repeats all that came, in a body `delta` is empty.
        message = (choice.message or choice.delta) if self._is_whole else (choice.delta or choice.message)
        if message is not None:
            self._message(message)
        elif choice.text:
            self._text(choice.text)
        # After the message: what came beside the error is part of the answer.
        if choice.error is not None or choice.finish_reason == "error":
            self._fail(choice)
        if choice.finish_reason:
            self._finish = later_stop(self._finish, choice.finish_reason, STOP_REASONS)
            self._end_calls()
        # An empty word in a body is an end that was said without saying which.
        elif choice.finish_reason == "" and self._finish is None and choice.message is not None:
            self._finish = ""
        # Moonshot's place for it (field-guide/kimi.md#usage). What stands at the top wins.
        if choice.usage is not None and self._usage is None:
            self._usage = choice.usage

    def _end_calls(self) -> None:
        """A finish reason ends the calls; usage and [DONE] may be a while in coming."""
        for text in (self._reasoning_text, self._filter):
            if text is not None and text.in_call:
                text.close()
        self._calls.finish()

    def _fail(self, choice: Choice) -> None:
        """OpenRouter tells what an upstream host said inside the choice."""
        if choice.error is not None and is_error(choice.error, beside=choice):
            raise self._refusal(choice.error)
        # A client of this wire knows the word, and has the answer so far.
        if choice.finish_reason == "error" and not self._for_own_client:
            raise self._refusal({"message": "the host ended the answer with an error and gave no reason"})

    def _message(self, message: Message) -> None:
        if (
            message.reasoning_content is not None
            or message.reasoning is not None
            or message.reasoning_text is not None
            or message.thinking is not None
            or message.reasoning_details
        ):
            self._reasoning(message)
        if message.content is not None:
            self._content(message.content)
        if message.refusal:
            # A refusal is text to a reader; the flag lets it go back under its own key.
            self.builder.text(message.refusal, {"refusal": True})
        if message.tool_calls:
            self._end_reasoning()
            self._tool_calls(message.tool_calls)
        # The old way to call one function, from before tools; an empty name is a host's filler.
        if message.function_call is not None and message.function_call.name != "":
            self._calls.array([_delta(Call(index=0, function=message.function_call))])
        if message.audio and any(message.audio.values()):
            self._opaque("audio", message.audio)
        if message.annotations:
            self._opaque("annotations", message.annotations)
        if message.images:
            self._opaque("images", message.images)

    def _content(self, content: str | list[Any]) -> None:
        if not content:
            return
        if self._reasoning_text is not None:
            self._end_reasoning()
        # Parts instead of a string: Mistral's thinking, images, a host's own kinds.
        if type(content) is not str:
            self._parts(content)  # type: ignore[arg-type]  # a list then; mypy does not narrow by `type`
        elif self._filter is None:
            self.builder.text(content)
        elif self._filter.alarm not in content:
            self._filter.past.append(content)
            self.builder.text(content)
        else:
            self._filter.feed(content)

    def _tool_calls(self, calls: list[Call]) -> None:
        if self._is_whole:
            self._calls.whole([_delta(call) for call in calls])
            return
        call, function = calls[0], calls[0].function
        # The everyday piece, asked without making a delta of it.
        if (
            len(calls) == 1
            and function is not None
            and not function.name
            and not call.id
            and type(function.arguments) is str
            and call.index is not None
            and call.index >= 0
            and call.extra_content is None
            and call.custom is None
            and self._calls.more(call.index, function.arguments)
        ):
            return
        self._calls.array([_delta(call) for call in calls])

    def _reasoning(self, message: Message) -> None:
        builder = self.builder
        for field in _REASONING_FIELDS:
            text = getattr(message, field)
            if text:
                filtered = self._reasoning_text
                if filtered is not None:
                    if filtered.alarm not in text:
                        filtered.past.append(text)
                        builder.thinking(text, field)
                    else:
                        filtered.feed(text)
                elif self._make_reasoning_filter is None:
                    builder.thinking(text, field)
                else:
                    self._filtered_reasoning(text, field, self._make_reasoning_filter)
                # One field is enough: a second one repeats the first.
                break
            # Kept only where the host will want it back. An empty field from a host that never does is nothing.
            if text == "" and builder.is_blank and self._dialect.reasoning.echo != "never":
                builder.thinking("", field)  # "" is not absent: the echo must carry the field
        else:
            if message.reasoning_details:
                self._details_text(message.reasoning_details)
        # Beside the text: details carry signatures that go back as they are, and the text is for people.
        if self._dialect.reasoning.details and isinstance(message.reasoning_details, list):
            self._details = merge_details(self._details, message.reasoning_details)

    def _filtered_reasoning(self, text: str, field: str, make: Callable[[], TextFilter]) -> None:
        """Some hosts leak calls into the reasoning (field-guide/text-calls.md#markers-that-leak): they are read out of it like out of the text."""
        self._reasoning_text = FilteredText(self.builder, make(), field)
        self._reasoning_text.feed(text)

    def _end_reasoning(self) -> None:
        """Reasoning is over: what its filter held back is due before anything else."""
        if self._reasoning_text is not None:
            self._reasoning_text.close()
            self._reasoning_text = None

    def _details_text(self, details: str | list[Any]) -> None:
        if isinstance(details, str):
            self.builder.thinking(details, "reasoning_details")
            return
        for item in details:
            if isinstance(item, dict):
                text = text_of(item.get("text") or item.get("summary"))
                if text:
                    self.builder.thinking(text, "reasoning_details")

    def _text(self, text: str) -> None:
        if not text:
            return
        if self._filter is None:
            self.builder.text(text)
        else:
            self._filter.feed(text)

    def _parts(self, parts: list[Any]) -> None:
        # A list without a single part is data: some hosts' JSON modes put the parsed answer there.
        if not any(isinstance(part, dict) and _is_part(part) for part in parts):
            self._text(text_of(parts))  # the answer itself is a list: a host's JSON mode
            return
        for part in parts:
            if isinstance(part, dict):
                self._part(part)
            else:
                self._text(text_of(part))

    def _part(self, part: dict[str, Any]) -> None:
        kind, text = part.get("type"), part.get("text")
        if kind == "thinking":
            thought = part.get("thinking")
            for inner in thought if isinstance(thought, list) else (thought,):
                words = text_of(inner.get("text", inner) if isinstance(inner, dict) else inner)
                if words:
                    self.builder.thinking(words, "thinking")
        elif isinstance(text, str) or (kind == "text" and "text" in part):
            self._text(text_of(text))
        elif kind == "image_url" and isinstance(image := part.get("image_url"), dict) and _is_text(image.get("url")):
            self.builder.whole(Media("image/*", url=image["url"]))
        else:
            self._opaque(str(kind), part)

    def _opaque(self, kind: str, data: Any) -> None:
        self.builder.whole(Opaque(kind, data, self.builder.origin))

    def end(self) -> None:
        self._end_reasoning()
        if self._filter is not None:
            self._filter.close()
        self.settle()
        builder = self.builder
        # At the end and once: each chunk repeats them all.
        if self._sources and builder.has_output:
            for kind, found in self._sources.items():
                self._opaque(kind, found)
        # The end must be said. A whole body is its own end.
        if self._finish is None and self._dialect.sends_finish and not (self._is_whole and self._seen):
            what = "without a finish reason" if self._seen else "before anything came"
            raise TruncatedStream(f"the stream ended {what}")
        self._calls.end()
        builder.finish(stop_reason(self._finish, builder.calls) if self._finish else self._unsaid_end(), self._finish)

    def _unsaid_end(self) -> str:
        # A host that never says one: what came decides.
        if self._finish is None:
            return "tool_use" if self.builder.calls else "end_turn"
        return "unknown"

    def settle(self) -> None:
        self._calls.settle()
        if self._usage:
            self.builder.usage = read_usage(self._usage)
        if self._details:
            self.builder.extra = {**(self.builder.extra or {}), "reasoning_details": self._details}

    def _refusal(self, error: Any) -> ProviderError:
        return provider_error(None, {"error": error}, provider=self._dialect.provider)


def merge_details(kept: list[Any], new: list[Any]) -> list[Any]:
    """Structured reasoning comes in fragments: those of one type and index are one item."""
    for item in new:
        last = kept[-1] if kept else None
        if not isinstance(item, dict) or not isinstance(last, dict):
            kept.append(item)
        # An id comes with the first fragment only.
        elif (item.get("type"), item.get("index"), item.get("id")) == (
            last.get("type"), last.get("index"), last.get("id") if item.get("id") else item.get("id"),
        ):  # fmt: skip
            for key, value in item.items():
                joined = (
                    key in ("text", "summary", "data") and isinstance(value, str) and isinstance(last.get(key), str)
                )
                last[key] = last[key] + value if joined else value if value is not None else last.get(key)
        else:
            kept.append(dict(item))
    return kept


def _delta(call: Call) -> ToolDelta:
    function = call.function
    if call.custom and any(call.custom.values()):  # free-form input instead of JSON arguments
        name, text = text_of(call.custom.get("name")), text_of(call.custom.get("input"))
        # Names have had blanks around them from some hosts.
        return ToolDelta(call.index, call.id, name.strip(), text, freeform=True)
    if function is None:
        return ToolDelta(call.index, call.id, extra=call.extra_content)
    arguments = function.arguments
    # A few hosts send arguments as an object: its JSON is what others would have sent.
    if type(arguments) is not str:
        arguments = text_of(arguments)
    name = function.name.strip() if function.name else ""
    return ToolDelta(call.index, call.id, name, arguments, call.extra_content)


def _is_part(part: dict[str, Any]) -> bool:
    return isinstance(part.get("type"), str) or isinstance(part.get("text"), str)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _with_usual_fields(data: bytes, names: list[str]) -> bytes:
    """A chunk with the reasoning of these fields under the usual one; anything unreadable as it is."""
    try:
        chunk = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return data
    choices = chunk.get("choices") if isinstance(chunk, dict) else None
    messages = [
        message
        for choice in (choices if isinstance(choices, list) else ())
        if isinstance(choice, dict)
        for key in ("delta", "message")
        if isinstance(message := choice.get(key), dict)
    ]
    for message in messages:
        for name in names:
            if isinstance(message.get(name), str) and not message.get(_REASONING_FIELDS[0]):
                message[_REASONING_FIELDS[0]] = message.pop(name)
    return msgspec.json.encode(chunk)


def _softened(chunk: dict[str, Any]) -> dict[str, Any]:
    """A chunk whose fields have surprising types, with those fields made fit or left out."""
    for name, wanted in _CHUNK_TYPES.items():
        if name in chunk and not isinstance(chunk[name], wanted):
            # A number where text belongs is worth keeping as text; anything else that does not fit is dropped.
            chunk[name] = None if wanted is not str or chunk[name] is None else str(chunk[name])
    choices = chunk.get("choices")
    if choices is not None and not isinstance(choices, list):
        chunk["choices"] = None
    for choice in chunk.get("choices") or ():
        if not isinstance(choice, dict):
            continue
        for key in ("delta", "message"):
            message = choice.get(key)
            if isinstance(message, dict):
                choice[key] = _softened_message(message)
            elif message is not None:
                choice[key] = None
        reason = choice.get("finish_reason")
        if reason is not None and not isinstance(reason, str):
            choice["finish_reason"] = str(reason)
    return chunk


def _words(value: Any) -> str:
    """The text of an object that holds little else, or the JSON of any other."""
    # `{"type": "text", "text": …}` where a string belongs.
    if isinstance(value, dict) and set(value) <= {"type", "text"} and _is_text(value.get("text")):
        return str(value["text"])
    return text_of(value)


def _softened_message(message: dict[str, Any]) -> dict[str, Any]:
    for name in (*_REASONING_FIELDS, "refusal"):
        found = message.get(name)
        if found is not None and not isinstance(found, str):
            message[name] = _words(found)
    content = message.get("content")
    if content is not None and not isinstance(content, (str, list)):
        known = isinstance(content, dict) and (content.get("type") in _PARTS or list(content) == ["text"])
        message["content"] = [content] if known else text_of(content)
    for name in ("annotations", "images"):
        if message.get(name) is not None and not isinstance(message[name], list):
            message[name] = None
    if message.get("audio") is not None and not isinstance(message["audio"], dict):
        message["audio"] = None
    calls = message.get("tool_calls")
    # One call without its list.
    if isinstance(calls, dict):
        calls = [calls]
    if calls is not None:
        message["tool_calls"] = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else None
    for call in message.get("tool_calls") or ():
        if call.get("id") is not None:
            call["id"] = str(call["id"])
    return message


def read_usage(raw: dict[str, Any]) -> Usage:
    """Missing and null counts are 0. Reasoning is part of the output even where a host counts it apart."""
    prompt = _details(raw, "prompt_tokens_details", "input_tokens_details", "prompt_token_details")
    completion = _details(raw, "completion_tokens_details", "output_tokens_details")
    output = token_count(raw.get("completion_tokens"), raw.get("output_tokens"))
    reasoning = token_count(completion.get("reasoning_tokens")) or token_count(raw.get("reasoning_tokens"))
    # Only if the total shows it: reasoning may exceed the output by
    # a token and still be a part of it (field-guide/kimi.md#usage).
    if (
        reasoning > output
        and token_count(raw.get("total_tokens")) >= token_count(raw.get("prompt_tokens")) + output + reasoning
    ):
        output += reasoning  # hosts of Gemini and Grok leave reasoning out of completion_tokens
    cost = raw.get("cost", raw.get("estimated_cost"))
    return Usage(
        input=token_count(raw.get("prompt_tokens"), raw.get("input_tokens")),
        output=output,
        # DeepSeek's word, Kimi's, Anthropic's imitators', and then OpenAI's (field-guide/streams.md#usage).
        cache_read=(
            token_count(
                raw.get("prompt_cache_hit_tokens"),
                raw.get("cached_tokens"),
                raw.get("cache_read_input_tokens"),
                raw.get("num_cached_tokens"),
            )
            or token_count(prompt.get("cached_tokens"))
        ),
        cache_write=token_count(prompt.get("cache_write_tokens"))
        or token_count(raw.get("cache_creation_input_tokens")),
        reasoning=reasoning,
        cost=float(cost) if isinstance(cost, (int, float)) and not isinstance(cost, bool) else None,
        raw=raw,
    )


def has_counts(raw: dict[str, Any]) -> bool:
    """Whether it counts anything at all."""
    return any(isinstance(value, (int, float)) and value > 0 for value in raw.values())


def _details(raw: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        value = raw.get(name)
        if isinstance(value, dict):
            return value
    return {}
