"""Every test that docs/testing.md names exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_NAMED = re.findall(r"`([\w./-]+\.py)::(\w+)`", (_ROOT / "docs/testing.md").read_text())


@cache
def _tests(path: Path) -> frozenset[str]:
    """Names of the functions of a module and of its classes."""
    module = ast.parse(path.read_text())
    scopes: list[ast.Module | ast.ClassDef] = [module]
    scopes += [node for node in module.body if isinstance(node, ast.ClassDef)]
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    return frozenset(node.name for scope in scopes for node in scope.body if isinstance(node, functions))


@pytest.mark.parametrize("path", sorted({path for path, _ in _NAMED}))
def test_the_tests_that_the_page_names_exist(path: str) -> None:
    names = {name for named, name in _NAMED if named == path}
    assert names <= _tests(_ROOT / path), f"{path}: {sorted(names - _tests(_ROOT / path))}"


def test_the_page_names_tests() -> None:
    assert _NAMED
