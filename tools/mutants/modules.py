"""The modules of the workspace, and those of them that act."""

import ast
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ACTING: Final = Path(__file__).with_name("acting.toml")
_MARKER: Final = "pyproject.toml"


@dataclass(frozen=True)
class Target:
    """A module and where it is, relative to the repository's root."""

    module: str
    member: Path
    path: Path


def targets(root: Path) -> dict[str, Target]:
    """Return every module of the workspace by its dotted name."""
    found = {}
    for member in (path.parent for group in ("libs", "services") for path in sorted(root.glob(f"{group}/*/{_MARKER}"))):
        for path in sorted((member / "src").rglob("*.py")):
            parts = path.relative_to(member / "src").with_suffix("").parts
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[module] = Target(module, member.relative_to(root), path.relative_to(root))
    return found


@dataclass(frozen=True)
class Acting:
    """Declarations of acting.toml.

    Attributes:
        packages: those whose modules act.
        unmeasured: the modules of these whose mutants have not been tried yet, with the reason.

    """

    packages: tuple[str, ...]
    unmeasured: Mapping[str, str]

    def modules(self, root: Path) -> set[str]:
        """Return the modules of the packages, without those of which there is no mutant: empty and generated ones."""
        return {
            name
            for name, target in targets(root).items()
            if any(f"{name}.".startswith(f"{package}.") for package in self.packages)
            and not target.path.stem.endswith("_pb2")
            and _has_statements((root / target.path).read_text())
        }


def read_acting(file: Path = ACTING) -> Acting:
    """Return what the file declares.

    Raises:
        ValueError: a module stands in it twice.
    """
    declared = tomllib.loads(file.read_text())
    unmeasured: dict[str, str] = {}
    for group in declared["unmeasured"]:
        for module in group["modules"]:
            if module in unmeasured:
                raise ValueError(f"{module} stands in {file.name} twice")
            unmeasured[module] = group["reason"]
    return Acting(tuple(declared["packages"]), unmeasured)


def _has_statements(source: str) -> bool:
    """Return whether a module is more than a docstring."""
    return len(ast.parse(source).body) > 1
