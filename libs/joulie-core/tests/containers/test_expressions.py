"""Conditions on containers, and texts made of what containers have."""

from fnmatch import fnmatchcase

import hypothesis.strategies as st
import pytest
from hypothesis import given
from pydantic import ValidationError

from joulie_core.containers.container import ContainerId, ContainerInfo, PodInfo, PodSandboxId, QosClass
from joulie_core.containers.expressions import expand, glob_matches, key_value, matches
from joulie_core.kinds.match_expression import ExpressionSpec, check_glob, check_key

POD = PodInfo(
    id=PodSandboxId("sandbox-1"),
    uid="u-1",
    namespace="team-a",
    name="web-0",
    qos=QosClass.BURSTABLE,
    labels={"app.kubernetes.io/name": "web"},
    annotations={"joulie.io/workload-class": "performance"},
)
CONTAINER = ContainerInfo(id=ContainerId("c-1"), pod=POD, name="nginx", labels={"tier": "front/edge"})


def holds(key, operator, *values):
    return matches(ExpressionSpec(key=key, operator=operator, values=values), CONTAINER)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "nginx"),
        ("namespace", "team-a"),
        ("qosclass", "Burstable"),
        ("id", "c-1"),
        ("uid", "u-1"),
        ("labels/tier", "front/edge"),
        ("labels/absent", None),
        ("tags/avx512", None),
        ("pod/name", "web-0"),
        ("pod/namespace", "team-a"),
        ("pod/qosclass", "Burstable"),
        ("pod/id", "sandbox-1"),
        ("pod/uid", "u-1"),
        ("pod/labels/app.kubernetes.io/name", "web"),
        ("pod/annotations/joulie.io/workload-class", "performance"),
        ("annotations/joulie.io/workload-class", "performance"),
        (":pod/qosclass:pod/name:name", "Burstable:web-0:nginx"),
        (":::pod/name:name", "web-0:nginx"),
        (":,-pod/name,labels/absent,name", "web-0--nginx"),
        (":labels/absent:labels/other", None),
    ],
)
def test_keys_name_what_a_container_and_its_pod_have(key, value):
    assert check_key(key) == key
    assert key_value(key, CONTAINER) == value


@pytest.mark.parametrize("key", ["colour", "labels", "labels/", "name/x", "pod/", "pod/pod/name", ":name:colour", ":"])
def test_a_key_that_names_nothing_is_refused(key):
    with pytest.raises(ValidationError, match="is no key; write name, namespace"):
        ExpressionSpec(key=key, operator="Exists")


@pytest.mark.parametrize(
    ("operator", "values", "on_nginx", "on_absent"),
    [
        ("Equals", ("nginx",), True, False),
        ("Equals", ("httpd",), False, False),
        ("NotEqual", ("nginx",), False, True),
        ("NotEqual", ("httpd",), True, True),
        ("In", ("httpd", "nginx"), True, False),
        ("In", (), False, False),
        ("NotIn", ("httpd", "nginx"), False, True),
        ("Exists", (), True, False),
        ("NotExist", (), False, True),
        ("NotExists", (), False, True),
        ("AlwaysTrue", (), True, True),
        ("Matches", ("ng*",), True, False),
        ("Matches", ("*x?",), False, False),
        ("MatchesNot", ("ng*",), False, True),
        ("MatchesAny", ("a*", "*nx"), True, False),
        ("MatchesNone", ("a*", "*nx"), False, True),
    ],
)
def test_operators_compare_the_value_of_a_key(operator, values, on_nginx, on_absent):
    assert holds("name", operator, *values) is on_nginx
    assert holds("labels/absent", operator, *values) is on_absent


@pytest.mark.parametrize(
    "spec",
    [
        {"key": "name", "operator": "Equals"},
        {"key": "name", "operator": "Matches", "values": ["a", "b"]},
        {"operator": "Exists"},
        {"key": "name", "operator": "Resembles"},
        {"key": "name", "operator": "MatchesAny", "values": ["[a"]},
    ],
)
def test_an_expression_that_cannot_be_meant_is_refused(spec):
    with pytest.raises(ValidationError):
        ExpressionSpec.model_validate(spec)


@pytest.mark.parametrize(
    ("pattern", "text", "result"),
    [
        ("*", "", True),
        ("*", "a/b", False),
        ("*/*", "a/b", True),
        ("?", "/", False),
        ("a[b-d]e", "ace", True),
        ("a[^b-d]e", "ace", False),
        ("a[^b-d]e", "aze", True),
        ("a[!b]e", "a!e", True),
        ("a[!b]e", "abe", True),
        ("a[!b]e", "aze", False),
        (r"a\*", "a*", True),
        (r"a\*", "ab", False),
        (r"\[x]", "[x]", True),
        ("front/*", "front/edge", True),
    ],
)
def test_globs_match_as_paths_do(pattern, text, result):
    assert check_glob(pattern) == pattern
    assert glob_matches(pattern, text) is result


@pytest.mark.parametrize("pattern", ["[", "[a", "a\\", "[]", "[^]", "[a/b]", "a\\/b", "[a\\]b]"])
def test_a_malformed_glob_is_refused(pattern):
    with pytest.raises(ValueError, match="is no glob"):
        check_glob(pattern)


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=8))
def test_a_glob_without_slashes_matches_as_in_a_shell(pattern, text):
    assert glob_matches(check_glob(pattern), text) == fnmatchcase(text, pattern)


@given(st.text(max_size=20))
def test_what_is_accepted_as_a_glob_can_be_matched(pattern):
    try:
        check_glob(pattern)
    except ValueError:
        return
    glob_matches(pattern, "text")


def test_a_glob_of_many_stars_is_matched_at_once():
    assert not glob_matches("*a" * 30 + "b", "a" * 5000)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("${pod/labels/app.kubernetes.io/name}-$namespace", "web-team-a"),
        ("$name:$pod/name", "nginx:web-0"),
        ("${labels/absent}", ""),
        ("${:pod/name:name}", "web-0:nginx"),
        ("cost: 5$", "cost: 5$"),
    ],
)
def test_references_in_a_text_are_replaced(template, text):
    assert expand(template, CONTAINER) == text
