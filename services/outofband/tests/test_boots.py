import json

import pytest

from joulie_api.errors import DecodeError
from joulie_core.kinds.node_bmc import MOST_BOOTS, BmcBoot
from joulie_outofband.boots import NodeReadiness, is_complete, read_readiness, usual_boot_s, with_boot

#: An hour after the request.
NOW_S = 4600.0
BOOT = BmcBoot(requested_at="1970-01-01T00:16:40.500Z", boot_id="a")


def test_a_node_that_is_still_ready_from_the_boot_before_has_not_booted():
    assert not is_complete(BOOT, NodeReadiness(ready=True, since_s=900, boot_id="a"), NOW_S)


def test_a_new_boot_id_or_a_newer_readiness_completes_a_boot():
    assert is_complete(BOOT, NodeReadiness(ready=True, since_s=900, boot_id="b"), NOW_S)
    assert is_complete(BOOT, NodeReadiness(ready=True, since_s=1000, boot_id="a"), NOW_S)


def test_a_readiness_ahead_of_the_clock_is_no_evidence_of_a_boot():
    assert not is_complete(BOOT, NodeReadiness(ready=True, since_s=NOW_S + 1, boot_id="a"), NOW_S)
    assert is_complete(BOOT, NodeReadiness(ready=True, since_s=NOW_S, boot_id="a"), NOW_S)
    assert is_complete(BOOT, NodeReadiness(ready=True, since_s=NOW_S + 1, boot_id="b"), NOW_S)


def test_a_node_that_is_not_ready_has_not_booted():
    assert not is_complete(BOOT, NodeReadiness(ready=False, since_s=1100, boot_id="b"), NOW_S)
    assert not is_complete(BOOT, NodeReadiness(), NOW_S)


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


def test_a_readiness_without_a_time_needs_another_boot_id():
    assert is_complete(BOOT, NodeReadiness(ready=True, since_s=None, boot_id="b"), NOW_S)
    assert not is_complete(BOOT, NodeReadiness(ready=True, since_s=None, boot_id="a"), NOW_S)
    assert not is_complete(BOOT, NodeReadiness(ready=False, since_s=None, boot_id="b"), NOW_S)
    unreadable = BOOT.model_copy(update={"requested_at": "soon"})
    assert not is_complete(unreadable, NodeReadiness(ready=True, since_s=2000, boot_id="a"), NOW_S)
    assert is_complete(unreadable, NodeReadiness(ready=True, since_s=2000, boot_id="b"), NOW_S)


def test_boot_times_have_tenths_of_a_second():
    assert with_boot((1.0,), 612.3456) == (1.0, 612.3)


def test_a_node_with_other_taints_is_not_asleep():
    node = {"spec": {"taints": [{"key": "joulie.io/other"}, {}]}}
    assert read_readiness(json.dumps(node).encode()).tainted is False


def test_a_boot_id_of_any_length_fits_into_the_status():
    node = {"status": {"nodeInfo": {"bootID": "a" * 63 + "\x9b" + "b" * 9}}}
    boot_id = read_readiness(json.dumps(node).encode()).boot_id
    assert BmcBoot(requested_at="x", boot_id=boot_id).boot_id == boot_id
    assert (len(boot_id), boot_id.isprintable()) == (64, True)


def test_what_is_not_a_node_is_named():
    with pytest.raises(DecodeError, match="not a Node"):
        read_readiness(b"[" * 9000)
