"""The source of a function in a normal form: what it does, and not how it is laid out.

Comments, docstrings, formatting, type hints and line numbers are not in it, and neither is the
file or notebook cell that it stands in. It is the same on every Python version, because it is
written from the syntax tree by this module and not by `ast.dump`, whose text changes.

The source is believed only if compiling it gives the very code that runs: a file that was edited
after it was imported, or rewritten by an import hook, says nothing about the running code.
Then, and where there is no source (``exec``, ``python -c``), the compiled code stands for it; that
differs between Python versions.
"""

from __future__ import annotations
import __future__

import ast
import hashlib
import linecache
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeAlias, TypeGuard

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class Source:
    """What a function does.

    Attributes:
        form: its normal form, or a digest of its compiled code.
        node: its syntax tree, which is shared and not to be changed; None without source.
        missing: why the compiled code stands for the source, None when it does not.
    """

    form: bytes
    node: Function | None
    missing: str | None = None


def read_source(code: CodeType, module: dict[str, Any] | None = None) -> Source:
    """The source of a function, by its code object.

    Args:
        code: the code object of a function or lambda.
        module: the globals of its module, through which the source of a zipped module is found.
    """
    lines = _lines(code.co_filename, module)
    # by identity: to hash a code object takes longer than all the rest
    known = _KNOWN.get(id(code))
    # what was once found stays true of the running code when its file is edited later
    is_known = known is not None and known[0] is code
    if known is None or not is_known or (known[1] is not lines and known[2].missing):
        if len(_KNOWN) > 10_000:
            _KNOWN.clear()
        known = _KNOWN[id(code)] = (code, lines, _find_source(code, lines))
    return known[2]


_KNOWN: dict[int, tuple[CodeType, list[str], Source]] = {}


def _find_source(code: CodeType, lines: list[str]) -> Source:
    if not lines:
        return Source(compiled_form(code), None, "there is no source of it")
    file = _file_of(code.co_filename, lines, code.co_flags & _FUTURE)
    if file is None:
        return Source(compiled_form(code), None, "its source cannot be read as Python")
    node = file.find(code)
    if node is None:
        return Source(
            compiled_form(code),
            None,
            "its source is not what runs: it was edited after it was imported, or rewritten on"
            " import",
        )
    return Source(_write(node, top=node), node)


def normal_form(node: ast.AST) -> bytes:
    """A syntax tree in normal form, such as that of a decorator."""
    return _write(node)


def hints_form(node: Function) -> bytes:
    """The type hints of a function in normal form, for a decorator that may read them."""
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    named += [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    hints = [(argument.arg.encode(), argument.annotation) for argument in named]
    hints.append((b"return", getattr(node, "returns", None)))
    return b" ".join(b"%b: %b" % (name, _write(hint)) for name, hint in hints if hint is not None)


def compiled_form(code: CodeType) -> bytes:
    """A digest of a code object, without names of files, line numbers and its docstring."""
    digest = hashlib.sha256()
    for part in _compiled_parts(code):
        digest.update(b"%d:" % len(part) + part)
    return b"compiled " + digest.hexdigest().encode()


_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag

_COMPILING = threading.Lock()


def _lines(filename: str, module: dict[str, Any] | None) -> list[str]:
    linecache.checkcache(filename)
    try:
        return linecache.getlines(filename, module)
    except Exception:  # a loader of somebody else's
        return []


class _File:
    """One text of Python, with all functions in it."""

    def __init__(self, tree: ast.Module, code: CodeType) -> None:
        self._codes = set(_all_codes(code))
        self._moved: dict[bytes, CodeType] | None = None
        self._functions: dict[tuple[str, int], list[Function]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
                self._functions.setdefault((name, _first_line(node)), []).append(node)

    def find(self, code: CodeType) -> Function | None:
        """The function that a code object was compiled from, None when it was not from here."""
        # equality of code objects covers all but the file's name
        if code not in self._codes and not _is_rewritten_by_pytest(code):
            moved = self._find_moved(code)
            if moved is None:
                return None
            code = moved
        found = self._functions.get((code.co_name, code.co_firstlineno), [])
        if len(found) > 1:  # several lambdas on one line
            extent = _code_extent(code)
            found = [node for node in found if _node_extent(node) == extent]
        return found[0] if found else None

    def _find_moved(self, code: CodeType) -> CodeType | None:
        """The same code on other lines: the file was edited elsewhere since it was imported."""
        if self._moved is None:
            self._moved = {compiled_form(each): each for each in self._codes}
        moved = self._moved.get(compiled_form(code))
        return moved if moved is not None and moved.co_name == code.co_name else None


_FILES: dict[tuple[str, int], tuple[list[str], _File | None]] = {}


def _file_of(name: str, lines: list[str], flags: int) -> _File | None:
    """The file of these lines, read anew only where `linecache` holds other lines by now."""
    known = _FILES.get((name, flags))
    if known is None or known[0] is not lines:
        known = _FILES[(name, flags)] = (lines, _read("".join(lines), flags))
    return known[1]


def _read(text: str, flags: int) -> _File | None:
    with _COMPILING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as an odd escape, which was said on import
        try:
            tree = ast.parse(text)
            code = compile(text, "<source>", "exec", flags, dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    return _File(tree, code)


def _all_codes(code: CodeType) -> Iterator[CodeType]:
    waiting = [code]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [const for const in code.co_consts if isinstance(const, CodeType)]


def _is_rewritten_by_pytest(code: CodeType) -> bool:
    """Whether pytest rewrote the function's assertions; nothing else of it is changed."""
    return any(
        name.startswith("@py")
        for part in _all_codes(code)
        for name in part.co_names + part.co_varnames
    )


def _first_line(node: Function) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _node_extent(node: Function) -> tuple[int, int, int, int]:
    """Where a lambda's expression begins and ends: lines, and columns in UTF-8."""
    body = node.body
    assert isinstance(body, ast.expr)
    return (body.lineno, body.col_offset, body.end_lineno or 0, body.end_col_offset or 0)


def _code_extent(code: CodeType) -> tuple[int, int, int, int] | None:
    """Where the instructions of a lambda begin and end; None where Python does not keep it."""
    begins, ends = [], []
    for line, end_line, column, end_column in code.co_positions():
        if line is None or end_line is None or column is None or end_column is None:
            continue
        if (line, column) != (end_line, end_column):  # the instruction that opens a function
            begins.append((line, column))
            ends.append((end_line, end_column))
    return (*min(begins), *max(ends)) if begins else None


def _write(root: ast.AST, top: Function | None = None) -> bytes:
    """Write a tree without recursion: an expression may be nested deeper than Python's stack."""
    out: list[bytes] = []
    # what is still to be written: text, or a node with whether it stands in the body of a class
    waiting: list[bytes | tuple[Any, bool]] = [(root, False)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, bytes):
            out.append(item)
            continue
        node, in_class = item
        if isinstance(node, ast.Constant):
            out.append(_constant(node.value))
            continue
        if not isinstance(node, ast.AST):
            out.append(_constant(node))
            continue
        name = "Assign" if _is_hinted_variable(node, in_class) else type(node).__name__
        out.append(b"(" + name.encode())
        waiting.append(b")")
        is_class = isinstance(node, ast.ClassDef)
        for name, value in reversed(_fields(node, is_top=node is top, in_class=in_class)):
            if isinstance(value, list):
                waiting.append(b"]")
                waiting += [(child, is_class and name == "body") for child in reversed(value)]
                waiting.append(b" %b=[" % name.encode())
            else:
                waiting.append((value, False))
                waiting.append(b" %b=" % name.encode())
    return b"".join(out)


def _fields(node: ast.AST, *, is_top: bool, in_class: bool) -> list[tuple[str, Any]]:
    """What is written of a node: no defaults, hints and docstrings, and all bodies cleaned."""
    fields = []
    for name, value in ast.iter_fields(node):
        if name in _UNWRITTEN or value is None:
            continue
        if is_top and name in _UNWRITTEN_OF_TOP:
            continue
        if isinstance(value, list):
            value = _cleaned(value, isinstance(node, ast.ClassDef)) if name in _BODIES else value
            value = _merged(value) if isinstance(node, ast.JoinedStr) else value
            if not value:
                continue
        if is_top and isinstance(value, ast.arguments):
            # the values of defaults are those of the running function, and hashed with it
            value = ast.arguments(
                posonlyargs=value.posonlyargs,
                args=value.args,
                vararg=value.vararg,
                kwonlyargs=value.kwonlyargs,
                kw_defaults=[],
                kwarg=value.kwarg,
                defaults=[],
            )
        fields.append((name, value))
    if _is_hinted_variable(node, in_class):
        return [("targets", [node.target]), ("value", node.value)]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        fields = [(name, value) for name, value in fields if name != "returns"]
    if isinstance(node, ast.arg):
        fields = [("arg", node.arg)]
    return fields


def _is_hinted_variable(node: ast.AST, in_class: bool) -> TypeGuard[ast.AnnAssign]:
    """Whether it is ``x: int = 1``, where the hint does nothing: in a class it declares a field."""
    return isinstance(node, ast.AnnAssign) and not in_class


_UNWRITTEN = frozenset({"ctx", "kind", "type_comment", "type_ignores", "type_params"})
_UNWRITTEN_OF_TOP = frozenset({"name", "decorator_list"})
_BODIES = frozenset({"body", "orelse", "finalbody"})


def _cleaned(body: list[Any], is_class: bool) -> list[Any]:
    """Statements without those that do nothing: docstrings, ``...``, ``pass``, bare hints."""
    return [
        node
        for node in body
        if not isinstance(node, ast.Pass)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        and not (isinstance(node, ast.AnnAssign) and node.value is None and not is_class)
    ]


def _merged(values: list[Any]) -> list[Any]:
    """The parts of an f-string with neighbouring texts joined; versions of Python split them."""
    merged: list[Any] = []
    for value in values:
        if isinstance(value, ast.Constant) and merged and isinstance(merged[-1], ast.Constant):
            merged[-1] = ast.Constant(str(merged[-1].value) + str(value.value))
        else:
            merged.append(value)
    return [v for v in merged if not (isinstance(v, ast.Constant) and v.value == "")]


def _constant(value: Any) -> bytes:
    if isinstance(value, int) and not isinstance(value, bool):
        return b"int:%x" % value
    if isinstance(value, str):
        content = value.encode("utf-8", "surrogatepass")
        return b"str%d:%b" % (len(content), content)
    if isinstance(value, bytes):
        return b"bytes%d:%b" % (len(value), value)
    return f"{type(value).__name__}:{value!r}".encode()


def _compiled_parts(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield repr(
        (
            code.co_argcount,
            code.co_posonlyargcount,
            code.co_kwonlyargcount,
            code.co_flags & ~_NESTED,
            code.co_names,
            code.co_varnames,
            code.co_freevars,
            code.co_cellvars,
        )
    ).encode("utf-8", "surrogatepass")
    yield getattr(code, "co_exceptiontable", b"")
    consts = code.co_consts
    has_docstring = code.co_flags & _HAS_DOCSTRING or not _SAYS_DOCSTRING
    if has_docstring and consts and isinstance(consts[0], str):
        consts = (None, *consts[1:])
    for const in consts:
        yield compiled_form(const) if isinstance(const, CodeType) else _plain_const(const)


_NESTED = 0x10  # whether a function was defined inside another
_HAS_DOCSTRING = 0x4000000
_SAYS_DOCSTRING = bool(compile("def f():\n 'x'", "", "exec").co_consts[0].co_flags & _HAS_DOCSTRING)


def _plain_const(value: Any) -> bytes:
    if isinstance(value, tuple):
        return b"(" + b",".join(map(_plain_const, value)) + b")"
    if isinstance(value, frozenset):
        return b"{" + b",".join(sorted(map(_plain_const, value))) + b"}"
    return _constant(value)
