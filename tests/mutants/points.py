"""Where a source can be changed in a way that means something else, and the changed source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}


class Mutant(msgspec.Struct, frozen=True):
    path: str
    line: int
    what: str
    source: str
    """The whole module, changed."""


def mutants(path: Path, root: Path) -> Iterator[Callable[[], Mutant]]:
    """Every mutant of a module, made when it is asked for: most are never drawn."""
    text = path.read_text("utf-8")
    places = sum(1 for _ in _changes(ast.parse(text)))
    for number in range(places):
        yield lambda number=number: _make(text, path, root, number)  # type: ignore[misc]


def _make(text: str, path: Path, root: Path, number: int) -> Mutant:
    tree = ast.parse(text)
    for place, (line, what, change) in enumerate(_changes(tree)):
        if place == number:
            change()
            return Mutant(str(path.relative_to(root)), line, what, ast.unparse(ast.fix_missing_locations(tree)) + "\n")
    raise IndexError(number)


def _changes(tree: ast.Module) -> Iterator[tuple[int, str, Callable[[], None]]]:
    # What only a type checker reads, and words for people, cannot be noticed by a test that runs the code.
    for node in _code(tree):
        if isinstance(node, ast.Compare):
            new = _COMPARE[type(node.ops[0])]
            yield (
                node.lineno,
                f"{type(node.ops[0]).__name__} → {new.__name__}",
                lambda node=node, new=new: node.ops.__setitem__(0, new()),
            )  # type: ignore[misc]
        elif isinstance(node, ast.BoolOp):
            other: type[ast.boolop] = ast.Or if isinstance(node.op, ast.And) else ast.And
            yield (
                node.lineno,
                f"{type(node.op).__name__} → {other.__name__}",
                lambda node=node, other=other: setattr(node, "op", other()),
            )  # type: ignore[misc]
        elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY and not _joins_text(node):
            arithmetic = _BINARY[type(node.op)]
            yield (
                node.lineno,
                f"{type(node.op).__name__} → {arithmetic.__name__}",
                lambda node=node, new=arithmetic: setattr(node, "op", new()),
            )  # type: ignore[misc]
        elif isinstance(node, ast.If | ast.While | ast.IfExp):
            yield (
                node.lineno,
                "condition negated",
                lambda node=node: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test)),
            )  # type: ignore[misc]
        elif isinstance(node, ast.Return) and node.value is not None and not _is(node.value, None):
            yield node.lineno, "returns None", lambda node=node: setattr(node, "value", ast.Constant(None))  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield (
                node.lineno,
                f"{node.value} → {not node.value}",
                lambda node=node: setattr(node, "value", not node.value),
            )  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, int):
            yield (
                node.lineno,
                f"{node.value} → {node.value + 1}",
                lambda node=node: setattr(node, "value", node.value + 1),
            )  # type: ignore[misc]
        elif isinstance(node, ast.Continue | ast.Break):
            yield node.lineno, "left out", lambda node=node: setattr(node, "__class__", ast.Pass)  # type: ignore[misc]


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.AnnAssign):
            inner: list[ast.AST] = [node.value] if node.value is not None else []
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = [*node.body, *node.args.defaults, *[each for each in node.args.kw_defaults if each is not None]]
        elif (
            (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING")
            or isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr)
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        ):
            continue
        else:
            yield node
            yield from _code(node)
            continue
        for each in inner:
            yield each
            yield from _code(each)


def _joins_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.Constant | ast.JoinedStr) and not isinstance(getattr(side, "value", None), int)
        for side in (node.left, node.right)
    )


def _is(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value
