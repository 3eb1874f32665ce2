"""The recipes of docs/extending.md, applied to a copy of the repository and checked by their own commands."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_SECTIONS = re.findall(
    r"^## (Add .*?)\n(.*?)(?=^## |\Z)", (_ROOT / "docs/extending.md").read_text(), re.MULTILINE | re.DOTALL
)
_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the working tree, without what git ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=_ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (_ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(_ROOT / name, tmp_path / name)
    return tmp_path


def test_the_page_has_the_recipes() -> None:
    assert [title for title, _ in _SECTIONS] == [
        "Add a policy",
        "Add a GPU vendor",
        "Add a field to a custom resource",
        "Add a term to the score",
        "Add a score",
        "Add a metric",
    ]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("title", "text"), _SECTIONS, ids=[title.removeprefix("Add ") for title, _ in _SECTIONS])
def test_a_recipe_works(copy: Path, title: str, text: str) -> None:
    commands = []
    for language, path, body in _BLOCK.findall(text):
        if language == "sh":
            commands += body.splitlines()
        elif language == "diff":
            _apply(copy / path, body)
        else:
            assert not (copy / path).exists(), f"{path} exists already"
            (copy / path).write_text(body)
    assert commands, f"{title} has no commands"
    for command in commands:
        done = subprocess.run(
            command, shell=True, cwd=copy, env=_environment(copy), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def _apply(path: Path, diff: str) -> None:
    text = path.read_text()
    for hunk in diff.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] or "\n" for line in lines if not line.startswith("+"))
        after = "".join(line[1:] or "\n" for line in lines if not line.startswith("-"))
        assert text.count(before) == 1, f"{path}: found {text.count(before)} times:\n{before}"
        text = text.replace(before, after)
    path.write_text(text)


def _environment(copy: Path) -> dict[str, str]:
    """The environment in which `python` is this one, and imports the copy."""
    sources = [str(path) for pattern in ("libs/*/src", "services/*/src") for path in sorted(copy.glob(pattern))]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PYTHONPATH": os.pathsep.join(sources), "PYTEST_ADDOPTS": "-p no:cacheprovider"}
