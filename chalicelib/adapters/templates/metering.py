"""Inserts charges into a template where Jinja2 has no hook: loop iterations, static text and literals."""

from typing import Final

from jinja2 import Environment, nodes
from jinja2.visitor import NodeTransformer

CHARGE: Final = "charge"
"""Internal filter that charges a number and returns true."""
CHARGE_VALUE: Final = "charge_value"
"""Internal filter that charges a value and returns it."""

_BODIES = (nodes.For, nodes.Macro, nodes.CallBlock, nodes.Block, nodes.Template)


def insert_metering(tree: nodes.Template, environment: Environment) -> nodes.Template:
    metered: nodes.Template = _MeteringInserter().visit(tree)
    metered.set_environment(environment)
    return metered


class _MeteringInserter(NodeTransformer):
    """Rewrites the syntax tree.

    Each body that may run repeatedly charges its static text when it begins. A loop with a condition also charges
    each item that it skips. Values composed of other values are charged: lists, tuples, dicts, `~` concatenations,
    and blocks that are assigned by `set` or passed to a filter.
    """

    def generic_visit(self, node: nodes.Node, *args: object, **kwargs: object) -> nodes.Node:
        super().generic_visit(node, *args, **kwargs)
        if isinstance(node, nodes.For) and node.test:
            node.test = nodes.And(_charge(0, node.lineno), node.test, lineno=node.lineno)
        if isinstance(node, _BODIES):
            charge = _charge(_static_text_size(node.body), node.lineno)
            node.body.insert(0, nodes.ExprStmt(charge, lineno=node.lineno))
        return node

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802
        return _charge_value(self.generic_visit(node))

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:  # noqa: N802
        return _charge_value(self.generic_visit(node))

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _charge_value(node) if node.ctx == "load" else node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.nodes = [_charge_value(operand) for operand in node.nodes]
        return node

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.filter = node.filter or _charge_block(node.lineno)
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if node.node is None:
            node.node = _charge_block(node.lineno)
        return node


def _static_text_size(body: list[nodes.Node]) -> int:
    """Characters of static text in a body, without nested bodies."""
    pending, size = list(body), 0
    while pending:
        node = pending.pop()
        if isinstance(node, nodes.TemplateData):
            size += len(node.data)
        elif not isinstance(node, _BODIES):
            pending.extend(node.iter_child_nodes())
    return size


def _charge(size: int, line: int) -> nodes.Filter:
    return nodes.Filter(nodes.Const(size, lineno=line), CHARGE, [], [], None, None, lineno=line)


def _charge_value(node: nodes.Node) -> nodes.Filter:
    return nodes.Filter(node, CHARGE_VALUE, [], [], None, None, lineno=node.lineno)


def _charge_block(line: int) -> nodes.Filter:
    """A filter without operand applies to the text of the block, as in the parser's own output."""
    return nodes.Filter(None, CHARGE_VALUE, [], [], None, None, lineno=line)
