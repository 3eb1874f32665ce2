"""Writing and checking of generated files, common to all generators.

Run a generator as `python -m tools.NAME` in the root of the repository; with `--check` it compares instead of writing.
"""

import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def finish(path: Path, text: str, recipe: str) -> int:
    """Write a generated file, or compare it with `--check`.

    Args:
        path: the file.
        text: its content.
        recipe: what regenerates it, such as `just docs`.

    Returns:
        The exit code: 1 if the check failed.
    """
    if "--check" not in sys.argv[1:]:
        path.write_text(text, encoding="utf-8")
        return 0
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{path.relative_to(ROOT)} is out of date: run `{recipe}` and commit the result\n")
    return 1


def cell(text: str) -> str:
    """Return text for a cell of a Markdown table: one line, pipes escaped."""
    return " ".join(text.split()).replace("|", "\\|")
