"""Where a source can be changed in a way that means something else, and the changed source.

Only the changed place is written anew: comments, layout and all other lines stay, so that a test which reads the source, and a line
named in a message, see what they saw before.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import msgspec

_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
}  # fmt: skip


class Mutant(msgspec.Struct, frozen=True):
    path: str
    line: int
    what: str
    source: str
    """The whole module, changed."""


class Point(msgspec.Struct, frozen=True):
    """One place of a module, in bytes, and what is written there instead."""

    line: int
    start: int
    end: int
    what: str
    text: str


def points(source: bytes) -> list[Point]:
    """Every place of a module that can be changed."""
    starts = [0]
    for line in source.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    found = []
    for node, what, text in _changes(ast.parse(source)):
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        found.append(Point(node.lineno, start, starts[node.end_lineno - 1] + node.end_col_offset, what, text))
    return found


def changed(source: bytes, point: Point) -> str:
    return (source[: point.start] + point.text.encode() + source[point.end :]).decode()


def mutant(path: Path, root: Path, point: Point) -> Mutant:
    return Mutant(str(path.relative_to(root)), point.line, point.what, changed(path.read_bytes(), point))


def _changes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    for node in _code(tree):
        match node:
            case ast.Compare(left, [first, *rest], comparators):
                other = _COMPARE[type(first)]
                written = ast.Compare(left, [other(), *rest], comparators)
                yield node, _swapped(first, other), f"({ast.unparse(written)})"
            case ast.BoolOp(op, values):
                joint: type[ast.boolop] = ast.Or if isinstance(op, ast.And) else ast.And
                yield node, _swapped(op, joint), f"({ast.unparse(ast.BoolOp(joint(), values))})"
            case ast.BinOp(left, op, right) if type(op) in _BINARY and not _joins_text(node):
                arithmetic = _BINARY[type(op)]
                yield node, _swapped(op, arithmetic), f"({ast.unparse(ast.BinOp(left, arithmetic(), right))})"
            case ast.If() | ast.While() | ast.IfExp():
                yield node.test, "condition negated", f"(not ({ast.unparse(node.test)}))"
            case ast.Return(ast.Constant(None | False)):
                pass  # None is as false as False, which becomes True below
            case ast.Return(ast.expr()):
                yield node, "returns None", "return None"
            case ast.Constant(bool() as value):
                yield node, f"{value} → {not value}", str(not value)
            case ast.Constant(int() as value):
                yield node, f"{value} → {value + 1}", str(value + 1)
            case ast.Continue() | ast.Break():
                yield node, "left out", "pass"


def _swapped(old: ast.AST, new: type[ast.AST]) -> str:
    return f"{type(old).__name__} → {new.__name__}"


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run: what only a type checker reads, and words for people, cannot be noticed by a test."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Raise() | ast.Assert() | ast.Import() | ast.ImportFrom() | ast.JoinedStr():
                continue
            case ast.Expr(ast.Constant()) | ast.If(ast.Name("TYPE_CHECKING")):
                continue
            case ast.keyword("gc"):  # of a struct: how it is collected, not what it is
                continue
            case ast.AnnAssign():
                inner: list[ast.AST] = [node.value] if node.value is not None else []
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                inner = [*node.body, *node.args.defaults, *[each for each in node.args.kw_defaults if each is not None]]
            case _:
                inner = [node]
        # A module of its own for the inner nodes, so that each of them meets the rules above.
        for each in inner:
            if each is node:
                yield each
                yield from _code(each)
            else:
                yield from _code(ast.Expression(each))  # type: ignore[arg-type]


def _joins_text(node: ast.BinOp) -> bool:
    """Whether one side is text or a display of values, which has no other operator."""
    return any(
        isinstance(side, ast.JoinedStr | ast.List | ast.Tuple)
        or (isinstance(side, ast.Constant) and not isinstance(side.value, int | float))
        for side in (node.left, node.right)
    )
