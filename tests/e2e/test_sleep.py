"""A node goes to sleep and wakes on a real control plane: by its BMC, the real out-of-band service and the operator."""

import json
import time
from pathlib import Path

import pytest
from tests.e2e.sleep_site import CORES, NODE, OTHERS, SleepSite, end, sleep_site
from tests.e2e.view import ClusterView
from tests.e2e.waiting import eventually

from joulie_api.resources import NODE_BMCS, NODE_SLEEP_POLICIES, NODES, Resource
from joulie_devcluster.fixtures import Starter
from joulie_sim.stack.service import Service

pytestmark = pytest.mark.e2e

_DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
_DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
_APP = {"app": "guarded"}


@pytest.fixture
async def site(start_cluster: Starter, tmp_path: Path):
    async with sleep_site(start_cluster, tmp_path / "bmc") as found:
        yield found


def _is_guarded(pod: dict) -> bool:
    return _APP.items() <= pod["metadata"].get("labels", {}).items()


def _deployment() -> dict:
    prefer = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}]}
    affinity = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": prefer}]}
    }
    containers = [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}]
    spec = {"containers": containers, "affinity": affinity, "terminationGracePeriodSeconds": 0}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "guarded"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": _APP},
            "template": {"metadata": {"labels": _APP}, "spec": spec},
        },
    }


def _where(pod: dict) -> tuple[str | None, str | None, str | None]:
    """Return node, time of deletion and phase of a pod, for the message of a failure."""
    return pod["spec"].get("nodeName"), pod["metadata"].get("deletionTimestamp"), pod["status"].get("phase")


async def _guarded(view: ClusterView) -> dict:
    """Return the pod of the Deployment, which runs."""
    pods = [pod for pod in (await view.pods()).values() if _is_guarded(pod)]
    running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    assert len(running) == 1, f"{len(running)} pods run"
    return running[0]


async def _restart_operator(site: SleepSite) -> None:
    await end(site.stack.operator)
    await site.stack.operator.start()


async def test_a_node_sleeps_and_wakes_for_a_pending_pod_and_a_guarded_pod_is_not_lost(site: SleepSite) -> None:
    view, server = site.view, site.machine.server
    await site.prove()
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guarded"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": _APP}},
    }
    await view.client.create(_BUDGETS, budget, view.namespace)
    await view.client.create(_DEPLOYMENTS, _deployment(), view.namespace)
    await eventually(lambda: _guarded(view), within_s=20)
    before = await _guarded(view)
    assert before["spec"]["nodeName"] == NODE

    await site.put_policy()
    await site.reaches("draining")
    await site.reaches("awake")
    assert (await _guarded(view))["metadata"]["uid"] == before["metadata"]["uid"], "the budget holds"

    await view.client.delete(_BUDGETS, "guarded", view.namespace)
    await site.reaches("powering-off")
    await _restart_operator(site)
    await site.reaches("asleep", within_s=60)

    async def is_off() -> None:
        # The condition is written after the label: it is part of the status.
        node = await site.node()
        conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
        assert (conditions["joulie.io/Asleep"], server.power_state) == ("True", "Off")
        assert "joulie.io/asleep" in {taint["key"] for taint in node["spec"]["taints"]}

    await eventually(is_off, within_s=10)
    moved = await _guarded(view)
    assert moved["spec"]["nodeName"] in OTHERS

    async def counted() -> None:
        status = await site.status()
        assert (status["nodes"]["asleep"], status["savedWatts"] > 0) == (1, True)

    await eventually(counted, within_s=10)

    pods = await view.create_pods(3, "big", cpu=str(CORES - 10))
    began = time.monotonic()
    placed = await _all_placed(view, pods)
    assert set(placed.values()) == {NODE, *OTHERS}
    assert time.monotonic() - began < 60
    await site.reaches("awake")
    assert server.resets == ["GracefulShutdown", "On", "GracefulShutdown", "On"]

    async def is_left_alone() -> None:
        assert "desiredPower" not in (await view.objects(NODE_BMCS))[NODE]["spec"]

    await eventually(is_left_alone, within_s=10)


async def _all_placed(view: ClusterView, pods: list[str]) -> dict[str, str]:
    await eventually(lambda: view.placed(pods), within_s=60)
    return dict(await view.placed(pods))


async def test_a_policy_that_is_deleted_wakes_its_nodes(site: SleepSite) -> None:
    await site.prove()
    await site.put_policy()
    await site.reaches("asleep")
    await site.view.client.delete(NODE_SLEEP_POLICIES, "night")
    await site.reaches("awake")
    assert site.machine.server.power_state == "On"


async def test_a_roll_out_of_a_daemon_set_wakes_the_node_that_it_waits_for(site: SleepSite) -> None:
    view = site.view
    labels = {"app": "everywhere"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "pause"}], "tolerations": [{"operator": "Exists"}]},
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "everywhere"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }

    async def rolled_out(generation: int) -> None:
        status = json.loads(await view.client.get(_DAEMON_SETS, "everywhere", view.namespace))["status"]
        seen = (status.get("observedGeneration"), status.get("updatedNumberScheduled"), status.get("numberReady"))
        assert seen == (generation, 3, 3), {name: _where(pod) for name, pod in (await view.pods()).items()}

    await site.prove()
    await view.client.create(_DAEMON_SETS, body, view.namespace)
    await eventually(lambda: rolled_out(1), within_s=30)
    await site.put_policy()
    await site.reaches("asleep")
    changed = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "pause:next"}]}}}}
    await view.client.merge_patch(_DAEMON_SETS, "everywhere", changed, view.namespace)
    await site.reaches("awake")
    await eventually(lambda: rolled_out(2), within_s=60)
    await site.reaches("asleep")


async def _shuts_down(site: SleepSite) -> None:
    assert "GracefulShutdown" in site.machine.server.resets[2:]


async def test_a_node_that_is_taken_back_while_its_server_shuts_down_takes_no_pods_before_it_has_booted(
    site: SleepSite,
) -> None:
    server = site.machine.server
    await site.prove()
    await site.put_policy()
    await eventually(lambda: _shuts_down(site), within_s=40)
    site.machine.clock.hold()
    assert server.power_state == "PoweringOff"
    await site.desire("On")
    marks = {"labels": {"joulie.io/sleep-state": None}, "annotations": {"joulie.io/sleep-record": None}}
    await site.view.client.merge_patch(NODES, NODE, {"metadata": marks, "spec": {"taints": None}})
    await site.reaches("waking", within_s=10)
    site.machine.clock.release()

    while server.resets[3:] != ["On"]:
        label, taint, *_ = await site.marks()
        assert server.resets[3:] == ["On"] or (label and taint), "it takes pods while it shuts down"
    await site.change_policy(mode="Observe")
    await site.reaches("awake")
    assert server.resets == ["GracefulShutdown", "On", "GracefulShutdown", "On"]

    async def is_not_marked() -> None:
        meta = (await site.view.objects(NODE_BMCS))[NODE]["metadata"]
        assert "joulie.io/switched-off" not in meta.get("annotations", {})

    await eventually(is_not_marked, within_s=10)


async def test_a_wake_while_the_out_of_band_service_is_away_is_no_failed_boot(site: SleepSite) -> None:
    server = site.machine.server
    await site.prove()
    await site.put_policy(bootTimeoutSeconds=2, bootAttempts=1)
    await site.reaches("asleep")
    await end(site.stack.services[Service.OUTOFBAND])
    awake = {"metadata": {"annotations": {"joulie.io/awake-until": "2100-01-01T00:00:00Z"}}}
    await site.view.client.merge_patch(NODES, NODE, awake)
    await site.reaches("waking", within_s=10)

    async def time_passes() -> None:
        assert time.time() - began > 5

    began = time.time()
    await eventually(time_passes, within_s=10)
    assert await site.state() == "waking", "a boot of two seconds has not failed"
    await site.change_policy(bootTimeoutSeconds=60)
    await site.stack.services[Service.OUTOFBAND].start()
    await site.reaches("awake")
    assert server.resets[-1] == "On"
