"""Each operator changes what it says and nothing else; types, words for people and the layout are left alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import midstream

from ..long_run import cases
from .__main__ import PACKAGES, ROOT, known, sample
from .points import changed, points

CASES: dict[str, tuple[str, dict[str, str]]] = {
    "compare": ("a = b < c\n", {"Lt → LtE": "a = (b <= c)\n"}),
    "the first of a chain": ("a = 0.5 < b < c\n", {"Lt → LtE": "a = (0.5 <= b < c)\n"}),
    "identity": ("a = b is not None\n", {"IsNot → Is": "a = (b is None)\n"}),
    "membership": ("a = b in c\n", {"In → NotIn": "a = (b not in c)\n"}),
    "and": ("a = b and c\n", {"And → Or": "a = (b or c)\n"}),
    "arithmetic": ("a = b - c\n", {"Sub → Add": "a = (b + c)\n"}),
    "joined text": ("a = b + 'x'\nc = f'{a}' + d\ne = [a] + f\n", {}),
    "if, with its comment": ("if a:  # why\n    b()\n", {"condition negated": "if (not (a)):  # why\n    b()\n"}),
    "while": ("while a:\n    b()\n", {"condition negated": "while (not (a)):\n    b()\n"}),
    "either": ("a = b if c else d\n", {"condition negated": "a = b if (not (c)) else d\n"}),
    "return": ("def f(a):\n    return a\n", {"returns None": "def f(a):\n    return None\n"}),
    "return of nothing": ("def f(a):\n    return None\n\ndef g(a):\n    return\n", {}),
    "return of what is false": ("def f():\n    return False\n", {"False → True": "def f():\n    return True\n"}),
    "truth": ("a = f(b=True)\n", {"True → False": "a = f(b=False)\n"}),
    "number": ("a = 3\n", {"3 → 4": "a = 4\n"}),
    "default": ("def f(a: int = 7): ...\n", {"7 → 8": "def f(a: int = 8): ...\n"}),
    "continue": ("for a in b:\n    continue\n", {"left out": "for a in b:\n    pass\n"}),
    "break": ("for a in b:\n    break\n", {"left out": "for a in b:\n    pass\n"}),
    "behind letters of two bytes": ("a = ('é', b == 'ü')  # ö\n", {"Eq → NotEq": "a = ('é', (b != 'ü'))  # ö\n"}),
    "over two lines": ("a = (\n    b ==\n    c\n)\nd = 'x'\n", {"Eq → NotEq": "a = (\n    (b != c)\n)\nd = 'x'\n"}),
    "types": ("a: Literal[1]\ndef f(b: Literal[2] = c, *, d: Literal[3]) -> Literal[4]: ...\n", {}),
    "for the type checker": ("if TYPE_CHECKING:\n    from a import b\n", {}),
    "words": ('"""One."""\ndef f():\n    """Two."""\n    raise E(f"{1}", 2)\n', {}),
    "how a struct is collected": ("class A(Struct, gc=False): ...\n", {}),
    "whether a struct is frozen": (
        "class A(B, frozen=True): ...\n",
        {"True → False": "class A(B, frozen=False): ...\n"},
    ),
    "an assertion": ("assert a == 1\n", {}),
    "a decorator": ("@f(1)\ndef g(): ...\n", {}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_the_one_it_says(name: str) -> None:
    source, wanted = CASES[name]
    raw = source.encode()
    assert {point.what: changed(raw, point) for point in points(raw)} == wanted


@pytest.mark.parametrize("name", cases(("compaction", "history"), {"compaction"}))
def test_every_change_of_a_real_module_parses_and_differs(name: str) -> None:
    path = Path(midstream.__file__).parent / "core" / f"{name}.py"
    raw = path.read_bytes()
    plain = ast.dump(ast.parse(raw))
    found = points(raw)
    assert len(found) > 50
    for point in found:
        assert ast.dump(ast.parse(changed(raw, point))) != plain, point


def test_a_sample_is_the_same_for_the_same_seed_and_even_over_the_packages() -> None:
    drawn = sample(8, 1)
    assert drawn == sample(8, 1) != sample(8, 2)
    assert [each.path.split("/")[2] for each in drawn] == [PACKAGES[0]] * 2 + [PACKAGES[1]] * 2 + list(PACKAGES[2:])


def test_what_is_listed_as_the_same_is_there() -> None:
    for path, code, _ in known():
        assert code in [line.strip() for line in (ROOT / path).read_text("utf-8").splitlines()], f"{path}: {code}"
