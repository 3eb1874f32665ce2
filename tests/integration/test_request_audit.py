"""The comparison of the services' requests with their roles at the end of the end-to-end tests."""

import textwrap

import pytest
from tests.e2e.grants import Use, granted, refused, used

from joulie_api.permissions import SERVICES
from joulie_devcluster.control_plane.audit import UserRequest

pytest_plugins = ["pytester"]

HARDWARE = ("joulie.io", "nodehardwares")


def request(verb, resource=HARDWARE, *, code=200, service="joulie-agent", user_agent=None):
    group, plural = resource
    return UserRequest(service, user_agent or service, verb, group, plural, code)


def use(verb, resource=HARDWARE, service="joulie-agent"):
    return Use(service, verb, *resource)


def test_every_verb_of_every_service_is_a_grant():
    grants = granted()
    assert use("create", ("topology.node.k8s.io", "noderesourcetopologies")) in grants
    assert use("get", ("", "secrets")) in grants
    assert use("update", ("coordination.k8s.io", "leases"), "joulie-operator") in grants
    assert {each.service for each in grants} == {f"joulie-{service}" for service in SERVICES}


def test_an_apply_that_creates_uses_both_verbs():
    assert used([request("patch", code=201)]) == {use("patch"), use("create")}
    assert used([request("patch")]) == {use("patch")}


def test_a_grant_is_used_whatever_the_answer_but_a_refusal():
    assert used([request("get", code=404), request("delete", code=403)]) == {use("get")}


def test_what_a_test_requests_with_a_services_credentials_does_not_count():
    by_test = request("get", user_agent="joulie-tests")
    assert not used([by_test])
    assert not refused([request("get", user_agent="joulie-tests", code=403)])


def test_what_container_resources_request_uses_the_grants_of_the_account_that_they_share():
    assert used([request("patch", service="chart-agent", user_agent="joulie-containers")]) == {use("patch")}


def test_refusals_name_user_verb_and_resource_once():
    assert refused([request("patch", code=403), request("patch", code=403), request("get")]) == [
        "joulie-agent, joulie-agent: patch nodehardwares.joulie.io"
    ]


def test_a_request_that_the_same_user_was_permitted_at_another_time_was_not_refused_for_good():
    assert not refused([request("patch", code=403), request("patch", code=409)])
    assert refused([request("patch", code=403), request("patch", service="chart-agent", user_agent="joulie-agent")])


SUITE = """
import pytest
from joulie_devcluster.control_plane.audit import UserRequest
from joulie_devcluster.fixtures import REQUESTS
from tests.e2e.grants import granted

# Two tests with a half of the requests each, which pytest-xdist gives to two processes.
@pytest.mark.e2e
@pytest.mark.parametrize("half", [0, 1])
def test_services(pytestconfig, half):
    requests = pytestconfig.stash.setdefault(REQUESTS, set())
    for use in sorted(granted())[half::2]:
        if use.verb not in OMITTED:
            requests.add(UserRequest(use.service, use.service, use.verb, use.group, use.resource, 200))
    requests |= {UserRequest("joulie-agent", "joulie-agent", verb, "", "services", 403) for verb in REFUSED}

@pytest.mark.e2e
def test_other():
    pass
"""


@pytest.fixture
def run(pytester, monkeypatch, pytestconfig):
    def run(*arguments, omitted=(), denied=(), processes=0):
        head = f"OMITTED, REFUSED = {omitted!r}, {denied!r}\n"
        tests = pytester.mkdir("suite")
        (tests / "test_suite.py").write_text(head + SUITE)
        pytester.makeconftest('pytest_plugins = ["tests.e2e.audit_plugin"]')
        pytester.makeini(
            textwrap.dedent("""
                [pytest]
                asyncio_default_fixture_loop_scope = function
                testpaths = suite
                markers = e2e: on a cluster
            """)
        )
        if processes:
            # The processes import this repository as it is started from: with its root in front.
            monkeypatch.setenv("PYTHONPATH", str(pytestconfig.rootpath))
            return pytester.runpytest_subprocess("-n", str(processes), *arguments)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments)

    return run


ALL = ("-m", "e2e and not long")


def test_a_session_in_which_every_grant_was_used_and_none_was_missing_passes(run):
    result = run(*ALL)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [f"{len(granted())} of {len(granted())} grants used, 0 kinds of requests always refused*"]
    )


def test_a_grant_that_nothing_used_fails_the_whole_suite_by_name(run):
    result = run(*ALL, omitted=("update",))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["not used: joulie-operator: update leases.coordination.k8s.io"])


@pytest.mark.parametrize("part", [("-k", "services"), ("suite/test_suite.py",)], ids=["keyword", "path"])
def test_unused_grants_are_no_failure_of_a_part_of_the_suite(run, part):
    result = run(*ALL, *part, omitted=("update",))
    assert result.ret == 0
    result.stdout.fnmatch_lines(["unused grants are no failure: a part of the suite was selected"])
    result.stdout.no_fnmatch_line("not used: *")


def test_a_refused_request_fails_a_part_of_the_suite_too(run):
    result = run(*ALL, "-k", "services", denied=("list",))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["refused: joulie-agent, joulie-agent: list services"])


def test_a_session_without_clusters_reports_nothing(run):
    result = run(*ALL, "-k", "other")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*grants used*")


def test_what_the_processes_of_a_distributed_session_saw_is_compared_together(run):
    result = run(*ALL, processes=2)
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"{len(granted())} of {len(granted())} grants used, 0 kinds*"])


def test_a_distributed_session_fails_by_what_one_of_its_processes_saw_or_none_did(run):
    result = run(*ALL, processes=2, omitted=("update",), denied=("list",))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["refused: joulie-agent, joulie-agent: list services", "not used: joulie-operator: update leases*"]
    )
