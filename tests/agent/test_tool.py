from __future__ import annotations

import asyncio
import enum
import threading
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Optional, TypedDict, Union

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.agent.tool import Signature, Tool, content_of, read_docstring, tool
from midstream.core.blocks import Media, Text
from midstream.core.errors import BadArguments, ConfigError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Person(msgspec.Struct):
    name: str
    friends: list[str] = []


class Options(TypedDict, total=False):
    depth: int


class Tree(msgspec.Struct):
    kids: list[Tree] = []


def everything(
    text: str,
    count: int,
    ratio: float,
    flag: bool,
    names: list[str],
    table: dict[str, int],
    colour: Colour,
    mode: Literal["fast", "slow"],
    point: Point,
    person: Person,
    options: Options,
    either: Union[int, str],  # noqa: UP007 - users still write it so
    maybe: Optional[int] = None,  # noqa: UP045
    anything: Any = 3,
    many: list[Point] = [],  # noqa: B006
) -> dict[str, Any]:
    return locals()


GOOD = {
    "text": "a",
    "count": 1,
    "ratio": 0.5,
    "flag": True,
    "names": ["a"],
    "table": {"a": 1},
    "colour": "red",
    "mode": "fast",
    "point": {"x": 1},
    "person": {"name": "P"},
    "options": {"depth": 2},
    "either": "7",
}


def test_the_schema_says_what_the_signature_says() -> None:
    schema = Signature(everything).schema
    properties = schema["properties"]
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(GOOD)
    assert properties["text"] == {"type": "string"}
    assert properties["count"] == {"type": "integer"}
    assert properties["ratio"] == {"type": "number"}
    assert properties["flag"] == {"type": "boolean"}
    assert properties["names"] == {"type": "array", "items": {"type": "string"}}
    assert properties["table"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert (properties["colour"]["type"], set(properties["colour"]["enum"])) == ("string", {"red", "blue"})
    assert (properties["mode"]["type"], set(properties["mode"]["enum"])) == ("string", {"fast", "slow"})
    assert properties["point"]["properties"]["x"] == {"type": "integer"}
    assert properties["point"]["required"] == ["x"]
    assert properties["person"]["properties"]["name"] == {"type": "string"}
    assert properties["options"]["properties"]["depth"] == {"type": "integer"}
    assert properties["either"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert properties["maybe"] == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert properties["anything"] == {"default": 3}
    assert "$ref" not in msgspec.json.encode(schema).decode()


def test_a_recursive_type_keeps_its_reference_and_its_definition() -> None:
    def plant(tree: Tree) -> None: ...

    schema = Signature(plant).schema
    assert schema["properties"]["tree"]["properties"]["kids"]["items"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["type"] == "object"


def test_arguments_arrive_as_the_declared_types() -> None:
    checked = Signature(everything).check(GOOD)
    assert checked["colour"] is Colour.RED
    assert checked["point"] == Point(1)
    assert checked["person"] == Person("P")
    assert checked["either"] == "7"
    assert "maybe" not in checked, "what was not given is left to the function's own default"


LENIENT = {
    "an integer in a string": ("count", "5", 5),
    "a whole float for an integer": ("count", 5.0, 5),
    "a boolean in a string": ("flag", "true", True),
    "a list in a string": ("names", '["x", "y"]', ["x", "y"]),
    "an object in a string": ("point", '{"x": 2}', Point(2)),
    "a null in a string": ("maybe", "null", None),
    "a string where a string is allowed stays one": ("either", "5", "5"),
    "text that looks like JSON stays text": ("text", "5", "5"),
}


@pytest.mark.parametrize("case", LENIENT)
def test_what_cannot_be_misread_is_taken(case: str) -> None:
    name, given_value, taken = LENIENT[case]
    assert Signature(everything).check({**GOOD, name: given_value})[name] == taken


WRONG: dict[str, tuple[dict[str, Any], list[str]]] = {
    "wrong type": ({"count": "five"}, ["'count'", "`int`", "`str`"]),
    "broken float": ({"count": 1.5}, ["'count'", "`int`", "`float`"]),
    "a number for a boolean": ({"flag": 1}, ["'flag'", "`bool`"]),
    "a number for a string": ({"text": 1}, ["'text'", "`str`"]),
    "not in the enum": ({"colour": "green"}, ["'colour'", "green"]),
    "inside a list": ({"names": ["a", 1]}, ["'names'", "[1]"]),
    "inside an object": ({"point": {"x": "?"}}, ["'point'", "x"]),
    "a missing inner field": ({"point": {}}, ["'point'", "`x`"]),
    "unknown, with a guess": ({"txet": 1}, ["unknown argument 'txet'", "did you mean 'text'"]),
    "two at once": ({"count": [], "ratio": "x"}, ["'count'", "'ratio'"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_refusal_names_what_to_change(case: str) -> None:
    change, words = WRONG[case]
    with pytest.raises(BadArguments) as caught:
        Signature(everything).check({**GOOD, **change})
    for word in [*words, "Expected:", "mode (one of fast, slow, required)"]:
        assert word in str(caught.value)


def test_every_missing_argument_is_named() -> None:
    with pytest.raises(BadArguments) as caught:
        Signature(everything).check({})
    assert all(f"missing required argument {name!r}" in str(caught.value) for name in GOOD)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


SIGNATURE = Signature(everything)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from([*GOOD, "maybe", "many", "other"]), JSON))
def test_any_arguments_are_taken_or_refused_in_words(change: dict[str, Any]) -> None:
    try:
        checked = SIGNATURE.check({**GOOD, **change})
    except BadArguments as error:
        assert "nothing was run" in str(error)
    else:
        everything(**checked)


def google(a: int, b: str = "", c: float = 0) -> None:
    """Do a thing
    in two lines.

    More prose, a: not a parameter.

    Args:
        a: The first.
        b (str, optional): The second,
            continued.

        c: The third.

    Returns:
        a: nothing
    """


def numpy(a: int, b: str = "", c: float = 0) -> None:
    """Do a thing
    in two lines.

    Parameters
    ----------
    a : int
        The first.
    b : str, optional
        The second,
        continued.
    c
        The third.

    Returns
    -------
    a : nothing
    """


def rest(a: int, b: str = "", c: float = 0) -> None:
    """Do a thing
    in two lines.

    :param a: The first.
    :param str b: The second,
        continued.
    :param c: The third.
    :returns: nothing
    """


@pytest.mark.parametrize("func", [google, numpy, rest])
def test_three_styles_of_docstring_say_the_same(func: Any) -> None:
    made = Tool.from_function(func)
    assert made.spec.description == "Do a thing in two lines."
    properties = made.spec.parameters["properties"]  # type: ignore[index]
    assert [p["description"] for p in properties.values()] == ["The first.", "The second, continued.", "The third."]


def test_an_annotation_speaks_before_the_docstring() -> None:
    def f(a: Annotated[int, "said here"], b: Annotated[int, msgspec.Meta(description="and here", ge=1)]) -> None:
        """F.

        Args:
            a: not here
        """

    properties = Signature(f).schema["properties"]
    assert properties["a"] == {"type": "integer", "description": "said here"}
    assert properties["b"] == {"type": "integer", "minimum": 1, "description": "and here"}
    with pytest.raises(BadArguments, match=">= 1"):
        Signature(f).check({"a": 1, "b": 0})


def test_what_has_no_schema_is_refused_when_it_is_made() -> None:
    class Odd: ...

    def positional(a: int, /) -> None: ...
    def star(*a: int) -> None: ...
    def stars(**a: int) -> None: ...
    def odd(a: Odd) -> None: ...

    odd.__annotations__["a"] = Odd
    for func in (positional, star, stars, odd):
        with pytest.raises(ConfigError, match="parameter a"):
            Tool.from_function(func)
    with pytest.raises(ConfigError, match="name"):
        Tool.from_function(google, name="no spaces")


def test_the_decorator_keeps_the_function_usable() -> None:
    @tool
    def double(n: int) -> int:
        """Double."""
        return 2 * n

    @tool(name="other", writes=True, timeout=3)
    async def triple(n: int) -> int:
        return 3 * n

    assert double(2) == 4
    assert (double.name, double.writes, double.parallel_safe) == ("double", False, True)
    assert (triple.name, triple.writes, triple.parallel_safe, triple.timeout) == ("other", True, False, 3)
    assert asyncio.run(double.run(double.check({"n": 4}))) == (Text("8"),)
    assert asyncio.run(triple.run(triple.check({"n": 4}))) == (Text("12"),)


def test_a_sync_function_runs_beside_the_loop_and_an_async_one_in_it() -> None:
    threads = {}

    def sync() -> None:
        threads["sync"] = threading.current_thread()

    async def asynchronous() -> None:
        threads["async"] = threading.current_thread()

    asyncio.run(Tool.from_function(sync).run({}))
    asyncio.run(Tool.from_function(asynchronous).run({}))
    assert threads["sync"] is not threading.main_thread()
    assert threads["sync"].daemon, "one that never returns must not keep the program from ending"
    assert threads["async"] is threading.main_thread()


@dataclass
class Result:
    ok: bool = True
    items: list[int] = field(default_factory=list)


RETURNED = {
    "text": ("hi", (Text("hi"),)),
    "nothing": (None, (Text("(no output)"),)),
    "a number": (3, (Text("3"),)),
    "a dataclass": (Result(), (Text('{"ok":true,"items":[]}'),)),
    "blocks": ([Text("a"), Media("image/png", "AA==")], (Text("a"), Media("image/png", "AA=="))),
    "an empty list": ([], (Text("[]"),)),
    "a foreign object": ({"a": {1}, "b": Exception("x")}, (Text('{"a":[1],"b":"x"}'),)),
    "a lone surrogate": ("a\udc80b", (Text("a?b"),)),
}


@pytest.mark.parametrize("case", RETURNED)
def test_anything_returned_becomes_content(case: str) -> None:
    value, content = RETURNED[case]
    assert content_of(value) == content
    msgspec.json.encode(content)


def test_a_tool_without_arguments_says_so() -> None:
    def now() -> str:
        return "noon"

    with pytest.raises(BadArguments) as caught:
        Signature(now).check({"zone": "UTC"})
    assert "unknown argument 'zone'" in str(caught.value)
    assert str(caught.value).endswith("Expected no arguments: {}")


def test_a_description_goes_on_in_the_next_line_without_an_indent() -> None:
    def look(a: int, b: int) -> None:
        """Look.

        Args:
            a: The first,
            which goes on here.
            b: The second.
        """

    assert read_docstring(look)[1] == {"a": "The first, which goes on here.", "b": "The second."}
