"""One word for one thing, see docs/glossary.md: names of classes, docstrings, and words that are not used."""

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_MODULES = sorted([*_ROOT.glob("libs/*/src/**/*.py"), *_ROOT.glob("services/*/src/**/*.py")])
_GLOSSARY = _ROOT / "docs/glossary.md"
_PAGES = sorted({*_ROOT.glob("*.md"), *_ROOT.glob("docs/**/*.md"), *_ROOT.glob("*/*/*.md")} - {_GLOSSARY})
#: Tests, benchmarks and tools, without this file, which has to name the words.
_OTHERS = sorted(
    {
        path
        for pattern in ("bench/**/*.py", "tests/**/*.py", "tools/**/*.py", "*/*/tests/**/*.py")
        for path in _ROOT.glob(pattern)
    }
    - {Path(__file__)}
)
#: Without what Python has compiled of the files in an earlier run of the tests.
_CHART = [each for each in sorted(_ROOT.glob("helm/**/*")) if each.is_file() and "__pycache__" not in each.parts]
#: Words that the glossary replaces, as far as they have no other meaning here, and words that name no one.
_REPLACED = re.compile(
    r"\bg(?:ives?|ave|iven|iving)[ _-]back\b|GivenBack|\bhands\b|\blet(?:s|ting)?[ _]go\b|\bhead room\b|\bof ours\b"
    r"|\bin our charge\b|foreign (?:value|write|request|writer|limit)|\bsomebody\b|\bnobody\b|\bwhoever\b|\bfor ever\b"
    r"|\bverdicts?\b|\bhp_count\b",
    re.IGNORECASE,
)

#: First words of a docstring that asks what something is instead of naming it.
_QUESTIONS = frozenset({"How", "What", "Which", "Who", "Why"})
#: The same of modules and classes; a property that is true or false says whether.
_QUESTIONS_OF_THINGS = _QUESTIONS | {"Whether"}


def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict(list)
    for module in _MODULES:
        for node in ast.walk(_tree(module)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{module.relative_to(_ROOT)}:{node.lineno}")
    assert "NodePowerProfile" in places, "the search does not find the classes of the members"
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


@pytest.mark.parametrize(
    ("kinds", "questions"),
    [
        ((ast.Module, ast.ClassDef), _QUESTIONS_OF_THINGS),
        ((ast.FunctionDef, ast.AsyncFunctionDef), _QUESTIONS),
    ],
    ids=["modules and classes", "functions and properties"],
)
def test_docstrings_name_what_they_document(kinds: tuple[type[ast.AST], ...], questions: frozenset[str]) -> None:
    modules = [*_MODULES, *_ROOT.glob("bench/**/*.py"), *_ROOT.glob("tools/**/*.py")]
    first_words = {place: word for module in modules for place, word in _first_words(module, kinds)}
    assert len(first_words) > len(_MODULES), "the search does not find the docstrings"
    assert {place: word for place, word in first_words.items() if word in questions} == {}


def test_words_that_the_glossary_replaces_are_not_used() -> None:
    found = [
        f"{path.relative_to(_ROOT)}:{number}: {match[0]}"
        for path in (*_MODULES, *_OTHERS, *_PAGES, *_CHART)
        # Changelogs name what something was called before.
        if path.name != "CHANGELOG.md"
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        for match in _REPLACED.finditer(line)
    ]
    assert found == []


def test_links_between_pages_lead_to_files_and_headings() -> None:
    broken = []
    for page in (*_PAGES, _GLOSSARY):
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if re.match(r"\w+:", target):
                continue
            name, _, heading = target.partition("#")
            path = (page.parent / name).resolve() if name else page
            if not path.exists() or (heading and heading not in _headings(path)):
                broken.append(f"{page.relative_to(_ROOT)}: {target}")
    assert broken == []


@functools.cache
def _tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text())


def _first_words(module: Path, kinds: tuple[type[ast.AST], ...]) -> Iterator[tuple[str, str]]:
    """Yield the place of each docstring of a module that is of one of these kinds, and the first word of it."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, kinds) and (docstring := ast.get_docstring(node)):
            line = getattr(node, "lineno", 1)
            word = re.match(r"\W*(\w*)", docstring)
            assert word is not None
            yield f"{module.relative_to(_ROOT)}:{line}", word[1]


def _headings(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
