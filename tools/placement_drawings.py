"""Writes docs/img/containers-*.svg: one node and the same containers under each container policy."""

import sys
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, Final
from xml.sax.saxutils import escape

from tools.generated import ROOT, finish

from joulie_core.containers.balloons.policy import BalloonsContainerPolicy
from joulie_core.containers.container import (
    ContainerId,
    ContainerInfo,
    ContainerResources,
    PodInfo,
    PodSandboxId,
    QosClass,
)
from joulie_core.containers.idset import Cpus, IdSet
from joulie_core.containers.policy import ContainerPolicy, Placement, PolicyState
from joulie_core.containers.template import TemplateContainerPolicy
from joulie_core.containers.topology import HardwareTopology
from joulie_core.containers.topology_aware.policy import TopologyAwareContainerPolicy
from joulie_core.kinds.balloons_policy import BalloonsPolicySpec
from joulie_core.kinds.template_policy import TemplatePolicySpec
from joulie_core.kinds.topology_aware_policy import TopologyAwarePolicySpec
from joulie_testing.core.machines import MachineShape

#: Two packages of four cores with two threads, one NUMA node each.
NODE: Final = MachineShape(packages=2, cores_per_node=4, threads_per_core=2).topology()
_GIB = 1 << 30
_RESERVED = {"reservedResources": {"cpu": "1"}}
#: The configuration in docs/container-resources.md.
BALLOONS: Final[Mapping[str, Any]] = _RESERVED | {
    "balloonTypes": [
        {
            "name": "performance",
            "cpuClass": "performance",
            "preferNewBalloons": True,
            "matchExpressions": [
                {"key": "pod/annotations/joulie.io/workload-class", "operator": "Equals", "values": ["performance"]}
            ],
        },
        {"name": "standard", "cpuClass": "eco", "namespaces": ["*"], "shareIdleCPUsInSame": "package"},
    ]
}


def _container(number: int, name: str, qos: QosClass, milli: int, **pod: Any) -> ContainerInfo:
    guaranteed = qos is QosClass.GUARANTEED
    return ContainerInfo(
        id=ContainerId(name),
        pod=PodInfo(
            id=PodSandboxId(f"pod-{name}"), uid=name, namespace=pod.pop("namespace", "shop"), name=name, qos=qos, **pod
        ),
        name=name,
        created_ns=number + 1,
        resources=ContainerResources(
            cpu_request_milli=milli,
            cpu_limit_milli=milli if guaranteed else None,
            memory_request_bytes=_GIB if milli else 0,
            memory_limit_bytes=_GIB if guaranteed else None,
        ),
    )


_PERFORMANCE = {"annotations": {"joulie.io/workload-class": "performance"}}
CONTAINERS: Final = (
    _container(0, "dns", QosClass.BURSTABLE, 100, namespace="kube-system"),
    _container(1, "inference", QosClass.GUARANTEED, 4_000, **_PERFORMANCE),
    _container(2, "database", QosClass.GUARANTEED, 2_000, **_PERFORMANCE),
    _container(3, "web", QosClass.BURSTABLE, 1_500),
    _container(4, "batch", QosClass.BEST_EFFORT, 0),
)


def _policies(node: HardwareTopology) -> Mapping[str, ContainerPolicy[Any]]:
    return {
        "topology-aware": TopologyAwareContainerPolicy(TopologyAwarePolicySpec.model_validate(_RESERVED), node),
        "balloons": BalloonsContainerPolicy(BalloonsPolicySpec.model_validate(BALLOONS), node, {}),
        "template": TemplateContainerPolicy(TemplatePolicySpec.model_validate(_RESERVED), node),
    }


def main() -> int:
    """Write the drawings, or check them."""
    status = 0
    for name, policy in _policies(NODE).items():
        state: PolicyState = policy.synchronize(CONTAINERS, {}).state
        status |= finish(ROOT / "docs" / "img" / f"containers-{name}.svg", drawing(NODE, state.placements), "just docs")
    return status


_COLORS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#eeca3b")
_IDLE = "#e8e8e8"
_CELL, _GAP, _LEFT, _TOP = 46, 8, 16, 34
_ROW = 22


def drawing(node: HardwareTopology, placements: Mapping[ContainerId, Placement]) -> str:
    """Return a node as SVG: threads as squares, by core and package, in the colour of the containers that use them."""
    users = {cpu: _users(cpu, placements) for cpu in node.cpus}
    colors = dict(zip(sorted(set(users.values()) - {()}, key=_order), cycle(_COLORS)))
    parts = [_package(node, cpus, users, colors, place) for place, cpus in enumerate(node.packages.values())]
    cores = max(len(_cores(node, cpus)) for cpus in node.packages.values())
    width = _LEFT + len(node.packages) * (cores * (_CELL + _GAP) + 3 * _GAP)
    top = _TOP + 2 * _CELL + 3 * _GAP + _ROW
    legend = [_legend(colors[names], names, placements, top + line * _ROW) for line, names in enumerate(colors)]
    legend.append(_line(_IDLE, "no container", top + len(colors) * _ROW))
    height = top + (len(colors) + 1) * _ROW
    size = f'width="{width}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">'
    return "\n".join([head, f'<rect {size} fill="white"/>', *parts, *legend, "</svg>", ""])


def _users(cpu: int, placements: Mapping[ContainerId, Placement]) -> tuple[str, ...]:
    return tuple(each.id for each in CONTAINERS if (cpus := placements[each.id].cpus) is not None and cpu in cpus)


def _order(names: Sequence[str]) -> list[int]:
    return [place for place, each in enumerate(CONTAINERS) if each.id in names]


def _cores(node: HardwareTopology, cpus: Cpus) -> list[Cpus]:
    return [core for core in node.cores.values() if core <= cpus]


def _package(
    node: HardwareTopology,
    cpus: Cpus,
    users: Mapping[int, tuple[str, ...]],
    colors: Mapping[tuple[str, ...], str],
    place: int,
) -> str:
    cores = _cores(node, cpus)
    width = len(cores) * (_CELL + _GAP) + _GAP
    left = _LEFT + place * (width + 2 * _GAP)
    lines = [
        f'<text x="{left}" y="{_TOP - 12}">package {place}, memory node {node.nodes_of(cpus)}</text>',
        f'<rect x="{left}" y="{_TOP}" width="{width}" height="{2 * _CELL + 3 * _GAP}" fill="none" stroke="#333"/>',
    ]
    for column, core in enumerate(cores):
        for row, cpu in enumerate(core):
            x, y = left + _GAP + column * (_CELL + _GAP), _TOP + _GAP + row * (_CELL + _GAP)
            color = colors.get(users[cpu], _IDLE)
            lines.append(f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" rx="4" fill="{color}"/>')
            lines.append(f'<text x="{x + _CELL / 2:g}" y="{y + 28}" text-anchor="middle">{cpu}</text>')
    return "\n".join(lines)


def _legend(color: str, names: Sequence[str], placements: Mapping[ContainerId, Placement], y: int) -> str:
    memory = {str(IdSet(placements[ContainerId(name)].memory or NODE.nodes)) for name in names}
    where = f"memory of node {memory.pop()}" if len(memory) == 1 else "each with its own memory nodes"
    return _line(color, f"{', '.join(names)}: {where}", y)


def _line(color: str, text: str, y: int) -> str:
    box = f'<rect x="{_LEFT}" y="{y}" width="14" height="14" rx="3" fill="{color}"/>'
    return f'{box}<text x="{_LEFT + 22}" y="{y + 12}">{escape(text)}</text>'


if __name__ == "__main__":
    sys.exit(main())
