"""Files that cannot have a test with a mark that `-m` asks for, found without importing them.

Importing all files of tests takes most of a minute of CPU, in each process. For `-m "e2e and not long"` few are needed.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

#: Marks that the file of the test states itself, in the form `mark.e2e`; `check_stated` enforces it.
STATED: Final = ("e2e", "docker", "long", "soak")

_WORD: Final = re.compile(r"\w+")


def required(expression: str) -> frozenset[str]:
    """Return the marks of `STATED` without which no test fits an expression of `-m`; none with `or`."""
    terms = [term.strip() for term in expression.split(" and ")]
    if not all(_WORD.fullmatch(term.removeprefix("not ")) for term in terms):
        return frozenset()
    return frozenset(terms) & frozenset(STATED)


def can_have(path: Path, marks: Iterable[str]) -> bool:
    """Return whether a file of tests states all of some marks."""
    text = path.read_text(encoding="utf-8")
    return all(_states(text, mark) for mark in marks)


def check_stated(items: Iterable[pytest.Item]) -> None:
    """Check that the file of each test states the marks of the test.

    Raises:
        pytest.UsageError: one does not, so that `-m` would not find the test.
    """
    found: dict[Path, set[str]] = {}
    for item in items:
        marks = found.setdefault(item.path, set())
        marks.update(mark.name for mark in item.iter_markers() if mark.name in STATED)
    for path, marks in found.items():
        if marks and not can_have(path, marks):
            raise pytest.UsageError(
                f"{path} has tests marked {', '.join(sorted(marks))}: state each as `mark.NAME` in it"
            )


def _states(text: str, mark: str) -> bool:
    return re.search(rf"\bmark\.{mark}\b", text) is not None
