"""The operators of `make mutants`, as a table: each takes one node of the syntax tree, and yields what replaces it.

A replacement is source text.  An expression is put in brackets, so that it needs no look at what stands around it.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from typing import Any

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LOGS = frozenset({"log", "logger", "_log", "_logger"})

Replacements = Iterator[str]


def _changed(node: ast.AST, **fields: Any) -> str:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return f"({ast.unparse(other)})"


def _without(items: list[Any], index: int) -> list[Any]:
    return items[:index] + items[index + 1 :]


def compare(node: ast.Compare) -> Replacements:
    for index, operator in enumerate(node.ops):
        for other in _COMPARED[type(operator)]:
            yield _changed(node, ops=[*node.ops[:index], other(), *node.ops[index + 1 :]])


def and_or(node: ast.BoolOp) -> Replacements:
    yield _changed(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())


def drop_operand(node: ast.BoolOp) -> Replacements:
    for index in range(len(node.values)):
        rest = _without(node.values, index)
        yield _changed(node, values=rest) if len(rest) > 1 else f"({ast.unparse(rest[0])})"


def arithmetic(node: ast.BinOp) -> Replacements:
    other = _COMPUTED.get(type(node.op))
    if other is not None:
        yield _changed(node, op=other())


def constant(node: ast.Constant) -> Replacements:
    if isinstance(node.value, bool):
        yield str(not node.value)
    elif isinstance(node.value, int | float):
        yield f"({node.value + 1!r})"
        yield f"({node.value - 1!r})"


def drop_sign(node: ast.UnaryOp) -> Replacements:
    if isinstance(node.op, ast.Not | ast.USub):
        yield f"({ast.unparse(node.operand)})"


def negate_condition(node: ast.If | ast.While | ast.IfExp) -> Replacements:
    """Replace the condition alone: the position is the condition's (see `mutant.py`)."""
    yield f"(not ({ast.unparse(node.test)}))"


def return_nothing(node: ast.Return) -> Replacements:
    """Replace what is returned, but for None itself and for False: who asks takes the one for the other."""
    is_same = isinstance(node.value, ast.Constant) and (node.value.value is None or node.value.value is False)
    if node.value is not None and not is_same:
        yield "return None"


def return_negated(node: ast.Return) -> Replacements:
    if isinstance(node.value, ast.Compare | ast.BoolOp):
        yield f"return not ({ast.unparse(node.value)})"


def delete(node: ast.stmt) -> Replacements:
    if not (isinstance(node, ast.Expr) and (isinstance(node.value, ast.Constant) or is_log(node.value))):
        yield "pass"


def is_log(node: ast.expr) -> bool:
    """Tell whether this is a call that writes a log line."""
    function = node.func if isinstance(node, ast.Call) else None
    owner = function.value if isinstance(function, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id in _LOGS


def add_subtract(node: ast.AugAssign) -> Replacements:
    other = _COMPUTED.get(type(node.op))
    if other is not None:
        yield _changed(node, op=other())[1:-1]


def exchange_function(node: ast.Call) -> Replacements:
    if isinstance(node.func, ast.Name) and node.func.id in _CALLED:
        yield _changed(node, func=ast.Name(_CALLED[node.func.id]))


def reverse_sorting(node: ast.Call) -> Replacements:
    if isinstance(node.func, ast.Name) and node.func.id == "sorted":
        rest = [keyword for keyword in node.keywords if keyword.arg != "reverse"]
        turned = [] if len(rest) < len(node.keywords) else [ast.keyword("reverse", ast.Constant(True))]
        yield _changed(node, keywords=[*rest, *turned])


def drop_entry(node: ast.Dict | ast.Tuple | ast.List | ast.Set) -> Replacements:
    if isinstance(node, ast.Dict):
        for index in range(len(node.keys)):
            yield _changed(node, keys=_without(node.keys, index), values=_without(node.values, index))
    elif len(node.elts) > 1 and not isinstance(getattr(node, "ctx", None), ast.Store):
        for index in range(len(node.elts)):
            yield _changed(node, elts=_without(node.elts, index))


def drop_filter(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> Replacements:
    for index, loop in enumerate(node.generators):
        if loop.ifs:
            bare = ast.comprehension(loop.target, loop.iter, [], loop.is_async)
            yield _changed(node, generators=[*node.generators[:index], bare, *node.generators[index + 1 :]])


_DELETED = (ast.Assign, ast.AugAssign, ast.Expr, ast.Raise, ast.Return, ast.Delete, ast.Continue, ast.Break)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

OPERATORS: dict[str, tuple[tuple[type[ast.AST], ...], Callable[[Any], Replacements]]] = {
    "comparison": ((ast.Compare,), compare),
    "and-or": ((ast.BoolOp,), and_or),
    "operand dropped": ((ast.BoolOp,), drop_operand),
    "arithmetic": ((ast.BinOp,), arithmetic),
    "constant": ((ast.Constant,), constant),
    "not or sign dropped": ((ast.UnaryOp,), drop_sign),
    "condition negated": ((ast.If, ast.While, ast.IfExp), negate_condition),
    "returns None": ((ast.Return,), return_nothing),
    "return negated": ((ast.Return,), return_negated),
    "statement deleted": (_DELETED, delete),
    "augmented": ((ast.AugAssign,), add_subtract),
    "min max any all": ((ast.Call,), exchange_function),
    "sorting reversed": ((ast.Call,), reverse_sorting),
    "entry dropped": ((ast.Dict, ast.Tuple, ast.List, ast.Set), drop_entry),
    "filter dropped": (_COMPREHENSIONS, drop_filter),
}
"""Name, the nodes it is for, and what it puts in their place."""
