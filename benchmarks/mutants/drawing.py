"""Mutants: changes of one line, drawn by a seed from the core modules."""

from __future__ import annotations

import ast
import dataclasses
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "embodied/core/*.py": 5,
    "embodied/env/**/*.py": 5,
    "embodied/engines/**/*.py": 5,
    "embodied/math/*.py": 4,
    "embodied/storage/*.py": 4,
    "policies/ppo/*.py": 4,
    "policies/off_policy/*.py": 4,
    "sim2real/deployment/safety*.py": 4,
    "sim2real/graphs/*.py": 5,
}
"""Files -> how many mutants are drawn from them."""

COMPARISONS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}  # fmt: skip
OPERATIONS = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "+"), ast.Pow: ("**", "*"),
}  # fmt: skip
CONNECTIVES = {ast.And: ("and", "or"), ast.Or: ("or", "and")}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A change of one line of a file."""

    file: str
    """Below the repository's root."""
    line: int
    """Counted from 1."""
    start: int
    """Bytes before what is changed in the line."""
    end: int
    """Bytes before what follows it."""
    old: str
    new: str
    statement: bool
    """Whether it is a whole statement, else an expression."""
    source: str
    """The whole line."""

    @property
    def name(self) -> str:
        """The same wherever the line stands in the file."""
        return f"{self.file}: {self.old} -> {self.new} in {self.source.strip()}"

    def placed_in(self, root: Path) -> Mutant | None:
        """The same change in another state of the repository: of the nearest line with this text, or of none."""
        path = root / self.file
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        places = [number for number, line in enumerate(lines, 1) if line == self.source]
        nearest = min(places, key=lambda number: abs(number - self.line), default=None)
        return None if nearest is None else dataclasses.replace(self, line=nearest)

    def applied(self, text: str, replacement: str | None = None) -> str:
        """The file's text with the change, or with another replacement in its place."""
        lines = text.splitlines(keepends=True)
        line = lines[self.line - 1].encode()
        assert line[self.start : self.end].decode() == self.old
        lines[self.line - 1] = (line[: self.start] + (replacement or self.new).encode() + line[self.end :]).decode()
        return "".join(lines)


def drawn(seed: int, root: Path = ROOT) -> list[Mutant]:
    """The mutants of a seed, at most one of a line; the lines of a pattern are equally likely."""
    generator = random.Random(seed)
    found = []
    for pattern, count in ROOMS.items():
        lines: dict[tuple[str, int], list[Mutant]] = {}
        for path in sorted(root.glob(pattern)):
            for mutant in mutants_of(path, root):
                lines.setdefault((mutant.file, mutant.line), []).append(mutant)
        found += [generator.choice(lines[place]) for place in generator.sample(sorted(lines), count)]
    return found


def mutants_of(path: Path, root: Path = ROOT) -> Iterator[Mutant]:
    """Every change of a file's functions; not of defaults, annotations, messages of errors and documentation."""
    text = path.read_text(encoding="utf-8")
    name, lines = path.relative_to(root).as_posix(), text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            for statement in node.body:
                for inner in executed(statement):
                    new = changed(inner, text)
                    old = ast.get_source_segment(text, inner)
                    if new is not None and old is not None and inner.lineno == inner.end_lineno:
                        yield Mutant(
                            name, inner.lineno, inner.col_offset, inner.end_col_offset or 0, old, new,
                            isinstance(inner, ast.stmt), lines[inner.lineno - 1],
                        )  # fmt: skip


def executed(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Nodes of a statement that run with it; those of functions in it are met on their own."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Raise | ast.JoinedStr | ast.Assert):
        return
    if isinstance(node, ast.expr | ast.stmt):
        yield node
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns", "type_comment", "op", "ops"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from executed(child)


def changed(node: ast.AST, text: str) -> str | None:
    """The source of a changed node of one line, or None where it is not one of those that are changed."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            return between(node, node.left, node.comparators[0], COMPARISONS, type(op), text)
        case ast.BinOp() if type(node.op) in OPERATIONS and not any(map(is_text, (node.left, node.right))):
            return between(node, node.left, node.right, OPERATIONS, type(node.op), text)
        case ast.BoolOp(values=[first, second]):
            return between(node, first, second, CONNECTIVES, type(node.op), text)
        case ast.UnaryOp(op=ast.Not() | ast.USub()) if not isinstance(node.operand, ast.Constant):
            return ast.get_source_segment(text, node.operand)
        case ast.Constant(value=bool()):
            return str(not node.value)
        case ast.Constant(value=int() as number):
            return str(number + 1)
        case ast.Constant(value=float() as number):
            return str(2 * number or 1.0)
        case ast.Expr(value=ast.Call()):
            return "pass"
    return None


def between(
    node: ast.expr, left: ast.expr, right: ast.expr, signs: Mapping[type, tuple[str, str]], sign: type, text: str
) -> str | None:
    """A node's source with another sign between its two sides."""
    if node.lineno != node.end_lineno:
        return None
    line = text.splitlines()[node.lineno - 1].encode()
    gap = line[left.end_col_offset : right.col_offset].decode()
    old, new = signs[sign]
    if gap.count(old) != 1:
        return None
    return (
        line[node.col_offset : left.end_col_offset].decode()
        + gap.replace(old, new)
        + line[right.col_offset : node.end_col_offset].decode()
    )


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
