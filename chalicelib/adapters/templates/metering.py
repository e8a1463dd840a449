"""Where a template pays for what Jinja2 would let it do for nothing: rounds of loops, static text, and literals."""

from typing import Final

from jinja2 import Environment, nodes
from jinja2.visitor import NodeTransformer

PAY: Final = "pay"
"""The filter that spends a number, and is true."""
WEIGH: Final = "weigh"
"""The filter that spends what a value weighs, and gives it on."""

_BODIES = (nodes.For, nodes.Macro, nodes.CallBlock, nodes.Block, nodes.Template)


def with_payments(tree: nodes.Template, environment: Environment) -> nodes.Template:
    """The template that pays."""
    paying: nodes.Template = _Payments().visit(tree)
    paying.set_environment(environment)
    return paying


class _Payments(NodeTransformer):
    """Adds the payments.

    Each body that may run many times pays for its own static text when it begins, and a loop for what it skips.
    What is put together of other values (lists, tuples, dicts, texts with `~`, blocks kept by `set` or given to a
    filter) is weighed.
    """

    def generic_visit(self, node: nodes.Node, *args: object, **kwargs: object) -> nodes.Node:
        super().generic_visit(node, *args, **kwargs)
        if isinstance(node, nodes.For) and node.test:
            node.test = nodes.And(_pay(0, node.lineno), node.test, lineno=node.lineno)
        if isinstance(node, _BODIES):
            payment = _pay(_static_text(node.body), node.lineno)
            node.body.insert(0, nodes.ExprStmt(payment, lineno=node.lineno))
        return node

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802
        return _weighed(self.generic_visit(node))

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:  # noqa: N802
        return _weighed(self.generic_visit(node))

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _weighed(node) if node.ctx == "load" else node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.nodes = [_weighed(each) for each in node.nodes]
        return node

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.filter = node.filter or _weigh_block(node.lineno)
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if node.node is None:
            node.node = _weigh_block(node.lineno)
        return node


def _static_text(body: list[nodes.Node]) -> int:
    """How much static text is in a body, but not in the bodies within."""
    pending, size = list(body), 0
    while pending:
        node = pending.pop()
        if isinstance(node, nodes.TemplateData):
            size += len(node.data)
        elif not isinstance(node, _BODIES):
            pending.extend(node.iter_child_nodes())
    return size


def _pay(size: int, line: int) -> nodes.Filter:
    return nodes.Filter(nodes.Const(size, lineno=line), PAY, [], [], None, None, lineno=line)


def _weighed(node: nodes.Node) -> nodes.Filter:
    return nodes.Filter(node, WEIGH, [], [], None, None, lineno=node.lineno)


def _weigh_block(line: int) -> nodes.Filter:
    """The filter of a block's own text, as the parser writes it."""
    return nodes.Filter(None, WEIGH, [], [], None, None, lineno=line)
