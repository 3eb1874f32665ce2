"""Nodes and services of the study of SCORE_MAX, and how far the services did not get what they prefer."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

import numpy as np

from joulie_devcluster.control_plane.nodes import CpuClass, GpuClass, NodeClass
from joulie_testing.api.builders import make_pod

_ZONE: Final = "topology.kubernetes.io/zone"
_HOST: Final = "kubernetes.io/hostname"
_DISK: Final = "disk"
_ZONES: Final = ("a", "b", "c")
_REPLICAS: Final = 16
_SERVICES: Final = 12
#: Kinds of nodes: name, CPU model, cores, GPU, number in each zone. Zones grow by generations and are not alike; local
#: disks are in the nodes with GPUs.
_KINDS: Final = (
    ("epyc-9654", "AMD-EPYC-9654", 192, None, (8, 2, 0)),
    ("epyc-7763", "AMD-EPYC-7763", 128, None, (9, 4, 2)),
    ("xeon-8480", "Intel-Xeon-Platinum-8480", 112, None, (0, 8, 9)),
    ("l40s", "AMD-EPYC-9354", 64, GpuClass(model="NVIDIA-L40S", count=4), (0, 2, 6)),
)


@dataclass(frozen=True, slots=True)
class SpreadService:
    """Equal pods with one soft request."""

    name: str
    request: str
    cpu: int

    def manifest(self, number: int, namespace: str) -> dict[str, Any]:
        """Return one of its pods."""
        labels = {"app": self.name}
        pod = make_pod(
            f"{self.name}-{number}",
            namespace,
            cpu=self.cpu,
            memory=f"{2 * self.cpu}Gi",
            labels=labels,
            affinity=_AFFINITIES[self.request](labels),
        )
        if self.request == "zones":
            constraint = {"maxSkew": 1, "topologyKey": _ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
            pod["spec"]["topologySpreadConstraints"] = [constraint | {"labelSelector": {"matchLabels": labels}}]
        return pod


def _apart(labels: Mapping[str, str]) -> dict[str, Any]:
    term = {"topologyKey": _HOST, "labelSelector": {"matchLabels": dict(labels)}}
    weighted = {"weight": 100, "podAffinityTerm": term}
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}


def _on_disk(_labels: Mapping[str, str]) -> dict[str, Any]:
    preference = {"matchExpressions": [{"key": _DISK, "operator": "In", "values": ["ssd"]}]}
    weighted = {"weight": 100, "preference": preference}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}


_AFFINITIES: Final = {"zones": lambda _labels: None, "nodes": _apart, "label": _on_disk}


def node_classes() -> list[NodeClass]:
    """Return 50 nodes in three zones."""
    return [
        NodeClass(
            name=f"{name}-{zone}",
            count=counts[place],
            cpu=CpuClass(model=model, sockets=2, cores=cores),
            gpu=gpu,
            memory="1Ti",
            labels={_ZONE: zone, _DISK: "hdd" if gpu is None else "ssd"},
        )
        for place, zone in enumerate(_ZONES)
        for name, model, cores, gpu, counts in _KINDS
        if counts[place]
    ]


def services(seed: int) -> list[SpreadService]:
    """Return the services of a seed."""
    source = np.random.Generator(np.random.PCG64(seed))
    kinds = list(_AFFINITIES)
    return [
        SpreadService(f"s{index}", kinds[index % len(kinds)], int(source.choice((2, 4, 8, 16))))
        for index in range(_SERVICES)
    ]


def arrivals(of: Sequence[SpreadService], seed: int) -> list[tuple[SpreadService, int]]:
    """Return the pods of all services, in a random order."""
    pods = [(service, number) for service in of for number in range(_REPLICAS)]
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(pods))
    return [pods[index] for index in order]


def violations(
    of: Sequence[SpreadService], placed: Mapping[tuple[str, int], str], machines: Mapping[str, Mapping[str, str]]
) -> dict[str, float]:
    """Return how many pods in a hundred are where their service did not prefer them, by request.

    Args:
        of: the services.
        placed: the node of each pod, by service and number.
        machines: labels of each node.

    Returns:
        For `zones` the pods beyond an even share of their zone, for `nodes` those that are not alone on their node with
        regard to their service, for `label` those on nodes without it.
    """
    against: Counter[str] = Counter()
    pods: Counter[str] = Counter()
    for service in of:
        nodes = [node for (name, _), node in placed.items() if name == service.name]
        pods[service.request] += len(nodes)
        match service.request:
            case "zones":
                zones = Counter(machines[node][_ZONE] for node in nodes)
                against["zones"] += sum(max(0, count - ceil(len(nodes) / len(_ZONES))) for count in zones.values())
            case "nodes":
                against["nodes"] += len(nodes) - len(set(nodes))
            case _:
                against["label"] += sum(machines[node][_DISK] != "ssd" for node in nodes)
    return {f"{request}_pct": 100.0 * against[request] / pods[request] for request in _AFFINITIES}
