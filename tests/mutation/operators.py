"""Mutation operators: small bugs that a programmer could have written.

Each mutation replaces one node of a module's syntax tree. The rest of the source text stays as it is.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_NEGATIONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_BOUNDARIES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
_SWAPPED_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
_NOT_MUTATED = (ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom)
"""Positions inside f-strings are not exact before Python 3.12."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change of one node: the text between two byte offsets is replaced."""

    path: str
    line: int
    operator: str
    start: int
    end: int
    before: str
    after: str
    source_line: str

    @property
    def key(self) -> str:
        """Identifies the mutation as long as its line does not change, wherever the line is."""
        return f"{self.path}: {self.source_line}: {self.before} -> {self.after}"

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]


def find_mutations(path: str, source: bytes) -> list[Mutation]:
    """All mutations of a module that compile."""
    line_starts = [0]
    lines = source.splitlines(keepends=True)
    for line in lines:
        line_starts.append(line_starts[-1] + len(line))
    found = []
    for node, operator, after in _changes(ast.parse(source)):
        start = line_starts[node.lineno - 1] + node.col_offset
        end = line_starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        text = lines[node.lineno - 1].decode().strip()
        mutation = Mutation(path, node.lineno, operator, start, end, source[start:end].decode(), after, text)
        if _compiles(mutation.apply(source)):
            found.append(mutation)
    return found


def _changes(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """Each node that can change, the operator, and the new text."""
    for node in _mutable_nodes(tree):
        yield from _expression_changes(node)
        match node:
            case ast.If() | ast.While() | ast.IfExp():
                yield node.test, "negated condition", f"(not ({ast.unparse(node.test)}))"
            case ast.Return(value=ast.expr() as value) if not _is_none(value):
                yield node, "return", "return None"
            case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break():
                yield node, "deleted statement", "pass"
            case ast.comprehension(ifs=[condition, *_]):
                yield condition, "negated condition", f"(not ({ast.unparse(condition)}))"


def _expression_changes(node: ast.AST) -> Iterator[tuple[ast.expr, str, str]]:
    match node:
        case ast.Compare():
            yield from _compare_changes(node)
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield node, "and/or", _expression(node, op=other)
        case ast.BinOp() if type(node.op) in _ARITHMETIC:
            yield node, "arithmetic", _expression(node, op=_ARITHMETIC[type(node.op)]())
        case ast.UnaryOp(op=ast.Not()):
            yield node, "negated condition", f"({ast.unparse(node.operand)})"
        case ast.Constant(value=bool(value)):
            yield node, "constant", str(not value)
        case ast.Constant(value=int() | float() as number):
            yield node, "constant", str(number + 1)
        case ast.Call():
            yield from _call_changes(node)


def _compare_changes(node: ast.Compare) -> Iterator[tuple[ast.expr, str, str]]:
    for index, operation in enumerate(node.ops):
        for operator, table in (("comparison", _NEGATIONS), ("boundary", _BOUNDARIES)):
            if type(operation) in table:
                ops = [*node.ops[:index], table[type(operation)](), *node.ops[index + 1 :]]
                yield node, operator, _expression(node, ops=ops)


def _call_changes(node: ast.Call) -> Iterator[tuple[ast.expr, str, str]]:
    if isinstance(node.func, ast.Name) and node.func.id in _SWAPPED_NAMES:
        yield node, "boundary", _expression(node, func=ast.Name(_SWAPPED_NAMES[node.func.id]))
    elif len(node.args) > 1 and not any(isinstance(argument, ast.Starred) for argument in node.args[:2]):
        first, second, *others = node.args
        yield node, "swapped arguments", _expression(node, args=[second, first, *others])


def _mutable_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes except annotations, f-strings, log lines, and other code without behaviour."""
    for name, value in ast.iter_fields(tree):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in ("annotation", "returns", "decorator_list", "type_params"):
                if isinstance(child, _NOT_MUTATED) or _is_log_line(child) or _is_type_checking(child):
                    continue
                yield child
                yield from _mutable_nodes(child)


def _is_log_line(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="_log")))):
            return True
        case _:
            return False


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _expression(node: ast.expr, **fields: object) -> str:
    """The text of a node with other fields."""
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return f"({ast.unparse(changed)})"


def _compiles(source: bytes) -> bool:
    try:
        compile(source, "mutated", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True
