import json

from joulie_testing.api import make_pod
from joulie_testing.cli import ago, make_event, managed_node


async def test_refusing_nodes_are_grouped_by_reason_with_what_to_change(fake_api, cli):
    fake_api.put_all(managed_node("e1", "eco"))
    fake_api.put_all(managed_node("e2", "eco"))
    fake_api.put_all(managed_node("d1", "eco", draining=True))
    fake_api.put(make_pod("train", workload_class="performance"))
    message = "0/3 nodes are available: 3 node(s) were rejected"
    fake_api.put(make_event("Pod", "train", "FailedScheduling", message, component="default-scheduler", at=ago(5)))
    result = await cli("why-pending", "train")
    text = " ".join(result.out.split())
    assert result.code == 0
    assert "performance: its annotation joulie.io/workload-class is performance" in text
    assert "FailedScheduling" in text
    assert "refused, EcoNode: 2 nodes: node is eco, performance pods are kept off it: e1, e2" in text
    assert "refused, DrainingNode: 1 node" in text
    assert "Every managed node is eco or draining" in text
    assert "remove its annotation" in text


async def test_a_pod_that_joulie_does_not_refuse_points_at_the_scheduler(fake_api, cli):
    fake_api.put_all(managed_node("e1", "eco"))
    fake_api.put(make_pod("web"))
    text = " ".join((await cli("why-pending", "web")).out.split())
    assert "allowed, StandardPod: 1 node" in text
    assert "in the scheduler's message" in text
    assert "eco or draining" not in text


async def test_an_annotation_that_excludes_the_constraints_is_found(fake_api, cli):
    fake_api.put_all(managed_node("e1", "eco"))
    selector = {"joulie.io/power-profile": "eco"}
    fake_api.put(make_pod("odd", workload_class="performance", node_selector=selector))
    assert "exclude each other" in " ".join((await cli("why-pending", "odd")).out.split())


async def test_scheduling_gates_and_another_scheduler_are_named(fake_api, cli):
    fake_api.put_all(managed_node("e1", "eco"))
    pod = make_pod("gated")
    pod["spec"] |= {"schedulingGates": [{"name": "quota"}], "schedulerName": "volcano"}
    fake_api.put(pod)
    text = " ".join((await cli("why-pending", "gated")).out.split())
    assert "scheduling gates: quota" in text
    assert "placed by 'volcano'" in text


async def test_a_node_selector_that_no_managed_node_has_is_found(fake_api, cli):
    fake_api.put_all(managed_node("e1", "eco"))
    fake_api.put(make_pod("lost", node_selector={"disk": "ssd"}))
    assert "No managed node has the labels of its nodeSelector, disk=ssd" in (await cli("why-pending", "lost")).out


async def test_a_pod_on_a_node_needs_no_change(fake_api, cli):
    fake_api.put_all(managed_node("n1"))
    fake_api.put(make_pod("runs", node="n1"))
    assert "Nothing: the pod is on node n1" in (await cli("why-pending", "runs")).out


async def test_nodes_that_sleep_are_named_with_what_wakes_them(fake_api, cli):
    for name, state in (("n1", "asleep"), ("n2", "draining"), ("n3", "waking")):
        fake_api.put_all(managed_node(name))
        fake_api.patch("Node", name, {"metadata": {"labels": {"joulie.io/sleep-state": state}}})
    fake_api.put(make_pod("train", workload_class="performance"))
    text = " ".join((await cli("why-pending", "train")).out.split())
    assert "refused, SleepingNode: 2 nodes: node is asleep, or about to be" in text
    assert "Wait for n3: it boots." in text
    assert "The operator wakes nodes for pods that kube-scheduler has found no node for" in text
    assert "kubectl joulie wake n1" in text
    assert "eco or draining" not in text
    assert "remove its annotation" not in text, "it would not help"


async def test_a_cluster_of_which_all_nodes_sleep_is_not_called_eco(fake_api, cli):
    fake_api.put_all(managed_node("n1", "eco"))
    fake_api.patch("Node", "n1", {"metadata": {"labels": {"joulie.io/sleep-state": "asleep"}}})
    fake_api.put(make_pod("web"))
    text = " ".join((await cli("why-pending", "web")).out.split())
    assert "The operator wakes nodes" in text
    assert "eco or draining" not in text


async def test_the_report_is_also_data(fake_api, cli):
    fake_api.put_all(managed_node("e1", "eco"))
    fake_api.put(make_pod("train", workload_class="performance"))
    data = json.loads((await cli("why-pending", "train", "-o", "json")).out)
    assert data["filterResults"] == [
        {
            "allowed": False,
            "reason": "EcoNode",
            "message": "joulie: node is eco, performance pods are kept off it",
            "nodes": ["e1"],
        }
    ]
