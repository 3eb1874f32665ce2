"""Pods of one container each, as a runtime describes them."""

import random
from dataclasses import dataclass
from typing import Any

MIB = 1 << 20
#: Kinds of containers: quality of service, thousandths of a CPU, and how many of 500 there are.
MIX = (
    ("Guaranteed", 1_000, 40),
    ("Guaranteed", 2_000, 24),
    ("Guaranteed", 4_000, 10),
    ("Guaranteed", 8_000, 3),
    ("Burstable", 100, 200),
    ("Burstable", 250, 80),
    ("BestEffort", 0, 143),
)
_PARENTS = {"Guaranteed": "/kubepods", "Burstable": "/kubepods/burstable", "BestEffort": "/kubepods/besteffort"}


@dataclass(frozen=True)
class Workload:
    """Pods and their containers, in the same order."""

    pods: list[dict[str, Any]]
    created: list[dict[str, Any]]
    #: Ids of containers of Guaranteed pods.
    guaranteed: list[str]

    @property
    def running(self) -> list[dict[str, Any]]:
        """The containers as a runtime lists those that run."""
        return [container | {"state": "CONTAINER_RUNNING"} for container in self.created]


def make_workload(count: int, seed: int) -> Workload:
    """Return so many pods, mixed as `MIX`, in an order that the seed decides."""
    total = sum(share for _, _, share in MIX)
    kinds = [(qos, milli) for qos, milli, share in MIX for _ in range(round(share * count / total))]
    random.Random(seed).shuffle(kinds)
    pods = [_pod(number, qos) for number, (qos, _) in enumerate(kinds)]
    created = [_container(number, qos, milli) for number, (qos, milli) in enumerate(kinds)]
    guaranteed = [f"container-{number}" for number, (qos, _) in enumerate(kinds) if qos == "Guaranteed"]
    return Workload(pods, created, guaranteed)


def _pod(number: int, qos: str) -> dict[str, Any]:
    return {
        "id": f"pod-{number}",
        "uid": f"uid-{number}",
        "name": f"pod-{number}",
        "namespace": "default",
        "linux": {"cgroupParent": f"{_PARENTS[qos]}/pod{number}"},
    }


def _container(number: int, qos: str, milli: int) -> dict[str, Any]:
    cpu: dict[str, Any] = {"shares": {"value": max(2, milli * 1024 // 1000)}}
    memory: dict[str, Any] = {}
    if qos == "Guaranteed":
        cpu |= {"quota": {"value": milli * 100}, "period": {"value": 100_000}}
        memory = {"limit": {"value": 512 * MIB}}
    return {
        "id": f"container-{number}",
        "podSandboxId": f"pod-{number}",
        "name": "main",
        "createdAt": 1_700_000_000_000_000_000 + number,
        "linux": {"resources": {"cpu": cpu, "memory": memory}},
    }
