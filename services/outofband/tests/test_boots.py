import json

import pytest

from joulie_api.errors import DecodeError
from joulie_core.kinds.node_bmc import MOST_BOOTS, BmcBoot
from joulie_outofband.boots import NodeReadiness, is_complete, read_readiness, usual_boot_s, with_boot

BOOT = BmcBoot(requested_at="1970-01-01T00:16:40.500Z", boot_id="a")


def test_a_node_that_is_still_ready_from_the_boot_before_has_not_booted():
    assert not is_complete(BOOT, NodeReadiness(ready=True, since_s=900, boot_id="a"))


def test_a_new_boot_id_or_a_newer_readiness_completes_a_boot():
    assert is_complete(BOOT, NodeReadiness(ready=True, since_s=900, boot_id="b"))
    assert is_complete(BOOT, NodeReadiness(ready=True, since_s=1000, boot_id="a"))


def test_a_node_that_is_not_ready_has_not_booted():
    assert not is_complete(BOOT, NodeReadiness(ready=False, since_s=1100, boot_id="b"))
    assert not is_complete(BOOT, NodeReadiness())


def test_the_usual_boot_time_is_the_95th_percentile():
    assert usual_boot_s(()) is None
    assert usual_boot_s([480.0]) == 480.0
    assert usual_boot_s([float(each) for each in range(1, 21)]) == 19.0


def test_the_oldest_boot_is_forgotten():
    recent = ()
    for each in range(MOST_BOOTS + 1):
        recent = with_boot(recent, each)
    assert (len(recent), recent[0], recent[-1]) == (MOST_BOOTS, 1, MOST_BOOTS)


def test_readiness_is_read_from_a_node():
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:10:00Z"}
    node = {"status": {"conditions": [{"type": "X", "status": "True"}, ready], "nodeInfo": {"bootID": "b"}}}
    assert read_readiness(json.dumps(node).encode()) == NodeReadiness(ready=True, since_s=600, boot_id="b")
    assert read_readiness(b"{}") == NodeReadiness()
    tainted = {"spec": {"taints": [{"key": "a"}, {"key": "joulie.io/asleep", "effect": "NoSchedule"}]}}
    assert read_readiness(json.dumps(tainted).encode()) == NodeReadiness(tainted=True)
    with pytest.raises(DecodeError):
        read_readiness(b"[]")
