"""The kind of adjustments."""

import pytest
from pydantic import ValidationError

from joulie_core.kinds.adjustment import Adjustment, AdjustmentSpec, names_node

FULL = {
    "scope": [{"nodes": ["n*"], "containers": [{"key": "pod/labels/app", "operator": "Equals", "values": ["db"]}]}],
    "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": 2, "memory": "2Gi"}},
    "classes": {"rdt": "gold", "blockio": "slow", "cpu": "eco"},
}


def test_what_is_written_is_read():
    spec = Adjustment.model_validate({"spec": FULL}).spec
    assert spec.resources.limits.cpu == "2"
    assert spec.classes.cpu == "eco"
    assert spec.scope[0].containers[0].values == ("db",)


@pytest.mark.parametrize(
    ("part", "error"),
    [
        ({"resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}}, r"limits\.cpu: 1500m is less"),
        ({"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "2G"}}}, r"limits\.memory: 2G is less"),
        ({"resources": {"limits": {"cpu": "-1"}}}, "at least 0"),
        ({"toptierLimit": "much"}, "not a Kubernetes quantity"),
        ({"toptierLimit": "512Mi"}, "toptierLimit is not supported, since Linux has no limit for one tier of memory"),
        ({"classes": {"cpu": ""}}, "at least 1 character"),
        ({"scope": [{"containers": [{"key": "color", "operator": "Exists"}]}]}, "is no key"),
    ],
)
def test_what_cannot_be_meant_is_refused(part, error):
    with pytest.raises(ValidationError, match=error):
        AdjustmentSpec.model_validate(part)


def test_a_limit_that_equals_the_request_in_another_notation_is_taken():
    AdjustmentSpec.model_validate({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1000m"}}})


@pytest.mark.parametrize(
    ("scope", "named"),
    [
        ([], True),
        (None, True),
        ([{}], True),
        ([{"nodes": []}], True),
        ([{"nodes": ["n1"]}], True),
        ([{"nodes": ["n?"]}], True),
        ([{"nodes": ["other-*"]}], False),
        ([{"nodes": ["other"]}, {"nodes": ["n[0-9]"]}], True),
        ([{"nodes": ["other"], "containers": []}], False),
        ("malformed", True),
        (["malformed"], True),
        ([{"nodes": [3]}], True),
    ],
)
def test_a_node_is_named_by_a_glob_or_where_there_is_none_or_it_is_malformed(scope, named):
    assert names_node({"scope": scope}, "n1") is named
