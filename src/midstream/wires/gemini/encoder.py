"""Conversation -> one generateContent request, as exact as Gemini wants it.

The history is written by ContentsWriter (and kept in the cache); this module adds what stands around it: system instruction,
tools, tool choice, generation config. The model stands in the path, not in the body. What would be refused is left out or
bent, and noted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...core.blocks import Conversation
from ...core.dialect import Dialect, Options
from ...core.errors import InvalidHistory
from ...core.handoff import Action, Note
from ...core.schemas import PASSES
from ...core.tools import ToolSpec
from ..json_border import json_value
from ..outgoing import HistoryCache, write_history
from ..request import Request
from .thinking import thinking_config
from .writer import ContentsWriter, encode_content, encode_text

BUILTINS = frozenset({
    "googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext", "fileSearch", "computerUse", "googleMaps",
    "enterpriseWebSearch", "retrieval",
})  # fmt: skip
MAX_STOPS = 5
_UNSAFE = re.compile(rb"[^A-Za-z0-9/._~@-]")
_SAMPLING = {
    "temperature": "temperature",
    "top_p": "topP",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}


def encode_gemini(
    conversation: Conversation,
    dialect: Dialect,
    model: str,
    *,
    tools: Sequence[ToolSpec] = (),
    options: Options = Options(),
    cache: HistoryCache | None = None,
) -> Request:
    key = ("gemini", id(dialect), model, options.missing_reasoning, options.foreign_thinking, options.tool_format)
    writer = write_history(conversation.turns, lambda: ContentsWriter(dialect, options, model), key, cache)
    return _GeminiRequest(dialect, options, model, writer).build(conversation, tools)


def model_path(model: str, stream: bool) -> str:
    """`/models/x:streamGenerateContent?alt=sse`; a name that says its collection (`tunedModels/x`) keeps it."""
    name = model if model.startswith(("models/", "tunedModels/", "endpoints/")) else f"models/{model}"
    spelled = _UNSAFE.sub(lambda found: f"%{found[0][0]:02X}".encode(), name.encode("utf-8", "replace")).decode()
    return f"/{spelled}:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"


class _GeminiRequest:
    def __init__(self, dialect: Dialect, options: Options, model: str, writer: ContentsWriter) -> None:
        self.dialect = dialect
        self.options = options
        self.model = model
        self.writer = writer
        self.notes: list[Note] = []

    def build(self, conversation: Conversation, tools: Sequence[ToolSpec]) -> Request:
        body: dict[str, Any] = {}
        system = self._system(conversation)
        if system:
            body["systemInstruction"] = {"parts": system}
        described, functions = self._tools(tools)
        if described:
            body["tools"] = described
        choice = self._choice() if functions else {}
        if choice:
            body["toolConfig"] = {"functionCallingConfig": choice}
        config = self._generation()
        if config:
            body["generationConfig"] = config
        for extra in (self.dialect.extra_body, self.options.extra_body):
            _merge(body, extra or {})
        contents = self._contents()
        # One join for the whole body: fields and contents are both separated by commas.
        head = json_value(body)[:-1] + (b"," if body else b"")
        contents[0] = head + b'"contents":[' + contents[0]
        contents[-1] += b"]}"
        return Request(
            "POST",
            model_path(self.model, self.options.stream),
            {"content-type": "application/json", **(self.dialect.headers or {})},
            b",".join(contents),
            notes=tuple(self.writer.notes) + tuple(self.notes),
            tool_names=self.writer.names.changed,
            stream=self.options.stream,
            wire=self.dialect.wire,
            model=self.model,
        )

    def _note(self, action: Action, what: str, why: str) -> None:
        self.notes.append(Note(action, what, why))

    def _contents(self) -> list[bytes]:
        writer = self.writer
        contents = writer.closed.copy()
        role, parts, prefill = writer.role, writer.parts, self.options.prefill
        if prefill and role == "model":
            parts = [*parts, encode_text(prefill)]
        if role:
            contents.append(encode_content(role, parts))
        if not contents:
            raise InvalidHistory("the conversation is empty: add a human turn first")
        if prefill and role != "model":
            contents.append(encode_content("model", [encode_text(prefill)]))
        return contents

    @staticmethod
    def _system(conversation: Conversation) -> list[dict[str, Any]]:
        system = conversation.system
        texts = [system] if isinstance(system, str) else [part.text for part in system]
        return [{"text": text} for text in texts if text.strip()]

    def _tools(self, tools: Sequence[ToolSpec]) -> tuple[list[dict[str, Any]], bool]:
        """The tools of the body, and whether there are functions among them."""
        functions: list[dict[str, Any]] = []
        described: list[dict[str, Any]] = []
        for tool in tools:
            if tool.builtin is None:
                functions.append(self._function(tool))
            elif tool.builtin in BUILTINS:
                described.append({tool.builtin: (tool.extra or {}).get("config", {})})
            else:
                self._note("dropped", "tool", f"{tool.builtin} is another host's built-in tool")
        limit = self.dialect.limits.max_tools
        if limit is not None and len(functions) > limit:
            self._note(
                "dropped", "tool", f"this host takes {limit} tools; the last {len(functions) - limit} are left out"
            )
            functions = functions[:limit]
        if functions:
            described.append({"functionDeclarations": functions})
        return described, bool(functions)

    def _function(self, tool: ToolSpec) -> dict[str, Any]:
        name = self.writer.names.wire(tool.name)
        if name != tool.name:
            self._note("adapted", "tool", f"{tool.name} is called {name} here")
        described: dict[str, Any] = {"name": name}
        if tool.description:
            described["description"] = tool.description
        schema = PASSES[self.dialect.schema](tool.parameters or {})
        if schema.get("properties"):  # an object without any is refused; leaving it out says the same
            described["parameters"] = schema
        extra = tool.extra or {}
        return {**described, **{key: extra[key] for key in ("behavior", "response") if key in extra}}

    def _choice(self) -> dict[str, Any]:
        options, dialect = self.options, self.dialect
        asked = options.tool_choice
        if options.parallel_tool_calls is not None:
            self._note("dropped", "option", "parallel_tool_calls is not understood here")
        if asked is None:
            return {}
        if asked in ("auto", "none"):
            return {"mode": asked.upper()}
        kind = "required" if asked == "required" else "named"
        if kind not in dialect.forced_choice:
            self._note("adapted", "option", f"a {kind} tool choice is refused here; sent as auto")
            return {"mode": "AUTO"}
        if kind == "required":
            return {"mode": dialect.required_word}
        return {"mode": dialect.required_word, "allowedFunctionNames": [self.writer.names.wire(asked)]}

    def _generation(self) -> dict[str, Any]:
        options, dialect = self.options, self.dialect
        config: dict[str, Any] = {}
        limit = options.max_tokens or dialect.default_max_tokens
        if limit is not None:
            most = dialect.limits.max_output
            if most is not None and limit > most:
                self._note("adapted", "option", f"max_tokens {limit} is above this model's {most}")
                limit = most
            config[dialect.max_tokens_field] = limit
        for name, field in _SAMPLING.items():
            value = getattr(options, name)
            if value is None:
                continue
            if name in dialect.sampling:
                config[field] = value
            else:
                self._note("dropped", "option", f"{name} is fixed or unknown for this model")
        if options.stop:
            if len(options.stop) > MAX_STOPS:
                self._note("dropped", "option", f"only {MAX_STOPS} stop sequences are taken here")
            config["stopSequences"] = options.stop[:MAX_STOPS]
        thinking = thinking_config(options, dialect, self.notes)
        if thinking:
            config["thinkingConfig"] = thinking
        self._format(config)
        return config

    def _format(self, config: dict[str, Any]) -> None:
        asked = self.options.response_format
        if asked is None or asked.get("type") == "text":
            return
        config["responseMimeType"] = "application/json"
        inner = asked.get("json_schema", asked)
        schema = inner.get("schema") if asked.get("type") == "json_schema" and isinstance(inner, dict) else None
        if schema is not None:
            config["responseJsonSchema"] = schema


def _merge(body: dict[str, Any], extra: dict[str, Any]) -> None:
    """The caller's own fields go last; an object joins the object that is there."""
    for key, value in extra.items():
        known = body.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            body[key] = {**known, **value}
        else:
            body[key] = value
