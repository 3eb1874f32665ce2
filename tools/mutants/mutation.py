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
from libcst.metadata import CodeRange, MetadataWrapper, ParentNodeProvider, PositionProvider
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
    seen = {_meaning(source)}
    mutants = []
    for node, mutated, place in visitor.changes:
        text = cst.ensure_type(wrapper.module.deep_replace(node, mutated), cst.Module).code
        try:
            compile(text, "mutant", "exec")
        except SyntaxError:  # for example `return` in place of `break` at module level
            continue
        meaning = _meaning(text)
        if meaning not in seen:
            seen.add(meaning)
            mutants.append(_mutant(source, text, place))
    return sorted(mutants, key=lambda mutant: mutant.line)


def _meaning(source: str) -> str:
    """Return what two mutants have in common that are the same, or differ in None and False only."""
    return ast.dump(ast.parse(source)).replace("Constant(value=False)", "Constant(value=None)")


@dataclass(frozen=True)
class _Place:
    function: str
    statement_lines: range
    function_lines: range


def _mutant(source: str, text: str, place: _Place) -> Mutant:
    before, after = source.splitlines(), text.splitlines()
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    changed = [block for block in blocks if block[0] != "equal"]
    diff = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    return Mutant(
        function=place.function,
        line=changed[0][1] + 1,
        statement_lines=place.statement_lines,
        function_lines=place.function_lines,
        source=text,
        removed="\n".join(line.strip() for block in changed for line in before[block[1] : block[2]]),
        added="\n".join(line.strip() for block in changed for line in after[block[3] : block[4]]),
        diff="\n".join(diff),
    )


class _Visitor(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider, ParentNodeProvider)

    def __init__(self) -> None:
        super().__init__()
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
        child = node
        for parent in self._parents(node):
            if isinstance(parent, (cst.FunctionDef, cst.ClassDef)) and child is parent.body:
                names.append(parent.name.value)
            if isinstance(parent, cst.FunctionDef) and child is parent.body:
                function = parent
            if statement is None and isinstance(child, _STATEMENTS):
                statement = child
            child = parent
        return _Place(
            ".".join(reversed(names)),
            range(0) if statement is None else self._header(statement),
            range(0) if function is None else self._lines(function),
        )

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
