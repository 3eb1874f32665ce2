"""Which files of tests are read for an expression of `-m`."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests import marks

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("", set()),
        ("e2e", {"e2e"}),
        ("e2e and not long", {"e2e"}),
        ("long and e2e", {"long", "e2e"}),
        ("not e2e and not docker and not soak and not long", set()),
        ("e2e or docker", set()),
        ("not (e2e and long)", set()),
        ("system", set()),
    ],
)
def test_marks_without_which_no_test_fits(expression, expected):
    assert marks.required(expression) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pytestmark = pytest.mark.e2e", True),
        ("@pytest.mark.e2e\nasync def test_one(): ...", True),
        ("pytestmark = pytest.mark.e2e_like", False),
        ("def test_one(): ...", False),
    ],
)
def test_a_file_that_does_not_state_a_mark_is_left_out(tmp_path, text, expected):
    path = tmp_path / "test_one.py"
    path.write_text(text)
    assert marks.can_have(path, ["e2e"]) is expected


def test_a_mark_that_comes_from_another_file_is_an_error(tmp_path):
    path = tmp_path / "test_one.py"
    path.write_text("from tests.other import pytestmark")
    item = SimpleNamespace(path=path, iter_markers=lambda: [pytest.mark.docker.mark])
    with pytest.raises(pytest.UsageError, match="marked docker"):
        marks.check_stated([item])


@pytest.mark.parametrize("recipe", ["e2e", "docker", "long", "soak"])
def test_the_recipes_read_only_the_files_that_state_their_mark(recipe):
    lines = (_ROOT / "justfile").read_text().splitlines()
    command = lines[lines.index(f"{recipe} *ARGS:") + 1]
    expression = command.split("-m ", 1)[1]
    expression = expression.split('"')[1] if expression.startswith('"') else expression.split()[0]
    assert marks.required(expression) == {recipe}
