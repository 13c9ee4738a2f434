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
from ...core.errors import InvalidHistory
from ...core.handoff import Action, Note
from ...core.tools import ToolSpec
from ..asking import Asking
from ..body import join_body, merge_body
from ..declarations import declare, within_limit
from ..json_border import json_value
from ..request import Request
from ..sampling import sampling_fields, token_limit
from .thinking import thinking_config
from .writer import ContentsWriter, encode_content, encode_text

BUILTINS = frozenset({
    "googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext", "fileSearch", "computerUse", "googleMaps",
    "enterpriseWebSearch", "retrieval",
})  # fmt: skip
MAX_STOPS = 5
_UNSAFE = re.compile(rb"[^A-Za-z0-9/._~@-]")
_SPELLED = {"top_p": "topP", "presence_penalty": "presencePenalty", "frequency_penalty": "frequencyPenalty"}


def encode_gemini(asking: Asking) -> Request:
    options = asking.options
    key = (options.missing_reasoning, options.foreign_thinking, options.tool_format)
    return _GeminiRequest(asking, asking.history(ContentsWriter, *key)).build()


def model_path(model: str, stream: bool) -> str:
    """`/models/x:streamGenerateContent?alt=sse`; a name that says its collection (`tunedModels/x`) keeps it."""
    name = model if model.startswith(("models/", "tunedModels/", "endpoints/")) else f"models/{model}"
    spelled = _UNSAFE.sub(lambda found: f"%{found[0][0]:02X}".encode(), name.encode("utf-8", "replace")).decode()
    return f"/{spelled}:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"


class _GeminiRequest:
    def __init__(self, asking: Asking, writer: ContentsWriter) -> None:
        self.asking = asking
        self.dialect = asking.dialect
        self.options = asking.options
        self.writer = writer
        self.notes: list[Note] = []

    def build(self) -> Request:
        body: dict[str, Any] = {}
        system = self._system(self.asking.conversation)
        if system:
            body["systemInstruction"] = {"parts": system}
        described, functions = self._tools(self.asking.tools)
        if described:
            body["tools"] = described
        choice = self._choice() if functions else {}
        if choice:
            body["toolConfig"] = {"functionCallingConfig": choice}
        config = self._generation()
        if config:
            body["generationConfig"] = config
        for extra in (self.dialect.extra_body, self.options.extra_body):
            merge_body(body, extra)
        head = json_value(body)[:-1] + (b"," if body else b"")
        return self.asking.request(
            model_path(self.asking.model, self.options.stream),
            join_body(head + b'"contents":[', self._contents(), b"]}"),
            (*self.writer.notes, *self.notes),
            tool_names=self.writer.names.changed,
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
        if functions:
            described.append({"functionDeclarations": within_limit(functions, self.dialect, self.notes)})
        return described, bool(functions)

    def _function(self, tool: ToolSpec) -> dict[str, Any]:
        described = declare(tool, self.dialect, self.writer.names, self.notes)
        if not described["parameters"].get("properties"):
            del described["parameters"]  # an object without any is refused; leaving it out says the same
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
        limit = token_limit(options, dialect, self.notes)
        if limit is not None:
            config[dialect.max_tokens_field] = limit
        config |= sampling_fields(options, dialect, self.notes, spelled=_SPELLED)
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
