"""The pytest plugin: getting the binaries before the first test, and reporting errors."""

import textwrap

import pytest

from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.errors import BinaryError

pytest_plugins = ["pytester"]

SUITE = """
import pytest
@pytest.mark.e2e
async def test_on_a_cluster(devcluster):
    pass
def test_alone():
    pass
"""


@pytest.fixture
def suite(pytester, monkeypatch):
    pytester.makepyfile(SUITE)
    pytester.makeconftest('pytest_plugins = ["joulie_devcluster.fixtures"]')
    pytester.makeini(
        textwrap.dedent("""
            [pytest]
            asyncio_mode = auto
            asyncio_default_fixture_loop_scope = function
            markers = e2e: on a cluster
        """)
    )
    asked = []

    def refuse(*_, **__):
        asked.append(True)
        raise BinaryError("no way to build etcd")

    monkeypatch.setattr(lookup, "ensure", refuse)
    return pytester, asked


def test_if_binaries_cannot_be_built_tests_that_need_them_fail_with_the_reason_and_others_run(suite):
    pytester, asked = suite
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*no way to build etcd*"])
    assert asked == [True]


def test_a_run_without_cluster_tests_needs_no_binaries(suite):
    pytester, asked = suite
    pytester.runpytest_inprocess("-m", "not e2e").assert_outcomes(passed=1, deselected=1)
    assert asked == []


def test_a_test_with_the_reference_runtime_fails_with_the_reason_for_each_version(suite):
    pytester, asked = suite
    pytester.makepyfile("def test_on_a_runtime(nri_runtime_binary):\n    pass\n")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(["*no way to build etcd*"])
    assert asked == [True]


def test_what_several_kinds_of_tests_need_is_built_at_once(pytester, monkeypatch):
    asked = []
    monkeypatch.setattr(lookup, "ensure", lambda binaries, **_: asked.append([*binaries]) or {})
    pytester.makepyfile(f"{SUITE}\ndef test_on_a_runtime(nri_runtime_binary):\n    pass\n")
    pytester.makeconftest('pytest_plugins = ["joulie_devcluster.fixtures"]')
    pytester.makeini("[pytest]\nmarkers = e2e: on a cluster")
    pytester.runpytest_inprocess("-k", "runtime or cluster", "--setup-plan")
    assert asked[0] == [*lookup.CONTROL_PLANE, Binary.KUBECTL, *lookup.NRI_RUNTIMES]
