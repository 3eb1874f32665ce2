"""`just mutants` on a workspace of one member: what survives, what is declared equivalent, and bad names."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

_TOOL = Path(__file__).parents[2] / "tools" / "mutants"
_PROJECT = """
[project]
name = "toy"
"""
_OPTIONS = """
[tool.pytest.ini_options]
addopts = "--import-mode=importlib"
markers = ["e2e", "docker", "soak", "long"]
"""
_MODULE = """
LIMITS = {"low": 10, "high": 20}


class Level:
    @property
    def high(self) -> int:
        return LIMITS["high"]


def above(value: int) -> bool:
    return value > LIMITS["low"]


def forgotten() -> int:
    return 1
"""
_TESTS = """
import pytest
from toy.level import Level, above


@pytest.mark.parametrize("value", [10, 11])
def test_above(value):
    assert above(value) is (value == 11)


def test_high():
    assert Level().high in range(15, 25)
"""
_EQUIVALENT = """
[[equivalent]]
module = "toy.level"
function = ""
line = 'LIMITS = {"low": 10, "high": 20}'
becomes = 'LIMITS = {"low": 10, "high": 21}'
reason = "any limit from 15 to 25 is as good"

[[equivalent]]
module = "toy.level"
function = "forgotten"
line = "return 1"
becomes = "return 2"
reason = "it is never called"
"""


@pytest.fixture
def workspace(tmp_path):
    files = {
        "pyproject.toml": _OPTIONS,
        "libs/toy/pyproject.toml": _PROJECT,
        "libs/toy/src/toy/__init__.py": "",
        "libs/toy/src/toy/level.py": _MODULE,
        "libs/toy/tests/test_level.py": _TESTS,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copytree(
        _TOOL, tmp_path / "tools/mutants", ignore=shutil.ignore_patterns("__pycache__", "*.toml", "*.jsonl")
    )
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    return tmp_path


def run(workspace, *arguments, limits=()):
    """Run the tool; `limits` replaces some of those that trials.py has, in seconds."""
    changed = "".join(f"trials.{name} = {value}; " for name, value in dict(limits).items())
    tool = (
        f"import runpy, sys; sys.path.insert(0, 'tools/mutants'); import trials; {changed}"
        "runpy.run_path('tools/mutants/run.py', run_name='__main__')"
    )
    command = [sys.executable, "-B", "-c", tool, *arguments]
    return subprocess.run(command, cwd=workspace, capture_output=True, text=True, check=False)


def files_in(workspace):
    return {path: path.read_bytes() for path in workspace.rglob("*") if path.is_file() and ".git" not in path.parts}


def test_survivors_are_shown_where_they_are_and_the_working_tree_stays_as_it_is(workspace):
    before = files_in(workspace)
    ended = run(workspace, "toy.level")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "survived: libs/toy/src/toy/level.py:2 in the module\n" in ended.stdout
    assert '+LIMITS = {"low": 10, "high": 21}' in ended.stdout
    assert "survived: libs/toy/src/toy/level.py:16 in forgotten (no test reaches it)\n" in ended.stdout
    assert ended.stdout.count("survived: ") == 2
    assert "2 survived, 0 without a result, 0 equivalent" in ended.stdout
    assert files_in(workspace) == before


def test_declared_equivalents_do_not_count_until_a_test_kills_them(workspace):
    (workspace / "tools/mutants/equivalent.toml").write_text(_EQUIVALENT)
    ended = run(workspace, "toy.level")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "0 survived, 0 without a result, 2 equivalent; 100.0 % killed" in ended.stdout

    with (workspace / "libs/toy/tests/test_level.py").open("a") as tests:
        tests.write("\n\ndef test_exactly():\n    assert Level().high == 20\n")
    ended = run(workspace, "toy.level")
    assert ended.returncode == 1
    assert "declared equivalent, but killed or gone" in ended.stdout


def test_a_mutant_that_hangs_is_a_timeout_and_a_failing_suite_is_refused(workspace):
    (workspace / "libs/toy/src/toy/level.py").write_text(
        "def rest(value: int) -> int:\n    while value > 1:\n        value -= 1\n    return value\n"
    )
    tests = workspace / "libs/toy/tests/test_level.py"
    tests.write_text("from toy.level import rest\n\n\ndef test_rest():\n    assert rest(3) == 1\n")
    ended = run(workspace, "toy.level", "--jobs", "1", limits={"_GRACE_S": 1, "_WAITING_GRACE_S": 1000})
    assert "timeout: libs/toy/src/toy/level.py:3 in rest\n" in ended.stdout

    tests.write_text("def test_wrong():\n    assert False\n")
    ended = run(workspace, "toy.level")
    assert ended.returncode == 1
    assert "test_wrong" in ended.stdout
    assert "have to pass" in ended.stdout


def test_a_mutant_that_waits_is_not_killed_by_the_time_that_passes(workspace):
    (workspace / "libs/toy/src/toy/level.py").write_text("def opens(value):\n    return value > 3\n")
    (workspace / "libs/toy/tests/test_level.py").write_text(
        "import threading\n\nfrom toy.level import opens\n\n\ndef test_opens():\n"
        "    opened = threading.Event()\n    if opens(4):\n        opened.set()\n    opened.wait()\n"
    )
    ended = run(workspace, "toy.level", "--jobs", "1", limits={"_GRACE_S": 1000, "_WAITING_GRACE_S": 2})
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "invalid: libs/toy/src/toy/level.py:2 in opens\n" in ended.stdout
    assert "+    return value > 4\n" in ended.stdout
    assert "2 mutants, 0 killed (of these 0 by timeout)" in ended.stdout


def test_a_mutant_of_a_coroutine_that_no_test_notices_survives(workspace):
    (workspace / "libs/toy/src/toy/level.py").write_text(
        "import asyncio\n\n\nasync def one() -> int:\n    async with asyncio.timeout(60):\n        return 1\n"
    )
    (workspace / "libs/toy/tests/test_level.py").write_text(
        "import asyncio\n\nfrom toy.level import one\n\n\ndef test_one():\n    assert asyncio.run(one()) == 1\n"
    )
    ended = run(workspace, "toy.level")
    assert "+    async with asyncio.timeout(61):" in ended.stdout, ended.stdout + ended.stderr


def test_tests_that_fail_without_a_mutant_where_mutants_are_tried_are_refused(workspace):
    with (workspace / "libs/toy/tests/test_level.py").open("a") as tests:
        tests.write("\n\ndef test_once():\n    with open('made', 'x'):\n        pass\n")
    ended = run(workspace, "toy.level")
    assert ended.returncode == 1
    assert "FileExistsError" in ended.stdout, ended.stdout + ended.stderr
    assert "have to pass" in ended.stdout
    assert "killed" not in ended.stdout


def recorded(workspace):
    lines = (workspace / "tools/mutants/shares.jsonl").read_text().splitlines()
    return {share["module"]: share for share in map(json.loads, lines)}


def test_a_recorded_share_has_what_was_found_and_its_tests_are_run_the_next_time(workspace):
    tests = "libs/toy/tests/test_level.py"
    assert run(workspace, "toy.level", tests, "--record").returncode == 1
    share = recorded(workspace)["toy.level"]
    assert (share["tests"], share["mutants"] - share["killed"], share["equivalent"]) == ([tests], 2, 0)

    assert f"running {tests} without" in run(workspace, "toy.level").stdout


def test_a_module_is_tried_again_when_it_or_one_of_its_tests_changed_since_it_was_recorded(workspace):
    run(workspace, "toy.level", "libs/toy/tests", "--record")
    ended = run(workspace, "--changed")
    assert (ended.returncode, ended.stdout) == (
        0,
        "0 of 1 modules of the list changed since their mutants were tried\n",
    )

    module = workspace / "libs/toy/src/toy/level.py"
    module.write_text('"""A level."""\n' + module.read_text().replace(":\n", ":  # of water\n"))
    assert run(workspace, "--changed").stdout == ended.stdout, "docstrings and comments have no mutants"

    with (workspace / "libs/toy/tests/test_level.py").open("a") as tests:
        tests.write("\n\ndef test_nothing():\n    pass\n")
    ended = run(workspace, "--changed")
    assert ended.returncode == 1, "two mutants survive"
    assert "not enough, or not run: toy.level\n" in ended.stdout


def test_changed_modules_are_recorded_again_where_that_is_asked_for(workspace):
    run(workspace, "toy.level", "libs/toy/tests", "--record")
    share = recorded(workspace)["toy.level"] | {"killed": 0, "digest": "another"}
    (workspace / "tools/mutants/shares.jsonl").write_text(json.dumps(share) + "\n")
    run(workspace, "--changed", "--record")
    renewed = recorded(workspace)["toy.level"]
    assert renewed["digest"] != "another"
    assert renewed["mutants"] - renewed["killed"] == 2


def test_what_would_take_longer_than_the_given_time_is_left_out_by_name(workspace):
    run(workspace, "toy.level", "libs/toy/tests", "--record")
    share = recorded(workspace)["toy.level"] | {"seconds": 121, "digest": "another"}
    (workspace / "tools/mutants/shares.jsonl").write_text(json.dumps(share) + "\n")
    ended = run(workspace, "--changed", "--within", "120")
    assert ended.returncode == 0
    assert "left out, since it takes 121 s: just mutants toy.level\n" in ended.stdout


def test_an_unknown_module_is_answered_with_the_known_ones(workspace):
    ended = run(workspace, "toy.levels")
    assert ended.returncode == 1
    assert "no module toy.levels; in toy:\n  toy.level\n" in ended.stderr
