"""The operator watches Nodes and Pods once, whatever is switched on. `cluster` and its helpers are in conftest."""

import pytest

from joulie_api.node_pods import ACTIVE_PODS
from joulie_core import labels
from joulie_testing.api import make_node, make_pod, make_power_domain

_CPU = {"cpu_model": "AMD EPYC 7763", "cpu_sockets": 2, "cpu": 256}
_SLEEP = {"SLEEP_ENABLED": "true", "SLEEP_INTERVAL": "200ms"}
_LIFT = {"LIFT_CLASS_LIMITS": "true"}
_DOMAINS = {"POWER_DOMAINS": "Observe"}


def opened(cluster, kind):
    """Return the selectors of the watches of a kind that were opened, and of its lists."""
    found = cluster.api.requests.find(kind=kind)
    return {
        verb: [
            (each.query.get("labelSelector", ""), each.query.get("fieldSelector", ""))
            for each in found
            if each.verb == verb
        ]
        for verb in ("list", "watch")
    }


@pytest.mark.parametrize(
    ("env", "selector"),
    [
        ({}, "joulie.io/managed=true"),
        (_SLEEP, ""),
        (_DOMAINS, ""),
        (_SLEEP | _DOMAINS, ""),
    ],
    ids=["neither", "sleep", "domains", "both"],
)
async def test_nodes_are_listed_and_watched_once(cluster, env, selector):
    cluster.api.put_all([make_node("n1", **_CPU), make_node("other", managed=False)])
    cluster.start(**env)
    await cluster.until(lambda: cluster.view("n1") and cluster.api.watches("Node"))
    assert opened(cluster, "Node") == {"list": [(selector, "")], "watch": [(selector, "")]}
    assert (cluster.target("other"), cluster.twin("other"), cluster.labels("other")) == (None, None, (None, None))


@pytest.mark.parametrize("env", [{}, _LIFT, _SLEEP, _SLEEP | _LIFT], ids=["neither", "lifting", "sleep", "both"])
async def test_pods_are_listed_and_watched_once(cluster, env):
    cluster.api.put(make_node("n1", **_CPU))
    cluster.start(**env)
    await cluster.until(lambda: cluster.view("n1") and cluster.api.watches("Pod"))
    assert opened(cluster, "Pod") == {"list": [("", ACTIVE_PODS)], "watch": [("", ACTIVE_PODS)]}


async def test_a_pod_that_cannot_be_read_is_set_aside_once_and_others_count(cluster):
    cluster.api.put_all([make_node("n1", **_CPU), make_node("n2", **_CPU)])
    cluster.api.put(make_pod("odd", node="n1", cpu="lots"))
    cluster.api.put(make_pod("good", node="n2", cpu=1, workload_class="performance"))
    operator = cluster.start(**_SLEEP, **_LIFT)
    await cluster.until(lambda: cluster.view("n1") and cluster.view("n2"))
    metrics = await operator.metrics()
    assert 'joulie_objects_set_aside{resource="pods"} 1.0' in metrics
    assert 'joulie_invalid_input_total{source="pods"} 1.0' in metrics


@pytest.mark.parametrize("env", [{}, _SLEEP, _DOMAINS], ids=["neither", "sleep", "domains"])
async def test_a_node_that_begins_and_ceases_to_be_selected_is_managed_meanwhile(cluster, env):
    cluster.api.put_all([make_node("n1", **_CPU), make_node("n2", managed=False, **_CPU)])
    cluster.start(NODE_SELECTOR="joulie.io/managed in (true),!joulie.io/left-out", **env)
    await cluster.until(lambda: cluster.view("n1"))
    cluster.api.patch("Node", "n2", {"metadata": {"labels": {labels.MANAGED: "true"}}})
    await cluster.until(lambda: cluster.view("n2"))
    cluster.api.patch("Node", "n2", {"metadata": {"labels": {"joulie.io/left-out": "yes"}}})
    await cluster.until(lambda: cluster.target("n2") is None and cluster.labels("n2") == (None, None))
    await cluster.until(lambda: cluster.view("n1"))


async def test_power_domains_have_nodes_that_are_not_managed_also_with_sleep(cluster):
    cluster.api.put_all([make_node("n1", **_CPU), make_node("other", managed=False)])
    cluster.api.put(make_power_domain("rack", nodeSelector={"kubernetes.io/hostname": "other"}))
    cluster.start(**_SLEEP, **_DOMAINS)
    await cluster.until(lambda: cluster.api.get("PowerDomain", "rack").get("status"))
    assert cluster.api.get("PowerDomain", "rack")["status"]["nodes"] == 1


async def test_a_node_that_cannot_be_read_is_set_aside_once(cluster):
    cluster.api.put_all([make_node("n1", **_CPU), make_node("n2", **_CPU)])
    cluster.api.put(make_node("odd"))
    cluster.api.patch("Node", "odd", {"spec": {"unschedulable": "perhaps"}})
    operator = cluster.start(**_SLEEP, **_DOMAINS)
    await cluster.until(lambda: cluster.view("n1") and cluster.view("n2"))
    metrics = await operator.metrics()
    assert 'joulie_objects_set_aside{resource="nodes"} 1.0' in metrics
    assert 'joulie_invalid_input_total{source="nodes"} 1.0' in metrics
    assert "nodes for" not in metrics
