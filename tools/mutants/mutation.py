"""The mutants of one module: its source text with one small change each, by the operators of mutmut.

mutmut itself runs mutants behind a switch at the start of each function. It therefore leaves out module-level tables,
defaults, enumerations and every decorated function, properties included; here each mutant is a whole module. Not
mutated: annotations, decorators, bases of classes, imports, assertions, the text of exceptions, calls of a logger, and
False to None.
"""

import ast
import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import libcst as cst
from libcst.metadata import (
    CodeRange,
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    WhitespaceInclusivePositionProvider,
)
from mutmut.mutation.mutators import mutation_operators, operator_string

_SKIPPED: Final = (cst.Annotation, cst.Decorator, cst.Import, cst.ImportFrom, cst.Assert, cst.Raise)
#: Calls whose arguments mean nothing at run time.
_TYPING_CALLS: Final = frozenset({"cast", "TypeVar", "TypeVarTuple", "ParamSpec", "NewType"})
_LOG_METHODS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
#: Assignments that only tools read.
_TOOL_NAMES: Final = frozenset({"__all__", "__slots__"})
_STATEMENTS: Final = (cst.SimpleStatementLine, cst.BaseCompoundStatement)


@dataclass(frozen=True)
class Mutant:
    """One change of the module.

    Attributes:
        function: qualified name of the innermost function or class around the change; empty at module level.
        line: first line of the change, counted from 1.
        statement_lines: the lines of the statement that is changed, without its body.
        function_lines: the lines of the outermost function around the change; empty for what runs at import.
        source: the whole mutated module.
        removed: the changed lines as they are, stripped and joined by newlines.
        added: the same lines as mutated; empty where they are removed.
        diff: unified diff without a header.

    """

    function: str
    line: int
    statement_lines: range
    function_lines: range
    source: str
    removed: str
    added: str
    diff: str


def mutants_of(source: str) -> list[Mutant]:
    """Return the mutants of a module in the order of its lines, without duplicates."""
    wrapper = MetadataWrapper(cst.parse_module(source))
    visitor = _Visitor()
    wrapper.visit(visitor)
    lines = source.splitlines()
    units = {unit: _Unit(wrapper.module, unit, where, lines) for unit, where in visitor.units.items()}
    seen = {(unit, _meaning("\n".join(unit.rendered))) for unit in units.values()}
    mutants = []
    for node, mutated, place in visitor.changes:
        unit = units[place.unit]
        rendered = unit.render(wrapper.module, place.unit.deep_replace(node, mutated))
        text = "\n".join((*lines[: unit.start], *unit.indented(rendered), *lines[unit.end :], ""))
        try:
            compile(text, "mutant", "exec")
        except SyntaxError:  # for example `return` in place of `break` at module level
            continue
        meaning = unit, _meaning("\n".join(rendered))
        if meaning not in seen:
            seen.add(meaning)
            mutants.append(_mutant(unit, rendered, text, place))
    return sorted(mutants, key=lambda mutant: mutant.line)


def _meaning(source: str) -> str:
    """Return what two mutants have in common that are the same, or differ in None and False only."""
    return ast.dump(ast.parse(source)).replace("Constant(value=False)", "Constant(value=None)")


class _Unit:
    """A statement of the module or of a class, which is mutated by itself: whole modules take long to render.

    Attributes:
        start, end: its lines in the module, from 0, the end not included.
        rendered: these lines without the indentation of the class.

    """

    def __init__(self, module: cst.Module, node: cst.CSTNode, where: CodeRange, lines: Sequence[str]) -> None:
        self.rendered = self.render(module, node)
        self.start = where.start.line - 1
        self.end = self.start + len(self.rendered)
        self._lines = lines[self.start : self.end]
        self._indentation = next(
            (line.removesuffix(own) for line, own in zip(self._lines, self.rendered, strict=True) if own), ""
        )

    @staticmethod
    def render(module: cst.Module, node: cst.CSTNode) -> list[str]:
        """Return the lines of a statement."""
        return module.code_for_node(node).splitlines()

    def changes(self, mutated: Sequence[str]) -> list[tuple[int, int, int, int]]:
        """Return the ranges of lines that differ, here and there."""
        found = difflib.SequenceMatcher(None, self.rendered, mutated, autojunk=False).get_opcodes()
        return [(i1, i2, j1, j2) for kind, i1, i2, j1, j2 in found if kind != "equal"]

    def indented(self, mutated: Sequence[str]) -> list[str]:
        """Return the lines of the module with those that differ; others may be within a string, and stay."""
        result: list[str] = []
        done = 0
        for i1, i2, j1, j2 in self.changes(mutated):
            result += self._lines[done:i1]
            result += [f"{self._indentation}{line}" if line else "" for line in mutated[j1:j2]]
            done = i2
        return result + list(self._lines[done:])


def _mutant(unit: _Unit, rendered: Sequence[str], text: str, place: "_Place") -> Mutant:
    changes = unit.changes(rendered)
    first = changes[0][0]
    diff = difflib.unified_diff(unit.rendered, rendered, lineterm="", n=2)
    return Mutant(
        function=place.function,
        line=unit.start + first + 1,
        statement_lines=place.statement_lines,
        function_lines=place.function_lines,
        source=text,
        removed="\n".join(line.strip() for i1, i2, _, _ in changes for line in unit.rendered[i1:i2]),
        added="\n".join(line.strip() for _, _, j1, j2 in changes for line in rendered[j1:j2]),
        diff="\n".join(line for line in diff if not line.startswith(("---", "+++", "@@"))),
    )


@dataclass(frozen=True)
class _Place:
    unit: cst.CSTNode
    function: str
    statement_lines: range
    function_lines: range


class _Visitor(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider, WhitespaceInclusivePositionProvider, ParentNodeProvider)

    def __init__(self) -> None:
        super().__init__()
        #: The statements that hold changes, and where they are with what is above them.
        self.units: dict[cst.CSTNode, CodeRange] = {}
        self.changes: list[tuple[cst.CSTNode, cst.CSTNode, _Place]] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if _skipped(node) or self._is_class_argument(node):
            return False
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                for mutated in _applied(operator, node):
                    self.changes.append((node, mutated, self._place(node)))
        return True

    def _is_class_argument(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.Arg) and isinstance(self.get_metadata(ParentNodeProvider, node), cst.ClassDef)

    def _place(self, node: cst.CSTNode) -> _Place:
        names: list[str] = []
        statement: cst.CSTNode | None = None
        function: cst.CSTNode | None = None
        unit: cst.CSTNode | None = None
        child = node
        for parent in self._parents(node):
            if isinstance(parent, (cst.FunctionDef, cst.ClassDef)) and child is parent.body:
                names.append(parent.name.value)
            if isinstance(parent, cst.FunctionDef) and child is parent.body:
                function = parent
            if isinstance(child, _STATEMENTS) and not isinstance(child, cst.ClassDef):
                statement = statement or child
                unit = child if unit is None or not self._in_class_or_module(unit) else unit
            child = parent
        assert unit is not None
        self.units[unit] = self.get_metadata(WhitespaceInclusivePositionProvider, unit)
        return _Place(
            unit,
            ".".join(reversed(names)),
            range(0) if statement is None else self._header(statement),
            range(0) if function is None else self._lines(function),
        )

    def _in_class_or_module(self, statement: cst.CSTNode) -> bool:
        around = self.get_metadata(ParentNodeProvider, statement)
        if isinstance(around, cst.IndentedBlock):
            around = self.get_metadata(ParentNodeProvider, around)
        return isinstance(around, cst.Module | cst.ClassDef)

    def _parents(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        while not isinstance(node, cst.Module):
            node = self.get_metadata(ParentNodeProvider, node)
            yield node

    def _header(self, statement: cst.CSTNode) -> range:
        """Return the lines of a statement, without its body."""
        lines = self._lines(statement)
        body = getattr(statement, "body", None)
        if isinstance(body, cst.IndentedBlock):
            return range(lines.start, max(lines.start + 1, self._lines(body.body[0]).start))
        return lines

    def _lines(self, node: cst.CSTNode) -> range:
        position: CodeRange = self.get_metadata(PositionProvider, node)
        return range(position.start.line, position.end.line + 1)


def _applied(operator: Callable[[Any], Any], node: cst.CSTNode) -> Sequence[cst.CSTNode]:
    mutated = list(operator(node))
    # A string in other letters is killed by whatever kills another string.
    return mutated[:1] if operator is operator_string else mutated


def _skipped(node: cst.CSTNode) -> bool:
    match node:
        case cst.Call(func=cst.Name(value=name)):
            return name in _TYPING_CALLS
        case cst.Call(func=cst.Attribute(value=logger, attr=cst.Name(value=name))):
            return name in _LOG_METHODS and _last_name(logger).lstrip("_").startswith("log")
        case cst.Assign(value=cst.Call(func=cst.Name(value=name))) if name in _TYPING_CALLS - {"cast"}:
            return True
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            return name in _TOOL_NAMES
        case _:
            return isinstance(node, _SKIPPED)


def _last_name(node: cst.CSTNode) -> str:
    match node:
        case cst.Name(value=name) | cst.Attribute(attr=cst.Name(value=name)):
            return name
        case _:
            return ""
