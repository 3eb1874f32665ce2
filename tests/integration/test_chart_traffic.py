"""What the chart's NetworkPolicies allow in the kind cluster, as another project's evaluator sees it.

Needs Helm, cyclonus and no cluster. It evaluates policies as the API documents them; a network plugin enforces them.
"""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chart import NAMESPACE, RESOURCE_MANAGER, ROOT, WORKLOADS, Helm, Manifest

_VALUES = {
    **RESOURCE_MANAGER,
    "operator": {"ui": {"enabled": True}, "sleep": {"enabled": True}},
    "outofband": {"enabled": True, "secrets": ["bmc"]},
}
_BMC_EGRESS = [
    {"to": [{"ipBlock": {"cidr": "198.51.100.0/24"}}], "ports": [{"port": 443}, {"port": 623, "protocol": "UDP"}]}
]
_BACKEND_EGRESS = [{"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}], "ports": [{"port": 443}]}]
_ANSWER = re.compile(r"IS ALLOWED\?\s*\|\s*(TRUE|FALSE)")


@dataclass(frozen=True)
class Peer:
    """A pod, or an address outside of the cluster's pods."""

    address: str
    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return cyclonus's description."""
        if not self.namespace:
            return {"IP": self.address}
        labels = {"kubernetes.io/metadata.name": self.namespace}
        pod = {"PodLabels": dict(self.labels), "NamespaceLabels": labels, "Namespace": self.namespace}
        return {"IP": self.address, "Internal": pod}


@dataclass(frozen=True)
class Port:
    """A port of a peer; the name is that of the container's port."""

    peer: str
    number: int
    name: str = ""
    protocol: str = "TCP"


@dataclass(frozen=True)
class Network:
    """Peers by name, and the ports that they listen on."""

    peers: Mapping[str, Peer]
    ports: Sequence[Port]


def network(manifests: Sequence[Manifest]) -> Network:
    """Return the pods of the release, two more pods, and addresses in and outside of the cluster."""
    peers = {
        "node": Peer("172.18.0.2"),
        "internet": Peer("203.0.113.9"),
        "backend": Peer("192.0.2.5"),
        "bmc": Peer("198.51.100.7"),
        "dns": Peer("10.244.0.2", "kube-system", (("k8s-app", "kube-dns"),)),
        "prometheus": Peer("10.244.1.8", "monitoring", (("app", "prometheus"),)),
        "stranger": Peer("10.244.1.9", "default", (("app", "stranger"),)),
    }
    ports = [
        Port("node", 6443),
        Port("internet", 443),
        Port("internet", 53),
        Port("backend", 443),
        Port("bmc", 443),
        Port("bmc", 623, protocol="UDP"),
        Port("dns", 53, protocol="UDP"),
        Port("dns", 53),
    ]
    for number, workload in enumerate(each for each in manifests if each["kind"] in WORKLOADS):
        template = workload["spec"]["template"]
        labels = template["metadata"]["labels"]
        name = workload["metadata"]["name"]
        peers[name] = Peer(f"10.244.2.{number + 1}", NAMESPACE, tuple(labels.items()))
        for container in template["spec"]["containers"]:
            ports += [Port(name, port["containerPort"], port["name"]) for port in container.get("ports", ())]
    return Network(peers, ports)


@dataclass(frozen=True)
class Judge:
    """cyclonus, and a directory for its files."""

    program: Path
    directory: Path

    def allowed(self, manifests: Sequence[Manifest]) -> set[tuple[str, str, int]]:
        """Return source, destination and port of the connections of the release that policies let through."""
        found = network(manifests)
        pairs = [
            (source, port)
            for source, port in product(found.peers, found.ports)
            if source != port.peer and NAMESPACE in {found.peers[source].namespace, found.peers[port.peer].namespace}
        ]
        policies = [each for each in manifests if each["kind"] == "NetworkPolicy"]
        listed = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicyList", "items": policies}
        policy_path, traffic_path = self.directory / "policies.yaml", self.directory / "traffic.json"
        policy_path.write_text(yaml.safe_dump(listed))
        traffic = [
            {
                "Source": found.peers[source].as_json(),
                "Destination": found.peers[port.peer].as_json(),
                "ResolvedPort": port.number,
                "ResolvedPortName": port.name,
                "Protocol": port.protocol,
            }
            for source, port in pairs
        ]
        traffic_path.write_text(json.dumps(traffic))
        command = [self.program, "analyze", "--mode", "query-traffic", "--policy-path", policy_path]
        done = subprocess.run(
            [*command, "--traffic-path", traffic_path], capture_output=True, text=True, timeout=60, check=True
        )
        answers = _ANSWER.findall(done.stdout)
        assert len(answers) == len(pairs), done.stdout[:2_000]
        allowed = [pair for pair, answer in zip(pairs, answers, strict=True) if answer == "TRUE"]
        return {(source, port.peer, port.number) for source, port in allowed}


@pytest.fixture
def judge(cyclonus: Path, tmp_path: Path) -> Judge:
    return Judge(cyclonus, tmp_path)


def test_pods_reach_what_they_need_and_are_reached_by_who_needs_them_and_by_nothing_else(helm: Helm, judge: Judge):
    kind = yaml.safe_load((ROOT / "kind" / "network-policies.yaml").read_text())["networkPolicy"]
    policy = kind | {"bmcEgress": _BMC_EGRESS, "agentEgress": _BACKEND_EGRESS}
    users = ("operator", "scheduler-extender", "outofband", "agent")
    users += ("restore-wake", "restore-withdraw", "restore-verify")
    metrics = (("operator", 8081), ("scheduler-extender", 9877), ("outofband", 8084), ("agent", 8080))
    metrics += (("agent", 8082), ("agent", 8085))
    assert judge.allowed(helm.render(_VALUES | {"networkPolicy": policy})) == {
        *((f"joulie-{user}", "node", 6443) for user in users),
        # A node's own cache of DNS may have any address.
        *((f"joulie-{user}", peer, 53) for user, peer in product(users, ("dns", "internet"))),
        ("node", "joulie-scheduler-extender", 9876),
        ("joulie-test", "joulie-scheduler-extender", 9876),
        *(("prometheus", f"joulie-{service}", port) for service, port in metrics),
        ("joulie-outofband", "bmc", 443),
        ("joulie-outofband", "bmc", 623),
        ("joulie-agent", "backend", 443),
    }


def test_an_empty_list_of_peers_means_everybody_and_still_only_the_ports(helm: Helm, judge: Judge):
    allowed = judge.allowed(helm.render(_VALUES | {"networkPolicy": {"enabled": True}}))
    by_stranger = {(service, port) for source, service, port in allowed if source == "stranger"}
    assert by_stranger == {
        *(("joulie-operator", port) for port in (8081, 8083)),
        *(("joulie-scheduler-extender", port) for port in (9876, 9877)),
        *(("joulie-agent", port) for port in (8080, 8082, 8085)),
        ("joulie-outofband", 8084),
    }
    by_agent = {(peer, port) for source, peer, port in allowed if source == "joulie-agent"}
    dns = {("dns", 53), ("internet", 53)}
    assert by_agent == dns | {("node", 6443), ("internet", 443), ("backend", 443), ("bmc", 443)}
    assert not [each for each in allowed if each[0] == "joulie-restore"]


def test_without_policies_everything_is_let_through(helm: Helm, judge: Judge):
    """What the other tests compare with: the evaluator refuses for the policies alone."""
    allowed = judge.allowed(helm.render(_VALUES))
    assert {("stranger", "joulie-operator", 8081), ("joulie-restore", "internet", 443)} <= allowed
