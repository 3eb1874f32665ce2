"""The tests of every module that acts notice enough of its mutants, or it is told that they were not tried."""

from pathlib import Path

import pytest
from tools.mutants import modules, shares

_ROOT = Path(__file__).parents[2]
_ACTING = modules.read_acting()
_LISTED = shares.read()


def test_every_module_that_acts_is_measured_or_told_to_be_unmeasured():
    missing = _ACTING.modules(_ROOT) - _LISTED.keys() - _ACTING.unmeasured.keys()
    assert not missing, "run `just mutants MODULE TESTS --record`, or name them in tools/mutants/acting.toml"


def test_what_is_told_to_be_unmeasured_acts_is_not_measured_and_has_a_reason():
    assert _ACTING.unmeasured.keys() <= _ACTING.modules(_ROOT), "names what is gone or does not act"
    assert not _ACTING.unmeasured.keys() & _LISTED.keys(), "names what is measured"
    assert all(_ACTING.unmeasured.values())


def test_every_module_that_is_measured_exists_and_its_tests_notice_enough_of_its_mutants():
    assert _LISTED.keys() <= modules.targets(_ROOT).keys(), "names what is gone"
    few = {name: share.pct for name, share in _LISTED.items() if share.pct < shares.ENOUGH_PCT}
    assert not few, "run `just mutants MODULE` and add what its tests do not notice"
    assert [share.tests for share in _LISTED.values() if not all((_ROOT / test).exists() for test in share.tests)] == []


def test_every_package_that_acts_has_modules():
    for package in _ACTING.packages:
        assert modules.Acting((package,), {}).modules(_ROOT), package


def test_a_module_of_a_package_that_acts_is_missed_by_its_name(tmp_path):
    source = tmp_path / "services/toy/src/toy"
    source.mkdir(parents=True)
    (tmp_path / "services/toy/pyproject.toml").write_text("")
    texts = {"__init__": '"""Empty."""\n', "writer": '"""Writes."""\nX = 1\n', "wire_pb2": '"""Made."""\nX = 1\n'}
    for name, text in {**texts, "reader": "X = 1\nY = 2\n"}.items():
        (source / f"{name}.py").write_text(text)
    (tmp_path / "services/toy/src/toys.py").write_text("X = 1\nY = 2\n")
    assert modules.Acting(("toy",), {}).modules(tmp_path) == {"toy.writer", "toy.reader"}


def test_a_module_that_is_told_twice_to_be_unmeasured_is_refused(tmp_path):
    file = tmp_path / "acting.toml"
    group = '[[unmeasured]]\nreason = "later"\nmodules = ["a"]\n'
    file.write_text(f'packages = ["a"]\n{group}{group}')
    with pytest.raises(ValueError, match=r"a stands in acting\.toml twice"):
        modules.read_acting(file)
