"""The page of routes names files that exist, name the value and call each other; and it counts them right."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/results/routes.md").read_text()
#: The text of each route, by its letter.
ROUTES = {text[0]: text for text in re.split(r"^## (?=[a-z]\. )", PAGE, flags=re.MULTILINE)[1:]}


def sides(route):
    """Return the files and names of a route's table, one list for each process that it leads through."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in ROUTES[route].splitlines() if "|" in line]
    found = [[]]
    for file, _, name in rows[2:]:
        if name:
            found[-1].append((file.strip("`"), name.strip("`")))
        else:
            found.append([])
    return found


def carrying(route):
    """Return the files through which the value passes unseen."""
    return re.findall(r"^- `([^`]+\.py)`$", ROUTES[route], re.MULTILINE)


def module_of(path):
    """Return the dotted name of a module below a directory `src`."""
    name = path.partition("/src/")[2].removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def imports_of(path):
    """Return the modules that a file imports, those behind the names of a package included."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        found |= {node.module} | {f"{node.module}.{each.name}" for each in node.names}
        source = path.partition("/src/")[0]
        for root in {source, "libs/joulie-core", "libs/joulie-actuator"}:
            package = f"{root}/src/{node.module.replace('.', '/')}/__init__.py"
            if (ROOT / package).exists() and package != path:
                names = {each.name for each in node.names}
                found |= {
                    each.module
                    for each in ast.parse((ROOT / package).read_text()).body
                    if isinstance(each, ast.ImportFrom) and each.module and names & {one.name for one in each.names}
                }
    return found


def test_there_are_three_routes_each_with_a_table_and_a_list():
    assert sorted(ROUTES) == ["a", "b", "c"]
    assert all(side for route in ROUTES for side in sides(route))
    assert all(carrying(route) for route in ROUTES)


@pytest.mark.parametrize("route", sorted(ROUTES))
def test_every_file_of_a_route_exists_and_names_the_value(route):
    for file, name in (row for side in sides(route) for row in side):
        assert re.search(rf"\b{re.escape(name)}\b", (ROOT / file).read_text()), f"{file}: {name}"
    assert [file for file in carrying(route) if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("route", sorted(ROUTES))
def test_every_file_of_a_route_imports_another_of_its_process_or_is_imported_by_it(route):
    for side in sides(route):
        imports = {module_of(file): imports_of(file) for file, _ in side}
        for module, imported in imports.items():
            others = imports.keys() - {module}
            assert imported & others or any(module in imports[other] for other in others), module


@pytest.mark.parametrize("route", sorted(ROUTES))
def test_the_summary_counts_the_files_of_the_tables_and_lists(route):
    files = [file for side in sides(route) for file, _ in side]
    assert len(set(files)) == len(files), "a file is counted once"
    assert not set(files) & set(carrying(route))
    now = re.search(rf"^\| {route}\. [^|]+\|[^|]+\|[^|]+\| (\d+) \+ (\d+) \|", PAGE, re.MULTILINE)
    assert now is not None
    assert (len(files), len(carrying(route))) == tuple(map(int, now.groups()))
