"""What a function reads and changes: global names, imports, and attributes of its object.

What is read is taken from the compiled code, which knows which names are global. What is changed
in place, and what a decorator names, is taken from the source.
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any, TypeAlias

from envbench.environments.source import Function

Chain: TypeAlias = tuple[str, ...]
"""A name and the attributes read from it: ``helpers.rates.VAT``."""


@dataclass(frozen=True, slots=True)
class References:
    """What a function reads, in its nested functions too.

    Attributes:
        names: chains that begin with a global or builtin name.
        imports: what it imports when it is called: level, module and the names taken from it.
        attributes: every attribute that is assigned or deleted, of whatever object.
        assigned: global names that are assigned or deleted.
    """

    names: tuple[Chain, ...]
    imports: tuple[tuple[int, str, tuple[str, ...]], ...]
    attributes: frozenset[str]
    assigned: frozenset[str]


@dataclass(frozen=True, slots=True)
class Changes:
    """What a function changes, as far as its source shows.

    Attributes:
        assigned: attributes of its object (its first parameter) that it assigns or deletes.
        attributes: attributes of its object that it changes in place.
        names: other names that it changes in place.
    """

    assigned: frozenset[str]
    attributes: frozenset[str]
    names: frozenset[str]


@lru_cache(maxsize=4096)
def references(code: CodeType) -> References:
    """What a code object reads."""
    names: dict[Chain, None] = {}
    imports: dict[tuple[int, str, tuple[str, ...]], None] = {}
    attributes: set[str] = set()
    assigned: set[str] = set()
    waiting = [code]
    while waiting:
        part = waiting.pop()
        waiting += [const for const in part.co_consts if isinstance(const, CodeType)]
        instructions = list(dis.get_instructions(part))
        own = {i.argval for i in instructions if i.opname == "STORE_NAME"}  # the body of a class
        for position, instruction in enumerate(instructions):
            kind, name = instruction.opname, instruction.argval
            if kind in ("LOAD_GLOBAL", "LOAD_NAME"):
                if name not in own and not name.startswith("@py"):  # pytest's own
                    names[(name, *_attributes_after(instructions, position))] = None
            elif kind == "IMPORT_NAME":
                level = _level_before(instructions, position)
                imports[(level, name, tuple(_names_after(instructions, position)))] = None
            elif kind in ("STORE_ATTR", "DELETE_ATTR"):
                attributes.add(name)
            elif kind in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                assigned.add(name)
    return References(tuple(names), tuple(imports), frozenset(attributes), frozenset(assigned))


def _attributes_after(instructions: list[dis.Instruction], position: int) -> Iterator[str]:
    for instruction in instructions[position + 1 :]:
        if instruction.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            return
        yield instruction.argval


def _level_before(instructions: list[dis.Instruction], position: int) -> int:
    """How many packages up an import looks: the constant before the names it takes."""
    if position < 2:
        return 0
    level = instructions[position - 2].argval
    return level if isinstance(level, int) else 0


def _names_after(instructions: list[dis.Instruction], position: int) -> Iterator[str]:
    for instruction in instructions[position + 1 :]:
        if instruction.opname == "IMPORT_FROM":
            yield instruction.argval
        elif not instruction.opname.startswith("STORE_"):
            return


@lru_cache(maxsize=4096)
def changes(node: Function) -> Changes:
    """What a function changes."""
    own = _first_parameter(node)
    assigned: set[str] = set()
    in_place: set[str] = set()
    names: set[str] = set()
    for chain, is_whole in _changed(node):
        if chain[0] != own:
            names.add(chain[0])
        elif len(chain) > 1:
            (assigned if is_whole and len(chain) == 2 else in_place).add(chain[1])
    return Changes(frozenset(assigned), frozenset(in_place), frozenset(names))


def _first_parameter(node: Function) -> str | None:
    arguments = [*node.args.posonlyargs, *node.args.args]
    return arguments[0].arg if arguments else None


def _changed(node: Function) -> Iterator[tuple[Chain, bool]]:
    """Chains that are changed, and whether the end of the chain is assigned as a whole."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute | ast.Subscript) and not isinstance(part.ctx, ast.Load):
            chain, is_whole = _chain(part)
            if chain:
                yield chain, is_whole
        elif isinstance(part, ast.Call):
            yield from _changed_by_call(part)


def _changed_by_call(call: ast.Call) -> Iterator[tuple[Chain, bool]]:
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr in _CHANGING:
        chain, _ = _chain(function.value)
        if chain:
            yield chain, False
    if isinstance(function, ast.Name) and function.id in ("setattr", "delattr") and call.args:
        chain, _ = _chain(call.args[0])
        name = call.args[1] if len(call.args) > 1 else None
        if chain and isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield (*chain, name.value), True


_CHANGING = frozenset(
    {"add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "extendleft"}
    | {"fill", "insert", "intersection_update", "move_to_end", "pop", "popitem", "popleft", "put"}
    | {"remove", "reverse", "rotate", "setdefault", "shuffle", "sort"}
    | {"symmetric_difference_update", "update", "write", "writelines"}
)
"""Methods by which the containers of Python and NumPy are changed."""


def _chain(node: ast.expr) -> tuple[Chain, bool]:
    """The names from a root to a place, and whether they lead there without a subscript."""
    attributes: list[str] = []
    is_whole = True
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            attributes.append(node.attr)
        else:
            # what is below a subscript has no name: the place is the container
            attributes.clear()
            is_whole = False
        node = node.value
    if not isinstance(node, ast.Name):
        return (), False
    return (node.id, *reversed(attributes)), is_whole


def called_chain(node: ast.expr) -> Chain:
    """The names of what a decorator or call names: ``retry`` in ``retry(3)``; () for others."""
    while isinstance(node, ast.Call):
        node = node.func
    chain, is_whole = _chain(node)
    return chain if is_whole else ()


def unsteady_attributes(node: Function, is_unsteady: Callable[[Chain], bool]) -> frozenset[str]:
    """Attributes that a constructor fills from a clock, from chance or from the machine.

    Args:
        node: the constructor.
        is_unsteady: says so of a function that is called, by the names that lead to it.
    """
    own = _first_parameter(node)
    unsteady: set[Chain] = set()
    for assignment in _assignments(node):
        from_unsteady = any(c[:2] in unsteady or c[:1] in unsteady for c in assignment.reads)
        if not from_unsteady and not any(map(is_unsteady, assignment.calls)):
            continue
        for chain in assignment.targets:
            unsteady.add(chain[:2] if chain[0] == own else chain[:1])
    return frozenset(chain[1] for chain in unsteady if len(chain) > 1 and chain[0] == own)


@dataclass(frozen=True, slots=True)
class _Assignment:
    """What an assignment names: where it writes, what it reads, what it calls."""

    targets: tuple[Chain, ...]
    reads: tuple[Chain, ...]
    calls: tuple[Chain, ...]


@lru_cache(maxsize=4096)
def _assignments(node: Function) -> tuple[_Assignment, ...]:
    """Every assignment in a function, in the order of the source."""
    found = []
    for targets, value in _targets_and_values(node):
        parts = list(ast.walk(value))
        read = [_chain(part)[0] for part in parts if isinstance(part, ast.Name | ast.Attribute)]
        called = [called_chain(part) for part in parts if isinstance(part, ast.Call)]
        written = [_chain(target)[0] for target in targets]
        found.append(
            _Assignment(*(tuple(filter(None, chains)) for chains in (written, read, called)))
        )
    return tuple(found)


def _targets_and_values(node: Function) -> Iterator[tuple[Iterable[ast.expr], ast.AST]]:
    for part in _in_order(node):
        if isinstance(part, ast.Assign):
            yield [leaf for target in part.targets for leaf in _leaves(target)], part.value
        elif isinstance(part, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            if part.value is not None:
                yield _leaves(part.target), part.value
        elif isinstance(part, ast.For | ast.AsyncFor):
            yield _leaves(part.target), part.iter
        elif isinstance(part, ast.withitem) and part.optional_vars is not None:
            yield _leaves(part.optional_vars), part.context_expr


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    waiting: list[Any] = [node]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += reversed(list(ast.iter_child_nodes(part)))


def _leaves(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        return [leaf for part in target.elts for leaf in _leaves(part)]
    return _leaves(target.value) if isinstance(target, ast.Starred) else [target]
