"""A Python function as a tool: its schema from the signature and docstring, its arguments checked before it runs.

Checking is strict and complete: every unknown, missing and wrong argument is named at once, so that the model can correct
the call in one go. One leniency, because models do it often and it cannot be misread: where the value does not fit the
declared type, but is a string with the JSON of that type ("5" for an integer, "[1]" for a list), or a whole float for an
integer, it is accepted. A parameter that accepts strings always gets the string as it is.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import itertools
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypedDict, Unpack, overload

import msgspec
from msgspec.structs import replace

from ..client.cancellation import in_daemon_thread
from ..core.blocks import FAILED, Media, Text, Value
from ..core.errors import BadArguments, ConfigError
from ..core.nearest import nearest
from ..core.patterns import late_pattern
from ..core.tools import INPUT, Grammar, ToolSpec
from .approval_request import Change

Checked: TypeAlias = dict[str, Any]
Content: TypeAlias = tuple[Text | Media, ...]

_NAME = late_pattern(r"[A-Za-z0-9_-]{1,128}\Z")
_REF = "#/$defs/"

# The three styles of docstrings: Google (`Args:`), numpy (`Parameters`, underlined), reST (`:param name:`).
_GOOGLE_HEAD = late_pattern(r"(?:Args|Arguments|Parameters|Params)\s*:\s*$")
_GOOGLE_ITEM = late_pattern(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY_ITEM = late_pattern(r"\*{0,2}(\w+)\s*(?::.*)?()$")
_RULE = late_pattern(r"\s*-{3,}\s*$")
_REST_ITEM = late_pattern(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")


class Preview(Value, frozen=True):
    """What is known about a call before it runs: the folder it works in, the change to a file, why it is asked about each time
    (if it is), and what the sandbox that it runs in allows (empty: it runs in none)."""

    folder: str = ""
    change: Change | None = None
    caution: str = ""
    sandbox: str = ""


class ToolOptions(TypedDict, total=False):
    """What a Tool may be told about its function."""

    writes: bool
    """It writes files: every call needs approval."""
    runs: bool
    """It runs things: every call needs approval."""
    parallel_safe: bool | None
    """Neighbouring calls may run at the same time; by default those of tools that neither write nor run."""
    timeout: float | None
    """Seconds (default 120); None for a tool that limits its own time."""
    namespace: str
    """The namespace that the tool is declared in."""
    preview: Callable[..., Preview] | None
    """Called with the checked arguments before anybody is asked for approval; where it raises ToolFailed, nobody is asked, and the
    model is told. Anything else that it raises is raised by the run."""


class Tool:
    """A tool of the agent: what the model sees (`spec`) and what runs (`call`). The options are those of ToolOptions.

    `check` turns the parsed arguments into what `call` gets, or raises BadArguments, which the model is told; anything else that it
    raises is raised by the run. `Tool.from_function` and `@tool` derive
    the schema and the check from a function's signature.
    """

    def __init__(
        self,
        spec: ToolSpec,
        call: Callable[..., Any],
        *,
        check: Callable[[dict[str, Any]], Checked] = dict,
        **options: Unpack[ToolOptions],
    ) -> None:
        namespace = options.get("namespace", "")
        if namespace:
            spec = replace(spec, namespace=namespace)
        for name in (spec.name, spec.namespace or "none"):
            if _NAME.match(name):
                continue
            raise ConfigError(
                f"invalid tool name {name!r}; expected 1 to 128 characters of A-Z a-z 0-9 _ - (a host that takes fewer gets a shorter one)"
            )
        self.spec = spec
        self.call = call
        self.check = check
        self.writes = options.get("writes", False)
        self.runs = options.get("runs", False)
        safe = options.get("parallel_safe")
        self.parallel_safe = not (self.writes or self.runs) if safe is None else safe
        self.timeout = options.get("timeout", 120.0)
        self._preview = options.get("preview")

    @classmethod
    def from_function(
        cls, func: Callable[..., Any], *, name: str = "", description: str = "", **options: Unpack[ToolOptions]
    ) -> Tool:
        """A tool from a sync or async function; `name` and `description` replace the function's own."""
        signature = Signature(func)
        spec = ToolSpec(name or func.__name__, description or signature.description, signature.schema)
        return cls(spec, func, check=signature.check, **options)

    @classmethod
    def freeform(
        cls,
        func: Callable[..., Any],
        *,
        name: str = "",
        description: str = "",
        grammar: Grammar | None = None,
        **options: Unpack[ToolOptions],
    ) -> Tool:
        """A tool that takes plain text, from a sync or async function of one string; the model keeps to `grammar` if given."""
        signature = Signature(func)
        if len(signature.types) != 1 or next(iter(signature.types.values())) not in (str, Any):
            raise ConfigError(f"tool {signature.name}: a freeform tool takes one parameter, a string")
        parameter = next(iter(signature.types))
        spec = ToolSpec(name or func.__name__, description or signature.description, kind="freeform", grammar=grammar)

        def check(arguments: dict[str, Any]) -> Checked:
            if INPUT not in arguments:
                raise BadArguments(
                    f"invalid arguments for {spec.name}, nothing was run: it takes one text, as {INPUT!r}"
                )
            return {parameter: arguments[INPUT]}

        return cls(spec, func, check=check, **options)

    @property
    def name(self) -> str:
        """Its name, with the namespace before it if it has one: `namespace/name`."""
        return self.spec.qualified_name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, so that a decorated one can still be used directly."""
        return self.call(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    async def preview(self, checked: Checked) -> Preview:
        """What this call would do; empty if the tool has no preview."""
        if self._preview is None:
            return Preview()
        found = await in_thread(self._preview, **checked)
        if not isinstance(found, Preview):
            raise TypeError(f"the preview of {self.name} gives a Preview, got {type(found).__name__}")
        return found

    async def run(self, checked: Checked) -> Content:
        """Call the function with checked arguments; a sync function runs in a thread."""
        if is_async(self.call):
            return content_of(await self.call(**checked))
        value = await in_thread(self.call, **checked)
        return content_of(await value if inspect.isawaitable(value) else value)


@overload
def tool(func: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *, name: str = ..., description: str = ..., **options: Unpack[ToolOptions]
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(func: Callable[..., Any] | None = None, /, **options: Any) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function a Tool: `@tool`, or with options, `@tool(writes=True)`."""
    if func is not None:
        return Tool.from_function(func, **options)
    return lambda func: Tool.from_function(func, **options)


class Signature:
    """The parameters of a function as a JSON schema, and the check of a call against them."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.name = getattr(func, "__name__", type(func).__name__)
        self.description, described = read_docstring(func)
        self.types = _types(func)
        self.required: list[str] = []
        properties: dict[str, Any] = {}
        definitions: dict[str, Any] = {}
        for name, parameter in inspect.signature(func).parameters.items():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise ConfigError(
                    f"tool {self.name}: parameter {name} is {parameter.kind.description}; a model can only pass arguments by name"
                )
            # Without a hint anything goes, and the schema says so.
            hint = self.types.setdefault(name, Any)
            schema = self._schema(name, hint, definitions)
            text = _annotated_description(hint) or described.get(name, "")
            if text:
                schema = {**schema, "description": text}
            if parameter.default is parameter.empty:
                self.required.append(name)
            elif _is_plain(parameter.default):
                schema = {**schema, "default": parameter.default}
            properties[name] = schema
        self.types = {name: self.types[name] for name in properties}
        self.schema: dict[str, Any] = {"type": "object", "properties": properties, "required": self.required}
        # Models invent arguments; a schema that forbids them keeps most from trying.
        self.schema["additionalProperties"] = False
        if definitions:
            self.schema["$defs"] = definitions

    def check(self, arguments: Mapping[str, Any]) -> Checked:
        """The arguments converted to the declared types, or BadArguments naming everything that is wrong."""
        # All faults at once: each further round with the model costs a whole request.
        faults = [self._unknown(name) for name in arguments if name not in self.types]
        faults += [f"missing required argument {name!r}" for name in self.required if name not in arguments]
        checked: Checked = {}
        for name in self.types:
            if name in arguments:
                try:
                    checked[name] = _convert(arguments[name], self.types[name])
                except msgspec.ValidationError as error:
                    faults.append(f"argument {name!r}: {_readable(error)}")
                except RecursionError:
                    faults.append(f"argument {name!r}: nested too deeply")
        if faults:
            raise BadArguments(
                f"invalid arguments for {self.name}, nothing was run:\n- " + "\n- ".join(faults) + self._expected()
            )
        return checked

    def _unknown(self, name: str) -> str:
        near = nearest(name[:64], self.types, 1, 0.5)
        return f"unknown argument {name[:64]!r}" + (f"; did you mean {near[0]!r}?" if near else "")

    def _expected(self) -> str:
        if not self.types:
            return "\nExpected no arguments: {}"
        parts = [
            f"{name} ({_type_word(schema)}, {'required' if name in self.required else 'optional'})"
            for name, schema in self.schema["properties"].items()
        ]
        return "\nExpected: " + ", ".join(parts)

    def _schema(self, name: str, hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
        try:
            (schema,), components = msgspec.json.schema_components([hint], ref_template=_REF + "{name}")
        except (TypeError, NameError) as error:
            reason = str(error).strip().splitlines()[-1]
            raise ConfigError(
                f"tool {self.name}: parameter {name}: {reason}; supported types are str, int, float, bool, list, dict, Literal, Enum, "
                "a union of these, dataclass, a TypedDict or a msgspec Struct"
            ) from error
        return typing.cast("dict[str, Any]", _inline(schema, components, definitions, ()))


class FailedOutput(str):
    """What a tool returns that worked, about something that did not: a command with another exit code than 0. The model gets
    the text as it is, without an error of the tool; the result is marked (`ToolResponse.failed`), so that people see it."""


def content_of(value: object) -> Content:
    """What a tool returned, as content: text and media unchanged, anything else as JSON."""
    if isinstance(value, FailedOutput):
        return (Text(encodable(str(value)), {FAILED: True}),)
    if isinstance(value, str):
        return (Text(encodable(value)),)
    if value is None:
        return (Text("(no output)"),)
    if isinstance(value, Text | Media):
        return (value,)
    if isinstance(value, tuple | list) and value and all(isinstance(part, Text | Media) for part in value):
        return tuple(value)
    return (Text(encodable(msgspec.json.encode(value, enc_hook=str).decode())),)


def encodable(text: str) -> str:
    # A lone surrogate (from a file name that is not UTF-8, for example) would make every later request impossible to encode.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _types(func: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(func, include_extras=True)
    except (NameError, TypeError) as error:
        raise ConfigError(f"cannot read the type hints of {func!r}: {error}") from error


def _annotated_description(hint: Any) -> str:
    for note in getattr(hint, "__metadata__", ()):
        text = note if isinstance(note, str) else getattr(note, "description", None)
        if isinstance(text, str):
            return text
    return ""


def _is_plain(default: object) -> bool:
    return default is None or type(default) in (bool, int, float, str)


def _inline(node: Any, components: Mapping[str, Any], definitions: dict[str, Any], inside: tuple[str, ...]) -> Any:
    """The schema with its references inlined, because several hosts refuse `$ref`; a recursive type keeps its own."""
    if isinstance(node, list):
        return [_inline(item, components, definitions, inside) for item in node]
    if not isinstance(node, dict):
        return node
    ref = node.get("$ref")
    if ref is None:
        schema = {key: _inline(value, components, definitions, inside) for key, value in node.items()}
        if "type" not in schema and "enum" in schema and all(isinstance(value, str) for value in schema["enum"]):
            schema["type"] = "string"
        return schema
    name = ref.removeprefix(_REF)
    # The type refers to itself, so it cannot be written out; its definitions go along.
    if name in inside:
        definitions.update(components)
        return node
    target = _inline(components[name], components, definitions, (*inside, name))
    return {**target, **{key: value for key, value in node.items() if key != "$ref"}}


def _convert(value: Any, hint: Any) -> Any:
    try:
        return msgspec.convert(value, hint, strict=True)
    except msgspec.ValidationError:
        try:
            if isinstance(value, str):
                # Only after the strict reading has failed, so a parameter that takes strings never loses its quotes.
                return msgspec.json.decode(value, type=hint, strict=True)
            if isinstance(value, float) and value.is_integer():
                return msgspec.convert(int(value), hint, strict=True)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            pass
        raise


def _readable(error: msgspec.ValidationError) -> str:
    text = str(error)
    head, at, where = text.rpartition(" - at `$")
    return f"{head} at {where.rstrip('`').lstrip('.')}" if at and where != "`" else text.removesuffix(" - at `$`")


def _type_word(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join([str(value) for value in schema["enum"]])
    if "anyOf" in schema:
        return " or ".join([_type_word(choice) for choice in schema["anyOf"]])
    return str(schema.get("type", "any"))


def is_async(func: Callable[..., Any]) -> bool:
    """Whether calling the object gives a coroutine."""
    # Not a question whether it can be called (B004).
    return inspect.iscoroutinefunction(func) or inspect.iscoroutinefunction(getattr(func, "__call__", None))  # noqa: B004


def in_thread(func: Callable[..., Any], *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
    """Run a sync function in a daemon thread of its own."""
    # As asyncio's own threads do it: a tool may read context variables of its caller.
    context = contextvars.copy_context()
    return in_daemon_thread(lambda: context.run(func, *args, **kwargs), f"tool-{getattr(func, '__name__', 'call')}")


def read_docstring(func: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The first paragraph of a function's docstring, and the descriptions of its parameters."""
    lines = (inspect.getdoc(func) or "").splitlines()
    return _first_paragraph(lines), {
        # A docstring follows one style; merging the three saves us from guessing which.
        **_google(lines),
        **_items(_numpy_section(lines), _NUMPY_ITEM),
        **_items(lines, _REST_ITEM),
    }


def _first_paragraph(lines: list[str]) -> str:
    first = itertools.takewhile(
        lambda line: line.strip() and not line.startswith(":") and not _GOOGLE_HEAD.match(line), lines
    )
    return " ".join([line.strip() for line in first])


def _google(lines: list[str]) -> dict[str, str]:
    start = next((number for number, line in enumerate(lines, 1) if _GOOGLE_HEAD.match(line)), len(lines))
    section = [line for line in itertools.takewhile(lambda line: line[:1] in ("", " "), lines[start:]) if line.strip()]
    depth = len(section[0]) - len(section[0].lstrip()) if section else 0
    return _items([line[depth:] for line in section], _GOOGLE_ITEM, loose=True)


def _numpy_section(lines: list[str]) -> list[str]:
    heads = [number for number, line in enumerate(lines[1:]) if _RULE.match(line)]
    for start, end in itertools.pairwise([*heads, len(lines)]):
        if lines[start].strip() == "Parameters":
            return [line for line in lines[start + 2 : end] if line.strip()]
    return []


def _items(lines: Iterable[str], item: re.Pattern[str], *, loose: bool = False) -> dict[str, str]:
    """The items of a list, each with the lines indented under it (`loose`: or only following it)."""
    found: dict[str, list[str]] = {}
    words: list[str] | None = None
    for line in lines:
        match = item.match(line)
        if match:
            words = found.setdefault(match[1], [match[2]])
        elif not line[:1].isspace() and not loose:
            words = None
        elif words is not None:
            words.append(line.strip())
    return {name: " ".join(words).strip() for name, words in found.items()}
