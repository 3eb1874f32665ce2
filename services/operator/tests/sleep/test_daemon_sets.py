"""What is read of DaemonSets: whether their roll-out waits for nodes."""

import json

import pytest

from joulie_api.errors import DecodeError
from joulie_core.pod import Requirement, SelectorOperator, Term
from joulie_operator.sleep.daemon_sets import meant_for, read_daemon_set


def rolling_out(strategy="RollingUpdate", generation=2, observed=2, wanted=4, updated=4):
    status = {"observedGeneration": observed, "desiredNumberScheduled": wanted, "updatedNumberScheduled": updated}
    spec = {"updateStrategy": {"type": strategy}} if strategy is not None else {}
    body = {"metadata": {"name": "agent", "generation": generation}, "spec": spec, "status": status}
    return read_daemon_set(json.dumps(body).encode()).rolling_out


def test_a_daemon_set_whose_pods_are_all_updated_waits_for_no_node():
    assert rolling_out() is False


@pytest.mark.parametrize("behind", [{"updated": 3}, {"observed": 1}, {"updated": 0}])
def test_a_daemon_set_that_is_behind_rolls_out(behind):
    assert rolling_out(**behind) is True
    assert rolling_out(strategy=None, **behind) is True, "RollingUpdate is the default"
    assert rolling_out(strategy="OnDelete", **behind) is False, "its pods are updated by people"


def test_a_daemon_set_that_its_controller_has_not_seen_rolls_out():
    assert read_daemon_set(b'{"metadata": {"generation": 1}}').rolling_out is True
    assert read_daemon_set(b'{"metadata": {}}').rolling_out is False
    wanted = b'{"metadata": {}, "status": {"desiredNumberScheduled": 1}}'
    assert read_daemon_set(wanted).rolling_out is True


def fields(key, *values):
    return Term(fields=(Requirement(key, SelectorOperator.IN, values),))


@pytest.mark.parametrize(
    ("terms", "name"),
    [
        ((fields("metadata.name", "n3"),), "n3"),
        ((Term(), fields("metadata.name", "n3")), "n3"),
        ((fields("metadata.uid", "x"), fields("metadata.name", "n4", "n5")), "n4"),
        ((fields("metadata.name"), fields("metadata.name", "n6")), "n6"),
        ((fields("metadata.uid", "x"),), ""),
        ((), ""),
        (None, ""),
    ],
)
def test_the_node_of_a_pod_is_the_one_that_its_affinity_names(terms, name):
    assert meant_for(terms) == name


@pytest.mark.parametrize("raw", [b"[]", b"[" * 5000])
def test_what_is_no_daemon_set_is_refused(raw):
    with pytest.raises(DecodeError, match=r"^not a DaemonSet: "):
        read_daemon_set(raw)
