"""The list of modules whose tests were tried on their mutants: shares.jsonl beside this file, one line for each module.

A line holds a digest of the module and of its tests, but for docstrings and comments. Where it differs from that of the
files, one of them was changed since, and the share may no longer be true. docs/mutation.md shows the list.
"""

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("shares.jsonl")
_WITH_DOCSTRING: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: The least share of the mutants that the tests must notice.
ENOUGH_PCT: Final = 90.0


@dataclass(frozen=True)
class Share:
    """The result of one module.

    Attributes:
        tests: the test files and directories that were run, relative to the repository's root.
        digest: see `digest_of`.
        date: day of the run, as in 2026-11-25.
        mutants: all of them, those that are declared equivalent included.
        killed: those that a test noticed.
        equivalent: those that no test can tell from the original, declared in equivalent.toml.
        seconds: duration of the run.

    """

    tests: tuple[str, ...]
    digest: str
    date: str
    mutants: int
    killed: int
    equivalent: int
    seconds: int

    @property
    def pct(self) -> float:
        """Share of the mutants that were noticed, without the equivalent ones; 100 where there is none."""
        counted = self.mutants - self.equivalent
        return 100.0 * self.killed / counted if counted else 100.0


def read(file: Path = FILE) -> dict[str, Share]:
    """Return the shares by module."""
    entries = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return {entry.pop("module"): Share(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries}


def record(module: str, share: Share, file: Path = FILE) -> None:
    """Write the share of one module, in place of an earlier one."""
    shares = {**read(file), module: share}
    file.write_text("".join(json.dumps({"module": name} | asdict(shares[name])) + "\n" for name in sorted(shares)))


def digest_of(root: Path, module: Path, tests: Sequence[str]) -> str:
    """Return a digest of the statements of a module and of its tests; paths are relative to `root`."""
    total = hashlib.sha256()
    for path in (module, *_files(root, tests)):
        total.update(f"{path}\0{_statements(root / path)}\0".encode())
    return total.hexdigest()[:16]


def _statements(path: Path) -> str:
    """Return the code of a file without its docstrings and comments, which no mutant changes."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.unparse(tree)


def changed(root: Path, paths: Mapping[str, Path], listed: Mapping[str, Share]) -> list[str]:
    """Return the modules of the list whose files have another digest now; `paths` has the modules that exist."""
    return [
        name
        for name, share in listed.items()
        if name in paths and digest_of(root, paths[name], share.tests) != share.digest
    ]


def _files(root: Path, tests: Sequence[str]) -> Iterator[Path]:
    for test in tests:
        found = sorted((root / test).rglob("*.py")) if (root / test).is_dir() else [root / test]
        yield from (path.relative_to(root) for path in found if path.exists())
