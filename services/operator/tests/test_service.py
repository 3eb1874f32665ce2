"""The operator on an API server: from its watches to its writes. `cluster` and its helpers are in conftest."""

import asyncio
import time

import pytest

from joulie_api.errors import LeadershipLost
from joulie_core import labels
from joulie_core.timestamps import rfc3339
from joulie_testing.api import (
    Respond,
    claiming,
    dra_definitions,
    make_claim,
    make_node,
    make_node_bmc,
    make_node_power_profile,
    make_pod,
    make_telemetry_profile,
)

CPU_NODES = [make_node(f"node-{index}", cpu_model="AMD EPYC 7763", cpu_sockets=2, cpu=256) for index in range(4)]
PERFORMANCE_CAPS = {"cpu": {"packagePowerCapPctOfMax": 100}}
ECO_CAPS = {"cpu": {"packagePowerCapPctOfMax": 60}}


def caps(target):
    return {key: target[key] for key in ("cpu", "gpu") if key in target}


async def test_static_partition_converges_on_twelve_mixed_nodes_and_every_family_keeps_a_performance_node(
    cluster, mixed
):
    cluster.api.put_all(mixed)
    cluster.start()
    await cluster.until(cluster.settled)
    assert cluster.performance() == {"gpu-0", "gpu-1", "gpu-2", "gpu-3", "new-0", "old-0"}
    assert caps(cluster.target("new-0")) == PERFORMANCE_CAPS
    assert caps(cluster.target("new-1")) == ECO_CAPS
    assert caps(cluster.target("gpu-0")) == PERFORMANCE_CAPS | {
        "gpu": {"powerCap": {"scope": "perGpu", "capPctOfMax": 100}}
    }
    assert cluster.target("old-0")["policy"] == {
        "name": "static_partition",
        "reason": "densest node of its hardware family",
        "onLostControl": "restore",
    }


async def test_the_target_carries_what_its_agent_does_without_the_operator(cluster, mixed):
    cluster.api.put_all(mixed)
    cluster.start(ON_LOST_CONTROL="hold")
    await cluster.until(cluster.settled)
    assert cluster.target("old-0")["policy"]["onLostControl"] == "hold"


async def test_objects_are_named_after_their_node_and_owned_by_it(cluster):
    node = cluster.api.put(CPU_NODES[0])
    cluster.start()
    await cluster.until(cluster.settled)
    reference = {"apiVersion": "v1", "kind": "Node", "name": "node-0", "uid": node["metadata"]["uid"]}
    for kind in ("NodePowerProfile", "NodeTwin"):
        found = cluster.api.get(kind, "node-0")
        assert found["metadata"]["ownerReferences"] == [reference]
        assert found["spec"]["nodeName"] == "node-0"
    assert cluster.twin("node-0")["lastUpdated"].endswith("Z")


async def test_changing_demand_moves_nodes_under_queue_aware(cluster, mixed):
    cluster.api.put_all(mixed)
    cluster.start(POLICY_TYPE="queue_aware_v1", QUEUE_HP_BASE_FRAC="0", QUEUE_HP_MIN="1", QUEUE_PERF_PER_HP_NODE="2")
    await cluster.until(lambda: cluster.settled() and cluster.performance() == {"gpu-0"})
    for index in range(8):
        cluster.api.put(make_pod(f"waiting-{index}", workload_class="performance"))
    await cluster.until(lambda: cluster.settled() and cluster.performance() == {"gpu-0", "gpu-1", "new-0", "old-0"})
    for index in range(8):
        cluster.api.remove("Pod", f"waiting-{index}", "default")
    await cluster.until(lambda: cluster.settled() and cluster.performance() == {"gpu-0"})


async def test_a_performance_pod_holds_a_node_in_draining_with_performance_caps_until_it_leaves(cluster):
    cluster.api.put_all(CPU_NODES)
    cluster.place("busy", "node-3")
    cluster.start()
    await cluster.until(lambda: cluster.settled() and cluster.view("node-3") == "eco-draining")
    assert caps(cluster.target("node-3")) == PERFORMANCE_CAPS
    assert cluster.twin("node-3")["effectiveCapState"]["cpuPct"] == 100
    cluster.api.remove("Pod", "busy", "default")
    await cluster.until(lambda: cluster.view("node-3") == "eco")
    assert caps(cluster.target("node-3")) == ECO_CAPS


async def test_a_draining_node_whose_last_pod_has_left_waits_for_no_plan(cluster):
    cluster.api.put_all(CPU_NODES)
    cluster.place("busy", "node-3")
    cluster.start(PLAN_DEBOUNCE="1h", RECONCILE_INTERVAL="1h")
    await cluster.until(lambda: cluster.settled() and cluster.view("node-3") == "eco-draining")
    cluster.api.remove("Pod", "busy", "default")
    await cluster.until(lambda: cluster.view("node-3") == "eco")


async def test_a_finished_pod_blocks_nothing(cluster):
    cluster.api.put_all(CPU_NODES)
    cluster.place("busy", "node-3")
    cluster.start()
    await cluster.until(lambda: cluster.view("node-3") == "eco-draining")
    cluster.api.patch("Pod", "busy", {"status": {"phase": "Succeeded"}}, "default")
    await cluster.until(lambda: cluster.view("node-3") == "eco")


async def test_a_node_planned_performance_again_stops_draining(cluster):
    cluster.api.put_all(CPU_NODES)
    cluster.place("busy", "node-3")
    env = {"POLICY_TYPE": "queue_aware_v1", "QUEUE_HP_BASE_FRAC": "0", "QUEUE_PERF_PER_HP_NODE": "1"}
    cluster.start(**env)
    await cluster.until(lambda: cluster.settled() and cluster.view("node-3") == "eco-draining")
    for index in range(3):
        cluster.api.put(make_pod(f"waiting-{index}", workload_class="performance"))
    await cluster.until(lambda: cluster.settled() and cluster.view("node-3") == "performance")


async def test_eco_is_announced_by_label_and_twin_before_the_caps_come(cluster):
    cluster.api.put(CPU_NODES[0])
    cluster.start(STATIC_HP_FRAC="0", DOWNGRADE_SETTLE="60s")
    await cluster.until(lambda: cluster.labels("node-0") == ("eco", "false"))
    assert cluster.twin("node-0")["schedulableClass"] == "eco"
    assert cluster.target("node-0") is None


async def test_a_pod_that_arrives_while_eco_is_announced_makes_the_node_drain(cluster):
    cluster.api.put(CPU_NODES[0])
    cluster.start(STATIC_HP_FRAC="0", DOWNGRADE_SETTLE="500ms")
    await cluster.until(lambda: cluster.labels("node-0") == ("eco", "false"))
    cluster.place("late", "node-0")
    await cluster.until(lambda: cluster.view("node-0") == "eco-draining")
    targets = [
        request.json()["spec"] for request in cluster.api.requests.writes(kind="NodePowerProfile", subresource="")
    ]
    assert [caps(target) for target in targets] == [PERFORMANCE_CAPS]


async def test_on_the_way_to_performance_the_caps_are_lifted_before_the_node_is_offered(cluster):
    cluster.api.put(CPU_NODES[0])
    operator = cluster.start(STATIC_HP_FRAC="0")
    await cluster.until(lambda: cluster.view("node-0") == "eco")
    await operator.stop()
    since = len(cluster.api.requests)
    cluster.start(STATIC_HP_FRAC="1")
    await cluster.until(lambda: cluster.view("node-0") == "performance")
    writes = cluster.api.requests.writes(since=since, manager="joulie-operator")
    assert [write.kind for write in writes][:3] == ["NodePowerProfile", "NodeTwin", "Node"]


async def test_a_performance_pod_that_lands_on_an_eco_node_leaves_it_eco(cluster):
    cluster.api.put_all(CPU_NODES)
    cluster.start(RECONCILE_INTERVAL="200ms")
    await cluster.until(cluster.settled)
    passes = await passes_of(cluster)
    cluster.place("astray", "node-3")
    await cluster.until(lambda: cluster.view("node-3") == "eco")
    await passes(3)
    assert cluster.view("node-3") == "eco"


async def passes_of(cluster):
    """Return what waits for that many heartbeats of the lease, a clock that the server can see."""

    async def wait(count):
        since = len(cluster.api.requests)
        await cluster.until(lambda: len(cluster.api.requests.writes(kind="Lease", since=since)) >= 3 * count)

    return wait


@pytest.mark.parametrize("shape", ["unmanaged", "reserved", "deleted"])
async def test_a_node_that_leaves_management_loses_labels_and_objects(cluster, shape):
    cluster.api.put_all(CPU_NODES)
    cluster.start()
    await cluster.until(cluster.settled)
    leave(cluster, "node-3", shape)
    await cluster.until(lambda: is_clean(cluster, "node-3"))
    await cluster.until(lambda: all(cluster.view(f"node-{index}") for index in range(3)))


@pytest.mark.parametrize("shape", ["unmanaged", "reserved", "deleted"])
async def test_a_node_that_left_while_no_operator_ran_is_cleaned_too(cluster, shape):
    cluster.api.put_all(CPU_NODES)
    operator = cluster.start()
    await cluster.until(cluster.settled)
    await operator.stop()
    leave(cluster, "node-3", shape)
    cluster.start()
    await cluster.until(lambda: is_clean(cluster, "node-3"))


async def test_a_target_made_by_hand_for_a_node_that_is_not_managed_is_left_alone(cluster):
    cluster.api.put_all([*CPU_NODES, make_node("by-hand", managed=False)])
    made = make_node_power_profile("by-hand")
    cluster.api.put(made)
    cluster.start(RECONCILE_INTERVAL="100ms")
    await cluster.until(lambda: all(cluster.view(f"node-{index}") for index in range(4)))
    passes = await passes_of(cluster)
    await passes(2)
    assert cluster.target("by-hand") == made["spec"]
    assert not cluster.api.requests.writes(name="by-hand")


def leave(cluster, name, shape):
    match shape:
        case "unmanaged":
            cluster.api.patch("Node", name, {"metadata": {"labels": {labels.MANAGED: None}}})
        case "reserved":
            cluster.api.patch("Node", name, {"metadata": {"labels": {labels.RESERVED: "true"}}})
        case "deleted":
            cluster.api.remove("Node", name)


def is_clean(cluster, name):
    gone = cluster.target(name) is None and cluster.api.get("NodeTwin", name) is None
    return gone and (cluster.api.get("Node", name) is None or cluster.labels(name) == (None, None))


async def test_a_cordoned_node_keeps_its_target_and_is_left_out_of_the_plan(cluster):
    cluster.api.put_all(CPU_NODES)
    cluster.start()
    await cluster.until(lambda: cluster.settled() and cluster.performance() == {"node-0", "node-1"})
    cluster.api.patch("Node", "node-0", {"spec": {"unschedulable": True}})
    await cluster.until(lambda: cluster.settled() and cluster.performance() == {"node-0", "node-1", "node-2"})


async def test_a_draining_node_is_still_draining_after_a_restart(cluster):
    cluster.api.put_all(CPU_NODES)
    cluster.place("busy", "node-3")
    operator = cluster.start()
    await cluster.until(lambda: cluster.settled() and cluster.view("node-3") == "eco-draining")
    await operator.stop()
    since = len(cluster.api.requests)
    cluster.start()
    await cluster.until(lambda: cluster.api.requests.find(kind="Lease", verb="replace", since=since))
    cluster.api.remove("Pod", "busy", "default")
    await cluster.until(lambda: cluster.view("node-3") == "eco")
    targets = cluster.api.requests.writes(kind="NodePowerProfile", subresource="", since=since)
    assert [target.name for target in targets] == ["node-3"], "a restart repeats nothing and forgets nothing"


@pytest.mark.parametrize("writes", [1, 3, 6, 11, 19])
async def test_an_operator_killed_after_any_write_is_continued_by_the_next(cluster, mixed, writes):
    cluster.api.put_all(mixed)
    cluster.place("busy", "old-3")
    refused = [
        cluster.api.faults.add(Respond(503), verb=verb, path=path, times=None, skip=writes // share)
        for verb, path, share in (("apply", "/apis/joulie.io", 1), ("patch", "/nodes", 3))
    ]
    operator = cluster.start()
    await cluster.until(lambda: any(script.hits for script in refused))
    await operator.kill()
    cluster.api.faults.clear()
    cluster.start()
    await cluster.until(cluster.settled)
    assert cluster.performance() == {"gpu-0", "gpu-1", "gpu-2", "gpu-3", "new-0", "old-0"}
    assert cluster.view("old-3") == "eco-draining"


async def test_a_quiet_cluster_is_written_nothing_but_heartbeats(cluster, mixed):
    cluster.api.put_all(mixed)
    cluster.start(TWIN_HEARTBEAT="400ms", RECONCILE_INTERVAL="300ms")
    await cluster.until(lambda: cluster.settled() and cluster.api.count("Event") == len(mixed) / 2)
    since = len(cluster.api.requests)
    await cluster.until(lambda: len(cluster.api.requests.writes(kind="NodeTwin", since=since)) >= 3 * len(mixed))
    writes = [write for write in cluster.api.requests.writes(since=since) if write.kind != "Lease"]
    assert {(write.kind, write.subresource) for write in writes} == {("NodeTwin", "status")}


async def test_within_the_heartbeat_a_quiet_cluster_is_not_written_at_all(cluster, mixed):
    cluster.api.put_all(mixed)
    cluster.start(RECONCILE_INTERVAL="200ms")
    await cluster.until(lambda: cluster.settled() and cluster.api.count("Event") == len(mixed) / 2)
    passes = await passes_of(cluster)
    await passes(2)
    since = len(cluster.api.requests)
    await passes(5)
    assert not cluster.api.requests.writes(since=since, manager="joulie-operator")


async def test_conditions_show_planned_draining_and_enforced(cluster):
    cluster.api.put_all(CPU_NODES)
    cluster.place("busy", "node-3")
    operator = cluster.start()
    await cluster.until(lambda: cluster.settled() and cluster.view("node-3") == "eco-draining")
    found = cluster.conditions("node-3")
    assert {type_: each["status"] for type_, each in found.items()} == {
        "Planned": "True",
        "Draining": "True",
        "Enforced": "Unknown",
    }
    since = found["Draining"]["lastTransitionTime"]
    report(cluster, "node-3", result="applied", backend="rapl", reason="Capped", enforcedWatts=280)
    await cluster.until(lambda: cluster.conditions("node-3")["Enforced"]["status"] == "True")
    await operator.stop()
    cluster.start()
    report(cluster, "node-3", result="blocked", backend="rapl", reason="FirmwareLocked", message="locked")
    await cluster.until(lambda: cluster.conditions("node-3")["Enforced"]["status"] == "False")
    enforced = cluster.conditions("node-3")["Enforced"]
    assert (enforced["reason"], enforced["message"]) == ("FirmwareLocked", "cpu: rapl blocked, locked")
    assert cluster.conditions("node-3")["Draining"]["lastTransitionTime"] == since, "a restart keeps since when"
    owners = cluster.api.owners("NodePowerProfile", "node-3")
    assert set(owners) == {"joulie-operator"}
    await cluster.until(lambda: "CapsNotEnforced" in cluster.events("node-3"))


def report(cluster, name, **cpu):
    """Report as the node's agent."""
    cluster.api.put(make_telemetry_profile(name, control={"cpu": cpu}))


async def test_every_transition_and_every_unknown_class_is_an_event(cluster):
    cluster.api.put_all(CPU_NODES)
    cluster.place("busy", "node-3")
    cluster.place("odd", "node-0", workload_class="turbo")
    cluster.start(RECONCILE_INTERVAL="100ms")
    await cluster.until(lambda: cluster.settled() and cluster.view("node-3") == "eco-draining")
    cluster.api.remove("Pod", "busy", "default")
    await cluster.until(lambda: len(cluster.events("node-3")) == 2 and cluster.events("node-2"))
    assert cluster.events("node-3") == ["EcoDeferred", "EcoUnblocked"]
    assert cluster.events("node-2") == ["EcoAllowed"]
    assert cluster.events("odd", "Pod") == ["UnknownWorkloadClass"]
    assert cluster.events("node-0") == cluster.events("node-1") == []


async def test_conditions_changed_by_others_are_corrected(cluster):
    cluster.api.put(CPU_NODES[0])
    cluster.start(RECONCILE_INTERVAL="200ms", STATIC_HP_FRAC="1")
    await cluster.until(cluster.settled)
    before = cluster.conditions("node-0")
    forged = [{"type": "Draining", "status": "True", "reason": "Forged", "message": "", "lastTransitionTime": "x"}]
    cluster.api.patch("NodePowerProfile", "node-0", {"status": {"conditions": forged}})
    await cluster.until(lambda: cluster.conditions("node-0") == before)


@pytest.mark.parametrize("kind", ["NodePowerProfile", "NodeTwin"])
async def test_an_object_deleted_by_others_is_made_again(cluster, kind):
    cluster.api.put(CPU_NODES[0])
    cluster.start()
    await cluster.until(cluster.settled)
    cluster.api.remove(kind, "node-0")
    await cluster.until(cluster.settled)


async def test_labels_and_targets_changed_by_others_are_corrected(cluster):
    cluster.api.put_all(CPU_NODES)
    operator = cluster.start()
    await cluster.until(cluster.settled)
    await operator.stop()
    cluster.start()
    await cluster.until(lambda: len(cluster.api.requests.find(verb="watch", kind="NodePowerProfile")) >= 2)
    cluster.api.patch("Node", "node-0", {"metadata": {"labels": {labels.POWER_PROFILE: "eco"}}})
    cluster.api.patch("NodePowerProfile", "node-1", {"spec": {"profile": "eco"}})
    await cluster.until(lambda: cluster.settled() and cluster.performance() == {"node-0", "node-1"})


async def test_failed_writes_are_repeated(cluster):
    cluster.api.put_all(CPU_NODES)
    cluster.api.faults.add(Respond(500), verb="apply", times=3)
    cluster.api.faults.add(Respond(429, retry_after_s=0), verb="patch", times=2)
    cluster.start()
    await cluster.until(cluster.settled)


async def test_a_follower_watches_and_takes_over_when_the_leader_ends(cluster):
    cluster.api.put_all(CPU_NODES)
    first = cluster.start(POD_NAME="first")
    await cluster.until(cluster.settled)
    cluster.start(POD_NAME="second", STATIC_HP_FRAC="1")
    await first.kill()
    await cluster.until(lambda: len(cluster.performance()) == 4)


async def test_an_operator_that_loses_its_lease_ends_and_writes_nothing_more(cluster):
    cluster.api.put_all(CPU_NODES)
    # Some forty writes a second, one at a time: twelve seconds of them if it went on until the lease ran out.
    operator = cluster.start(TWIN_INTERVAL="50ms", TWIN_HEARTBEAT="100ms", WRITE_CONCURRENCY="1")
    await cluster.until(cluster.settled)
    lease = cluster.api.get("Lease", "joulie-operator", "joulie-system")
    lease["spec"] |= {"holderIdentity": "another", "leaseDurationSeconds": 3600}
    before = len(cluster.api.requests)
    cluster.api.put(lease)
    with pytest.raises(BaseExceptionGroup) as ended:
        async with asyncio.timeout(30):
            await operator.task
    assert ended.value.subgroup(LeadershipLost) or "LeadershipLost" in repr(ended.value.exceptions[0].__cause__)
    reads_lease = [request.verb == "get" and request.kind == "Lease" for request in cluster.api.requests]
    lost = reads_lease.index(True, before)
    assert len(cluster.api.requests.writes(since=lost, manager="joulie-operator")) <= 4, "those under way"


async def test_transitions_are_counted_once_and_series_vanish_with_their_node(cluster):
    cluster.api.put_all(CPU_NODES)
    cluster.place("busy", "node-3")
    operator = cluster.start(RECONCILE_INTERVAL="100ms")
    await cluster.until(lambda: cluster.settled() and cluster.view("node-3") == "eco-draining")
    cluster.api.remove("Pod", "busy", "default")
    await cluster.until(lambda: cluster.settled() and cluster.view("node-3") == "eco")
    text = await operator.metrics()
    changed = "joulie_operator_state_transitions_total{from_state="
    assert {line for line in text.splitlines() if line.startswith(changed) and "node-3" in line} == {
        f'{changed}"ActivePerformance",node="node-3",result="deferred",to_state="DrainingPerformance"}} 1.0',
        f'{changed}"DrainingPerformance",node="node-3",result="unblocked",to_state="ActiveEco"}} 1.0',
    }
    assert 'joulie_operator_node_state{node="node-3",state="ActiveEco"} 1.0' in text
    assert 'joulie_operator_node_profile_label{node="node-3",profile="eco"} 1.0' in text
    assert 'joulie_operator_node_compute_density{component="cpu",node="node-3"} ' in text
    assert 'joulie_operator_node_power_watts{node="node-3",quality="modelled",source="utilization"} ' in text
    assert 'joulie_operator_node_capped_power_watts{node="node-3"} ' in text
    assert 'joulie_operator_writes_total{kind="NodePowerProfile",result="applied"}' in text
    assert "joulie_operator_reconcile_duration_seconds_count" in text
    leave(cluster, "node-3", "unmanaged")
    await cluster.until(lambda: is_clean(cluster, "node-3"))
    async with asyncio.timeout(30):
        while "node-3" in await operator.metrics():
            pass


async def test_an_operator_is_ready_once_it_has_seen_everything_whether_it_leads_or_not(cluster):
    cluster.api.put_all(CPU_NODES)
    leader = cluster.start()
    await cluster.until(cluster.settled)
    follower = cluster.start()
    await cluster.until(lambda: follower.app.health.readiness().ok)
    assert leader.app.health.readiness().ok
    assert "joulie_operator_node_state{" not in await follower.metrics()


async def test_gpus_that_pods_claim_are_busy_in_the_model_of_their_node(cluster, mixed):
    cluster.api.put_all([*dra_definitions(), make_claim("all", count=8, template=True), *mixed])
    cluster.start()
    await cluster.until(cluster.settled)
    idle = cluster.twin("gpu-0")["powerMeasurement"]["measuredNodePowerW"]
    cluster.api.put(claiming(make_pod("train", node="gpu-0", cpu="1m"), template="all"))
    # Eight H100 at 60 % load draw far more than they idle.
    await cluster.until(lambda: cluster.twin("gpu-0")["powerMeasurement"]["measuredNodePowerW"] > idle + 1000)


async def test_the_watts_of_a_whole_server_come_and_go_in_its_twin_beside_the_others(cluster):
    cluster.api.put(CPU_NODES[0])
    reading = {"powerWatts": 412.0, "sampledAt": rfc3339(time.time(), "seconds"), "intervalSeconds": 60}
    cluster.api.put(make_node_bmc("node-0", status=reading))
    cluster.start(TWIN_INTERVAL="100ms")

    def server():
        return ((cluster.api.get("NodeTwin", "node-0") or {}).get("status") or {}).get("serverMeasurement")

    await cluster.until(server)
    assert server() == {
        "source": "redfish",
        "measuredServerPowerW": 412,
        "sampledAt": reading["sampledAt"],
        "intervalSeconds": 60,
    }
    assert cluster.api.get("NodeTwin", "node-0")["status"]["powerMeasurement"]["source"] == "utilization"
    old = rfc3339(time.time() - 200, "seconds")
    cluster.api.put(make_node_bmc("node-0", status=reading | {"sampledAt": old}))
    await cluster.until(lambda: server() is None)
