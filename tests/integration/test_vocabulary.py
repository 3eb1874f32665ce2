"""One word for one thing: public class names are unique across all members, see docs/glossary.md."""

import ast
from collections import defaultdict
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_MODULES = sorted([*_ROOT.glob("libs/*/src/**/*.py"), *_ROOT.glob("services/*/src/**/*.py")])


def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict(list)
    for module in _MODULES:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{module.relative_to(_ROOT)}:{node.lineno}")
    assert "NodePowerProfile" in places, "the search does not find the classes of the members"
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
