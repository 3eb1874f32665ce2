"""The chart's NetworkPolicies as rendered. Needs Helm and no cluster."""

import pytest
from tests.chart import EVERYTHING, POOL, RESOURCE_MANAGER, VEN, WATCHDOG, WORKLOADS, Helm, find

ON = {"networkPolicy": {"enabled": True}}
DNS = {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}


def policies(manifests):
    return [each["spec"] for each in manifests if each["kind"] == "NetworkPolicy"]


def policy(manifests, name):
    return find(manifests, "NetworkPolicy", name)["spec"]


def ports(policy):
    return [port["port"] for rule in policy["ingress"] for port in rule["ports"]]


def test_there_are_none_by_default(helm: Helm):
    assert policies(helm.render({})) == []


@pytest.mark.parametrize("values", [{}, POOL, RESOURCE_MANAGER, WATCHDOG], ids=["default", "pool", "manager", "dog"])
def test_every_pod_of_the_release_has_exactly_one_that_restricts_both_directions(helm: Helm, values):
    manifests = helm.render(values | ON)
    found = policies(manifests)
    assert all(each["policyTypes"] == ["Ingress", "Egress"] for each in found)
    for workload in (each for each in manifests if each["kind"] in WORKLOADS):
        labels = workload["spec"]["template"]["metadata"]["labels"]
        matching = [each for each in found if each["podSelector"]["matchLabels"].items() <= labels.items()]
        assert len(matching) == 1, workload["metadata"]["name"]


def test_ports_are_the_metrics_and_the_extenders_own(helm: Helm):
    manifests = helm.render(RESOURCE_MANAGER | ON)
    assert ports(policy(manifests, "joulie-operator")) == ["metrics"]
    assert ports(policy(manifests, "joulie-scheduler-extender")) == ["http", "metrics"]
    assert ports(policy(manifests, "joulie-agent")) == ["metrics", "node-agent", "resources"]
    page = helm.render({"operator": {"ui": {"enabled": True}}} | ON)
    assert ports(policy(page, "joulie-operator")) == ["metrics", "ui"]
    assert ports(policy(helm.render(POOL | ON), "joulie-agent")) == ["metrics"]
    assert ports(policy(manifests, "joulie-uninstall")) == []


def test_peers_are_those_of_the_values(helm: Helm):
    extender = policy(helm.render(EVERYTHING), "power-scheduler-extender")
    work, metrics = extender["ingress"]
    scheduler, test = work["from"]
    assert scheduler == {"ipBlock": {"cidr": "10.0.0.0/8"}}
    assert test["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "test"
    assert metrics["from"][0]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "monitoring"}
    api = {"ports": [{"port": 6443}], "to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}
    assert extender["egress"] == [DNS, api]


def test_only_agents_reach_http_backends_and_only_the_outofband_service_reaches_bmcs(helm: Helm):
    manifests = helm.render(EVERYTHING)
    backends = EVERYTHING["networkPolicy"]["agentEgress"]
    assert policy(manifests, "power-agent")["egress"][2:] == backends
    assert policy(manifests, "power-outofband")["egress"][2:] == EVERYTHING["networkPolicy"]["bmcEgress"]
    for name in ("power-operator", "power-scheduler-extender", "power-uninstall"):
        assert len(policy(manifests, name)["egress"]) == 2


def test_the_ven_reaches_its_vtn(helm: Helm):
    egress = [{"to": [{"ipBlock": {"cidr": "10.4.0.0/16"}}], "ports": [{"port": 443}]}]
    found = policy(helm.render(VEN | {"networkPolicy": {"enabled": True, "vtnEgress": egress}}), "joulie-ven")
    assert (ports(found), found["egress"][2:]) == (["metrics"], egress)


def test_helm_test_reaches_the_extender_and_nothing_else(helm: Helm):
    found = policy(helm.render(EVERYTHING), "power-test")
    assert found["ingress"] == []
    (egress,) = found["egress"]
    assert egress["ports"] == [{"port": "http"}]
    (peer,) = egress["to"]
    assert peer["podSelector"] == policy(helm.render(EVERYTHING), "power-scheduler-extender")["podSelector"]


def test_pods_without_a_controller_reach_nothing(helm: Helm):
    manifests = helm.render(WATCHDOG | ON)
    for name in ("joulie-restore", "joulie-restore-watchdog"):
        restore = policy(manifests, name)
        assert (restore["ingress"], restore["egress"]) == ([], [])
