"""The writes about one node, on recorded requests: verb, object, version, body and pages."""

import json

import pytest
from services.operator.tests.sleep.recorded_api import Api
from services.operator.tests.sleep.sleep_objects import (
    MAINTENANCE,
    MARK,
    OWN_TAINT,
    RECORD,
    REQUESTED,
    STATE,
    SWITCHED_OFF,
    owned_pod,
    seen_bmc,
    seen_node,
)

from joulie_core.kinds import NodeSleepPolicyStatus
from joulie_core.kinds.node_bmc import DesiredPower
from joulie_core.sleep import SleepReason, SleepRecord, SleepState
from joulie_operator.sleep.pods import read_pod
from joulie_operator.sleep.power_requests import SleepPowerRequest
from joulie_operator.sleep.writer import SleepWriter

OF_N1 = "spec.nodeName=n1,status.phase!=Succeeded,status.phase!=Failed"
NOON = "2026-11-25T12:00:00Z"
NOON_S = 1_795_608_000.0
TEAM = {"key": "team", "effect": "NoExecute", "value": "a", "timeAdded": "2026-01-01T00:00:00Z"}
CORDONED = SleepRecord(state=SleepState.CORDONED, since_s=NOON_S, reason=SleepReason.IDLE)
ASLEEP = SleepRecord(state=SleepState.ASLEEP, since_s=NOON_S, reason=SleepReason.OFF_CONFIRMED)
AWAKE = SleepRecord(since_s=NOON_S)


@pytest.fixture
def api():
    return Api()


@pytest.fixture
def writer(api):
    return SleepWriter(api, api)


def page(*pods, token=""):
    return json.dumps({"metadata": {"continue": token}, "items": list(pods)}).encode()


# --- the record -------------------------------------------------------------------------------------------------------


async def test_a_record_is_stored_with_label_and_taint_in_one_request_on_the_version_that_was_seen(api, writer):
    assert await writer.store(seen_node(version="41", taints=[TEAM]), CORDONED, changed=True) is True
    ((verb, kind, name, body),) = api.made
    assert (verb, kind, name) == ("patch", "Node", "n1")
    assert json.loads(body["metadata"]["annotations"].pop(RECORD))["state"] == "Cordoned"
    assert body == {
        "metadata": {"resourceVersion": "41", "annotations": {}, "labels": {STATE: "cordoned"}},
        "spec": {"taints": [TEAM, OWN_TAINT]},
    }


async def test_a_node_that_is_awake_again_loses_label_and_taint_and_keeps_other_taints(api, writer):
    bare = {"key": "zone", "effect": "NoSchedule"}
    asleep = seen_node(taints=[OWN_TAINT, TEAM, bare], labels={STATE: "waking"})
    await writer.store(asleep, AWAKE, changed=True)
    ((_, _, _, body),) = api.made
    assert body["metadata"]["labels"] == {STATE: None}
    assert body["spec"] == {"taints": [TEAM, bare]}


async def test_a_taint_that_people_removed_is_written_again_without_the_record(api, writer):
    await writer.store(seen_node(version="42", labels={STATE: "asleep"}), ASLEEP, changed=False)
    assert api.made == [
        ("patch", "Node", "n1", {"metadata": {"resourceVersion": "42"}, "spec": {"taints": [OWN_TAINT]}})
    ]


async def test_a_label_that_people_removed_is_written_again_without_taints(api, writer):
    await writer.store(seen_node(version="43", taints=[OWN_TAINT]), ASLEEP, changed=False)
    assert api.made == [("patch", "Node", "n1", {"metadata": {"resourceVersion": "43", "labels": {STATE: "asleep"}}})]


async def test_a_record_that_changed_is_written_where_label_and_taint_are_right(api, writer):
    seen = seen_node(version="44", taints=[OWN_TAINT], labels={STATE: "asleep"})
    assert await writer.store(seen, ASLEEP, changed=True) is True
    ((_, _, _, body),) = api.made
    assert list(body) == ["metadata"]
    assert sorted(body["metadata"]) == ["annotations", "resourceVersion"]


async def test_nothing_is_written_of_a_node_that_is_as_it_shall_be(api, writer):
    assert await writer.store(seen_node(), AWAKE, changed=False) is False
    asleep = seen_node(taints=[OWN_TAINT], labels={STATE: "asleep"})
    assert await writer.store(asleep, ASLEEP, changed=False) is False
    assert api.made == []


# --- the condition ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [ASLEEP, CORDONED], ids=lambda each: each.state.value)
async def test_the_condition_is_true_only_of_a_node_that_is_off(api, writer, record):
    await writer.show(seen_node(), record)
    ((verb, kind, name, part, body),) = api.made
    assert (verb, kind, name, part) == ("apply", "Node", "n1", "status")
    ((condition),) = body["status"]["conditions"]
    assert condition == {
        "type": "joulie.io/Asleep",
        "status": "True" if record is ASLEEP else "False",
        "reason": record.state.value,
        "message": "Asleep: off confirmed" if record is ASLEEP else "Cordoned: idle",
        "lastTransitionTime": NOON,
        "lastHeartbeatTime": NOON,
    }


async def test_a_node_that_has_never_slept_gets_no_condition(api, writer):
    await writer.show(seen_node(), AWAKE)
    assert api.made == []


@pytest.mark.parametrize(("shown", "record"), [("Asleep", AWAKE), ("Awake", CORDONED)])
async def test_a_condition_that_says_another_state_is_renewed(api, writer, shown, record):
    condition = {"type": "joulie.io/Asleep", "status": "True", "reason": shown}
    await writer.show(seen_node(conditions=[condition]), record)
    assert [body["status"]["conditions"][0]["reason"] for *_, body in api.made] == [record.state.value]


async def test_a_condition_that_says_the_state_is_not_written_again(api, writer):
    condition = {"type": "joulie.io/Asleep", "status": "True", "reason": "Asleep"}
    await writer.show(seen_node(conditions=[condition]), ASLEEP)
    assert api.made == []


@pytest.mark.parametrize(("record", "shown_state"), [(AWAKE, "Awake: initial"), (ASLEEP, "Asleep: off confirmed")])
async def test_a_maintenance_is_in_the_condition_with_its_reason_until_it_ends(api, writer, record, shown_state):
    seen = seen_node(annotations={MAINTENANCE: "ada: new fan\x1b[31m"})
    await writer.show(seen, record)
    ((*_, body),) = api.made
    ((condition),) = body["status"]["conditions"]
    assert condition["message"] == f"{shown_state}; maintenance: ada: new fan\ufffd[31m"
    shown = seen_node(annotations={MAINTENANCE: "ada: new fan\x1b[31m"}, conditions=[condition])
    await writer.show(shown, record)
    assert len(api.made) == 1
    await writer.show(seen_node(conditions=[condition]), record)
    assert api.made[1][-1]["status"]["conditions"][0]["message"] == shown_state


# --- the power --------------------------------------------------------------------------------------------------------


def marked_now(boot_id):
    """Return the mark of a server whose power-off may have been requested until now."""
    return f'{{"at":"{NOON}","bootID":"{boot_id}"}}'


@pytest.mark.parametrize("desired", [None, "Unmanaged"])
async def test_a_power_off_is_requested_with_the_mark_of_the_server_in_one_request(api, writer, desired):
    bmc = seen_bmc(version="51", desired=desired)
    assert (
        await writer.request_power(bmc, SleepPowerRequest(DesiredPower.OFF, boot_id="first", marked=True), now_s=NOON_S)
        is True
    )
    annotations = {REQUESTED: "Off", SWITCHED_OFF: marked_now("first")}
    metadata = {"resourceVersion": "51", "annotations": annotations}
    assert api.made == [("patch", "NodeBMC", "n1", {"metadata": metadata, "spec": {"desiredPower": "Off"}})]


async def test_a_power_off_of_an_earlier_version_gets_its_mark(api, writer):
    bmc = seen_bmc(desired="Off", requested="Off")
    del bmc.metadata.annotations[SWITCHED_OFF]
    assert writer.differs(bmc, SleepPowerRequest(DesiredPower.OFF, marked=True)) is True
    await writer.request_power(bmc, SleepPowerRequest(DesiredPower.OFF, boot_id="first", marked=True), now_s=NOON_S)
    ((*_, body),) = api.made
    assert body["metadata"]["annotations"] == {REQUESTED: "Off", SWITCHED_OFF: marked_now("first")}


@pytest.mark.parametrize("desired", [None, "Unmanaged"])
async def test_power_on_is_requested_with_the_operators_mark_on_the_version_that_was_seen(api, writer, desired):
    assert (
        await writer.request_power(
            seen_bmc(version="51", desired=desired), SleepPowerRequest(DesiredPower.ON), now_s=NOON_S
        )
        is True
    )
    metadata = {"resourceVersion": "51", "annotations": {REQUESTED: "On"}}
    assert api.made == [("patch", "NodeBMC", "n1", {"metadata": metadata, "spec": {"desiredPower": "On"}})]


@pytest.mark.parametrize(("mark", "boot_id"), [(MARK, "first"), ("broken", "")])
async def test_a_server_that_is_switched_on_keeps_its_mark_with_the_time_until_which_it_may_have_gone_off(
    api, writer, mark, boot_id
):
    bmc = seen_bmc(desired="Off", requested="Off", mark=mark)
    await writer.request_power(bmc, SleepPowerRequest(DesiredPower.ON), now_s=NOON_S)
    ((*_, body),) = api.made
    assert body["metadata"]["annotations"] == {REQUESTED: "On", SWITCHED_OFF: marked_now(boot_id)}


async def test_a_server_that_was_switched_on_meanwhile_is_marked_with_the_boot_that_may_be_asked_to_end(api, writer):
    bmc = seen_bmc(desired="Off", requested="Off", mark=MARK)
    await writer.request_power(bmc, SleepPowerRequest(DesiredPower.ON, boot_id=""), now_s=NOON_S)
    ((*_, body),) = api.made
    assert body["metadata"]["annotations"][SWITCHED_OFF] == marked_now("")


@pytest.mark.parametrize(("desired", "requested"), [("Off", "On"), ("On", None), ("Off", None), ("On", "Off")])
async def test_what_is_written_otherwise_is_requested_again(api, writer, desired, requested):
    """Also where a person has written the other value, or where the value has not the operator's mark."""
    power = DesiredPower.OFF if requested else DesiredPower.ON
    await writer.request_power(seen_bmc(desired=desired, requested=requested), SleepPowerRequest(power), now_s=NOON_S)
    assert [body["spec"] for *_, body in api.made] == [{"desiredPower": power.value}]


@pytest.mark.parametrize("boot_id", [None, "first"])
async def test_a_server_whose_nodebmc_has_lost_the_mark_gets_it_again(api, writer, boot_id):
    bmc = seen_bmc(version="51", desired="On", requested="On")
    await writer.request_power(bmc, SleepPowerRequest(DesiredPower.ON, boot_id, marked=True), now_s=NOON_S)
    annotations = {REQUESTED: "On", SWITCHED_OFF: marked_now(boot_id or "")}
    metadata = {"resourceVersion": "51", "annotations": annotations}
    assert api.made == [("patch", "NodeBMC", "n1", {"metadata": metadata, "spec": {"desiredPower": "On"}})]


async def test_the_mark_alone_leaves_a_persons_value(api, writer):
    bmc = seen_bmc(version="51", desired="Off")
    await writer.request_power(bmc, SleepPowerRequest(DesiredPower.UNMANAGED, "first", marked=True), now_s=NOON_S)
    ((*_, body),) = api.made
    assert body == {
        "metadata": {"resourceVersion": "51", "annotations": {REQUESTED: None, SWITCHED_OFF: marked_now("first")}}
    }


@pytest.mark.parametrize("power", [DesiredPower.OFF, DesiredPower.ON])
async def test_power_that_is_requested_already_is_not_requested_again(api, writer, power):
    bmc = seen_bmc(desired=power.value, requested=power.value)
    assert writer.differs(bmc, SleepPowerRequest(power)) is False
    assert await writer.request_power(bmc, SleepPowerRequest(power), now_s=NOON_S) is False
    assert api.made == []


@pytest.mark.parametrize("power", ["Off", "On"])
async def test_the_operators_own_request_is_withdrawn_with_its_mark_once_the_server_is_on(api, writer, power):
    bmc = seen_bmc(version="52", desired=power, requested=power, mark=MARK)
    assert writer.differs(bmc, SleepPowerRequest(DesiredPower.UNMANAGED)) is True
    assert await writer.request_power(bmc, SleepPowerRequest(DesiredPower.UNMANAGED, is_on=True), now_s=NOON_S) is True
    metadata = {"resourceVersion": "52", "annotations": {REQUESTED: None, SWITCHED_OFF: None}}
    assert api.made == [("patch", "NodeBMC", "n1", {"metadata": metadata, "spec": {"desiredPower": None}})]


async def test_a_server_that_is_not_confirmed_to_be_on_stays_marked_when_the_request_is_withdrawn(api, writer):
    bmc = seen_bmc(desired="Off", requested="Off")
    await writer.request_power(bmc, SleepPowerRequest(DesiredPower.UNMANAGED), now_s=NOON_S)
    ((*_, body),) = api.made
    assert body["metadata"]["annotations"] == {REQUESTED: None, SWITCHED_OFF: marked_now("first")}


async def test_a_mark_that_is_left_is_removed_by_itself_once_the_server_is_on(api, writer):
    bmc = seen_bmc(version="54", mark=MARK)
    assert await writer.request_power(bmc, SleepPowerRequest(DesiredPower.UNMANAGED), now_s=NOON_S) is False
    assert await writer.request_power(bmc, SleepPowerRequest(DesiredPower.UNMANAGED, is_on=True), now_s=NOON_S) is True
    metadata = {"resourceVersion": "54", "annotations": {REQUESTED: None, SWITCHED_OFF: None}}
    assert [body["metadata"] for *_, body in api.made] == [metadata]


@pytest.mark.parametrize(("desired", "requested"), [("On", "Off"), ("Off", "On"), (None, "Off")])
async def test_a_persons_value_stays_when_the_operators_request_is_withdrawn(api, writer, desired, requested):
    bmc = seen_bmc(version="53", desired=desired, requested=requested, mark=MARK)
    await writer.request_power(bmc, SleepPowerRequest(DesiredPower.UNMANAGED, is_on=True), now_s=NOON_S)
    metadata = {"resourceVersion": "53", "annotations": {REQUESTED: None, SWITCHED_OFF: None}}
    assert api.made == [("patch", "NodeBMC", "n1", {"metadata": metadata})]


@pytest.mark.parametrize("desired", [None, "On", "Off"])
@pytest.mark.parametrize("is_on", [False, True])
async def test_where_the_operator_has_requested_nothing_there_is_nothing_to_withdraw(api, writer, desired, is_on):
    bmc = seen_bmc(desired=desired)
    assert writer.differs(bmc, SleepPowerRequest(DesiredPower.UNMANAGED, is_on=is_on)) is False
    assert (
        await writer.request_power(bmc, SleepPowerRequest(DesiredPower.UNMANAGED, is_on=is_on), now_s=NOON_S) is False
    )
    assert api.made == []


# --- pods that would be lost ------------------------------------------------------------------------------------------


async def test_the_api_server_is_asked_for_the_running_pods_of_the_node(api, writer):
    api.pages = [page()]
    assert await writer.is_empty("n1") is True
    assert api.made == [("list", "Pod", OF_N1, "")]


async def test_a_pod_on_the_second_page_is_seen(api, writer):
    api.pages = [page(owned_pod("own", owner="DaemonSet"), token="next"), page(owned_pod("work"))]
    assert await writer.is_empty("n1") is False
    assert api.made == [("list", "Pod", OF_N1, ""), ("list", "Pod", OF_N1, "next")]


async def test_a_node_with_pods_of_daemon_sets_only_is_empty_on_every_page(api, writer):
    own = [owned_pod(f"own-{number}", owner="DaemonSet") for number in range(3)]
    api.pages = [page(own[0], token="a"), page(own[1], token="b"), page(own[2])]
    assert await writer.is_empty("n1") is True
    assert [token for *_, token in api.made] == ["", "a", "b"]


@pytest.mark.parametrize("owner", ["ReplicaSet", "Job", None])
async def test_a_node_with_any_other_pod_is_not_empty(api, writer, owner):
    api.pages = [page(owned_pod("own", owner="DaemonSet"), owned_pod("work", owner=owner))]
    assert await writer.is_empty("n1") is False


async def test_a_pod_that_cannot_be_read_counts_as_one_that_would_be_lost(api, writer):
    pod = owned_pod("odd", owner="DaemonSet")
    pod["metadata"]["annotations"] = "DEEP"
    api.pages = [page(pod).replace(b'"DEEP"', b"[" * 5000 + b"]" * 5000)]
    assert await writer.is_empty("n1") is False


async def test_a_list_without_items_is_an_empty_node(api, writer):
    api.pages = [b'{"metadata": {}, "items": null}']
    assert await writer.is_empty("n1") is True


# --- evictions and statuses -------------------------------------------------------------------------------------------


async def test_a_pod_is_evicted_by_name_and_namespace(api, writer):
    await writer.evict(read_pod(json.dumps(owned_pod("work", namespace="team")).encode()))
    assert api.made == [("evict", "work", "team")]


async def test_the_status_of_a_policy_is_applied_as_a_status(api, writer):
    status = NodeSleepPolicyStatus(observed_generation=3)
    await writer.publish("all", status)
    ((*request, body),) = api.made
    assert request == ["apply", "NodeSleepPolicy", "all", "status"]
    assert body["status"]["observedGeneration"] == 3
